//! The changes that a command line makes to files, as far as its words tell.

use super::command_line::{
    Step, Walk, from_program, is_redirection, is_shell, join, outside_quotes, without_dot, without_folder,
    words_of,
};
use super::pattern::Pattern;

/// A change of a file by a step of a command line, and the folder in which that runs, if it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShellStep {
    pub(crate) change: ShellChange,
    pub(crate) folder: Option<String>,
    /// True if something else in its command line can fail, and none of what must end well before it: if the
    /// line failed, it was made even so.
    pub(crate) is_sure: bool,
}

/// A change of a file or a folder, which has the name that it has in the command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ShellChange {
    /// It is removed; a star in its name stands for any characters.
    Removes(String),
    /// All that was never committed is removed: the result names what.
    Cleans,
    /// It is removed, and was a part of the work.
    Deletes(String),
    /// It has another name, or is in the folder of that name. A star in its name stands for any characters.
    Moves { from: String, to: String },
    /// There is a second one, which has another name or is in the folder of that name.
    Copies { from: String, to: String },
    /// It is changed in its place.
    Edits(String),
    /// It gets what the command itself says.
    Writes(String),
    /// It gets what a program writes: that is no work, but the file is there.
    Outputs(String),
    /// It is again as it was committed last.
    Restores(String),
    /// The same, and its changes are put aside; with `new_ones`, new files are, too.
    Stashes { path: String, new_ones: bool },
    /// The changes that were put aside are there again: the last ones, or those as many before them. They may
    /// stay put aside as well.
    Unstashes { nth: usize, stay: bool },
    /// They are thrown away.
    DropsStash { nth: usize },
    /// It will be committed next: a file, a folder, or all.
    Stages(String),
    /// It will not.
    Unstages(String),
    /// All that was staged is committed; with `all`, every known file is.
    Commits { all: bool },
    /// So many of the last commits are undone, with all that is not committed.
    Resets { n_commits: usize },
}

