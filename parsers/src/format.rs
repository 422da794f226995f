//! The `format` text of an event: where each field lies in a record.
//!
//! Source: the kernel's `Documentation/trace/events.rst`. Offsets, sizes and signs are taken from the text,
//! because they differ between kernels, word sizes and configurations.

use nom::IResult;
use nom::Parser;
use nom::bytes::complete::{tag, take_until, take_while1};
use nom::character::complete::{char, digit1, multispace0, space0};
use nom::combinator::{map_res, opt};
use nom::sequence::{delimited, preceded};

use crate::bytes::Endian;

/// How a field's bytes are to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// In place: an integer, or an array if the declaration has brackets.
    Plain,
    /// `__data_loc`: a `u32` of `length << 16 | offset`, the offset counted from the record's start.
    DataLoc,
    /// `__rel_loc` (5.17 on): the same, the offset counted from the field's end.
    RelLoc,
}

/// One field of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    pub name: String,
    /// The C declaration without the name, such as `unsigned short` or `char[16]`.
    pub declared: String,
    pub offset: usize,
    pub size: usize,
    pub signed: bool,
    pub kind: FieldKind,
}

/// One event type as the trace describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventFormat {
    pub system: String,
    pub name: String,
    /// The number records carry in `common_type`; it differs from boot to boot.
    pub id: u32,
    pub fields: Vec<Field>,
    pub print_fmt: String,
}

impl EventFormat {
    /// Parses a `format` file's text. `None` if it has no name or id.
    pub fn parse(system: &str, text: &str) -> Option<Self> {
        let mut format = EventFormat {
            system: system.to_owned(),
            name: String::new(),
            id: 0,
            fields: Vec::new(),
            print_fmt: String::new(),
        };
        let mut id = None;
        for line in text.lines() {
            let line = line.trim();
            if let Some(name) = line.strip_prefix("name:") {
                format.name = name.trim().to_owned();
            } else if let Some(number) = line.strip_prefix("ID:") {
                id = number.trim().parse().ok();
            } else if let Some(rest) = line.strip_prefix("print fmt:") {
                format.print_fmt = rest.trim().to_owned();
            } else if let Ok((_, field)) = field_line(line) {
                format.fields.push(field);
            }
        }
        format.id = id?;
        (!format.name.is_empty()).then_some(format)
    }

    /// The field of that name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|f| f.name == name)
    }

    /// An integer field, ready to be read from records.
    pub fn int(&self, name: &str) -> Option<IntField> {
        self.field(name).and_then(IntField::new)
    }

    /// A field of bytes: text, an array or a bit mask, in place or located.
    pub fn blob(&self, name: &str) -> Option<BlobField> {
        self.field(name).map(BlobField::new)
    }
}

/// Parses the field lines of a text such as ftrace's `header_page`.
pub fn parse_fields(text: &str) -> Vec<Field> {
    text.lines()
        .filter_map(|line| field_line(line.trim()).ok().map(|(_, f)| f))
        .collect()
}

/// `field:unsigned short common_type; offset:0; size:2; signed:0;`, with tabs between the parts.
fn field_line(line: &str) -> IResult<&str, Field> {
    let (rest, decl) = delimited(tag("field:"), take_until(";"), char(';')).parse(line)?;
    let (rest, offset) = number("offset:").parse(rest)?;
    let (rest, size) = number("size:").parse(rest)?;
    // The oldest kernels have no sign; their readers assumed unsigned.
    let (rest, signed) = opt(number("signed:")).parse(rest)?;
    let (name, declared, kind) = split_declaration(decl.trim());
    let field = Field {
        name,
        declared,
        offset,
        size,
        signed: signed.unwrap_or(0) != 0,
        kind,
    };
    Ok((rest, field))
}

/// `\toffset:8;` with the tag given.
fn number<'a>(
    label: &'static str,
) -> impl Parser<&'a str, Output = usize, Error = nom::error::Error<&'a str>> {
    let digits = map_res(digit1, |d: &str| d.parse::<usize>());
    delimited(
        multispace0,
        preceded((tag(label), space0), digits),
        char(';'),
    )
}

