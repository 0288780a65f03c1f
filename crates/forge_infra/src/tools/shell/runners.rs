//! Programs that run other programs, always or by an option. No pattern allows a command that may do so.

use self::Sign::{Check, First, Letter, Long, Start, Text, Word};

/// Programs that run what their arguments or their input name.
const RUNNERS: &[&str] = &[
    "sh", "bash", "dash", "zsh", "ksh", "fish", "busybox", "eval", "exec", "command", "builtin", "env",
    "sudo", "doas", "su", "nohup", "setsid", "nice", "ionice", "time", "timeout", "stdbuf", "xargs",
    "parallel", "watch", "script", "ssh", "source", ".", "trap", "chroot", "unshare", "nsenter", "flock",
    "strace", "ltrace", "gdb", "entr", "ed", "ex", "vi", "vim", "nvim", "emacs",
];

/// An argument by which a program runs another.
enum Sign {
    /// This argument.
    Word(&'static str),
    /// The option `--NAME`, also shortened or with a value.
    Long(&'static str),
    /// This letter among short options.
    Letter(char),
    /// This letter in the first argument, which may have no dash.
    First(char),
    /// An argument that begins with this.
    Start(&'static str),
    /// This text in any argument.
    Text(&'static str),
    /// Arguments for which this is true.
    Check(fn(&[&str]) -> bool),
}

/// Programs that run others only by some of their arguments.
const SIGNS: &[(&[&str], &[Sign])] = &[
    (
        &["git"],
        &[
            Check(runs_by_git),
            Long("config-env"),
            Long("exec"),
            Long("exec-path"),
            Long("upload-pack"),
            Long("receive-pack"),
            Long("extcmd"),
            Long("open-files-in-pager"),
        ],
    ),
    (
        &["find", "gfind"],
        &[
            Word("-exec"),
            Word("-execdir"),
            Word("-ok"),
            Word("-okdir"),
            // These write files.
            Word("-fls"),
            Start("-fprint"),
        ],
    ),
    (&["fd", "fdfind"], &[Letter('x'), Letter('X'), Long("exec"), Long("exec-batch")]),
    (
        &["tar", "gtar", "bsdtar"],
        &[
            Long("checkpoint-action"),
            Long("to-command"),
            Long("use-compress-program"),
            Long("info-script"),
            Long("new-volume-script"),
            Long("rmt-command"),
            Long("rsh-command"),
            Letter('I'),
            Letter('F'),
            First('I'),
            First('F'),
        ],
    ),
    (
        &["awk", "gawk", "mawk", "nawk"],
        &[
            Text("system"),
            Text("getline"),
            Text("|"),
            Text("@"),
            Check(prints_to_files),
            Check(has_risky_awk_letter),
            Long("file"),
            Long("exec"),
            Long("include"),
            Long("load"),
            // These write files.
            Long("dump-variables"),
            Long("pretty-print"),
            Long("profile"),
            Long("debug"),
        ],
    ),
    (&["sed", "gsed"], &[Check(runs_by_sed)]),
    (&["rsync"], &[Letter('e'), Long("rsh"), Long("rsync-path")]),
    (&["scp", "sftp"], &[Letter('o'), Letter('S'), Letter('F'), Letter('D'), Letter('b')]),
    (&["man"], &[Start("-P"), Start("-H"), Long("pager"), Long("html")]),
    (
        &["less", "more", "most"],
        &[Start("+"), Start("-k"), Long("lesskey-file"), Long("lesskey-src"), Long("lesskey-content")],
    ),
    (&["sort", "gsort"], &[Long("compress-program")]),
    (&["split", "gsplit"], &[Long("filter")]),
    (&["zip"], &[Start("-TT"), Long("unzip-command")]),
    (&["rg"], &[Long("pre"), Long("hostname-bin")]),
    (&["bat", "ag", "ack"], &[Long("pager")]),
    (&["fzf"], &[Long("preview"), Long("bind")]),
    (&["wget"], &[Long("use-askpass")]),
];

/// Checks whether a program may run others by these arguments.
pub(super) fn runs_others(program: &str, arguments: &[&str]) -> bool {
    let mut signs =
        SIGNS.iter().filter(|(programs, _)| programs.contains(&program)).flat_map(|(_, signs)| *signs);
    RUNNERS.contains(&program) || signs.any(|sign| sign.is_in(arguments))
}

impl Sign {
    fn is_in(&self, arguments: &[&str]) -> bool {
        let any = |is_sign: &dyn Fn(&str) -> bool| arguments.iter().any(|argument| is_sign(argument));
        match self {
            Word(word) => arguments.contains(word),
            Long(name) => any(&|argument| is_long(argument, name)),
            Letter(letter) => any(&|argument| is_short(argument) && argument.contains(*letter)),
            First(letter) => {
                arguments.first().is_some_and(|first| !first.starts_with('-') && first.contains(*letter))
            }
            Start(start) => any(&|argument| argument.starts_with(start)),
            Text(text) => any(&|argument| argument.contains(text)),
            Check(runs) => runs(arguments),
        }
    }
}

/// Checks whether an argument is the option `--NAME`, as it is or shortened.
fn is_long(argument: &str, name: &str) -> bool {
    let given = argument.strip_prefix("--").map(|option| option.split('=').next().unwrap_or(option));
    given.is_some_and(|given| !given.is_empty() && name.starts_with(given))
}

fn is_short(argument: &str) -> bool {
    argument.starts_with('-') && !argument.starts_with("--")
}

/// Options of git itself whose value may be the next word.
const GIT_VALUES: &[&str] =
    &["-C", "--git-dir", "--work-tree", "--namespace", "--shallow-file", "--attr-source", "--super-prefix"];

/// Options of git itself without a value.
const GIT_FLAGS: &[&str] = &[
    "-v",
    "--version",
    "-h",
    "--help",
    "--html-path",
    "--man-path",
    "--info-path",
    "-p",
    "--paginate",
    "-P",
    "--no-pager",
    "--no-replace-objects",
    "--no-lazy-fetch",
    "--no-optional-locks",
    "--no-advice",
    "--bare",
    "--literal-pathspecs",
    "--glob-pathspecs",
    "--noglob-pathspecs",
    "--icase-pathspecs",
];

/// Checks whether git runs a program that the arguments name, or that a setting among them does. After an
/// option that is not known, it cannot be told which word is the command.
fn runs_by_git(arguments: &[&str]) -> bool {
    let mut rest = arguments.iter().copied();
    let command = loop {
        match rest.next() {
            None => return false,
            Some(option) if GIT_VALUES.contains(&option) => {
                rest.next();
            }
            Some(option) if GIT_FLAGS.contains(&option) => {}
            Some(option) if option.starts_with('-') => {
                let name = option.split_once('=').map_or("", |(name, _)| name);
                if !name.starts_with("--") || !GIT_VALUES.contains(&name) {
                    return true;
                }
            }
            Some(command) => break command,
        }
    };
    let rest: Vec<&str> = rest.collect();
    let signs: &[Sign] = match command {
        "bisect" => &[Word("run")],
        "submodule" => &[Word("foreach")],
        // A template may hold hooks.
        "clone" => &[Letter('c'), Letter('u'), Long("config"), Long("template")],
        "init" => &[Long("template")],
        "grep" => &[Letter('O')],
        "difftool" | "rebase" => &[Letter('x')],
        // A setting may name a program.
        "config" => return !only_reads_settings(&rest),
        "filter-branch" | "send-email" => return true,
        _ => &[],
    };
    signs.iter().any(|sign| sign.is_in(&rest))
}

/// Checks whether `git config` with these arguments only prints settings.
fn only_reads_settings(arguments: &[&str]) -> bool {
    const PLACES: [&str; 7] =
        ["--global", "--local", "--system", "--worktree", "--show-origin", "--show-scope", "-z"];
    let mut told = arguments.iter().skip_while(|argument| PLACES.contains(argument));
    let first = told.next();
    let is_key = first.is_some_and(|first| !first.starts_with('-') && first.contains('.'));
    first
        .is_some_and(|first| matches!(*first, "-l" | "--list" | "get" | "list") || first.starts_with("--get"))
        || is_key && told.next().is_none()
}

/// Checks whether a program of awk may print to a file. A comparison after `print` looks the same.
fn prints_to_files(arguments: &[&str]) -> bool {
    let mut printing = arguments.iter().filter_map(|argument| argument.split_once("print"));
    printing.any(|(_, printed)| printed.contains('>'))
}

/// Checks whether short options of awk, also combined ones, name a file with a program or one to write.
fn has_risky_awk_letter(arguments: &[&str]) -> bool {
    arguments.iter().filter(|argument| is_short(argument)).any(|argument| {
        // The rest of the word is the value of one of these.
        let mut letters = argument[1..].chars().take_while(|c| !matches!(c, 'F' | 'v' | 'e' | 'L'));
        letters.any(|c| "fEilWdDpo".contains(c))
    })
}

/// Checks whether sed may do more than print, delete and replace lines: it can run programs and write files.
fn runs_by_sed(arguments: &[&str]) -> bool {
    let (mut scripts, mut others): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    let mut rest = arguments.iter().copied();
    while let Some(argument) = rest.next() {
        if is_long(argument, "file") {
            return true;
        } else if is_long(argument, "expression") {
            scripts.extend(argument.split_once('=').map(|(_, script)| script).or_else(|| rest.next()));
        } else if is_long(argument, "line-length") {
            if !argument.contains('=') {
                rest.next();
            }
        } else if argument.starts_with("--") {
            if argument == "--" {
                others.extend(rest.by_ref());
            }
        } else if is_short(argument) && argument.len() > 1 {
            // Options that have no value may stand before one that has one.
            let value = argument.find(['e', 'f', 'i', 'l']).map(|at| argument.split_at(at + 1));
            match value {
                Some((options, _)) if options.ends_with('f') => return true,
                Some((options, "")) if options.ends_with('e') => scripts.extend(rest.next()),
                Some((options, script)) if options.ends_with('e') => scripts.push(script),
                Some((options, "")) if options.ends_with('l') => {
                    rest.next();
                }
                Some(_) | None => {}
            }
        } else {
            others.push(argument);
        }
    }
    if scripts.is_empty() {
        scripts.extend(others.first());
    }
    !scripts.into_iter().all(is_plain_script)
}

/// Checks whether each command of a script of sed only prints, deletes or replaces lines.
fn is_plain_script(script: &str) -> bool {
    let mut rest = script.trim_start_matches(is_separator);
    while !rest.is_empty() {
        let Some(behind) = plain_command(rest) else { return false };
        let behind = behind.trim_start_matches([' ', '\t']);
        if !behind.is_empty() && !behind.starts_with([';', '\n']) {
            return false;
        }
        rest = behind.trim_start_matches(is_separator);
    }
    true
}

fn is_separator(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | ';')
}

/// Returns what follows a command that prints, deletes or replaces lines; `None` if it is another one.
fn plain_command(text: &str) -> Option<&str> {
    let mut rest = behind_address(text)?;
    if let Some(second) = rest.strip_prefix(',') {
        rest = behind_address(second)?;
    }
    let rest = rest.trim_start_matches([' ', '\t', '!']);
    let command = rest.chars().next()?;
    let rest = &rest[command.len_utf8()..];
    match command {
        'p' | 'P' | 'd' | 'D' | 'q' | 'n' | 'N' | 'g' | 'G' | 'h' | 'H' | 'x' | '=' => Some(rest),
        's' | 'y' => {
            let end = rest.chars().next().filter(|end| end.is_ascii_punctuation() && *end != '\\')?;
            let rest = behind_delimiter(&rest[1..], end)?;
            let rest = behind_delimiter(rest, end)?;
            Some(rest.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, 'g' | 'p' | 'i' | 'I')))
        }
        _ => None,
    }
}

/// Returns what follows the address of a command, which may be missing.
fn behind_address(text: &str) -> Option<&str> {
    let text = text.trim_start_matches([' ', '\t']);
    if let Some(pattern) = text.strip_prefix('/') {
        return Some(behind_delimiter(pattern, '/')?.trim_start_matches('I'));
    }
    let is_number = |c: char| c.is_ascii_digit() || matches!(c, '~' | '+');
    Some(text.strip_prefix('$').unwrap_or_else(|| text.trim_start_matches(is_number)))
}

/// Returns what follows the next `end` that has no backslash before it.
fn behind_delimiter(text: &str, end: char) -> Option<&str> {
    let mut chars = text.chars();
    loop {
        match chars.next()? {
            '\\' => {
                chars.next()?;
            }
            c if c == end => return Some(chars.as_str()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(line: &str) -> bool {
        // Every second piece is in quotes.
        let pieces = line.split('\'').enumerate();
        let words: Vec<&str> = pieces
            .flat_map(|(n, piece)| if n % 2 == 0 { piece.split_whitespace().collect() } else { vec![piece] })
            .collect();
        runs_others(words[0], &words[1..])
    }

    #[test]
    fn an_option_by_which_a_program_runs_another_is_known() {
        for line in [
            "find . -name x -exec rm {} +",
            "find . -okdir rm {} +",
            "find . -fprintf .git/hooks/x y",
            "fd x -x rm",
            "fd --exec=rm",
            "git -c core.pager=x log",
            "git -C a -c alias.x=!y x",
            "git --config-env=a=B log",
            "git --exec-path=. log",
            "git rebase -x make main",
            "git rebase --exec make main",
            "git bisect run make",
            "git submodule --quiet foreach make",
            "git grep -Ovi x",
            "git clone --config core.fsmonitor=x y",
            "git clone --template=x y",
            "git init --template x",
            "git --shallow-file x -c alias.y=!z y",
            "git --attr-source x -c alias.y=!z y",
            "git --unknown x log",
            "git ls-remote --exec=x y",
            "git fetch-pack --exec=x y",
            "git push --exec=x y",
            "git config alias.x !y",
            "git config --global core.pager x",
            "git config core.pager -- --list",
            "git send-email --sendmail-cmd=x y",
            "git fetch --upload-pack=x y",
            "tar -cf a --checkpoint=1 --checkpoint-action=exec=x b",
            "tar xf a --to-c x",
            "tar -xIx -f a",
            "tar xIf x a",
            "awk 'BEGIN { system(\"x\") }'",
            "gawk '{ print | \"x\" }' a",
            "mawk '{ \"x\" | getline }' a",
            "awk -f a",
            "gawk -bf a",
            "mawk -W exec a",
            "mawk -We a",
            "gawk -o/x 1",
            "awk '{ print $1 > \"x\" }' a",
            "awk '{ printf \"a\" >> \"x\" }' a",
            "sed 's/a/b/e' c",
            "sed -n 's/a/b/gpe' c",
            "sed -ne 1p -e '1e x' c",
            "sed 1ex c",
            "sed '/a/ { e x' -e '}' c",
            "sed 's/a/b/w c' d",
            "sed -nf a b",
            "sed --expr=e b",
            "sed -l 5 1ex c",
            "sed -nl 5 1ex c",
            "sed --line-length 5 1ex c",
            "rsync -ave x a b",
            "rsync --rsh=x a b",
            "scp -oProxyCommand=x a b:c",
            "ssh -o ProxyCommand=x a",
            "man -P x y",
            "less +!x y",
            "vim -c !x",
            "env -S x",
            "sort --compress-prog=x a",
            "zip a b -T -TT x",
            "rg --pre x y",
            "split --filter=x y",
        ] {
            assert!(runs(line), "{line}");
        }
    }

    #[test]
    fn what_runs_no_other_program_is_left_alone() {
        for line in [
            "find . -name '*.rs' -delete",
            "fd -e rs x",
            "git log --oneline -c",
            "git switch -c new",
            "git -C a commit -m 'x | y'",
            "git clean -fdx",
            "git --no-pager --git-dir=a log --all",
            "git config --get user.name",
            "git config -l",
            "git config --global --get-all x.y",
            "git commit --template=a",
            "tar -czf a b",
            "tar xf a --exclude=b",
            "awk '{ print $1 }' a",
            "awk -F: '$3 > 5' a",
            "awk -Ff -v x=f '$3 > 5 { print $1 }' a",
            "sed -n '10,20p' example.txt",
            "sed -i.bak -E 's/a(b)/\\1/g; s|c|d/e|2p' e",
            "sed '/a/,$d;/b\\/e/!p' e",
            "sed -l 5 -n p e",
            "sed -e 's/a/e/' -e '$!N' e",
            "rsync -av a b",
            "scp a b:c",
            "man ls",
            "less a",
            "sort -u a",
            "rg -n --pretty x",
        ] {
            assert!(!runs(line), "{line}");
        }
    }
}
