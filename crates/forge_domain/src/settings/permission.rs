//! Which calls may be made: rules as YAML writes them, and what they say of a call.
//!
//! The rules are in order, those of the workflow before those of the agent, and the **last** that matches
//! wins. A call may touch several things, such as the parts of a command line: the strictest decision counts
//! for all.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use regex::Regex;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, IntoDeserializer, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};

use crate::{Discretion, FileChange, FoundSecret, Mode, Question, ToolName};

/// A permission for a call, in order of strictness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Permission {
    /// The call may be made.
    Allow,
    /// The call needs the user's consent; if no one can answer, it is not made.
    Ask,
    /// The call may not be made.
    Deny,
}

impl Permission {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// A list of rules for tool calls, in their written order; the last match wins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permissions(Vec<RuleEntry>);

/// The rules of one entry, with their layer.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RuleEntry {
    tool: String,
    rules: ToolRules,
    layer: RuleLayer,
}

/// The layer that a rule comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RuleLayer {
    /// No file: a program sets it.
    #[default]
    Program,
    /// The administrator's file.
    System,
    /// The user's own file.
    User,
    /// A project's file, which cannot allow secrets to be shown.
    Project,
    /// The command line.
    CommandLine,
}

impl RuleLayer {
    /// Checks whether the user of the run may answer in advance what a rule of this layer asks: what the
    /// administrator or a project wants to be asked is asked.
    const fn is_answered_in_advance(self) -> bool {
        match self {
            Self::Program | Self::User | Self::CommandLine => true,
            Self::System | Self::Project => false,
        }
    }
}

impl fmt::Display for RuleLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Program => "the program",
            Self::System => "the administrator's file",
            Self::User => "the user's own file",
            Self::Project => "the project's file",
            Self::CommandLine => "the command line",
        })
    }
}

/// The name under which rules say which secrets may be shown to a model, instead of a tool's.
pub const SECRETS: &str = "secrets";

/// The rules of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ToolRules {
    /// One word for all of its calls.
    All(Permission),
    /// By what a call touches.
    ByPattern(Vec<(String, Permission)>),
}

/// The subjects that a call would touch, and its permission without a matching rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    /// The permission if no rule matches.
    pub usual: Permission,
    /// The subjects that patterns are compared with; none for a tool without any.
    pub subjects: Vec<Subject>,
}

impl Reach {
    /// Returns the reach of a call that needs no rule.
    pub const fn free() -> Self {
        Self { usual: Permission::Allow, subjects: Vec::new() }
    }

    /// Returns the reach of a call that changes or reveals something, and of which nothing more is known.
    pub const fn careful() -> Self {
        Self { usual: Permission::Ask, subjects: Vec::new() }
    }
}

/// One thing that a call would touch.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// A file or folder that is looked at: its path from the workspace's root, with `/` between names.
    Read(String),
    /// One that is changed.
    Written(String),
    /// Everything below a folder, or one file, as far as the rules allow it: the tool itself leaves out what
    /// they deny there ([`CallScope`]).
    Below(String),
    /// A simple command, its words as the shell reads them, with one blank between them.
    Command(String),
    /// A command that cannot be taken apart with certainty, or that runs another.
    Unclear(String),
    /// An address on the network.
    Address {
        /// The host, with its port if that is unusual.
        host: String,
        /// The rest of the address, from the first slash on.
        path: String,
    },
    /// A secret that the model would be shown.
    Secret {
        /// The path of the file that holds it, or the tool whose result does.
        place: String,
        /// Its kind and, if known, its line.
        what: String,
    },
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(text) | Self::Written(text) | Self::Command(text) | Self::Unclear(text) => {
                f.write_str(text)
            }
            Self::Below(path) => write!(f, "{path}/**"),
            Self::Address { host, path } => write!(f, "{host}{path}"),
            Self::Secret { place, what } => write!(f, "{place}: {what}"),
        }
    }
}

/// The verdict of the rules on a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The permission.
    pub permission: Permission,
    /// The subjects that are judged as strictly as that; empty for a tool without subjects.
    pub about: Vec<Subject>,
    /// The rules that decided it, each as it is written and with its layer; none if no rule matched.
    pub rules: Vec<String>,
}

impl Verdict {
    /// Checks whether the mode decided it, and no rule.
    pub fn is_by(&self, mode: Mode) -> bool {
        self.rules.contains(&named(mode))
    }
}

/// Returns a mode as the reason of a verdict.
fn named(mode: Mode) -> String {
    format!("mode `{mode}`")
}

/// An error about a rule that cannot be one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PermissionPatternError(pub(super) String);

impl Permissions {
    /// Returns the rule of the command line that allows the calls of `tool`, or those that `pattern` is
    /// about.
    ///
    /// # Errors
    /// [`PermissionPatternError`] if the tool cannot be one, if it or the pattern is blank or too long, or if
    /// it is about secrets.
    pub fn allowing(tool: &str, pattern: Option<&str>) -> Result<Self, PermissionPatternError> {
        let parts = [Some(tool), pattern];
        let problem = if tool == SECRETS {
            Some("secrets are allowed only by `permissions` in your own forge.yaml")
        } else if parts.iter().flatten().any(|part| part.trim().is_empty())
            || tool.contains(|c: char| c.is_whitespace() || matches!(c, '(' | ')'))
        {
            Some("expected a tool, or a tool and a pattern, such as `shell:cargo *`")
        } else if parts.iter().flatten().any(|part| part.chars().nth(MOST_CHARS).is_some()) {
            Some("what a rule is about is too long: put a star for a part of it")
        } else {
            None
        };
        match problem {
            Some(problem) => Err(PermissionPatternError(problem.to_owned())),
            None => Ok(Self::allowance(tool, pattern)),
        }
    }

    /// Returns the rule of the command line that allows everything but secrets.
    pub(super) fn allowing_everything() -> Self {
        Self::allowance("*", None)
    }

