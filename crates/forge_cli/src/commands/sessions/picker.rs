//! The choice of a session at a terminal.

use std::process::ExitCode;

use console::style;

use super::{Listing, list, view};
use crate::output::table::{Side, table};
use crate::output::{self, visible};
use crate::run::shell_quote;
use crate::sessions::{ListedSession, Sessions, agent_name};
use crate::terminal::person::read_answer;

/// The most sessions that are offered.
const MOST_OFFERED: usize = 30;

/// Shows the list, and for a session that the user picks the commands for it.
pub(super) fn run(listing: &Listing) -> anyhow::Result<ExitCode> {
    let Some(picked) = choose(listing)? else { return Ok(ExitCode::SUCCESS) };
    let name = shell_quote(&picked.name);
    let title = picked.title.as_deref().unwrap_or("without a title");
    output::line!("{}: {}", style(agent_name(picked.agent)).bold(), visible(title));
    output::line!("  {}", visible(&picked.path.display().to_string()));
    output::line!("  forge inspect {name}");
    if matches!(picked.agent, "claude" | "codex" | "pi" | "openclaw") {
        output::line!("  forge compact {name} --in-place");
    } else {
        output::line!("  forge compact {name} -o small.json --to openai");
    }
    output::line!("  forge continue {name}");
    Ok(ExitCode::SUCCESS)
}

/// Lets the user pick one of the newest sessions on this machine; `None` if none was picked.
pub(crate) fn pick(sessions: &Sessions) -> anyhow::Result<Option<ListedSession>> {
    choose(&list(sessions, None, MOST_OFFERED))
}

/// Shows the sessions with numbers, and returns the one that the user picks. Other text narrows the list.
fn choose(listing: &Listing) -> anyhow::Result<Option<ListedSession>> {
    let mut shown: Vec<&ListedSession> = listing.shown.iter().collect();
    loop {
        output::print(&number_lines(&shown))?;
        if let Some(rest) = view::rest(listing).filter(|_| shown.len() == listing.shown.len()) {
            output::line!("{rest}");
        }
        let answer = read_answer("[number] pick  [text] narrow the list  [Enter] end > ")?;
        // Q and Esc are how people leave other lists.
        let is_end = |answer: &String| matches!(answer.as_str(), "" | "q" | "\u{1b}");
        let Some(answer) = answer.filter(|answer| !is_end(answer)) else { return Ok(None) };
        let number = answer.parse::<usize>().ok().filter(|number| (1..=shown.len()).contains(number));
        if let Some(number) = number {
            return Ok(Some(shown[number - 1].clone()));
        }
        let matching: Vec<_> = listing.shown.iter().filter(|session| has_text(session, &answer)).collect();
        match matching.as_slice() {
            [] => output::say(&format!("nothing matches `{}`", visible(&answer))),
            _ => shown = matching,
        }
    }
}

/// Checks whether a session has the text in what is shown of it, in any case of letters.
fn has_text(session: &ListedSession, text: &str) -> bool {
    let text = text.to_lowercase();
    let parts = [Some(session.name.as_str()), session.title.as_deref(), session.folder.as_deref()];
    parts.into_iter().flatten().any(|part| part.to_lowercase().contains(&text))
}

fn number_lines(shown: &[&ListedSession]) -> String {
    let listed: Vec<ListedSession> = shown.iter().map(|session| (*session).clone()).collect();
    let columns = output::stdout_columns().unwrap_or(80);
    let number = listed.len().to_string().len() + 2;
    let rows = view::rows(&listed, columns.saturating_sub(number), jiff::Timestamp::now());
    let rows = rows.into_iter().enumerate().map(|(at, mut row)| {
        row.insert(0, (at + 1).to_string());
        row
    });
    let columns: Vec<(&str, Side)> = [("", Side::Right)].into_iter().chain(view::COLUMNS).collect();
    table(&columns, rows.collect())
}
