//! A trace that becomes shorter while it is read: the kernel then ends the reader of a memory map with SIGBUS, which
//! would tell the user nothing.

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

const MESSAGE: &[u8] =
    b"\nttwu: error: the trace became shorter while it was read: it is still being written, or was cut; wait until it is whole and try again\n";

/// Ends the program with a message where it would be killed.
pub fn tell_of_shrunk_files() {
    let action = SigAction::new(SigHandler::Handler(tell), SaFlags::empty(), SigSet::empty());
    // SAFETY: the handler makes two system calls that may be made in one, and does not return.
    // Without it the program is killed as before, so an error is none.
    let _ = unsafe { sigaction(Signal::SIGBUS, &action) };
}

extern "C" fn tell(_: libc::c_int) {
    // SAFETY: the bytes are static; both calls are async-signal-safe (signal-safety(7)).
    unsafe {
        libc::write(libc::STDERR_FILENO, MESSAGE.as_ptr().cast(), MESSAGE.len());
        libc::_exit(1);
    }
}
