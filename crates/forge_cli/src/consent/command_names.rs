//! The words of a command that may name files, read as a shell reads them.
//!
//! More words than a shell finds do no harm: only those count that name a file of the project. No file may be
//! missed, so this reads on behind what is not certain; the permissions of the tool `shell` need certain
//! commands, for which `forge_infra` has a reader of its own (`tools/shell/command_parts.rs`).

use std::collections::BTreeMap;
use std::path::Path;

/// The depth to which lines within words are read, as in `sh -c 'sh -c x'`.
const MOST_DEPTH: usize = 3;
/// The most folders in which later words are looked up.
const MOST_FOLDERS: usize = 16;
/// Words after which a folder follows in which the command continues.
const CHANGES: &[&str] = &["cd", "pushd", "-C", "--prefix", "--directory", "--chdir", "--cwd"];
/// Programs that read a script from a pipe.
const SHELLS: &[&str] = &["sh", "bash", "dash", "ash", "zsh", "ksh", "fish", "busybox"];

/// The options in a variable by which a program loads something.
struct Options {
    variable: &'static str,
    /// Those with a list of folders.
    folders: &'static [&'static str],
    /// Those with a module.
    modules: &'static [&'static str],
    /// The ends that are left out in the name of a module.
    ends: &'static [&'static str],
    /// True if a module that is named without a path may be one of the project's.
    finds_packages: bool,
}

const OPTIONS: [Options; 3] = [
    Options {
        variable: "PERL5OPT",
        folders: &["-I", "-Mlib=", "-mlib="],
        modules: &[],
        ends: &[],
        finds_packages: false,
    },
    Options {
        variable: "RUBYOPT",
        folders: &["-I"],
        modules: &["-r"],
        ends: &["", ".rb", ".so"],
        finds_packages: false,
    },
    Options {
        variable: "NODE_OPTIONS",
        folders: &[],
        modules: &["--require", "-r", "--import", "--loader", "--experimental-loader"],
        ends: &["", ".js", ".cjs", ".mjs", ".json", ".node", "/index.js", "/package.json"],
        finds_packages: true,
    },
];

/// The words of a command that may be paths.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CommandNames {
    pub(super) words: Vec<String>,
    /// True if the command may name other files: by a pattern or a variable, or because it cannot be read.
    pub(super) has_others: bool,
    /// The folders in which later words may be paths too.
    folders: Vec<String>,
}

/// The words of a line for a shell.
#[derive(Debug, Default)]
struct ShellLine {
    words: Vec<ShellWord>,
    /// True if words are missing that only the shell knows.
    has_others: bool,
    /// The word that is being read.
    word: Option<String>,
    /// True if the next word is a file that the shell only writes.
    is_written: bool,
    /// True if the words are those of a command that reads a pipe.
    is_piped: bool,
}

/// A word as a program gets it.
#[derive(Debug)]
struct ShellWord {
    text: String,
    /// True if it is a file that the shell only writes: its content before that changes nothing.
    is_written: bool,
}

impl CommandNames {
    /// Returns the words of a line for a shell.
    pub(super) fn of_line(line: &str) -> Self {
        let mut names = Self::default();
        names.words.extend(pieces(line).filter(|piece| !is_written(line, piece)).map(str::to_owned));
        names.add_line(line, 0);
        names
    }

    /// Returns the words of a program and its arguments, which no shell reads.
    pub(super) fn of_arguments(arguments: &[String]) -> Self {
        let mut names = Self::default();
        for (n, text) in arguments.iter().enumerate() {
            // Any other program may read what follows a `>`.
            let is_line = is_before_line(&arguments[..n]);
            let named = pieces(text).filter(|piece| !(is_line && is_written(text, piece)));
            names.words.extend(named.map(str::to_owned));
        }
        let words = arguments.iter().map(|text| ShellWord { text: text.clone(), is_written: false });
        names.add_words(words.collect(), 0);
        names
    }

    /// Adds the words of the variables of `command` that decide what it uses. `folder` is the project's: the
    /// content of a folder in it cannot be known.
    pub(super) fn add_variables(
        &mut self,
        variables: &BTreeMap<String, String>,
        command: &[String],
        folder: &Path,
    ) {
        for (name, value) in variables {
            self.words.extend(pieces(value).flat_map(|piece| piece.split(':')).map(str::to_owned));
            let upper = name.to_ascii_uppercase();
            let is_list = upper.ends_with("PATH") || upper.ends_with("LIB") || upper == "PYTHONHOME";
            self.has_others |= is_list && may_be_inside(value, folder);
            if let Some(program) = command.first().filter(|_| is_list) {
                self.words.extend(value.split(':').map(|part| path_in(part, program)));
            }
            self.add_options(&upper, value, folder);
        }
    }

