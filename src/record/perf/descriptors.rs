//! How many files this process may have open: each event on each CPU is one.

use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};

use crate::record::RecordError;

/// Files that the process has besides its events, and some to spare.
const OTHERS: rlim_t = 128;

/// A raised limit, put back when dropped: programs that are started later must not inherit it.
#[derive(Debug)]
pub(super) struct RaisedLimit {
    before: Option<(rlim_t, rlim_t)>,
}

impl RaisedLimit {
    /// Makes room for so many files.
    ///
    /// # Errors
    /// The limit is fixed below that.
    pub fn for_files(files: usize) -> Result<Self, RecordError> {
        let needed = (files as rlim_t).saturating_add(OTHERS);
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)
            .map_err(RecordError::system("cannot ask how many files may be open"))?;
        if soft >= needed {
            return Ok(Self { before: None });
        }
        setrlimit(Resource::RLIMIT_NOFILE, needed, hard.max(needed))
            .map_err(|_| too_low(hard, needed))?;
        Ok(Self {
            before: Some((soft, hard)),
        })
    }
}

impl Drop for RaisedLimit {
    fn drop(&mut self) {
        if let Some((soft, hard)) = self.before {
            let _ = setrlimit(Resource::RLIMIT_NOFILE, soft, hard);
        }
    }
}

/// For an `EMFILE` that came nevertheless, too.
pub(super) fn too_low(limit: rlim_t, needed: rlim_t) -> RecordError {
    RecordError::Denied {
        what: format!(
            "recording needs {needed} open files, one for each event and CPU, and only {limit} are allowed"
        ),
        remedy: format!(
            "allow them with `ulimit -n {needed}` (as root, or in /etc/security/limits.conf), or record fewer events or CPUs"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_put_back() {
        let before = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        if let Ok(raised) = RaisedLimit::for_files(before.0 as usize + 10) {
            let during = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
            assert!(during.0 > before.0);
            drop(raised);
        }
        assert_eq!(getrlimit(Resource::RLIMIT_NOFILE).unwrap(), before);
        // More than `fs.nr_open` can be: refused to root, too.
        let error = RaisedLimit::for_files(usize::MAX >> 1).unwrap_err();
        assert!(error.to_string().contains("ulimit -n"));
    }
}
