//! Steps of a command line that run while the work is in another state: between `git stash` and
//! `git stash pop`, or while a fault is put in on purpose. What they find says nothing of the work.

use super::command_line::{Walk, from_program};

/// Returns, for each step of a command line that was followed by `walk`, whether it runs in another state.
pub(super) fn steps_aside(walk: &Walk<'_>) -> Vec<bool> {
    let words = walk.steps.iter().map(|step| step.command.split_whitespace().collect::<Vec<_>>());
    let words: Vec<Vec<&str>> = words.collect();
    let effects: Vec<Option<Effect>> = words.iter().map(|words| effect_of(from_program(words))).collect();
    let mut aside = vec![false; effects.len()];
    let mut changed: Option<usize> = None;
    for (nth, effect) in effects.iter().enumerate() {
        match effect {
            Some(Effect::Changes) => changed = Some(nth),
            Some(Effect::Restores) => {
                if let Some(from) = changed.take().filter(|from| takes_back(&words[nth], &words[*from])) {
                    aside[from + 1..nth].fill(true);
                }
            }
            None => {}
        }
    }
    aside
}

/// Checks whether a step that restores something takes back what another one changed: all, or a file of it.
fn takes_back(restoring: &[&str], changing: &[&str]) -> bool {
    let is_whole = |word: &&str| matches!(*word, "." | "pop" | "apply" | "-R" | "--reverse");
    restoring.iter().any(|word| is_whole(word) || word.contains('.') && changing.contains(word))
}

/// The effect of a step on the state of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    Changes,
    Restores,
}

fn effect_of(words: &[&str]) -> Option<Effect> {
    let (program, told) = words.split_first()?;
    let mut operands = told.iter().copied().filter(|word| !word.starts_with('-'));
    let has = |options: &[&str]| told.iter().any(|word| options.contains(word));
    let reverses = has(&["-R", "--reverse"]);
    match (*program, operands.next().filter(|_| *program == "git")) {
        ("git", Some("stash")) => match operands.next() {
            None | Some("push" | "save") => Some(Effect::Changes),
            Some("pop" | "apply") => Some(Effect::Restores),
            Some(_) => None,
        },
        ("git", Some("apply")) | ("patch", _) if reverses => Some(Effect::Restores),
        ("git", Some("apply")) | ("patch", _) => Some(Effect::Changes),
        ("git", Some("restore")) if !has(&["--staged", "-S"]) => Some(Effect::Restores),
        ("git", Some("checkout")) if !has(&["-b", "-B", "--orphan", "--detach", "-t"]) => {
            Some(Effect::Restores)
        }
        ("sed" | "perl", _) if told.iter().any(|word| word.starts_with("-i") || word.starts_with("-pi")) => {
            Some(Effect::Changes)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn what_runs_before_the_work_is_back_is_of_another_state() {
        for (command, expected) in [
            ("git stash -q; pytest; git stash pop -q", &[false, true, false][..]),
            ("pytest; git stash push a.py; pytest; git stash pop", &[false, false, true, false]),
            ("git stash pop; pytest", &[false, false]),
            ("git apply m.patch; make test; git checkout -q .", &[false, true, false]),
            ("git apply m.patch; make test; git apply -R m.patch; make test", &[false, true, false, false]),
            ("sed -i s/a/b/ a.py && pytest; git checkout a.py", &[false, true, false]),
            ("sed -i s/a/b/ a.py && pytest", &[false, false]),
            ("git checkout main; pytest", &[false, false]),
            // Nothing of what was changed is taken back.
            ("sed -i s/a/b/ a.py && pytest && git checkout -b fix/a", &[false, false, false]),
            ("sed -i s/a/b/ a.py && pytest; git checkout v1.2", &[false, false, false]),
            ("sed -i s/a/b/ a.py && pytest; git checkout b.lock", &[false, false, false]),
            ("sed -i s/a/b/ a.py && pytest; git restore --staged a.py", &[false, false, false]),
        ] {
            assert_eq!(steps_aside(&Walk::of(command, None)), expected, "{command}");
        }
    }
}
