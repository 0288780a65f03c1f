//! The checkpoints of `forge run`: their store, the report of a resumed run, and the report at the end.

use std::sync::Arc;

use console::style;
use forge_app::{
    CheckpointTally, Checkpointing, CheckpointsError, Orchestrator, Restored, ResumeError, RunError,
};
use forge_domain::{Clock, Lease, Mode, RunId, StoreError, StoreSetting, Workflow, quantity};
use forge_infra::{OpeningCheckpointStore, ProcessHolder, StoreUrl, SystemClock};

use super::slice_terms::SliceTerms;
use crate::arguments::{RunFlags, SetupFlags};
use crate::failure::{Help, Misconfigured};
use crate::output;
use crate::setup::{BUILT_IN_AGENT, store};

/// Sets up the checkpoints of a new run in the working folder; `None` if they are off. `slice` has the terms
/// of a run that is driven in slices.
pub(crate) fn checkpointing(
    workflow: &Workflow,
    slice: Option<&SliceTerms>,
) -> anyhow::Result<Option<Arc<Checkpointing>>> {
    let policy = workflow.checkpoint.clone();
    let url = match (store::configured_store(policy.store.as_ref()), &policy.store) {
        (Ok(Some(url)), _) => url,
        (Ok(None), _) => return Ok(None),
        // No store was named: the run is worth more than its checkpoints.
        (Err(error), None) => {
            output::note(&format!("nothing is saved: {error}"));
            return Ok(None);
        }
        (Err(error), Some(_)) => return Err(error),
    };
    let clock = Arc::new(SystemClock);
    let run = match slice.and_then(|slice| slice.run.clone()) {
        Some(run) => run,
        None => new_run(&*clock)?,
    };
    let lease = is_shared(&url).then(Lease::default);
    let checkpointing = Checkpointing::new(Arc::new(OpeningCheckpointStore::new(url)), clock, run)
        .with_policy(policy)
        .held_by(Arc::new(ProcessHolder::this()));
    // The folder of a slice is that of the machine that happens to run it.
    if let Some(SliceTerms { lease, keeper, .. }) = slice {
        let checkpointing = checkpointing.with_lease(*lease).strict();
        return Ok(Some(Arc::new(match keeper {
            Some(keeper) => checkpointing.with_files(Arc::clone(keeper)),
            None => checkpointing,
        })));
    }
    let checkpointing = match std::env::current_dir() {
        Ok(folder) => checkpointing.in_folder(folder.display().to_string()),
        Err(_) => checkpointing,
    };
    Ok(Some(match lease {
        Some(lease) => {
            let checkpointing = Arc::new(checkpointing.with_lease(lease));
            keep_lease(&checkpointing, lease)?;
            checkpointing
        }
        None => Arc::new(checkpointing),
    }))
}

/// Checks whether processes of other machines may use the store, whose end cannot be known here.
fn is_shared(url: &StoreUrl) -> bool {
    !matches!(url, StoreUrl::Memory | StoreUrl::Sqlite(_))
}

/// Renews the lease as long as the checkpoints are used, on a thread of its own: a run whose runtime is busy,
/// or not there yet, keeps it all the same.
fn keep_lease(checkpointing: &Arc<Checkpointing>, lease: Lease) -> anyhow::Result<()> {
    let kept = Arc::downgrade(checkpointing);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let renew = async move {
        loop {
            tokio::time::sleep(lease.renewal()).await;
            let Some(checkpointing) = kept.upgrade() else { return };
            checkpointing.renew().await;
        }
    };
    std::thread::Builder::new().name("forge-lease".to_owned()).spawn(move || runtime.block_on(renew))?;
    Ok(())
}

/// Returns a name that no other run has: the time, and a word that distinguishes runs of the same second.
pub(crate) fn new_run(clock: &dyn Clock) -> anyhow::Result<RunId> {
    let now = clock.now();
    let time = now.strftime("%Y%m%d-%H%M%S");
    let apart = u64::from(now.subsec_nanosecond().unsigned_abs()) << 22 | u64::from(std::process::id());
    Ok(RunId::new(format!("{time}-{}", word(apart)))?)
}

/// Returns four letters for a number.
fn word(number: u64) -> String {
    const LETTERS: &[u8; 20] = b"bcdfghjkmnpqrstvwxyz";
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..4).map(|at| char::from(LETTERS[(mixed >> (16 + at * 8)) as usize % LETTERS.len()])).collect()
}