/// Splits `__data_loc char[] comm` or `char prev_comm[16]` into name, type and kind.
fn split_declaration(decl: &str) -> (String, String, FieldKind) {
    let (kind, decl) = if let Some(rest) = decl.strip_prefix("__data_loc ") {
        (FieldKind::DataLoc, rest)
    } else if let Some(rest) = decl.strip_prefix("__rel_loc ") {
        (FieldKind::RelLoc, rest)
    } else {
        (FieldKind::Plain, decl)
    };
    let (head, brackets) = match decl.find('[') {
        // `char[] comm`: brackets belong to the type; `char comm[16]`: they follow the name.
        Some(at) if !decl.ends_with(']') => (decl, decl.get(at..at).unwrap_or("")),
        Some(at) => decl.split_at(at),
        None => (decl, ""),
    };
    let (before, name) = match last_word(head) {
        Ok((_, name)) => (head.strip_suffix(name).unwrap_or(""), name),
        Err(_) => ("", head),
    };
    (
        name.to_owned(),
        format!("{}{}", before.trim(), brackets),
        kind,
    )
}

/// The identifier at the end of a declaration.
fn last_word(head: &str) -> IResult<&str, &str> {
    let start = head
        .rfind(|c: char| !(c.is_alphanumeric() || c == '_'))
        .map_or(0, |at| at + 1);
    let tail = head.get(start..).unwrap_or("");
    take_while1(|c: char| c.is_alphanumeric() || c == '_').parse(tail)
}

/// Where an integer field lies, resolved once per event type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IntField {
    offset: usize,
    size: u8,
    signed: bool,
}

impl IntField {
    /// A field whose place is known without a format.
    pub const fn fixed(offset: usize, size: u8, signed: bool) -> Self {
        Self {
            offset,
            size,
            signed,
        }
    }

    /// `None` for a size that no integer has.
    pub fn new(field: &Field) -> Option<Self> {
        let size = u8::try_from(field.size).ok()?;
        matches!(size, 1 | 2 | 4 | 8).then_some(Self {
            offset: field.offset,
            size,
            signed: field.signed,
        })
    }

    /// The offset of a field of just that size and sign; `None` for others.
    pub(crate) fn place(self, size: u8, signed: bool) -> Option<u16> {
        let fits = self.size == size && self.signed == signed;
        u16::try_from(self.offset).ok().filter(|_| fits)
    }

    /// Where the field ends; `usize::MAX` for a place beyond all records.
    pub(crate) fn end(self) -> usize {
        self.offset.saturating_add(usize::from(self.size))
    }

    /// The value, sign-extended as the format says; `None` if the record is too short.
    #[inline(always)]
    pub fn get(self, record: &[u8], endian: Endian) -> Option<i64> {
        // Nearly all fields of nearly all traces: the rest is kept out of the callers' way.
        if self.size == 4 && endian == Endian::Little {
            let raw = u32::from_le_bytes(*record.get(self.offset..)?.first_chunk()?);
            return Some(if self.signed {
                i64::from(raw.cast_signed())
            } else {
                i64::from(raw)
            });
        }
        self.get_any(record, endian)
    }

    fn get_any(self, record: &[u8], endian: Endian) -> Option<i64> {
        Some(match (self.size, self.signed) {
            (4, true) => i64::from(endian.u32_at(record, self.offset)?.cast_signed()),
            (4, false) => i64::from(endian.u32_at(record, self.offset)?),
            (8, _) => endian.u64_at(record, self.offset)?.cast_signed(),
            (2, true) => i64::from(endian.u16_at(record, self.offset)?.cast_signed()),
            (2, false) => i64::from(endian.u16_at(record, self.offset)?),
            (_, true) => i64::from(record.get(self.offset)?.cast_signed()),
            (_, false) => i64::from(*record.get(self.offset)?),
        })
    }
}

/// Where a field of bytes lies, resolved once per event type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlobField {
    offset: usize,
    size: usize,
    kind: FieldKind,
}

impl BlobField {
    pub fn new(field: &Field) -> Self {
        Self {
            offset: field.offset,
            size: field.size,
            kind: field.kind,
        }
    }

