use crate::support::*;
use std::collections::BTreeMap;
#[test]
fn show() {
    let mut paths: Vec<_> = lab_folders()
        .iter()
        .map(|f| (f.join("trace.dat"), lab_options(f)))
        .collect();
    paths.push(("/tmp/w/ipis-tmp/shoot.dat".into(), Default::default()));
    for (p, o) in paths {
        if !p.exists() {
            continue;
        }
        let r = run(&p, &o);
        let mut m: BTreeMap<_, (u64, i64, i64)> = BTreeMap::new();
        for i in &r.rows.ipis {
            let e = m.entry((i.road, i.kind, i.fate)).or_default();
            e.0 += 1;
            e.1 += i.handler_ns.unwrap_or(0);
            e.2 = e.2.max(i.latency_ns.unwrap_or(-1));
        }
        println!("== {}", p.display());
        for (k, v) in m {
            println!("{k:?} {v:?}");
        }
        println!(
            "flushes {} tlb {:?} waits {} targets>0 {}",
            r.rows.flushes.len(),
            r.counts.tlb_flushes,
            r.rows
                .flushes
                .iter()
                .filter(|f| f.wait_ns.is_some())
                .count(),
            r.rows
                .flushes
                .iter()
                .filter(|f| f.targets.unwrap_or(0) > 0)
                .count()
        );
    }
}
