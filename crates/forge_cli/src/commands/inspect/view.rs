//! The display of an inspected session.

use console::style;
use forge_app::{DuplicateKind, InspectReport};
use forge_domain::{Role, Tokens, quantity};
use forge_transcript::Attachments;

use super::InspectedSession;
use super::growth::{Growth, GrowthSource, chart};
use super::spending::Spending;
use crate::output::{self, visible, with_separators};

/// The most duplicates and rule violations that are shown.
const SHOWN: usize = 10;

/// Prints a session: its size, what it consists of, and what is unusual about it.
pub(super) fn print(session: &InspectedSession) {
    let report = &session.report;
    let title = style(visible(&session.id)).bold();
    output::line!(
        "{title} · {} tokens · {} · {}",
        with_separators(report.tokens),
        quantity(report.messages, "message"),
        quantity(report.turns, "turn")
    );
    let groups = report.groups;
    output::line!(
        "  {}: {}, {}, {} user, {} system, {}",
        quantity(groups.all, "group"),
        quantity(groups.exchanges, "exchange"),
        quantity(groups.assistant, "answer"),
        groups.user,
        groups.system,
        quantity(groups.orphans, "orphaned result")
    );
    if let Some(spending) = &session.spending {
        output::line!("  {}", spending_line(spending));
    }
    if let Some(growth) = session.growth.as_ref().filter(|growth| growth.calls > 1) {
        print_growth(growth);
    }
    print_shares(report);
    output::line!("  {}", style("largest").bold());
    for item in &report.largest {
        let who = visible(item.tool.as_deref().unwrap_or(item.role.as_str()));
        output::line!(
            "    {:>6} {} {:<12} {}",
            item.id,
            amount(item.tokens, report.tokens),
            who,
            visible(&item.first_line)
        );
    }
    print_attachments(&session.attachments);
    print_duplicates(report);
    print_findings(session);
}

/// Returns the consumption of the session's calls in a line.
pub(super) fn spending_line(spending: &Spending) -> String {
    let usage = spending.usage;
    let cached = match usage.cached_tokens {
        Tokens::ZERO => String::new(),
        cached => format!(" ({} from the cache)", with_separators(cached)),
    };
    let asides = match spending.asides {
        0 => String::new(),
        n => format!(", {n} of sub-agents"),
    };
    let estimate = if spending.is_estimate { " at list prices" } else { "" };
    format!(
        "{}{asides}: {} prompt tokens{cached}, {} in replies · {}{estimate}",
        quantity(spending.calls, "recorded call"),
        with_separators(usage.prompt_tokens),
        with_separators(usage.completion_tokens),
        spending.cost
    )
}

/// Returns the origin of the figures of a growth, in words.
pub(super) const fn growth_source(growth: &Growth) -> &'static str {
    match growth.source {
        GrowthSource::Recorded => "as recorded",
        GrowthSource::Counted => "counted, from the first message in the window",
    }
}

/// Prints the tokens of the prompt of each call as a chart of columns.
fn print_growth(growth: &Growth) {
    const HEIGHT: usize = 6;
    const MARGIN: usize = 16;
    const WIDTH: std::ops::RangeInclusive<usize> = 20..=64;
    let columns = output::stdout_columns().unwrap_or(80).saturating_sub(MARGIN);
    let width = columns.clamp(*WIDTH.start(), *WIDTH.end());
    let (title, source) = (style("prompt of each call").bold(), growth_source(growth));
    output::line!(
        "  {title} ({source}; {} calls, the last has {})",
        growth.calls,
        with_separators(growth.last)
    );
    for (row, line) in chart(growth, width, HEIGHT).iter().enumerate() {
        let label = match row {
            0 => with_separators(growth.peak),
            row if row == HEIGHT / 2 => with_separators(Tokens::new(growth.peak.as_u64() / 2)),
            HEIGHT => "compacted".to_owned(),
            _ => String::new(),
        };
        output::line!("    {label:>9} {}", style(line).green());
    }
}

