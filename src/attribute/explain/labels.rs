//! How the words are found that stand in no enumeration.

use super::how::{cause, decision, distance, ledger, reading_rule, verdict};
use crate::attribute::scope::Facts;
use crate::replay::units::Work;

/// The rules for a word of the report, each a full sentence.
pub fn rules(facts: &Facts, word: &str) -> Vec<String> {
    match word {
        "waiting" => ledger(facts, word),
        "lost" => vec![
            "A wait's lost time is its share of the time in which CPUs that run nothing are matched to tasks that wait: it is CPU \
             time, not waiting time, and the lost times of all waits sum to the waiting rows of the ledger."
                .to_owned(),
            reading_rule().to_owned(),
        ],
        "lost CPU capacity" => vec![
            "The waiting rows of the ledger, divided by running and waiting rows together.".to_owned(),
            "Time in transit is not in it: that is waiting time of the task on its way, whose work the CPU does right after. The \
             report's first sentences compare both, each as a share of all CPU time: `Largest loss` or `Largest delay`."
                .to_owned(),
        ],
        "withheld" => vec![
            "The kernel switched the CPU to its idle task although a task was queued there by the events: its cgroup had used up \
             its quota, core scheduling or a BPF scheduler held it back, or the event that took it away is missing."
                .to_owned(),
            "Such time is in no wait, verdict or waiting row.".to_owned(),
        ],
        "withdrawn" => vec![
            "A wait or wakeup in which events are missing, or contradict each other, is counted as withdrawn and has no verdict \
             or latency."
                .to_owned(),
        ],
        "cold cache" | "transfer" => crossing(word),
        "bounces" => vec![
            "Moves of one task, in the order of their stamps: to another LLC, and from there back to the first.".to_owned(),
        ],
        "unit" => unit(facts),
        "gain at most" => vec![
            "Of a time per unit T in which a part takes t, removing the part gives at most T / (T - t) - 1, if order and \
             placement of everything else stay as they are."
                .to_owned(),
            "None is given for running. Where waits for CPUs that were all busy are more than a tenth of the path none is given \
             at all: other work would take the place of what is removed."
                .to_owned(),
        ],
        "mostly" => vec![
            "Each part of the critical path is split further: running by task, transit by path and distance, waits by verdict and \
             by what the CPU ran meanwhile. The largest of these is named; --json has all."
                .to_owned(),
        ],
        "moved" => cause(facts),
        "xLLC" => distance(facts),
        "stacked" => verdict(facts, "stacked-prev"),
        _ => decision(facts),
    }
}

fn crossing(word: &str) -> Vec<String> {
    let crosses = match word {
        "cold cache" => {
            "A wakeup counts if its chosen CPU and the wakee's previous CPU have different LLCs."
        }
        _ => {
            "A wakeup counts if its waker's CPU and its chosen CPU have different LLCs, and the wakee's previous CPU has not."
        }
    };
    vec![
        crosses.to_owned(),
        "The wakee's time on the CPU until it blocks is compared with that after the same task's wakeups that do not cross: the \
         difference of 10 %-trimmed means, times the wakeups that cross, with a 95 % bootstrap interval. It takes 30 wakeups on \
         either side, and an interval that does not hold 0; else it is not measurable."
            .to_owned(),
        "It is an association: tasks may cross just when they have more to do. Only two runs can show a cause.".to_owned(),
    ]
}

fn unit(facts: &Facts) -> Vec<String> {
    let counted = match &facts.config.work {
        None => {
            "No unit of work is named (--work): counted are the wakeups of the group of tasks that wake each other most, which \
             says nothing of the work done."
        }
        Some(Work::Task(_)) => "Counted are cycles of such a task: it was woken, ran, and blocked.",
        Some(Work::Event(_)) => "Counted are such events.",
        Some(Work::Marker(_)) => {
            "Counted is what markers say: the difference of two readings `PREFIX unit N`, or, without such, each marker as one."
        }
        Some(Work::Total(_)) => "The number of units is the one given; the span is the window.",
    };
    vec![
        counted.to_owned(),
        "Time per unit is the span from the first unit's start to the last one's end, divided by the units in it.".to_owned(),
    ]
}
