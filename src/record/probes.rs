//! Function probes: what the scheduler held as it chose a CPU, and which addresses a TLB flush was for. No tracepoint
//! tells either.
//!
//! They are fprobe events with arguments by name (Documentation/trace/fprobetrace.rst), which Linux has since 6.5 if it
//! was built with `CONFIG_FPROBE_EVENTS` and BTF. Their group is named after the run, so that two runs do not meet.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};

use ttwu_parsers::topology::cpulist::CpuSet;

use super::RecordError;
use super::doctor::explain_tracefs_denied;
use super::tracefs::Tracefs;

/// tracefs's file of the events that were defined at run time.
const DYNAMIC: &str = "dynamic_events";
/// What the groups of all runs begin with.
const PREFIX: &str = "ttwu_";
/// The longest array of an event (`MAX_ARRAY_LEN`, kernel/trace/trace_probe.h).
const MAX_WORDS: usize = 64;

/// A probe as this program wants it.
struct Wanted {
    name: &'static str,
    /// The function, with `%return` to probe its end.
    place: &'static str,
    /// What to record, best first where one stands for another.
    fields: &'static [&'static str],
}

/// `select_task_rq_fair(struct task_struct *p, int prev_cpu, int wake_flags)`, kernel/sched/fair.c, for the task `p`.
const SELECT: Wanted = Wanted {
    name: "sel",
    place: "select_task_rq_fair",
    fields: &[
        "pid=p->pid:s32",
        "flips=p->wakee_flips:u32",
        "last=p->last_wakee:x64",
        "rec=p->recent_used_cpu:s32",
        "prev=prev_cpu",
        "flags=wake_flags",
        "nr=p->nr_cpus_allowed:s32",
    ],
};

/// The CPU that it chose.
const SELECTED: Wanted = Wanted {
    name: "selret",
    place: "select_task_rq_fair%return",
    fields: &["cpu=$retval"],
};

/// `flush_tlb_mm_range(struct mm_struct *mm, unsigned long start, unsigned long end, unsigned int stride_shift, bool
/// freed_tables)`, arch/x86/mm/tlb.c; other architectures have other functions.
const FLUSH: Wanted = Wanted {
    name: "tlb",
    place: "flush_tlb_mm_range",
    fields: &[
        "start=start:x64",
        "end=end:x64",
        "shift=stride_shift:u32",
        "freed=freed_tables:u8",
    ],
};

/// Probes in the kernel; they go when this is dropped.
#[derive(Debug)]
pub struct Probes {
    tracefs: Tracefs,
    group: String,
    names: Vec<&'static str>,
    missing: Vec<String>,
}

impl Probes {
    /// Defines the probes, all of them off. `cpus` is the number of CPUs that masks must have room for; that of the
    /// machine is used if it is larger.
    ///
    /// # Errors
    /// A kernel without such probes, and no right to make them: each with what helps. What of a probe a kernel does not
    /// have is no error, see [`Probes::missing`].
    pub fn install(tracefs: &Tracefs, group: &str, cpus: usize) -> Result<Self, RecordError> {
        check_group(group)?;
        check_kernel(tracefs)?;
        let mut probes = Self {
            tracefs: tracefs.clone(),
            group: group.to_owned(),
            names: Vec::new(),
            missing: Vec::new(),
        };
        let mask = mask_words(cpus).map(|words| format!("mask=+0(p->cpus_ptr):x64[{words}]"));
        let select: Vec<&str> = SELECT
            .fields
            .iter()
            .copied()
            .chain(mask.as_deref())
            .collect();
        probes.define(&SELECT, &select)?;
        // The rest is worth less: without it, there is less to say.
        for wanted in [SELECTED, FLUSH] {
            if let Err(error) = probes.define(&wanted, wanted.fields) {
                probes
                    .missing
                    .push(format!("no probe on {}: {error}", wanted.place));
            }
        }
        Ok(probes)
    }

