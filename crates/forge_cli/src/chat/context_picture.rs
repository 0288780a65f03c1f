//! A picture of what fills the window: a bar with a cell for each share of it, the share of each kind of
//! message, and the mark at which it is compacted.

use console::{Color, Style, measure_text_width};
use forge_app::{LiveContext, NextCall, ToolShare};
use forge_domain::{Role, Tokens, quantity};

use super::spans::Paint;
use crate::output::line_wrap::cut;
use crate::output::{visible, with_separators};

/// The most cells of the bar.
const WIDEST: usize = 72;
/// The most tools and large messages that are listed.
const LISTED: usize = 5;

/// A share of the window.
struct Share {
    name: &'static str,
    tokens: Tokens,
    /// Its letter on terminals without colours.
    letter: char,
    look: Look,
}

/// The look of a share on terminals with colours.
#[derive(Clone, Copy)]
enum Look {
    Full(Color),
    Reserve,
    Free,
}

impl Share {
    fn draw(&self, n: usize, paint: Paint) -> String {
        if paint == Paint::Bare {
            return self.letter.to_string().repeat(n);
        }
        let style = Style::new().force_styling(true);
        match self.look {
            Look::Full(color) => style.fg(color).apply_to("█".repeat(n)).to_string(),
            Look::Reserve => style.dim().apply_to("▒".repeat(n)).to_string(),
            Look::Free => style.dim().apply_to("░".repeat(n)).to_string(),
        }
    }
}

/// Returns the picture in lines of at most `columns`. `parts` are those of the system message that come from
/// the folder.
pub(super) fn context_picture(
    context: &LiveContext,
    parts: &[(String, Tokens)],
    columns: usize,
    paint: Paint,
) -> Vec<String> {
    let width = columns.saturating_sub(4).clamp(10, WIDEST);
    let shares = shares(context);
    let quiet = |text: String| match paint {
        Paint::Bare => text,
        Paint::Colours => Style::new().force_styling(true).dim().apply_to(text).to_string(),
    };
    let used = context.made_of.tokens;
    let title = format!(
        "{} · {} · {} of {} tokens ({} %)",
        visible(context.agent.as_str()),
        visible(&context.model.to_string()),
        with_separators(used),
        with_separators(context.window),
        percent(used, context.window),
    );
    let mut lines = vec![cut(&title, columns.saturating_sub(1))];
    let cells = cells(&shares.iter().map(|share| share.tokens).collect::<Vec<_>>(), context.window, width);
    let bar: String = shares.iter().zip(&cells).map(|(share, n)| share.draw(*n, paint)).collect();
    lines.push(format!("  {bar}"));
    lines.push(format!("  {}", quiet(mark(context, width))));
    for share in &shares {
        let line = format!(
            "{:<14} {:>10} {:>4} %",
            share.name,
            with_separators(share.tokens),
            percent(share.tokens, context.window)
        );
        lines.push(format!("  {} {line}", share.draw(1, paint)));
        let details = match share.name {
            SYSTEM => folder_lines(parts, columns.saturating_sub(5)),
            TOOL_RESULTS => tools(&context.made_of.by_tool),
            _ => Vec::new(),
        };
        let details = details.into_iter().map(|line| quiet(cut(&line, columns.saturating_sub(5))));
        lines.extend(details.map(|line| format!("    {line}")));
    }
    lines.extend(
        largest(context)
            .into_iter()
            .map(|line| format!("  {}", quiet(cut(&line, columns.saturating_sub(3))))),
    );
    let last = [layers(context.compactions), next_call(context.next)];
    lines.extend(last.map(|line| format!("  {}", cut(&line, columns.saturating_sub(3)))));
    lines
}

const SYSTEM: &str = "system";
const TOOL_RESULTS: &str = "tool results";

/// Returns the parts that come from the folder, each with its tokens, in lines of at most `width`.
fn folder_lines(parts: &[(String, Tokens)], width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for (name, tokens) in parts {
        let part = format!("{} {}", visible(name), with_separators(*tokens));
        match lines.last_mut() {
            Some(line) if measure_text_width(line) + 3 + measure_text_width(&part) <= width => {
                line.push_str(" · ");
                line.push_str(&part);
            }
            _ => lines.push(part),
        }
    }
    lines
}

