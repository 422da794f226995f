//! What addresses in a trace stand for: the kernel's functions (`/proc/kallsyms`) and static strings (tracefs's
//! `printk_formats`), where the trace carries the lists.

use crate::event::escape;

/// Furthest behind a function's start at which an address is taken to lie in it: there are no such long functions, and
/// behind the last function of all lies anything.
const LONGEST: u64 = 1 << 20;

/// The kernel's functions by address.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Symbols {
    names: Vec<u8>,
    /// Address, and where the name lies among the names, ascending.
    functions: Vec<(u64, u32, u32)>,
}

impl std::fmt::Debug for Symbols {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Symbols({})", self.functions.len())
    }
}

impl Symbols {
    /// Reads lines of address, type and name, as `/proc/kallsyms` has them. Lines that are none are left out, and all
    /// addresses of 0, which stand for all where a kernel hides them.
    pub fn parse(text: &[u8]) -> Self {
        let mut symbols = Self::default();
        for line in text.split(|&b| b == b'\n') {
            if let Some((address, name)) = function(line)
                && let Ok(start) = u32::try_from(symbols.names.len())
                && let Ok(len) = u32::try_from(name.len())
            {
                symbols.names.extend(name);
                symbols.functions.push((address, start, len));
            }
        }
        symbols.functions.sort_by_key(|&(address, ..)| address);
        symbols
    }

    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// Where a function starts. What a compiler appends to a name behind a dot does not count.
    pub fn address(&self, name: &str) -> Option<u64> {
        let named = |&&(_, start, len): &&(u64, u32, u32)| {
            let found = self.name(start, len);
            found.split(|&b| b == b'.').next() == Some(name.as_bytes())
        };
        self.functions.iter().find(named).map(|&(at, ..)| at)
    }

    /// The function that an address lies in, safe to print, without what a compiler appends to it.
    pub fn function(&self, address: u64) -> Option<String> {
        let after = self.functions.partition_point(|&(at, ..)| at <= address);
        let &(at, start, len) = self.functions.get(after.checked_sub(1)?)?;
        if address - at > LONGEST {
            return None;
        }
        let name = self.name(start, len);
        Some(escape(name.split(|&b| b == b'.').next().unwrap_or(name)))
    }

    fn name(&self, start: u32, len: u32) -> &[u8] {
        let start = start as usize;
        let end = start.saturating_add(len as usize);
        self.names.get(start..end).unwrap_or_default()
    }
}

/// Address and name of a line's function; `None` for data and for no function.
fn function(line: &[u8]) -> Option<(u64, &[u8])> {
    let space = line.iter().position(|&b| b == b' ')?;
    let address = hexadecimal(line.get(..space)?)?;
    let kind = *line.get(space + 1)?;
    // A module's name follows behind a tab.
    let name = line.get(space + 3..)?.split(|&b| b == b'\t').next()?;
    let is_code = matches!(kind, b't' | b'T' | b'w' | b'W');
    (is_code && address != 0 && !name.is_empty()).then_some((address, name))
}

fn hexadecimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    digits.iter().try_fold(0_u64, |value, &digit| {
        let digit = char::from(digit).to_digit(16)?;
        Some(value << 4 | u64::from(digit))
    })
}

/// Static strings of the kernel by address.
#[derive(Debug, Clone, Default)]
pub struct Strings(Vec<(u64, Vec<u8>)>);

impl Strings {
    /// Reads lines such as `0xffffffff81a0b0c0 : "Function call interrupts"`.
    pub fn parse(text: &[u8]) -> Self {
        let line = |line: &[u8]| {
            let line = line.strip_prefix(b"0x")?;
            let end = line.iter().position(|&b| b == b' ')?;
            let address = hexadecimal(line.get(..end)?)?;
            let quoted = line.get(end..)?.strip_prefix(b" : \"")?;
            let string = quoted.strip_suffix(b"\"").unwrap_or(quoted);
            Some((address, string.to_vec()))
        };
        let lines = text.split(|&b| b == b'\n');
        Self(lines.filter_map(line).collect())
    }

    /// The strings, each with its address. They are a trace's: never print them raw.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.0.iter().map(|(at, string)| (*at, string.as_slice()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "0000000000000000 A fixed_percpu_data\n\
        ffffffff81000300 t late.constprop.0\n\
        ffffffff81000100 T first\n\
        ffffffff81000180 d some_data\n\
        ffffffff81000200 t odd\x1bname.isra.0\t[module]\n\
        nonsense\n\
        ffffffff81000400 t\n";

    #[test]
    fn addresses_lie_in_the_function_before_them() {
        let symbols = Symbols::parse(LIST.as_bytes());
        let at = |address| symbols.function(address);
        assert_eq!(at(0xffff_ffff_8100_00ff), None);
        assert_eq!(at(0xffff_ffff_8100_0100).as_deref(), Some("first"));
        // Data are no functions.
        assert_eq!(at(0xffff_ffff_8100_01ff).as_deref(), Some("first"));
        assert_eq!(at(0xffff_ffff_8100_02ff).as_deref(), Some("odd\\u{1b}name"));
        assert_eq!(at(0xffff_ffff_8100_0300).as_deref(), Some("late"));
        assert_eq!(at(0xffff_ffff_9100_0300), None);
        assert_eq!(symbols.address("late"), Some(0xffff_ffff_8100_0300));
        assert_eq!(symbols.address("some_data"), None);
    }

    #[test]
    fn hidden_addresses_are_no_symbols() {
        let hidden = LIST.replace("ffffffff81000", "0000000000000");
        let hidden: String = hidden
            .lines()
            .map(|l| format!("{}{}\n", "0".repeat(16), l.get(16..).unwrap_or("")))
            .collect();
        assert!(Symbols::parse(hidden.as_bytes()).is_empty());
        assert!(Symbols::parse(b"").is_empty());
    }

    #[test]
    fn strings_have_addresses() {
        let text = b"0xffffffff8000abcd : \"Function call interrupts\"\n0x10 : \"a \"b\"\"\nx\n";
        let strings = Strings::parse(text);
        let all: Vec<_> = strings.iter().collect();
        assert_eq!(
            all,
            [
                (0xffff_ffff_8000_abcd, &b"Function call interrupts"[..]),
                (0x10, &b"a \"b\""[..])
            ]
        );
    }
}
