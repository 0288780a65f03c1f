//! A command line split into the simple commands that it runs, if they are certain.
//!
//! This is not a shell. It knows the few forms that every `sh` treats alike, and calls everything else
//! unclear; no pattern allows an unclear command. Quotes and backslashes are removed as the shell does, so
//! that `r"m"` is `rm`. It gives up at the first doubt; consent to a project's commands has to find every
//! file that they may name, so it has a reader of its own (`forge_cli/src/consent/command_names.rs`).

use forge_domain::{Subject, secret_by_name};

use super::runners::runs_others;

/// Words that are parts of the shell's grammar, not commands.
const GRAMMAR: &[&str] = &[
    "if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "in",
    "select", "function", "!", "[[", "coproc", "alias",
];

/// Programs that print what is in the files that they are given.
const PRINTERS: &[&str] = &[
    "cat", "tac", "nl", "head", "tail", "less", "more", "bat", "grep", "egrep", "fgrep", "rg", "ag", "awk",
    "sed", "cut", "sort", "uniq", "diff", "strings", "xxd", "od", "hexdump", "base64", "jq", "yq", "paste",
    "column",
];

/// Returns the files that the command line prints and that hold secrets by their names. It is a reminder, not
/// a wall: other output is searched when it is there.
pub(super) fn shown_secrets(line: &str) -> Vec<String> {
    let mut files = Vec::new();
    for part in line.split([';', '|', '&', '\n', '(', ')', '`']) {
        let is_end = |c: char| c.is_whitespace() || "<>'\"={}$,:".contains(c);
        let words = || part.split(is_end).filter(|word| !word.is_empty());
        if words().any(|word| PRINTERS.contains(&word.rsplit('/').next().unwrap_or(word))) {
            let named = words().filter(|word| secret_by_name(word).is_some());
            files.extend(named.map(|word| word.trim_start_matches("./").to_owned()));
        }
    }
    files.sort();
    files.dedup();
    files
}

/// Returns what the command line runs: each simple command, or an unclear one.
pub(super) fn parts(line: &str) -> Vec<Subject> {
    let unclear = || vec![Subject::Unclear(line.trim().to_owned())];
    let Some(commands) = simple_commands(line) else { return unclear() };
    let mut subjects = Vec::new();
    for words in commands {
        let Some(program) = words.first().map(|word| &word.text) else { continue };
        let name = program.rsplit('/').next().unwrap_or(program);
        if GRAMMAR.contains(&name) || name.is_empty() {
            return unclear();
        }
        let text = join(&words, |word| &word.text);
        // What a shell takes literally is told apart from what it expands, so that consent to one is none to
        // the other.
        let quoted = join(&words, |word| &word.quoted);
        if name != program {
            // By whatever path: what is forbidden by name stays forbidden.
            subjects.push(Subject::Command(
                std::iter::once(name)
                    .chain(words[1..].iter().map(|word| word.text.as_str()))
                    .collect::<Vec<_>>()
                    .join(" "),
            ));
        }
        let arguments: Vec<&str> = words[1..].iter().map(|word| word.text.as_str()).collect();
        if runs_others(name, &arguments) {
            subjects.push(Subject::Unclear(text.clone()));
        }
        if quoted != text {
            subjects.push(Subject::Command(quoted));
        }
        subjects.push(Subject::Command(text));
    }
    if subjects.is_empty() { unclear() } else { subjects }
}

/// A word of a command: as the program gets it, and as it would be written so that a shell expands nothing
/// in it that it did not expand.
struct Said {
    text: String,
    quoted: String,
}

fn join(words: &[Said], form: impl Fn(&Said) -> &String) -> String {
    words.iter().map(|word| form(word).as_str()).collect::<Vec<_>>().join(" ")
}

/// A word while it is read.
#[derive(Default)]
struct Word {
    text: String,
    /// True if there is a word at all: `''` is an empty one.
    is_there: bool,
    /// True if the shell may expand it to something else.
    is_open: bool,
    /// True if a part of it was quoted that the shell would otherwise split or expand.
    is_literal: bool,
    /// True if a part of it was quoted.
    is_quoted: bool,
}

