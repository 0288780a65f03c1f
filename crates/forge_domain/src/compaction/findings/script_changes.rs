//! The changes of files by a script that is in a command: those whose names it has as they are.

use std::sync::LazyLock;

use regex::Captures;

use super::command_line::{
    from_program, steps, without_documents, without_folder, without_version, words_of,
};
use super::pattern::{Pattern, any_of};
use super::shell_change::{Kind, ShellChange, is_name, name};

/// Most changes that are looked for in one script.
const MOST: usize = 64;

/// Returns the scripts that a command line gives an interpreter: as an argument, or as a here-document.
pub(super) fn scripts_in(command: &str) -> Vec<String> {
    let mut scripts = Vec::new();
    let mut lines = command.lines();
    while let Some(line) = lines.next() {
        let (before, after) = line.split_once("<<").unwrap_or((line, ""));
        let mark = after.trim_start_matches(['-', '~', ' ', '\'', '"', '\\']);
        let mark: String = mark.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let document: Vec<&str> = match mark.is_empty() {
            true => Vec::new(),
            false => lines.by_ref().take_while(|line| line.trim() != mark).collect(),
        };
        if steps(before).last().is_some_and(|step| interprets(&words_of(step))) {
            scripts.push(document.join("\n"));
        }
    }
    for step in steps(&without_documents(command)) {
        let words = words_of(step);
        let script = words.iter().skip_while(|word| !matches!(word.as_str(), "-c" | "-e" | "--eval")).nth(1);
        scripts.extend(script.filter(|_| interprets(&words)).cloned());
    }
    scripts.retain(|script| !script.is_empty());
    scripts
}

/// Checks whether words call an interpreter.
fn interprets(words: &[String]) -> bool {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let program = from_program(&words).first().map(|program| without_version(without_folder(program)));
    matches!(program, Some("python" | "ipython" | "node" | "deno" | "bun" | "tsx"))
}

/// Returns the changes that a script of Python or JavaScript makes, as far as its text names the files.
pub(super) fn script_changes(script: &str) -> Vec<ShellChange> {
    const SIGNS: [&str; 7] = ["remove(", "unlink", "rmtree", "open(", ".write_", "FileSync(", ".to_"];
    if !SIGNS.iter().any(|sign| script.contains(sign)) {
        return Vec::new();
    }
    let kinds: [Kind; 3] =
        [(&REMOVES, ShellChange::Removes), (&WRITES, ShellChange::Writes), (&APPENDS, ShellChange::Edits)];
    let mut found: Vec<(usize, ShellChange)> = Vec::new();
    for (pattern, change) in kinds {
        for captures in pattern.iter().flat_map(|pattern| pattern.captures_iter(script).take(MOST)) {
            let Some((at, file, token)) = file_of(&captures, script) else { continue };
            let change = match change(file) {
                ShellChange::Writes(file) if reads(script, token) => ShellChange::Edits(file),
                change => change,
            };
            found.push((at, change));
        }
    }
    found.sort_by_key(|(at, _)| *at);
    let mut changes: Vec<ShellChange> = found.into_iter().map(|(_, change)| change).collect();
    changes.dedup();
    changes
}

/// Returns where a change stands, the file, and the text that stands for it in the script: a name in quotes,
/// or a variable that is set to one.
fn file_of<'s>(captures: &Captures<'_>, script: &'s str) -> Option<(usize, String, &'s str)> {
    let found = captures.iter().skip(1).flatten().next()?;
    let token = &script[found.range()];
    let file = match token.strip_prefix(['"', '\'', '`']) {
        Some(quoted) => &quoted[..quoted.len() - 1],
        None => script.lines().rev().find_map(|line| value_of(line, token))?,
    };
    Some((found.start(), Some(file).filter(|file| is_name(file)).map(name)?, token))
}

/// Returns the name that a line sets a variable to: `path = Path("a.py")`.
fn value_of<'s>(line: &'s str, variable: &str) -> Option<&'s str> {
    const BEFORE: [&str; 3] = ["const ", "let ", "var "];
    let line = line.trim_start();
    let line = BEFORE.iter().find_map(|word| line.strip_prefix(word)).unwrap_or(line);
    let value = line.strip_prefix(variable)?.trim_start().strip_prefix('=')?.trim_start();
    let value = ["pathlib.Path(", "Path("].iter().find_map(|path| value.strip_prefix(path)).unwrap_or(value);
    let quote = value.chars().next().filter(|c| matches!(c, '"' | '\'' | '`'))?;
    value[1..].split(quote).next()
}