    /// The events' systems and names.
    pub fn events(&self) -> Vec<(String, String)> {
        let names = self.names.iter();
        names
            .map(|&name| (self.group.clone(), name.to_owned()))
            .collect()
    }

    /// What this kernel does not tell, as full sentences without a full stop.
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// Takes the probes out of the kernel. To be called when nothing records them any more.
    ///
    /// # Errors
    /// Somebody still records them, or tracefs refuses.
    pub fn remove(&self) -> Result<(), RecordError> {
        remove_group(&self.tracefs, &self.group)
    }

    /// Defines a probe with as many of the fields as the kernel takes.
    fn define(&mut self, wanted: &Wanted, fields: &[&str]) -> Result<(), RecordError> {
        let head = format!("f:{}/{} {}", self.group, wanted.name, wanted.place);
        let write = |fields: &[&str]| {
            let definition = format!("{head} {}", fields.join(" "));
            append(&self.tracefs, definition.trim_end())
        };
        if let Err(error) = write(fields) {
            let accepted = accepted(fields, |field| {
                let taken = write(&[field]).is_ok();
                taken && remove(&self.tracefs, &self.group, wanted.name).is_ok()
            });
            if accepted.is_empty() {
                return Err(self.refused(wanted, &error));
            }
            write(&accepted).map_err(|error| self.refused(wanted, &error))?;
            let lost = fields.iter().filter(|field| !accepted.contains(field));
            let lost: Vec<&str> = lost
                .map(|field| field.split('=').next().unwrap_or(field))
                .collect();
            self.missing.push(format!(
                "the probe on {} does not tell {}",
                wanted.place,
                lost.join(", ")
            ));
        }
        self.names.push(wanted.name);
        Ok(())
    }

    /// Why no form of a probe was taken.
    fn refused(&self, wanted: &Wanted, error: &io::Error) -> RecordError {
        let path = self.tracefs.path(DYNAMIC);
        if error.kind() == io::ErrorKind::PermissionDenied {
            return explain_tracefs_denied(error, &path);
        }
        let function = wanted.place.trim_end_matches("%return");
        let said = last_error(&self.tracefs).unwrap_or_else(|| error.to_string());
        RecordError::Denied {
            what: format!("the kernel takes no probe on {function}: {said}"),
            remedy: "record without --probes; probes need a kernel that was built with BTF \
                     (CONFIG_DEBUG_INFO_BTF) and did not inline that function"
                .to_owned(),
        }
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        // What is still in use is left to the next run's cleanup.
        let _ = self.remove();
    }
}

/// The fields that the kernel takes one by one: one that it does not know makes it refuse the whole definition.
fn accepted<'a>(fields: &[&'a str], mut takes: impl FnMut(&str) -> bool) -> Vec<&'a str> {
    fields
        .iter()
        .copied()
        .filter(|field| takes(field))
        .collect()
}

/// Words of 64 bits in a mask of the machine's CPUs; `None` if there are more than an event can hold. Bits above the
/// machine's last CPU can be set: the kernel does not clear them.
fn mask_words(cpus: usize) -> Option<usize> {
    let possible = fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    let last = CpuSet::from_list(&possible)
        .ok()
        .and_then(|set| set.iter().last());
    let possible = last.map_or(0, |cpu| cpu as usize + 1);
    let words = cpus.max(possible).div_ceil(64).max(1);
    (words <= MAX_WORDS).then_some(words)
}

fn check_group(group: &str) -> Result<(), RecordError> {
    let rest = group.strip_prefix(PREFIX).unwrap_or_default();
    let valid = !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    match valid {
        true => Ok(()),
        false => Err(RecordError::Wanted(format!(
            "`{}` is no name for a group of probes: {PREFIX} and letters or digits",
            group.escape_debug()
        ))),
    }
}