    fn allowance(tool: &str, pattern: Option<&str>) -> Self {
        let rules = match pattern {
            None => ToolRules::All(Permission::Allow),
            Some(pattern) => ToolRules::ByPattern(vec![(pattern.to_owned(), Permission::Allow)]),
        };
        Self(vec![RuleEntry { tool: tool.to_owned(), rules, layer: RuleLayer::CommandLine }])
    }

    /// Returns each rule with its layer, as people read it.
    pub fn lines(&self) -> Vec<String> {
        self.rules().iter().map(ToString::to_string).collect()
    }

    /// Returns these rules followed by those of `later`, which therefore win.
    #[must_use]
    pub fn then(mut self, later: &Self) -> Self {
        self.0.extend(later.0.iter().cloned());
        self
    }

    /// Returns the tools that the rules name, as they are written.
    pub fn tools(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|entry| entry.tool.as_str())
    }

    /// Returns the rules, one by one in their order.
    pub fn rules(&self) -> Vec<PermissionRule<'_>> {
        self.rules_of(|_| true)
    }

    /// Marks every rule as one of `layer`.
    pub fn mark(&mut self, layer: RuleLayer) {
        for entry in &mut self.0 {
            entry.layer = layer;
        }
    }

    /// Splits off what allows something: returns the rules without it, which are as strict or stricter, and
    /// the tools that were allowed, each with its pattern where there is one.
    #[must_use]
    pub fn without_allowances(self) -> (Self, Vec<(String, Option<String>)>) {
        let (mut kept, mut allowed) = (Vec::new(), Vec::new());
        for RuleEntry { tool, rules, layer } in self.0 {
            match rules {
                ToolRules::All(Permission::Allow) => allowed.push((tool, None)),
                ToolRules::All(_) => kept.push(RuleEntry { tool, rules, layer }),
                ToolRules::ByPattern(patterns) => {
                    let (free, strict): (Vec<_>, Vec<_>) =
                        patterns.into_iter().partition(|(_, permission)| *permission == Permission::Allow);
                    allowed.extend(free.into_iter().map(|(pattern, _)| (tool.clone(), Some(pattern))));
                    kept.push(RuleEntry { tool, rules: ToolRules::ByPattern(strict), layer });
                }
            }
        }
        (Self(kept), allowed)
    }

    /// Returns the rules about `tool`.
    fn about<'r>(&'r self, tool: &str) -> Vec<PermissionRule<'r>> {
        self.rules_of(|name| is_like(name, tool, Stars::Same))
    }

    /// Returns the rules by which a secret that `tool` comes upon may be shown: those about secrets, and
    /// those of the tool's that name its file. A project's file allows none.
    fn about_secrets<'r>(&'r self, tool: &str) -> Vec<PermissionRule<'r>> {
        let mut rules = self.rules_of(|name| name == SECRETS || is_like(name, tool, Stars::Same));
        rules.retain(|rule| {
            let is_allowance = rule.permission == Permission::Allow;
            match rule.tool == SECRETS {
                true => !(is_allowance && rule.layer == RuleLayer::Project),
                false => {
                    is_allowance && rule.layer != RuleLayer::Project && rule.pattern.is_some_and(names_file)
                }
            }
        });
        rules
    }

    fn rules_of<'r>(&'r self, is_meant: impl Fn(&str) -> bool) -> Vec<PermissionRule<'r>> {
        let of_tool = self.0.iter().filter(|entry| is_meant(&entry.tool));
        let all = of_tool.flat_map(|RuleEntry { tool, rules, layer }| {
            let rule = |pattern, permission| PermissionRule { tool, pattern, permission, layer: *layer };
            match rules {
                ToolRules::All(permission) => vec![rule(None, *permission)],
                ToolRules::ByPattern(patterns) => patterns
                    .iter()
                    .map(|(pattern, permission)| {
                        rule(Some(pattern.as_str()).filter(|pattern| *pattern != "*"), *permission)
                    })
                    .collect(),
            }
        });
        all.collect()
    }
}

/// One rule of a tool.
#[derive(Clone, Copy, Debug)]
pub struct PermissionRule<'r> {
    /// The tool's name as it is written, which may have stars.
    pub tool: &'r str,
    /// `None` if it is about every call.
    pub pattern: Option<&'r str>,
    /// The permission for what it is about.
    pub permission: Permission,
    /// The layer that it comes from.
    pub layer: RuleLayer,
}

impl PermissionRule<'_> {
    /// Checks whether the rule is about `tool`.
    pub fn is_about(&self, tool: &str) -> bool {
        is_like(self.tool, tool, Stars::Same)
    }
}

impl fmt::Display for PermissionRule<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tool, pattern, permission, layer } = self;
        match pattern {
            None => write!(f, "`permissions.{tool}: {}` of {layer}", permission.word()),
            Some(pattern) => {
                write!(f, "`permissions.{tool}: {{ '{pattern}': {} }}` of {layer}", permission.word())
            }
        }
    }
}

/// The rules of several layers, all of which hold: of what they say of a call, the strictest counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules(Vec<Permissions>);

impl Rules {
    /// Decides on a call of `tool`, where the user has decided `with` this in advance.
    pub fn decide(&self, with: &Discretion, tool: &ToolName, reach: &Reach) -> Verdict {
        verdict(&self.0, with, tool, reach)
    }

    /// Returns each rule with its layer, as people read it, in the order of the layers.
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for line in self.0.iter().flat_map(Permissions::lines) {
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        lines
    }
}

impl From<Permissions> for Rules {
    fn from(only: Permissions) -> Self {
        Self(vec![only])
    }
}

impl FromIterator<Permissions> for Rules {
    fn from_iter<I: IntoIterator<Item = Permissions>>(layers: I) -> Self {
        Self(layers.into_iter().collect())
    }
}

