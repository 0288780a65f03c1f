//! The label of an entry: the number of its message, the tool, and what its call is about.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::root::{Root, below, has_root, in_folder, is_short, start_of, whole_path};
use super::work_files::output_in;
use crate::compaction::features::is_line_break;
use crate::compaction::findings::{Deed, has_drive, is_absolute};
use crate::{ContextMessage, MessageId, ToolCall};

/// Most characters of a tool's name: as many as providers allow.
const TOOL_CHARS: usize = 128;
/// Most characters of a call's subject, and of what it looks for there.
pub(super) const SUBJECT_CHARS: usize = 140;
const SOUGHT_CHARS: usize = 60;

/// The folder below which paths begin in labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Folder {
    pub(super) files: Option<String>,
    /// The folders of the work.
    pub(super) root: Root,
}

/// The share of the paths of which it is known at least where they are, in percent, and so for the commands.
const KNOWN_PERCENT: usize = 60;
/// The fewest paths in a folder that is told once.
const LEAST_PATHS: usize = 4;
/// The characters around the name of a place that is told.
const AROUND_PLACE: usize = " (in )".len();

impl Folder {
    /// Finds the one that shortens most what labels tell of `messages`, unless an earlier record has `known`
    /// one.
    pub(super) fn of(messages: &[ContextMessage], known: Option<String>) -> Self {
        let root = Root { start: start_of(messages), ..Root::default() };
        let files = known.or_else(|| base_of(messages, &root));
        Self { root: Root::of(messages, files.as_deref(), root.start), files }
    }

    pub(super) const fn root(&self) -> &Root {
        &self.root
    }

    /// Returns its path.
    pub(super) fn as_deref(&self) -> Option<&str> {
        self.files.as_deref()
    }

    /// Returns a path as labels have it: below the folder, if it is there.
    pub(super) fn path<'p>(&self, path: &'p str) -> Cow<'p, str> {
        self.files.as_deref().map_or(Cow::Borrowed(path), |folder| with_paths_below(path, folder))
    }

    /// Returns the subject of a call as a label has it: a blank before it, in one line, and in quotes what is
    /// looked for there; empty if it has none.
    pub(super) fn subject(&self, deed: &Deed) -> String {
        let Some(subject) = deed.subject.as_deref().map(told_of_script) else { return String::new() };
        let is_command = deed.touches.is_empty();
        // Elsewhere, the same command is another one.
        let place = match () {
            () if is_command && !deed.runs => None,
            () if !is_command && is_absolute(subject.trim_start()) => None,
            () => self.root.place(deed.folder()),
        };
        // What is told to be in another folder is not below this one.
        let is_here = place.is_none() && (deed.runs || !is_command);
        let told = if is_here { self.path(&subject) } else { Cow::Borrowed(&*subject) };
        let Some(line) = subject_line(&told) else { return String::new() };
        let told = in_folder(&line, place.as_deref());
        match deed.sought.as_deref().and_then(|sought| one_line(sought, SOUGHT_CHARS)) {
            Some(sought) => format!(" {told} \"{sought}\""),
            None => format!(" {told}"),
        }
    }
}

/// Returns the folder below which the calls of `messages` can be told in the fewest characters; `None` if too
/// little is known of where their paths are. Of `root`, the start alone is known.
fn base_of(messages: &[ContextMessage], root: &Root) -> Option<String> {
    let (mut paths, mut places, mut commands) = (Vec::new(), Vec::new(), Vec::new());
    let mut n_unknown = 0;
    for deed in messages.iter().flat_map(|message| &message.findings().deeds) {
        let folder = root.folder(deed.folder()).map(|folder| whole_path(None, &folder));
        let folder = folder.filter(|folder| has_root(folder));
        if deed.runs && deed.touches.is_empty() {
            commands.push(folder.clone());
        }
        for (path, _) in &deed.touches {
            match &folder {
                _ if is_absolute(path) => paths.push(whole_path(None, path)),
                Some(folder) => places.push(folder.clone()),
                None => n_unknown += 1,
            }
        }
    }
    let n_commands = commands.len();
    let known: Vec<String> = commands.into_iter().flatten().collect();
    // Where most commands do not tell it, those that do are the exceptions.
    if known.len() * 100 >= n_commands * KNOWN_PERCENT {
        places.extend(known);
    }
    let n_known = paths.len() + places.len();
    if n_known * 100 < (n_known + n_unknown) * KNOWN_PERCENT {
        return None;
    }
    let is_told = |start: &String| places.contains(start) && start != "/" && !start.contains(is_line_break);
    shortest_told(&paths, &places).or_else(|| root.folder(None).filter(is_told))
}

