//! Counters whose values the samples of `sched_switch` carry, as with `perf record -e '{sched:sched_switch,cycles}:S'`.
//!
//! Source: `perf_output_read_group` in `kernel/events/core.c`: a sample holds the running totals of its whole group, each
//! with the id of its event on that CPU.

use crate::decode::EventType;
use crate::event::{Counters, MOST_COUNTERS};

use super::attr::{Attr, SampleType};
use super::events::Events;
use super::sample::Group;

/// `PERF_TYPE_HARDWARE`, and two of `enum perf_hw_id`. The upper half of `config` may name the processor's unit.
const TYPE_HARDWARE: u32 = 0;
const CYCLES: u32 = 0;
const INSTRUCTIONS: u32 = 1;

/// Marks an event that is none of the counters.
const NONE: u8 = u8::MAX;

/// Which events' samples carry counters, and which events these are.
#[derive(Debug, Clone, Default)]
pub(super) struct Counting {
    pub names: Vec<String>,
    /// By event: whether it is `sched_switch`, with the values of its group.
    leads: Vec<bool>,
    /// By event: its place among the counters.
    places: Vec<u8>,
    cycles: Option<u8>,
    instructions: Option<u8>,
}

impl Counting {
    /// `types` and `type_indexes` are the trace's.
    pub fn new(events: &Events, types: &[EventType], type_indexes: &[u16]) -> Self {
        let is_switch = |index: &u16| {
            let found = types.get(usize::from(*index));
            found.is_some_and(|of| of.system == "sched" && of.name == "sched_switch")
        };
        let reads = |attr: &Attr| attr.sample_type.has(SampleType::READ);
        let attrs = events.attrs.iter().zip(type_indexes);
        let leads: Vec<bool> = attrs
            .map(|(attr, index)| {
                let group =
                    reads(attr) && attr.read_format.is_group() && attr.read_format.has_ids();
                attr.is_tracepoint() && group && is_switch(index)
            })
            .collect();
        if !leads.contains(&true) {
            return Self::default();
        }
        let mut counting = Self {
            leads,
            places: vec![NONE; events.attrs.len()],
            ..Self::default()
        };
        let counters = events.attrs.iter().zip(&mut counting.places);
        let counters = counters.filter(|(attr, _)| !attr.is_tracepoint() && reads(attr));
        let mut listed = Vec::new();
        for ((attr, place), number) in counters.take(MOST_COUNTERS).zip(0_u8..) {
            *place = number;
            listed.push(attr);
        }
        counting.names = listed.iter().map(|attr| attr.described().1).collect();
        let cycles = place_of(&listed, CYCLES, &["cycles", "cpu-cycles"]);
        let instructions = place_of(&listed, INSTRUCTIONS, &["instructions"]);
        let (cycles, instructions) = cycles.zip(instructions).unzip();
        let excludes = |place: Option<u8>| listed.get(usize::from(place?)).map(|of| of.excludes());
        if excludes(cycles) == excludes(instructions) {
            (counting.cycles, counting.instructions) = (cycles, instructions);
        }
        counting
    }

    /// Whether an event's samples carry counters.
    pub fn leads(&self, event: u16) -> bool {
        self.leads.get(usize::from(event)).copied().unwrap_or(false)
    }

    /// What a sample's group says of the counters; `None` if nothing.
    pub fn read(&self, events: &Events, group: &Group<'_>) -> Option<Counters> {
        let mut counters = Counters::default();
        (counters.enabled_ns, counters.running_ns) = group.times.unwrap_or((0, 0));
        counters.cycles = self.cycles;
        counters.instructions = self.instructions;
        let mut found = false;
        for (id, value) in group.values() {
            let place = events.of_id(id).map_or(NONE, |event| {
                let place = self.places.get(usize::from(event));
                place.copied().unwrap_or(NONE)
            });
            found |= place != NONE;
            counters.set(place, value);
        }
        found.then_some(counters)
    }
}

/// The first counter of a hardware event, by its number or by a name that units give it, as in `cpu_core/cycles/`.
fn place_of(counters: &[&Attr], number: u32, names: &[&str]) -> Option<u8> {
    let is = |attr: &&Attr| {
        let by_number = attr.kind == TYPE_HARDWARE && attr.config as u32 == number;
        let named = attr.name.as_deref().is_some_and(|name| {
            let mut parts = name.split('/');
            let (unit, event) = (parts.next(), parts.next());
            unit.is_some() && event.is_some_and(|event| names.contains(&event))
        });
        by_number || named
    };
    u8::try_from(counters.iter().position(is)?).ok()
}