fn shares(context: &LiveContext) -> Vec<Share> {
    let of = |role: Role| -> Tokens {
        context.made_of.by_role.iter().filter(|share| share.role == role).map(|share| share.tokens).sum()
    };
    let share = |name, tokens, letter, look| Share { name, tokens, letter, look };
    vec![
        share(SYSTEM, of(Role::System), 's', Look::Full(Color::Blue)),
        share("tool schemas", context.made_of.tools_tokens, 'd', Look::Full(Color::Magenta)),
        share("user", of(Role::User), 'u', Look::Full(Color::Green)),
        share("assistant", of(Role::Assistant), 'a', Look::Full(Color::Cyan)),
        share(TOOL_RESULTS, of(Role::Tool), 't', Look::Full(Color::Yellow)),
        share("free", context.free(), '.', Look::Free),
        share("for the answer", context.reserve, '-', Look::Reserve),
    ]
}

/// Returns the number of the `width` cells for each share; their sum is at most `width`.
fn cells(shares: &[Tokens], window: Tokens, width: usize) -> Vec<usize> {
    let whole = window.as_u64().max(1);
    let (mut sum, mut drawn) = (0_u64, 0_usize);
    shares
        .iter()
        .map(|tokens| {
            sum += tokens.as_u64();
            let end = place(sum, whole, width);
            let n = end.saturating_sub(drawn);
            drawn += n;
            n
        })
        .collect()
}

fn place(tokens: u64, whole: u64, width: usize) -> usize {
    ((tokens as u128 * width as u128 + whole as u128 / 2) / whole as u128).min(width as u128) as usize
}

/// Returns the mark below the bar where messages are compacted.
fn mark(context: &LiveContext, width: usize) -> String {
    let trigger = context.trigger + context.made_of.tools_tokens;
    let at = place(trigger.as_u64(), context.window.as_u64().max(1), width).min(width.saturating_sub(1));
    let words = format!("compacts over {}", with_separators(trigger));
    let n = measure_text_width(&words) + 1;
    if at >= n {
        format!("{}{words} ▲", " ".repeat(at - n))
    } else {
        format!("{}▲ {words}", " ".repeat(at))
    }
}

fn tools(shares: &[ToolShare]) -> Vec<String> {
    let tokens = |tool: &ToolShare| tool.argument_tokens + tool.result_tokens;
    let line = |tool: &ToolShare| {
        let calls = quantity(tool.calls, "call");
        format!("{:<13} {:>11} · {calls}", visible(&tool.tool), with_separators(tokens(tool)))
    };
    let mut lines: Vec<String> = shares.iter().take(LISTED).map(line).collect();
    if shares.len() > LISTED {
        lines.push(format!("and {} more", shares.len() - LISTED));
    }
    lines
}

fn largest(context: &LiveContext) -> Vec<String> {
    let items = context.made_of.largest.iter().take(LISTED);
    let items = items.filter(|item| item.tokens.share(20, 1) >= context.made_of.tokens);
    let lines: Vec<String> = items
        .map(|item| {
            let who = item.tool.as_deref().unwrap_or(item.role.as_str());
            format!(
                "{:>5} {:>8} {} {}",
                item.id,
                with_separators(item.tokens),
                visible(who),
                visible(&item.first_line)
            )
        })
        .collect();
    if lines.is_empty() { lines } else { std::iter::once("largest".to_owned()).chain(lines).collect() }
}

fn layers(n: usize) -> String {
    match n {
        0 => "nothing is compacted".to_owned(),
        1 => "1 compaction applies; /undo reverts it".to_owned(),
        n => format!("{n} compactions apply; /undo reverts the last one"),
    }
}

/// Describes what the next call does.
pub(super) fn next_call(next: NextCall) -> String {
    match next {
        NextCall::AsItIs => "the next call sends it as it is".to_owned(),
        NextCall::Compacts(trigger) => format!("the next call compacts first ({trigger})"),
        NextCall::CannotFit => "it does not fit: /compact, or /model with a larger window".to_owned(),
    }
}

fn percent(part: Tokens, whole: Tokens) -> u64 {
    (part.as_u64() * 100).div_ceil(whole.as_u64().max(1))
}

#[cfg(test)]
mod tests {
    use forge_app::{GroupCounts, InspectReport, LargeItem, RoleShare};
    use forge_domain::compaction::Trigger;
    use forge_domain::{AgentId, ModelId, ModelRef, ProviderId};
    use pretty_assertions::assert_eq;

    use super::*;