/// Returns the folder that saves most characters if the paths and the places below it are told from there.
fn shortest_told(paths: &[String], places: &[String]) -> Option<String> {
    let mut saved: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut save = |folder, n_chars: usize| {
        let (n_told, sum) = saved.entry(folder).or_default();
        *n_told += 1;
        *sum += n_chars;
    };
    let is_known = |path: &&String| has_root(path) && is_short(path) && !path.contains(is_line_break);
    for path in paths.iter().chain(places).filter(is_known) {
        let folders = path.match_indices('/').skip(1).map(|(at, _)| &path[..at]);
        folders.for_each(|folder| save(folder, folder.len() + 1));
    }
    // A place that paths begin in is not told.
    for place in places.iter().filter(is_known).filter(|place| *place != "/") {
        save(place.as_str(), place.len() + AROUND_PLACE);
    }
    // Where packages or outputs were looked at, no relative path of a command begins.
    let is_work = |folder: &str| output_in(&format!("{folder}/")).is_none();
    let many = saved.into_iter().filter(|(folder, (n_told, _))| *n_told >= LEAST_PATHS && is_work(folder));
    many.max_by_key(|(_, (_, sum))| *sum).map(|(folder, _)| folder.to_owned())
}

/// The marks before a path in a command, and those behind it.
const BEFORE_PATH: [char; 6] = ['"', '\'', '=', '(', '<', '>'];
const AFTER_PATH: [char; 8] = ['"', '\'', ';', '&', '|', ')', '>', ','];

/// Returns a text in which paths begin below a folder, if they are there: a path, or a command.
fn with_paths_below<'t>(text: &'t str, folder: &str) -> Cow<'t, str> {
    if !text.contains(folder) && !has_drive(folder) {
        return Cow::Borrowed(text);
    }
    let (mut told, mut from, mut before) = (String::new(), 0, ' ');
    for (at, c) in text.char_indices() {
        let begins = at >= from && (before.is_whitespace() || BEFORE_PATH.contains(&before));
        before = c;
        let Some(rest) = Some(&text[at..]).filter(|_| begins).and_then(|path| below(path, folder)) else {
            continue;
        };
        // Behind a quote, a name may continue.
        let behind_quote = rest.strip_prefix(['"', '\'']).and_then(|behind| behind.chars().next());
        let continues = behind_quote.is_some_and(|c| !c.is_whitespace() && !AFTER_PATH.contains(&c));
        // It would be another one.
        if is_absolute(rest) || rest.starts_with(['-', '\\', '$']) || continues {
            continue;
        }
        told.push_str(&text[from..at]);
        from = text.len() - rest.len();
        if rest.chars().next().is_none_or(|c| c.is_whitespace() || AFTER_PATH.contains(&c)) {
            told.push('.');
        }
    }
    if from == 0 { Cow::Borrowed(text) } else { Cow::Owned(told + &text[from..]) }
}

/// Returns the name of a call's tool as labels have it.
pub(super) fn tool_name(call: &ToolCall) -> Option<String> {
    one_line(call.name.as_str(), TOOL_CHARS)
}

/// Returns a subject in one line: of a path that is too long, its end.
fn subject_line(subject: &str) -> Option<String> {
    let end_of_path = || {
        let line = subject.trim();
        let start = line.char_indices().rev().nth(SUBJECT_CHARS)?.0;
        let folder = start + line[start..].find(['/', '\\'])?;
        (!line.contains(char::is_whitespace)).then(|| format!("…{}", &line[folder..]))
    };
    one_line(subject, SUBJECT_CHARS).or_else(end_of_path)
}

