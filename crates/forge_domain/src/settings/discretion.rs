//! The decisions that the user of a run takes in advance: the mode of work, and calls that are allowed.
//!
//! They answer what no rule decides, and questions that only the user's own rules ask. What the
//! administrator's or a project's file asks about or denies stays as it is.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::key_places::holds_keys;
use crate::{ForeignRule, Permission, PermissionPatternError, Permissions, Subject};

/// A mode of work: the permission of calls that no rule decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Nothing is changed, whatever rules allow; the answer is a plan.
    Plan,
    /// Each change is asked for, and each call that reveals something.
    #[default]
    Ask,
    /// Files of the workspace are edited without a question.
    Edits,
    /// Everything that the sandbox confines runs without a question: edits and commands.
    Auto,
}

impl Mode {
    /// Every mode, in the order in which a key cycles through them.
    pub const ALL: [Self; 4] = [Self::Plan, Self::Ask, Self::Edits, Self::Auto];

    /// Returns the word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Ask => "ask",
            Self::Edits => "edits",
            Self::Auto => "auto",
        }
    }

    /// Returns the description of it in a few words.
    pub const fn description(self) -> &'static str {
        match self {
            Self::Plan => "reads only, and ends with a plan to approve",
            Self::Ask => "asks before it changes something",
            Self::Edits => "edits files of the workspace without asking",
            Self::Auto => "edits and runs what the sandbox confines without asking",
        }
    }

    /// Returns the mode after this one. `ask` is the first, since a chat starts with it.
    #[must_use]
    pub const fn next(self) -> Self {
        match self {
            Self::Ask => Self::Edits,
            Self::Edits => Self::Auto,
            Self::Auto => Self::Plan,
            Self::Plan => Self::Ask,
        }
    }

    /// Returns the permission for a subject that no rule is about; `usual` is that of the tool.
    pub(super) fn usual(self, subject: &Subject, usual: Permission) -> Permission {
        let reads_keys = matches!(subject, Subject::Read(path) | Subject::Below(path) if holds_keys(path));
        if reads_keys && usual == Permission::Allow {
            return Permission::Ask;
        }
        let is_confined = match subject {
            Subject::Written(path) => matches!(self, Self::Edits | Self::Auto) && !steers_programs(path),
            Subject::Command(_) | Subject::Unclear(_) => self == Self::Auto,
            Subject::Read(_) | Subject::Below(_) | Subject::Address { .. } | Subject::Secret { .. } => false,
        };
        if is_confined && usual == Permission::Ask { Permission::Allow } else { usual }
    }

    /// Checks whether the mode denies a call about `subject` whatever the rules say; `usual` is the tool's
    /// permission.
    pub(super) fn denies(self, subject: Option<&Subject>, usual: Permission) -> bool {
        let is_reading = match subject {
            Some(Subject::Written(_) | Subject::Command(_) | Subject::Unclear(_)) => false,
            Some(_) => true,
            // What a call of an unknown tool does cannot be told.
            None => usual == Permission::Allow,
        };
        self == Self::Plan && !is_reading
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(word: &str) -> Result<Self, UnknownMode> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == word).ok_or_else(|| UnknownMode(word.to_owned()))
    }
}

/// An error about a word that is not a mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid mode `{0}` (expected plan, ask, edits or auto)")]
pub struct UnknownMode(String);

/// The decisions of a user for a whole run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discretion {
    /// The mode.
    pub mode: Mode,
    /// The calls that are allowed in advance, as on the command line.
    pub allowed: Permissions,
}