    /// Adds the modules that the options in a variable name. The content of a folder or a package of the
    /// project's cannot be known.
    fn add_options(&mut self, variable: &str, value: &str, folder: &Path) {
        let Some(options) = OPTIONS.iter().find(|options| options.variable == variable) else { return };
        let mut words = value.split_whitespace().map(|word| word.trim_matches(['"', '\'']));
        while let Some(word) = words.next() {
            if let Some(list) = value_of(word, options.folders, &mut words) {
                self.has_others |= may_be_inside(&list.replace(',', ":"), folder);
            } else if let Some(module) = value_of(word, options.modules, &mut words) {
                self.has_others |= options.finds_packages && !module.starts_with(['.', '/']);
                self.words.extend(options.ends.iter().map(|end| format!("{module}{end}")));
            }
        }
    }

    fn add_line(&mut self, line: &str, depth: usize) {
        let ShellLine { words, has_others, .. } = ShellLine::read(line);
        self.has_others |= has_others;
        self.add_words(words, depth);
    }

    fn add_words(&mut self, words: Vec<ShellWord>, depth: usize) {
        // True if the words before say that a line for a shell follows, a folder, or a value of an option.
        let (mut is_line, mut is_folder, mut is_value) = (false, false, false);
        for ShellWord { text, is_written } in words {
            if is_written {
                continue;
            }
            let is_option = text.starts_with(['-', '+']);
            let is_quoting = text.contains(|c: char| c.is_whitespace() || matches!(c, '\'' | '"' | '\\'));
            if depth < MOST_DEPTH && (is_line || is_quoting) {
                let had_others = self.has_others;
                self.add_line(&text, depth + 1);
                // Only a shell expands it.
                self.has_others = had_others || (is_line && self.has_others);
            } else {
                self.has_others |= is_line;
            }
            // As in `--file=PATH`.
            for part in text.split(['=', ',', ':']) {
                self.add_word(part);
            }
            self.add_word(&text);
            if is_folder && !is_option {
                self.enter(&text);
            } else if let Some(folder) = folder_in(&text) {
                self.enter(folder);
            }
            // The folder before.
            self.has_others |= is_folder && text == "-";
            // Other options may follow first, as in `sh -c -o pipefail LINE`.
            is_line = leads_to_line(&text) || (is_line && (is_option || is_value));
            is_folder = CHANGES.contains(&text.as_str()) || (is_folder && is_option);
            is_value = is_option && text.ends_with('o');
        }
    }

    /// Adds a word as a path from the folder of the command, and from those that it changes to.
    fn add_word(&mut self, word: &str) {
        let inner: Vec<String> = self.folders.iter().map(|folder| path_in(folder, word)).collect();
        self.words.push(word.to_owned());
        self.words.extend(inner);
    }

    /// Looks later words up in `folder` too, as seen from each folder so far.
    fn enter(&mut self, folder: &str) {
        let inner = self.folders.iter().map(|outer| path_in(outer, folder));
        let entered: Vec<String> = inner.chain([folder.to_owned()]).collect();
        for folder in entered {
            if self.folders.contains(&folder) {
                continue;
            }
            if self.folders.len() == MOST_FOLDERS {
                self.has_others = true;
                return;
            }
            self.folders.push(folder);
        }
    }
}

/// Checks whether a list of folders may have one of the project: any but absolute ones elsewhere, and the
/// user's own `PATH`.
fn may_be_inside(list: &str, folder: &Path) -> bool {
    list.split(':').any(|part| {
        let path = Path::new(part);
        let is_elsewhere =
            path.is_absolute() && !path.starts_with(folder) && !part.contains('$') && !part.contains("..");
        !is_elsewhere && !matches!(part, "$PATH" | "${PATH}")
    })
}

/// Returns the value of a word that begins with one of `options`: the rest of it, or the next word.
fn value_of<'v>(
    word: &'v str,
    options: &[&str],
    next: &mut impl Iterator<Item = &'v str>,
) -> Option<&'v str> {
    let value = options.iter().find_map(|option| word.strip_prefix(*option))?;
    if value.is_empty() { next.next() } else { Some(value.strip_prefix('=').unwrap_or(value)) }
}

/// Returns a path as seen from `folder`.
fn path_in(folder: &str, path: &str) -> String {
    if path.starts_with('/') {
        return path.to_owned();
    }
    format!("{folder}/{}", path.strip_prefix("./").unwrap_or(path))
}

