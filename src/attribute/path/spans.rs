//! Intervals of time, by CPU.

/// Intervals, by CPU.
#[derive(Debug, Default)]
pub struct CpuSpans {
    by_cpu: Vec<Spans>,
}

/// Intervals that neither overlap nor touch, in order.
#[derive(Debug, Clone, Default)]
pub struct Spans(Vec<(i64, i64)>);

impl Spans {
    /// Sorts intervals and joins those that overlap.
    pub fn new(mut all: Vec<(i64, i64)>) -> Self {
        all.sort_unstable();
        let mut joined: Vec<(i64, i64)> = Vec::with_capacity(all.len());
        for (start, end) in all {
            match joined.last_mut() {
                Some(last) if last.1 >= start => last.1 = last.1.max(end),
                _ => joined.push((start, end)),
            }
        }
        Self(joined)
    }

    /// The parts of `[start, end]` that lie in them, in order.
    pub fn within(&self, start: i64, end: i64) -> impl DoubleEndedIterator<Item = (i64, i64)> + '_ {
        let first = self.0.partition_point(|span| span.1 <= start);
        let later = self.0.get(first..).unwrap_or_default();
        let count = later.partition_point(|span| span.0 < end);
        let found = later.get(..count).unwrap_or_default().iter();
        let clipped = found.map(move |&(from, to)| (from.max(start), to.min(end)));
        clipped.filter(|(from, to)| from < to)
    }

    /// The same of intervals none of which holds the time of those within it: as long as all that overlap are together.
    fn nested(mut all: Vec<(i64, i64)>) -> Self {
        all.sort_unstable();
        let mut joined: Vec<(i64, i64)> = Vec::with_capacity(all.len());
        for (start, end) in all {
            match joined.last_mut() {
                Some(last) if last.1 >= start => last.1 = last.1.saturating_add(end - start),
                _ => joined.push((start, end)),
            }
        }
        Self(joined)
    }

    /// How much of `[start, end]` lies in them.
    pub fn overlap(&self, start: i64, end: i64) -> i64 {
        self.within(start, end).map(|(from, to)| to - from).sum()
    }
}

impl CpuSpans {
    /// From CPUs and intervals.
    pub fn new(of: &[(u32, i64, i64)]) -> Self {
        Self::by_cpu(of, Spans::new)
    }

    /// From CPUs and the intervals of handlers, each as long as it took by itself: what it called has one of its own, which
    /// begins before the first one's is over. Together they are as long as the handler was.
    pub fn nested(of: &[(u32, i64, i64)]) -> Self {
        Self::by_cpu(of, Spans::nested)
    }

    fn by_cpu(of: &[(u32, i64, i64)], join: fn(Vec<(i64, i64)>) -> Spans) -> Self {
        let cpus = of.iter().map(|(cpu, ..)| *cpu as usize + 1).max();
        let mut by_cpu = vec![Vec::new(); cpus.unwrap_or(0)];
        for &(cpu, start, end) in of {
            if let Some(spans) = by_cpu.get_mut(cpu as usize)
                && end > start
            {
                spans.push((start, end));
            }
        }
        Self {
            by_cpu: by_cpu.into_iter().map(join).collect(),
        }
    }

    /// Those of a CPU.
    pub fn of(&self, cpu: u16) -> &Spans {
        static NONE: Spans = Spans(Vec::new());
        self.by_cpu.get(usize::from(cpu)).unwrap_or(&NONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A handler from 10 to 100 that ran functions from 20 to 50 and from 55 to 95: of its own it has 10 + 5 + 5.
    #[test]
    fn what_a_handler_called_lengthens_it() {
        let rows = [(0, 20, 50), (0, 10, 30), (0, 55, 95), (0, 200, 210)];
        let spans = CpuSpans::nested(&rows);
        assert_eq!(spans.of(0).overlap(0, 1000), 90 + 10);
        assert_eq!(spans.of(0).overlap(96, 150), 4);
        // Those of waits hold what is within them.
        assert_eq!(CpuSpans::new(&rows).of(0).overlap(0, 1000), 40 + 40 + 10);
    }
}
