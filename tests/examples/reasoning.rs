//! A run of 1,000 iterations against a server that binds thinking, with 100 compactions, undo, other models, other tools and
//! resuming: no block is refused, none that is still valid is missing, and the cache keeps what it has without thinking.
//!
//! `cargo run --release -p forge_tests --example reasoning`
#![allow(clippy::print_stdout, reason = "its output is what it is for")]
#![allow(clippy::unwrap_used, reason = "a panic is how it fails")]

use std::process::ExitCode;

use forge_tests::binding::Behaviour;
use forge_tests::binding_run::BindingRun;

fn main() -> ExitCode {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let run = |thinks| {
        let behaviour = Behaviour { thinks, per_turn: 5 };
        let run = BindingRun { iterations: 1_000, window: 8_000, words: 240, behaviour };
        runtime.block_on(run.run())
    };
    let (bound, plain) = (run(true), run(false));
    let books = &bound.books;
    println!(
        "{} requests, {} compactions, {} undone, {} switches of the model, {} of the tools, {} resumes",
        books.requests, bound.compactions, bound.undone, bound.switches, bound.lists, bound.resumes
    );
    println!(
        "{} refused, {} blocks kept, {} messages without thinking of another view, {} valid blocks missing, {} unreadable",
        books.refusals.len(),
        books.kept,
        books.stripped,
        books.missed,
        books.unreadable
    );
    let (with, without) = (books.content.of_all(), books.content_alone.of_all());
    println!(
        "of the content, {with:.4} is the prompt before; if no thinking were sent, {without:.4} ({} changes of the prefix)",
        books.changes
    );
    println!(
        "of all bytes, {:.4} are the prompt before; in a run of its own without thinking, {:.4} ({} changes, {} compactions)",
        books.sent.of_all(),
        plain.books.sent.of_all(),
        plain.books.changes,
        plain.compactions
    );
    let faults = [
        !books.refusals.is_empty(),
        books.missed + books.unreadable > 0,
        bound.stale > 0,
        bound.compactions < 100,
        with < without,
    ];
    if faults.contains(&true) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