/// Decides on a call of `tool` by the rules of all `layers`, and by what the user decided `with` this.
fn verdict(layers: &[Permissions], with: &Discretion, tool: &ToolName, reach: &Reach) -> Verdict {
    let judge = Judge {
        of_tool: layers.iter().map(|layer| layer.about(tool.as_str())).collect(),
        allowed: with.allowed.about(tool.as_str()),
        with,
        usual: reach.usual,
    };
    let judged: Vec<(&Subject, Permission, Vec<String>)> = reach
        .subjects
        .iter()
        .map(|subject| {
            let (permission, rules) = match subject {
                Subject::Secret { place, .. } => of_secret(layers, tool.as_str(), place),
                _ => judge.judge(Some(subject)),
            };
            (subject, permission, rules)
        })
        .collect();
    let Some(permission) = judged.iter().map(|(_, permission, _)| *permission).max() else {
        let (permission, rules) = judge.judge(None);
        return Verdict { permission, about: Vec::new(), rules };
    };
    let decisive = judged.into_iter().filter(|(_, judged, _)| *judged == permission);
    let (mut about, mut rules) = (Vec::new(), Vec::new());
    for (subject, _, because) in decisive {
        about.push(subject.clone());
        rules.extend(because.into_iter().filter(|rule| !rules.contains(rule)).collect::<Vec<_>>());
    }
    Verdict { permission, about, rules }
}

/// All that decides on one subject of a call.
struct Judge<'r> {
    /// The rules of each layer about the tool.
    of_tool: Vec<Vec<PermissionRule<'r>>>,
    /// The rules of the command line about it.
    allowed: Vec<PermissionRule<'r>>,
    with: &'r Discretion,
    /// The permission of the tool without a rule.
    usual: Permission,
}

impl Judge<'_> {
    /// Returns the permission for one subject, or for a call without any, and what decided it.
    fn judge(&self, subject: Option<&Subject>) -> (Permission, Vec<String>) {
        let mode = self.with.mode;
        if mode.denies(subject, self.usual) {
            return (Permission::Deny, vec![named(mode)]);
        }
        let decisions: Vec<_> = self.of_tool.iter().filter_map(|rules| decide(rules, subject)).collect();
        let is_held = |(permission, rule): &(Permission, Option<PermissionRule<'_>>)| {
            *permission == Permission::Ask && rule.is_none_or(|rule| !rule.layer.is_answered_in_advance())
        };
        let (mut permission, rules) = strictest(decisions.iter().copied(), self.usual);
        if permission == Permission::Ask && !decisions.iter().any(is_held) {
            let answer = decide(&self.allowed, subject);
            if let Some((Permission::Allow, Some(rule))) = answer {
                return (Permission::Allow, vec![rule.to_string()]);
            }
        }
        if let Some(subject) = subject.filter(|_| decisions.is_empty()) {
            permission = mode.usual(subject, self.usual);
            if permission != self.usual {
                return (permission, vec![named(mode)]);
            }
        }
        (permission, rules)
    }
}

/// Returns the decision of `rules` on one subject, or on a call without any, and the rule if it alone
/// decided.
fn decide<'r>(
    rules: &[PermissionRule<'r>],
    subject: Option<&Subject>,
) -> Option<(Permission, Option<PermissionRule<'r>>)> {
    match subject {
        Some(subject) => decision(rules, subject),
        None => {
            let rule = rules.iter().rev().find(|rule| rule.pattern.is_none())?;
            Some((rule.permission, Some(*rule)))
        }
    }
}

/// Returns the permission to show a secret in `place`, which `tool` comes upon: the user is asked unless a
/// rule allows it.
fn of_secret(layers: &[Permissions], tool: &str, place: &str) -> (Permission, Vec<String>) {
    let decisions = layers.iter().filter_map(|layer| {
        let rules = layer.about_secrets(tool);
        let is_about =
            |rule: &&PermissionRule<'_>| rule.pattern.is_none_or(|pattern| is_path_like(pattern, place));
        rules.iter().rev().find(is_about).map(|rule| (rule.permission, Some(*rule)))
    });
    strictest(decisions, Permission::Ask)
}

/// Returns the strictest of what the layers say, and the rules that say so; `usual` if they say nothing.
fn strictest<'r>(
    decisions: impl Iterator<Item = (Permission, Option<PermissionRule<'r>>)>,
    usual: Permission,
) -> (Permission, Vec<String>) {
    let decisions: Vec<_> = decisions.collect();
    let Some(permission) = decisions.iter().map(|(permission, _)| *permission).max() else {
        return (usual, Vec::new());
    };
    let rules =
        decisions.iter().filter(|(decision, _)| *decision == permission).filter_map(|(_, rule)| *rule);
    (permission, rules.map(|rule| rule.to_string()).collect())
}

/// Checks whether a pattern names files, and not only folders or everything.
fn names_file(pattern: &str) -> bool {
    pattern.rsplit('/').next().is_some_and(|name| name.contains(|c| !matches!(c, '*' | '?')))
}

/// The limits within which a call that may be made is made.
///
/// Whether a look below a folder may be taken is decided for the folder. What the rules say more strictly of
/// than of that, the tool finds only on its way, and leaves it out ([`PathRules`]).
#[derive(Clone)]
pub struct CallScope {
    rules: Rules,
    granted: Permission,
    notes: Arc<Mutex<CallNotes>>,
    expected: Option<Arc<FileChange>>,
    output: Option<LineWatcher>,
}

/// An observer of the lines that a call prints while it runs.
pub type LineWatcher = Arc<dyn Fn(&str) + Send + Sync>;

impl fmt::Debug for CallScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rules, granted, notes, expected, output: _ } = self;
        let mut scope = f.debug_struct("CallScope");
        scope.field("rules", rules).field("granted", granted).field("notes", notes);
        scope.field("expected", expected).finish_non_exhaustive()
    }
}

/// The notes of a tool on its call, besides the result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallNotes {
    /// The secrets of files that the result shows, each with the path. `None` if the tool did not look for
    /// them itself.
    pub secrets: Option<Vec<(String, FoundSecret)>>,
    /// The end of the effect in a few words, such as an exit status.
    pub outcome: Option<String>,
    /// The question that the call asks the user while it runs.
    pub asks: Option<Question>,
    /// The question that someone will answer later: the call had no effect, and is made again then.
    pub awaits: Option<Question>,
}

impl CallScope {
    /// The scope of a call for which `rules` said `granted`.
    pub fn new(rules: Permissions, granted: Permission) -> Self {
        Self::of_layers(rules.into(), granted)
    }

