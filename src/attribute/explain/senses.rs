//! Which words there are, and what each may mean: the same word can stand in several enumerations.

use crate::replay::words::{
    Category, Class, Decision, FlipPolicy, IpiKind, LedgerRow, MigrationCause, Origin, Path,
    Reading, Verdict, Waker,
};
use crate::topology::Distance;

/// An enumeration whose words can be explained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    Verdict,
    Path,
    Class,
    Waker,
    Origin,
    Distance,
    Ledger,
    Category,
    Cause,
    Ipi,
    Policy,
    Decision,
    Role,
    Better,
    Reading,
    Label,
}

/// A word in one of its meanings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sense {
    pub kind: Kind,
    pub word: &'static str,
}

impl Kind {
    pub const ALL: [Kind; 16] = [
        Kind::Verdict,
        Kind::Path,
        Kind::Class,
        Kind::Waker,
        Kind::Origin,
        Kind::Distance,
        Kind::Ledger,
        Kind::Category,
        Kind::Cause,
        Kind::Ipi,
        Kind::Policy,
        Kind::Decision,
        Kind::Role,
        Kind::Better,
        Kind::Reading,
        Kind::Label,
    ];

    /// What is typed before a word to mean this kind alone, as in `path:local`.
    pub const fn key(self) -> &'static str {
        match self {
            Kind::Verdict => "verdict",
            Kind::Path => "path",
            Kind::Class => "class",
            Kind::Waker => "waker",
            Kind::Origin => "origin",
            Kind::Distance => "distance",
            Kind::Ledger => "ledger",
            Kind::Category => "category",
            Kind::Cause => "cause",
            Kind::Ipi => "ipi",
            Kind::Policy => "policy",
            Kind::Decision => "decision",
            Kind::Role => "role",
            Kind::Better => "better",
            Kind::Reading => "reading",
            Kind::Label => "label",
        }
    }

    /// Its words, in the order of their codes.
    pub fn words(self) -> Vec<&'static str> {
        fn of<W: Copy>(all: &[W], word: fn(W) -> &'static str) -> Vec<&'static str> {
            all.iter().map(|w| word(*w)).collect()
        }
        match self {
            Kind::Verdict => of(Verdict::ALL, Verdict::as_str),
            Kind::Path => of(Path::ALL, Path::as_str),
            Kind::Class => of(Class::ALL, Class::as_str),
            Kind::Waker => of(Waker::ALL, Waker::as_str),
            Kind::Origin => of(Origin::ALL, Origin::as_str),
            Kind::Distance => of(&Distance::ALL, Distance::as_str),
            Kind::Ledger => of(LedgerRow::ALL, LedgerRow::as_str),
            Kind::Category => of(Category::ALL, Category::as_str),
            Kind::Cause => of(MigrationCause::ALL, MigrationCause::as_str),
            Kind::Ipi => of(IpiKind::ALL, IpiKind::as_str),
            Kind::Policy => {
                let mut words = of(&FlipPolicy::SIX, FlipPolicy::as_str);
                words.push(KERNEL);
                words
            }
            Kind::Decision => of(Decision::ALL, Decision::as_str),
            Kind::Role => ROLES.to_vec(),
            Kind::Better => BETTER.to_vec(),
            Kind::Reading => of(Reading::ALL, Reading::as_str),
            Kind::Label => LABELS.to_vec(),
        }
    }

    /// The place of a word, which is its code.
    pub fn code(self, word: &str) -> u8 {
        let at = self.words().iter().position(|w| *w == word);
        at.and_then(|at| u8::try_from(at).ok()).unwrap_or(u8::MAX)
    }
}

/// The policy of the kernel that was recorded.
pub const KERNEL: &str = "kernel";

const ROLES: [&str; 3] = ["1:N", "N:1", "ping-pong"];
const BETTER: [&str; 3] = ["spread", "stack", "undecided"];

/// Words of the report that stand in no enumeration: rows and columns of its tables, and what its sentences count.
const LABELS: [&str; 15] = [
    "waiting",
    "lost",
    "lost CPU capacity",
    "withheld",
    "withdrawn",
    "cold cache",
    "transfer",
    "bounces",
    "unit",
    "gain at most",
    "mostly",
    "moved",
    "xLLC",
    "stacked",
    "open",
];

/// Other forms of some of these.
const ALIASES: [(&str, &str); 8] = [
    ("lost-capacity", "lost CPU capacity"),
    ("bounce", "bounces"),
    ("units", "unit"),
    ("gain", "gain at most"),
    ("move", "moved"),
    ("moves", "moved"),
    ("migrations", "moved"),
    ("across-LLCs", "xLLC"),
];

