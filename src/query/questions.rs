//! The questions that come with the program: the files of `queries/`, each with a comment that says what it answers.

use super::QueryError;

/// A question and its SQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question {
    pub name: &'static str,
    pub sql: &'static str,
}

macro_rules! questions {
    ($($name:literal)*) => {
        /// Every question, by name.
        pub const ALL: &[Question] = &[$(Question {
            name: $name,
            sql: include_str!(concat!("../../queries/", $name, ".sql")),
        },)*];
    };
}

questions! {
    "bounces-by-cause"
    "bouncing"
    "cross-llc-by-task"
    "flips-against-pulls"
    "flips-by-policy"
    "flips-by-task"
    "flush-sizes"
    "hosts-by-missed-idle"
    "idle-exits-by-cpu"
    "idle-exits-by-length"
    "idle-search"
    "ipi-callbacks"
    "ipi-matrix"
    "ipi-victims"
    "latency-by-distance"
    "latency-over-time"
    "ledger-by-cpu"
    "ledger-by-llc"
    "ledger-by-second"
    "lost-events"
    "migrations-by-cause"
    "missed-idle-by-llc"
    "releases-by-missed-idle"
    "runqueue-depth"
    "runqueue-depth-by-cpu"
    "slices-after-migration"
    "smt-sharing"
    "stacked-pairs"
    "task-timeline"
    "tasks-by-lost"
    "thread-spread"
    "tlb-by-task"
    "traces-overview"
    "transit-by-distance"
    "waits-by-cause"
    "waits-by-task"
    "wakeup-paths"
    "wakeups-by-class"
    "who-migrates-whom"
    "worst-pairs"
}

/// How alike a name must be to be proposed.
const ALIKE: f64 = 0.7;

impl Question {
    /// The question of a name.
    ///
    /// # Errors
    /// If there is none; the error proposes one like it.
    pub fn named(name: &str) -> Result<&'static Self, QueryError> {
        let bare = name.strip_suffix(".sql").unwrap_or(name);
        let found = ALL.iter().find(|question| question.name == bare);
        found.ok_or_else(|| {
            let alike = |of: &Question| strsim::jaro_winkler(of.name, bare);
            let most = ALL.iter().max_by(|a, b| alike(a).total_cmp(&alike(b)));
            let most = most.filter(|of| alike(of) >= ALIKE);
            QueryError::NoQuestion {
                asked: name.to_owned(),
                like: most.map_or(String::new(), |of| format!("; did you mean `{}`?", of.name)),
            }
        })
    }

    /// What it answers: the first line of its comment.
    pub fn title(&self) -> &'static str {
        let first = self.sql.lines().next().unwrap_or_default();
        first.trim_start_matches('-').trim()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_file_is_there() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("queries");
        let names = std::fs::read_dir(folder).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let files: BTreeSet<String> = names
            .filter_map(|name| name.strip_suffix(".sql").map(str::to_owned))
            .collect();
        let listed = ALL.iter().map(|question| question.name.to_owned());
        assert!(files.len() >= 16);
        assert_eq!(files, listed.collect());
        assert!(ALL.is_sorted_by_key(|question| question.name));
        for question in ALL {
            let title = question.title();
            assert!(question.sql.starts_with("-- "), "{}", question.name);
            assert!((10..=70).contains(&title.chars().count()), "{title}");
        }
    }

    #[test]
    fn a_name_may_be_mistyped() {
        assert_eq!(Question::named("worst-pairs").unwrap().name, "worst-pairs");
        assert_eq!(
            Question::named("worst-pairs.sql").unwrap().name,
            "worst-pairs"
        );
        let error = Question::named("worst-pair").unwrap_err().to_string();
        assert!(error.contains("did you mean `worst-pairs`?"), "{error}");
        let error = Question::named("zzz").unwrap_err().to_string();
        assert!(!error.contains("did you mean"), "{error}");
    }
}