/// Releases the run; if it `was_interrupted`, or the last save failed, unsaved work is saved first.
pub(crate) async fn hand_back(orchestrator: &mut Orchestrator, was_interrupted: bool) {
    let is_unsaved =
        !orchestrator.is_fenced() && orchestrator.checkpoints().is_some_and(|tally| tally.unsaved.is_some());
    if is_unsaved {
        output::note("the last state is not saved: trying once more (Ctrl-C skips this)");
    }
    if was_interrupted || is_unsaved {
        orchestrator.save_interrupted().await;
    }
    orchestrator.close().await;
}

/// Returns the flags, each after a blank, that a resumed run needs to stay the same, with its permissions and
/// limits. `--trust` is not among them: the user gives it again.
pub(crate) fn flags(flags: &RunFlags, store: Option<&StoreSetting>) -> String {
    let RunFlags { setup, budget, agent: _, images: _, record: _, report: _ } = flags;
    let SetupFlags { source, sandbox, consent } = setup;
    let config = source.config().map(|path| path.display().to_string());
    let named = [
        ("--config", config),
        ("--model", source.model.clone()),
        ("--effort", source.effort.map(|effort| effort.to_string())),
        ("--provider", source.provider.clone()),
        ("--store", store.map(ToString::to_string)),
        ("--sandbox", sandbox.map(|mode| mode.word().to_owned())),
    ];
    let given = named.into_iter().filter_map(|(flag, value)| Some([flag.to_owned(), value?])).flatten();
    let mut consent = consent.clone();
    consent.mode = consent.mode.filter(|mode| *mode != Mode::default());
    let words = given.chain(consent.words()).chain(budget.words());
    words.map(|word| format!(" {}", shell_quote(&word))).collect()
}

/// Quotes the word for a shell.
pub(crate) fn shell_quote(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+,=".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Adds how to proceed to an error about a resumed run without a model.
pub(crate) fn explain_missing_model(error: &anyhow::Error) -> anyhow::Error {
    let again =
        "a run that was started with --model is resumed with it: forge run --resume --model PROVIDER:MODEL";
    Misconfigured(format!("{error}\n{again}")).into()
}

/// Prints the state from which a run resumes.
pub(crate) fn say_restored(restored: &Restored, without_task: bool) {
    let Restored { run, from, is_fork, is_over, .. } = restored;
    let verb = if *is_fork { format!("run {run} starts from") } else { format!("run {run} continues from") };
    let mark = style("resumed:").cyan().for_stderr();
    let messages = quantity(from.message_count, "message");
    output::say(&format!("{mark} {verb} {} ({}), {messages}", from.id, from.key));
    if *is_over && without_task {
        output::note(&format!(
            "it had ended, with the answer that follows; to continue it, run forge run --resume {run} \"TASK\""
        ));
    }
}

/// Prints at the end of a run how to resume it.
pub(crate) fn sum_up(tally: Option<&CheckpointTally>) {
    let Some(tally) = tally else { return };
    if tally.saved > 0 && !tally.is_taken_over {
        let is_whole = tally.unsaved.is_none();
        let lead = if is_whole { "saved as run" } else { "run" };
        let line = format!("{lead} {} · {}", tally.run, quantity(tally.saved, "checkpoint"));
        output::say(&style(line).dim().for_stderr().to_string());
    }
    say_unsaved(tally);
}

/// Prints after an interruption or a failure how to continue.
pub(crate) fn say_how_to_resume(tally: Option<&CheckpointTally>, flags: &str) {
    let Some(tally) = tally else { return };
    say_unsaved(tally);
    if tally.is_resumable() {
        output::say_to_copy(&format!("to continue: forge run --resume {}{flags}", tally.run));
    }
}

/// Checks whether the run ended because another process took it over.
pub(crate) fn is_fenced(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| matches!(cause.downcast_ref(), Some(RunError::Fenced { .. })))
}

fn say_unsaved(tally: &CheckpointTally) {
    if let Some(unsaved) = &tally.unsaved {
        let mark = style("not saved:").yellow().for_stderr();
        let what = match tally.saved {
            0 if !tally.is_resumed => "nothing of the run is in the store",
            _ => "the last state of the run is not in the store",
        };
        output::say(&format!("{mark} {what} ({} failed): {unsaved}", quantity(tally.failed, "save")));
    }
}

