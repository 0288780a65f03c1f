//! A session read record by record.

use super::boundary::compaction;
use super::branch::{Node, active_branch};
use super::read::Records;
use super::shape::{Shape, file_stem};
use crate::attachments::Tally;
use crate::codec::{Source, Visit, each_record};
use crate::id_digest::IdDigest;
use crate::recorded_call::CallTally;
use crate::reply_pieces::Joiner;
use crate::{Format, RecordedCompaction, StreamError, StreamedSession};

/// The facts of a session that are collected before its messages are read.
#[derive(Default)]
struct Survey {
    shape: Shape,
    /// True for each value of a line that is a record.
    are_records: Vec<bool>,
    compactions: Vec<RecordedCompaction>,
    /// The records that hold a summary.
    summaries: Vec<usize>,
}

/// Streams the session; returns `None` if the file is not one of Claude Code's, or not read in its order.
pub(super) fn stream(
    source: &mut Source<'_>,
    format: Format,
    visit: Visit<'_>,
) -> Result<Option<StreamedSession>, StreamError> {
    // A document of another format may be one very long line.
    if source.head()?.is_some() {
        return Ok(None);
    }
    let Some(survey) = Survey::of(source)? else { return Ok(None) };
    let branch = active_branch(&survey.shape.nodes);
    let window = branch.is_in_order().then(|| survey.window_start(&branch.active)).flatten();
    let Some(start) = window else { return Ok(None) };
    let active = branch.active;
    let n_records = survey.shape.nodes.len();
    let (mut reader, mut tally, mut joiner) = (Records::default(), Tally::default(), Joiner::new(visit));
    let mut calls = CallTally::default();
    let (mut at, mut place) = (0, 0);
    let mut nodes = survey.shape.nodes.into_iter();
    source.each_line(&mut |line| {
        each_record(line, &mut |value| {
            at += 1;
            let node = if survey.are_records.get(at - 1) == Some(&true) { nodes.next() } else { None };
            let Some(node) = node else { return };
            let record = reader.read(value, node, active.get(place) == Some(&true));
            let is_in_context = place >= start && record.n_messages() > 0;
            tally.add(&record, is_in_context);
            calls.add(place, value);
            if is_in_context {
                joiner.push(record);
            }
            place += 1;
        });
        true
    })?;
    joiner.finish();
    Ok(Some(StreamedSession {
        id: survey.shape.id.unwrap_or_else(|| file_stem(source.origin).to_owned()),
        format,
        records: n_records,
        skipped_lines: survey.shape.skipped_lines,
        records_off_branch: branch.n_left,
        compactions: survey.compactions,
        attachments: tally.finish(),
        calls: calls.finish(),
        tools: None,
    }))
}

impl Survey {
    /// Looks at all lines; returns `None` if they are not a session of Claude Code's, or not text.
    fn of(source: &mut Source<'_>) -> Result<Option<Self>, StreamError> {
        let mut survey = Self::default();
        let mut fault = None;
        let origin = source.origin;
        let mut n = 0;
        let is_text = source.each_line(&mut |line| {
            n += 1;
            let skipped = each_record(line, &mut |value| match survey.shape.look(value, n, origin) {
                Ok(is_record) => survey.note(value, is_record),
                Err(error) => fault = fault.take().or(Some(error)),
            });
            survey.shape.skipped_lines += skipped;
            // A first line that is not a record at all is not worth reading the rest.
            fault.is_none() && (survey.shape.is_own || n < 1_000)
        })?;
        match fault {
            Some(error) if survey.shape.is_own => Err(error.into()),
            _ if !survey.shape.is_own || !is_text => Ok(None),
            _ => Ok(Some(survey)),
        }
    }

    fn note(&mut self, line: &str, is_record: bool) {
        self.are_records.push(is_record);
        if !is_record {
            return;
        }
        let place = self.shape.nodes.len() - 1;
        self.compactions.extend(compaction(place, line));
        if line.contains("isCompactSummary") {
            self.summaries.push(place);
        }
    }

    /// Returns the first record of what the model would see, as [`super::boundary::window`] does; `None` if a
    /// compaction kept earlier records.
    fn window_start(&self, active: &[bool]) -> Option<usize> {
        let is_summed_up = |compaction: &&RecordedCompaction| {
            self.summaries.iter().any(|summary| *summary >= compaction.record && active[*summary])
        };
        let Some(last) = self.compactions.iter().rev().find(is_summed_up) else { return Some(0) };
        let kept = last.kept_from.as_deref().map(IdDigest::of);
        let is_kept = |node: &Node| kept.is_some() && node.uuid == kept;
        let keeps = self.shape.nodes[..last.record].iter().any(is_kept);
        (!keeps).then_some(last.record)
    }
}
