//! The file while it is being recorded: a trace.dat of version 7 that grows by extents, each the pages of one CPU.
//!
//! ```text
//! head │ options: extent 1 │ pages of a CPU … │ options: extent 2 │ pages of a CPU … │
//!   └────►│  └─────────────────────────────────►│ └─► …
//! ```
//!
//! Every extent is announced before its pages are written and is as long as it will ever be, so what is in the file
//! can be read whenever this program is killed: pages that were not written yet are zeros or lie behind the file's end.
//! When the recording is over the pages of each CPU are put together in a file as everyone writes it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Mutex;

use super::super::RecordError;
use super::dat::{Description, JournalHead, extent_head};

/// Pages of an extent. The last extent of a CPU is half empty on average.
const EXTENT_PAGES: u64 = 255;

/// A stretch of the file for pages of one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    pub cpu: u32,
    /// Where its pages start.
    pub offset: u64,
    /// Bytes of pages written.
    pub used: u64,
    pub size: u64,
}

impl Extent {
    pub fn room(&self) -> u64 {
        self.size - self.used
    }
}

/// The file of a running recording; several threads take extents of it.
#[derive(Debug)]
pub struct Journal {
    file: File,
    description: Description,
    end: Mutex<End>,
}

#[derive(Debug)]
struct End {
    /// Where the next extent goes.
    at: u64,
    /// Where its place is to be noted.
    next: u64,
}

impl Journal {
    /// Writes the head into an empty file.
    pub fn start(file: File, description: Description) -> Result<Self, RecordError> {
        let head = JournalHead::new(&description)?;
        file.write_all_at(&head.bytes, 0)
            .map_err(RecordError::system("cannot write the trace"))?;
        let end = End {
            at: head.bytes.len() as u64,
            next: head.next,
        };
        Ok(Self {
            file,
            description,
            end: Mutex::new(end),
        })
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    pub fn page_size(&self) -> u64 {
        u64::from(self.description.page_size)
    }

    /// A new extent for a CPU.
    pub fn extent(&self, cpu: u32) -> Result<Extent, RecordError> {
        let page = self.page_size();
        let size = EXTENT_PAGES * page;
        // Only a panic of another thread, which ends the recording, poisons it.
        let mut end = self
            .end
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let at = end.at;
        let (head, next) = extent_head(&self.description, cpu, at, size);
        let write = |bytes: &[u8], at| {
            self.file
                .write_all_at(bytes, at)
                .map_err(RecordError::system("cannot write the trace"))
        };
        write(&head, at)?;
        write(&at.to_le_bytes(), end.next)?;
        *end = End {
            at: at + page + size,
            next,
        };
        Ok(Extent {
            cpu,
            offset: at + page,
            used: 0,
            size,
        })
    }
}
