//! Little-endian bytes, put one after the other.

#[derive(Debug, Default)]
pub struct Bytes(pub Vec<u8>);

impl Bytes {
    pub fn u8(&mut self, value: u8) -> &mut Self {
        self.0.push(value);
        self
    }

    pub fn u16(&mut self, value: u16) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    pub fn u32(&mut self, value: usize) -> &mut Self {
        self.raw(&(value as u32).to_le_bytes())
    }

    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend(bytes);
        self
    }

    /// A text and a NUL.
    pub fn text(&mut self, text: &str) -> &mut Self {
        self.raw(text.as_bytes()).u8(0)
    }

    /// A text with its length, in 64 bits, before it.
    pub fn sized(&mut self, text: &str) -> &mut Self {
        self.u64(text.len() as u64).raw(text.as_bytes())
    }

    pub fn pad(&mut self, multiple: usize) -> &mut Self {
        let padded = self.0.len().next_multiple_of(multiple);
        self.0.resize(padded, 0);
        self
    }

    /// Overwrites what stands at `at`.
    pub fn set_u64(&mut self, at: usize, value: u64) {
        self.0[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
}
