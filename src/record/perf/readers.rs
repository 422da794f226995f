//! The threads that move records from the rings to the file.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use nix::sys::eventfd::{EfdFlags, EventFd};
use perf_event_open::count::Counter;

use crate::record::RecordError;

use super::super::buffers::{Load, Sizes};
use super::super::cpus::{Worker, run_at_once, stay_on};
use super::growth::{Grower, Grown, GrowthWish};
use super::output::{Output, Rounds};
use super::ring::Ring;
use super::stretch::Tally;

/// CPUs that one thread reads.
const CPUS_PER_THREAD: usize = 16;
/// A ring that is not half full is read this often.
const READ_EVERY_MS: i32 = 100;
/// How long the rate of events is watched before it says anything.
const RATE_TIME: Duration = Duration::from_millis(100);

/// A ring, and the events that write to it.
pub(super) struct Source {
    pub ring: Ring,
    /// Valid as long as the recorder has its events, which is longer than the threads run.
    pub writers: Vec<RawFd>,
    /// Becomes the owner of a larger ring.
    pub spare: Option<Counter>,
}

/// What the threads have in common with the recorder.
#[derive(Debug)]
pub(super) struct Shared {
    pub output: Output,
    rounds: Rounds,
    /// Where samples have their time.
    time_at: u64,
    samples: AtomicU64,
    lost: AtomicU64,
    stop: AtomicBool,
}

/// What a CPU's ring has given.
#[derive(Debug, Clone, Copy)]
pub(super) struct CpuTally {
    pub cpu: u32,
    pub tally: Tally,
}

/// What a thread leaves behind.
pub(super) struct ThreadResult {
    pub tallies: Vec<CpuTally>,
    pub cpu_time: Duration,
}

/// All reading threads.
pub(super) struct Readers {
    pub shared: Arc<Shared>,
    threads: Vec<Worker<ThreadResult>>,
    grower: Option<Grower>,
    /// Wakes all threads.
    wake: Arc<OwnedFd>,
    tids: Vec<i32>,
}

impl Readers {
    /// Starts the threads, which read from now on.
    pub fn start(
        sources: Vec<Source>,
        output: Output,
        sizes: Sizes,
        time_at: u64,
    ) -> Result<Self, RecordError> {
        let groups = grouped(sources);
        let shared = Arc::new(Shared {
            output,
            rounds: Rounds::new(groups.len()),
            time_at,
            samples: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        });
        let wake = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)
            .map_err(RecordError::system("cannot make an eventfd"))?;
        let grower = Grower::start().map_err(no_thread())?;
        let mut readers = Self {
            shared,
            threads: Vec::new(),
            tids: vec![grower.tid],
            grower: Some(grower),
            wake: Arc::new(wake.into()),
        };
        for (place, group) in groups.into_iter().enumerate() {
            readers.start_one(place, group, sizes)?;
        }
        Ok(readers)
    }

    fn start_one(
        &mut self,
        place: usize,
        sources: Vec<Source>,
        sizes: Sizes,
    ) -> Result<(), RecordError> {
        let Some(wishes) = self.grower.as_ref().map(Grower::wishes) else {
            return Ok(());
        };
        let (shared, wake) = (self.shared.clone(), self.wake.clone());
        let cpus: Vec<u32> = sources.iter().map(|source| source.ring.cpu).collect();
        let worker = Worker::start("ttwu-perf", &cpus, move || {
            run_at_once();
            let reader = Reader::new(place, sources, shared, sizes, wishes);
            reader.run(wake.as_raw_fd())
        })?;
        self.tids.push(worker.tid());
        self.threads.push(worker);
        Ok(())
    }

    /// The threads' ids.
    pub fn tids(&self) -> &[i32] {
        &self.tids
    }

    /// Samples and losses so far.
    pub fn counts(&self) -> (u64, u64) {
        let shared = &self.shared;
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (read(&shared.samples), read(&shared.lost))
    }

    /// Reads all that is in the rings and ends the threads.
    pub fn stop(&mut self) -> Vec<ThreadResult> {
        self.shared.stop.store(true, Ordering::Release);
        // The counter of an eventfd cannot overflow by this.
        let _ = nix::unistd::write(&self.wake, &1_u64.to_ne_bytes());
        let threads = std::mem::take(&mut self.threads);
        let mut results: Vec<_> = threads.into_iter().filter_map(Worker::join).collect();
        if let Some(grower) = self.grower.take() {
            results.push(ThreadResult {
                tallies: Vec::new(),
                cpu_time: grower.stop(),
            });
        }
        results
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.stop();
    }
}

