//! The paths below a folder that the rules hide, and the note that reports them.

use std::path::Path;

use forge_domain::{PathRules, Permission, quantity, secret_rule};

use super::workspace::plain;

/// The most rules that a note names.
const MOST_RULES: usize = 5;

/// A filter that passes paths that no rule denies, and counts the others.
pub(super) struct Sieve {
    rules: PathRules,
    n_left_out: usize,
    /// The rules for which something was left out, each once, in the order in which they came up.
    because: Vec<(String, Permission)>,
    /// The files that were left out for the secrets that they hold, each with the kind.
    secrets: Vec<(String, &'static str)>,
    /// The places that were left out because they hold keys.
    key_places: Vec<String>,
}

impl Sieve {
    pub(super) const fn new(rules: PathRules) -> Self {
        Self { rules, n_left_out: 0, because: Vec::new(), secrets: Vec::new(), key_places: Vec::new() }
    }

    /// Checks whether `path`, relative to the workspace, may be shown.
    pub(super) fn lets_through(&mut self, path: &Path) -> bool {
        self.lets_all_through(&[plain(path)])
    }

    /// Checks whether something with these names may be shown.
    pub(super) fn lets_all_through(&mut self, names: &[String]) -> bool {
        let Some((rule, permission)) = names.iter().find_map(|name| self.rules.against(name)) else {
            return true;
        };
        self.n_left_out += 1;
        if !self.because.iter().any(|(known, _)| known == rule) {
            self.because.push((rule.to_owned(), permission));
        }
        false
    }

    /// Counts a file that is left out for the secrets that it holds.
    pub(super) fn leave_out_secret(&mut self, path: String, kind: &'static str) {
        self.secrets.push((path, kind));
    }

    /// Notes a file or folder that is left out because it holds keys.
    pub(super) fn leave_out_keys(&mut self, path: String) {
        self.key_places.push(path);
    }

    /// Returns which places were left out for their keys; `None` if none was.
    pub(super) fn note_of_keys(&self) -> Option<String> {
        let n = self.key_places.len();
        let named: Vec<String> =
            self.key_places.iter().take(MOST_RULES).map(|path| format!("`{path}`")).collect();
        let more = if n > named.len() { ", …" } else { "" };
        let named = named.join(", ");
        (n > 0).then(|| {
            let places = quantity(n, "place");
            format!("{places} left out for keys: {named}{more}; name one as `path` to have the user asked")
        })
    }

    /// Returns which files were left out for their secrets; `None` if none was.
    pub(super) fn note_of_secrets(&self) -> Option<String> {
        let (first, _) = self.secrets.first()?;
        let named = self.secrets.iter().take(MOST_RULES);
        let mut named: Vec<String> = named.map(|(path, kind)| format!("`{path}` ({kind})")).collect();
        if self.secrets.len() > MOST_RULES {
            named.push("…".to_owned());
        }
        Some(format!(
            "{} left out for secrets: {}; name one as `path` to have the user asked, or {} in the user's own \
             forge.yaml allows it",
            quantity(self.secrets.len(), "file"),
            named.join(", "),
            secret_rule(first)
        ))
    }

    /// Returns a note about what was left out and why; `None` if nothing was. `what` names one thing.
    pub(super) fn note(&self, what: &str) -> Option<String> {
        let n = self.n_left_out;
        if n == 0 {
            return None;
        }
        let by = |permission: Permission, words: &str| {
            let rules = self.because.iter().filter(|(_, said)| *said == permission);
            let rules: Vec<String> = rules.take(MOST_RULES).map(|(rule, _)| format!("`{rule}`")).collect();
            (!rules.is_empty()).then(|| format!("{words} {}", rules.join(", ")))
        };
        let denied = by(Permission::Deny, "denied by");
        let asked = by(Permission::Ask, "not shown without consent by");
        let why: Vec<String> = denied.into_iter().chain(asked).collect();
        Some(format!("{n} {what}{} left out: {}", if n == 1 { "" } else { "s" }, why.join("; ")))
    }
}
