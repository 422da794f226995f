//! How fast a trace is decoded, single-threaded: every event in time order, nothing done with it.
//!
//! `cargo bench --bench decode` measures the fixtures. `TTWU_BENCH_TRACE=FILE[:FILE…]` adds larger traces, such
//! as those `benches/whole-process.sh` records.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Duration;

use criterion::{Criterion, Throughput};
use ttwu_parsers::trace::{OpenOptions, Trace};

fn traces() -> Vec<PathBuf> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let mut list = vec![
        fixtures.join("lab/messaging/trace.dat"),
        fixtures.join("perf-data/perf.plain.data"),
    ];
    if let Some(more) = std::env::var_os("TTWU_BENCH_TRACE") {
        list.extend(std::env::split_paths(&more));
    }
    list.retain(|path| path.exists());
    list
}

fn count(trace: &Trace) -> u64 {
    let mut source = trace.merged();
    let mut events = 0;
    while let Some(event) = source.next_event() {
        black_box(&event);
        events += 1;
    }
    events
}

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .measurement_time(Duration::from_secs(5))
        .configure_from_args();
    let mut group = criterion.benchmark_group("decode");
    for path in traces() {
        let open = || Trace::open(&path, &OpenOptions::default()).expect("a readable trace");
        let name = path.display().to_string();
        let trace = open();
        group.throughput(Throughput::Elements(count(&trace)));
        group.bench_function(format!("merged/{name}"), |b| b.iter(|| count(&trace)));
        // Opening indexes a perf.data: what a user waits for is both.
        group.bench_function(format!("open+merged/{name}"), |b| b.iter(|| count(&open())));
    }
    group.finish();
    criterion.final_summary();
}
