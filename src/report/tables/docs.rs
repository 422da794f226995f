//! `docs/tables.md` against the one definition of the tables.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::replay::words::FlipPolicy;
use crate::report::glossary::{self, Term};
use crate::tables::export::SCHEMA_VERSION;
use crate::tables::{ColumnDef, Table, Words};

/// The words of an enumeration: their heading, what they say, and each with its meaning.
type Section = (&'static str, &'static str, &'static [Term]);

fn section(of: &str) -> Section {
    match of {
        "Verdict" => (
            "Verdicts",
            "Why a task waited, the first that matches.",
            &glossary::VERDICTS,
        ),
        "Path" => (
            "Paths",
            "By which road a wakeup reached the chosen CPU.",
            &glossary::PATHS,
        ),
        "Class" => (
            "Classes of wakeups",
            "What kind of wakeup it was, as far as the events show.",
            &glossary::CLASSES,
        ),
        "Waker" => (
            "Contexts",
            "What a CPU was doing when it woke a task, or when it recorded an event.",
            &glossary::WAKERS,
        ),
        "Origin" => (
            "Origins of waits",
            "How a task came to wait.",
            &glossary::ORIGINS,
        ),
        "Distance" => (
            "Distances",
            "How far apart two CPUs are: the smallest thing they share.",
            &glossary::DISTANCES,
        ),
        "Left" => (
            "Ways to leave a CPU",
            "How a task left its CPU.",
            &glossary::LEFT,
        ),
        "MigrationCause" => (
            "Causes of migrations",
            "Why a task was moved from one CPU to another.",
            &glossary::CAUSES,
        ),
        "MigrationKind" => (
            "Kinds of migrations",
            "The state in which a task was moved.",
            &glossary::MIGRATION_KINDS,
        ),
        "Confidence" => (
            "Degrees of confidence",
            "How sure the cause of a migration is.",
            &glossary::CONFIDENCES,
        ),
        "IpiKind" => (
            "Kinds of requests",
            "What one CPU wanted of another.",
            &glossary::IPIS,
        ),
        "IpiRoad" => (
            "Roads of requests",
            "How a CPU was asked.",
            &glossary::IPI_ROADS,
        ),
        "IpiFate" => (
            "Fates of requests",
            "What became of a request.",
            &glossary::IPI_FATES,
        ),
        "FlushReason" => (
            "Reasons of flushes",
            "Why a TLB was flushed: the kernel's `enum tlb_flush_reason` (include/linux/mm_types.h).",
            &glossary::FLUSH_REASONS,
        ),
        "Decision" => (
            "Decisions",
            "What the kernel's `wake_wide()` says of a wakeup, as far as the counts are known.",
            &glossary::DECISIONS,
        ),
        "Mark" => (
            "Marks",
            "What a mark says of units of work.",
            &glossary::MARKS,
        ),
        other => panic!("no words of {other} here"),
    }
}

/// What the definition says, as Markdown.
fn generated() -> String {
    let mut text = format!(
        "Version {SCHEMA_VERSION} of the tables. In brief:\n\n| table | its rows | sorted by |\n| --- | --- | --- |\n"
    );
    for table in Table::ALL {
        let name = table.as_str();
        let _ = writeln!(
            text,
            "| [{name}](#{name}) | {} | {} |",
            table.about(),
            sorted(*table)
        );
    }
    let mut words = BTreeMap::new();
    for table in Table::ALL {
        push_table(&mut text, *table, &mut words);
    }
    text.push_str("\n## The words\n");
    for (of, all) in words {
        push_words(&mut text, section(of), &all);
    }
    let policies: Vec<&str> = FlipPolicy::ALL
        .iter()
        .map(|policy| policy.as_str())
        .collect();
    let about = "Ways to count flips and to judge by them: how counts decay, and the rule of `wake_wide()`.";
    push_words(
        &mut text,
        ("Policies", about, &glossary::POLICIES),
        &policies,
    );
    text
}

/// The columns' names in what a table is sorted by, as code.
fn sorted(table: Table) -> String {
    let columns = table.columns();
    let words = table.order().split_inclusive([' ', ',']);
    let words = words.map(|word| {
        let bare = word.trim_end_matches([' ', ',']);
        match columns.iter().any(|column| column.name == bare) {
            true => format!("`{bare}`{}", &word[bare.len()..]),
            false => word.to_owned(),
        }
    });
    words.collect()
}

fn push_table(
    text: &mut String,
    table: Table,
    words: &mut BTreeMap<&'static str, Vec<&'static str>>,
) {
    let _ = writeln!(
        text,
        "\n## {}\n\n{}\n\n| column | type | unit | meaning |\n| --- | --- | --- | --- |",
        table.as_str(),
        table.about()
    );
    for column in table.columns() {
        if let Some(Words { of, list }) = column.words {
            words.insert(of, list());
        }
        let unit = column.unit().filter(|unit| *unit != "count");
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} |",
            column.name,
            column.exported().sql(),
            unit.unwrap_or_default(),
            meaning(column)
        );
    }
}

fn meaning(column: &ColumnDef) -> String {
    let doc = column.doc.replace('|', "\\|");
    match column.words {
        None => doc,
        Some(words) => {
            let (heading, _, _) = section(words.of);
            let anchor = heading.to_lowercase().replace(' ', "-");
            let (first, rest) = heading.split_at(1);
            format!(
                "{doc} One of the [{}{rest}](#{anchor}).",
                first.to_lowercase()
            )
        }
    }
}

fn push_words(text: &mut String, (heading, about, terms): Section, all: &[&str]) {
    let _ = writeln!(
        text,
        "\n### {heading}\n\n{about}\n\n| word | meaning |\n| --- | --- |"
    );
    for word in all {
        let term = terms.iter().find(|term| term.word == *word);
        let term = term.unwrap_or_else(|| panic!("{heading}: {word} has no meaning"));
        let _ = writeln!(text, "| `{word}` | {} |", term.meaning);
    }
}

const START: &str =
    "<!-- From here on this is what src/tables/schema.rs says; a test compares it. -->\n";

/// `TTWU_WRITE_DOCS=1 cargo test --release --lib the_docs_say` writes it anew.
#[test]
fn the_docs_say_what_the_tables_are() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/tables.md");
    let docs = std::fs::read_to_string(&path).unwrap();
    let (prose, told) = docs.split_once(START).unwrap();
    let generated = generated();
    if std::env::var_os("TTWU_WRITE_DOCS").is_some() {
        std::fs::write(&path, format!("{prose}{START}\n{generated}")).unwrap();
        return;
    }
    for (told, defined) in told.trim().lines().zip(generated.trim().lines()) {
        assert_eq!(
            told, defined,
            "TTWU_WRITE_DOCS=1 writes docs/tables.md anew"
        );
    }
    assert_eq!(
        told.trim().lines().count(),
        generated.trim().lines().count()
    );
}
