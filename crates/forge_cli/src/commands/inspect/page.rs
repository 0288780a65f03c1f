//! `forge inspect --html`: one page to look at, without network, without script, and with nothing that the
//! session says taken for markup.

use std::collections::HashSet;
use std::fmt::Write;
use std::path::Path;

use anyhow::Context;
use forge_app::{Duplicate, DuplicateKind, InspectReport, MessageSize, MessageSizes};
use forge_domain::{MessageId, Role, Tokens, find_secrets, quantity};
use handlebars::Handlebars;
use serde::Serialize;

use super::InspectedSession;
use super::growth::Growth;
use super::spending::Spending;
use super::view::{growth_source, off_branch, spending_line};
use crate::commands::compact::write_file;
use crate::output::{self, visible, with_separators};

const TEMPLATE: &str = include_str!("../../../templates/inspect.html.hbs");
/// The most sessions on a page.
const MOST_SESSIONS: usize = 100;
/// The most rows of a list.
const MOST_ROWS: usize = 40;
/// The width of a drawing, in its own units.
const WIDTH: f64 = 960.0;
/// The height of the chart of prompts.
const CHART_HEIGHT: f64 = 220.0;
/// The height of a row of the map of messages, and the space below it.
const TAPE_ROW: (f64, f64) = (22.0, 6.0);
/// The least width of a rectangle: messages that are smaller are drawn together.
const LEAST_WIDTH: f64 = 1.5;

/// Writes the page of `sessions` to `path`.
pub(super) fn write(path: &Path, sessions: &[InspectedSession]) -> anyhow::Result<()> {
    let page = render(sessions)?;
    if output::is_stdout(path) {
        return output::print_bytes(page.as_bytes());
    }
    write_file(path, page.as_bytes())?;
    output::say(&format!("wrote {}", path.display()));
    Ok(())
}

fn render(sessions: &[InspectedSession]) -> anyhow::Result<String> {
    let mut engine = Handlebars::new();
    engine.set_strict_mode(true);
    engine.register_template_string("page", TEMPLATE).context("the template of the page is broken")?;
    let shown = &sessions[..sessions.len().min(MOST_SESSIONS)];
    let more = sessions.len() - shown.len();
    let page = Page {
        title: match sessions {
            [only] => shown_text(&only.id),
            several => quantity(several.len(), "session"),
        },
        several: sessions.len() > 1,
        more: if more > 0 {
            format!("{} more; name one with --session", quantity(more, "session"))
        } else {
            String::new()
        },
        sessions: shown.iter().enumerate().map(|(nth, session)| SessionView::of(nth, session)).collect(),
    };
    engine.render("page", &page).context("the page cannot be made")
}

/// Returns a text of the session as it may be shown: nothing hidden in it, and no secret.
fn shown_text(text: &str) -> String {
    if find_secrets(text).is_empty() { visible(text) } else { "(hidden: it looks like a secret)".to_owned() }
}

#[derive(Serialize)]
struct Page {
    title: String,
    several: bool,
    /// The sessions that are not on the page, in words.
    more: String,
    sessions: Vec<SessionView>,
}

#[derive(Serialize)]
struct SessionView {
    anchor: String,
    id: String,
    format: String,
    tokens: String,
    messages: String,
    facts: Vec<Fact>,
    growth: Option<ChartView>,
    roles: Vec<Share>,
    tape: Tape,
    lists: Lists,
    spending: Option<SpendingView>,
    findings: Vec<Finding>,
}

/// The lists of what is in the window.
#[derive(Serialize)]
struct Lists {
    tools: Vec<Row>,
    largest: Vec<Row>,
    duplicates: Vec<Row>,
    /// The number of duplicates, in words.
    n_duplicates: String,
    attachments: Vec<Row>,
}

/// A figure with its name.
#[derive(Serialize)]
struct Fact {
    value: String,
    label: String,
}

/// A part of the window: its width in percent, and its colour by name.
#[derive(Serialize)]
struct Share {
    class: &'static str,
    name: String,
    percent: String,
    amount: String,
    note: String,
}

/// A line of a list with a bar.
#[derive(Serialize)]
struct Row {
    class: &'static str,
    /// The width of its bar, in percent.
    percent: String,
    amount: String,
    name: String,
    note: String,
    text: String,
}

