//! Words that agree with a number, for every text of the program.

/// The form of a noun that goes with so many: `wakeup` or `wakeups`, `flush` or `flushes`.
pub fn noun(n: u64, one: &str) -> String {
    let hisses = ["s", "sh", "ch", "x"].iter().any(|end| one.ends_with(end));
    match n {
        1 => one.to_owned(),
        _ if hisses => format!("{one}es"),
        _ => format!("{one}s"),
    }
}

/// `1 wakeup`, `2 wakeups`.
pub fn many(n: u64, one: &str) -> String {
    format!("{n} {}", noun(n, one))
}

/// The form of a word that goes with so many, such as a verb's or a pronoun's.
pub fn agree(n: u64, one: &'static str, several: &'static str) -> &'static str {
    match n {
        1 => one,
        _ => several,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nouns_and_verbs_agree() {
        let cases = [
            (0, "wakeup", "0 wakeups"),
            (1, "local flush", "1 local flush"),
            (2, "local flush", "2 local flushes"),
            (2, "switch", "2 switches"),
            (3, "process", "3 processes"),
        ];
        for (n, one, shown) in cases {
            assert_eq!(many(n, one), shown);
        }
        assert_eq!(
            [0, 1, 2].map(|n| agree(n, "is", "are")),
            ["are", "is", "are"]
        );
    }
}
