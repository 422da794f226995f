//! Events that a user asks for by name: all of one type, or those with one value in one field. Type and field are looked
//! up when the trace is opened; of each record only the field is read.

use crate::bytes::{Endian, until_nul};
use crate::format::{BlobField, EventFormat, Field, FieldKind, IntField};

/// Which events are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watch {
    /// Such as `sched`; needed only where several systems have an event of that name.
    pub system: Option<String>,
    pub name: String,
    /// A field's name and the value it must have: a number (decimal, `0x…`, negative), or the text of an array of `char`.
    pub field: Option<(String, String)>,
}

/// Why events cannot be asked for. Names are the trace's own: escape them before printing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchError {
    /// The trace describes no event of that name.
    NoEvent,
    /// These systems each have an event of that name.
    SeveralSystems(Vec<String>),
    /// The event has no such field, but these.
    NoField(Vec<String>),
    /// The field is neither a number nor text; how it is declared.
    NotComparable(String),
    /// The field is a number of so many bytes, which the value is not.
    NotNumber(usize),
}

/// Tells the events that are asked for from others of their type.
#[derive(Debug, Clone)]
pub(crate) enum Matcher {
    Every,
    /// The value's lowest bits must be these.
    Number {
        field: IntField,
        bits: u64,
        mask: u64,
    },
    Text {
        field: BlobField,
        text: Box<[u8]>,
    },
}

impl Matcher {
    pub fn new(format: &EventFormat, watch: &Watch) -> Result<Self, WatchError> {
        let Some((name, value)) = &watch.field else {
            return Ok(Self::Every);
        };
        let field = format.field(name).ok_or_else(|| {
            let names = format.fields.iter().map(|field| field.name.clone());
            WatchError::NoField(names.collect())
        })?;
        if is_text(field) {
            return Ok(Self::Text {
                field: BlobField::new(field),
                text: value.as_bytes().into(),
            });
        }
        let is_array = field.kind != FieldKind::Plain || field.declared.contains('[');
        let int = IntField::new(field).filter(|_| !is_array);
        let int = int.ok_or_else(|| WatchError::NotComparable(field.declared.clone()))?;
        let (bits, mask) = number(value, field.size).ok_or(WatchError::NotNumber(field.size))?;
        Ok(Self::Number {
            field: int,
            bits,
            mask,
        })
    }

    /// Whether a record of the type is one of them. One that ends before the field is not.
    pub fn matches(&self, record: &[u8], endian: Endian) -> bool {
        match self {
            Self::Every => true,
            Self::Number { field, bits, mask } => field
                .get(record, endian)
                .is_some_and(|value| value.cast_unsigned() & mask == *bits),
            Self::Text { field, text } => field
                .get(record, endian)
                .is_some_and(|raw| until_nul(raw) == &**text),
        }
    }
}

/// Whether a field is an array of `char`, in place or located. `unsigned char` is what addresses are made of.
fn is_text(field: &Field) -> bool {
    let element = field.declared.split('[').next().unwrap_or("").trim();
    let is_array = field.kind != FieldKind::Plain || field.declared.contains('[');
    is_array && matches!(element, "char" | "const char" | "signed char")
}

