//! The command whose run is recorded: it runs as the user who called, with its own environment.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::{Pid, User, initgroups, setgid, setuid};

use super::RecordError;
use super::target::Invoker;

/// A command that runs.
#[derive(Debug)]
pub struct Running {
    pid: Pid,
    started: Instant,
    ended: Option<Ended>,
}

/// How a command ended and what it used, wait4(2).
#[derive(Debug, Clone, Copy)]
pub struct Ended {
    pub status: ExitStatus,
    pub wall: Duration,
    pub usage: libc::rusage,
}

impl Running {
    /// Starts a command, with the signals blocked that `mask` holds.
    ///
    /// # Errors
    /// There is no such program, or it may not be run.
    pub fn start(arguments: &[OsString], mask: SigSet) -> Result<Self, RecordError> {
        let (program, rest) = arguments
            .split_first()
            .ok_or_else(|| RecordError::Wanted("no command is given".to_owned()))?;
        let mut command = Command::new(program);
        command.args(rest);
        // SAFETY: between fork and exec it makes one system call.
        unsafe { command.pre_exec(move || Ok(mask.thread_set_mask()?)) };
        if let Some(invoker) = Invoker::find() {
            become_user(&mut command, invoker)?;
        }
        let started = Instant::now();
        let child = command.spawn().map_err(|source| RecordError::Command {
            program: program.to_string_lossy().into_owned(),
            source,
        })?;
        Ok(Self {
            pid: Pid::from_raw(child.id().cast_signed()),
            started,
            ended: None,
        })
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Result<Option<Ended>, RecordError> {
        if self.ended.is_some() {
            return Ok(self.ended);
        }
        let mut status = 0;
        // SAFETY: all zeros is a valid value of this plain C struct.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: both pointers are to live values of the right type.
        let pid = unsafe { libc::wait4(self.pid.as_raw(), &mut status, libc::WNOHANG, &mut usage) };
        match pid {
            0 => {}
            -1 => {
                let error = io::Error::last_os_error();
                return Err(RecordError::system("cannot wait for the command")(error));
            }
            _ => {
                self.ended = Some(Ended {
                    status: ExitStatus::from_raw(status),
                    wall: self.started.elapsed(),
                    usage,
                });
            }
        }
        Ok(self.ended)
    }

    /// Sends it a signal; one that ended gets none.
    pub fn signal(&self, signal: Signal) {
        if self.ended.is_none() {
            // It may be gone by now.
            let _ = kill(self.pid, signal);
        }
    }
}

/// Whether there is such a program, before anything is done for it: as a name in `$PATH`, or as a path.
pub fn look_up(program: &OsStr) -> Result<(), RecordError> {
    let is_file = |path: &Path| path.metadata().is_ok_and(|there| there.is_file());
    let there = match Path::new(program).components().count() {
        1 if !program.as_encoded_bytes().contains(&b'/') => {
            let path = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&path).any(|folder| is_file(&folder.join(program)))
        }
        _ => is_file(Path::new(program)),
    };
    match there {
        true => Ok(()),
        false => Err(RecordError::Command {
            program: program.to_string_lossy().into_owned(),
            source: io::Error::from_raw_os_error(libc::ENOENT),
        }),
    }
}

/// Gives up root for the user who called sudo, with that user's groups, and names that user in the environment.
fn become_user(command: &mut Command, invoker: Invoker) -> Result<(), RecordError> {
    let Invoker { uid, gid } = invoker;
    let user = User::from_uid(uid).ok().flatten();
    let groups_of = match &user {
        Some(user) => Some(
            std::ffi::CString::new(user.name.as_str())
                .map_err(|_| RecordError::Wanted("the user's name holds a NUL".to_owned()))?,
        ),
        None => None,
    };
    if let Some(user) = &user {
        let set = |command: &mut Command, key: &str, value: &OsStr| {
            command.env(key, value);
        };
        set(command, "HOME", user.dir.as_os_str());
        set(command, "SHELL", user.shell.as_os_str());
        for key in ["USER", "LOGNAME"] {
            set(command, key, OsStr::new(&user.name));
        }
    }
    for key in ["SUDO_COMMAND", "SUDO_USER", "SUDO_UID", "SUDO_GID"] {
        command.env_remove(key);
    }
    let drop_privileges = move || {
        match &groups_of {
            Some(name) => initgroups(name, gid)?,
            None => nix::unistd::setgroups(&[gid])?,
        }
        setgid(gid)?;
        setuid(uid)?;
        Ok(())
    };
    // SAFETY: between fork and exec it makes system calls only; `initgroups` may read the user database, which the
    // thread that forks has done before.
    unsafe { command.pre_exec(drop_privileges) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str) -> Ended {
        let arguments = ["sh", "-c", script].map(OsString::from);
        let mut running = Running::start(&arguments, SigSet::empty()).unwrap();
        loop {
            if let Some(ended) = running.ended().unwrap() {
                return ended;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn its_end_and_usage_are_told() {
        let ended = run("exit 3");
        assert_eq!(ended.status.code(), Some(3));
        assert!(ended.usage.ru_maxrss > 0);
        assert_eq!(run("kill -9 $$").status.signal(), Some(9));
        assert!(run("sleep 0.05").wall >= Duration::from_millis(50));
    }

    #[test]
    fn signals_reach_it_although_ours_are_blocked() {
        let signals = super::super::signals::Signals::take().unwrap();
        let arguments = ["sleep", "60"].map(OsString::from);
        let mut running = Running::start(&arguments, SigSet::empty()).unwrap();
        running.signal(Signal::SIGTERM);
        let ended = loop {
            if let Some(ended) = running.ended().unwrap() {
                break ended;
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        assert_eq!(ended.status.signal(), Some(Signal::SIGTERM as i32));
        drop(signals);
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = Running::start(&["/no/such/program".into()], SigSet::empty()).unwrap_err();
        assert!(error.to_string().contains("/no/such/program"), "{error}");
        for wrong in ["/no/such/program", "no-such-program", "", "/", "./no"] {
            assert!(look_up(OsStr::new(wrong)).is_err(), "{wrong}");
        }
        assert!(look_up(OsStr::new("sh")).is_ok() && look_up(OsStr::new("/bin/sh")).is_ok());
    }
}