    /// The scope of a call for which the `rules` of several layers said `granted`.
    pub fn of_layers(rules: Rules, granted: Permission) -> Self {
        Self { rules, granted, notes: Arc::default(), expected: None, output: None }
    }

    /// Returns the scope of a call that may make this change and no other.
    #[must_use]
    pub fn expecting(self, change: Option<FileChange>) -> Self {
        Self { expected: change.map(Arc::new), ..self }
    }

    /// Returns the scope of a call whose output is shown to `watcher` as it comes.
    #[must_use]
    pub fn watched_by(self, watcher: LineWatcher) -> Self {
        Self { output: Some(watcher), ..self }
    }

    /// Shows a line of output while the call runs. The result has it as well.
    pub fn show_line(&self, line: &str) {
        if let Some(watcher) = &self.output {
            watcher(line);
        }
    }

    /// Returns the only change that the call may make, if the user was shown one.
    pub fn expected(&self) -> Option<&FileChange> {
        self.expected.as_deref()
    }

    /// Returns the scope of a call that no rules are about: everything is allowed, secrets too.
    pub fn unlimited() -> Self {
        let anything = RuleEntry {
            tool: SECRETS.to_owned(),
            rules: ToolRules::All(Permission::Allow),
            layer: RuleLayer::Program,
        };
        Self::of_layers(Permissions(vec![anything]).into(), Permission::Allow)
    }

    /// Notes that the tool looked for secrets, and found these in what the result shows of the file `path`.
    pub fn note_secrets(&self, path: &str, found: Vec<FoundSecret>) {
        let mut notes = self.lock_notes();
        let found = found.into_iter().map(|secret| (path.to_owned(), secret));
        notes.secrets.get_or_insert_default().extend(found);
    }

    /// Notes how the effect of the call ended.
    pub fn note_outcome(&self, outcome: String) {
        self.lock_notes().outcome = Some(outcome);
    }

    /// Notes that the call is about to ask the user `question`: if the answer is not there at once, hooks are
    /// notified.
    pub fn note_question(&self, question: &Question) {
        self.lock_notes().asks = Some(question.clone());
    }

    /// Notes that the call waits for the answer to `question`, and had no effect.
    pub fn note_awaited(&self, question: Question) {
        self.lock_notes().awaits = Some(question);
    }

    /// Returns what was noted of the call.
    pub fn notes(&self) -> CallNotes {
        self.lock_notes().clone()
    }

    fn lock_notes(&self) -> MutexGuard<'_, CallNotes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the permission to show a secret in `path` that a call of `tool` comes upon.
    pub fn of_secret(&self, tool: &str, path: &str) -> Permission {
        of_secret(&self.rules.0, tool, path).0
    }

    /// Checks whether a call of `tool` may continue to something that it comes upon: the rules say nothing
    /// stricter of that than of what was granted.
    pub fn goes_on_to(&self, tool: &str, subject: &Subject) -> bool {
        let layers = self.rules.0.iter().map(|layer| layer.about(tool));
        let decisions: Vec<_> = layers.filter_map(|rules| decide(&rules, Some(subject))).collect();
        strictest(decisions.into_iter(), self.granted).0 <= self.granted
    }

    /// Returns the rules for the paths that a call of `tool` comes upon. What is denied to `reader`, a tool
    /// that shows the same in another way, is left out as well, unless a later rule about `tool` itself
    /// allows it.
    pub fn paths(&self, tool: &str, reader: Option<&str>) -> PathRules {
        let layers = self.rules.0.iter().map(|layer| layer.path_rules(tool, reader)).collect();
        PathRules { layers, granted: self.granted }
    }
}

impl Permissions {
    fn path_rules(&self, tool: &str, reader: Option<&str>) -> Vec<PathRule> {
        let is_about = |name: &str, tool: &str| is_like(name, tool, Stars::Same);
        let mut all = Vec::new();
        for RuleEntry { tool: name, rules, .. } in &self.0 {
            let is_own = is_about(name, tool);
            if !is_own && !reader.is_some_and(|reader| is_about(name, reader)) {
                continue;
            }
            match rules {
                ToolRules::All(permission) => {
                    let text = format!("{name}: {}", permission.word());
                    all.push(PathRule { pattern: None, permission: *permission, is_own, text });
                }
                ToolRules::ByPattern(patterns) => all.extend(patterns.iter().map(|(pattern, permission)| {
                    let regex = Some(pattern.as_str()).filter(|pattern| *pattern != "*").map(path_regex);
                    let text = format!("{pattern}: {}", permission.word());
                    PathRule { pattern: regex, permission: *permission, is_own, text }
                })),
            }
        }
        all
    }
}

/// A set of rules for the paths that a call encounters, prepared for many of them.
#[derive(Clone, Debug)]
pub struct PathRules {
    /// The rules of each layer; what one of them leaves out is left out.
    layers: Vec<Vec<PathRule>>,
    granted: Permission,
}

#[derive(Clone, Debug)]
struct PathRule {
    /// `None` for every path; an inner `None` matches nothing.
    pattern: Option<Option<Regex>>,
    permission: Permission,
    /// True if it is about the called tool.
    is_own: bool,
    text: String,
}

impl PathRules {
    /// Returns the rule for which `path` is left out, as it is written, and its permission.
    pub fn against(&self, path: &str) -> Option<(&str, Permission)> {
        let matches = |rule: &&PathRule| match &rule.pattern {
            None => true,
            Some(pattern) => pattern.as_ref().is_some_and(|pattern| pattern.is_match(path)),
        };
        let against = |layer: &Vec<PathRule>| {
            let at = layer.iter().rposition(|rule| matches(&rule))?;
            let rule = &layer[at];
            let is_left_out = match rule.is_own {
                true => rule.permission > self.granted,
                false => rule.permission == Permission::Deny,
            };
            is_left_out.then_some(at)
        };
        let (layer, at) = self.layers.iter().find_map(|layer| Some((layer, against(layer)?)))?;
        Some((layer[at].text.as_str(), layer[at].permission))
    }
}

