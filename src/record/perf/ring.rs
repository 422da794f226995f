//! A ring of the kernel's, mapped into this process.
//!
//! Source: `struct perf_event_mmap_page` in `include/uapi/linux/perf_event.h`. The kernel writes records and moves the
//! head; the reader moves the tail to where it has read. Neither is ever taken modulo the ring's size.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};
use perf_event_open::count::Counter;

use super::super::buffers::page_size;
use super::stretch::Stretch;

/// Where the first page has the head and the tail.
const HEAD_AT: usize = 1024;
const TAIL_AT: usize = 1032;

/// A record's size has 16 bits: a ring with no more room than this may have had to drop one.
const LARGEST_RECORD: u64 = 1 << 16;

mod ioctl {
    // PERF_EVENT_IOC_SET_OUTPUT, `_IO('$', 5)`
    nix::ioctl_write_int_bad!(set_output, nix::request_code_none!(b'$', 5));
}

/// One CPU's ring.
pub(super) struct Ring {
    pub cpu: u32,
    owner: Counter,
    map: MmapRaw,
    page: usize,
    /// Bytes of records that it can hold: a power of two.
    size: usize,
    /// When it was read last, records may have been dropped that no LOST record told of yet.
    may_owe_loss: bool,
}

impl Ring {
    /// Maps a ring of `size` bytes, a power of two and no less than a page.
    ///
    /// # Errors
    /// `EPERM` if the user may not lock so much memory.
    pub fn map(owner: Counter, cpu: u32, size: usize) -> io::Result<Self> {
        let page = page_size();
        let map = MmapOptions::new().len(page + size).map_raw(owner.file())?;
        Ok(Self {
            cpu,
            owner,
            map,
            page,
            size,
            may_owe_loss: false,
        })
    }

    pub fn size(&self) -> usize {
        self.size
    }

    /// The file that polls as readable when half of the ring is full.
    pub fn file(&self) -> RawFd {
        self.owner.file().as_raw_fd()
    }

    /// A counter of the first page. The kernel aligns both.
    fn counter(&self, at: usize) -> &AtomicU64 {
        // SAFETY: the first page is mapped as long as `self` is, and both sides only access these words atomically.
        unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().add(at).cast()) }
    }

    /// Where the kernel will write next.
    pub fn head(&self) -> u64 {
        // Pairs with the kernel's release: what lies before the head has been written.
        self.counter(HEAD_AT).load(Ordering::Acquire)
    }

    fn tail(&self) -> u64 {
        self.counter(TAIL_AT).load(Ordering::Relaxed)
    }

    /// What lies between tail and head.
    pub fn unread(&self) -> Stretch<'_> {
        let (head, tail) = (self.head(), self.tail());
        let length = (head.wrapping_sub(tail) as usize).min(self.size);
        let start = tail as usize & (self.size - 1);
        let first = length.min(self.size - start);
        // SAFETY: both lie within the mapping's data, and the kernel leaves what is unread alone until the tail moves,
        // which takes `&mut self`.
        unsafe {
            let data = self.map.as_ptr().add(self.page);
            Stretch {
                first: slice::from_raw_parts(data.add(start), first),
                second: slice::from_raw_parts(data, length - first),
            }
        }
    }

    /// Gives so many of the oldest unread bytes back to the kernel.
    pub fn consume(&mut self, bytes: u64) {
        if bytes > 0 {
            self.may_owe_loss = bytes.saturating_add(LARGEST_RECORD) > self.size as u64;
        }
        let tail = self.tail().wrapping_add(bytes);
        // Pairs with the kernel's read of the tail: all reading is done before.
        self.counter(TAIL_AT).store(tail, Ordering::Release);
    }

    /// Whether records may have been dropped that no LOST record has told of: the kernel writes one before the next
    /// record that fits.
    pub fn may_owe_loss(&self) -> bool {
        self.may_owe_loss
    }

    /// Unmaps the ring and hands out its owner.
    pub fn into_owner(self) -> Counter {
        self.owner
    }
}

/// Makes an event write to the ring of another on the same CPU, from wherever it wrote before.
pub(super) fn attach(owner: RawFd, writer: RawFd) -> io::Result<()> {
    // SAFETY: the kernel checks that both are events, and that they match.
    unsafe { ioctl::set_output(writer, owner) }?;
    Ok(())
}