/// The pattern of a text that names a file, and what it says of that.
pub(super) type Kind = (&'static Pattern, fn(String) -> ShellChange);
/// All files of the folder.
pub(crate) const ALL: &str = ".";

/// Returns the changes of the steps of a command line without here-documents, in order.
pub(super) fn shell_changes(walk: &Walk<'_>) -> Vec<ShellStep> {
    let mut changes: Vec<ShellStep> = Vec::new();
    let (mut may_have_failed, mut can_fail) = (false, false);
    for (nth, step) in walk.steps.iter().enumerate() {
        may_have_failed &= !step.runs_anyway;
        let before = nth.checked_sub(1).map(|before| &walk.steps[before]);
        let mut of_step = changes_of_step(step);
        of_step.extend(before.into_iter().flat_map(|before| removals_of_found(before, step)));
        let is_sure = !may_have_failed;
        let only_outputs = of_step.iter().all(|step| matches!(step.change, ShellChange::Outputs(_)));
        may_have_failed |= only_outputs && !hardly_fails(step.command);
        can_fail |= may_have_failed;
        changes.extend(of_step.into_iter().map(|change| ShellStep { is_sure, ..change }));
    }
    changes.iter_mut().for_each(|change| change.is_sure &= can_fail);
    changes
}

/// Returns the removals of what one step finds and the next one is given: `find . -name '*.o' | xargs rm`.
fn removals_of_found(find: &Step<'_>, step: &Step<'_>) -> Vec<ShellStep> {
    let words: Vec<&str> = step.command.split_whitespace().collect();
    let is_removal = words.first() == Some(&"xargs") && from_program(&words).first() == Some(&"rm");
    if !is_removal || !find.command.starts_with("find ") {
        return Vec::new();
    }
    let command = format!("{} -delete", find.command.trim_end_matches(" -print0"));
    changes_of_step(&Step { command: &command, ..find.clone() })
}

/// Checks whether a step that changes no file hardly ever fails.
fn hardly_fails(step: &str) -> bool {
    const PROGRAMS: [&str; 6] = ["echo", "export", "mkdir", "pwd", "set", "touch"];
    step.split_whitespace().next().is_some_and(|program| PROGRAMS.contains(&program))
}

fn changes_of_step(step: &Step<'_>) -> Vec<ShellStep> {
    // Most commands change nothing.
    const SIGNS: [&str; 13] =
        ["rm", "mv", "cp", "-", ">", "tee", "git", "del", "ren", "move", "copy", "erase", "unlink"];
    if !SIGNS.iter().any(|word| step.command.contains(word)) {
        return Vec::new();
    }
    blocks(step.command).into_iter().flat_map(|command| changes_of_command(command, step)).collect()
}

/// Returns the parts of a step between the braces of blocks, which have a blank beside them.
fn blocks(command: &str) -> Vec<&str> {
    let is_apart = |beside: Option<char>| beside.is_none_or(char::is_whitespace);
    let is_of_block = |(at, c): &(usize, char)| match c {
        '{' => is_apart(command[at + 1..].chars().next()),
        '}' => is_apart(command[..*at].chars().next_back()),
        _ => false,
    };
    let (mut parts, mut start) = (Vec::new(), 0);
    for (at, _) in outside_quotes(command).filter(is_of_block) {
        parts.push(command[start..at].trim());
        start = at + 1;
    }
    parts.push(command[start..].trim());
    parts
}

/// Returns the changes of a `command` that is a step, or a part of it.
fn changes_of_command(command: &str, step: &Step<'_>) -> Vec<ShellStep> {
    let words = words_of(command);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut words = from_program(&words).to_vec();
    if let [shell, options @ .., script] = words.as_slice()
        && is_shell(shell)
        && options.last().is_some_and(|option| option.starts_with('-') && option.ends_with('c'))
    {
        return shell_changes(&Walk::of(script, step.folder.as_deref()));
    }
    let mut folder = step.folder.clone();
    let is_git = words.first() == Some(&"git");
    if is_git {
        words.remove(0);
        while let [option @ ("-C" | "-c"), value, ..] = words[..] {
            if option == "-C" {
                folder = Some(join(folder.as_deref(), value));
            }
            words.drain(..2);
        }
    }
    let mut changes = if is_git { changes_of_git(&words) } else { changes_of(&words) };
    if changes.is_empty() {
        let redirected = words.iter().position(|word| is_redirection(word)).unwrap_or(words.len());
        changes.extend(written(&words[redirected..]).map(|(file, _)| ShellChange::Outputs(file)));
    }
    let in_folder = |change| ShellStep { change, folder: folder.clone(), is_sure: false };
    changes.into_iter().map(in_folder).collect()
}

/// Returns the changes of a command of git.
fn changes_of_git(words: &[&str]) -> Vec<ShellChange> {
    let Some((command, words)) = words.split_first() else { return Vec::new() };
    let has = |options: &[&str]| words.iter().any(|word| options.contains(word));
    let names = || words.iter().filter(|word| is_name(word)).map(|word| name(word));
    let all = || ALL.to_owned();
    match *command {
        "restore" if has(&["--staged", "-S"]) && !has(&["--worktree", "-W"]) => {
            names().map(ShellChange::Unstages).collect()
        }
        _ if has(&["-n", "--dry-run", "--cached"]) => Vec::new(),
        "merge" | "rebase" | "cherry-pick" | "revert" | "am" if has(&["--abort"]) => {
            vec![ShellChange::Resets { n_commits: 0 }]
        }
        "rm" => names().map(ShellChange::Deletes).collect(),
        "mv" => {
            let names = words.iter().filter(|word| is_name_or_pattern(word));
            moves(&names.map(|word| name(word)).collect::<Vec<_>>())
        }
        "restore" => names().map(ShellChange::Restores).collect(),
        // Without the mark, a branch may be meant: of its name, no file is known.
        "checkout" => {
            let mark = words.iter().position(|word| *word == "--").map_or(0, |mark| mark + 1);
            let files = words[mark..].iter().filter(|word| is_name(word));
            files.map(|word| ShellChange::Restores(name(word))).collect()
        }
        "reset" if has(&["--hard"]) => {
            let n_commits = words.iter().find_map(|word| commits_before_head(word)).unwrap_or(0);
            vec![ShellChange::Resets { n_commits }]
        }
        "reset" if has(&["--soft", "--mixed", "--keep", "--merge"]) => Vec::new(),
        "reset" => {
            let named: Vec<String> = names().filter(|name| !name.starts_with("HEAD")).collect();
            let named = if words.is_empty() { vec![all()] } else { named };
            named.into_iter().map(ShellChange::Unstages).collect()
        }
        "clean" => vec![ShellChange::Cleans],
        "add" if has(&["-A", "--all", "-u", "."]) => vec![ShellChange::Stages(all())],
        "add" => names().map(ShellChange::Stages).collect(),
        "commit" => {
            let is_all = |word: &&str| {
                *word == "--all" || word.starts_with('-') && !word.starts_with("--") && word.contains('a')
            };
            vec![ShellChange::Commits { all: words.iter().any(is_all) }]
        }
        "stash" if matches!(words.first(), Some(&("pop" | "apply"))) => {
            let stay = words.first() == Some(&"apply");
            vec![ShellChange::Unstashes { nth: nth_stash(words), stay }]
        }
        "stash" if words.first() == Some(&"drop") => vec![ShellChange::DropsStash { nth: nth_stash(words) }],
        "stash"
            if words.first().is_none_or(|word| matches!(*word, "push" | "save") || word.starts_with('-')) =>
        {
            let new_ones = has(&["-u", "--include-untracked", "-a", "--all"]);
            // A message comes behind its option, or after `save`.
            let mark = words.iter().position(|word| *word == "--").map(|mark| mark + 1);
            let is_message = |nth: usize| nth > 0 && matches!(words[nth - 1], "-m" | "--message");
            let from = mark.unwrap_or(usize::from(words.first() == Some(&"push")));
            let paths =
                words.iter().enumerate().skip(from).filter(|(nth, word)| is_name(word) && !is_message(*nth));
            let paths: Vec<String> = paths.map(|(_, word)| name(word)).collect();
            let paths = if paths.is_empty() || words.first() == Some(&"save") { vec![all()] } else { paths };
            paths.into_iter().map(|path| ShellChange::Stashes { path, new_ones }).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the number of commits before the last one that a revision such as `HEAD~2` is; `None` for another.
fn commits_before_head(word: &str) -> Option<usize> {
    let rest = word.strip_prefix("HEAD")?;
    match rest.strip_prefix('~') {
        Some("") => Some(1),
        Some(n) => n.parse().ok(),
        None => rest.bytes().all(|byte| byte == b'^').then_some(rest.len()),
    }
}

/// Returns the number of a stash, as in `stash@{1}`; that of the last one is 0.
fn nth_stash(words: &[&str]) -> usize {
    let number = |word: &&str| {
        let number = word.strip_prefix("stash@{").and_then(|rest| rest.strip_suffix('}')).unwrap_or(word);
        number.parse().ok()
    };
    words.iter().skip(1).find_map(number).unwrap_or(0)
}

/// Returns the changes of a command other than git.
fn changes_of(words: &[&str]) -> Vec<ShellChange> {
    let Some((program, words)) = words.split_first() else { return Vec::new() };
    let redirected = words.iter().position(|word| is_redirection(word)).unwrap_or(words.len());
    let (words, redirection) = words.split_at(redirected);
    let names = || words.iter().filter(|word| is_name(word)).map(|word| name(word));
    match without_folder(program) {
        "rm" | "del" | "erase" | "unlink" => {
            let names = words.iter().filter(|word| is_name_or_pattern(word)).map(|word| name(word));
            let with_folders = words.iter().any(|word| takes_folders(word));
            let below = |name: &String| (with_folders && name.contains('*')).then(|| format!("{name}/**/*"));
            let names = names.flat_map(|name| [below(&name), Some(name)]);
            names.flatten().map(ShellChange::Removes).collect()
        }
        "find" => found_files(words),
        "mv" | "move" => {
            let moved = placed(words).map(|(from, to)| match is_name_or_pattern(&from) {
                true => ShellChange::Moves { from, to },
                // A file that is moved in from elsewhere is new here.
                false => ShellChange::Writes(to),
            });
            moved.collect()
        }
        // Of a folder, only those files are known that were named before.
        "cp" if words.iter().any(|word| takes_folders(word) || matches!(*word, "-a" | "--archive")) => {
            let copied = placed(words).filter(|(from, _)| is_name_or_pattern(from));
            copied.map(|(from, to)| ShellChange::Copies { from, to }).collect()
        }
        "cp" | "copy" => placed(words).map(|(_, to)| ShellChange::Writes(to)).collect(),
        "sed" if words.iter().any(|word| edits_in_place(word)) => {
            edited(words, &["-e", "-f", "--expression", "--file"])
        }
        "perl" | "ruby" if words.iter().any(|word| edits_in_place(word)) => {
            edited(words, &["-e", "-pe", "-ne", "-pie", "-nie"])
        }
        "cat" | "echo" | "printf" => {
            let change = |(file, is_more)| match is_more {
                true => ShellChange::Edits(file),
                false => ShellChange::Writes(file),
            };
            written(redirection).map(change).into_iter().collect()
        }
        "tee" if words.contains(&"-a") => names().map(ShellChange::Edits).collect(),
        "tee" => names().map(ShellChange::Writes).collect(),
        _ => changes_of_powershell(program, words),
    }
}

/// Checks whether an option of `rm` or `cp` takes folders with all that is in them.
fn takes_folders(word: &str) -> bool {
    let letters = word.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
    word == "--recursive" || letters.is_some_and(|letters| letters.contains(['r', 'R']))
}

/// Returns the removal of what `find` finds in folders, if that is all or has a name.
fn found_files(words: &[&str]) -> Vec<ShellChange> {
    let folders = words.iter().take_while(|word| !word.starts_with('-')).filter(|word| is_name(word));
    let tests = words.iter().skip_while(|word| !word.starts_with('-'));
    let tests: Vec<&str> = tests.copied().filter(|word| !matches!(*word, "-type" | "f")).collect();
    let ([tests @ .., "-delete"]
    | [tests @ .., "-exec", "rm", "{}", "+" | ";"]
    | [tests @ .., "-exec", "rm", "-f", "{}", "+" | ";"]) = tests.as_slice()
    else {
        return Vec::new();
    };
    match *tests {
        [] => folders.map(|word| ShellChange::Removes(name(word))).collect(),
        ["-name", pattern] if is_name_or_pattern(pattern) => {
            folders.map(|word| ShellChange::Removes(format!("{}/**/{pattern}", name(word)))).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the changes of a command of PowerShell.
fn changes_of_powershell(program: &str, words: &[&str]) -> Vec<ShellChange> {
    /// Options whose next word is a path, and those whose next word is something else.
    const PATHS: [&str; 5] = ["-path", "-literalpath", "-filepath", "-destination", "-newname"];
    const VALUES: [&str; 5] = ["-value", "-encoding", "-itemtype", "-inputobject", "-width"];
    let makes_folder = words.iter().any(|word| word.eq_ignore_ascii_case("directory"));
    let mut names: Vec<String> = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let option = word.to_ascii_lowercase();
        if VALUES.contains(&option.as_str()) {
            let value = words.next().copied().unwrap_or_default();
            skip_computed(value, &mut words);
        } else if word.starts_with('(') {
            skip_computed(word, &mut words);
        } else if !PATHS.contains(&option.as_str()) && is_name(word) {
            names.push(name(word));
        }
    }
    let first = names.first().cloned().into_iter();
    match program.to_ascii_lowercase().as_str() {
        "remove-item" => names.into_iter().map(ShellChange::Removes).collect(),
        "move-item" | "rename-item" => moves(&names),
        "copy-item" => names.into_iter().nth(1).map(ShellChange::Writes).into_iter().collect(),
        "new-item" if makes_folder => Vec::new(),
        "set-content" | "out-file" | "new-item" => first.map(ShellChange::Writes).collect(),
        "add-content" => first.map(ShellChange::Edits).collect(),
        _ => Vec::new(),
    }
}

/// Skips the rest of what PowerShell computes, if `word` begins that: all up to the end of its parentheses.
fn skip_computed(word: &str, rest: &mut std::slice::Iter<'_, &str>) {
    let count = |word: &str, mark: char| word.matches(mark).count();
    let (mut n_open, mut n_closed) = (count(word, '('), count(word, ')'));
    while word.starts_with('(') && n_open > n_closed {
        let Some(word) = rest.next() else { return };
        n_open += count(word, '(');
        n_closed += count(word, ')');
    }
}

/// Checks whether a word names one file of the work rather than an option, a pattern, a device or a file for
/// the time being.
pub(super) fn is_name(word: &str) -> bool {
    const ELSEWHERE: [&str; 3] = ["/dev/", "/tmp/", "/proc/"];
    let is_option = word.starts_with('-') && word.len() > 1;
    !is_option
        && !word.is_empty()
        && !word.starts_with('(')
        && word != ")"
        && !word.contains(['*', '?', '$', '`', '{', '}', '>', '<', '|', '"', '\n'])
        && !ELSEWHERE.iter().any(|folder| word.starts_with(folder))
}

/// Checks the same of a word in which a star may stand for any characters.
fn is_name_or_pattern(word: &str) -> bool {
    is_name(&word.replace('*', "_"))
}

pub(super) fn name(word: &str) -> String {
    without_dot(word).trim_end_matches('/').to_owned()
}

/// Returns the moves of all but the last of `names` to that.
fn moves(names: &[String]) -> Vec<ShellChange> {
    places(names).into_iter().map(|(from, to)| ShellChange::Moves { from, to }).collect()
}

/// Returns the operands of a command that moves or copies files, each with the name that it gets, if that is
/// one of the work. They may come from anywhere.
fn placed(words: &[&str]) -> impl Iterator<Item = (String, String)> {
    let operands = words.iter().filter(|word| !word.starts_with('-'));
    let operands: Vec<String> = operands.map(|word| name(word)).collect();
    places(&operands).into_iter().filter(|(_, to)| is_name(to))
}

/// Returns the names before the last of `names`, each with the name that it gets there. A folder may be named
/// without its slash: a file with an ending gets no name without one.
fn places(names: &[String]) -> Vec<(String, String)> {
    let Some((to, from)) = names.split_last() else { return Vec::new() };
    let has_ending = |name: &str| without_folder(name).trim_start_matches('.').contains('.');
    // Several at once are moved into a folder.
    let moved = from.iter().map(|moved| {
        let is_into = !moved.contains('*') && (from.len() > 1 || has_ending(moved) && !has_ending(to));
        let to = if is_into { format!("{to}/{}", without_folder(moved)) } else { to.clone() };
        (moved.clone(), to)
    });
    moved.collect()
}

/// Checks whether an option of a stream editor changes files in their place.
fn edits_in_place(word: &str) -> bool {
    let letters = word.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
    word.starts_with("--in-place")
        || letters.is_some_and(|letters| {
            let flags =
                letters.find(|c: char| !c.is_ascii_alphabetic()).map_or(letters, |end| &letters[..end]);
            flags.contains('i')
        })
}

/// Returns the files that a stream editor changes: its operands, without the script, which is the first of
/// them unless one of `scripted` comes before it.
fn edited(words: &[&str], scripted: &[&str]) -> Vec<ShellChange> {
    let has_option = words.iter().any(|word| scripted.contains(word));
    let mut operands: Vec<&str> = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if scripted.contains(word) {
            words.next();
        } else if !word.starts_with('-') && !word.is_empty() {
            // An empty word is the ending for a copy, in the other form of `-i`.
            operands.push(word);
        }
    }
    let files = operands.into_iter().skip(usize::from(!has_option));
    files.filter(|word| is_name(word)).map(|word| ShellChange::Edits(name(word))).collect()
}

/// Returns the file into which the output goes, and true if that is added to it. Where errors go may be told
/// first.
fn written(redirection: &[&str]) -> Option<(String, bool)> {
    let at = redirection.iter().position(|word| word.starts_with('>'))?;
    let (sign, after) = redirection[at..].split_first()?;
    let (is_more, file) = match sign.strip_prefix(">>") {
        Some(file) => (true, file),
        None => (false, sign.strip_prefix('>')?),
    };
    let file = if file.is_empty() { after.first().copied()? } else { file };
    let file = Some(file).filter(|file| is_name(file) && !file.starts_with('&')).map(name)?;
    Some((file, is_more))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::command_line::without_documents;
    use super::ShellChange::{
        Cleans, Commits, Copies, Deletes, DropsStash, Edits, Moves, Outputs, Removes, Resets, Restores,
        Stages, Stashes, Unstages, Unstashes, Writes,
    };
    use super::*;

    #[test]
    fn what_a_command_does_to_files_is_read_from_its_words() {
        let moves = |from: &str, to: &str| Moves { from: from.into(), to: to.into() };
        let stashes = |path: &str, new_ones: bool| Stashes { path: path.into(), new_ones };
        for (command, expected) in [
            (
                "cd /w && rm -f ./a.py b/ 2>/dev/null; rm *.py",
                vec![Removes("a.py".into()), Removes("b".into()), Removes("*.py".into())],
            ),
            ("rm $X/*.py; find z -type f -delete", vec![Removes("z".into())]),
            (
                "rm -rf build/* c; rm build/*",
                vec![
                    Removes("build/*/**/*".into()),
                    Removes("build/*".into()),
                    Removes("c".into()),
                    Removes("build/*".into()),
                ],
            ),
            (
                "git mv app/* . && cp -r src/* lib",
                vec![moves("app/*", "."), Copies { from: "src/*".into(), to: "lib".into() }],
            ),
            ("find z -name '*.pyc' -delete; find z -newer a -delete", vec![Removes("z/**/*.pyc".into())]),
            (
                "find z -type f -exec rm {} \\; ; find y -name '*.o' | xargs -n 1 rm -f; ls | xargs rm",
                vec![Removes("z".into()), Removes("y/**/*.o".into())],
            ),
            (
                "bash -lc 'cd a && rm b.py'; sudo -u app rm c.py",
                vec![Removes("b.py".into()), Removes("c.py".into())],
            ),
            ("mv logs/*.log old/", vec![moves("logs/*.log", "old")]),
            ("git merge --abort", vec![Resets { n_commits: 0 }]),
            (
                "git reset a.py; git restore --staged b.py; git reset --soft HEAD~1",
                vec![Unstages("a.py".into()), Unstages("b.py".into())],
            ),
            ("mv /tmp/a.new a.py; mv $X b.py", vec![Writes("a.py".into()), Writes("b.py".into())]),
            (
                "git add a.py && git commit -m 'a b'; git commit -am x; git add -A",
                vec![
                    Stages("a.py".into()),
                    Commits { all: false },
                    Commits { all: true },
                    Stages(".".into()),
                ],
            ),
            (
                "git clean -fd; git stash drop; git stash pop stash@{2}; git stash apply; git clean -n",
                vec![
                    Cleans,
                    DropsStash { nth: 0 },
                    Unstashes { nth: 2, stay: false },
                    Unstashes { nth: 0, stay: true },
                ],
            ),
            ("git rm -r b", vec![Deletes("b".into())]),
            ("mv a.py lib/b.py", vec![moves("a.py", "lib/b.py")]),
            ("git mv src/a.py lib", vec![moves("src/a.py", "lib/a.py")]),
            ("mv a.py b.py lib/", vec![moves("a.py", "lib/a.py"), moves("b.py", "lib/b.py")]),
            ("git mv old new", vec![moves("old", "new")]),
            (
                "cp a.py lib; cp -r a b",
                vec![Writes("lib/a.py".into()), Copies { from: "a".into(), to: "b".into() }],
            ),
            (
                "cp $S/a.py b.py; cp $S/a.py $S/b.py lib/; cp a.py $S",
                vec![Writes("b.py".into()), Writes("lib/a.py".into()), Writes("lib/b.py".into())],
            ),
            ("sed -i 's/a b/c/' a.rs 'b c.rs'", vec![Edits("a.rs".into()), Edits("b c.rs".into())]),
            ("sed -i.bak -e 's/a/b/' -e 's/c/d/' a.rs", vec![Edits("a.rs".into())]),
            ("sed -i '' 's|a|b|g' a.rs", vec![Edits("a.rs".into())]),
            ("sed -n '1,40p' a.rs", vec![]),
            ("perl -pi -e 's/a/b/' a.rs", vec![Edits("a.rs".into())]),
            ("cat > a.py <<'E'\nrm b.py\nE\npython a.py", vec![Writes("a.py".into())]),
            (
                "cat > b.py <<-\"E\"\nrm b.py\nE\nrm c.py; echo $((1<<2)); cat <<< x",
                vec![Writes("b.py".into()), Removes("c.py".into())],
            ),
            ("cat <<E > a.py\nx > y\nE", vec![Writes("a.py".into())]),
            ("echo 'a > b' >> notes.md", vec![Edits("notes.md".into())]),
            ("printf x | tee a.txt >/dev/null", vec![Writes("a.txt".into())]),
            (
                "python a.py > out.log 2>&1; cat a > /tmp/b; echo $x > $y; cat a 2>&1; make >> make.log",
                vec![Outputs("out.log".into()), Outputs("make.log".into())],
            ),
            (
                "git show HEAD:a.rs 2>/dev/null > a.rs; echo x 2>/dev/null > b.rs",
                vec![Outputs("a.rs".into()), Writes("b.rs".into())],
            ),
            (
                "git checkout -- a.rs && git restore b.rs",
                vec![Restores("a.rs".into()), Restores("b.rs".into())],
            ),
            (
                "git checkout src/a.rs; git restore -W a.rs",
                vec![Restores("src/a.rs".into()), Restores("a.rs".into())],
            ),
            ("git stash && git reset --hard HEAD~1", vec![stashes(".", false), Resets { n_commits: 1 }]),
            (
                "git stash push -u -m 'a b'; git stash push a.rs",
                vec![stashes(".", true), stashes("a.rs", false)],
            ),
            (
                "git stash list; git stash pop; git checkout -b next",
                vec![Unstashes { nth: 0, stay: false }, Restores("next".into())],
            ),
            ("git rm --cached a.rs; git rm -n a.rs; git -C lib rm a.rs", vec![Deletes("a.rs".into())]),
            ("A=1 sudo rm a.rs; echo x | sudo tee b.rs", vec![Removes("a.rs".into()), Writes("b.rs".into())]),
            (
                r"del C:\p\a.cs && move C:\p\b.cs C:\p\c.cs",
                vec![Removes(r"C:\p\a.cs".into()), moves(r"C:\p\b.cs", r"C:\p\c.cs")],
            ),
            (
                "@'\nrm x\n'@ | Set-Content -Path a.ps1 -Encoding utf8\nRemove-Item -Force b.ps1",
                vec![Writes("a.ps1".into()), Removes("b.ps1".into())],
            ),
            (
                r"Add-Content -Path (Join-Path $HOME '.a\b.log') -Value (Get-Date -Format o); Set-Content a.ps1 -Value ((f) + 'x')",
                vec![Writes("a.ps1".into())],
            ),
            ("echo 'it", vec![]),
        ] {
            let command = without_documents(command);
            let changes = shell_changes(&Walk::of(&command, None)).into_iter().map(|step| step.change);
            assert_eq!(changes.collect::<Vec<_>>(), expected, "{command}");
        }
    }

    #[test]
    fn the_braces_of_blocks_are_no_names_and_end_what_a_step_does() {
        for (command, expected) in [
            ("$p='a.md'; if($i){ $l[1]='x'; Set-Content -Path $p -Value $l }", vec![]),
            (
                "if($i){ Set-Content -Path a.md -Value $l } else { Remove-Item b.md }",
                vec![Writes("a.md".into()), Removes("b.md".into())],
            ),
            ("{ rm a.py; sed -i '/x/a fn f() {' a.rs; }", vec![Removes("a.py".into()), Edits("a.rs".into())]),
            (
                "Set-Content (p a ) b.md; Remove-Item c.md )",
                vec![Writes("b.md".into()), Removes("c.md".into())],
            ),
        ] {
            let changes = shell_changes(&Walk::of(command, None)).into_iter().map(|step| step.change);
            assert_eq!(changes.collect::<Vec<_>>(), expected, "{command}");
        }
    }
}