fn no_thread() -> impl FnOnce(io::Error) -> RecordError {
    RecordError::system("cannot start a thread to read the events")
}

/// Parts the CPUs among as few threads as may be, and evenly.
fn grouped(sources: Vec<Source>) -> Vec<Vec<Source>> {
    let threads = sources.len().div_ceil(CPUS_PER_THREAD).max(1);
    let each = sources.len().div_ceil(threads).max(1);
    let mut groups: Vec<Vec<Source>> = Vec::with_capacity(threads);
    for source in sources {
        match groups.last_mut() {
            Some(group) if group.len() < each => group.push(source),
            _ => groups.push(vec![source]),
        }
    }
    groups
}

/// One ring and what is known of it.
struct Reading {
    source: Source,
    /// A larger ring to which the events are being moved.
    larger: Option<Ring>,
    tally: Tally,
    /// What came since the sizes were last looked at.
    recent: Load,
}

/// One reading thread.
struct Reader {
    place: usize,
    readings: Vec<Reading>,
    shared: Arc<Shared>,
    sizes: Sizes,
    wishes: Sender<GrowthWish>,
    /// Where larger rings arrive.
    grown: (Sender<Grown>, Receiver<Grown>),
    /// When the rate was last looked at.
    rated: Instant,
}

impl Reader {
    fn new(
        place: usize,
        sources: Vec<Source>,
        shared: Arc<Shared>,
        sizes: Sizes,
        wishes: Sender<GrowthWish>,
    ) -> Self {
        let reading = |source| Reading {
            source,
            larger: None,
            tally: Tally::default(),
            recent: Load::default(),
        };
        Self {
            place,
            readings: sources.into_iter().map(reading).collect(),
            shared,
            sizes,
            wishes,
            grown: mpsc::channel(),
            rated: Instant::now(),
        }
    }

    fn run(mut self, wake: RawFd) -> ThreadResult {
        let mut polled = self.polled(wake);
        loop {
            // Asked before reading: what the events wrote before they were turned off is read in any case.
            let last = self.shared.stop.load(Ordering::Acquire);
            if self.note_growth() {
                polled = self.polled(wake);
            }
            self.round();
            if last || self.shared.output.has_failed() {
                break;
            }
            self.wish_for_larger();
            wait(&mut polled);
        }
        self.collect_losses();
        self.shared.rounds.leave(self.place);
        let tally = |reading: &Reading| CpuTally {
            cpu: reading.source.ring.cpu,
            tally: reading.tally,
        };
        ThreadResult {
            tallies: self.readings.iter().map(tally).collect(),
            cpu_time: own_cpu_time(),
        }
    }

    fn polled(&self, wake: RawFd) -> Vec<libc::pollfd> {
        let rings = self.readings.iter().flat_map(Reading::rings);
        let files = rings.map(Ring::file);
        let polled = |fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        files.chain([wake]).map(polled).collect()
    }

    /// Reads every ring once.
    fn round(&mut self) {
        let shared = &self.shared;
        let mark = shared.rounds.begin();
        let mut written = false;
        for reading in &mut self.readings {
            written |= reading.read(shared);
        }
        shared.rounds.end(self.place, mark, written, &shared.output);
    }

    /// Asks for larger rings where they fill fast.
    fn wish_for_larger(&mut self) {
        let time = self.rated.elapsed();
        if time < RATE_TIME {
            return;
        }
        self.rated = Instant::now();
        for reading in &mut self.readings {
            let load = Load {
                time,
                ..std::mem::take(&mut reading.recent)
            };
            let size = reading.source.ring.size();
            let Some(size) = self.sizes.better(size, load) else {
                continue;
            };
            // None is left while a ring is being made, and when there was no memory for one.
            if let Some(owner) = reading.source.spare.take() {
                let _ = self.wishes.send(GrowthWish {
                    owner,
                    cpu: reading.source.ring.cpu,
                    size,
                    writers: reading.source.writers.clone(),
                    answer: self.grown.0.clone(),
                });
            }
        }
    }

