//! The resolver, event by event.

use super::*;
use ttwu_parsers::event::ContextFlags;

fn event(ts: i64, cpu: u32, payload: Payload) -> Event {
    Event {
        ts,
        cpu,
        pid: 1,
        tgid: -1,
        flags: ContextFlags::default(),
        watched: false,
        type_index: 0,
        payload,
    }
}

fn wake(pid: i32, target_cpu: u32) -> Wake {
    Wake {
        comm: Comm::new(b"wakee"),
        pid,
        prio: 120,
        target_cpu,
    }
}

fn resolver() -> Resolver {
    Resolver::new(Recorded {
        waking: true,
        wakeup: true,
        ..Recorded::default()
    })
}

fn feed_others(resolver: &mut Resolver, stamps: std::ops::Range<i64>) {
    stamps.for_each(|ts| resolver.feed(&mut event(ts, 1, Payload::Other)));
}

/// Stamps that go back are taken for the time that was, and counted. The edge of a loss moves no time.
#[test]
fn time_never_goes_back() {
    let mut resolver = resolver();
    let mut edge = event(500, 1, Payload::LossEnd);
    edge.type_index = NO_TYPE;
    resolver.feed(&mut event(100, 1, Payload::Waking(wake(20, 0))));
    resolver.feed(&mut event(90, 1, Payload::Wakeup(wake(20, 0))));
    resolver.feed(&mut edge);
    resolver.feed(&mut event(110, 1, Payload::Other));
    resolver.finish();
    let batch = resolver.take().unwrap();
    let shown = |step: &&Step| !matches!(step.kind, Kind::Pid(_) | Kind::Name(..));
    let stamps: Vec<i64> = batch.steps.iter().filter(shown).map(|s| s.ts).collect();
    assert_eq!(stamps, [100, 100, 500, 110]);
    assert_eq!(batch.backward, 1);
    assert_eq!(batch.wakes[0].enqueue.map(|enqueue| enqueue.ts), Some(100));
}

/// A batch waits for the enqueue of its waking, though that comes batches later; the others wait behind it.
#[test]
fn batches_wait_for_their_wakings() {
    let mut resolver = resolver();
    let full = BATCH as i64;
    resolver.feed(&mut event(0, 0, Payload::Waking(wake(7, 3))));
    feed_others(&mut resolver, 1..3 * full);
    assert!(resolver.take().is_none());
    resolver.feed(&mut event(3 * full, 3, Payload::Wakeup(wake(7, 3))));
    let first = resolver.take().unwrap();
    let enqueue = first.wakes[0].enqueue.unwrap();
    assert_eq!((first.wakes.len(), enqueue.ts), (1, 3 * full));
    resolver.finish();
    let rest: Vec<Batch> = std::iter::from_fn(|| resolver.take()).collect();
    let steps = rest.iter().map(|batch| batch.steps.len()).sum::<usize>();
    // The pid and its name are told first.
    assert_eq!(first.steps.len() + steps, 3 * BATCH + 1 + 2);
    assert!(rest.iter().all(|batch| batch.wakes.is_empty()));
}

/// A waking without enqueue is given up after so many steps, or after so long.
#[test]
fn what_never_comes_is_not_waited_for_forever() {
    let held = HELD_EVENTS as i64;
    let mut many = resolver();
    many.feed(&mut event(0, 0, Payload::Waking(wake(7, 3))));
    feed_others(&mut many, 1..held - 1);
    assert!(many.take().is_none());
    feed_others(&mut many, held - 1..held);
    assert_eq!(many.take().unwrap().wakes[0].enqueue, None);

    // The news of names, three steps an event here, do not count.
    let mut named = resolver();
    named.feed(&mut event(0, 0, Payload::Waking(wake(7, 3))));
    for ts in 1..held - 1 {
        let comm = Comm::new(format!("{ts}").as_bytes());
        let exit = Payload::Exit {
            comm,
            pid: ts as i32 + 7,
        };
        named.feed(&mut event(ts, 1, exit));
    }
    named.feed(&mut event(held, 3, Payload::Wakeup(wake(7, 3))));
    assert!(named.take().unwrap().wakes[0].enqueue.is_some());

    let mut long = resolver();
    long.feed(&mut event(0, 0, Payload::Waking(wake(7, 3))));
    feed_others(&mut long, 1..BATCH as i64);
    assert!(long.take().is_none());
    feed_others(&mut long, HELD_NS..HELD_NS + 1);
    assert_eq!(long.take().unwrap().wakes[0].enqueue, None);
}
