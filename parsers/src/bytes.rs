//! Byte order, and checked reads of integers at an offset.

use nom::number::Endianness;

/// The byte order a trace was written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endian {
    Little,
    Big,
}

impl Endian {
    /// The same order under nom's name.
    pub fn nom(self) -> Endianness {
        match self {
            Endian::Little => Endianness::Little,
            Endian::Big => Endianness::Big,
        }
    }

    /// The `u16` at `offset`, or `None` past the end.
    #[inline]
    pub fn u16_at(self, data: &[u8], offset: usize) -> Option<u16> {
        let raw = array_at::<2>(data, offset)?;
        Some(match self {
            Endian::Little => u16::from_le_bytes(raw),
            Endian::Big => u16::from_be_bytes(raw),
        })
    }

    /// The `u32` at `offset`, or `None` past the end.
    #[inline]
    pub fn u32_at(self, data: &[u8], offset: usize) -> Option<u32> {
        let raw = array_at::<4>(data, offset)?;
        Some(match self {
            Endian::Little => u32::from_le_bytes(raw),
            Endian::Big => u32::from_be_bytes(raw),
        })
    }

    /// The `u64` at `offset`, or `None` past the end.
    #[inline]
    pub fn u64_at(self, data: &[u8], offset: usize) -> Option<u64> {
        let raw = array_at::<8>(data, offset)?;
        Some(match self {
            Endian::Little => u64::from_le_bytes(raw),
            Endian::Big => u64::from_be_bytes(raw),
        })
    }
}

#[inline]
fn array_at<const N: usize>(data: &[u8], offset: usize) -> Option<[u8; N]> {
    data.get(offset..offset.checked_add(N)?)?.try_into().ok()
}

/// The bytes before the first NUL, or all of them.
pub fn until_nul(raw: &[u8]) -> &[u8] {
    raw.split(|&b| b == 0).next().unwrap_or(raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_in_both_orders_and_refuses_to_pass_the_end() {
        let data = [1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(Endian::Little.u16_at(&data, 0), Some(0x0201));
        assert_eq!(Endian::Big.u32_at(&data, 4), Some(0x05060708));
        assert_eq!(Endian::Little.u64_at(&data, 1), None);
        assert_eq!(Endian::Little.u64_at(&data, usize::MAX), None);
    }
}
