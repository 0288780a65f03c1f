//! A session read record by record.

use std::collections::HashMap;

use super::boundary::{compaction, is_summary};
use super::branch::{Branch, Node};
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

/// Streams the session; returns `None` if the file is not one of Claude Code's, or a compaction kept earlier
/// records.
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
    let branch = survey.shape.branch();
    let Some(start) = survey.window_start(&branch) else { return Ok(None) };
    let n_records = survey.shape.nodes.len();
    let mut reading = Reading {
        branch: &branch,
        start,
        compactions: survey.compactions,
        reader: Records::default(),
        tally: Tally::default(),
        joiner: Joiner::new(visit),
        calls: CallTally::default(),
        late: HashMap::new(),
        n_read: 0,
    };
    let (mut at, mut place) = (0, 0);
    let mut nodes = survey.shape.nodes.into_iter();
    source.each_line(&mut |line| {
        each_record(line, &mut |value| {
            at += 1;
            let node = if survey.are_records.get(at - 1) == Some(&true) { nodes.next() } else { None };
            let Some(node) = node else { return };
            reading.pass(place, value, node);
            place += 1;
        });
        true
    })?;
    reading.joiner.finish();
    Ok(Some(StreamedSession {
        id: survey.shape.id.unwrap_or_else(|| file_stem(source.origin).to_owned()),
        format,
        records: n_records,
        skipped_lines: survey.shape.skipped_lines,
        records_off_branch: branch.n_left,
        compactions: reading.compactions,
        attachments: reading.tally.finish(),
        calls: reading.calls.finish(),
        tools: None,
    }))
}

/// A session that is read record by record.
struct Reading<'b, 'v> {
    branch: &'b Branch,
    /// The first record of what the model would see, in the order of the file.
    start: usize,
    compactions: Vec<RecordedCompaction>,
    reader: Records,
    tally: Tally,
    joiner: Joiner<'v>,
    calls: CallTally,
    /// The records that are read behind a later one, by its place.
    late: HashMap<usize, Vec<Late>>,
    /// The number of records that were read.
    n_read: usize,
}

/// A record that is read behind a later one.
struct Late {
    /// Its distance from that one, see [`Branch::behind`].
    distance: usize,
    place: usize,
    text: String,
    node: Node,
}

impl Reading<'_, '_> {
    /// Passes to the record at `place`, in the order of the file.
    fn pass(&mut self, place: usize, text: &str, node: Node) {
        if let Some((behind, distance)) = self.branch.behind(place) {
            let late = Late { distance, place, text: text.to_owned(), node };
            self.late.entry(behind).or_default().push(late);
            return;
        }
        let is_in_window = place >= self.start;
        for compaction in self.compactions.iter_mut().filter(|compaction| compaction.record == place) {
            compaction.record = self.n_read;
        }
        self.read(place, text, node, is_in_window);
        let mut late = self.late.remove(&place).unwrap_or_default();
        late.sort_by_key(|late| (late.distance, late.place));
        for Late { place, text, node, .. } in late {
            self.read(place, &text, node, is_in_window);
        }
    }

    fn read(&mut self, place: usize, text: &str, node: Node, is_in_window: bool) {
        let record = self.reader.read(text, node, self.branch.active.get(place) == Some(&true));
        let is_in_context = is_in_window && record.n_messages() > 0;
        self.tally.add(&record, is_in_context);
        self.calls.add(self.n_read, text);
        if is_in_context {
            self.joiner.push(record);
        }
        self.n_read += 1;
    }
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
        if is_summary(line) {
            self.summaries.push(place);
        }
    }

    /// Returns the first record of what the model would see, as [`super::boundary::window`] does; `None` if a
    /// compaction kept earlier records.
    fn window_start(&self, branch: &Branch) -> Option<usize> {
        let read_at = |place: usize| branch.behind(place).map_or(place, |(behind, _)| behind);
        let is_summed_up = |compaction: &&RecordedCompaction| {
            self.summaries
                .iter()
                .any(|summary| read_at(*summary) >= compaction.record && branch.active[*summary])
        };
        let Some(last) = self.compactions.iter().rev().find(is_summed_up) else { return Some(0) };
        let kept = last.kept_from.as_deref().map(IdDigest::of);
        let is_kept = |node: &Node| kept.is_some() && node.uuid == kept;
        let keeps = self.shape.nodes[..last.record].iter().any(is_kept);
        (!keeps).then_some(last.record)
    }
}
