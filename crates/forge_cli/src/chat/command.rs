//! The meaning of a line in the chat: a message for the model, or a command.

use forge_services::workflow::nearest;

/// The user's input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// An empty line.
    Nothing,
    /// A message for the model.
    Message(String),
    /// A command of the chat.
    Command(ChatCommand),
    /// An unknown command, which is not sent.
    Unknown {
        /// The word, with its slash.
        word: String,
        /// The command that is probably meant.
        meant: Option<&'static str>,
    },
    /// A command without an argument that was given one.
    TakesNothing(&'static str),
    /// A command for the shell, after an exclamation mark.
    Shell(String),
}

/// A command of the chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ChatCommand {
    /// Compacts the context; the argument names what to preserve.
    Compact(Option<String>),
    /// Shows what fills the window.
    Context,
    /// Undoes the last compaction.
    Undo,
    /// Lists the checkpoints of the run.
    Checkpoints,
    /// Shows the model, or switches to another.
    Model(Option<String>),
    /// Sets the effort, or shows it.
    Effort(Option<String>),
    /// Shows the latest thinking whole.
    Thinking,
    /// Shows a tool result whole: the latest one, or the one that many before.
    Output(Option<String>),
    /// Shows the current agent, or switches to another.
    Agent(Option<String>),
    /// Shows what the run has used.
    Cost,
    /// Starts a new run.
    New,
    /// Leaves this run for another one, which is chosen if it is not named.
    Resume(Option<String>),
    /// Shows what has changed in the folder.
    Diff,
    /// Writes the run to a page.
    Export(Option<String>),
    /// Shows the rules for calls.
    Permissions,
    /// Shows the mode, or switches to another.
    Mode(Option<String>),
    /// Lists the MCP servers.
    Mcp,
    /// Shows where the chat stands.
    Status,
    /// Lists keys and commands.
    Help,
    /// Ends the chat.
    Exit,
}

/// A command in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    /// Its word, with the slash.
    pub(super) word: &'static str,
    /// Its optional argument; empty if it has none.
    pub(super) takes: &'static str,
    /// Its description.
    pub(super) about: &'static str,
}

/// Every command, in the order of the list.
pub(super) const COMMANDS: [Listed; 20] = [
    Listed {
        word: "/compact",
        takes: "[FOCUS]",
        about: "compact the context now; FOCUS names what to preserve",
    },
    Listed { word: "/context", takes: "", about: "show what fills the window" },
    Listed { word: "/undo", takes: "", about: "undo the last compaction; repeat for the one before" },
    Listed { word: "/checkpoints", takes: "", about: "list the saved states of this run" },
    Listed { word: "/model", takes: "[NAME]", about: "show the model, or switch to another" },
    Listed { word: "/effort", takes: "[EFFORT]", about: "show the effort, or set it: none to max" },
    Listed { word: "/thinking", takes: "", about: "show the latest thinking whole" },
    Listed { word: "/output", takes: "[N]", about: "show the latest tool result whole, or the Nth latest" },
    Listed { word: "/agent", takes: "[ID]", about: "show the current agent, or switch to another" },
    Listed { word: "/mode", takes: "[MODE]", about: "show the mode, or switch: plan, ask, edits or auto" },
    Listed { word: "/permissions", takes: "", about: "show which calls are allowed, asked for and denied" },
    Listed { word: "/diff", takes: "", about: "show what has changed in the folder, by git" },
    Listed { word: "/status", takes: "", about: "show folder, model, mode, sandbox and run" },
    Listed { word: "/mcp", takes: "", about: "list the MCP servers and their tools" },
    Listed { word: "/new", takes: "", about: "start a new run; this one can be resumed" },
    Listed { word: "/resume", takes: "[RUN]", about: "continue another run, which you can choose" },
    Listed { word: "/export", takes: "[FILE]", about: "write the run to one HTML page" },
    Listed { word: "/cost", takes: "", about: "show what the run has used so far" },
    Listed { word: "/help", takes: "", about: "list commands and keys" },
    Listed { word: "/exit", takes: "", about: "end the chat; the run can be resumed" },
];

impl Input {
    /// Parses the input. A leading `//` stands for a message's own slash, and so does a slash after a blank.
    /// In several lines, such as pasted code, `//` is a message's own.
    pub(super) fn read(text: &str) -> Self {
        let trimmed = text.trim();
        if trimmed.is_empty() {
            return Self::Nothing;
        }
        let is_one_line = !trimmed.contains('\n');
        if let Some(own) = text.strip_prefix("//").filter(|_| is_one_line) {
            return Self::Message(format!("/{}", own.trim_end()));
        }
        if let Some(command) = text.strip_prefix('!').map(str::trim).filter(|command| !command.is_empty()) {
            return Self::Shell(command.to_owned());
        }
        // A blank before it makes it a message.
        match text.trim_end() {
            // The words that end other programs at a terminal, and that ask them for help.
            "exit" | "quit" | ":q" | ":q!" | ":wq" => return Self::Command(ChatCommand::Exit),
            "?" => return Self::Command(ChatCommand::Help),
            _ if !text.starts_with('/') => return Self::Message(trimmed.to_owned()),
            _ => {}
        }
        let (word, rest) = trimmed.split_once(char::is_whitespace).unwrap_or((trimmed, ""));
        if word.contains(':') {
            // A prompt of an MCP server.
            return Self::Message(trimmed.to_owned());
        }
        let rest = Some(rest.trim().to_owned()).filter(|rest| !rest.is_empty());
        let command = match word {
            "/compact" => ChatCommand::Compact(rest),
            "/model" => ChatCommand::Model(rest),
            "/effort" => ChatCommand::Effort(rest),
            "/thinking" => ChatCommand::Thinking,
            "/output" => ChatCommand::Output(rest),
            "/agent" => ChatCommand::Agent(rest),
            "/context" => ChatCommand::Context,
            "/undo" => ChatCommand::Undo,
            "/checkpoints" => ChatCommand::Checkpoints,
            "/cost" => ChatCommand::Cost,
            "/mode" => ChatCommand::Mode(rest),
            "/permissions" => ChatCommand::Permissions,
            "/diff" => ChatCommand::Diff,
            "/status" => ChatCommand::Status,
            "/mcp" => ChatCommand::Mcp,
            "/new" => ChatCommand::New,
            "/resume" => ChatCommand::Resume(rest),
            "/export" => ChatCommand::Export(rest),
            "/help" | "/?" => ChatCommand::Help,
            "/exit" | "/quit" | "/q" => ChatCommand::Exit,
            _ if !is_one_line => return Self::Message(trimmed.to_owned()),
            word => return Self::Unknown { word: word.to_owned(), meant: similar_command(word) },
        };
        let listed = COMMANDS.iter().find(|listed| listed.word == word);
        match listed.filter(|listed| listed.takes.is_empty() && trimmed != word) {
            Some(listed) => Self::TakesNothing(listed.word),
            None => Self::Command(command),
        }
    }
}

