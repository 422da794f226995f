//! Temporary folders that go when their owner does, and also when a signal ends the program.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use nix::sys::signal::{SigSet, SigmaskHow, Signal, raise};
use tempfile::{Builder, TempDir};

/// The signals by which a person or a service manager ends a program.
const ENDING: [Signal; 4] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
];

/// The folders that are in use.
static IN_USE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A temporary folder.
#[derive(Debug)]
pub struct Temporary(TempDir);

impl Temporary {
    /// Makes one in a folder, with a name that begins so.
    ///
    /// # Errors
    /// Where that cannot be written.
    pub fn new(prefix: &str, within: &Path) -> io::Result<Self> {
        // Held meanwhile, so that no signal comes between making and noting it.
        let mut in_use = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = Builder::new().prefix(prefix).tempdir_in(within)?;
        in_use.push(folder.path().to_owned());
        Ok(Self(folder))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // Held until it is gone, so that no signal ends the program in between.
        let mut in_use = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = std::fs::remove_dir_all(self.0.path());
        in_use.retain(|path| path != self.0.path());
    }
}

/// Removes the folders in use when a signal ends the program. To be called before any thread is started, as those
/// inherit what is blocked.
pub fn remove_at_signals() {
    let mut ours = SigSet::empty();
    for signal in ENDING.into_iter().filter(|signal| !is_ignored(*signal)) {
        ours.add(signal);
    }
    if ours.thread_swap_mask(SigmaskHow::SIG_BLOCK).is_ok() {
        std::thread::spawn(move || end_at(ours));
    }
}

fn end_at(ours: SigSet) {
    let Ok(signal) = ours.wait() else {
        return;
    };
    // Kept until the end: nobody makes another.
    let in_use = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
    for folder in in_use.iter() {
        // Other threads may still write there.
        let mut tries = 0..100;
        while tries.next().is_some() && std::fs::remove_dir_all(folder).is_err() && folder.exists()
        {
        }
    }
    // Ends the program as the signal would have.
    let _ = ours.thread_unblock();
    let _ = raise(signal);
}

/// Whether whoever started the program wants the signal to do nothing, as `nohup` does.
fn is_ignored(signal: Signal) -> bool {
    // SAFETY: both structures are of the right type; nothing is changed, only told.
    unsafe {
        let mut now = std::mem::zeroed::<libc::sigaction>();
        libc::sigaction(signal as i32, std::ptr::null(), &mut now) == 0
            && now.sa_sigaction == libc::SIG_IGN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_with_its_owner() {
        let here = std::env::temp_dir();
        let folder = Temporary::new(".ttwu-test-", &here).unwrap();
        let path = folder.path().to_owned();
        let noted = || IN_USE.lock().unwrap().contains(&path);
        assert!(path.is_dir() && noted());
        drop(folder);
        assert!(!path.exists() && !noted());
    }
}
