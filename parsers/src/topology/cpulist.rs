//! CPU lists (`0-3,8,10-11`) and CPU masks (`0000,000000ff`) as the kernel prints them.
//!
//! Both forms are documented in the kernel's `Documentation/core-api/printk-formats.rst` (`%*pbl` and `%*pb`).

use std::fmt;

/// The highest CPU id accepted. Linux allows at most 8,192 CPUs today (`NR_CPUS` on x86); the margin is for
/// tomorrow, and the cap keeps a damaged text from claiming memory it does not fill.
pub const MAX_CPU: u32 = 65_535;

/// Why a CPU list or mask could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CpuListError {
    /// A part that is neither a number nor a range of two numbers.
    #[error("`{0}` is not a CPU number or a range of them (write lists like `0-3,8`)")]
    NotANumber(String),
    /// A range whose end is before its start.
    #[error("the range `{0}` ends before it starts")]
    Backwards(String),
    /// A part that is not a group of hexadecimal digits.
    #[error("`{0}` is not a CPU mask (hexadecimal digits, in groups of eight after a comma)")]
    NotAMask(String),
    /// An id above [`MAX_CPU`].
    #[error("CPU {0} is above {MAX_CPU}, the highest CPU id accepted")]
    TooHigh(u64),
}

/// A set of CPU ids, held as ranges so that its size follows the text it was read from and not the numbers in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CpuSet {
    /// Inclusive ranges, ascending, neither overlapping nor adjacent.
    ranges: Vec<(u32, u32)>,
}

impl CpuSet {
    /// Reads a CPU list such as `0-3,8,10-11`; blank text is the empty set (sysfs prints that for a node
    /// that holds only memory).
    ///
    /// # Errors
    /// A part that is not a number or an ascending range, or an id above [`MAX_CPU`].
    pub fn from_list(text: &str) -> Result<Self, CpuListError> {
        let parts = text.split(',').map(clean).filter(|part| !part.is_empty());
        let ranges = parts.map(parse_range).collect::<Result<Vec<_>, _>>()?;
        Ok(Self::from_ranges(ranges))
    }

    /// Reads a CPU mask such as `ff` or `0000,000000ff`, with or without `0x`.
    ///
    /// # Errors
    /// A character that is not a hexadecimal digit, a group after a comma that has not eight digits, or an id
    /// above [`MAX_CPU`].
    pub fn from_mask(text: &str) -> Result<Self, CpuListError> {
        let text = clean(text);
        let bare = text.strip_prefix("0x").unwrap_or(text);
        if !is_mask(bare) {
            return Err(CpuListError::NotAMask(shorten(text)));
        }
        let digits = bare.bytes().rev().filter(|&byte| byte != b',');
        let mut ranges = Vec::new();
        for (place, digit) in digits.enumerate() {
            let bits = char::from(digit).to_digit(16).unwrap_or(0);
            for bit in (0..4).filter(|bit| bits >> bit & 1 == 1) {
                let cpu = cpu_id(place as u64 * 4 + bit)?;
                extend_or_push(&mut ranges, cpu, cpu);
            }
        }
        Ok(Self { ranges })
    }

    /// Reads a text that may be either form, as the set that holds `member`.
    ///
    /// `3` is CPU 3 as a list and CPUs 0-1 as a mask; a scheduler domain always holds the CPU it belongs to,
    /// which decides it. A list is preferred when both hold it.
    ///
    /// # Errors
    /// When neither form can be read; the error is the list's.
    pub fn from_list_or_mask(text: &str, member: u32) -> Result<Self, CpuListError> {
        let list = Self::from_list(text);
        match (&list, Self::from_mask(text)) {
            (Ok(set), _) if set.contains(member) => list,
            (_, Ok(set)) if set.contains(member) => Ok(set),
            (Err(_), Ok(set)) => Ok(set),
            _ => list,
        }
    }

    /// The set of these ids, in any order; ids above [`MAX_CPU`] are left out.
    pub fn from_cpus(cpus: impl IntoIterator<Item = u32>) -> Self {
        let cpus = cpus.into_iter().filter(|&cpu| cpu <= MAX_CPU);
        Self::from_ranges(cpus.map(|cpu| (cpu, cpu)).collect())
    }