/// Says what a kernel lacks before it is asked, since its own answers are vague.
///
/// # Errors
/// A tracefs that cannot be read, and a kernel without fprobe events.
pub fn check_kernel(tracefs: &Tracefs) -> Result<(), RecordError> {
    let read = |file: &str| {
        tracefs
            .read(file)
            .map_err(|error| explain_tracefs_denied(&error, &tracefs.path(file)))
    };
    // The kernel's own description lists what it was built with.
    let readme = read("README")?;
    let readme = String::from_utf8_lossy(&readme);
    let has_fprobes = readme
        .lines()
        .any(|line| line.trim_start().starts_with("f[:"));
    match has_fprobes {
        true => Ok(()),
        false => Err(RecordError::Denied {
            what: "this kernel has no function probes with arguments".to_owned(),
            remedy: "record without --probes; they need Linux 6.5 or newer, built with \
                     CONFIG_FPROBE_EVENTS and CONFIG_DEBUG_INFO_BTF"
                .to_owned(),
        }),
    }
}

/// The last complaint in `error_log`, such as `This field is not found.`
fn last_error(tracefs: &Tracefs) -> Option<String> {
    let log = tracefs.read("error_log").ok()?;
    let log = String::from_utf8_lossy(&log);
    let (_, said) = log
        .lines()
        .rev()
        .find_map(|line| line.split_once(" error: "))?;
    Some(said.trim_end_matches('.').to_owned())
}

/// The groups of probes of this and other runs that are in the kernel now; none where tracefs cannot be read.
pub fn groups(tracefs: &Tracefs) -> Vec<String> {
    let groups: BTreeSet<String> = defined(tracefs)
        .into_iter()
        .map(|(group, _)| group)
        .filter(|group| group.starts_with(PREFIX))
        .collect();
    groups.into_iter().collect()
}

/// Takes a group's probes out of the kernel; a group that is not there is no error.
///
/// # Errors
/// Somebody still records them, or tracefs refuses.
pub fn remove_group(tracefs: &Tracefs, group: &str) -> Result<(), RecordError> {
    check_group(group)?;
    for (_, name) in defined(tracefs).into_iter().filter(|(g, _)| g == group) {
        remove(tracefs, group, &name).map_err(|error| match error.raw_os_error() {
            Some(libc::EBUSY) => RecordError::Denied {
                what: format!("the probe {group}:{name} is still being recorded"),
                remedy: format!(
                    "stop who records it, then: echo '-:{group}/{name}' >> {}",
                    tracefs.path(DYNAMIC).display()
                ),
            },
            _ => explain_tracefs_denied(&error, &tracefs.path(DYNAMIC)),
        })?;
    }
    Ok(())
}

/// Group and name of every event that was defined at run time: lines such as `f:GROUP/NAME FUNCTION …`.
fn defined(tracefs: &Tracefs) -> Vec<(String, String)> {
    let list = tracefs.read(DYNAMIC).unwrap_or_default();
    let list = String::from_utf8_lossy(&list);
    let event = |line: &str| {
        let (_, event) = line.split_ascii_whitespace().next()?.split_once(':')?;
        let (group, name) = event.split_once('/')?;
        Some((group.to_owned(), name.to_owned()))
    };
    list.lines().filter_map(event).collect()
}

fn remove(tracefs: &Tracefs, group: &str, name: &str) -> io::Result<()> {
    append(tracefs, &format!("-:{group}/{name}"))
}

