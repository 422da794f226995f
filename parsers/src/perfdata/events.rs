//! The events of a recording, and which of them a record belongs to.
//!
//! Source: "ID vs IDENTIFIER" in `perf.data-file-format.txt`, and `evlist__event2evsel` in `tools/perf/util/evlist.c`.

use rustc_hash::FxHashMap;

use crate::bytes::Endian;

use super::attr::Attr;
use super::sample::{Plain, SampleLayout};

/// Most events a recording may have: the event model numbers types with 16 bits.
pub(super) const MAX_EVENTS: usize = 4096;

/// All events, with their layouts.
#[derive(Debug, Clone)]
pub(super) struct Events {
    pub attrs: Vec<Attr>,
    layouts: Vec<SampleLayout>,
    /// By event: the short way to its samples, if it is a tracepoint and has one.
    plain: Vec<Option<Plain>>,
    /// `id_place` of such samples.
    plain_id_place: Option<u16>,
    ids: IdMap,
    /// Every event's records are laid out alike, so the layout is known even where the event is not.
    uniform: bool,
    /// Where samples hold the id, if records have to be told apart and can be.
    id_place: Option<usize>,
    trailer_id_place: Option<usize>,
}

/// Records of different layouts cannot be told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ambiguous;

impl Events {
    pub fn new(attrs: Vec<Attr>) -> Result<Self, Ambiguous> {
        let layouts: Vec<_> = attrs.iter().map(SampleLayout::new).collect();
        let place = common(layouts.iter().map(SampleLayout::id_place));
        let trailer_place = common(layouts.iter().map(SampleLayout::trailer_id_place));
        let uniform = layouts.windows(2).all(|pair| pair.first() == pair.last());
        if !uniform && place.is_none() {
            return Err(Ambiguous);
        }
        let single = attrs.len() < 2;
        let plain = |(attr, layout): (&Attr, &SampleLayout)| {
            layout.plain().filter(|_| attr.is_tracepoint())
        };
        let id_place = place.filter(|_| !single);
        Ok(Self {
            // There are but nine fields that the id can come after.
            plain_id_place: id_place.and_then(|at| u16::try_from(at).ok()),
            plain: attrs.iter().zip(&layouts).map(plain).collect(),
            ids: IdMap::new(&attrs),
            layouts,
            attrs,
            uniform,
            id_place,
            trailer_id_place: trailer_place.filter(|_| !single),
        })
    }

    /// The layout of event `index`.
    #[inline]
    pub fn layout(&self, index: u16) -> Option<&SampleLayout> {
        self.layouts.get(usize::from(index))
    }

    /// The event a little-endian sample belongs to, and the short way to read it, if there is one.
    #[inline(always)]
    pub fn plain(&self, sample: &[u8]) -> Option<(u16, &Plain)> {
        let event = match self.plain_id_place {
            None => 0,
            Some(at) => {
                let at = usize::from(at);
                let id = sample.get(at..at + 8)?.first_chunk()?;
                self.known_or_first(u64::from_le_bytes(*id))?
            }
        };
        let plain = self.plain.get(usize::from(event))?.as_ref()?;
        Some((event, plain))
    }

    /// The event a sample belongs to. Without an id to go by it is the first; `None` for an id that no event has,
    /// unless all samples are laid out alike.
    #[inline]
    pub fn of_sample(&self, sample: &[u8], endian: Endian) -> Option<u16> {
        let Some(place) = self.id_place else {
            return Some(0);
        };
        self.known_or_first(endian.u64_at(sample, place)?)
    }

    /// The CPU of a sample of whatever event, where all have it in the same place.
    pub fn cpu_of_any(&self, sample: &[u8], endian: Endian) -> Option<u32> {
        let place = common(self.layouts.iter().map(SampleLayout::cpu_place))?;
        endian.u32_at(sample, place)
    }

    /// Whether a sample is long enough for the id of its event.
    pub fn has_id(&self, sample: &[u8]) -> bool {
        self.id_place.is_none_or(|at| sample.len() >= at + 8)
    }

    /// The event that an id stands for.
    pub fn of_id(&self, id: u64) -> Option<u16> {
        self.ids.get(id)
    }

    /// The event a record other than a sample belongs to. What perf itself writes has id 0 and the first event's
    /// layout.
    pub fn of_other(&self, record: &[u8], endian: Endian) -> Option<u16> {
        let at = self
            .trailer_id_place
            .and_then(|back| record.len().checked_sub(back));
        match at {
            None => Some(0),
            Some(at) => match endian.u64_at(record, at)? {
                0 => Some(0),
                id => self.known_or_first(id),
            },
        }
    }

    #[inline]
    fn known_or_first(&self, id: u64) -> Option<u16> {
        self.ids.get(id).or(self.uniform.then_some(0))
    }