impl Discretion {
    /// Adds a rule as the command line writes it: a tool, or a tool and a pattern after a colon.
    ///
    /// # Errors
    /// [`PermissionPatternError`] if the rule cannot be one, such as one in the form of another agent.
    pub fn allow(&mut self, rule: &str) -> Result<(), PermissionPatternError> {
        if let Some(meant) = ForeignRule::with_parentheses(rule.trim()) {
            let meant = meant.flags().map_or_else(String::new, |flags| format!(": write {flags}"));
            return Err(super::permission::PermissionPatternError(format!(
                "`{rule}` is how another agent writes a rule{meant}"
            )));
        }
        let allowed = std::mem::take(&mut self.allowed);
        let (tool, pattern) = match rule.split_once(':') {
            Some((tool, pattern)) => (tool.trim(), Some(pattern.trim())),
            None => (rule.trim(), None),
        };
        match Permissions::allowing(tool, pattern) {
            Ok(rule) => self.allowed = allowed.then(&rule),
            Err(error) => {
                self.allowed = allowed;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Allows every call that would be asked for, except that secrets are shown.
    pub fn allow_everything(&mut self) {
        self.allowed = std::mem::take(&mut self.allowed).then(&Permissions::allowing_everything());
    }
}

/// Names of folders and files by which the workspace steers programs and agents that read them later: what
/// stands there runs outside of the sandbox. The workspace may be a home folder.
const STEERING: [&str; 90] = [
    ".git",
    ".forge",
    ".claude",
    ".agents",
    ".husky",
    ".vscode",
    ".idea",
    ".devcontainer",
    "forge.yaml",
    ".mcp.json",
    ".envrc",
    ".gitmodules",
    ".gitattributes",
    ".github",
    ".pre-commit-config.yaml",
    ".cargo",
    ".codex",
    ".cursor",
    ".gemini",
    ".opencode",
    "opencode.json",
    ".zed",
    ".mise.toml",
    "mise.toml",
    ".bash_login",
    ".bash_logout",
    ".bash_profile",
    ".bashrc",
    ".config",
    ".gitconfig",
    ".gnupg",
    ".local",
    ".npmrc",
    ".pip",
    ".profile",
    ".ssh",
    ".zlogin",
    ".zprofile",
    ".zshenv",
    ".zshrc",
    ".kube",
    "AGENTS.md",
    "CLAUDE.md",
    "GEMINI.md",
    ".aider.conf.yml",
    ".clinerules",
    ".cursorrules",
    ".windsurfrules",
    ".circleci",
    ".gitlab-ci.yml",
    ".yarnrc.yml",
    ".gdbinit",
    ".tmux.conf",
    ".vimrc",
    "AGENTS.override.md",
    "CLAUDE.local.md",
    "QWEN.md",
    "CRUSH.md",
    "WARP.md",
    ".goosehints",
    ".rules",
    ".windsurf",
    ".roo",
    ".kiro",
    ".continue",
    ".junie",
    ".amazonq",
    ".trae",
    ".exrc",
    ".nvimrc",
    ".nvim.lua",
    ".emacs",
    ".dir-locals.el",
    ".lldbinit",
    ".screenrc",
    ".inputrc",
    ".yarnrc",
    ".pnpmfile.cjs",
    ".mise",
    "lefthook.yml",
    ".aider.conf.yaml",
    ".gitlab-ci.yaml",
    ".travis.yml",
    "Jenkinsfile",
    ".bash_aliases",
    ".xprofile",
    ".cshrc",
    ".netrc",
    ".git-credentials",
    ".aws",
];

/// Checks whether a path steers other programs, so that no mode allows it to be written.
pub fn steers_programs(path: &str) -> bool {
    holds_keys(path)
        || path.split('/').any(|name| STEERING.iter().any(|steering| name.eq_ignore_ascii_case(steering)))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::{Reach, RuleLayer, Rules, ToolName};

    fn rules(yaml: &str, layer: RuleLayer) -> Permissions {
        let mut rules: Permissions = serde_saphyr::from_str(yaml).unwrap();
        rules.mark(layer);
        rules
    }

    fn write_to(path: &str) -> Subject {
        Subject::Written(path.to_owned())
    }

    fn command(line: &str) -> Subject {
        Subject::Command(line.to_owned())
    }

    fn decide(layers: &[Permissions], with: &Discretion, tool: &str, reach: &Reach) -> Permission {
        let rules: Rules = layers.iter().cloned().collect();
        rules.decide(with, &ToolName::new(tool).unwrap(), reach).permission
    }

    #[test]
    fn a_mode_decides_what_no_rule_decides() {
        use Permission::{Allow, Ask, Deny};
        let address = Subject::Address { host: "docs.rs".into(), path: "/".into() };
        let ask = |subject: Option<Subject>| Reach { usual: Ask, subjects: subject.into_iter().collect() };
        let read = Reach { usual: Allow, subjects: vec![Subject::Read("a".into())] };
        let keys = Reach { usual: Allow, subjects: vec![Subject::Read("./.KUBE/config".into())] };
        let below_keys = Reach { usual: Allow, subjects: vec![Subject::Below(".config/gh".into())] };
        // The columns are plan, ask, edits, auto.
        for (tool, reach, expected) in [
            ("read", read, [Allow, Allow, Allow, Allow]),
            ("read", keys, [Ask, Ask, Ask, Ask]),
            ("search", below_keys, [Ask, Ask, Ask, Ask]),
            ("write", ask(Some(write_to("src/a.rs"))), [Deny, Ask, Allow, Allow]),
            ("write", ask(Some(write_to("a/.GIT/hooks/x"))), [Deny, Ask, Ask, Ask]),
            ("patch", ask(Some(write_to("forge.yaml"))), [Deny, Ask, Ask, Ask]),
            ("patch", ask(Some(write_to("docs/agents.md"))), [Deny, Ask, Ask, Ask]),
            ("write", ask(Some(write_to(".circleci/config.yml"))), [Deny, Ask, Ask, Ask]),
            ("write", ask(Some(write_to("a/Claude.local.md"))), [Deny, Ask, Ask, Ask]),
            ("write", ask(Some(write_to(".kiro/hooks/x"))), [Deny, Ask, Ask, Ask]),
            ("shell", ask(Some(command("cargo test"))), [Deny, Ask, Ask, Allow]),
            ("shell", ask(Some(Subject::Unclear("$x".into()))), [Deny, Ask, Ask, Allow]),
            ("fetch", ask(Some(address)), [Ask, Ask, Ask, Ask]),
            ("mcp__x__y", Reach::careful(), [Deny, Ask, Ask, Ask]),
            ("recall", Reach::free(), [Allow, Allow, Allow, Allow]),
        ] {
            for (mode, expected) in Mode::ALL.into_iter().zip(expected) {
                let with = Discretion { mode, ..Discretion::default() };
                assert_eq!(decide(&[], &with, tool, &reach), expected, "{tool} {mode}");
            }
        }
    }

    #[test]
    fn no_mode_and_no_flag_loosens_what_others_hold() {
        use Permission::{Allow, Ask, Deny};
        let reach = Reach { usual: Ask, subjects: vec![command("cargo test")] };
        let unclear = Reach { usual: Ask, subjects: vec![Subject::Unclear("cargo $x".into())] };
        let git = Reach { usual: Ask, subjects: vec![write_to(".git/config")] };
        let secret = Subject::Secret { place: ".env".into(), what: "key".into() };
        let secret = Reach { usual: Allow, subjects: vec![secret] };
        let of = |mode, allowed: &[&str]| {
            let mut with = Discretion { mode, ..Discretion::default() };
            allowed.iter().for_each(|rule| match *rule {
                "everything" => with.allow_everything(),
                rule => with.allow(rule).unwrap(),
            });
            with
        };
        use RuleLayer::{Project, System, User};
        for (yaml, layer, mode, allowed, reach, expected) in [
            ("{ shell: deny }", User, Mode::Auto, &["everything"][..], &reach, Deny),
            ("{ shell: ask }", System, Mode::Auto, &["everything", "shell"], &reach, Ask),
            ("{ shell: ask }", Project, Mode::Auto, &["shell:cargo *"], &reach, Ask),
            // The user answers their own question in advance; a mode does not.
            ("{ shell: ask }", User, Mode::Auto, &[], &reach, Ask),
            ("{ shell: ask }", User, Mode::Ask, &["shell:cargo *"], &reach, Allow),
            ("{ shell: ask }", User, Mode::Ask, &["shell:make *"], &reach, Ask),
            ("{}", User, Mode::Ask, &["everything"], &reach, Allow),
            ("{}", User, Mode::Ask, &["shell:cargo *"], &unclear, Ask),
            ("{}", User, Mode::Ask, &["everything"], &unclear, Allow),
            ("{ shell: { 'rm *': deny } }", Project, Mode::Auto, &["everything"], &unclear, Ask),
            ("{}", User, Mode::Auto, &["everything"], &git, Ask),
            ("{}", User, Mode::Ask, &["everything"], &secret, Ask),
            // Plan: a rule that allows something does not make it reading.
            ("{ shell: allow }", User, Mode::Plan, &["everything"], &reach, Deny),
        ] {
            let tool = if matches!(reach.subjects[0], Subject::Written(_)) { "write" } else { "shell" };
            let actual = decide(&[rules(yaml, layer)], &of(mode, allowed), tool, reach);
            assert_eq!(actual, expected, "{yaml} {layer:?} {mode} {allowed:?}");
        }
    }

    #[test]
    fn a_rule_on_the_command_line_is_a_tool_and_a_pattern() {
        let mut with = Discretion::default();
        for (rule, is_valid) in [
            ("shell:cargo *", true),
            ("write", true),
            ("fetch:https://docs.rs/*", true),
            ("", false),
            ("secrets", false),
            ("Bash(git *)", false),
            ("git *", false),
        ] {
            assert_eq!(with.allow(rule).is_ok(), is_valid, "{rule:?}");
        }
        assert_eq!(with.allowed.tools().collect::<Vec<_>>(), ["shell", "write", "fetch"]);
        assert_eq!(
            "eidts".parse::<Mode>().unwrap_err().to_string(),
            "invalid mode `eidts` (expected plan, ask, edits or auto)"
        );
        let all: Vec<Mode> = Mode::ALL.into_iter().map(Mode::next).collect();
        assert_eq!(all, [Mode::Ask, Mode::Edits, Mode::Auto, Mode::Plan]);
    }
}
