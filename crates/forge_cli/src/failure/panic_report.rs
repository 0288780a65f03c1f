//! The report of a bug to the user: a short message, never a backtrace over a drawn screen. The details go
//! into a file.

use std::backtrace::Backtrace;
use std::io::Write as _;
use std::panic::PanicHookInfo;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use console::style;

use crate::output::{self, beginning, visible};
use crate::{places, terminal};

/// The file of the details, in the user's state folder: those of the last panic.
const FILE: &str = "panic.log";
/// The most characters of a message that are shown.
const SHOWN: usize = 300;

/// Installs the report for panics.
pub(crate) fn report_panics() {
    std::panic::set_hook(Box::new(report));
}

fn report(info: &PanicHookInfo<'_>) {
    let payload = info.payload();
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    let thread = std::thread::current();
    // Other threads are those of tasks, whose failure is an error of what they were for.
    let is_end = thread.name().is_none_or(|name| name == "main");
    let thread = thread.name().unwrap_or("without a name");
    let backtrace = Backtrace::force_capture();
    let details = format!(
        "forge {} on {} {}, thread {thread}\n{text}\nat {place}\n{backtrace}\n",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
        std::env::consts::ARCH
    );
    let message = message(text, &place, is_end, keep(&output::hide_secrets(&details)));
    if is_end {
        // Below what was drawn; what had the terminal is never drawn again.
        let clear = if terminal::is_taken() { "\r\u{1b}[J" } else { "" };
        terminal::give_back();
        output::write_raw(&format!("{clear}{}\n", output::harmless(&message)));
    } else {
        output::say_from_anywhere(&message);
    }
}

/// Returns the message: what happened, and how to report it.
fn message(text: &str, place: &str, is_end: bool, details: Option<PathBuf>) -> String {
    let what =
        if is_end { "Forge failed (a bug)" } else { "a part of Forge failed (a bug); the rest continues" };
    let help = match details {
        Some(file) => {
            format!("please report this with the details in {}", visible(&file.display().to_string()))
        }
        None => "please report this with what you did before".to_owned(),
    };
    format!(
        "{} {what}: {} ({})\n  help: {help}",
        style("error:").red().bold().for_stderr(),
        visible(&beginning(text, SHOWN)),
        visible(place)
    )
}

/// Writes the details to a file that only its owner may read; `None` if that fails.
fn keep(details: &str) -> Option<PathBuf> {
    static IS_BEGUN: AtomicBool = AtomicBool::new(false);
    let path = places::state_file(FILE)?;
    places::make_private(&path).ok()?;
    let is_begun = IS_BEGUN.swap(true, Ordering::Relaxed);
    let mut file =
        std::fs::OpenOptions::new().append(is_begun).write(true).truncate(!is_begun).open(&path).ok()?;
    file.write_all(details.as_bytes()).ok()?;
    Some(path)
}