/// Classifies errors that other arguments can fix.
pub(crate) fn explain(error: ResumeError) -> anyhow::Error {
    match error {
        ResumeError::Work(error) => error.into(),
        ResumeError::Changed(_) => Misconfigured(format!(
            "{error}\nto continue anyway, add --on-change continue; --on-change fork starts a new run instead"
        ))
        .into(),
        ResumeError::Store(StoreError::Held { .. }) => anyhow::Error::new(error).context(Help(
            "--take-over resumes it although that process may still be running, which can then save no more",
        )),
        ResumeError::Unclear(CheckpointsError::Unknown { .. }) => {
            Misconfigured(format!("{error}. A new task follows the resumed run: --resume last \"TASK\""))
                .into()
        }
        ResumeError::Elsewhere { ref run, ref folder } => Misconfigured(format!(
            "{error}\n  help: continue it there: cd {} && forge --resume {run}\n  \
             or here, although the agent was told of that folder: forge --resume {run} --on-change continue",
            shell_quote(folder)
        ))
        .into(),
        ResumeError::InWorkspace { ref run, ref git, ref commit } => Misconfigured(format!(
            "{error}\n  help: continue it in its fleet: forge submit --run {run}\n  to look at its files: git fetch \
             {git} {commit}\n  or continue with the files of this folder: forge --resume {run} --on-change continue"
        ))
        .into(),
        ResumeError::AgentGone { ref agent, .. } => {
            let help = match agent.as_str() {
                BUILT_IN_AGENT => {
                    "it works without a forge.yaml: to resume its run although there is one, add --config /dev/null"
                }
                _ => "add the agent to forge.yaml again, or name the file that has it with --config FILE",
            };
            Misconfigured(format!("{error}\n  help: {help}")).into()
        }
        ResumeError::NoRun => {
            Misconfigured(format!("{error}\n  help: `forge checkpoints list` shows the runs")).into()
        }
        ResumeError::NotKept | ResumeError::Unclear(_) => Misconfigured(error.to_string()).into(),
        error => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::arguments::{ConfigFlag, ConsentFlags, Source};

    #[test]
    fn the_flags_that_matter_are_written_as_a_shell_takes_them() {
        let source = |config: &str, model: &str| Source {
            file: ConfigFlag { config: Some(config.into()) },
            model: Some(model.to_owned()),
            ..Source::default()
        };
        let of = |source: Source| {
            let setup = SetupFlags { source, ..SetupFlags::default() };
            RunFlags { setup, ..RunFlags::default() }
        };
        let store = "postgres://me:planted@host/runs".parse().ok();
        for (source, store, expected) in [
            (RunFlags::default(), None, ""),
            (of(source("a/b.yaml", "openai:gpt-4o")), None, " --config a/b.yaml --model openai:gpt-4o"),
            (of(source("my file", "it's")), None, r" --config 'my file' --model 'it'\''s'"),
            (
                of(Source { provider: Some("p".to_owned()), ..Source::default() }),
                store.as_ref(),
                " --provider p --store 'postgres://me:…@host/runs'",
            ),
        ] {
            assert_eq!(flags(&source, store), expected);
        }
    }

    #[test]
    fn a_resumed_run_may_do_no_more_than_before() {
        #[derive(clap::Parser)]
        struct Command {
            #[command(flatten)]
            flags: RunFlags,
        }
        for given in [
            "--mode plan --budget-tokens 3000 --budget-cost 0.25",
            "--sandbox network --yes --allow 'shell:cargo *'",
        ] {
            let words = given.replace("'shell:cargo *'", "shell:cargo_*");
            let words = words.split(' ').map(|word| word.replace('_', " "));
            let command: Command = clap::Parser::parse_from(["forge".to_owned()].into_iter().chain(words));
            assert_eq!(flags(&command.flags, None), format!(" {given}"));
        }
        let mut asks = ConsentFlags::default();
        asks.mode = Some(Mode::default());
        let setup = SetupFlags { consent: asks, ..SetupFlags::default() };
        assert_eq!(flags(&RunFlags { setup, ..RunFlags::default() }, None), "");
    }

    #[test]
    fn a_word_tells_runs_of_one_second_apart() {
        let words: std::collections::BTreeSet<String> = (0..1_000).map(|n| word(n << 22 | 4_711)).collect();
        assert!(words.len() > 990 && words.iter().all(|word| word.len() == 4), "{}", words.len());
        assert_eq!(word(1), word(1));
    }
}