/// Returns the words of each simple command; `None` if they are not certain.
fn simple_commands(line: &str) -> Option<Vec<Vec<Said>>> {
    let mut commands = Vec::new();
    let mut words: Vec<Said> = Vec::new();
    let mut word = Word::default();
    let mut rest = line;
    while let Some(next) = rest.chars().next() {
        let behind = &rest[next.len_utf8()..];
        rest = match next {
            ' ' | '\t' => {
                finish(&mut word, &mut words)?;
                behind
            }
            '\n' | ';' | '|' | '&' => {
                finish(&mut word, &mut words)?;
                if words.is_empty() && next != '\n' && !matches!(next, ';') {
                    return None;
                }
                commands.push(std::mem::take(&mut words));
                let doubled = matches!(next, '|' | '&') && behind.starts_with(next);
                let with_errors = next == '|' && behind.starts_with('&');
                if next == '&' && behind.starts_with('>') {
                    return None;
                }
                if doubled || with_errors { &behind[1..] } else { behind }
            }
            '\'' => {
                let (quoted, behind) = behind.split_once('\'')?;
                word.text.push_str(quoted);
                word.is_literal |= quoted.contains(is_special);
                (word.is_there, word.is_quoted) = (true, true);
                behind
            }
            '"' => {
                (word.is_there, word.is_quoted) = (true, true);
                let start = word.text.len();
                let rest = read_quoted(behind, &mut word.text)?;
                word.is_literal |= word.text[start..].contains(is_special);
                rest
            }
            '\\' => {
                let escaped = behind.chars().next()?;
                if escaped != '\n' {
                    word.is_literal |= is_special(escaped);
                    word.text.push(escaped);
                    (word.is_there, word.is_quoted) = (true, true);
                }
                &behind[escaped.len_utf8()..]
            }
            '>' | '<' => {
                let behind = harmless_redirection(rest, &mut word)?;
                finish(&mut word, &mut words)?;
                behind
            }
            // Expansions, groups, comments, and braces that a shell may expand.
            '$' | '`' | '(' | ')' | '{' | '}' | '#' => return None,
            control if control.is_control() => return None,
            '*' | '?' | '[' | ']' | '~' | '=' | '!' | '^' | '%' => {
                // At the place of the program these may make another command of it: a pattern, a home, a
                // variable.
                word.is_open = true;
                word.is_there = true;
                word.text.push(next);
                behind
            }
            plain => {
                word.is_there = true;
                word.text.push(plain);
                behind
            }
        };
    }
    finish(&mut word, &mut words)?;
    commands.push(words);
    commands.retain(|words| !words.is_empty());
    Some(commands)
}

/// Checks whether a shell splits a word at a character, or expands it.
fn is_special(c: char) -> bool {
    c.is_whitespace() || matches!(c, '*' | '?' | '[' | ']' | '~')
}

/// Adds a finished word to `words`; `None` if it is a program whose name is not certain.
fn finish(word: &mut Word, words: &mut Vec<Said>) -> Option<()> {
    let Word { text, is_there, is_open, is_literal, .. } = std::mem::take(word);
    if !is_there {
        return Some(());
    }
    if words.is_empty() && (is_open || text.contains(char::is_whitespace)) {
        return None;
    }
    let quoted = if is_literal { format!("'{}'", text.replace('\'', r"'\''")) } else { text.clone() };
    words.push(Said { text, quoted });
    Some(())
}

/// Adds the text between double quotes to `text`; returns what follows them.
fn read_quoted<'a>(mut rest: &'a str, text: &mut String) -> Option<&'a str> {
    loop {
        let next = rest.chars().next()?;
        rest = &rest[next.len_utf8()..];
        match next {
            '"' => return Some(rest),
            '$' | '`' => return None,
            '\\' => {
                let escaped = rest.chars().next()?;
                rest = &rest[escaped.len_utf8()..];
                match escaped {
                    '\n' => {}
                    '"' | '\\' | '$' | '`' => text.push(escaped),
                    other => text.extend(['\\', other]),
                }
            }
            plain => text.push(plain),
        }
    }
}