/// Returns the decision of the last matching rule on one subject, and the rule if it alone decided.
fn decision<'r>(
    rules: &[PermissionRule<'r>],
    subject: &Subject,
) -> Option<(Permission, Option<PermissionRule<'r>>)> {
    // If a pattern may be about something that we cannot decide, it does not allow it, and is asked about if
    // it denies.
    let mut least: Option<Permission> = None;
    let outcome = |permission: Permission, rule: &PermissionRule<'r>, least: Option<Permission>| match least {
        Some(least) if least > permission => Some((least, None)),
        _ => Some((permission, Some(*rule).filter(|rule| rule.permission == permission))),
    };
    for rule in rules.iter().rev() {
        let is_free = rule.permission == Permission::Allow;
        let Some(pattern) = rule.pattern else {
            let permission = if is_own(subject) && is_free { Permission::Ask } else { rule.permission };
            return outcome(permission, rule, least);
        };
        match touches(pattern, subject) {
            Touches::Yes if is_own(subject) && !names_own(pattern) && is_free => {
                return outcome(Permission::Ask, rule, least);
            }
            Touches::Yes => return outcome(rule.permission, rule, least),
            Touches::Perhaps if !is_free => least = Some(Permission::Ask).max(least),
            Touches::Perhaps | Touches::No => {}
        }
    }
    least.map(|least| (least, None))
}

/// Checks whether a subject steers what Forge or git do: writing it means being able to do anything. It needs
/// consent unless a pattern names it.
fn is_own(subject: &Subject) -> bool {
    let Subject::Written(path) = subject else { return false };
    path.split('/').any(|name| name.eq_ignore_ascii_case(".git")) || is_forge_yaml(path)
}

fn is_forge_yaml(path: &str) -> bool {
    path.rsplit('/').next().is_some_and(|name| name.eq_ignore_ascii_case("forge.yaml"))
}

fn names_own(pattern: &str) -> bool {
    pattern.split('/').any(|name| name == ".git") || is_forge_yaml(pattern)
}

/// The relation of a pattern to a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Touches {
    Yes,
    /// It cannot be decided.
    Perhaps,
    No,
}

fn touches(pattern: &str, subject: &Subject) -> Touches {
    let known = |is: bool| if is { Touches::Yes } else { Touches::No };
    match subject {
        Subject::Read(path) | Subject::Written(path) => known(is_path_like(pattern, path)),
        // A pattern about a part of it is the tool's affair (`CallScope`).
        Subject::Below(path) => {
            known(covers(pattern, path) || (path.as_str() != "." && is_path_like(pattern, path)))
        }
        Subject::Command(words) => known(is_like(pattern, words, Stars::Words)),
        Subject::Secret { place, .. } => known(is_path_like(pattern, place)),
        Subject::Unclear(_) => Touches::Perhaps,
        Subject::Address { host, path } => {
            let pattern = pattern.split_once("://").map_or(pattern, |(_, rest)| rest).to_ascii_lowercase();
            if pattern.contains('/') {
                known(is_like(&pattern, &format!("{host}{}", path.to_ascii_lowercase()), Stars::Same))
            } else {
                known(is_like(&pattern, host, Stars::Same))
            }
        }
    }
}

/// Checks whether everything below `folder` matches.
fn covers(pattern: &str, folder: &str) -> bool {
    (pattern.ends_with("**") || pattern.ends_with('/')) && is_path_like(pattern, &format!("{folder}/x"))
}

/// Checks whether a path matches: a pattern without a slash matches a name anywhere, `*` matches a part of
/// one name and `**` any number of names.
fn is_path_like(pattern: &str, path: &str) -> bool {
    path_regex(pattern).is_some_and(|regex| regex.is_match(path))
}

fn path_regex(pattern: &str) -> Option<Regex> {
    let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
    let pattern = match pattern.strip_suffix('/') {
        Some(folder) => format!("{folder}/**"),
        None => pattern.to_owned(),
    };
    match pattern.strip_prefix('/') {
        Some(from_root) => regex(from_root, Stars::Names),
        None if pattern.contains('/') => regex(&pattern, Stars::Names),
        None => regex(&format!("**/{pattern}"), Stars::Names),
    }
}

/// The meaning of a star.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stars {
    /// Any text.
    Same,
    /// Any text; after a blank at the end also none, without the blank: `cargo *` is also about `cargo`.
    Words,
    /// A part of a name; two stars for any number of names.
    Names,
}

fn is_like(pattern: &str, text: &str, stars: Stars) -> bool {
    // Everything that the loader accepts can be compiled. Anything else would match nothing: what it allows
    // is not allowed.
    regex(pattern, stars).is_some_and(|regex| regex.is_match(text))
}

fn regex(pattern: &str, stars: Stars) -> Option<Regex> {
    let (pattern, end) = match (stars, pattern.strip_suffix(" *"), pattern.strip_suffix("/**")) {
        (Stars::Words, Some(command), _) => (command, "(?: .*)?"),
        (Stars::Names, _, Some(folder)) if !folder.is_empty() => (folder, "(?:/.*)?"),
        _ => (pattern, ""),
    };
    let mut regex = String::from("(?s)^");
    let mut rest = pattern;
    while let Some(next) = rest.chars().next() {
        let (taken, means) = match (stars, next) {
            (Stars::Names, '*') if rest.starts_with("**/") => (3, "(?:.*/)?".into()),
            (Stars::Names, '*') if rest.starts_with("**") => (2, ".*".into()),
            (Stars::Names, '*') => (1, "[^/]*".into()),
            (Stars::Names, '?') => (1, "[^/]".into()),
            (_, '*') => (1, ".*".into()),
            (_, '?') => (1, ".".into()),
            (_, plain) => (plain.len_utf8(), regex::escape(&rest[..plain.len_utf8()])),
        };
        regex.push_str(&means);
        rest = &rest[taken..];
    }
    regex.push_str(end);
    regex.push('$');
    Regex::new(&regex).ok()
}

impl Serialize for Permissions {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for RuleEntry { tool, rules, .. } in &self.0 {
            map.serialize_entry(tool, rules)?;
        }
        map.end()
    }
}

