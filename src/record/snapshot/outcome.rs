//! Lines about the recording itself: who recorded, what was run, how it ended, what it cost and lost.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use super::encode::{list, word};

/// The recorder's own threads.
pub fn recorder(version: &str, backend: &str, tids: &[i32]) -> String {
    let mut tids = tids.to_vec();
    tids.sort_unstable();
    tids.dedup();
    let (version, backend, tids) = (word(version), word(backend), list(&tids));
    format!("ttwu recorder version={version} backend={backend} tids={tids}")
}

/// The recorded command's arguments, its name first.
pub fn command<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> String {
    let mut line = "ttwu command".to_owned();
    for argument in arguments {
        line.push(' ');
        line.push_str(&word(argument.as_ref().as_bytes()));
    }
    line
}

/// How the command ended after `wall`, and what it used: getrusage(2) of it and the children it waited for.
pub fn result(wall: Duration, status: ExitStatus, usage: &libc::rusage) -> String {
    let end = match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit={code}"),
        (None, Some(signal)) => format!("signal={signal}"),
        (None, None) => format!("exit={}", status.into_raw()),
    };
    format!(
        "ttwu result wall_ns={} {end} utime_ns={} stime_ns={} maxrss_kb={} minflt={} majflt={} nvcsw={} nivcsw={}",
        wall.as_nanos(),
        nanoseconds(usage.ru_utime),
        nanoseconds(usage.ru_stime),
        usage.ru_maxrss,
        usage.ru_minflt,
        usage.ru_majflt,
        usage.ru_nvcsw,
        usage.ru_nivcsw
    )
}

fn nanoseconds(time: libc::timeval) -> i128 {
    i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_usec) * 1000
}

/// Events lost on a CPU.
pub fn lost(cpu: u32, events: u64) -> String {
    format!("ttwu lost cpu={cpu} events={events}")
}

/// CPU time of the recorder's own threads, in ns.
pub fn overhead(cpu_ns: u64) -> String {
    format!("ttwu overhead cpu_ns={cpu_ns}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_read_as_the_format_says() {
        assert_eq!(
            recorder("0.1.0", "ftrace", &[12, 10, 11, 11, 20]),
            "ttwu recorder version=0.1.0 backend=ftrace tids=10-12,20"
        );
        let arguments = ["sh", "-c", "a b", ""];
        assert_eq!(command(arguments), "ttwu command sh -c a%20b ");
        assert_eq!(lost(3, 17), "ttwu lost cpu=3 events=17");
        assert_eq!(overhead(5), "ttwu overhead cpu_ns=5");
    }

    #[test]
    fn results_tell_exit_from_signal() {
        let mut usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF)
            .map(|usage| *usage.as_ref())
            .unwrap();
        usage.ru_utime = libc::timeval {
            tv_sec: 2,
            tv_usec: 5,
        };
        let line = |raw| result(Duration::from_millis(3), ExitStatus::from_raw(raw), &usage);
        assert!(
            line(3 << 8).starts_with("ttwu result wall_ns=3000000 exit=3 utime_ns=2000005000 ")
        );
        assert!(line(9).contains(" signal=9 "));
    }
}