/// Returns what follows a redirection that writes no file: of one output into the other, or to `/dev/null`.
fn harmless_redirection<'a>(rest: &'a str, word: &mut Word) -> Option<&'a str> {
    // An unquoted digit before it names a stream, and is no word.
    if !word.is_quoted && word.text.bytes().all(|byte| byte.is_ascii_digit()) && word.text.len() <= 1 {
        *word = Word::default();
    }
    const FORMS: [&str; 6] = [">&1", ">&2", ">/dev/null", "> /dev/null", "</dev/null", "< /dev/null"];
    let form = FORMS.iter().find(|form| rest.starts_with(**form))?;
    let behind = &rest[form.len()..];
    behind
        .chars()
        .next()
        .is_none_or(|next| matches!(next, ' ' | '\t' | '\n' | ';' | '|' | '&'))
        .then_some(behind)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    /// Returns the parts as text, with `?` for unclear ones.
    fn read(line: &str) -> Vec<String> {
        let text = |subject: &Subject| match subject {
            Subject::Unclear(_) => "?".to_owned(),
            subject => subject.to_string(),
        };
        parts(line).iter().map(text).collect()
    }

    #[test]
    fn a_command_that_prints_a_file_of_secrets_is_known() {
        for (line, expected) in [
            ("cat .env", vec![".env"]),
            ("cd a && cat ./b/.env | head", vec!["b/.env"]),
            ("FOO=$(grep KEY '.env.local')", vec![".env.local"]),
            ("base64 < certs/server.pem", vec!["certs/server.pem"]),
            ("/bin/cat id_rsa .env id_rsa", vec![".env", "id_rsa"]),
            // They are used and not printed.
            ("cp .env.example .env", vec![]),
            ("git add .env; cat README.md", vec![]),
            ("ssh -i id_rsa host", vec![]),
            ("test -f .env && cargo test", vec![]),
            ("cat .env.example", vec![]),
        ] {
            assert_eq!(shown_secrets(line), expected, "{line}");
        }
    }

    #[test]
    fn simple_commands_are_told_apart() {
        for (line, expected) in [
            ("ls", vec!["ls"]),
            ("  cargo   test  -p x ", vec!["cargo test -p x"]),
            ("a; b && c || d | e & f\ng;", vec!["a", "b", "c", "d", "e", "f", "g"]),
            ("a |& b", vec!["a", "b"]),
            (
                r#"git commit -m "it's; done" 'a && b' c\;d"#,
                vec![r"git commit -m 'it'\''s; done' 'a && b' c;d", "git commit -m it's; done a && b c;d"],
            ),
            (r#"r"m" -rf x"#, vec!["rm -rf x"]),
            ("rm 'old *'", vec!["rm 'old *'", "rm old *"]),
            ("rm old *", vec!["rm old *"]),
            (r"\rm x", vec!["rm x"]),
            ("r\\\nm x", vec!["rm x"]),
            ("/bin/rm x", vec!["rm x", "/bin/rm x"]),
            ("ls *.rs ~/x a=b [ab]", vec!["ls *.rs ~/x a=b [ab]"]),
            ("make 2>&1 | tail -5", vec!["make", "tail -5"]),
            ("make >/dev/null 2>&1", vec!["make"]),
            ("a ''", vec!["a "]),
            // What runs another is what it is, and unclear.
            ("env rm x", vec!["?", "env rm x"]),
            ("/usr/bin/sudo rm x", vec!["sudo rm x", "?", "/usr/bin/sudo rm x"]),
            ("find . | xargs rm", vec!["find .", "?", "xargs rm"]),
            (r"find . -exec rm \;", vec!["?", "find . -exec rm ;"]),
            ("git -c core.pager=x log", vec!["?", "git -c core.pager=x log"]),
        ] {
            assert_eq!(read(line), expected, "{line}");
        }
    }

    #[test]
    fn what_is_not_certain_is_unclear() {
        for line in [
            "",
            " ",
            "echo $(rm x)",
            "echo `rm x`",
            "echo \"$(rm x)\"",
            "echo \"`rm x`\"",
            "echo $X",
            "$X y",
            "X=1 y",
            "LD_PRELOAD=x ls",
            "(rm x)",
            "{ rm x; }",
            "{rm,-rf,/}",
            "f() { rm x; }",
            "if true; then rm x; fi",
            "for a in b; do rm x; done",
            "! rm x",
            "echo x > file",
            "echo x >> file",
            "echo x >/dev/null.d/y",
            "echo x &> file",
            "cat <<EOF\nrm\nEOF",
            "cat < file",
            "diff <(rm x) y",
            "ls # rm",
            "ls 'unclosed",
            "ls \"unclosed",
            "ls \\",
            "/bin/r? x",
            "[ a ]",
            "~/x y",
            "'a b' c",
            "'' x",
            "&& rm x",
            "| rm x",
            "ls\rrm x",
            "ls\0rm",
            "/bin/ x",
        ] {
            assert_eq!(read(line), ["?"], "{line:?}");
        }
    }
}