impl Serialize for ToolRules {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::All(permission) => permission.serialize(serializer),
            Self::ByPattern(patterns) => {
                serializer.collect_map(patterns.iter().map(|(pattern, permission)| (pattern, permission)))
            }
        }
    }
}

impl<'de> Deserialize<'de> for Permissions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct All;
        impl<'de> Visitor<'de> for All {
            type Value = Permissions;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a mapping of tools, each with allow, ask, deny or a mapping of patterns")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Permissions, A::Error> {
                let entry = |(tool, rules)| RuleEntry { tool, rules, layer: RuleLayer::default() };
                Ok(Permissions(entries(map)?.into_iter().map(entry).collect()))
            }
        }
        deserializer.deserialize_map(All)
    }
}

impl<'de> Deserialize<'de> for ToolRules {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMany;
        impl<'de> Visitor<'de> for OneOrMany {
            type Value = ToolRules;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("allow, ask, deny, or a mapping of patterns to one of these")
            }
            fn visit_str<E: de::Error>(self, word: &str) -> Result<ToolRules, E> {
                Permission::deserialize(word.into_deserializer()).map(ToolRules::All)
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ToolRules, A::Error> {
                entries(map).map(ToolRules::ByPattern)
            }
        }
        deserializer.deserialize_any(OneOrMany)
    }
}

/// Most characters of a pattern, or of a tool's name with stars: each of these can be compiled, so that no
/// rule is passed over.
const MOST_CHARS: usize = 500;

/// Reads the entries of a mapping in order, and refuses one that is about nothing or too long to be matched.
fn entries<'de, A: MapAccess<'de>, T: Deserialize<'de>>(mut map: A) -> Result<Vec<(String, T)>, A::Error> {
    let mut entries = Vec::new();
    while let Some(key) = map.next_key::<String>()? {
        if key.trim().is_empty() {
            return Err(de::Error::custom("this must say what the rule is about; `*` stands for everything"));
        }
        if key.chars().nth(MOST_CHARS).is_some() {
            let what = format!(
                "what a rule is about has at most {MOST_CHARS} characters: put a star for a part of it"
            );
            return Err(de::Error::custom(what));
        }
        entries.push((key, map.next_value()?));
    }
    Ok(entries)
}

impl JsonSchema for Permissions {
    fn schema_name() -> Cow<'static, str> {
        "Permissions".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let permission = generator.subschema_for::<Permission>();
        json_schema!({
            "description": "Which calls may be made: for each tool (`*` stands for any text in its name) a permission, or one \
                            for each pattern on the path, command or host that a call is about. The last rule that matches counts. \
                            `secrets` stands for the files and tools whose secrets a model may be shown.",
            "type": "object",
            "patternProperties": { r"\S": {
                "anyOf": [
                    permission,
                    { "type": "object", "patternProperties": { r"\S": permission }, "additionalProperties": false },
                ],
                "examples": ["ask", { "cargo *": "allow" }],
            } },
            "additionalProperties": false,
        })
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn decide(permissions: &Permissions, tool: &ToolName, reach: &Reach) -> Verdict {
        verdict(std::slice::from_ref(permissions), &Discretion::default(), tool, reach)
    }

    fn check(yaml: &str, tool: &str, reach: &Reach, expected: Permission) {
        let permissions: Permissions = serde_saphyr::from_str(yaml).unwrap();
        let actual = decide(&permissions, &ToolName::new(tool).unwrap(), reach).permission;
        assert_eq!(actual, expected, "{yaml}: {tool} {:?}", reach.subjects);
    }

    #[test]
    fn a_pattern_as_long_as_may_be_counts_and_a_longer_one_is_refused() {
        for part in ["*", "?", "**/", "\u{10400}", "ab*?", "(", "a/**/"] {
            let pattern: String = part.chars().cycle().take(MOST_CHARS).collect();
            for stars in [Stars::Same, Stars::Words, Stars::Names] {
                let text = pattern.replace("**", "x").replace(['*', '?'], "x");
                assert!(is_like(&pattern, &text, stars), "{part} {stars:?}");
            }
            for yaml in [format!("{{ '{pattern}a': deny }}"), format!("read: {{ '{pattern}a': deny }}")] {
                let error = serde_saphyr::from_str::<Permissions>(&yaml).unwrap_err().to_string();
                assert!(error.contains("at most 500 characters"), "{part}: {error}");
            }
        }
    }

    fn of(usual: Permission, subjects: &[Subject]) -> Reach {
        Reach { usual, subjects: subjects.to_vec() }
    }

    use Permission::{Allow, Ask, Deny};

    #[test]
    fn the_last_rule_that_matches_counts() {
        let none = &Reach::careful();
        for (yaml, tool, expected) in [
            ("{}", "shell", Ask),
            ("{ shell: allow }", "shell", Allow),
            ("{ shell: allow }", "write", Ask),
            ("{ '*': deny, shell: allow }", "shell", Allow),
            ("{ shell: allow, '*': deny }", "shell", Deny),
            ("{ 'git__*': allow }", "git__log", Allow),
            ("{ 'git__*': allow }", "files__read", Ask),
            // Patterns do not match a tool whose calls have no subjects.
            ("{ mcp: { 'a*': deny } }", "mcp", Ask),
            ("{ mcp: { 'a*': deny, '*': allow } }", "mcp", Allow),
        ] {
            check(yaml, tool, none, expected);
        }
        let workflow: Permissions = serde_saphyr::from_str("{ shell: deny, write: allow }").unwrap();
        let agent: Permissions = serde_saphyr::from_str("{ shell: ask }").unwrap();
        let both = workflow.then(&agent);
        let decided = |tool: &str| decide(&both, &ToolName::new(tool).unwrap(), none).permission;
        assert_eq!((decided("shell"), decided("write")), (Ask, Allow));
    }

