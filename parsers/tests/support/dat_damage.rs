//! Damaged, truncated and random trace.dat files: what is whole is read, the rest is told, nothing panics.

use proptest::prelude::*;

use super::*;

#[test]
fn damage_inside_a_page_loses_the_rest_of_it_only() {
    let record = X86.waking(1, 2, 0);
    let good = |stamp| Page::new(X86, stamp).event(0, &record).done();
    // A record that claims to reach beyond what was committed.
    let bad = Page::new(X86, 200)
        .event(0, &record)
        .raw(&[28, 0, 0, 0])
        .done();
    let huge = Page::new(X86, 250).event(0, &record).claim(5000).done();
    for damaged in [bad, huge] {
        let pages = [good(100), damaged, good(300)].concat();
        let (events, faults) = drain(open(Dat::new(X86, vec![(4, pages)]).v7()).merged());
        assert_eq!((faults.total(), faults.kept()[0].cpu), (1, Some(4)));
        let begin = events
            .iter()
            .position(|e| matches!(e.payload, Payload::LossBegin { .. }));
        let begin = &events[begin.unwrap()..];
        assert_eq!(begin[1].payload, Payload::LossEnd);
        assert_eq!((begin[2].ts, begin.len()), (300, 3));
    }
}

#[test]
fn records_that_no_format_describes_are_told() {
    let mut unknown = X86.waking(1, 2, 0);
    unknown[..2].copy_from_slice(&X86.u16(999));
    let short = &X86.waking(1, 2, 0)[..20];
    let page = Page::new(X86, 100)
        .event(0, &unknown)
        .event(1, short)
        .event(1, &X86.waking(3, 4, 0))
        .done();
    let (events, faults) = drain(open(Dat::new(X86, vec![(0, page)]).v7()).merged());
    assert_eq!((events.len(), events[0].ts), (1, 102));
    let told: Vec<_> = faults.kept().iter().map(|f| f.what.as_str()).collect();
    assert!(told[0].contains("type 999") && told[1].contains("`sched_waking` is shorter"));
}

#[test]
fn a_damaged_chunk_loses_only_itself() {
    for packing in [Packing::Zlib, Packing::Zstd] {
        let pages = lossy(X86, &[(100, None), (200, None), (300, None)]);
        let mut file = Dat::new(X86, vec![(0, pages)]).packed(packing);
        file.chunk = 1;
        let mut file = file.v7();
        let packed = packing.pack(&lossy(X86, &[(200, None)]));
        let at = file
            .windows(packed.len())
            .position(|w| w == packed)
            .unwrap();
        file[at..at + packed.len()].fill(0x5a);
        let (events, faults) = drain(open(file).merged());
        assert_eq!(faults.total(), 1);
        assert!(faults.kept()[0].what.contains("cannot be decompressed"));
        let told: Vec<_> = events.iter().map(|e| e.ts).collect();
        assert_eq!(told, [100, 100, 300, 300]);
    }
}

#[test]
fn claimed_sizes_decide_nothing() {
    let pages = lossy(X86, &[(100, None), (200, None)]);
    for packing in [Packing::Zlib, Packing::Zstd] {
        let packed = packing.pack(&pages);
        let mut file = Dat::new(X86, vec![(0, pages.clone())]).packed(packing).v7();
        let at = file
            .windows(packed.len())
            .position(|w| w == packed)
            .unwrap();
        // Four billion chunks, this one of four billion bytes.
        file[at - 12..at - 8].fill(0xff);
        file[at - 4..at].fill(0xff);
        let (events, faults) = drain(open(file).merged());
        assert_eq!(events.iter().filter(|e| e.type_index != NO_TYPE).count(), 2);
        assert_eq!(faults.total(), 2);
    }
}