/// Returns what tells of a command whose first line only begins a text: of a here-string of PowerShell the
/// command that is given it, of the message of a commit the command before it, and of a script its first line
/// that does something as well.
fn told_of_script(subject: &str) -> Cow<'_, str> {
    let (first, rest) = subject.trim_start().split_once('\n').unwrap_or((subject, ""));
    let first = first.trim_end();
    let given = [("@'", "'@"), ("@\"", "\"@")].iter().find_map(|(begin, end)| {
        let at = rest.find(&format!("\n{end}")).filter(|_| first.ends_with(begin))?;
        Some(rest[at + 1 + end.len()..].trim_start_matches(['|', ' ', '\r', '\n']))
    });
    if let Some(given) = given.filter(|given| !given.is_empty()) {
        return Cow::Borrowed(given);
    }
    let before_text = first.split_once(TEXT).map(|(command, _)| command.trim_end());
    let option = before_text.and_then(|command| command.rsplit_once(' '));
    if let Some((command, _)) = option.filter(|(_, option)| option.starts_with('-')) {
        return Cow::Borrowed(command);
    }
    let begins_script = first.ends_with(['"', '\''])
        && SCRIPTS.iter().any(|option| first[..first.len() - 1].ends_with(option))
        || first.contains("<<") && !first.contains('>') && !first.contains("cat ");
    let is_import = |line: &&str| IMPORTS.iter().any(|import| line.starts_with(import));
    let does = |line: &&str| line.contains(char::is_alphanumeric) && !is_import(line);
    let step = rest.lines().map(str::trim).find(does).filter(|_| begins_script);
    step.map_or(Cow::Borrowed(subject), |step| Cow::Owned(format!("{first} {step}")))
}

/// The beginning of a here-document that is an argument.
const TEXT: &str = "\"$(cat <<";
/// The options whose value is a script, and the beginnings of its lines that do nothing yet.
const SCRIPTS: [&str; 4] = ["-c ", "-e ", "-Command ", "-lc "];
const IMPORTS: [&str; 8] = ["import ", "from ", "#", "use ", "require", "const ", "set -", "//"];

/// Returns the number of a message's id, by which entries are in order.
pub(super) fn number(message: &ContextMessage) -> u64 {
    message.id().map_or(0, MessageId::as_u64)
}