#[derive(Serialize)]
struct Finding {
    class: &'static str,
    title: String,
    lines: Vec<String>,
}

#[derive(Serialize)]
struct SpendingView {
    line: String,
    models: Vec<Row>,
}

/// The chart of prompts, in the units of its drawing.
#[derive(Serialize)]
struct ChartView {
    source: &'static str,
    width: f64,
    height: f64,
    area: String,
    line: String,
    ticks: Vec<Tick>,
    marks: Vec<Mark>,
    columns: Vec<Column>,
    first: String,
    last: String,
}

#[derive(Serialize)]
struct Tick {
    y: String,
    label: String,
}

#[derive(Serialize)]
struct Mark {
    x: String,
    label: String,
}

/// A strip over a point of the chart, which shows its figures.
#[derive(Serialize)]
struct Column {
    x: String,
    width: String,
    cx: String,
    cy: String,
    label: String,
}

/// The map of the messages, in order: as wide as their tokens, in rows.
#[derive(Serialize)]
struct Tape {
    width: f64,
    height: f64,
    pieces: Vec<Piece>,
}

#[derive(Serialize)]
struct Piece {
    class: &'static str,
    /// True if what it holds is somewhere else as well.
    twice: bool,
    x: String,
    y: String,
    width: String,
    height: f64,
    label: String,
}

impl SessionView {
    fn of(nth: usize, session: &InspectedSession) -> Self {
        let report = &session.report;
        Self {
            anchor: format!("session-{nth}"),
            id: shown_text(&session.id),
            format: session
                .format
                .map_or_else(|| "a run of Forge".to_owned(), |format| format.id().to_owned()),
            tokens: with_separators(report.tokens),
            messages: quantity(report.messages, "message"),
            facts: facts(session),
            growth: session.growth.as_ref().filter(|growth| growth.calls > 1).map(chart_view),
            roles: role_shares(report),
            tape: tape(report, &session.sizes),
            lists: Lists {
                tools: tool_rows(report),
                largest: largest_rows(report),
                duplicates: duplicate_rows(report),
                n_duplicates: quantity(report.duplicates.len(), "item"),
                attachments: attachment_rows(session),
            },
            spending: session.spending.as_ref().map(spending_view),
            findings: findings(session),
        }
    }
}

fn same_results(report: &InspectReport) -> impl Iterator<Item = &Duplicate> {
    report.duplicates.iter().filter(|duplicate| duplicate.kind == DuplicateKind::SameResult)
}

fn facts(session: &InspectedSession) -> Vec<Fact> {
    let report = &session.report;
    let fact = |value: String, label: &str| Fact { value, label: label.to_owned() };
    let mut facts = vec![
        fact(with_separators(report.tokens), "tokens in the window"),
        fact(report.messages.to_string(), if report.messages == 1 { "message" } else { "messages" }),
        fact(report.turns.to_string(), if report.turns == 1 { "turn" } else { "turns" }),
    ];
    let twice: Tokens = same_results(report).map(|duplicate| duplicate.tokens).sum();
    if twice > Tokens::ZERO {
        facts.push(fact(with_separators(twice), "tokens there twice"));
    }
    if let Some(growth) = &session.growth {
        facts.push(fact(growth.calls.to_string(), if growth.calls == 1 { "call" } else { "calls" }));
        facts.push(fact(with_separators(growth.peak), "tokens in the largest prompt"));
    }
    if let Some(spending) = &session.spending {
        let label = if spending.is_estimate { "at list prices" } else { "as recorded" };
        facts.push(fact(spending.cost.to_string(), label));
    }
    if !session.compactions.is_empty() {
        let n = session.compactions.len();
        facts.push(fact(n.to_string(), if n == 1 { "compaction" } else { "compactions" }));
    }
    facts
}

/// Returns the share in percent, as CSS writes it.
fn percent(part: Tokens, whole: Tokens) -> String {
    format!("{:.2}", part.as_u64() as f64 * 100.0 / whole.as_u64().max(1) as f64)
}

