//! The file's data as it grows, written by several threads.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::stretch::Stretch;

/// `PERF_RECORD_FINISHED_ROUND`, a record without content.
const FINISHED_ROUND: u32 = 68;

/// The end of a file, to which each thread appends whole records at a place of its own.
#[derive(Debug)]
pub(super) struct Output {
    file: File,
    end: AtomicU64,
    /// Where the first piece lies that could not be written; what comes after it is not reachable.
    broken_from: AtomicU64,
    error: Mutex<Option<io::Error>>,
}

impl Output {
    pub fn new(file: File) -> Self {
        Self {
            file,
            end: AtomicU64::new(0),
            broken_from: AtomicU64::new(u64::MAX),
            error: Mutex::new(None),
        }
    }

    /// Appends from byte `start` on. To be called before anything comes.
    pub fn start_at(&self, start: u64) {
        self.end.store(start, Ordering::Release);
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// Where the data ends.
    pub fn end(&self) -> u64 {
        let end = self.end.load(Ordering::Acquire);
        end.min(self.broken_from.load(Ordering::Acquire))
    }

    /// Whether something could not be written, so that there is no use in going on.
    pub fn has_failed(&self) -> bool {
        self.broken_from.load(Ordering::Acquire) != u64::MAX
    }

    pub fn take_error(&self) -> Option<io::Error> {
        self.error.lock().ok()?.take()
    }

    /// Appends a stretch of records, straight from the ring. Returns whether it could; why not is kept for
    /// [`Self::take_error`].
    pub fn append(&self, stretch: &Stretch<'_>) -> bool {
        let at = self.end.fetch_add(stretch.len(), Ordering::AcqRel);
        let written = self.file.write_all_at(stretch.first, at).and_then(|()| {
            self.file
                .write_all_at(stretch.second, at + stretch.first.len() as u64)
        });
        let Err(error) = written else {
            return true;
        };
        self.broken_from.fetch_min(at, Ordering::AcqRel);
        if let Ok(mut kept) = self.error.lock() {
            kept.get_or_insert(error);
        }
        false
    }

    pub fn append_bytes(&self, bytes: &[u8]) -> bool {
        self.append(&Stretch {
            first: bytes,
            second: &[],
        })
    }
}

/// When all rings have been read once more, the file says so: readers may then sort and forget what is older than
/// the round before, instead of keeping everything until the end.
///
/// Threads go their own pace, so a round ends when each has read all of its rings since the last one's mark:
///
/// ```text
/// thread A   |── reads ──|── reads ──|── reads ──|
/// thread B   |──────── reads ────────|── reads ──|
/// file       M1                      M2
/// ```
///
/// What stands behind M2 was not in its ring when its thread read it between M1 and M2, so it is younger than all that
/// stands before M1. That is what perf asks of the marks (`ordered_events__flush`).
#[derive(Debug)]
pub(super) struct Rounds {
    state: Mutex<RoundState>,
}

#[derive(Debug)]
struct RoundState {
    /// The number of the mark that is to come.
    next: u64,
    /// By thread: the mark that it has read all its rings for.
    done: Vec<u64>,
    /// Something has been written since the last mark.
    written: bool,
}

impl Rounds {
    pub fn new(threads: usize) -> Self {
        Self {
            state: Mutex::new(RoundState {
                next: 1,
                done: vec![0; threads],
                written: false,
            }),
        }
    }

    /// To be called before a thread reads its first ring; returns the mark it reads for.
    pub fn begin(&self) -> u64 {
        self.state.lock().map_or(0, |state| state.next)
    }

    /// To be called when a thread has read its last ring.
    pub fn end(&self, thread: usize, mark: u64, written: bool, output: &Output) {
        let Ok(mut state) = self.state.lock() else {
            return;
        };
        state.written |= written;
        if let Some(done) = state.done.get_mut(thread) {
            *done = (*done).max(mark);
        }
        let next = state.next;
        if state.written && state.done.iter().all(|&done| done >= next) {
            output.append_bytes(&finished_round());
            state.next += 1;
            state.written = false;
        }
    }

    /// To be called when a thread will read no more.
    pub fn leave(&self, thread: usize) {
        if let Ok(mut state) = self.state.lock()
            && let Some(done) = state.done.get_mut(thread)
        {
            *done = u64::MAX;
        }
    }
}

fn finished_round() -> [u8; 8] {
    let mut record = [0; 8];
    let (kind, size) = record.split_at_mut(4);
    kind.copy_from_slice(&FINISHED_ROUND.to_ne_bytes());
    if let Some(size) = size.get_mut(2..) {
        size.copy_from_slice(&8_u16.to_ne_bytes());
    }
    record
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output() -> Output {
        let output = Output::new(tempfile::tempfile().unwrap());
        output.start_at(100);
        output
    }

    #[test]
    fn a_round_ends_when_every_thread_has_read_since_the_last_mark() {
        let output = output();
        let rounds = Rounds::new(2);
        let (a, b) = (rounds.begin(), rounds.begin());
        rounds.end(0, a, true, &output);
        let again = rounds.begin();
        rounds.end(0, again, true, &output);
        assert_eq!(output.end(), 100);
        rounds.end(1, b, false, &output);
        assert_eq!(output.end(), 108);
        // B began before the mark: its reading does not count for the next.
        let (a, late) = (rounds.begin(), b);
        rounds.end(0, a, true, &output);
        rounds.end(1, late, true, &output);
        assert_eq!(output.end(), 108);
        rounds.leave(1);
        rounds.end(0, a, false, &output);
        assert_eq!(output.end(), 116);
        // Nothing written, no mark.
        let a = rounds.begin();
        rounds.end(0, a, false, &output);
        assert_eq!(output.end(), 116);
    }

    #[test]
    fn what_cannot_be_written_ends_the_data() {
        let read_only = File::open("/dev/null").unwrap();
        let output = Output::new(read_only);
        output.start_at(50);
        output.append_bytes(&[0; 8]);
        assert!(output.has_failed());
        assert_eq!(output.end(), 50);
        assert!(output.take_error().is_some());
    }
}
