//! The growth of a session's context: the tokens of the prompt of each call.

use forge_domain::Tokens;
use forge_transcript::{RecordedCall, RecordedCompaction};
use serde::Serialize;

/// The most points that are kept.
const MOST_POINTS: usize = 240;

/// The growth of a context.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Growth {
    pub(super) source: GrowthSource,
    /// The number of calls.
    pub(super) calls: usize,
    /// The tokens of the largest prompt.
    pub(super) peak: Tokens,
    /// The tokens of the last prompt.
    pub(super) last: Tokens,
    /// The prompts in order, several calls to a point if there are many.
    pub(super) points: Vec<GrowthPoint>,
}

/// The origin of the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum GrowthSource {
    /// The provider reported them, and the agent recorded them: of the whole file.
    Recorded,
    /// They were counted: of the messages in the window.
    Counted,
}

/// A few calls that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct GrowthPoint {
    /// The first call, counted from 1.
    pub(super) call: usize,
    /// The tokens of the largest prompt among them.
    pub(super) tokens: Tokens,
    /// The compactions right before one of them.
    pub(super) compactions: usize,
}

impl Growth {
    /// Returns the growth that was recorded, else the one that `counted` iterates over; `None` without any
    /// call.
    pub(super) fn of<I: Iterator<Item = Tokens>>(
        calls: &[RecordedCall],
        compactions: &[RecordedCompaction],
        counted: &dyn Fn() -> I,
    ) -> Option<Self> {
        let recorded =
            || calls.iter().filter(|call| !call.is_aside && call.usage.prompt_tokens > Tokens::ZERO);
        if recorded().nth(1).is_none() {
            let prompts = counted().map(|tokens| (tokens, 0));
            return Self::of_prompts(GrowthSource::Counted, counted().count(), prompts);
        }
        let mut left = compactions.iter().peekable();
        let prompts = recorded().map(|call| {
            let mut before = 0;
            while left.next_if(|compaction| compaction.record < call.record).is_some() {
                before += 1;
            }
            (call.usage.prompt_tokens, before)
        });
        Self::of_prompts(GrowthSource::Recorded, recorded().count(), prompts)
    }

    /// Returns the growth of `n_prompts` prompts: the tokens of each, and the compactions right before it.
    fn of_prompts(
        source: GrowthSource,
        n_prompts: usize,
        prompts: impl Iterator<Item = (Tokens, usize)>,
    ) -> Option<Self> {
        let mut last = None;
        let each = prompts.enumerate().map(|(at, (tokens, compactions))| {
            last = Some(tokens);
            GrowthPoint { call: at + 1, tokens, compactions }
        });
        let points = join_points(each, n_prompts, MOST_POINTS);
        let peak = points.iter().map(|point| point.tokens).max()?;
        Some(Self { source, calls: n_prompts, peak, last: last?, points })
    }

    /// Returns at most that many points.
    pub(super) fn points(&self, most: usize) -> Vec<GrowthPoint> {
        join_points(self.points.iter().copied(), self.points.len(), most)
    }
}

/// Joins points that follow each other, so that at most that many of `n_points` are left.
fn join_points(points: impl Iterator<Item = GrowthPoint>, n_points: usize, most: usize) -> Vec<GrowthPoint> {
    let most = most.clamp(1, n_points.max(1));
    let mut joined: Vec<GrowthPoint> = Vec::with_capacity(most);
    for (at, point) in points.enumerate() {
        let is_next = at >= joined.len() * n_points / most;
        match joined.last_mut().filter(|_| !is_next) {
            Some(open) => {
                open.tokens = open.tokens.max(point.tokens);
                open.compactions += point.compactions;
            }
            None => joined.push(point),
        }
    }
    joined
}

/// Returns a chart of columns as lines of text, at most `width` columns and `height` lines, with the
/// compactions below. The figures at the left are those of the top and of the middle.
pub(super) fn chart(growth: &Growth, width: usize, height: usize) -> Vec<String> {
    const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let points = growth.points(width);
    let wide = (width / points.len().max(1)).clamp(1, 4);
    let full = growth.peak.as_u64().max(1);
    let eighths = |point: &GrowthPoint| {
        let levels = (height * 8) as u64;
        usize::try_from((point.tokens.as_u64() * levels).div_ceil(full)).unwrap_or(usize::MAX)
    };
    let mut lines = Vec::with_capacity(height);
    for row in (0..height).rev() {
        let cells = points.iter().map(|point| EIGHTHS[eighths(point).saturating_sub(row * 8).min(8)]);
        lines.push(
            cells.flat_map(|cell| std::iter::repeat_n(cell, wide)).collect::<String>().trim_end().to_owned(),
        );
    }
    if points.iter().any(|point| point.compactions > 0) {
        let cell = |point: &GrowthPoint| if point.compactions > 0 { '▲' } else { ' ' };
        let marks = points.iter().map(|point| format!("{}{}", cell(point), " ".repeat(wide - 1)));
        lines.push(marks.collect::<String>().trim_end().to_owned());
    }
    lines
}

#[cfg(test)]
mod tests {
    use forge_domain::Usage;
    use pretty_assertions::assert_eq;

    use super::*;

    fn call(record: usize, tokens: u64, is_aside: bool) -> RecordedCall {
        let usage = Usage { prompt_tokens: Tokens::new(tokens), ..Usage::default() };
        RecordedCall { record, model: None, usage, dollars: None, is_aside }
    }

    #[test]
    fn recorded_prompts_win_and_compactions_stand_before_their_call() {
        let mut compaction = RecordedCompaction::default();
        compaction.record = 2;
        let calls = [call(0, 10, false), call(1, 80, false), call(2, 5, true), call(3, 20, false)];
        let one = || std::iter::once(Tokens::new(7));
        let growth = Growth::of(&calls, &[compaction], &one).unwrap();
        let points: Vec<_> = growth
            .points
            .iter()
            .map(|point| (point.call, point.tokens.as_u64(), point.compactions))
            .collect();
        assert_eq!(points, [(1, 10, 0), (2, 80, 0), (3, 20, 1)]);
        assert_eq!(
            (growth.source, growth.peak, growth.last),
            (GrowthSource::Recorded, Tokens::new(80), Tokens::new(20))
        );
        assert_eq!(chart(&growth, 9, 2), ["   ███", "▂▂▂███▄▄▄", "      ▲"]);
        let counted = Growth::of(&calls[..1], &[], &one).unwrap();
        assert_eq!((counted.source, counted.calls), (GrowthSource::Counted, 1));
        assert_eq!(Growth::of(&[], &[], &std::iter::empty), None);
    }

    #[test]
    fn many_calls_are_few_points() {
        let calls: Vec<_> = (0..1_000).map(|n| call(n, n as u64 + 1, false)).collect();
        let growth = Growth::of(&calls, &[], &std::iter::empty).unwrap();
        assert_eq!(
            (growth.calls, growth.points.len(), growth.peak),
            (1_000, MOST_POINTS, Tokens::new(1_000))
        );
        assert_eq!(growth.points(7).len(), 7);
        assert!(growth.points.is_sorted_by_key(|point| point.tokens));
    }
}