const fn class_of(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

fn role_shares(report: &InspectReport) -> Vec<Share> {
    let mut shares: Vec<Share> = report
        .by_role
        .iter()
        .map(|share| {
            let mut note = quantity(share.messages, "message");
            if share.role == Role::User && report.notes > 0 {
                let _ = write!(note, ", {} not written by the user", report.notes);
            }
            Share {
                class: class_of(share.role),
                name: share.role.as_str().to_owned(),
                percent: percent(share.tokens, report.tokens),
                amount: with_separators(share.tokens),
                note,
            }
        })
        .collect();
    if report.tools_tokens > Tokens::ZERO {
        shares.push(Share {
            class: "schema",
            name: "tool schemas".to_owned(),
            percent: percent(report.tools_tokens, report.tokens),
            amount: with_separators(report.tools_tokens),
            note: String::new(),
        });
    }
    shares
}

fn tool_rows(report: &InspectReport) -> Vec<Row> {
    let of_all = |tool: &&forge_app::ToolShare| tool.argument_tokens + tool.result_tokens;
    let most = report.by_tool.iter().map(|tool| of_all(&tool)).max().unwrap_or_default();
    let row = |tool: &forge_app::ToolShare| Row {
        class: "tool",
        percent: percent(of_all(&tool), most),
        amount: with_separators(of_all(&tool)),
        name: visible(&tool.tool),
        note: format!("{} · {}", quantity(tool.calls, "call"), quantity(tool.results, "result")),
        text: String::new(),
    };
    report.by_tool.iter().take(MOST_ROWS).map(row).collect()
}

fn largest_rows(report: &InspectReport) -> Vec<Row> {
    let most = report.largest.first().map(|item| item.tokens).unwrap_or_default();
    let row = |item: &forge_app::LargeItem| Row {
        class: class_of(item.role),
        percent: percent(item.tokens, most),
        amount: with_separators(item.tokens),
        name: visible(item.tool.as_deref().unwrap_or(item.role.as_str())),
        note: item.id.clone(),
        text: shown_text(&item.first_line),
    };
    report.largest.iter().map(row).collect()
}

fn duplicate_rows(report: &InspectReport) -> Vec<Row> {
    let most = report.duplicates.first().map(|duplicate| duplicate.tokens).unwrap_or_default();
    let row = |duplicate: &Duplicate| {
        let kind = match duplicate.kind {
            DuplicateKind::SameResult => "same result",
            DuplicateKind::SameCall => "same call",
        };
        Row {
            class: "twice",
            percent: percent(duplicate.tokens, most),
            amount: with_separators(duplicate.tokens),
            name: visible(&duplicate.tool),
            note: format!("{kind} {}×", duplicate.ids.len()),
            text: shown_text(&duplicate.what),
        }
    };
    report.duplicates.iter().take(MOST_ROWS).map(row).collect()
}

fn attachment_rows(session: &InspectedSession) -> Vec<Row> {
    let bytes = |bytes: usize| Tokens::new(bytes as u64);
    let most = session.attachments.iter().map(|kind| bytes(kind.bytes)).max().unwrap_or_default();
    let row = |kind: &forge_transcript::Attachments| Row {
        class: "system",
        percent: percent(bytes(kind.bytes), most),
        amount: format!("{} bytes", with_separators(bytes(kind.bytes))),
        name: visible(&kind.kind),
        note: format!("{} · {} in the context", quantity(kind.records, "attachment"), kind.in_context),
        text: String::new(),
    };
    session.attachments.iter().map(row).collect()
}

fn spending_view(spending: &Spending) -> SpendingView {
    let most = spending.models.iter().map(|share| share.usage.prompt_tokens).max().unwrap_or_default();
    let row = |share: &super::spending::ModelShare| Row {
        class: "assistant",
        percent: percent(share.usage.prompt_tokens, most),
        amount: share.cost.to_string(),
        name: if share.model.is_empty() { "unnamed model".to_owned() } else { visible(&share.model) },
        note: quantity(share.calls, "call"),
        text: format!(
            "{} prompt tokens, {} of them from the cache; {} in replies",
            with_separators(share.usage.prompt_tokens),
            with_separators(share.usage.cached_tokens),
            with_separators(share.usage.completion_tokens)
        ),
    };
    SpendingView { line: spending_line(spending), models: spending.models.iter().map(row).collect() }
}

fn findings(session: &InspectedSession) -> Vec<Finding> {
    let report = &session.report;
    let some = |lines: &[String]| {
        let mut shown: Vec<String> = lines.iter().take(MOST_ROWS).map(|line| visible(line)).collect();
        if lines.len() > shown.len() {
            shown.push(format!("and {} more", lines.len() - shown.len()));
        }
        shown
    };
    let finding = |class, title: &str, lines| Finding { class, title: title.to_owned(), lines };
    let mut findings = Vec::new();
    if report.breaches.is_empty() {
        findings.push(finding("good", "Every call has its result", Vec::new()));
    } else {
        findings.push(finding("bad", "Broken for a provider", some(&report.breaches)));
    }
    if !report.breaches_elsewhere.is_empty() {
        findings.push(finding("fair", "Not for every provider", some(&report.breaches_elsewhere)));
    }
    if session.records_off_branch > 0 {
        findings.push(finding("fair", &off_branch(session.records_off_branch), Vec::new()));
    }
    if session.skipped_lines > 0 {
        let verb = if session.skipped_lines == 1 { "is" } else { "are" };
        let line = format!("{} of the file {verb} invalid", quantity(session.skipped_lines, "line"));
        findings.push(finding("fair", &line, Vec::new()));
    }
    let compacted = session.compactions.iter().map(|compaction| {
        let tokens = |tokens: Option<u64>| tokens.map(|tokens| with_separators(Tokens::new(tokens)));
        let mut line = format!("at record {}", compaction.record);
        if let Some(trigger) = &compaction.trigger {
            let _ = write!(line, " ({})", visible(trigger));
        }
        if let Some(before) = tokens(compaction.pre_tokens) {
            let _ = write!(line, ": {before} tokens before");
        }
        if let Some(after) = tokens(compaction.post_tokens) {
            let _ = write!(line, ", {after} after");
        }
        line
    });
    let compacted: Vec<String> = compacted.collect();
    if !compacted.is_empty() {
        findings.push(finding("plain", "Compacted by its agent", some(&compacted)));
    }
    findings
}

fn chart_view(growth: &Growth) -> ChartView {
    const LINES: u64 = 4;
    let peak = growth.peak.as_u64().max(1);
    let n = growth.points.len();
    let y = |tokens: Tokens| CHART_HEIGHT - tokens.as_u64() as f64 * (CHART_HEIGHT - 8.0) / peak as f64;
    let step = WIDTH / n as f64;
    let x = |nth: usize| (nth as f64 + 0.5) * step;
    let mut line = String::new();
    for (nth, point) in growth.points.iter().enumerate() {
        let letter = if nth == 0 { 'M' } else { 'L' };
        let _ = write!(line, "{letter}{:.1} {:.1}", x(nth), y(point.tokens));
    }
    let area = format!("{line}L{:.1} {CHART_HEIGHT}L{:.1} {CHART_HEIGHT}Z", x(n - 1), x(0));
    let tick = |nth: u64| {
        let tokens = Tokens::new(peak * nth / LINES);
        Tick { y: format!("{:.1}", y(tokens)), label: in_thousands(tokens) }
    };
    let marks = growth.points.iter().enumerate().filter(|(_, point)| point.compactions > 0);
    let mark = |(nth, point): (usize, &super::growth::GrowthPoint)| Mark {
        x: format!("{:.1}", nth as f64 * step),
        label: format!("{} before call {}", quantity(point.compactions, "compaction"), point.call),
    };
    let column = |(nth, point): (usize, &super::growth::GrowthPoint)| Column {
        x: format!("{:.1}", nth as f64 * step),
        width: format!("{step:.2}"),
        cx: format!("{:.1}", x(nth)),
        cy: format!("{:.1}", y(point.tokens)),
        label: format!("call {}: {} tokens", point.call, with_separators(point.tokens)),
    };
    ChartView {
        source: growth_source(growth),
        width: WIDTH,
        height: CHART_HEIGHT,
        area,
        line,
        ticks: (1..=LINES).map(tick).collect(),
        marks: marks.map(mark).collect(),
        columns: growth.points.iter().enumerate().map(column).collect(),
        first: "call 1".to_owned(),
        last: format!("call {}", growth.calls),
    }
}

/// Returns a number of tokens in thousands, as an axis shows it.
fn in_thousands(tokens: Tokens) -> String {
    match tokens.as_u64() {
        small @ 0..1_000 => small.to_string(),
        tokens if tokens < 10_000 => format!("{:.1}k", tokens as f64 / 1_000.0),
        tokens if tokens < 1_000_000 => format!("{}k", tokens / 1_000),
        tokens => format!("{:.1}M", tokens as f64 / 1_000_000.0),
    }
}

/// Draws the messages in order, as wide as their tokens, in as many rows as keep them apart.
fn tape(report: &InspectReport, sizes: &MessageSizes) -> Tape {
    let total: u64 = sizes.iter().map(|size| size.tokens.as_u64()).sum();
    let rows = (sizes.len() / 24).clamp(1, 8);
    let unit = WIDTH * rows as f64 / total.max(1) as f64;
    let twice: HashSet<MessageId> = same_results(report)
        .flat_map(|duplicate| duplicate.ids.iter().rev().skip(1).flatten().copied())
        .collect();
    let mut pieces = Vec::new();
    let mut start = 0.0;
    let mut open: Option<Stretch<'_>> = None;
    for size in sizes.iter() {
        let end = start + size.tokens.as_u64() as f64 * unit;
        let is_twice = size.id.is_some_and(|id| twice.contains(&id));
        match &mut open {
            Some(stretch) if stretch.end - stretch.start < LEAST_WIDTH => stretch.add(size, end, is_twice),
            _ => {
                if let Some(done) = open.take() {
                    done.draw(&mut pieces);
                }
                open = Some(Stretch { start, end, largest: size, n: 1, tokens: size.tokens, is_twice });
            }
        }
        start = end;
    }
    if let Some(done) = open {
        done.draw(&mut pieces);
    }
    Tape { width: WIDTH, height: rows as f64 * (TAPE_ROW.0 + TAPE_ROW.1) - TAPE_ROW.1, pieces }
}

/// Messages that are drawn as one, since each is too small.
struct Stretch<'s> {
    start: f64,
    end: f64,
    largest: MessageSize<'s>,
    n: usize,
    tokens: Tokens,
    is_twice: bool,
}

