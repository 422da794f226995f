//! A thread that makes larger rings and moves events over to them. Both take longer than a reading thread may be away:
//! the kernel clears all of a ring's memory, and lets each event wait for a grace period of RCU before it changes to
//! its second ring (`ring_buffer_attach` in `kernel/events/core.c`).
//!
//! ```text
//! reader   │ reads old │ wishes │ reads old │ reads old and new    │ reads new
//! this                          │ maps new  │ moves event by event │
//! ```

use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use perf_event_open::count::Counter;

use super::readers::own_cpu_time;
use super::ring::{Ring, attach};

/// A ring that a reader wishes for.
pub(super) struct GrowthWish {
    /// What is to own the ring.
    pub owner: Counter,
    pub cpu: u32,
    /// Bytes of the ring.
    pub size: usize,
    /// The files of the events that are to move.
    pub writers: Vec<RawFd>,
    pub answer: Sender<Grown>,
}

/// What becomes of a wish.
pub(super) enum Grown {
    /// The ring is there, and events begin to write to it.
    Mapped(Ring),
    /// All events of the CPU have moved.
    Moved(u32),
}

/// The thread.
pub(super) struct Grower {
    wishes: Sender<GrowthWish>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Duration>,
    pub tid: i32,
}

impl Grower {
    pub fn start() -> io::Result<Self> {
        let (wishes, received) = mpsc::channel();
        let (tell_tid, tid) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::Builder::new()
            .name("ttwu-perf-rings".to_owned())
            .spawn(move || {
                let _ = tell_tid.send(nix::unistd::gettid().as_raw());
                for wish in received {
                    grant(wish, &stopped);
                }
                own_cpu_time()
            })?;
        Ok(Self {
            wishes,
            stop,
            thread,
            tid: tid.recv().unwrap_or(0),
        })
    }

    /// For a reader.
    pub fn wishes(&self) -> Sender<GrowthWish> {
        self.wishes.clone()
    }

    /// Ends the thread once no reader is left. Returns its CPU time.
    pub fn stop(self) -> Duration {
        self.stop.store(true, Ordering::Release);
        drop(self.wishes);
        self.thread.join().unwrap_or_default()
    }
}

/// Where there is no memory for a larger ring, or no right to lock so much, the old one has to do.
fn grant(wish: GrowthWish, stop: &AtomicBool) {
    let GrowthWish {
        owner,
        cpu,
        size,
        writers,
        answer,
    } = wish;
    if stop.load(Ordering::Acquire) {
        return;
    }
    let Ok(ring) = Ring::map(owner, cpu, size) else {
        return;
    };
    let new = ring.file();
    // A reader that is gone has no use for the ring, and its files may be closed.
    if answer.send(Grown::Mapped(ring)).is_err() {
        return;
    }
    for &writer in &writers {
        // An event that cannot move leaves both rings in use, which is no harm.
        if stop.load(Ordering::Acquire) || attach(new, writer).is_err() {
            return;
        }
    }
    let _ = answer.send(Grown::Moved(cpu));
}
