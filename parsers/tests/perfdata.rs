//! perf.data files: those that perf wrote against `perf script`, written ones against what was written, and damaged ones.

mod support {
    pub mod perf_oracle;
    pub mod perf_writer;
}

#[path = "support/perf_containers.rs"]
mod containers;
#[path = "support/perf_counters.rs"]
mod counters;
#[path = "support/perf_damage.rs"]
mod damage;
#[path = "support/perf_early.rs"]
mod early;
#[path = "support/perf_losses.rs"]
mod losses;
#[path = "support/perf_recorded.rs"]
mod recorded;