/// Returns the folder that an option changes to, as in `-CFOLDER` and `--prefix=FOLDER`.
fn folder_in(text: &str) -> Option<&str> {
    if let Some((option, folder)) = text.split_once('=') {
        return Some(folder).filter(|_| option.starts_with("--") && CHANGES.contains(&option));
    }
    text.strip_prefix("-C").filter(|folder| !folder.is_empty())
}

/// Checks whether a line for a shell follows this word, or other options before it.
fn leads_to_line(text: &str) -> bool {
    let has_line = text.starts_with('-') && !text.starts_with("--") && text.contains('c');
    has_line || matches!(text, "eval" | "trap")
}

/// Checks whether a shell that is installed reads the argument after these as a line, as in `sh -c LINE`. A
/// project's own program may have the name of a shell.
fn is_before_line(arguments: &[String]) -> bool {
    let Some((program, options)) = arguments.split_first() else { return false };
    let name = ["/bin/", "/usr/bin/"].iter().find_map(|folder| program.strip_prefix(*folder));
    SHELLS.contains(&name.unwrap_or(program))
        && options.iter().all(|option| option.starts_with('-'))
        && options.last().is_some_and(|option| leads_to_line(option))
}

fn is_shell(word: &str) -> bool {
    SHELLS.contains(&word.rsplit('/').next().unwrap_or(word))
}

impl ShellLine {
    fn read(line: &str) -> Self {
        let mut read = Self::default();
        let mut rest = line.chars().peekable();
        let mut before = ' ';
        while let Some(c) = rest.next() {
            match c {
                '\'' => read.add_quoted(&mut rest),
                '"' => read.add_double_quoted(&mut rest),
                '\\' => match rest.next() {
                    Some('\n') | None => {}
                    Some(escaped) => read.push(escaped),
                },
                '#' if read.word.is_none() => while rest.next_if(|c| *c != '\n').is_some() {},
                '>' => {
                    read.finish();
                    read.is_written = before != '<';
                }
                // `>&` and `>|` are followed by a file as well.
                '&' | '|' if before == '>' => {}
                '`' | ';' | '|' | '&' | '(' | ')' | '<' | '\n' => {
                    read.finish();
                    read.is_written = false;
                    // The lines of a text within the line are no words.
                    read.has_others |= c == '`' || (c == '<' && before == '<');
                    match c {
                        '|' => read.is_piped = before != '|',
                        '&' => read.is_piped &= before == '|',
                        ';' | '\n' => read.is_piped = false,
                        _ => {}
                    }
                }
                '~' if read.word.as_ref().is_none_or(|word| word.ends_with(['=', ':'])) => {
                    read.has_others = true;
                    read.push(c);
                }
                c if c.is_whitespace() => read.finish(),
                '$' | '*' | '?' => {
                    read.has_others = true;
                    read.push(c);
                }
                '[' | '{' => {
                    // Alone, they are a test, a group, or a place for a name.
                    let ends = rest.peek().is_none_or(|next| next.is_whitespace() || "[}".contains(*next));
                    let begins = read.word.as_ref().is_none_or(|word| word == "[");
                    read.has_others |= !(begins && ends);
                    read.push(c);
                }
                plain => read.push(plain),
            }
            before = c;
        }
        read.finish();
        read
    }

    fn push(&mut self, c: char) {
        self.word.get_or_insert_default().push(c);
    }

    fn finish(&mut self) {
        if let Some(text) = self.word.take() {
            let is_written = std::mem::take(&mut self.is_written);
            // The script may name anything.
            self.has_others |= self.is_piped && is_shell(&text);
            self.words.push(ShellWord { text, is_written });
        }
    }

    /// Adds what is in single quotes, up to the second one.
    fn add_quoted(&mut self, rest: &mut impl Iterator<Item = char>) {
        self.word.get_or_insert_default();
        loop {
            match rest.next() {
                Some('\'') => return,
                Some(c) => self.push(c),
                None => {
                    self.has_others = true;
                    return;
                }
            }
        }
    }

    /// Adds what is in double quotes, up to the second one.
    fn add_double_quoted(&mut self, rest: &mut impl Iterator<Item = char>) {
        self.word.get_or_insert_default();
        loop {
            match rest.next() {
                Some('"') => return,
                Some('\\') => match rest.next() {
                    Some('\n') => {}
                    Some(c @ ('"' | '\\' | '$' | '`')) => self.push(c),
                    other => {
                        self.push('\\');
                        other.into_iter().for_each(|c| self.push(c));
                    }
                },
                Some(c) => {
                    self.has_others |= matches!(c, '$' | '`');
                    self.push(c);
                }
                None => {
                    self.has_others = true;
                    return;
                }
            }
        }
    }
}