fn print_shares(report: &InspectReport) {
    output::line!("  {}", style("by role").bold());
    for share in &report.by_role {
        let mut count = quantity(share.messages, "message");
        if share.role == Role::User && report.notes > 0 {
            count += &format!(", {} not written by the user", report.notes);
        }
        output::line!("    {} {:<10} {count}", amount(share.tokens, report.tokens), share.role.as_str());
    }
    if report.tools_tokens > Tokens::ZERO {
        output::line!("    {} tool schemas", amount(report.tools_tokens, report.tokens));
    }
    if !report.by_tool.is_empty() {
        output::line!("  {}", style("by tool").bold());
    }
    for tool in &report.by_tool {
        let tokens = tool.argument_tokens + tool.result_tokens;
        output::line!(
            "    {} {} · {} · {}",
            amount(tokens, report.tokens),
            visible(&tool.tool),
            quantity(tool.calls, "call"),
            quantity(tool.results, "result")
        );
    }
}

fn print_attachments(attachments: &[Attachments]) {
    if attachments.is_empty() {
        return;
    }
    output::line!("  {}", style("added by the agent itself").bold());
    for kind in attachments {
        output::line!(
            "    {:>9} bytes {} · {} · {} in the context",
            with_separators(Tokens::new(kind.bytes as u64)),
            visible(&kind.kind),
            quantity(kind.records, "attachment"),
            kind.in_context
        );
    }
}

fn print_duplicates(report: &InspectReport) {
    if report.duplicates.is_empty() {
        return;
    }
    output::line!("  {}", style("more than once").bold());
    for duplicate in report.duplicates.iter().take(SHOWN) {
        let what = match duplicate.kind {
            DuplicateKind::SameResult => "same result",
            DuplicateKind::SameCall => "same call",
        };
        let times = duplicate.ids.len();
        output::line!(
            "    {:>9} {what} {times}× {} {}",
            with_separators(duplicate.tokens),
            visible(&duplicate.tool),
            visible(&duplicate.what)
        );
    }
    print_rest(report.duplicates.len());
}

fn print_findings(session: &InspectedSession) {
    let breaches = &session.report.breaches;
    if breaches.is_empty() {
        output::line!("  {}", style("every call has its result").green());
    } else {
        output::line!("  {}", style("broken").red().bold());
    }
    print_some(breaches);
    let elsewhere = &session.report.breaches_elsewhere;
    if !elsewhere.is_empty() {
        output::line!("  {}", style("not for every provider").bold());
    }
    print_some(elsewhere);
    for compaction in &session.compactions {
        let tokens = |tokens: Option<u64>| {
            tokens.map_or("?".to_owned(), |tokens| with_separators(Tokens::new(tokens)))
        };
        let trigger = visible(compaction.trigger.as_deref().unwrap_or("?"));
        output::line!(
            "  compacted at record {} ({trigger}): {} tokens before",
            compaction.record,
            tokens(compaction.pre_tokens)
        );
    }
    if session.records_off_branch > 0 {
        output::line!("  {}", off_branch(session.records_off_branch));
    }
    if session.skipped_lines > 0 {
        let verb = if session.skipped_lines == 1 { "is" } else { "are" };
        output::line!("  {} of the file {verb} invalid", quantity(session.skipped_lines, "line"));
    }
}

/// Says how many records are on other branches of the file.
pub(super) fn off_branch(records: usize) -> String {
    let verb = if records == 1 { "is" } else { "are" };
    format!(
        "{} {verb} on other branches of the file: rewound, or another session",
        quantity(records, "record")
    )
}

fn print_some(breaches: &[String]) {
    for breach in breaches.iter().take(SHOWN) {
        output::line!("    {}", visible(breach));
    }
    print_rest(breaches.len());
}

fn print_rest(n: usize) {
    if n > SHOWN {
        output::line!("    and {} more", n - SHOWN);
    }
}

/// Returns a bar and a number for a part of the whole.
fn amount(part: Tokens, whole: Tokens) -> String {
    const WIDTH: u64 = 20;
    let full = (part.as_u64() * WIDTH).div_ceil(whole.as_u64().max(1)).min(WIDTH) as usize;
    let (bar, rest) = (style("█".repeat(full)).green(), style("░".repeat(WIDTH as usize - full)).dim());
    format!("{bar}{rest} {:>9}", with_separators(part))
}
