//! Rules for calls as other agents write them, in the words of Forge.

use crate::{Permission, tool_twin};

/// A rule that names its tool and its pattern in one word, such as `Bash(rm *)`.
///
/// It is not obeyed: patterns of other agents mean something else. It is only shown how to write it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignRule {
    /// The tools of Forge that do what the named one does.
    tools: &'static [&'static str],
    pattern: String,
}

impl ForeignRule {
    /// Reads a key of `permissions`: `Bash(rm *)`, or `shell:rm *` as the command line has it. Returns `None`
    /// if it has neither form.
    pub fn of_key(key: &str) -> Option<Self> {
        let of_flag = || key.split_once(':').and_then(|(tool, pattern)| Self::new(tool, pattern));
        Self::with_parentheses(key).or_else(of_flag)
    }

    /// Reads a rule such as `Bash(rm *)`. Returns `None` if it has no such form.
    pub fn with_parentheses(rule: &str) -> Option<Self> {
        let (tool, pattern) = rule.strip_suffix(')')?.split_once('(')?;
        Self::new(tool, pattern)
    }

    fn new(tool: &str, pattern: &str) -> Option<Self> {
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
        if tool.is_empty() || !tool.chars().all(is_name) {
            return None;
        }
        let tools: &[&str] = match tool_twin(tool) {
            Some("shell") => &["shell"],
            // `Edit(…)` is about every tool that edits files.
            Some("patch") => &["write", "patch"],
            Some("write") => &["write"],
            Some("read") => &["read"],
            Some("search") => &["search"],
            Some("list") => &["list"],
            Some("fetch") => &["fetch"],
            _ => &[],
        };
        let pattern = match (tools, pattern.strip_suffix(":*"), pattern.strip_prefix("domain:")) {
            (["shell"], Some(command), _) => format!("{command} *"),
            (["fetch"], _, Some(host)) => host.to_owned(),
            _ => pattern.to_owned(),
        };
        Some(Self { tools, pattern })
    }

    /// Returns the rule as `forge.yaml` has it; `None` if no tool of Forge does what the named one does.
    pub fn yaml(&self, permission: Permission) -> Option<String> {
        let (pattern, word) = (self.pattern.replace('\'', "''"), permission.word());
        self.joined(|tool| format!("`{tool}: {{ '{pattern}': {word} }}`"))
    }

    /// Returns the rule as the command line has it; `None` if no tool of Forge does what the named one does.
    pub fn flags(&self) -> Option<String> {
        self.joined(|tool| format!("`--allow '{tool}:{}'`", self.pattern))
    }

    fn joined(&self, written: impl Fn(&str) -> String) -> Option<String> {
        let written: Vec<String> = self.tools.iter().copied().map(written).collect();
        (!written.is_empty()).then(|| written.join(" and "))
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_rule_of_another_agent_is_shown_as_forge_writes_it() {
        for (rule, expected) in [
            ("Bash(rm *)", Some("`shell: { 'rm *': deny }`")),
            ("Bash(rm:*)", Some("`shell: { 'rm *': deny }`")),
            ("Bash(echo 'a')", Some("`shell: { 'echo ''a''': deny }`")),
            ("Edit(docs/**)", Some("`write: { 'docs/**': deny }` and `patch: { 'docs/**': deny }`")),
            ("WebFetch(domain:docs.rs)", Some("`fetch: { 'docs.rs': deny }`")),
            ("shell:rm *", Some("`shell: { 'rm *': deny }`")),
            // No tool does this, or it is no such rule.
            ("Fly(away)", None),
            ("rm *", None),
            ("(a)", None),
        ] {
            let actual = ForeignRule::of_key(rule).and_then(|rule| rule.yaml(Permission::Deny));
            assert_eq!(actual.as_deref(), expected, "{rule}");
        }
        let flags = ForeignRule::with_parentheses("Edit(a)").and_then(|rule| rule.flags());
        assert_eq!(flags.as_deref(), Some("`--allow 'write:a'` and `--allow 'patch:a'`"));
        assert_eq!(ForeignRule::with_parentheses("shell:(cd a)"), None);
    }
}
