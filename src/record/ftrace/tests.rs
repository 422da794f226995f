//! Files written here are read back by the parsers, and by trace-cmd where it is installed.

use std::process::Command;

use ttwu_parsers::event::Payload;
use ttwu_parsers::trace::{OpenOptions, Trace};

use super::*;

const PAGE: usize = 4096;
const PRINT: u16 = 5;

fn description() -> Description {
    let format = "name: print\nID: 5\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
        \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:unsigned long ip;\toffset:8;\tsize:8;\tsigned:0;\n\tfield:char buf[];\toffset:16;\tsize:0;\tsigned:0;\n\n\
        print fmt: \"%s\", REC->buf\n";
    Description {
        header_page: b"\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
            \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
            \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
            \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n"
            .to_vec(),
        header_event: b"# compressed entry header\n\ttype_len    :    5 bits\n".to_vec(),
        ftrace: vec![format.as_bytes().to_vec()],
        systems: vec![("nobody".to_owned(), Vec::new())],
        kallsyms: b"ffffffff81000000 T _text\n".to_vec(),
        printk_formats: Vec::new(),
        cmdlines: b"7 seven\n".to_vec(),
        clocks: "local [mono]\n".to_owned(),
        clock: "mono".to_owned(),
        uname: "Linux host 6.12.0 x86_64".to_owned(),
        writer: "ttwu 0.0.0".to_owned(),
        page_size: PAGE as u32,
        cpu_count: 3,
        stats: vec![(
            0,
            "entries: 0\noverrun: 0\ncommit overrun: 0\ndropped events: 0\n".to_owned(),
        )],
    }
}

/// A page with two markers, one at its stamp and one 10 ns later.
fn page(stamp: u64) -> Vec<u8> {
    let mut data = Vec::new();
    for delta in [0_u32, 10] {
        let mut record = PRINT.to_le_bytes().to_vec();
        record.extend([0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        record.extend(format!("at {:08}\0", stamp + u64::from(delta)).as_bytes());
        data.extend(((record.len() as u32 / 4) | (delta << 5)).to_le_bytes());
        data.extend(record);
    }
    let mut page = stamp.to_le_bytes().to_vec();
    page.extend((data.len() as u64).to_le_bytes());
    page.extend(data);
    page.resize(PAGE, 0);
    page
}

/// A journal in which CPU 0 has `pages` pages and CPU 2 has one, whose events come first.
fn journal(path: &Path, pages: u64) -> (Journal, Vec<Extent>) {
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)
        .unwrap();
    let journal = Journal::start(file, description()).unwrap();
    let mut extents: Vec<Extent> = Vec::new();
    let mut write = |cpu: u32, stamp: u64| {
        use std::os::unix::fs::FileExt;
        let place = extents
            .iter_mut()
            .rev()
            .find(|extent| extent.cpu == cpu && extent.room() > 0);
        let extent = match place {
            Some(extent) => extent,
            None => {
                extents.push(journal.extent(cpu).unwrap());
                extents.last_mut().unwrap()
            }
        };
        journal
            .file()
            .write_all_at(&page(stamp), extent.offset + extent.used)
            .unwrap();
        extent.used += PAGE as u64;
    };
    write(2, 1);
    (1..=pages).for_each(|number| write(0, number * 100));
    (journal, extents)
}

/// The stamps of a file's events, and its notes.
fn read(path: &Path) -> Result<(Vec<i64>, Vec<String>), String> {
    let trace = Trace::open(path, &OpenOptions::default()).map_err(|error| error.to_string())?;
    let mut source = trace.merged();
    let mut stamps = Vec::new();
    while let Some(event) = source.next_event() {
        if let Payload::Marker(text) = &event.payload {
            assert_eq!(String::from_utf8_lossy(text), format!("at {:08}", event.ts));
            stamps.push(event.ts);
        }
    }
    Ok((stamps, trace.meta().notes.clone()))
}

fn expected(pages: u64) -> Vec<i64> {
    let cpu_0 = (1..=pages as i64).flat_map(|number| [number * 100, number * 100 + 10]);
    [1, 11].into_iter().chain(cpu_0).collect()
}

#[test]
fn masks_as_the_kernel_reads_them() {
    assert_eq!(mask(&[0, 1]), "00000003");
    assert_eq!(mask(&[3, 33, 64]), "00000001,00000002,00000008");
    assert_eq!(mask(&[]), "00000000");
}

/// More than one extent.
const PAGES: u64 = 300;

#[test]
fn a_journal_is_read_as_far_as_it_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.dat");
    journal(&path, PAGES);
    let (stamps, notes) = read(&path).unwrap();
    assert_eq!(stamps, expected(PAGES));
    assert!(
        notes.iter().any(|note| note.contains("killed")),
        "{notes:?}"
    );
}

