//! No command line and no output stops a compaction, whatever characters are in them.

use proptest::prelude::*;
use serde_json::json;

use crate::Conversation;
use crate::compaction::fixture::{Script, fit_again};

/// Pieces of command lines that the reading of commands looks for.
const COMMANDS: &[&str] = &[
    "git commit -m ",
    "git commit --message=",
    "gh pr create --body ",
    "git checkout -- ",
    "git stash pop ",
    "git reset --hard ",
    "git mv ",
    "git rm ",
    "rm -rf ",
    "mv ",
    "cp -r ",
    "sed -i s/a/b/ ",
    "find . -name ",
    "cd ",
    "sudo -u ",
    "env A=1 ",
    "timeout 5 ",
    "nohup ",
    "bash -c ",
    "ssh h ",
    "docker exec c ",
    "python3 - <<'EOF'\n",
    "python -c ",
    "cat > ",
    "tee ",
    "cargo test ",
    "pytest -m ",
    "npm run build ",
    "apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: ",
    "for f in ",
    "$(cat <<",
];

/// Pieces of arguments: marks of the shell, and words in several scripts.
const WORDS: &[&str] = &[
    "ä",
    "ж.rs",
    "日本語",
    "🐛",
    "é.py",
    "ไทย",
    "हि",
    "\u{200f}",
    "x",
    "wip",
    "src/*.py",
    "..",
    "/",
    "~/",
    "C:\\ü",
    "\"",
    "'",
    "`",
    "\\",
    "$(",
    ")",
    "{",
    "}",
    "<<EOF",
    "\nEOF\n",
    "\n",
    "\r",
    "\t",
    " ",
    "|",
    "||",
    "&&",
    "&",
    ";",
    ">",
    ">>",
    "2>&1",
    "< ",
    "#",
    "--",
    "-",
    "A=ß",
    "-delete",
    "-exec rm {} +",
];

/// Pieces of outputs.
const OUTPUTS: &[&str] = &[
    "",
    "ok",
    "ж",
    "error: ü",
    "Error: 日本",
    "1 failed, 2 passed",
    "test result: ok. 3 passed; 0 failed",
    "FAILED é::ß",
    "Exit code 1",
    "exit code ж",
    "<exit_code>é",
    "{\"error\": \"ü",
    "[",
    "(",
    "\u{1b}[31mé\u{1b}[0m",
    "Traceback (most recent call last):\n  File \"é\"\nж",
    " create mode 100644 é",
    " delete mode 100644 \"\\303\\244.py\"",
    "rename ä => ö (100%)",
    "Saved ж",
    "[main é] ж",
    "\r\rü",
    "| a | é |",
    "✓ Created ж: é",
    "12 lines ж",
    "  1→é",
    "ж:1:2: error: é",
    "+++ b/ä",
    "diff --git a/ä b/ö",
    "@@ -1 +1 @@",
];

/// Words of people and agents around the commands.
const SAID: &[&str] = &[
    "да",
    "1. ja 2. nein?",
    "はい",
    "Soll ich ж löschen?",
    "ok",
    "Fixed é. Tests pass: ü.",
    "- ä\n- ö",
    "",
    "é: ",
];

fn text_of(pieces: &'static [&'static str], most: usize) -> impl Strategy<Value = String> {
    let piece = prop::sample::select(pieces);
    prop::collection::vec(piece, 0..most).prop_map(|pieces| pieces.concat())
}

fn command() -> impl Strategy<Value = String> {
    (prop::sample::select(COMMANDS), text_of(WORDS, 6), text_of(COMMANDS, 2), text_of(WORDS, 4))
        .prop_map(|(first, words, second, more)| format!("{first}{words} {second}{more}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn no_command_and_no_output_stops_a_compaction(
        steps in prop::collection::vec(
            (command(), text_of(OUTPUTS, 4), prop::sample::select(SAID), prop::sample::select(SAID)),
            6..24,
        ),
        room in 900_u64..2_500,
    ) {
        let mut log = Conversation::new();
        log.user("Исправь ошибку в é.py");
        for (nth, (command, output, by_agent, by_user)) in steps.into_iter().enumerate() {
            let arguments = match nth % 3 {
                0 => json!({ "command": command }),
                1 => json!({ "command": ["bash", "-lc", command] }),
                _ => json!({ "cmd": command, "workdir": "/ä" }),
            };
            log.call(["Bash", "exec_command", "shell"][nth % 3], arguments, output);
            if !by_agent.is_empty() {
                log.agent(by_agent);
            }
            if nth % 4 == 3 {
                log.user(if by_user.is_empty() { "ж" } else { by_user });
            }
        }
        for room in [room, room / 2] {
            fit_again("{ strategies: [extraction], retention_window: 1 }", room, &mut log, &Script::new(Vec::new()));
        }
    }
}
