//! The changes that a command line makes to files, as far as its words tell.

use super::command_line::{steps, without_dot, without_folder};

/// A change of a file or a folder, which has the name that it has in the command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ShellChange {
    /// It is removed.
    Removes(String),
    /// It has another name, or is in the folder of that name.
    Moves { from: String, to: String },
    /// It is changed in its place.
    Edits(String),
    /// It gets what the command itself says.
    Writes(String),
    /// It is again as it was committed last.
    Restores(String),
}

/// Returns the changes of a command line without here-documents, in order. What a program writes (a log, the
/// output of a build) is not part of the work.
pub(super) fn shell_changes(command: &str) -> Vec<ShellChange> {
    steps(command).into_iter().flat_map(changes_of_step).collect()
}

fn changes_of_step(step: &str) -> Vec<ShellChange> {
    // Most commands change nothing.
    if !["rm", "mv", "cp", "-", ">", "tee", "git"].iter().any(|word| step.contains(word)) {
        return Vec::new();
    }
    let words = shlex::split(step).unwrap_or_default();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (is_git, words) = match words.as_slice() {
        ["git", rest @ ..] => (true, rest),
        words => (false, words),
    };
    let Some((program, words)) = words.split_first() else { return Vec::new() };
    let redirects = |word: &&str| word.trim_start_matches(['1', '2', '&']).starts_with('>');
    let redirected = words.iter().position(redirects).unwrap_or(words.len());
    let (words, redirection) = words.split_at(redirected);
    let names = || words.iter().filter(|word| is_name(word)).map(|word| name(word));
    match (without_folder(program), is_git) {
        ("rm", _) => names().map(ShellChange::Removes).collect(),
        ("mv", _) => moves(&names().collect::<Vec<_>>()),
        // Of a folder, the files are not known.
        ("cp", false)
            if !words.iter().any(|word| matches!(*word, "-r" | "-R" | "-a" | "-rf" | "--recursive")) =>
        {
            let copied = moves(&names().collect::<Vec<_>>()).into_iter();
            copied
                .filter_map(|change| match change {
                    ShellChange::Moves { to, .. } => Some(ShellChange::Writes(to)),
                    _ => None,
                })
                .collect()
        }
        ("sed", false) if words.iter().any(|word| edits_in_place(word)) => {
            edited(words, &["-e", "-f", "--expression", "--file"])
        }
        ("perl" | "ruby", false) if words.iter().any(|word| edits_in_place(word)) => {
            edited(words, &["-e", "-pe", "-ne", "-pie", "-nie"])
        }
        ("cat" | "echo" | "printf", false) => written(redirection).into_iter().collect(),
        ("tee", false) if words.contains(&"-a") => names().map(ShellChange::Edits).collect(),
        ("tee", false) => names().map(ShellChange::Writes).collect(),
        ("restore", true) if !words.contains(&"--staged") => names().map(ShellChange::Restores).collect(),
        // Without the mark, a branch may be meant: of its name, no file is known.
        ("checkout", true) => {
            let mark = words.iter().position(|word| *word == "--").map_or(0, |mark| mark + 1);
            let files = words[mark..].iter().filter(|word| is_name(word));
            files.map(|word| ShellChange::Restores(name(word))).collect()
        }
        ("reset", true) if words.contains(&"--hard") => vec![ShellChange::Restores(".".to_owned())],
        ("stash", true) if matches!(words.first(), None | Some(&("push" | "save" | "-u" | "-m"))) => {
            vec![ShellChange::Restores(".".to_owned())]
        }
        _ => Vec::new(),
    }
}

/// Checks whether a word names one file of the work rather than an option, a pattern, a device or a file for
/// the time being.
fn is_name(word: &str) -> bool {
    const ELSEWHERE: [&str; 3] = ["/dev/", "/tmp/", "/proc/"];
    let is_option = word.starts_with('-') && word.len() > 1;
    !is_option
        && !word.is_empty()
        && !word.contains(['*', '?', '$', '`', '{', '>', '<', '|', '"', '\n'])
        && !ELSEWHERE.iter().any(|folder| word.starts_with(folder))
}

fn name(word: &str) -> String {
    without_dot(word).trim_end_matches('/').to_owned()
}

/// Returns the moves to the last of `names`. A folder may be named without its slash: a file with an ending
/// gets no name without one.
fn moves(names: &[String]) -> Vec<ShellChange> {
    let Some((to, from)) = names.split_last() else { return Vec::new() };
    let has_ending = |name: &str| without_folder(name).trim_start_matches('.').contains('.');
    // Several at once are moved into a folder.
    let moved = from.iter().map(|moved| {
        let is_into = from.len() > 1 || has_ending(moved) && !has_ending(to);
        let to = if is_into { format!("{to}/{}", without_folder(moved)) } else { to.clone() };
        ShellChange::Moves { from: moved.clone(), to }
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

/// Returns the file into which the output goes.
fn written(redirection: &[&str]) -> Option<ShellChange> {
    let (sign, after) = redirection.split_first()?;
    let (is_more, file) = match sign.strip_prefix(">>") {
        Some(file) => (true, file),
        None => (false, sign.strip_prefix('>')?),
    };
    let file = if file.is_empty() { after.first().copied()? } else { file };
    let file = Some(file).filter(|file| is_name(file) && !file.starts_with('&')).map(name)?;
    Some(if is_more { ShellChange::Edits(file) } else { ShellChange::Writes(file) })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::command_line::without_documents;
    use super::ShellChange::{Edits, Moves, Removes, Restores, Writes};
    use super::*;

    #[test]
    fn what_a_command_does_to_files_is_read_from_its_words() {
        let moves = |from: &str, to: &str| Moves { from: from.into(), to: to.into() };
        for (command, expected) in [
            (
                "cd /w && rm -f ./a.py b/ 2>/dev/null; rm *.py",
                vec![Removes("a.py".into()), Removes("b".into())],
            ),
            ("git rm -r b", vec![Removes("b".into())]),
            ("mv a.py lib/b.py", vec![moves("a.py", "lib/b.py")]),
            ("git mv src/a.py lib", vec![moves("src/a.py", "lib/a.py")]),
            ("mv a.py b.py lib/", vec![moves("a.py", "lib/a.py"), moves("b.py", "lib/b.py")]),
            ("git mv old new", vec![moves("old", "new")]),
            ("cp a.py lib; cp -r a b", vec![Writes("lib/a.py".into())]),
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
            ("python a.py > out.log 2>&1; cat a > /tmp/b; echo $x > $y; cat a 2>&1", vec![]),
            (
                "git checkout -- a.rs && git restore b.rs",
                vec![Restores("a.rs".into()), Restores("b.rs".into())],
            ),
            ("git checkout src/a.rs; git restore --staged a.rs", vec![Restores("src/a.rs".into())]),
            ("git stash && git reset --hard HEAD~1", vec![Restores(".".into()), Restores(".".into())]),
            ("git stash pop; git checkout -b next", vec![Restores("next".into())]),
            ("echo 'it", vec![]),
        ] {
            assert_eq!(shell_changes(&without_documents(command)), expected, "{command}");
        }
    }
}