#[test]
fn a_journal_without_events_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.dat");
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)
        .unwrap();
    assert!(
        read(&path)
            .unwrap_err()
            .contains("nothing was recorded yet")
    );
    let journal = Journal::start(file, description()).unwrap();
    assert!(
        read(&path)
            .unwrap_err()
            .contains("nothing was recorded yet")
    );
    journal.extent(1).unwrap();
    assert!(
        read(&path)
            .unwrap_err()
            .contains("nothing was recorded yet")
    );
}

#[test]
fn a_journal_cut_anywhere_keeps_what_was_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.dat");
    journal(&path, PAGES);
    cut_anywhere(&path, &expected(PAGES));
}

/// Cuts a file shorter and shorter: there are never events that were not in it, nor more than before.
fn cut_anywhere(path: &Path, whole: &[i64]) {
    let file = File::options().write(true).open(path).unwrap();
    let mut length = file.metadata().unwrap().len();
    let (mut most, mut opened) = (whole.len(), 0);
    while length > 0 {
        // An odd step, to end at all places of a page.
        length = length.saturating_sub(if length > 20_000 { 4099 } else { 7 });
        file.set_len(length).unwrap();
        let Ok((stamps, _)) = read(path) else {
            continue;
        };
        assert!(stamps.len() <= most, "{length}: {} of {most}", stamps.len());
        assert!(stamps.iter().all(|stamp| whole.contains(stamp)), "{length}");
        (most, opened) = (stamps.len(), opened + 1);
    }
    assert!(opened > 100, "{opened}");
}

/// A recorder whose readers are done, to write a finished file of.
fn recorder(path: &Path, version: u8, compress: bool) -> FtraceRecorder {
    let (journal, extents) = journal(path, PAGES);
    let stop = EventFd::new().unwrap();
    FtraceRecorder {
        plan: Plan {
            cpus: vec![0, 1, 2],
            events: Vec::new(),
            buffer: None,
            compress,
            clock: "mono".to_owned(),
            counters: Vec::new(),
            file_version: version,
            command_line: Vec::new(),
        },
        path: path.to_owned(),
        description: description(),
        instance: None,
        journal: Arc::new(journal),
        readers: Vec::new(),
        stop: Arc::new(stop.into()),
        moved: Arc::default(),
        extents,
        stats: Vec::new(),
    }
}

#[test]
fn finished_files_of_all_kinds_hold_the_same() {
    for (version, compress) in [(7, true), (7, false), (6, false)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.dat");
        let size = finish::assemble(recorder(&path, version, compress)).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), size);
        let (stamps, notes) = read(&path).unwrap();
        assert_eq!(stamps, expected(PAGES), "{version} {compress}");
        assert!(notes.is_empty(), "{notes:?}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        agrees_with_trace_cmd(&path, stamps.len());
    }
}

#[test]
fn finished_files_cut_anywhere_keep_what_was_before() {
    for (version, compress) in [(7, false), (6, false)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.dat");
        finish::assemble(recorder(&path, version, compress)).unwrap();
        cut_anywhere(&path, &expected(PAGES));
    }
}

/// trace-cmd reads as many events, and complains of nothing.
fn agrees_with_trace_cmd(path: &Path, events: usize) {
    let Ok(report) = Command::new("trace-cmd")
        .arg("report")
        .arg("-i")
        .arg(path)
        .output()
    else {
        eprintln!("trace-cmd is not here: not compared");
        return;
    };
    assert!(
        report.status.success() && report.stderr.is_empty(),
        "{report:?}"
    );
    let lines = String::from_utf8_lossy(&report.stdout).lines().count();
    assert_eq!(lines, events + 1, "the first line tells the number of CPUs");
}
