//! A trace file's bytes: memory mapped, or owned where they had to be decompressed first.

use std::fs::File;
use std::ops::Deref;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;

use crate::error::OpenError;

/// Bytes that readers share without copying.
#[derive(Clone)]
pub struct Bytes(Arc<Storage>);

enum Storage {
    Mapped(memmap2::Mmap),
    Owned(Vec<u8>),
}

impl Bytes {
    /// Maps a regular file, or what a pipe brings once it has ended; a folder, a device, an empty or an unreadable file
    /// is an error that says so.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let io = |source| OpenError::Io {
            path: path.into(),
            source,
        };
        let meta = std::fs::metadata(path).map_err(io)?;
        if meta.is_dir() {
            return Err(OpenError::Directory { path: path.into() });
        }
        let kind = meta.file_type();
        if kind.is_char_device() || kind.is_block_device() {
            return Err(OpenError::WrongKind {
                path: path.into(),
                found: "a device".into(),
            });
        }
        let mut file = File::open(path).map_err(io)?;
        if !meta.is_file() {
            file = spooled(file).map_err(io)?;
        }
        if file.metadata().map_err(io)?.len() == 0 {
            return Err(OpenError::Empty { path: path.into() });
        }
        Self::map(&file).map_err(io)
    }

    /// Maps an open file.
    #[allow(unsafe_code)]
    pub fn map(file: &File) -> std::io::Result<Self> {
        // SAFETY: the map is read-only and private to this process. The one hazard that no program can rule
        // out is another process truncating the file meanwhile, which ends this one with SIGBUS.
        let map = unsafe { memmap2::Mmap::map(file)? };
        Ok(Self(Arc::new(Storage::Mapped(map))))
    }

    /// Bytes that are in memory already.
    pub fn owned(data: Vec<u8>) -> Self {
        Self(Arc::new(Storage::Owned(data)))
    }
}

/// A pipe's content as a file without a name.
fn spooled(mut pipe: File) -> std::io::Result<File> {
    let mut file = tempfile::tempfile()?;
    std::io::copy(&mut pipe, &mut file)?;
    Ok(file)
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &*self.0 {
            Storage::Mapped(map) => map,
            Storage::Owned(data) => data,
        }
    }
}

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Bytes({})", self.len())
    }
}