    /// Takes larger rings as they come. Returns whether there are others to wait for than before.
    fn note_growth(&mut self) -> bool {
        let mut changed = false;
        while let Ok(grown) = self.grown.1.try_recv() {
            let of = match &grown {
                Grown::Mapped(ring) => ring.cpu,
                Grown::Moved(cpu) => *cpu,
            };
            let mut readings = self.readings.iter_mut();
            if let Some(reading) = readings.find(|reading| reading.source.ring.cpu == of) {
                reading.note_growth(grown, &self.shared);
                changed = true;
            }
        }
        changed
    }

    /// Makes the kernel tell of losses that it has not told of yet, since nothing came after them.
    fn collect_losses(&mut self) {
        if self.shared.output.has_failed() {
            return;
        }
        for reading in &mut self.readings {
            reading.collect_losses(&self.shared);
        }
    }
}

impl Reading {
    fn rings(&self) -> impl Iterator<Item = &Ring> {
        [&self.source.ring].into_iter().chain(&self.larger)
    }

    /// Appends what the CPU's rings have to the file. Returns whether they had anything.
    fn read(&mut self, shared: &Shared) -> bool {
        let mut bytes = 0;
        for ring in [&mut self.source.ring].into_iter().chain(&mut self.larger) {
            bytes += read_ring(ring, &mut self.tally, shared);
        }
        self.recent.bytes += bytes;
        self.recent.fullest = self.recent.fullest.max(bytes);
        bytes > 0
    }

    fn note_growth(&mut self, grown: Grown, shared: &Shared) {
        match grown {
            Grown::Mapped(ring) => self.larger = Some(ring),
            Grown::Moved(_) => {
                // Nothing more comes into the old one.
                self.read(shared);
                if let Some(larger) = self.larger.take() {
                    let old = std::mem::replace(&mut self.source.ring, larger);
                    self.source.spare = Some(old.into_owner());
                }
            }
        }
    }

    /// A task that changes its name makes a record, and before it the kernel writes what it owes.
    fn collect_losses(&mut self, shared: &Shared) {
        if self.rings().any(Ring::may_owe_loss) {
            // From elsewhere it would be another ring that is written to.
            let _ = stay_on(&[self.source.ring.cpu]);
            let _ = nix::sys::prctl::set_name(c"ttwu-perf");
            self.read(shared);
        }
    }
}

/// Appends what a ring has to the file. Returns how many bytes it had.
fn read_ring(ring: &mut Ring, sum: &mut Tally, shared: &Shared) -> u64 {
    let stretch = ring.unread();
    let bytes = stretch.len();
    if bytes == 0 {
        return 0;
    }
    let tally = stretch.tally(shared.time_at);
    if !shared.output.append(&stretch) {
        return 0;
    }
    ring.consume(bytes);
    sum.add(tally);
    shared.samples.fetch_add(tally.samples, Ordering::Relaxed);
    shared.lost.fetch_add(tally.lost, Ordering::Relaxed);
    bytes
}

/// Waits until a ring is half full, the recording ends, or it is time to look anyway.
fn wait(polled: &mut [libc::pollfd]) {
    // SAFETY: the pointer and the length are of one slice.
    let ready = unsafe {
        libc::poll(
            polled.as_mut_ptr(),
            polled.len() as libc::nfds_t,
            READ_EVERY_MS,
        )
    };
    if ready <= 0 {
        return;
    }
    for poll in polled {
        // A ring whose CPU has gone offline would end every wait at once.
        if poll.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0 {
            poll.fd = -1;
        }
    }
}

/// CPU time of the calling thread.
pub(super) fn own_cpu_time() -> Duration {
    nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID)
        .map(Duration::from)
        .unwrap_or_default()
}