#[test]
fn truncated_files_are_read_as_far_as_they_are_whole() {
    let pages = lossy(X86, &[(100, None), (200, None)]);
    let whole = Dat::new(X86, vec![(0, pages)]).option(4, "").v6();
    // All of the last page but its head is zeros behind the one event of 40 bytes.
    let last = whole.len() - 4096;
    for (length, count, faults) in [
        (last + 56, 2, 1),
        (last + 55, 1, 2),
        (last + 10, 1, 2),
        (last, 1, 1),
    ] {
        let trace = open(whole[..length].to_vec());
        assert!(trace.meta().notes.iter().any(|n| n.contains("cut short")));
        let (mut events, log) = drain(trace.merged());
        // What is missing is a loss that nothing ends.
        let loss = events.pop().map(|event| event.payload);
        assert_eq!(loss, Some(Payload::LossBegin { count: None }));
        assert_eq!((events.len(), log.total()), (count, faults), "{length}");
        let missing = format!("{} bytes before", whole.len() - length);
        assert!(
            log.kept()
                .iter()
                .any(|f| f.what.contains(&missing) && f.cpu == Some(0))
        );
    }
}

#[test]
fn truncation_anywhere_gives_an_error_or_a_fault() {
    for (version, file) in [
        ("6", with_instance(X86).v6()),
        ("7", with_instance(X86).packed(Packing::Zstd).v7()),
    ] {
        let whole = events(&open(file.clone())).len();
        for length in (0..file.len()).step_by(3) {
            match try_open(file[..length].to_vec(), None) {
                Err(error) => assert!(
                    error.contains("cut short") || error.contains("magic"),
                    "{version} {length}: {error}"
                ),
                Ok(trace) => {
                    let (events, faults) = drain(trace.merged());
                    let told = faults.total() > 0 || !trace.meta().notes.is_empty();
                    assert!(events.len() == whole || told, "{version} {length}");
                }
            }
        }
    }
}

/// Reads a file to its end in both ways; what matters is that this ends, and ends without a panic.
fn read_all(file: Vec<u8>) {
    if let Ok(trace) = try_open(file, None) {
        let mut source = trace.merged();
        while source.next_event().is_some() {}
        for mut shard in trace.shards() {
            while shard.next_event().is_some() {}
        }
    }
}

fn small_files() -> Vec<Vec<u8>> {
    let mut files = vec![
        fixture("trace-dat/v7.dat"),
        with_instance(ARM_BIG).option(4, "").stats(0, 0).v6(),
    ];
    for packing in [Packing::None, Packing::Zlib, Packing::Zstd] {
        files.push(with_instance(X86).stats(0, 0).packed(packing).v7());
    }
    files
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mutated_files_never_panic(
        which in 0..5_usize,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        keep in 0.5..1.0_f64,
    ) {
        let mut file = small_files().swap_remove(which);
        for (at, value) in changes {
            let at = at.index(file.len());
            file[at] = value;
        }
        file.truncate((file.len() as f64 * keep.max(0.5)).ceil() as usize);
        read_all(file);
    }

    #[test]
    fn mutated_metadata_never_panics(
        which in 1..5_usize,
        at in 0..2600_usize,
        value in prop::sample::select(vec![0_u8, 1, 0x7f, 0x80, 0xff]),
        run in 1..9_usize,
    ) {
        let mut file = small_files().swap_remove(which);
        let at = at.min(file.len() - run);
        file[at..at + run].fill(value);
        read_all(file);
    }

    #[test]
    fn garbage_pages_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..9000), head in any::<bool>()) {
        let mut pages = bytes;
        if head && pages.len() > 16 {
            // A plausible head, so that the garbage is read as events.
            pages[..16].copy_from_slice(&[0, 1, 0, 0, 0, 0, 0, 0, 0xe0, 0x0f, 0, 0, 0, 0, 0, 0]);
        }
        read_all(Dat::new(X86, vec![(0, pages.clone())]).v7());
        read_all(Dat::new(ARM_BIG, vec![(0, pages)]).v6());
    }
}