/// Returns the parts of a text that may be a path: all of it, and the parts between blanks and shell
/// characters.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let is_sign = |c: char| c.is_whitespace() || "'\"`;|&<>()$=,{}".contains(c);
    std::iter::once(text).chain(text.split(is_sign)).filter(|piece| !piece.is_empty())
}

/// Checks whether a shell only writes what `piece`, a part of `text`, names: its content at the time of the
/// consent changes nothing, and the command itself changes it.
fn is_written(text: &str, piece: &str) -> bool {
    let at = piece.as_ptr() as usize - text.as_ptr() as usize;
    let before = text[..at].trim_end_matches([' ', '\t', '\'', '"', '|']);
    before.ends_with('>') && !before.ends_with("<>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_a_shell_reads_it() {
        for (line, word) in [
            ("\"./y z.sh\"", "./y z.sh"),
            ("\\./x.sh", "./x.sh"),
            ("./x\"\"'.sh'", "./x.sh"),
            ("sh <'a b'", "a b"),
            ("a --file=\"./y z.sh\"", "./y z.sh"),
            ("sh -c \"./'y z'.sh; b\"", "./y z.sh"),
            ("bash -lc 'sh -c \"\\./x.sh\"'", "./x.sh"),
            ("[[ -f a ]] && { ./'x'.sh; } # don't", "./x.sh"),
            ("find . -exec ./'x'.sh {} +", "./x.sh"),
            ("awk '{ print $1 }' 'a b'", "a b"),
            ("cd tools && ./x.sh", "tools/x.sh"),
            ("(cd a && b); cd -P c; cd d; ./x.sh", "c/d/x.sh"),
            ("cd a; sh -c 'cd b && sh ./x.sh'", "a/b/x.sh"),
            ("cd a; /b/x.sh", "/b/x.sh"),
            ("env -C tools ./x.sh", "tools/x.sh"),
            ("make -Ctools x.sh", "tools/x.sh"),
            ("npm --prefix=tools exec ./x.sh", "tools/x.sh"),
            ("trap './x.sh' EXIT", "./x.sh"),
            ("ls | cat || sh x.sh", "x.sh"),
        ] {
            let names = CommandNames::of_line(line);
            assert!(names.words.iter().any(|known| known == word), "{line}: {names:?}");
            assert!(!names.has_others, "{line}: {names:?}");
        }
        let names = CommandNames::of_line("a > 'b c' 2>&1");
        assert!(!names.words.iter().any(|word| word == "b c"), "{names:?}");
    }

    #[test]
    fn a_file_that_a_shell_only_writes_is_not_named() {
        for (arguments, expected) in [
            (&["sh", "-c", "serve > log 2>&1"][..], false),
            (&["/bin/bash", "-x", "-lc", "serve >>'log'"], false),
            (&["sh", "-c", "serve <> log"], true),
            (&["sh", "-c", "serve > log; cat log"], true),
            (&["sh", "-c", "cat <log"], true),
            // Whatever these do with their arguments, no shell has opened the file.
            (&["./sh", "-c", "serve > log"], true),
            (&["sh", "run", "-c", "serve > log"], true),
            (&["serve", "-c", "serve > log"], true),
            (&["sh", "-c", "true", "serve > log"], true),
        ] {
            let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
            let names = CommandNames::of_arguments(&arguments);
            assert_eq!(names.words.iter().any(|word| word == "log"), expected, "{arguments:?}");
        }
    }

    #[test]
    fn a_line_that_may_name_other_files_is_known() {
        for line in [
            "./*.sh",
            "sh x?",
            "./[ab]",
            "./{a,b}",
            "$X",
            "sh \"$X\"",
            "sh `ls`",
            "./'x",
            "sh -c './$X'",
            "sh -ce './*.sh'",
            "sh -c -e './*.sh'",
            "bash -c -o pipefail './*.sh'",
            "bash -co pipefail './*.sh'",
            "trap './*.sh' EXIT",
            "trap -- './*.sh' EXIT",
            "echo './*.sh' | sh",
            "ls |& sudo /bin/bash -s",
            "~/x.sh",
            "X=~/x.sh a",
            "cd -; ./x.sh",
            "sh <<E\nx\nE",
        ] {
            assert!(CommandNames::of_line(line).has_others, "{line}");
        }
        let arguments = ["sh", "-c", "./*.sh"].map(str::to_owned);
        assert!(CommandNames::of_arguments(&arguments).has_others);
        assert!(!CommandNames::of_arguments(&["a".to_owned(), "*".to_owned()]).has_others);
    }
}
