//! A thread that moves the pages of a group of CPUs from the kernel into the journal.
//!
//! Full pages are spliced: the kernel gives the page away and nothing is copied on the way to the page cache. The page
//! that is being filled can only be copied, which is done now and then so that a killed recording misses little.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{OFlag, SpliceFFlags, splice};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::pipe2;

use super::super::RecordError;
use super::super::buffers::{Load, Sizes};
use super::super::instance::Instance;
use super::journal::{Extent, Journal};

/// The longest pause between two looks at the buffers. They wake the thread earlier when they fill up.
const TICK: Duration = Duration::from_millis(100);
/// How often the page being filled is copied: often in the first moments, when the file holds little else.
const COPIES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// How often the rate of events is looked at.
const RATE_SPAN: Duration = Duration::from_millis(100);
/// Bytes that pass through the pipe between the two ends of a splice at a time: what a pipe holds by default. With more,
/// pages are cold again when they are written and used anew, which costs the recorded program a percent.
const PIPE: usize = 64 << 10;

/// One CPU's way into the journal.
#[derive(Debug)]
struct Lane {
    cpu: u32,
    pages: File,
    extents: Vec<Extent>,
    /// Bytes of buffer that this CPU has.
    buffer: usize,
    /// What came since the sizes were last looked at.
    recent: Load,
}

/// The pages of a group of CPUs, to be moved by one thread.
#[derive(Debug)]
pub struct Reader {
    lanes: Vec<Lane>,
    journal: Arc<Journal>,
    instance: Arc<Instance>,
    pipe: (OwnedFd, OwnedFd),
    /// Readable when the recording is over.
    stop: Arc<OwnedFd>,
    moved: Arc<AtomicU64>,
    /// Whether the buffers wake their reader only when they fill up (4.21 on); before, every event would.
    wakes_late: bool,
    sizes: Sizes,
    page: Vec<u8>,
}

impl Reader {
    pub fn new(
        cpus: &[u32],
        sizes: Sizes,
        journal: &Arc<Journal>,
        instance: &Arc<Instance>,
        stop: &Arc<OwnedFd>,
        moved: &Arc<AtomicU64>,
    ) -> Result<Self, RecordError> {
        let lane = |&cpu: &u32| {
            Ok(Lane {
                cpu,
                pages: instance.open_pages(cpu)?,
                extents: Vec::new(),
                buffer: sizes.start,
                recent: Load::default(),
            })
        };
        let pipe = pipe2(OFlag::O_CLOEXEC).map_err(RecordError::system("cannot make a pipe"))?;
        Ok(Self {
            lanes: cpus.iter().map(lane).collect::<Result<_, RecordError>>()?,
            pipe,
            journal: journal.clone(),
            instance: instance.clone(),
            stop: stop.clone(),
            moved: moved.clone(),
            wakes_late: instance.path("buffer_percent").exists(),
            sizes,
            page: vec![0; journal.page_size() as usize],
        })
    }

    /// Moves pages until the recording is over; returns where they are.
    pub fn run(mut self) -> Result<Vec<Extent>, RecordError> {
        let started = Instant::now();
        let mut copy_at = COPIES.0;
        let mut rated = started;
        loop {
            let over = self.wait(copy_at.saturating_sub(started.elapsed()).min(TICK))?;
            self.move_full_pages()?;
            let now = started.elapsed();
            if over {
                self.copy_the_rest()?;
                return Ok(self
                    .lanes
                    .into_iter()
                    .flat_map(|lane| lane.extents)
                    .collect());
            }
            if now >= copy_at {
                self.copy_the_rest()?;
                copy_at = now + (now / 2).clamp(COPIES.0, COPIES.1);
            }
            let span = rated.elapsed();
            if span >= RATE_SPAN {
                self.grow(span);
                rated = Instant::now();
            }
        }
    }