/// Gives the kernel one statement. Only appending is safe: truncating removes everybody's events.
fn append(tracefs: &Tracefs, statement: &str) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .append(true)
        .open(tracefs.path(DYNAMIC))?;
    // In one write, which the kernel takes as a whole.
    file.write_all(format!("{statement}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const README: &str =
        "tracing mini-HOWTO:\n\t           f[:[<group>/][<event>]] <func-name>[%return] [<args>]\n";

    /// A folder with files that take anything.
    fn tracefs(readme: &str) -> (tempfile::TempDir, Tracefs) {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("README"), readme).unwrap();
        fs::write(folder.path().join(DYNAMIC), "p:mine/a do_sys_open\n").unwrap();
        let tracefs = Tracefs::at(folder.path());
        (folder, tracefs)
    }

    fn written(tracefs: &Tracefs) -> Vec<String> {
        let text = String::from_utf8(tracefs.read(DYNAMIC).unwrap()).unwrap();
        text.lines().skip(1).map(str::to_owned).collect()
    }

    #[test]
    fn definitions_are_those_that_linux_6_12_took() {
        let (_folder, tracefs) = tracefs(README);
        let probes = Probes::install(&tracefs, "ttwu_7_9", 200).unwrap();
        assert_eq!(probes.missing(), &[] as &[String]);
        let names: Vec<_> = probes.events().into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, ["sel", "selret", "tlb"]);
        let expected = [
            "f:ttwu_7_9/sel select_task_rq_fair pid=p->pid:s32 flips=p->wakee_flips:u32 last=p->last_wakee:x64 \
             rec=p->recent_used_cpu:s32 prev=prev_cpu flags=wake_flags nr=p->nr_cpus_allowed:s32 \
             mask=+0(p->cpus_ptr):x64[4]",
            "f:ttwu_7_9/selret select_task_rq_fair%return cpu=$retval",
            "f:ttwu_7_9/tlb flush_tlb_mm_range start=start:x64 end=end:x64 shift=stride_shift:u32 \
             freed=freed_tables:u8",
        ];
        assert_eq!(written(&tracefs), expected);
        assert_eq!(groups(&tracefs), ["ttwu_7_9"]);
        drop(probes);
        let removed = ["-:ttwu_7_9/sel", "-:ttwu_7_9/selret", "-:ttwu_7_9/tlb"];
        assert_eq!(written(&tracefs)[3..], removed);
    }

    #[test]
    fn a_kernel_without_them_is_told() {
        let (_folder, tracefs) = tracefs("tracing mini-HOWTO:\n");
        let error = Probes::install(&tracefs, "ttwu_7_9", 2)
            .unwrap_err()
            .to_string();
        assert!(error.contains("CONFIG_FPROBE_EVENTS"), "{error}");
        assert!(written(&tracefs).is_empty());
    }

    #[test]
    fn only_own_groups_can_be_removed() {
        let (_folder, tracefs) = tracefs(README);
        for group in ["mine", "ttwu_", "ttwu_a/b", "ttwu_a b", "ttwu_a\n"] {
            assert!(remove_group(&tracefs, group).is_err(), "{group}");
        }
        assert!(remove_group(&tracefs, "ttwu_1_1").is_ok());
        assert!(written(&tracefs).is_empty());
    }

    #[test]
    fn unknown_fields_are_left_out() {
        let fields = [
            "pid=p->pid:s32",
            "flips=p->wakee_flips:u32",
            "prev=prev_cpu",
        ];
        let taken = accepted(&fields, |field| !field.contains("wakee_flips"));
        assert_eq!(taken, ["pid=p->pid:s32", "prev=prev_cpu"]);
    }

    #[test]
    fn masks_have_room_for_all_cpus() {
        assert!(mask_words(0).is_some_and(|words| words >= 1));
        assert_eq!(mask_words(64 * 3 + 1), Some(4));
        assert_eq!(mask_words(64 * 64), Some(64));
        assert_eq!(mask_words(64 * 64 + 1), None);
    }

    #[test]
    fn complaints_are_read_from_the_log() {
        let (folder, tracefs) = tracefs(README);
        assert_eq!(last_error(&tracefs), None);
        let log = "[    5.1] trace_fprobe: error: No BTF\n  Command: a\n           ^\n\
                   [    5.2] trace_fprobe: error: This field is not found.\n  Command: f:a b c=d->e\n         ^\n";
        fs::write(folder.path().join("error_log"), log).unwrap();
        assert_eq!(
            last_error(&tracefs).as_deref(),
            Some("This field is not found")
        );
    }
}