    /// The id in the trailer of a record other than a sample, even where there is one event only.
    pub fn trailer_id(&self, record: &[u8], endian: Endian) -> Option<u64> {
        let back = self
            .layouts
            .first()
            .and_then(SampleLayout::trailer_id_place)?;
        endian.u64_at(record, record.len().checked_sub(back)?)
    }
}

/// The place all agree on.
fn common(mut places: impl Iterator<Item = Option<usize>>) -> Option<usize> {
    let first = places.next()??;
    places.all(|place| place == Some(first)).then_some(first)
}

/// From an id to its event. The kernel numbers ids one after the other, so a table from the smallest on usually
/// does; ids that are spread out go to a hash map.
#[derive(Debug, Clone, Default)]
struct IdMap {
    base: u64,
    table: Vec<u16>,
    spread: FxHashMap<u64, u16>,
}

/// Marks an id of the table that no event has.
const NO_EVENT: u16 = u16::MAX;

impl IdMap {
    fn new(attrs: &[Attr]) -> Self {
        let mut ids: Vec<_> = attrs
            .iter()
            .zip(0_u16..)
            .flat_map(|(attr, index)| attr.ids.iter().map(move |&id| (id, index)))
            .collect();
        ids.sort_unstable();
        let (Some(&(base, _)), Some(&(last, _))) = (ids.first(), ids.last()) else {
            return Self::default();
        };
        let span = usize::try_from(last - base).unwrap_or(usize::MAX);
        if span > ids.len().saturating_mul(4).saturating_add(1024) {
            return Self {
                spread: ids.into_iter().collect(),
                ..Self::default()
            };
        }
        let mut table = vec![NO_EVENT; span + 1];
        for (id, index) in ids {
            let slot = usize::try_from(id - base)
                .ok()
                .and_then(|at| table.get_mut(at));
            if let Some(slot) = slot {
                *slot = index;
            }
        }
        Self {
            base,
            table,
            spread: FxHashMap::default(),
        }
    }

    #[inline]
    fn get(&self, id: u64) -> Option<u16> {
        let at = usize::try_from(id.wrapping_sub(self.base)).ok()?;
        match self.table.get(at) {
            Some(&index) if index != NO_EVENT => Some(index),
            _ if self.spread.is_empty() => None,
            _ => self.spread.get(&id).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perfdata::attr::SampleType;

    fn attr(sample_type: u64, ids: &[u64]) -> Attr {
        let mut raw = [0; 64];
        raw[24..32].copy_from_slice(&sample_type.to_le_bytes());
        let mut attr = Attr::parse(&raw, Endian::Little).unwrap();
        attr.ids = ids.to_vec();
        attr
    }

    fn sample(words: &[u64]) -> Vec<u8> {
        let mut bytes = vec![0; 8];
        words
            .iter()
            .for_each(|word| bytes.extend(word.to_le_bytes()));
        bytes
    }

    #[test]
    fn identifier_names_the_event_among_different_layouts() {
        let identifier = SampleType::IDENTIFIER;
        for far in [0, 1 << 40] {
            let events = Events::new(vec![
                attr(identifier | SampleType::IP, &[10, 11]),
                attr(identifier, &[12, 13 + far]),
            ])
            .unwrap();
            let of = |id| events.of_sample(&sample(&[id]), Endian::Little);
            assert_eq!([of(10), of(11), of(12)], [Some(0), Some(0), Some(1)]);
            assert_eq!([of(13 + far), of(14), of(0)], [Some(1), None, None]);
        }
    }

    #[test]
    fn id_is_found_where_all_events_agree_on_its_place() {
        let id = SampleType::ID;
        let agree = Events::new(vec![
            attr(id | SampleType::TIME, &[1]),
            attr(id | SampleType::TIME | SampleType::CPU, &[2]),
        ])
        .unwrap();
        assert_eq!(agree.of_sample(&sample(&[999, 2]), Endian::Little), Some(1));
        let differ = Events::new(vec![
            attr(id | SampleType::TIME, &[1]),
            attr(id | SampleType::CPU, &[2]),
        ]);
        assert_eq!(differ.unwrap_err(), Ambiguous);
    }

    #[test]
    fn without_ids_equal_layouts_will_do() {
        let time = SampleType::TIME;
        let same = Events::new(vec![attr(time, &[]), attr(time, &[])]).unwrap();
        assert_eq!(same.of_sample(&sample(&[5]), Endian::Little), Some(0));
        assert!(Events::new(vec![attr(time, &[]), attr(SampleType::CPU, &[])]).is_err());
        // An id that no event has does not matter either.
        let same = Events::new(vec![attr(SampleType::ID, &[1]), attr(SampleType::ID, &[2])]);
        assert_eq!(
            same.unwrap().of_sample(&sample(&[77]), Endian::Little),
            Some(0)
        );
    }
}