    /// Waits until a buffer fills up, but no longer than that; tells whether the recording is over.
    fn wait(&self, most: Duration) -> Result<bool, RecordError> {
        let watch = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let mut fds = vec![watch(self.stop.as_fd())];
        if self.wakes_late {
            fds.extend(self.lanes.iter().map(|lane| watch(lane.pages.as_fd())));
        }
        // Rounded up: rounded down it would come back before the time.
        let most = PollTimeout::try_from(most.as_micros().div_ceil(1000));
        match poll(&mut fds, most.unwrap_or(PollTimeout::MAX)) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(RecordError::system("cannot wait for events")(error)),
        }
        let stopped = fds.first().and_then(|fd| fd.revents());
        Ok(stopped.is_some_and(|events| events.contains(PollFlags::POLLIN)))
    }

    fn move_full_pages(&mut self) -> Result<(), RecordError> {
        for index in 0..self.lanes.len() {
            let before = self.recent(index).bytes;
            while self.splice(index)? {}
            let recent = self.recent(index);
            recent.fullest = recent.fullest.max(recent.bytes - before);
        }
        Ok(())
    }

    /// Moves some full pages of one CPU; tells whether there may be more.
    fn splice(&mut self, index: usize) -> Result<bool, RecordError> {
        let extent = self.extent(index)?;
        let lane = &self.lanes[index];
        let most = extent.room().min(PIPE as u64) as usize;
        let flags = SpliceFFlags::SPLICE_F_NONBLOCK | SpliceFFlags::SPLICE_F_MOVE;
        let taken = match splice(&lane.pages, None, &self.pipe.1, None, most, flags) {
            Ok(0) | Err(Errno::EAGAIN | Errno::EINTR) => return Ok(false),
            Ok(taken) => taken,
            Err(error) => return Err(RecordError::system("cannot read the ring buffer")(error)),
        };
        let mut left = taken;
        let mut at = (extent.offset + extent.used) as i64;
        while left > 0 {
            let flags = SpliceFFlags::SPLICE_F_MOVE;
            match splice(
                &self.pipe.0,
                None,
                self.journal.file(),
                Some(&mut at),
                left,
                flags,
            ) {
                Ok(0) => return Err(RecordError::system("cannot write the trace")(Errno::EIO)),
                Ok(written) => left -= written,
                Err(Errno::EINTR) => {}
                Err(error) => return Err(RecordError::system("cannot write the trace")(error)),
            }
        }
        self.written(index, taken as u64);
        Ok(true)
    }

    /// Copies what the pages hold that are not full.
    fn copy_the_rest(&mut self) -> Result<(), RecordError> {
        for index in 0..self.lanes.len() {
            while self.copy(index)? {}
        }
        Ok(())
    }

    fn copy(&mut self, index: usize) -> Result<bool, RecordError> {
        let lane = &self.lanes[index];
        let read = match (&lane.pages).read(&mut self.page) {
            Ok(0) => return Ok(false),
            Ok(read) => read,
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                return Ok(false);
            }
            Err(error) => return Err(RecordError::system("cannot read the ring buffer")(error)),
        };
        // The kernel fills less than a page only where a page holds less.
        self.page[read..].fill(0);
        let extent = self.extent(index)?;
        self.journal
            .file()
            .write_all_at(&self.page, extent.offset + extent.used)
            .map_err(RecordError::system("cannot write the trace"))?;
        self.written(index, self.page.len() as u64);
        Ok(true)
    }

    /// The extent that a CPU's next page goes to.
    fn extent(&mut self, index: usize) -> Result<Extent, RecordError> {
        let lane = &mut self.lanes[index];
        match lane.extents.last() {
            Some(extent) if extent.room() > 0 => Ok(*extent),
            _ => {
                let extent = self.journal.extent(lane.cpu)?;
                lane.extents.push(extent);
                Ok(extent)
            }
        }
    }

    fn written(&mut self, index: usize, bytes: u64) {
        let lane = &mut self.lanes[index];
        if let Some(extent) = lane.extents.last_mut() {
            extent.used += bytes;
        }
        lane.recent.bytes += bytes;
        self.moved.fetch_add(bytes, Ordering::Relaxed);
    }

    fn recent(&mut self, index: usize) -> &mut Load {
        &mut self.lanes[index].recent
    }

    /// Gives the CPUs that need it a larger buffer. Their events stay in it meanwhile.
    fn grow(&mut self, time: Duration) {
        for lane in &mut self.lanes {
            let load = Load {
                time,
                ..std::mem::take(&mut lane.recent)
            };
            if let Some(better) = self.sizes.better(lane.buffer, load) {
                let file = format!("per_cpu/cpu{}/buffer_size_kb", lane.cpu);
                // No memory for more: what there is will do, or its losses are told.
                if self
                    .instance
                    .write(file, &(better / 1024).to_string())
                    .is_ok()
                {
                    lane.buffer = better;
                }
            }
        }
    }
}

/// Wakes readers that wait on an eventfd.
pub fn wake(stop: &OwnedFd) -> io::Result<()> {
    nix::unistd::write(stop, &1_u64.to_ne_bytes())?;
    Ok(())
}
