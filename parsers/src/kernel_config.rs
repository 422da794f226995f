//! How a kernel was built: `/proc/config.gz` or `/boot/config-RELEASE` (Documentation/kbuild/kconfig-language.rst).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Read;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// The most that is unpacked; today's largest are below 400 KB.
const MAX_UNPACKED: u64 = 16 << 20;

/// The options that are set, without their `CONFIG_`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KernelConfig(BTreeMap<String, String>);

impl KernelConfig {
    /// Reads a configuration, plain or packed with gzip; damage costs what is behind it.
    pub fn read(bytes: &[u8]) -> Self {
        let text = unpacked(bytes);
        let text = String::from_utf8_lossy(&text);
        let option = |line: &str| {
            let (key, value) = line.strip_prefix("CONFIG_")?.split_once('=')?;
            Some((key.to_owned(), value.trim_end().to_owned()))
        };
        Self(text.lines().filter_map(option).collect())
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// An option's value as written, `key` being without `CONFIG_`.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// Whether an option is built in.
    pub fn is_set(&self, key: &str) -> bool {
        self.value(key) == Some("y")
    }
}

fn unpacked(bytes: &[u8]) -> Cow<'_, [u8]> {
    if !bytes.starts_with(&GZIP_MAGIC) {
        return Cow::Borrowed(bytes);
    }
    let mut text = Vec::new();
    let unpacked = flate2::read::GzDecoder::new(bytes);
    // What came before the damage is kept.
    let _ = unpacked.take(MAX_UNPACKED).read_to_end(&mut text);
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const TEXT: &[u8] = b"#\n# Automatically generated\nCONFIG_HZ=250\n# CONFIG_KPROBES is not set\nCONFIG_PREEMPT_NONE=y\n";

    #[test]
    fn plain_and_packed_read_alike() {
        let plain = KernelConfig::read(TEXT);
        assert_eq!(plain.value("HZ"), Some("250"));
        assert!(plain.is_set("PREEMPT_NONE") && !plain.is_set("KPROBES"));
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(TEXT).unwrap();
        let packed = packer.finish().unwrap();
        assert_eq!(KernelConfig::read(&packed), plain);
        assert!(KernelConfig::read(&packed[..4]).is_empty());
        assert!(KernelConfig::read(&[0x1f, 0x8b, 0xff, 0xff]).is_empty());
    }
}