    #[test]
    fn paths_are_matched_name_by_name() {
        let rules = "{ write: { 'src/**': allow, '*.md': allow, 'src/*.lock': deny, '/top': allow, 'docs/': allow, 'a?/x': allow } }";
        for (path, expected) in [
            ("src/a.rs", Allow),
            ("src/a/b.rs", Allow),
            ("src/x.lock", Deny),
            ("src/a/x.lock", Allow),
            ("other/a.rs", Ask),
            ("srcs/a.rs", Ask),
            ("README.md", Allow),
            ("deep/down/README.md", Allow),
            ("top", Allow),
            ("a/top", Ask),
            ("docs/page", Allow),
            ("ab/x", Allow),
            ("a/x", Ask),
            // As it was given, if it leads out of the workspace.
            ("../src/a.rs", Ask),
        ] {
            check(rules, "write", &of(Ask, &[Subject::Written(path.to_owned())]), expected);
        }
    }

    #[test]
    fn what_steers_forge_and_git_is_asked_for_unless_it_is_named() {
        for (yaml, path, expected) in [
            ("{ write: allow }", "a.rs", Allow),
            ("{ write: allow }", "forge.yaml", Ask),
            ("{ write: allow }", ".git/hooks/pre-commit", Ask),
            ("{ write: allow }", "sub/.GIT/config", Ask),
            ("{ write: { '**': allow } }", "forge.yaml", Ask),
            ("{ '*': allow }", "forge.yaml", Ask),
            ("{ write: { 'forge.yaml': allow } }", "forge.yaml", Allow),
            ("{ write: { '.git/**': allow } }", ".git/config", Allow),
            ("{ write: deny }", "forge.yaml", Deny),
        ] {
            check(yaml, "write", &of(Ask, &[Subject::Written(path.to_owned())]), expected);
        }
        check("{ read: allow }", "read", &of(Allow, &[Subject::Read("forge.yaml".to_owned())]), Allow);
    }

    #[test]
    fn every_part_of_a_command_must_be_allowed() {
        let rules = "{ shell: { 'cargo *': allow, 'git status': allow, 'rm *': deny } }";
        let command = |text: &str| Subject::Command(text.to_owned());
        let unclear = || Subject::Unclear("x $(y)".to_owned());
        for (yaml, subjects, expected) in [
            (rules, vec![command("cargo test")], Allow),
            (rules, vec![command("cargo")], Allow),
            (rules, vec![command("cargotest")], Ask),
            (rules, vec![command("git status")], Allow),
            (rules, vec![command("git status -s")], Ask),
            (rules, vec![command("cargo test"), command("git status")], Allow),
            (rules, vec![command("cargo test"), command("curl x")], Ask),
            (rules, vec![command("cargo test"), command("rm -rf /")], Deny),
            // What cannot be taken apart is allowed by no pattern, and may be what one forbids.
            (rules, vec![unclear()], Ask),
            ("{ shell: allow }", vec![unclear()], Allow),
            ("{ shell: { '*': allow } }", vec![unclear()], Allow),
            ("{ shell: { '*': allow, 'rm *': deny } }", vec![unclear()], Ask),
            ("{ shell: { 'rm *': deny, '*': allow } }", vec![unclear()], Allow),
            ("{ shell: { '*': deny, 'echo *': allow } }", vec![unclear()], Deny),
        ] {
            check(yaml, "shell", &of(Ask, &subjects), expected);
        }
    }

    #[test]
    fn hosts_are_matched_with_or_without_what_follows() {
        let rules = "{ fetch: { 'docs.rs': allow, '*.example.org': allow, 'github.com/rust-lang/*': allow, 'https://one.test': deny } }";
        for (host, path, expected) in [
            ("docs.rs", "/serde", Allow),
            ("docs.rs:8080", "/", Ask),
            ("evil-docs.rs", "/", Ask),
            ("docs.rs.evil.test", "/", Ask),
            ("a.example.org", "/", Allow),
            ("example.org", "/", Ask),
            ("github.com", "/rust-lang/rust", Allow),
            ("github.com", "/other", Ask),
            ("one.test", "/x", Deny),
        ] {
            let subject = Subject::Address { host: host.to_owned(), path: path.to_owned() };
            check(rules, "fetch", &of(Ask, &[subject]), expected);
        }
    }

    #[test]
    fn a_look_below_a_folder_is_decided_for_the_folder() {
        let rules = "{ '*': { 'secrets/**': deny } }";
        for (yaml, folder, expected) in [
            (rules, ".", Allow),
            (rules, "src", Allow),
            (rules, "secrets", Deny),
            (rules, "secrets/a", Deny),
            ("{ search: { '*.pem': deny } }", "src", Allow),
            ("{ search: { 'src/**': ask } }", "src", Ask),
            // What is named itself is decided itself.
            ("{ search: { '.env': ask } }", "a/.env", Ask),
            ("{ search: { '.*': deny } }", ".", Allow),
            ("{ search: { 'src/**': allow, '*': deny } }", "src", Deny),
            ("{ search: { '*': deny, 'src/**': allow } }", "src", Allow),
            ("{ search: { '*': deny, 'src/**': allow } }", "src/a", Allow),
            ("{ search: { '*': deny, 'src/a/**': allow } }", "src", Deny),
        ] {
            check(yaml, "search", &of(Allow, &[Subject::Below(folder.to_owned())]), expected);
        }
    }