/// Checks whether a script reads the file as well: it is there already.
fn reads(script: &str, token: &str) -> bool {
    let forms = [
        format!("open({token})"),
        format!("open({token}, \"r"),
        format!("open({token}, 'r"),
        format!("open({token}, encoding"),
        format!("{token}.read_text("),
        format!("{token}).read_text("),
        format!("readFileSync({token}"),
    ];
    forms.iter().any(|form| script.contains(form))
}

/// A name in quotes, or a variable.
const FILE: &str = r#"("[^"\n]+"|'[^'\n]+'|`[^`$\n]+`|\b[A-Za-z_]\w*)"#;

/// Returns the pattern of calls, in which `FILE` stands for a file.
fn calls(forms: &[&str]) -> Option<regex::Regex> {
    let forms: Vec<String> = forms.iter().map(|form| form.replace("FILE", FILE)).collect();
    any_of("", &forms.iter().map(String::as_str).collect::<Vec<_>>())
}

static REMOVES: Pattern = LazyLock::new(|| {
    calls(&[
        r"\b(?:os\.(?:remove|unlink)|shutil\.rmtree|(?:fs\.)?(?:unlinkSync|rmSync|rmdirSync))\(\s*FILE\s*[,)]",
        r"\bPath\(\s*FILE\s*\)\.unlink\(",
        r"FILE\.unlink\(",
    ])
});

static WRITES: Pattern = LazyLock::new(|| {
    calls(&[
        r#"\bopen\(\s*FILE\s*,\s*(?:mode\s*=\s*)?["'][wx]"#,
        r"\bPath\(\s*FILE\s*\)\.write_(?:text|bytes)\(",
        r"FILE\.write_(?:text|bytes)\(",
        r"\b(?:fs\.)?writeFileSync\(\s*FILE\s*,",
        r"\.(?:to_csv|to_json|to_excel|to_parquet|savefig)\(\s*FILE\s*[,)]",
    ])
});

static APPENDS: Pattern = LazyLock::new(|| {
    calls(&[
        r#"\bopen\(\s*FILE\s*,\s*(?:mode\s*=\s*)?["'](?:a|r\+)"#,
        r"\b(?:fs\.)?appendFileSync\(\s*FILE\s*,",
    ])
});

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::ShellChange::{Edits, Removes, Writes};
    use super::*;

    #[test]
    fn only_what_an_interpreter_is_given_is_a_script() {
        for (command, expected) in [
            ("cd /w && python3 -c \"open('a', 'w')\"", vec!["open('a', 'w')"]),
            ("python - <<'EOF'\nopen('a', 'w')\nEOF\nls", vec!["open('a', 'w')"]),
            ("node -e 'f()'; sudo python3.12 -c x", vec!["f()", "x"]),
            ("cat > a.py <<EOF\nopen('a', 'w')\nEOF", vec![]),
            ("grep -rn \"open('a', 'w')\" src; git commit -m \"open('a', 'w')\"", vec![]),
        ] {
            assert_eq!(scripts_in(command), expected, "{command}");
        }
    }

    #[test]
    fn a_script_names_the_files_that_it_changes() {
        assert!([&REMOVES, &WRITES, &APPENDS].into_iter().all(|pattern| pattern.is_some()));
        for (script, expected) in [
            (
                "import os, shutil\nos.remove('a.py'); shutil.rmtree(\"out/\")",
                vec![Removes("a.py".into()), Removes("out".into())],
            ),
            ("p = Path('a.py')\np.write_text(p.read_text().replace('x', 'y'))", vec![Edits("a.py".into())]),
            (
                "Path('conf/a.toml').write_text('x')\nPath('b').unlink()",
                vec![Writes("conf/a.toml".into()), Removes("b".into())],
            ),
            ("f = 'src/a.rs'\ns = open(f).read()\nopen(f, 'w').write(s)", vec![Edits("src/a.rs".into())]),
            ("with open(\"a.json\", \"w\") as f:\n    json.dump(x, f)", vec![Writes("a.json".into())]),
            ("open('log.md', 'a').write('x')", vec![Edits("log.md".into())]),
            (
                "df.to_csv('out/a.csv', index=False); plt.savefig('a.png')",
                vec![Writes("out/a.csv".into()), Writes("a.png".into())],
            ),
            (
                "const f = './a.js';\nfs.writeFileSync(f, fs.readFileSync(f).slice(1))",
                vec![Edits("a.js".into())],
            ),
            ("open(name, 'w'); os.remove(f'{x}.py'); open('/tmp/a', 'w'); open('ä", vec![]),
        ] {
            assert_eq!(script_changes(script), expected, "{script}");
        }
    }
}
