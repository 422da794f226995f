//! Whether a page's stamps can be right: within one CPU the order of the pages is certain, and a page that begins
//! after the next one does not tell its time.

use super::buffers::Buffer;
use super::clock::Stamps;
use super::page::PageLayout;
use crate::plausible::{SLACK_NS, Span};

/// So many pages of each CPU tell which stamps are believed.
const ASKED: usize = 16;

/// The stamps of a buffer that are believed, by the pages' heads.
pub(super) fn believed(buffer: &Buffer, file: &[u8], layout: &PageLayout, stamps: &Stamps) -> Span {
    let mut heads = Vec::new();
    for area in &buffer.cpus {
        let stamps = stamps.of_cpu(area.cpu);
        let mut pages = buffer.pages(file, area);
        let size = pages.page_size();
        let stamped = pages.spread(ASKED).into_iter().filter_map(|page| {
            let stamp = layout.stamp_ahead(page, size)?;
            Some((stamps.nanoseconds(stamp).ok()?, 1))
        });
        heads.extend(stamped);
    }
    Span::around(heads)
}

/// Until when a page's events may have happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limit {
    pub last: i64,
    /// The page that follows says so.
    pub by_next: bool,
}

impl Limit {
    pub fn until(last: i64) -> Self {
        Self {
            last,
            by_next: false,
        }
    }
}

/// A page between its neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// The last record before it.
    pub before: Option<i64>,
    /// Its own stamp; `None` if no clock can show it.
    pub stamp: Option<i64>,
    /// The stamps of the two pages that follow, as far as they are believed.
    pub next: [Option<i64>; 2],
}

impl Place {
    /// `None` if the page's stamp cannot be right.
    pub fn limit(&self, believed: Span) -> Option<Limit> {
        // A page that begins too early may go on with events that do not.
        let stamp = self.stamp.filter(|&stamp| stamp <= believed.last)?;
        if self.is_early(stamp) || self.is_late(stamp) {
            return None;
        }
        let next = self.next.into_iter().flatten();
        let next = next.map(later).find(|&limit| stamp <= limit);
        Some(match next {
            Some(last) => Limit {
                last,
                by_next: true,
            },
            None => Limit::until(believed.last),
        })
    }

    /// Before what came before it, while the next page is not: that would be a clock that was set back.
    fn is_early(&self, stamp: i64) -> bool {
        let [Some(next), _] = self.next else {
            return false;
        };
        self.before
            .is_some_and(|before| later(stamp) < before && before <= later(next))
    }

    /// After the next page, which fits what came before, or what comes then.
    fn is_late(&self, stamp: i64) -> bool {
        match (self.before, self.next) {
            (Some(before), [Some(next), _]) => later(next) < stamp && before <= later(next),
            (None, [Some(next), Some(then)]) => {
                later(next) < stamp && later(then) < stamp && next <= later(then)
            }
            _ => false,
        }
    }
}

fn later(stamp: i64) -> i64 {
    stamp.saturating_add(SLACK_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    /// Stamps in seconds.
    fn limit(before: Option<i64>, stamp: i64, next: [Option<i64>; 2]) -> Option<(i64, bool)> {
        let believed = Span::new(0, 100_000 * SECOND);
        let place = Place {
            before: before.map(|at| at * SECOND),
            stamp: Some(stamp * SECOND),
            next: next.map(|at| at.map(|at| at * SECOND)),
        };
        let limit = place.limit(believed)?;
        Some((limit.last / SECOND, limit.by_next))
    }

    #[test]
    fn pages_in_order_end_where_the_next_begins() {
        assert_eq!(limit(Some(10), 20, [Some(30), Some(40)]), Some((30, true)));
        assert_eq!(limit(Some(10), 20, [None, None]), Some((100_000, false)));
        assert_eq!(limit(None, 20, [Some(20), None]), Some((20, true)));
        // A clock that stepped back and goes on from there.
        assert_eq!(limit(Some(23), 20, [Some(21), None]), Some((21, true)));
    }

    #[test]
    fn a_page_that_its_neighbours_contradict_is_left_out() {
        // Late, between two that fit each other.
        assert_eq!(limit(Some(10), 5000, [Some(30), Some(40)]), None);
        assert_eq!(limit(None, 5000, [Some(30), Some(40)]), None);
        // Early.
        assert_eq!(limit(Some(1000), 20, [Some(1001), None]), None);
        // Beyond all others.
        assert_eq!(limit(Some(10), 200_000, [None, None]), None);
        let unknown = Place {
            before: None,
            stamp: None,
            next: [None, None],
        };
        assert_eq!(unknown.limit(Span::ALL), None);
    }

    #[test]
    fn a_clock_that_was_set_back_is_believed() {
        assert_eq!(
            limit(Some(1000), 1001, [Some(5), Some(6)]),
            Some((100_000, false))
        );
        assert_eq!(limit(Some(1001), 5, [Some(6), Some(7)]), Some((6, true)));
        // The next page is the one that cannot be right.
        assert_eq!(
            limit(Some(1000), 1001, [Some(5), Some(1002)]),
            Some((1002, true))
        );
    }
}
