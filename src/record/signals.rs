//! Signals to this program, taken one by one where they can be acted upon.

use std::os::fd::AsFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use super::RecordError;

/// The signals by which a person or a service manager ends a program.
const ENDING: [Signal; 4] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
];

/// Blocks the signals that it takes.
#[derive(Debug)]
pub struct Signals {
    fd: SignalFd,
    before: SigSet,
}

/// A signal that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caught {
    /// A child ended.
    Child,
    /// Somebody wants an end.
    Ending {
        signal: Signal,
        /// The terminal sent it, to all programs in its foreground.
        from_terminal: bool,
    },
}

impl Signals {
    /// To be called before any thread is started, as those inherit what is blocked.
    pub fn take() -> Result<Self, RecordError> {
        let mut set = SigSet::empty();
        ENDING.iter().for_each(|&signal| set.add(signal));
        set.add(Signal::SIGCHLD);
        let failed = RecordError::system("cannot take signals");
        let before = set
            .thread_swap_mask(nix::sys::signal::SigmaskHow::SIG_BLOCK)
            .map_err(RecordError::system("cannot block signals"))?;
        let fd = SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
            .map_err(failed)?;
        Ok(Self { fd, before })
    }

    /// What was blocked before, for programs that are started.
    pub fn mask_before(&self) -> SigSet {
        self.before
    }

    /// Waits for a signal, at most so long; without a time for ever.
    pub fn wait(&self, most: Option<Duration>) -> Result<Option<Caught>, RecordError> {
        let timeout = match most {
            None => PollTimeout::NONE,
            // Rounded up, so as not to come back before the time.
            Some(most) => {
                PollTimeout::try_from(most.as_micros().div_ceil(1000)).unwrap_or(PollTimeout::MAX)
            }
        };
        let mut fds = [PollFd::new(self.fd.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(RecordError::system("cannot wait for signals")(error)),
        }
        let caught = self
            .fd
            .read_signal()
            .map_err(RecordError::system("cannot read a signal"))?;
        Ok(caught.and_then(|info| {
            let signal = Signal::try_from(info.ssi_signo as i32).ok()?;
            Some(match signal {
                Signal::SIGCHLD => Caught::Child,
                signal => Caught::Ending {
                    signal,
                    from_terminal: info.ssi_code == libc::SI_KERNEL,
                },
            })
        }))
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // Such as came too late are delivered now, and end this program as they would any other.
        let _ = self.before.thread_set_mask();
    }
}