/// A number as the lowest bits of a field of `size` bytes, and the mask of these; `None` if it does not fit.
fn number(text: &str, size: usize) -> Option<(u64, u64)> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let (digits, radix) = match digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None => (digits, 10),
    };
    // `from_str_radix` would take a sign of its own.
    if !digits.starts_with(|c: char| c.is_ascii_hexdigit()) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    let mask = match size {
        8 => u64::MAX,
        1 | 2 | 4 => (1 << (8 * size)) - 1,
        _ => return None,
    };
    match negative {
        false => (magnitude <= mask).then_some((magnitude, mask)),
        true => (magnitude <= mask / 2 + 1).then_some((magnitude.wrapping_neg() & mask, mask)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::Decoder;
    use crate::decode::Seen;

    const SWITCH: &str = "name: sched_switch\nID: 7\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\
        \tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:long prev_state;\toffset:24;\tsize:8;\tsigned:1;\n\
        \tfield:unsigned char flag;\toffset:32;\tsize:1;\tsigned:0;\n\
        \tfield:unsigned char mac[6];\toffset:33;\tsize:6;\tsigned:0;\n\
        \tfield:__data_loc char[] file;\toffset:40;\tsize:4;\tsigned:0;\n\
        \tfield:__rel_loc char[] near;\toffset:44;\tsize:4;\tsigned:0;\n\
        \tfield:__data_loc unsigned long[] mask;\toffset:48;\tsize:4;\tsigned:0;\n";

    /// pid -2, comm `db`, prev_state 0x402, flag 200, file `log`, near `by`.
    fn record() -> Vec<u8> {
        let mut record = vec![0; 52];
        record[0] = 7;
        record[4..8].copy_from_slice(&(-2_i32).to_le_bytes());
        // Stale bytes follow the NUL.
        record[8..14].copy_from_slice(b"db\0old");
        record[24..32].copy_from_slice(&0x402_i64.to_le_bytes());
        record[32] = 200;
        record[40..44].copy_from_slice(&(4 << 16 | 52_u32).to_le_bytes());
        record[44..48].copy_from_slice(&(2 << 16 | 8_u32).to_le_bytes());
        record.extend(b"log\0by");
        record
    }

    fn watch(field: Option<(&str, &str)>) -> Watch {
        Watch {
            system: None,
            name: "sched_switch".to_owned(),
            field: field.map(|(name, value)| (name.to_owned(), value.to_owned())),
        }
    }

    fn matcher(field: Option<(&str, &str)>) -> Result<Matcher, WatchError> {
        let format = EventFormat::parse("sched", SWITCH).unwrap();
        Matcher::new(&format, &watch(field))
    }

    fn matches(name: &str, value: &str) -> bool {
        matcher(Some((name, value)))
            .unwrap()
            .matches(&record(), Endian::Little)
    }

    #[test]
    fn numbers_are_compared_as_numbers() {
        for (name, value) in [
            ("common_pid", "-2"),
            ("common_pid", "0xfffffffe"),
            ("prev_state", "1026"),
            ("prev_state", "0x402"),
            ("prev_state", "0X402"),
            ("flag", "200"),
            ("flag", "-56"),
        ] {
            assert!(matches(name, value), "{name}={value}");
        }
        for (name, value) in [
            ("common_pid", "2"),
            ("common_pid", "-1"),
            ("prev_state", "2"),
            ("flag", "0"),
        ] {
            assert!(!matches(name, value), "{name}={value}");
        }
    }

    #[test]
    fn text_is_compared_up_to_its_end() {
        for (name, value) in [("comm", "db"), ("file", "log"), ("near", "by")] {
            assert!(matches(name, value), "{name}={value}");
        }
        for (name, value) in [
            ("comm", "d"),
            ("comm", "db\0old"),
            ("file", "logs"),
            ("near", ""),
        ] {
            assert!(!matches(name, value), "{name}={value}");
        }
    }

    #[test]
    fn what_cannot_be_compared_is_said() {
        let error = |name, value| matcher(Some((name, value))).unwrap_err();
        assert_eq!(error("prev_state", "S"), WatchError::NotNumber(8));
        for value in [
            "256", "-129", "", "-", "0x", "+1", "--1", "0x-1", "1.5", "1 ",
        ] {
            assert_eq!(error("flag", value), WatchError::NotNumber(1), "{value}");
        }
        for name in ["mac", "mask"] {
            let error = error(name, "1");
            assert!(matches!(error, WatchError::NotComparable(_)), "{error:?}");
        }
        let WatchError::NoField(fields) = error("nothing", "1") else {
            panic!("no such field");
        };
        assert_eq!(fields.len(), 9);
        assert!(fields.contains(&"prev_state".to_owned()));
    }

    #[test]
    fn a_record_that_ends_before_the_field_does_not_match() {
        let record = record();
        for (field, end) in [
            (("flag", "200"), 32),
            (("file", "log"), 42),
            (("comm", "db"), 8),
        ] {
            let matcher = matcher(Some(field)).unwrap();
            assert!(
                !matcher.matches(&record[..end], Endian::Little),
                "{field:?}"
            );
        }
        assert!(matcher(None).unwrap().matches(&[], Endian::Big));
    }

    const SEEN: Seen = Seen {
        ts: 5,
        cpu: 1,
        process: -1,
        thread: -1,
    };

    /// A decoder marks the events asked for and no others, and decodes them as it otherwise would.
    #[test]
    fn decoders_mark_what_is_watched() {
        let wakeup = SWITCH
            .replace("sched_switch", "other")
            .replace("ID: 7", "ID: 8");
        let formats = [
            EventFormat::parse("sched", SWITCH).unwrap(),
            EventFormat::parse("a", &wakeup).unwrap(),
            EventFormat::parse("b", &wakeup.replace("ID: 8", "ID: 9")).unwrap(),
        ];
        let plain = Decoder::new(&formats, Endian::Little, 8);
        let decoder = |watch: &Watch| {
            let mut decoder = plain.clone();
            decoder.watch(&formats, watch).map(|()| decoder)
        };
        let mut of_b = record();
        of_b[0] = 9;
        let watched = |decoder: &Decoder, record: &[u8]| {
            let event = decoder.decode_any(record, &SEEN).unwrap();
            let mut other = plain.decode_any(record, &SEEN).unwrap();
            other.watched = event.watched;
            assert_eq!(event, other);
            event.watched
        };
        let all = decoder(&watch(None)).unwrap();
        assert!(watched(&all, &record()) && !watched(&all, &of_b));
        assert!(all.whole(&record(), SEEN).is_none());
        let none = decoder(&watch(Some(("comm", "web")))).unwrap();
        assert!(!watched(&none, &record()));
        let named = |system: Option<&str>| Watch {
            system: system.map(str::to_owned),
            name: "other".to_owned(),
            field: None,
        };
        let systems = vec!["a".to_owned(), "b".to_owned()];
        assert_eq!(
            decoder(&named(None)).unwrap_err(),
            WatchError::SeveralSystems(systems)
        );
        let b = decoder(&named(Some("b"))).unwrap();
        assert!(watched(&b, &of_b) && !watched(&b, &record()));
        assert_eq!(decoder(&named(Some("c"))).unwrap_err(), WatchError::NoEvent);
    }
}