impl<'s> Stretch<'s> {
    fn add(&mut self, size: MessageSize<'s>, end: f64, is_twice: bool) {
        if size.tokens > self.largest.tokens {
            self.largest = size;
            self.is_twice = is_twice;
        }
        self.end = end;
        self.n += 1;
        self.tokens += size.tokens;
    }

    /// Draws it: a rectangle in each row that it crosses.
    fn draw(&self, pieces: &mut Vec<Piece>) {
        const GAP: f64 = 0.6;
        let (mut at, label) = (self.start, self.label());
        while at < self.end - 0.01 {
            let row = (at / WIDTH + 1e-9).floor();
            let end = self.end.min((row + 1.0) * WIDTH);
            pieces.push(Piece {
                class: class_of(self.largest.role),
                twice: self.is_twice,
                x: format!("{:.2}", at - row * WIDTH),
                y: format!("{:.0}", row * (TAPE_ROW.0 + TAPE_ROW.1)),
                width: format!("{:.2}", (end - at - GAP).max(0.8)),
                height: TAPE_ROW.0,
                label: label.clone(),
            });
            at = end;
        }
    }

    fn label(&self) -> String {
        let MessageSize { id, role, tool, is_note, is_compacted, .. } = self.largest;
        let mut label = id.map(|id| format!("{id} ")).unwrap_or_default();
        label += role.as_str();
        if let Some(tool) = tool {
            let _ = write!(label, " {}", visible(tool));
        }
        if is_note {
            label += ", not written by the user";
        }
        if is_compacted {
            label += ", made by a compaction";
        }
        if self.n > 1 {
            let _ = write!(label, " and {}", quantity(self.n - 1, "smaller neighbour"));
        }
        if self.is_twice {
            label += ", there again later";
        }
        let _ = write!(label, ": {} tokens", with_separators(self.tokens));
        label
    }
}
