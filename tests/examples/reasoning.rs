//! Runs of 1,000 iterations against servers that bind thinking, with 100 compactions, undo, other models, other tools and
//! resuming, in three protocols: nothing is refused, nothing that is still valid is missing, and the cache keeps what it has
//! without thinking.
//!
//! `cargo run --release -p forge_tests --example reasoning`
#![allow(clippy::print_stdout, reason = "its output is what it is for")]
#![allow(clippy::unwrap_used, reason = "a panic is how it fails")]

use std::process::ExitCode;

use forge_domain::ProviderKind;
use forge_tests::binding::{Behaviour, Thoughts};
use forge_tests::binding_run::{BindingRun, Bound};

fn main() -> ExitCode {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut failed = false;
    for kind in [ProviderKind::Anthropic, ProviderKind::Responses, ProviderKind::Gemini] {
        let run = |thoughts| {
            let behaviour = Behaviour { kind, thoughts, per_turn: 5 };
            let run = BindingRun { iterations: 1_000, window: 8_000, words: 240, behaviour };
            runtime.block_on(run.run())
        };
        println!("{kind:?}");
        failed |= !report(&run(Thoughts::Bound), &run(Thoughts::AsText), &run(Thoughts::None));
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Prints the figures of a run beside those of runs without thoughts, and returns whether all that must hold does.
fn report(bound: &Bound, as_text: &Bound, without: &Bound) -> bool {
    let books = &bound.books;
    println!(
        "  {} requests, {} compactions, {} undone, {} switches of the model, {} of the tools, {} resumes",
        books.requests, bound.compactions, bound.undone, bound.switches, bound.lists, bound.resumes
    );
    println!(
        "  {} refused, {} thoughts kept, {} messages without thoughts of another view, {} valid ones missing, {} unreadable",
        books.refusals.len(),
        books.kept,
        books.stripped,
        books.missed,
        books.unreadable
    );
    for refusal in books.refusals.iter().take(3) {
        println!("  REFUSED: {refusal}");
    }
    let (with, alone) = (books.content.of_all(), books.content_alone.of_all());
    println!(
        "  share of the prompt before, of all that is no thinking: {with:.4}; if no thinking were sent: {alone:.4} ({} changes)",
        books.changes
    );
    let share = |name: &str, bound: &Bound| {
        println!(
            "  share of the prompt before, of all bytes, {name}: {:.4} ({} changes, {} compactions)",
            bound.books.sent.of_all(),
            bound.books.changes,
            bound.compactions
        );
    };
    share("with thoughts", bound);
    share("with as much text instead", as_text);
    share("with shorter replies", without);
    let faults = [
        !books.refusals.is_empty(),
        books.missed + books.unreadable > 0,
        bound.stale > 0,
        bound.compactions < 100,
        with < alone,
    ];
    !faults.contains(&true)
}
