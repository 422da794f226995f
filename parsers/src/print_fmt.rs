//! How `sched_switch` encodes `prev_state`, read from the event's own print format.
//!
//! The letters' bits and the bit of `+` (preempted) moved several times between 3.14 and 6.1, so the
//! `__print_flags` table and the mask before `? "+"` are taken from the text the trace carries.

use nom::IResult;
use nom::Parser;
use nom::branch::alt;
use nom::bytes::complete::{tag, take_until};
use nom::character::complete::{char, digit1, hex_digit1, multispace0};
use nom::combinator::map_res;
use nom::multi::fold_many0;
use nom::sequence::{delimited, preceded};

/// Deepest nesting of parentheses that is followed; the kernel's own texts have eight.
const DEPTH: u32 = 32;

/// The state a task left its CPU in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PrevState {
    /// The kernel's letter: `R`, `S`, `D`, `T`, `t`, `X`, `Z`, `P`, `I`, ... or `?` for a bit without one.
    pub letter: u8,
    /// Whether the `+` mark was set: preempted inside the kernel.
    pub preempted: bool,
}

impl PrevState {
    /// Still runnable: preempted on the way to user space (`R`) or inside the kernel (`+`).
    pub fn runnable(self) -> bool {
        self.letter == b'R' || self.preempted
    }
}

/// The bits of `prev_state` as one trace's kernel writes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateTable {
    letters: Vec<(i64, u8)>,
    preempted: i64,
    /// Kernels 4.15 to 4.20-rc stored every state one bit too high (fixed by 3054426dc68e).
    shifted: bool,
    /// What the small values mean: those that occur.
    small: Vec<PrevState>,
}

/// So many values are looked up instead of worked out. The highest bit of newer kernels, `+`, is 0x100.
const SMALL: i64 = 0x200;

impl StateTable {
    fn new(letters: Vec<(i64, u8)>, preempted: i64, shifted: bool) -> Self {
        let mut table = Self {
            letters,
            preempted,
            shifted,
            small: Vec::new(),
        };
        table.small = (0..SMALL).map(|raw| table.decode_any(raw)).collect();
        table
    }

    /// Reads the table from `sched_switch`'s print format; without one, the layout of 4.14 and later.
    pub fn parse(print_fmt: &str) -> Self {
        let Some(at) = print_fmt.find("__print_flags(") else {
            return Self::modern();
        };
        let table = print_fmt.get(at..).unwrap_or("");
        let mut letters = Vec::new();
        let mut shifted = false;
        let mut rest = table;
        while let Ok((after, (number, letter))) = next_entry(rest) {
            shifted |= number == "0x01" && letter == b'S';
            letters.push((parse_number(number).unwrap_or(0), letter));
            rest = after;
        }
        if letters.is_empty() {
            return Self::modern();
        }
        Self::new(letters, preempted_mask(print_fmt).unwrap_or(0), shifted)
    }

    fn modern() -> Self {
        let letters = [
            (1, b'S'),
            (2, b'D'),
            (4, b'T'),
            (8, b't'),
            (0x10, b'X'),
            (0x20, b'Z'),
            (0x40, b'P'),
            (0x80, b'I'),
        ];
        Self::new(letters.to_vec(), 0x100, false)
    }

    /// Whether this kernel has the shift of 4.15 to 4.20-rc.
    pub fn shifted(&self) -> bool {
        self.shifted
    }

    /// Decodes a recorded value. Where several bits are set the first letter of the table stands for all.
    #[inline(always)]
    pub fn decode(&self, raw: i64) -> PrevState {
        let place = usize::try_from(raw).unwrap_or(usize::MAX);
        match self.small.get(place) {
            Some(&state) => state,
            None => self.decode_any(raw),
        }
    }

    #[inline(never)]
    fn decode_any(&self, raw: i64) -> PrevState {
        let preempted = raw & self.preempted != 0;
        let mut bits = raw & !self.preempted;
        if self.shifted {
            bits >>= 1;
        }
        let letter = match bits {
            0 => b'R',
            bits => self
                .letters
                .iter()
                .find(|(mask, _)| bits & mask != 0)
                .map_or(b'?', |&(_, letter)| letter),
        };
        PrevState { letter, preempted }
    }
}

/// The next `{ 0x0001, "S" }` in the text; stops where the closing parenthesis of the table comes first.
fn next_entry(text: &str) -> IResult<&str, (&str, u8)> {
    let (rest, _) = take_until("{").parse(text)?;
    let (rest, number) =
        delimited((char('{'), multispace0), take_until(","), char(',')).parse(rest)?;
    let (rest, name) =
        delimited((multispace0, char('"')), take_until("\""), char('"')).parse(rest)?;
    Ok((rest, (number.trim(), name.bytes().next().unwrap_or(b'?'))))
}

