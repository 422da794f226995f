//! A simulated machine with a scheduler of its own, which knows the truth of the traces that it writes.
//!
//! `machine` has the CPUs, `kernels` what each release does and tells. `run` sets a machine up and lets it work by chance:
//! `agent` says what tasks and interrupts do, `placement` where wakees go, `wakeups` and `balancing` how they get there;
//! `scheduler` holds the state and emits `events`. `notes` keeps every change of it. `recording` is what a recorder would
//! have of that, `trace_dat` and `perf_data` write it as `formats` has it. `truth` works out from the notes, by
//! brute force, what a report should say. None of these use anything of the program; the tests do.

mod agent;
mod balancing;
mod bytes;
mod check;
mod events;
mod flips;
mod formats;
mod interrupts;
mod kernels;
mod machine;
mod notes;
mod perf_data;
mod placement;
mod plan;
mod random;
mod recording;
mod run;
mod scheduler;
mod stage;
mod tests_estimates;
mod tests_exact;
mod tests_files;
mod tests_flips;
mod tests_invariants;
mod tests_ipis;
mod tests_losses;
mod tests_moves;
mod tests_path;
mod tests_plants;
mod tests_probes;
mod tests_throughput;
mod tests_untold;
mod timeline;
mod trace_dat;
mod truth_ledger;
mod truth_path;
mod truth_report;
mod truth_waits;
mod truth_wakeups;
mod wakeups;
mod workloads;
