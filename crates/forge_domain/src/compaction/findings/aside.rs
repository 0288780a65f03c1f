//! Steps of a command line that run while the work is in another state: between `git stash` and
//! `git stash pop`, or while a fault is put in on purpose. What they find says nothing of the work.

use super::command_line::{Walk, from_program};

/// Returns, for each step of a command line that was followed by `walk`, whether it runs in another state.
pub(super) fn steps_aside(walk: &Walk<'_>) -> Vec<bool> {
    let words = walk.steps.iter().map(|step| step.command.split_whitespace().collect::<Vec<_>>());
    let effects: Vec<Option<Effect>> = words.map(|words| effect_of(from_program(&words))).collect();
    let is_last = |nth: usize, effects: &[Option<Effect>]| {
        effects[..nth].iter().rev().find_map(|effect| *effect) == Some(Effect::Changes)
    };
    let is_restored = |nth: usize| effects[nth + 1..].iter().flatten().next() == Some(&Effect::Restores);
    (0..effects.len())
        .map(|nth| effects[nth].is_none() && is_last(nth, &effects) && is_restored(nth))
        .collect()
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
    let reverses = || told.iter().any(|word| matches!(*word, "-R" | "--reverse"));
    match (*program, operands.next().filter(|_| *program == "git")) {
        ("git", Some("stash")) => match operands.next() {
            None | Some("push" | "save") => Some(Effect::Changes),
            Some("pop" | "apply") => Some(Effect::Restores),
            Some(_) => None,
        },
        ("git", Some("apply")) | ("patch", _) if reverses() => Some(Effect::Restores),
        ("git", Some("apply")) | ("patch", _) => Some(Effect::Changes),
        ("git", Some("restore")) => Some(Effect::Restores),
        ("git", Some("checkout")) => {
            let is_path = |word: &str| word.contains(['.', '/']);
            (told.contains(&"--") || operands.any(is_path)).then_some(Effect::Restores)
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
        ] {
            assert_eq!(steps_aside(&Walk::of(command, None)), expected, "{command}");
        }
    }
}