/// Commands of other chats, and those that do the same here.
const TWINS: [(&[&str], &str); 9] = [
    (&["/clear", "/reset"], "/new"),
    (&["/rewind", "/fork"], "/checkpoints"),
    (&["/plan"], "/mode plan"),
    (&["/approvals", "/allowed-tools"], "/permissions"),
    (&["/tokens"], "/context"),
    (&["/usage"], "/cost"),
    (&["/config", "/settings", "/doctor"], "/status"),
    (&["/sessions", "/history", "/continue"], "/resume"),
    (&["/end", "/bye"], "/exit"),
];

/// Returns the command that `word` may stand for: if it is one of another chat, the one that does the same,
/// else the only one that it begins, else one with a similar spelling.
fn similar_command(word: &str) -> Option<&'static str> {
    let twin = TWINS.iter().find(|(others, _)| others.contains(&word));
    if let Some((_, meant)) = twin {
        return Some(*meant);
    }
    let begun: Vec<&'static str> =
        COMMANDS.iter().map(|listed| listed.word).filter(|known| known.starts_with(word)).collect();
    match begun.as_slice() {
        [only] if word.len() > 1 => Some(only),
        _ => nearest(word, COMMANDS.iter().map(|listed| listed.word))
            .and_then(|meant| COMMANDS.iter().map(|listed| listed.word).find(|known| *known == meant)),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_line_is_a_message_or_a_command() {
        let message = |text: &str| Input::Message(text.to_owned());
        let unknown = |word: &str, meant| Input::Unknown { word: word.to_owned(), meant };
        for (text, expected) in [
            ("", Input::Nothing),
            (" \n\t", Input::Nothing),
            ("hello\nthere ", message("hello\nthere")),
            ("/compact", Input::Command(ChatCommand::Compact(None))),
            (
                "/compact  the two files\nand why ",
                Input::Command(ChatCommand::Compact(Some("the two files\nand why".into()))),
            ),
            ("/model openai:gpt-4o", Input::Command(ChatCommand::Model(Some("openai:gpt-4o".into())))),
            ("/agent", Input::Command(ChatCommand::Agent(None))),
            ("/effort high", Input::Command(ChatCommand::Effort(Some("high".into())))),
            ("/thinking", Input::Command(ChatCommand::Thinking)),
            ("/context ", Input::Command(ChatCommand::Context)),
            ("/undo", Input::Command(ChatCommand::Undo)),
            ("/checkpoints", Input::Command(ChatCommand::Checkpoints)),
            ("/cost", Input::Command(ChatCommand::Cost)),
            ("/help", Input::Command(ChatCommand::Help)),
            ("/quit", Input::Command(ChatCommand::Exit)),
            ("/q", Input::Command(ChatCommand::Exit)),
            ("exit ", Input::Command(ChatCommand::Exit)),
            ("quit", Input::Command(ChatCommand::Exit)),
            (":q", Input::Command(ChatCommand::Exit)),
            ("?", Input::Command(ChatCommand::Help)),
            (" exit", message("exit")),
            ("exit the loop early", message("exit the loop early")),
            ("/clear", unknown("/clear", Some("/new"))),
            ("/plan", unknown("/plan", Some("/mode plan"))),
            ("/mode plan", Input::Command(ChatCommand::Mode(Some("plan".into())))),
            ("/resume 2026", Input::Command(ChatCommand::Resume(Some("2026".into())))),
            ("/new", Input::Command(ChatCommand::New)),
            ("!git status", Input::Shell("git status".into())),
            ("!", message("!")),
            (" !important", message("!important")),
            ("/exit now", Input::TakesNothing("/exit")),
            ("/undo 2", Input::TakesNothing("/undo")),
            ("/comapct", unknown("/comapct", Some("/compact"))),
            ("/che", unknown("/che", Some("/checkpoints"))),
            ("/co", unknown("/co", None)),
            ("/", unknown("/", None)),
            ("/etc/hosts says what?", unknown("/etc/hosts", None)),
            ("//etc/hosts says what?", message("/etc/hosts says what?")),
            ("// TODO\nint x;", message("// TODO\nint x;")),
            ("/* a */\nint x;", message("/* a */\nint x;")),
            (" /exit is a word", message("/exit is a word")),
        ] {
            assert_eq!(Input::read(text), expected, "{text:?}");
        }
    }

    #[test]
    fn what_is_listed_is_known() {
        for Listed { word, .. } in COMMANDS {
            assert!(matches!(Input::read(word), Input::Command(_)), "{word}");
        }
    }
}
