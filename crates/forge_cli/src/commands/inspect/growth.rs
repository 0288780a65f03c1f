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
    /// Returns the growth that was recorded, else the one that was counted; `None` without any call.
    pub(super) fn of(
        calls: &[RecordedCall],
        compactions: &[RecordedCompaction],
        counted: &[Tokens],
    ) -> Option<Self> {
        let recorded: Vec<&RecordedCall> =
            calls.iter().filter(|call| !call.is_aside && call.usage.prompt_tokens > Tokens::ZERO).collect();
        if recorded.len() < 2 {
            let prompts = counted.iter().map(|tokens| (*tokens, 0)).collect();
            return Self::of_prompts(GrowthSource::Counted, prompts);
        }
        let mut left = compactions.iter().peekable();
        let mut prompts = Vec::with_capacity(recorded.len());
        for call in recorded {
            let mut before = 0;
            while left.next_if(|compaction| compaction.record < call.record).is_some() {
                before += 1;
            }
            prompts.push((call.usage.prompt_tokens, before));
        }
        Self::of_prompts(GrowthSource::Recorded, prompts)
    }

    fn of_prompts(source: GrowthSource, prompts: Vec<(Tokens, usize)>) -> Option<Self> {
        let (last, _) = *prompts.last()?;
        let each: Vec<GrowthPoint> = prompts
            .into_iter()
            .enumerate()
            .map(|(at, (tokens, compactions))| GrowthPoint { call: at + 1, tokens, compactions })
            .collect();
        let peak = each.iter().map(|point| point.tokens).max().unwrap_or_default();
        Some(Self { source, calls: each.len(), peak, last, points: join_points(&each, MOST_POINTS) })
    }

    /// Returns at most that many points.
    pub(super) fn points(&self, most: usize) -> Vec<GrowthPoint> {
        join_points(&self.points, most)
    }
}

/// Joins points that follow each other, so that at most that many are left.
fn join_points(points: &[GrowthPoint], most: usize) -> Vec<GrowthPoint> {
    let most = most.clamp(1, points.len().max(1));
    let place = |nth: usize| nth * points.len() / most;
    let point = |nth: usize| {
        let several = &points[place(nth)..place(nth + 1)];
        Some(GrowthPoint {
            call: several.first()?.call,
            tokens: several.iter().map(|point| point.tokens).max()?,
            compactions: several.iter().map(|point| point.compactions).sum(),
        })
    };
    (0..most).filter_map(point).collect()
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
        let growth = Growth::of(&calls, &[compaction], &[Tokens::new(7)]).unwrap();
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
        let counted = Growth::of(&calls[..1], &[], &[Tokens::new(7)]).unwrap();
        assert_eq!((counted.source, counted.calls), (GrowthSource::Counted, 1));
        assert_eq!(Growth::of(&[], &[], &[]), None);
    }

    #[test]
    fn many_calls_are_few_points() {
        let calls: Vec<_> = (0..1_000).map(|n| call(n, n as u64 + 1, false)).collect();
        let growth = Growth::of(&calls, &[], &[]).unwrap();
        assert_eq!(
            (growth.calls, growth.points.len(), growth.peak),
            (1_000, MOST_POINTS, Tokens::new(1_000))
        );
        assert_eq!(growth.points(7).len(), 7);
        assert!(growth.points.is_sorted_by_key(|point| point.tokens));
    }
}