    fn context(window: u64) -> LiveContext {
        let share = |role, messages, tokens| RoleShare { role, messages, tokens: Tokens::new(tokens) };
        let tool = |name: &str, calls, tokens| ToolShare {
            tool: name.to_owned(),
            calls,
            result_tokens: Tokens::new(tokens),
            ..ToolShare::default()
        };
        LiveContext {
            agent: AgentId::new("researcher").unwrap(),
            model: ModelRef { provider: ProviderId::new("p").unwrap(), model: ModelId::new("m").unwrap() },
            window: Tokens::new(window),
            reserve: Tokens::new(1_000),
            room: Tokens::new(window - 1_500),
            trigger: Tokens::new(window * 7 / 10),
            target: Tokens::new(window * 2 / 5),
            compactions: 1,
            made_of: InspectReport {
                messages: 7,
                turns: 1,
                notes: 0,
                groups: GroupCounts::default(),
                tokens: Tokens::new(4_000),
                tools_tokens: Tokens::new(500),
                by_role: vec![
                    share(Role::System, 1, 500),
                    share(Role::User, 1, 400),
                    share(Role::Assistant, 2, 600),
                    share(Role::Tool, 3, 1_997),
                ],
                by_tool: vec![tool("read", 2, 1_900), tool("sh\u{1b}ell", 1, 97)],
                largest: vec![LargeItem {
                    id: "m3".to_owned(),
                    role: Role::Tool,
                    tool: Some("read".to_owned()),
                    tokens: Tokens::new(1_500),
                    first_line: "the dome\u{1b}[2J was closed on".to_owned(),
                }],
                duplicates: Vec::new(),
                breaches: Vec::new(),
                breaches_elsewhere: Vec::new(),
            },
            next: NextCall::Compacts(Trigger::Tokens),
        }
    }

    #[test]
    fn a_context_is_drawn() {
        let parts = [("AGENTS.md", 312), ("src/AGENTS.md", 1_020), ("skills", 96), ("a/b/c/CLAUDE.md", 7)];
        let parts = parts.map(|(name, tokens)| (name.to_owned(), Tokens::new(tokens)));
        let actual = context_picture(&context(10_000), &parts, 60, Paint::Bare);
        let expected = [
            "researcher · p:m · 4,000 of 10,000 tokens (40 %)",
            "  sssddduuaaattttttttttt............................------",
            "                        compacts over 7,500 ▲",
            "  s system                500    5 %",
            "    AGENTS.md 312 · src/AGENTS.md 1,020 · skills 96",
            "    a/b/c/CLAUDE.md 7",
            "  d tool schemas          500    5 %",
            "  u user                  400    4 %",
            "  a assistant             600    6 %",
            "  t tool results        1,997   20 %",
            "    read                1,900 · 2 calls",
            "    sh\\u{1b}ell            97 · 1 call",
            "  . free                5,000   50 %",
            "  - for the answer      1,000   10 %",
            "  largest",
            "     m3    1,500 read the dome\\u{1b}[2J was closed on",
            "  1 compaction applies; /undo reverts it",
            "  the next call compacts first (over token_threshold)",
        ];
        assert_eq!(actual, expected);
    }

    #[test]
    fn cells_are_never_more_than_there_is_room() {
        let tokens = |all: &[u64]| all.iter().copied().map(Tokens::new).collect::<Vec<_>>();
        for (shares, window, width, expected) in [
            (&[50, 50][..], 100, 10, &[5, 5][..]),
            (&[1, 1, 98], 100, 10, &[0, 0, 10]),
            (&[300, 5], 100, 10, &[10, 0]),
            (&[0, 0], 0, 10, &[0, 0]),
            (&[6, 6, 88], 100, 10, &[1, 0, 9]),
        ] {
            assert_eq!(cells(&tokens(shares), Tokens::new(window), width), expected, "{shares:?}");
        }
    }

    #[test]
    fn with_colours_it_has_the_same_words() {
        for columns in [20, 60, 200] {
            let bare = context_picture(&context(10_000), &[], columns, Paint::Bare);
            let coloured = context_picture(&context(10_000), &[], columns, Paint::Colours);
            assert_eq!(bare.len(), coloured.len());
            for (bare, coloured) in bare.iter().zip(&coloured) {
                let n = measure_text_width(&console::strip_ansi_codes(coloured));
                assert_eq!(n, measure_text_width(bare), "{coloured}");
            }
        }
    }
}