fn parse_number(text: &str) -> Option<i64> {
    match text.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Evaluates `MASK` in `REC->prev_state & MASK ? "+" : ""`.
fn preempted_mask(print_fmt: &str) -> Option<i64> {
    let question = print_fmt.find("? \"+\"")?;
    let before = print_fmt.get(..question)?;
    let at = before.rfind("REC->prev_state &")?;
    let expression = before.get(at + "REC->prev_state &".len()..)?;
    or_terms(expression.trim(), DEPTH)
        .ok()
        .map(|(_, value)| value)
}

/// C's precedence for the operators these texts use: `|` below `<<` below `+` and `-`.
fn or_terms(text: &str, depth: u32) -> IResult<&str, i64> {
    let (rest, first) = shift_terms(text, depth)?;
    let mut next = preceded(operator("|"), |t| shift_terms(t, depth));
    fold_many0(|t| next.parse(t), move || first, |a, b| a | b).parse(rest)
}

fn shift_terms(text: &str, depth: u32) -> IResult<&str, i64> {
    let (rest, first) = sum_terms(text, depth)?;
    let mut next = preceded(operator("<<"), |t| sum_terms(t, depth));
    let shift = |a: i64, b: i64| a.checked_shl(u32::try_from(b).unwrap_or(64)).unwrap_or(0);
    fold_many0(|t| next.parse(t), move || first, shift).parse(rest)
}

fn sum_terms(text: &str, depth: u32) -> IResult<&str, i64> {
    let (rest, first) = atom(text, depth)?;
    let sign = alt((operator("+"), operator("-")));
    let mut next = (sign, |t| atom(t, depth));
    let add = |a: i64, (sign, b): (&str, i64)| match sign {
        "-" => a.wrapping_sub(b),
        _ => a.wrapping_add(b),
    };
    fold_many0(|t| next.parse(t), move || first, add).parse(rest)
}

fn atom(text: &str, depth: u32) -> IResult<&str, i64> {
    let inner = |t| match depth.checked_sub(1) {
        Some(depth) => or_terms(t, depth),
        None => Err(nom::Err::Error(nom::error::Error::new(
            t,
            nom::error::ErrorKind::TooLarge,
        ))),
    };
    let hex = map_res(preceded(tag("0x"), hex_digit1), |d: &str| {
        i64::from_str_radix(d, 16)
    });
    let decimal = map_res(digit1, |d: &str| d.parse::<i64>());
    let group = delimited(char('('), inner, (multispace0, char(')')));
    delimited(multispace0, alt((group, hex, decimal)), multispace0).parse(text)
}

fn operator<'a>(
    sign: &'static str,
) -> impl Parser<&'a str, Output = &'a str, Error = nom::error::Error<&'a str>> {
    delimited(multispace0, tag(sign), multispace0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODERN: &str = r#""...", REC->prev_comm, (REC->prev_state & ((((0x00000000 | 0x00000001 | 0x00000002 | 0x00000004 | 0x00000008 | 0x00000010 | 0x00000020 | 0x00000040) + 1) << 1) - 1)) ? __print_flags(REC->prev_state & ((((0x00000000 | 0x00000001 | 0x00000002 | 0x00000004 | 0x00000008 | 0x00000010 | 0x00000020 | 0x00000040) + 1) << 1) - 1), "|", { 0x00000001, "S" }, { 0x00000002, "D" }, { 0x00000004, "T" }, { 0x00000008, "t" }, { 0x00000010, "X" }, { 0x00000020, "Z" }, { 0x00000040, "P" }, { 0x00000080, "I" }) : "R", REC->prev_state & (((0x00000000 | 0x00000001 | 0x00000002 | 0x00000004 | 0x00000008 | 0x00000010 | 0x00000020 | 0x00000040) + 1) << 1) ? "+" : "", REC->next_comm"#;
    const OLD: &str = r#"REC->prev_state & (1024-1) ? __print_flags(REC->prev_state & (1024-1), "|", { 1, "S"} , { 2, "D" }, { 4, "T" }, { 8, "t" }, { 16, "X" }, { 32, "Z" }, { 64, "x" }, { 128, "K"}, { 256, "W" }, { 512, "P" }) : "R", REC->prev_state & 1024 ? "+" : "", REC->next_comm"#;

    fn state(letter: u8, preempted: bool) -> PrevState {
        PrevState { letter, preempted }
    }

    #[test]
    fn modern_kernels_preempted_bit_is_0x100() {
        let table = StateTable::parse(MODERN);
        assert_eq!(table, StateTable::modern());
        assert_eq!(table.decode(0), state(b'R', false));
        assert_eq!(table.decode(0x100), state(b'R', true));
        assert_eq!(table.decode(0x80), state(b'I', false));
        assert!(table.decode(0x101).runnable());
        assert!(!table.decode(1).runnable());
    }

    #[test]
    fn old_kernels_preempted_bit_is_1024_and_x_is_16() {
        let table = StateTable::parse(OLD);
        assert_eq!(table.decode(1024), state(b'R', true));
        assert_eq!(table.decode(0x100), state(b'W', false));
        assert_eq!(table.decode(16), state(b'X', false));
    }

    #[test]
    fn the_shift_of_4_15_is_undone() {
        let buggy = MODERN.replace("0x000000", "0x");
        let table = StateTable::parse(&buggy);
        assert!(table.shifted());
        assert_eq!(table.decode(1), state(b'R', false));
        assert_eq!(table.decode(2), state(b'S', false));
        assert_eq!(table.decode(0x100), state(b'R', true));
    }

    #[test]
    fn hostile_texts_end() {
        let deep = format!("REC->prev_state & {} ? \"+\"", "(".repeat(100_000));
        assert_eq!(preempted_mask(&deep), None);
        assert_eq!(
            StateTable::parse("__print_flags({{{{"),
            StateTable::modern()
        );
    }
}
