//! Hand-worked traces: every verdict, and a twin that differs in one event and gets the neighbouring one.

mod support;

use support::script::Script;
use ttwu::replay::words::{Class, Path, Reading, Verdict};

/// Two LLCs of two cores of two threads.
const TWO_LLCS: &str = "llc=0-3;4-7 smt=0-1;2-3;4-5;6-7 node=0-7 online=0-7";

/// CPU 0 runs 10, CPU 1 runs 11; 20 sleeps after running on CPU 1; CPUs 2 and 3 idle; 4 to 7 busy.
/// 10 wakes 20, which is left on busy CPU 1 although CPUs 2 and 3 idle, and runs there at 2000.
fn left_on_prev() -> Script {
    Script::new(
        TWO_LLCS,
        "100 0 0  switch 0:R 10
         110 1 0  switch 0:R 20
         120 2 30 switch 30:S 0
         130 3 31 switch 31:S 0
         140 4 0  switch 0:R 14
         150 5 0  switch 0:R 15
         160 6 0  switch 0:R 16
         170 7 0  switch 0:R 17
         200 1 20 switch 20:S 11
         1000 0 10 sel 20 prev=1 nr=8
         1000 0 10 waking 20 prev=1
         1010 0 10 wakeup 20 to=1
         2000 1 11 switch 11:R 20
         2500 1 20 switch 20:S 11
         3000 0 10 switch 10:S 0",
    )
}

#[test]
fn left_on_a_busy_previous_cpu_is_prev() {
    let mut script = left_on_prev();
    script.events.retain(|e| !matches!(e.payload, ttwu_parsers::event::Payload::Select(_)));
    script.version = (6, 8);
    let (rows, _) = script.run();
    let wait = rows.waits.iter().find(|w| w.start_ns == 1010).unwrap();
    assert_eq!(wait.wait_ns, 990);
    assert_eq!(wait.verdict[Reading::Any], Verdict::Prev);
    assert_eq!(wait.idle_cpus[Reading::Any], 2);
    // Seen only on CPU 1, by the other reading nothing idle was allowed.
    assert_eq!(wait.verdict[Reading::Seen], Verdict::Affinity);
    assert_eq!(wait.lost_ns[Reading::Any], 990);
    assert_eq!(wait.lost_ns[Reading::Seen], 0);
    let wakeup = rows.wakeups.iter().find(|w| w.waking_ns == Some(1000)).unwrap();
    assert_eq!(wakeup.class, Class::Direct);
    assert_eq!(wakeup.path, Path::DirectNoIpi);
    assert_eq!((wakeup.latency_ns, wakeup.queue_ns), (Some(1000), Some(990)));
    assert_eq!(wakeup.waker_cost_ns, Some(10));
    assert_eq!(wakeup.wakee_run_ns, Some(500));
}