/// Returns the first line of a text, shortened to whole words, without what a label ends with; `None` if it
/// has none.
pub(super) fn one_line(text: &str, most: usize) -> Option<String> {
    let line = text.split(is_line_break).map(str::trim).find(|line| !line.is_empty())?;
    let end = line.char_indices().nth(most).map_or(line.len(), |(end, _)| end);
    let shortened = match line[..end].rfind(char::is_whitespace) {
        _ if end == line.len() => line.to_owned(),
        // A part of a word would be a name that nothing has.
        Some(blank) => format!("{} …", line[..blank].trim_end()),
        None => return None,
    };
    Some(shortened.trim_end_matches(':').to_owned()).filter(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    use super::*;
    use crate::compaction::fixture::Characters;
    use crate::{Message, ToolName};

    fn calls(arguments: &[Value]) -> Vec<ContextMessage> {
        let call = |arguments: &Value| {
            let name = ToolName::new("Edit").unwrap();
            let call = ToolCall { id: "c".into(), name, arguments: arguments.to_string() };
            ContextMessage::count(Message::calling(vec![call]), &Characters)
        };
        arguments.iter().map(call).collect()
    }

    #[test]
    fn paths_are_told_below_the_folder_that_saves_most() {
        let path = |path: &str| json!({ "file_path": path });
        let run = |command: &str| json!({ "command": command });
        let run_in = |folder: &str| json!({ "command": "make", "workdir": folder });
        let many = |argument: &Value, n: usize| vec![argument.clone(); n];
        for (arguments, expected) in [
            (
                ["/home/me/w/app/a", "/home/me/w/app/b", "/home/me/w/app/c", "/home/me/w/d"]
                    .map(path)
                    .to_vec(),
                "/home/me/w",
            ),
            (["/home/me/w/app/a", "/home/me/w/app/b", "/home/me/w/app/c", "/e/f"].map(path).to_vec(), ""),
            ([r"c:\w\app\a", "C:/w/app/b", r"C:\w\app\c", r"C:\w\d"].map(path).to_vec(), "C:/w"),
            ([many(&path("/w/app/a"), 4), many(&path("b"), 4)].concat(), ""),
            ([many(&path("/w/app/a"), 6), many(&path("b"), 4)].concat(), "/w/app"),
            // What relative paths name is known by whole ones.
            ([path("/w/app/src/a/b"), path("src/a"), path("src/a/b")].to_vec(), "/w/app"),
            (
                [many(&path("/w/app/src/a"), 4), many(&run("cat src/a | less 'src/b'"), 4)].concat(),
                "/w/app/src",
            ),
            (
                [
                    vec![path("/w/app/src/b")],
                    many(&path("/w/app/src/a"), 4),
                    many(&run("vi src/a 'src/b'"), 9),
                ]
                .concat(),
                "/w/app",
            ),
            (many(&path("/w/node_modules/a/b"), 4), "/w"),
            ([many(&run_in("/w/app"), 9), many(&path("/w/lib/a"), 4)].concat(), "/w/app"),
            ([many(&run("cd /w/app && make"), 4), many(&run("make"), 4)].concat(), ""),
            (many(&run_in("/"), 9), ""),
        ] {
            let folder = Folder::of(&calls(&arguments), None);
            assert_eq!(folder.as_deref().unwrap_or_default(), expected, "{arguments:?}");
        }
    }

    #[test]
    fn a_harness_tells_where_relative_paths_begin() {
        let note = "<environment_context>\n  <cwd>/w/app</cwd>\n</environment_context>";
        let note = Message::user(note).noted_by("codex");
        let mut messages = vec![ContextMessage::count(note, &Characters)];
        messages.extend(calls(&[json!({ "file_path": "a.rs" })]));
        assert_eq!(Folder::of(&messages, None).as_deref(), Some("/w/app"));
    }

    #[test]
    fn a_label_says_where_its_paths_are() {
        let edits = |folder: &str| vec![json!({ "file_path": format!("{folder}/a") }); 4];
        for (earlier, arguments, expected) in [
            (edits("/w"), json!({"command": "make", "workdir": "/w"}), " make"),
            (edits("/w"), json!({"command": "make /w/b", "workdir": "/w/api"}), " make /w/b (in api)"),
            (edits("/w"), json!({"command": "sed -n 1,9p b.rs", "workdir": "/w/api"}), " b.rs (in api)"),
            (edits("/w"), json!({"command": "make", "workdir": "/v"}), " make (in /v)"),
            (edits("/w"), json!({"command": "make '/w/b c' x=/w/d /w"}), " make 'b c' x=d ."),
            (
                edits("/w"),
                json!({"command": "make \"/w/\"*.o /w/$X '/w/';", "workdir": "/w"}),
                " make \"/w/\"*.o /w/$X '.';",
            ),
            (
                edits("/w"),
                json!({"command": "make /w/ -k /w//b /w/-c file:///w/d /wide/e"}),
                " make . -k /w//b /w/-c file:///w/d /wide/e",
            ),
            (
                edits(r"C:\w\my x"),
                json!({"command": r#"dir "c:\w\my x\b" "C:/w/my x/c" D:\d"#}),
                r#" dir "b" "c" D:\d"#,
            ),
        ] {
            let messages = calls(&[earlier, vec![arguments.clone()]].concat());
            let folder = Folder::of(&messages, None);
            assert_eq!(folder.subject(&messages[4].findings().deeds[0]), expected, "{arguments}");
        }
    }
}