    #[test]
    fn what_is_denied_below_a_folder_is_left_out() {
        for (yaml, granted, path, expected) in [
            ("{ search: { '.env': deny } }", Allow, "a/.env", Some((".env: deny", Deny))),
            ("{ search: { '.env': deny } }", Allow, "a/env", None),
            ("{ '*': { 'secrets/**': deny } }", Allow, "secrets/a/b", Some(("secrets/**: deny", Deny))),
            ("{ '*': { 'secrets/**': deny } }", Allow, "secrets", Some(("secrets/**: deny", Deny))),
            // Who may not read a file may not search it either, unless that is allowed by name.
            ("{ read: { '.env': deny } }", Allow, ".env", Some((".env: deny", Deny))),
            ("{ read: deny }", Allow, "a", Some(("read: deny", Deny))),
            ("{ read: deny, search: allow }", Allow, "a", None),
            ("{ read: { '.env': deny }, search: { 'a/.env': allow } }", Allow, "a/.env", None),
            ("{ search: allow, read: { '.env': deny } }", Allow, ".env", Some((".env: deny", Deny))),
            ("{ read: { '*': deny, 'src/**': allow } }", Allow, "src/a", None),
            ("{ read: { '*': deny, 'src/**': allow } }", Allow, "a", Some(("*: deny", Deny))),
            // Reading it needs consent, which no one can give for each file of a search.
            ("{ read: ask }", Allow, "a", None),
            ("{ write: deny, list: deny }", Allow, "a", None),
            ("{ search: { 'a/**': ask } }", Allow, "a/b", Some(("a/**: ask", Ask))),
            // The user's consent is shown.
            ("{ search: ask }", Ask, "a", None),
            ("{ search: { '*': ask, 'b': deny } }", Ask, "b", Some(("b: deny", Deny))),
        ] {
            let rules: Permissions = serde_saphyr::from_str(yaml).unwrap();
            let paths = CallScope::new(rules, granted).paths("search", Some("read"));
            assert_eq!(paths.against(path), expected, "{yaml}: {path}");
        }
        assert_eq!(CallScope::unlimited().paths("search", Some("read")).against(".env"), None);
    }

    #[test]
    fn a_secret_is_asked_for_unless_its_file_is_named() {
        for (yaml, place, expected) in [
            ("{}", ".env", Ask),
            // What allows everything does not name it.
            ("{ '*': allow, read: allow }", ".env", Ask),
            ("{ read: { '**': allow, '*': allow, 'a/*': allow } }", "a/.env", Ask),
            ("{ read: { '.env': allow } }", "a/.env", Allow),
            ("{ read: { '*.pem': allow } }", ".env", Ask),
            ("{ search: { '.env': allow } }", ".env", Ask),
            ("{ secrets: allow }", ".env", Allow),
            ("{ secrets: { '.env': allow } }", "a/.env", Allow),
            ("{ secrets: { '.env': allow } }", "id_rsa", Ask),
            ("{ secrets: deny }", ".env", Deny),
            ("{ secrets: deny, read: { '.env': allow } }", ".env", Allow),
            ("{ secrets: { '*': allow, 'prod/**': deny } }", "prod/.env", Deny),
            ("{ read: { '.env': deny } }", ".env", Deny),
        ] {
            let what = "an environment file".to_owned();
            let secret = Subject::Secret { place: place.to_owned(), what };
            check(yaml, "read", &of(Allow, &[Subject::Read(place.to_owned()), secret]), expected);
        }
    }

    #[test]
    fn a_project_allows_no_secret() {
        let read = ToolName::new("read").unwrap();
        let secret = Subject::Secret { place: ".env".to_owned(), what: "an environment file".to_owned() };
        let reach = of(Allow, &[secret]);
        for (yaml, layer, expected) in [
            ("{ secrets: allow }", RuleLayer::User, Allow),
            ("{ secrets: allow }", RuleLayer::System, Allow),
            ("{ secrets: allow }", RuleLayer::Project, Ask),
            ("{ secrets: { '.env': allow } }", RuleLayer::Project, Ask),
            ("{ read: { '.env': allow } }", RuleLayer::Project, Ask),
            ("{ secrets: deny }", RuleLayer::Project, Deny),
        ] {
            let mut rules: Permissions = serde_saphyr::from_str(yaml).unwrap();
            rules.mark(layer);
            assert_eq!(decide(&rules, &read, &reach).permission, expected, "{yaml} {layer}");
            // It takes back what the user allows, and does not lift what they deny.
            let mut own: Permissions = serde_saphyr::from_str("{ secrets: { '.env': allow } }").unwrap();
            own.mark(RuleLayer::User);
            let both = Rules(vec![own, rules]).decide(&Discretion::default(), &read, &reach).permission;
            assert_eq!(both, if expected == Deny { Deny } else { Allow }, "{yaml} {layer}");
        }
    }

    #[test]
    fn a_verdict_names_the_rules_that_decided() {
        let shell = ToolName::new("shell").unwrap();
        let mut rules: Permissions = serde_saphyr::from_str("{ shell: { 'cargo *': allow } }").unwrap();
        rules.mark(RuleLayer::User);
        let command = |text: &str| Subject::Command(text.to_owned());
        let by_pattern = "`permissions.shell: { 'cargo *': allow }` of the user's own file";
        for (subjects, expected) in [
            (vec![command("cargo test"), command("cargo build")], vec![by_pattern]),
            (vec![command("cargo test"), command("rm x")], vec![]),
            (vec![command("rm x")], vec![]),
        ] {
            assert_eq!(decide(&rules, &shell, &of(Ask, &subjects)).rules, expected, "{subjects:?}");
        }
        let whole: Permissions = serde_saphyr::from_str("{ '*': deny, shell: allow }").unwrap();
        let verdict = decide(&whole, &shell, &Reach::careful());
        assert_eq!(verdict.rules, ["`permissions.shell: allow` of the program"]);
    }

    #[test]
    fn what_is_written_is_read_again() {
        let yaml = "{ '*': deny, shell: { 'cargo *': allow, '*': ask }, read: allow }";
        let permissions: Permissions = serde_saphyr::from_str(yaml).unwrap();
        assert_eq!(permissions.tools().collect::<Vec<_>>(), ["*", "shell", "read"]);
        let again: Permissions =
            serde_saphyr::from_str(&serde_saphyr::to_string(&permissions).unwrap()).unwrap();
        assert_eq!(again, permissions);
        for (yaml, expected) in [
            ("{ shell: perhaps }", "perhaps"),
            ("{ shell: { 'a': never } }", "never"),
            ("{ '': allow }", "what the rule is about"),
            ("{ shell: { ' ': allow } }", "what the rule is about"),
            ("[shell]", "mapping"),
        ] {
            let actual = serde_saphyr::from_str::<Permissions>(yaml).unwrap_err().to_string();
            assert!(actual.contains(expected), "{yaml}: {actual}");
        }
    }
}