    fn from_ranges(mut unsorted: Vec<(u32, u32)>) -> Self {
        unsorted.sort_unstable();
        let mut ranges = Vec::new();
        for (start, end) in unsorted {
            extend_or_push(&mut ranges, start, end);
        }
        Self { ranges }
    }

    /// The CPUs of any of the sets.
    pub fn union<'a>(sets: impl IntoIterator<Item = &'a Self>) -> Self {
        let ranges = sets.into_iter().flat_map(|set| &set.ranges);
        Self::from_ranges(ranges.copied().collect())
    }

    /// The number of CPUs.
    pub fn len(&self) -> usize {
        self.ranges
            .iter()
            .map(|(start, end)| (end - start) as usize + 1)
            .sum()
    }

    /// Whether the set holds no CPU.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The lowest id.
    pub fn first(&self) -> Option<u32> {
        self.ranges.first().map(|&(start, _)| start)
    }

    /// Whether `cpu` is in the set.
    pub fn contains(&self, cpu: u32) -> bool {
        self.range_around(cpu).is_some()
    }

    /// Whether every CPU of this set is in `other`.
    pub fn is_subset(&self, other: &Self) -> bool {
        // Ranges are never adjacent, so a contained range lies in exactly one of the other's.
        self.ranges.iter().all(|&(start, end)| {
            other
                .range_around(start)
                .is_some_and(|(_, other_end)| end <= other_end)
        })
    }

    /// The ids, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.ranges.iter().flat_map(|&(start, end)| start..=end)
    }

    /// The ids, ascending.
    pub fn to_vec(&self) -> Vec<u32> {
        self.iter().collect()
    }

    fn range_around(&self, cpu: u32) -> Option<(u32, u32)> {
        let after = self.ranges.partition_point(|&(start, _)| start <= cpu);
        let range = *self.ranges.get(after.checked_sub(1)?)?;
        (cpu <= range.1).then_some(range)
    }
}

/// Prints the set as a CPU list.
impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (start, end)) in self.ranges.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            match start == end {
                true => write!(f, "{comma}{start}")?,
                false => write!(f, "{comma}{start}-{end}")?,
            }
        }
        Ok(())
    }
}

/// Reads a CPU list as sorted unique ids.
///
/// # Errors
/// Those of [`CpuSet::from_list`].
pub fn parse_list(text: &str) -> Result<Vec<u32>, CpuListError> {
    CpuSet::from_list(text).map(|set| set.to_vec())
}

/// Reads a CPU mask as sorted unique ids.
///
/// # Errors
/// Those of [`CpuSet::from_mask`].
pub fn parse_mask(text: &str) -> Result<Vec<u32>, CpuListError> {
    CpuSet::from_mask(text).map(|set| set.to_vec())
}

/// Prints ids as a CPU list.
pub fn format_list(cpus: &[u32]) -> String {
    CpuSet::from_cpus(cpus.iter().copied()).to_string()
}

/// Prints groups as `0-3;4-7`.
pub fn format_groups(groups: &[Vec<u32>]) -> String {
    let lists: Vec<_> = groups.iter().map(|group| format_list(group)).collect();
    lists.join(";")
}

fn parse_range(part: &str) -> Result<(u32, u32), CpuListError> {
    let (start, end) = part.split_once('-').unwrap_or((part, part));
    let range = (parse_cpu(start, part)?, parse_cpu(end, part)?);
    match range.0 <= range.1 {
        true => Ok(range),
        false => Err(CpuListError::Backwards(shorten(part))),
    }
}

fn parse_cpu(number: &str, part: &str) -> Result<u32, CpuListError> {
    let number = number.trim();
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    match number.parse() {
        Ok(cpu) if digits => cpu_id(cpu),
        _ => Err(CpuListError::NotANumber(shorten(part))),
    }
}

fn cpu_id(cpu: u64) -> Result<u32, CpuListError> {
    match u32::try_from(cpu) {
        Ok(id) if id <= MAX_CPU => Ok(id),
        _ => Err(CpuListError::TooHigh(cpu)),
    }
}