/// A text that is no word, with what there is instead.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NoWord {
    #[error("there is no such word{}; words are:{}", like(.near), all())]
    Word { near: Vec<&'static str> },
    #[error("no word of kind {} is so called{}; its words are {}", .kind.key(), like(.near), .kind.words().join(", "))]
    OfKind { kind: Kind, near: Vec<&'static str> },
    #[error("there is no kind of word called `{}`{}; kinds are {}", ttwu_parsers::event::escape(.kind.as_bytes()), like(.near), Kind::ALL.map(Kind::key).join(", "))]
    Kind {
        kind: String,
        near: Vec<&'static str>,
    },
}

fn like(near: &[&str]) -> String {
    match near {
        [] => String::new(),
        near => format!("; like it: {}", near.join(", ")),
    }
}

fn all() -> String {
    let kinds = Kind::ALL.map(|kind| {
        let words = kind.words().join(", ");
        format!("\n  {:9} {words}", kind.key())
    });
    kinds.concat()
}

/// The meanings of a text: a word, `KIND:WORD`, or all words of a kind.
///
/// # Errors
/// A text that is neither, with what is like it.
pub fn find(text: &str) -> Result<Vec<Sense>, NoWord> {
    let typed = plain(text);
    let alias = |word: &str| {
        let mut aliases = ALIASES.iter().filter(|(alias, _)| plain(alias) == word);
        aliases.next().map(|(_, word)| plain(word))
    };
    let asked = match typed.split_once(':') {
        Some((kind, word)) => alias(word).map(|word| format!("{kind}:{word}")),
        None => alias(&typed),
    };
    let asked = asked.unwrap_or(typed);
    let senses = Kind::ALL.iter().flat_map(|kind| {
        let words = kind.words().into_iter();
        words.map(|word| Sense { kind: *kind, word })
    });
    let meant = |sense: &Sense| {
        let word = plain(sense.word);
        word == asked || format!("{}:{word}", sense.kind.key()) == asked
    };
    let found: Vec<Sense> = senses.clone().filter(meant).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    // Some columns are headed by what their words are.
    let of_kind: Vec<Sense> = senses.filter(|sense| sense.kind.key() == asked).collect();
    match of_kind.is_empty() {
        true => Err(no_word(&asked)),
        false => Ok(of_kind),
    }
}

/// Says what of a text is not known.
fn no_word(asked: &str) -> NoWord {
    let Some((kind, word)) = asked.split_once(':') else {
        return NoWord::Word { near: near(asked) };
    };
    match Kind::ALL.into_iter().find(|of| of.key() == kind) {
        Some(kind) => NoWord::OfKind {
            kind,
            near: near(word),
        },
        None => NoWord::Kind {
            kind: kind.to_owned(),
            near: near(asked),
        },
    }
}

/// Words are the same whether they are typed with `-`, `_` or a space, large or small.
fn plain(text: &str) -> String {
    text.trim().to_lowercase().replace(['_', ' '], "-")
}

/// Two words as far apart as this are alike no more.
const ALIKE: f64 = 0.75;
/// Most words that are proposed.
const PROPOSED: usize = 4;

fn near(asked: &str) -> Vec<&'static str> {
    let words = Kind::ALL.iter().flat_map(|kind| kind.words());
    let mut alike: Vec<(f64, &'static str)> = words
        .map(|word| (strsim::jaro_winkler(asked, &plain(word)), word))
        .filter(|(alike, word)| *alike >= ALIKE || (asked.len() > 2 && plain(word).contains(asked)))
        .collect();
    alike.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    alike.dedup_by_key(|(_, word)| *word);
    alike.truncate(PROPOSED);
    alike.into_iter().map(|(_, word)| word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_has_all_its_meanings() {
        let kinds = |text: &str| {
            find(text)
                .unwrap()
                .iter()
                .map(|s| s.kind)
                .collect::<Vec<_>>()
        };
        assert_eq!(kinds("stacked-prev"), [Kind::Verdict]);
        assert_eq!(kinds("local"), [Kind::Path, Kind::Class]);
        assert_eq!(kinds("class:local"), [Kind::Class]);
        assert_eq!(kinds("Fast-Path"), [Kind::Class]);
        assert_eq!(kinds("waiting-llc core"), [Kind::Ledger]);
        assert_eq!(kinds("1:n"), [Kind::Role]);
        assert_eq!(kinds("better"), [Kind::Better; 3]);
        assert!(kinds("unknown").len() > 6);
    }

    #[test]
    fn words_of_the_report_have_their_other_forms() {
        for (typed, word) in [
            ("cold-cache", "cold cache"),
            ("Gain", "gain at most"),
            ("label:gain", "gain at most"),
            ("bounce", "bounces"),
            ("xllc", "xLLC"),
        ] {
            let found: Vec<&str> = find(typed).unwrap().iter().map(|s| s.word).collect();
            assert_eq!(found, [word], "{typed}");
        }
        let known = |(_, word): &(&str, &str)| LABELS.contains(word);
        assert!(ALIASES.iter().all(known));
    }

    #[test]
    fn what_is_no_word_is_told_what_is_like_it() {
        let error = find("staked-prev").unwrap_err();
        assert!(matches!(&error, NoWord::Word { near } if near.first() == Some(&"stacked-prev")));
        let text = error.to_string();
        assert!(
            text.contains("like it: stacked-prev") && text.contains("halve-new"),
            "{text}"
        );
        assert_eq!(
            find("qqq\u{1b}").unwrap_err(),
            NoWord::Word { near: Vec::new() }
        );
    }

    #[test]
    fn an_unknown_kind_is_told_apart_from_an_unknown_word() {
        let text = |typed: &str| find(typed).unwrap_err().to_string();
        let kind = text("nosuch:local");
        assert!(
            kind.contains("no kind of word called `nosuch`") && kind.contains("verdict, path, "),
            "{kind}"
        );
        let word = text("path:locale");
        assert!(
            word.starts_with("no word of kind path") && word.contains("like it: local"),
            "{word}"
        );
        assert!(word.contains("queued-ipi") && !word.contains("halve-new"));
        assert!(!text("a\u{1b}:b").contains('\u{1b}'));
    }
}
