//! Several CPUs' events in one order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::stream::CpuStream;
use crate::decode::Reading;
use crate::event::Event;
use crate::fault::FaultLog;
use crate::glance::Glance;
use crate::trace::EventSource;

/// Stamp, CPU, and index of the stream.
type Key = (i64, u32, usize);

/// A merge by stamp, and of equal stamps by CPU. A stream is read on while it is the earliest, and only then
/// goes through the heap.
#[derive(Debug)]
pub(crate) struct Merged<'a> {
    streams: Vec<CpuStream<'a>>,
    /// The streams that wait, by their next stamp.
    waiting: BinaryHeap<Reverse<Key>>,
    /// The stream that is read.
    current: Option<usize>,
    /// Before this time no other stream has anything to give.
    until: i64,
}

impl<'a> Merged<'a> {
    pub fn new(streams: Vec<CpuStream<'a>>) -> Self {
        let waiting = streams
            .iter()
            .enumerate()
            .filter_map(|(index, stream)| key(stream, index).map(Reverse))
            .collect();
        Self {
            streams,
            waiting,
            current: None,
            until: i64::MIN,
        }
    }

    /// Makes the stream with the earliest stamp the current one.
    #[inline(never)]
    fn choose(&mut self) -> Option<usize> {
        let running = self
            .current
            .and_then(|index| key(self.streams.get(index)?, index));
        let earliest = match (running, self.waiting.peek_mut()) {
            (Some(running), Some(mut first)) if first.0 < running => {
                let (_, _, index) = std::mem::replace(&mut *first, Reverse(running)).0;
                index
            }
            (Some((_, _, index)), _) => index,
            (None, Some(first)) => std::collections::binary_heap::PeekMut::pop(first).0.2,
            (None, None) => return None,
        };
        self.current = Some(earliest);
        let others = self.waiting.peek().map(|Reverse((stamp, _, _))| *stamp);
        self.until = others.unwrap_or(i64::MAX);
        self.current
    }

    #[inline(always)]
    fn read_next<R: Reading>(&mut self) -> Option<R> {
        loop {
            if !self.goes_on() {
                self.choose()?;
            }
            let stream = self.streams.get_mut(self.current?)?;
            // Nothing may be done with what comes from a whole record but return it: the borrow would last.
            if let Some(whole) = stream.take_whole() {
                return R::of_whole(&whole);
            }
            // A record that cannot be decoded gives nothing; the next one may be another stream's.
            if let Some(event) = self.streams.get_mut(self.current?)?.take_any() {
                return Some(R::of_event(event));
            }
        }
    }

    /// Leaves the record behind that was taken last. Whether the next one is certain to be of the same stream.
    #[inline(always)]
    fn goes_on(&mut self) -> bool {
        let current = self.current.and_then(|index| self.streams.get_mut(index));
        current.is_some_and(|stream| {
            stream.settle();
            stream.goes_on(self.until)
        })
    }
}

#[inline]
fn key(stream: &CpuStream<'_>, index: usize) -> Option<Key> {
    stream
        .next_stamp()
        .map(|stamp| (stamp, stream.cpu(), index))
}

impl EventSource for Merged<'_> {
    fn next_event(&mut self) -> Option<Event> {
        self.read_next()
    }

    fn next_glance(&mut self) -> Option<Glance> {
        self.read_next()
    }

    fn bytes_done(&self) -> u64 {
        self.streams.iter().map(EventSource::bytes_done).sum()
    }

    fn take_faults(&mut self) -> FaultLog {
        let mut all = FaultLog::default();
        for stream in &mut self.streams {
            all.absorb(stream.take_faults());
        }
        all
    }
}