fn is_mask(text: &str) -> bool {
    let hex = |group: &str| !group.is_empty() && group.bytes().all(|b| b.is_ascii_hexdigit());
    let mut groups = text.split(',');
    groups.next().is_some_and(hex) && groups.all(|group| hex(group) && group.len() == 8)
}

/// Adds a range that starts at or after the last one's start.
fn extend_or_push(ranges: &mut Vec<(u32, u32)>, start: u32, end: u32) {
    match ranges.last_mut() {
        Some(last) if start <= last.1.saturating_add(1) => last.1 = last.1.max(end),
        _ => ranges.push((start, end)),
    }
}

/// Strips white space and the NULs with which tar pads sysfs files that were shorter than their size claimed.
pub(super) fn clean(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || c == '\0')
}

/// At most the first 40 characters of a text, for an error message.
pub(super) fn shorten(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_are_sorted_and_unique() {
        assert_eq!(parse_list("0-3,8,10-11"), Ok(vec![0, 1, 2, 3, 8, 10, 11]));
        assert_eq!(parse_list("8,0-1,1-2\n"), Ok(vec![0, 1, 2, 8]));
        assert_eq!(parse_list(" \n"), Ok(vec![]));
        assert_eq!(parse_list("0-1\0\0\0"), Ok(vec![0, 1]));
    }

    #[test]
    fn masks_in_groups_of_32() {
        assert_eq!(parse_mask("ff"), Ok((0..8).collect()));
        assert_eq!(parse_mask("0000,000000ff"), Ok((0..8).collect()));
        assert_eq!(parse_mask("1,00000000"), Ok(vec![32]));
        assert_eq!(parse_mask("0xc"), Ok(vec![2, 3]));
    }

    #[test]
    fn bad_texts_are_named() {
        assert_eq!(
            parse_list("0-x"),
            Err(CpuListError::NotANumber("0-x".into()))
        );
        assert_eq!(
            parse_list("3-1"),
            Err(CpuListError::Backwards("3-1".into()))
        );
        assert_eq!(
            parse_list("0-4294967295"),
            Err(CpuListError::TooHigh(4_294_967_295))
        );
        assert_eq!(parse_mask("1,0"), Err(CpuListError::NotAMask("1,0".into())));
        assert_eq!(parse_mask(""), Err(CpuListError::NotAMask(String::new())));
        let wide = format!("1{}", ",00000000".repeat(2048));
        assert_eq!(parse_mask(&wide), Err(CpuListError::TooHigh(65_536)));
    }

    #[test]
    fn a_domain_holds_its_own_cpu() {
        let read = |text, cpu| CpuSet::from_list_or_mask(text, cpu).map(|set| set.to_vec());
        assert_eq!(read("3", 0), Ok(vec![0, 1]));
        assert_eq!(read("3", 3), Ok(vec![3]));
        assert_eq!(read("0-3", 2), Ok(vec![0, 1, 2, 3]));
        assert_eq!(read("0000,000000ff", 2), Ok((0..8).collect()));
    }

    proptest! {
        #[test]
        fn arbitrary_text_never_panics(text in ".*") {
            let _ = (parse_list(&text), parse_mask(&text), CpuSet::from_list_or_mask(&text, 0));
        }

        #[test]
        fn lists_round_trip(cpus in proptest::collection::btree_set(0..=MAX_CPU, 0..50)) {
            let cpus: Vec<u32> = cpus.into_iter().collect();
            prop_assert_eq!(parse_list(&format_list(&cpus)), Ok(cpus));
        }

        #[test]
        fn subset_and_contains_agree_with_ids(a in proptest::collection::btree_set(0u32..40, 0..20),
                                              b in proptest::collection::btree_set(0u32..40, 0..40)) {
            let (left, right) = (CpuSet::from_cpus(a.iter().copied()), CpuSet::from_cpus(b.iter().copied()));
            prop_assert_eq!(left.is_subset(&right), a.is_subset(&b));
            prop_assert_eq!(left.len(), a.len());
            prop_assert!((0..40).all(|cpu| right.contains(cpu) == b.contains(&cpu)));
        }
    }
}
