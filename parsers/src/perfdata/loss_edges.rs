//! One CPU's losses as events: where each begins and where it ends.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::event::{ContextFlags, Event, NO_TYPE, Payload};

use super::loss::Loss;

/// A CPU's losses as events: their begins and ends, each in order.
pub(super) struct Losses<'a> {
    begins: std::slice::Iter<'a, Loss>,
    /// Ends of the losses begun, by time.
    ends: BinaryHeap<Reverse<(i64, u64)>>,
}

impl<'a> Losses<'a> {
    pub fn new(losses: &'a [Loss]) -> Self {
        Self {
            begins: losses.iter(),
            ends: BinaryHeap::new(),
        }
    }

    /// A begin comes behind the event before the LOST record, an end before the event after it: at equal times the
    /// record's own place decides.
    #[inline]
    pub fn due(&self) -> Option<(i64, u64)> {
        if self.begins.len() == 0 && self.ends.is_empty() {
            return None;
        }
        let begin = self.begins.as_slice().first();
        let begin = begin.map(|loss| (loss.begin, loss.offset));
        let end = self.ends.peek().map(|Reverse(end)| *end);
        match (begin, end) {
            (Some(begin), Some(end)) => Some(begin.min(end)),
            (begin, end) => begin.or(end),
        }
    }

    pub fn next(&mut self, cpu: u32) -> Option<Event> {
        let due = self.due()?;
        if self.ends.peek() == Some(&Reverse(due)) {
            self.ends.pop();
            return Some(loss_event(due.0, cpu, Payload::LossEnd));
        }
        let loss = self.begins.next()?;
        self.ends
            .push(Reverse((loss.end, loss.offset.saturating_add(1))));
        let count = loss.count;
        Some(loss_event(loss.begin, cpu, Payload::LossBegin { count }))
    }
}

fn loss_event(ts: i64, cpu: u32, payload: Payload) -> Event {
    Event {
        ts,
        cpu,
        pid: -1,
        tgid: -1,
        flags: ContextFlags::default(),
        watched: false,
        type_index: NO_TYPE,
        payload,
    }
}