    /// The 16 bytes of a field that has just so many, in place.
    #[inline(always)]
    pub fn get_16(self, record: &[u8]) -> Option<&[u8; 16]> {
        if self.size != 16 || self.kind != FieldKind::Plain {
            return None;
        }
        record.get(self.offset..)?.first_chunk()
    }

    /// The offset of such a field.
    pub(crate) fn place_of_16(self) -> Option<u16> {
        let fits = self.size == 16 && self.kind == FieldKind::Plain;
        u16::try_from(self.offset).ok().filter(|_| fits)
    }

    /// The field's bytes, cut at the record's end; `None` if it starts beyond it.
    #[inline]
    pub fn get(self, record: &[u8], endian: Endian) -> Option<&[u8]> {
        if self.kind == FieldKind::Plain {
            // A flexible array (`char buf[]`) has size 0 and runs to the record's end.
            let end = match self.size {
                0 => record.len(),
                size => self.offset.checked_add(size)?.min(record.len()),
            };
            return record.get(self.offset..end);
        }
        let location = endian.u32_at(record, self.offset)?;
        let base = match self.kind {
            FieldKind::RelLoc => self.offset.checked_add(4)?,
            _ => 0,
        };
        let start = base.checked_add((location & 0xffff) as usize)?;
        let end = start
            .checked_add((location >> 16) as usize)?
            .min(record.len());
        record.get(start..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWITCH: &str = "name: sched_switch\nID: 310\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:__data_loc char[] comm;\toffset:24;\tsize:4;\tsigned:0;\n\
        \tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n\
        \nprint fmt: \"x\", REC->x\n";

    #[test]
    fn names_types_and_places_come_from_the_text() {
        let format = EventFormat::parse("sched", SWITCH).unwrap();
        assert_eq!((format.name.as_str(), format.id), ("sched_switch", 310));
        let names: Vec<_> = format.fields.iter().map(|f| f.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "common_type",
                "common_pid",
                "prev_comm",
                "comm",
                "prev_state"
            ]
        );
        assert_eq!(format.field("prev_comm").unwrap().declared, "char[16]");
        assert_eq!(format.field("comm").unwrap().kind, FieldKind::DataLoc);
        assert_eq!(format.field("comm").unwrap().declared, "char[]");
        assert_eq!(format.print_fmt, "\"x\", REC->x");
    }

    #[test]
    fn header_page_fields_have_a_space_after_the_colon() {
        let fields = parse_fields("\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n");
        assert_eq!(
            (fields[0].name.as_str(), fields[0].offset, fields[0].size),
            ("commit", 8, 8)
        );
    }

    #[test]
    fn integers_are_sign_extended_as_declared() {
        let field = |size, signed| IntField {
            offset: 0,
            size,
            signed,
        };
        let ones = [0xff; 8];
        assert_eq!(field(4, true).get(&ones, Endian::Little), Some(-1));
        assert_eq!(field(4, false).get(&ones, Endian::Big), Some(0xffff_ffff));
        assert_eq!(field(1, true).get(&ones, Endian::Big), Some(-1));
        assert_eq!(field(8, true).get(&ones[..7], Endian::Big), None);
    }

    #[test]
    fn located_fields_are_cut_at_the_records_end() {
        let mut record = vec![0; 8];
        record.extend(b"hello\0");
        record[4..8].copy_from_slice(&(6 << 16 | 8_u32).to_le_bytes());
        let mut blob = BlobField {
            offset: 4,
            size: 4,
            kind: FieldKind::DataLoc,
        };
        assert_eq!(
            blob.get(&record, Endian::Little),
            Some(b"hello\0".as_slice())
        );
        record[4..8].copy_from_slice(&(600 << 16 | 8_u32).to_le_bytes());
        assert_eq!(
            blob.get(&record, Endian::Little),
            Some(b"hello\0".as_slice())
        );
        record[4..8].copy_from_slice(&(5_u32 << 16).to_le_bytes());
        blob.kind = FieldKind::RelLoc;
        assert_eq!(blob.get(&record, Endian::Little), Some(b"hello".as_slice()));
        record[4..8].copy_from_slice(&(1 << 16 | 0xffff_u32).to_le_bytes());
        assert_eq!(blob.get(&record, Endian::Little), None);
    }
}
