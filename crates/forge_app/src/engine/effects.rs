//! What a call of a tool does: kept in the log of actions, and its result searched for secrets before the model reads it.

use forge_domain::{
    ActionConsent, ActionKind, Agent, Content, FoundSecret, Permission, Reach, Subject, ToolCall, ToolName,
    ToolResult, Verdict, find_secrets, secret_rule, without_secrets,
};
use serde_json::Value;

use super::Engine;
use super::permitting::Permit;
use crate::actions::{ActionDraft, Begun};

/// Most characters of a call's arguments that the log has, where nothing more is known of what it does.
const SHOWN: usize = 500;

impl Engine {
    /// Keeps what `call` is about to do outside the conversation; nothing of a call that only reads.
    pub(super) async fn begin_effects(
        &self,
        agent: &Agent,
        call: &ToolCall,
        reach: &Reach,
        permit: &Permit,
    ) -> Vec<Begun> {
        let mut begun = Vec::new();
        if !self.is_playback {
            for (kind, what) in effects(call, reach) {
                begun.extend(self.begin_action(agent, call, kind, what, permit.consent.clone()).await);
            }
        }
        begun
    }

    async fn begin_action(
        &self,
        agent: &Agent,
        call: &ToolCall,
        kind: ActionKind,
        what: String,
        consent: ActionConsent,
    ) -> Option<Begun> {
        let (agent, through) = (Some(agent.id.clone()), call.name.to_string());
        let begun = self.actions.begin(ActionDraft { agent, kind, what, through, consent }).await;
        self.tell_gap();
        begun
    }

    /// Tells why something is missing in the log of actions, once.
    pub(super) fn tell_gap(&self) {
        if let Some(gap) = self.actions.take_gap() {
            self.say_once(&format!("the log of this run's actions is not complete: {gap}"));
        }
    }

    /// Keeps how they ended.
    pub(super) async fn end_effects(&self, begun: Vec<Begun>, permit: &Permit, result: &ToolResult) {
        let outcome = permit.scope.notes().outcome.unwrap_or_else(|| {
            let n_bytes = result.content.to_text().len();
            let word = if result.is_error { "failed" } else { "done" };
            format!("{word}, {n_bytes} bytes")
        });
        for begun in begun {
            self.actions.end(Some(begun), result.is_error, outcome.clone(), 1).await;
        }
    }

    /// Returns the result as the model may read it: with its secrets if rules or the user allow that, else without.
    pub(super) async fn guarded(
        &self,
        agent: &Agent,
        call: &ToolCall,
        reach: &Reach,
        permit: &Permit,
        result: ToolResult,
    ) -> ToolResult {
        for secret in &permit.shown {
            self.keep_shown(agent, call, secret, permit.secret_consent.clone()).await;
        }
        // Consent to show this file or command's secrets was given, or what it shows is nobody's file.
        if !permit.shown.is_empty() || self.is_playback || !shows_workspace(reach) {
            return result;
        }
        let text = result.content.to_text();
        let (place, found) = match permit.scope.notes().secrets {
            Some((path, found)) => (path, found),
            None => (call.name.to_string(), find_secrets(&text)),
        };
        let is_file = place != call.name.as_str();
        if found.is_empty() {
            return result;
        }
        let what = |secret: &FoundSecret| Subject::Secret { place: place.clone(), what: in_words(secret) };
        let secrets: Vec<Subject> = found.iter().map(what).collect();
        let asked = Reach { usual: Permission::Allow, subjects: secrets.clone() };
        let Verdict { permission, rules, .. } =
            self.services.workflow.rules(agent).decide(&call.name, &asked);
        let (refused, consent) = match permission {
            Permission::Allow => (None, ActionConsent::Rule { rules }),
            Permission::Deny => {
                (Some("the permissions of this run forbid it".to_owned()), ActionConsent::NotNeeded)
            }
            Permission::Ask => match self.asked(agent, call, &secrets).await {
                Ok(earlier) => (None, ActionConsent::User { earlier }),
                Err(why) => (Some(why), ActionConsent::NotNeeded),
            },
        };
        match refused {
            None => {
                for secret in &secrets {
                    self.keep_shown(agent, call, secret, consent.clone()).await;
                }
                result
            }
            Some(why) if is_file => withheld_file(call, &place, &found, &why),
            Some(why) => withheld_lines(result, &text, &call.name, &found, &why),
        }
    }

    async fn keep_shown(&self, agent: &Agent, call: &ToolCall, secret: &Subject, consent: ActionConsent) {
        let begun = self.begin_action(agent, call, ActionKind::Secret, secret.to_string(), consent).await;
        self.actions.end(begun, false, "shown to the model".to_owned(), 1).await;
    }
}

/// Returns what a call does outside the conversation.
fn effects(call: &ToolCall, reach: &Reach) -> Vec<(ActionKind, String)> {
    let arguments = || serde_json::from_str::<Value>(&call.arguments).unwrap_or_default();
    let named = |name: &str| arguments().get(name).and_then(Value::as_str).map(str::to_owned);
    let is = |kind: fn(&Subject) -> bool| reach.subjects.iter().any(kind);
    if is(|subject| matches!(subject, Subject::Command(_) | Subject::Unclear(_))) {
        let parts: Vec<String> = reach.subjects.iter().map(ToString::to_string).collect();
        return vec![(ActionKind::Command, named("command").unwrap_or_else(|| parts.join("; ")))];
    }
    if is(|subject| matches!(subject, Subject::Address { .. })) {
        let urls = reach.subjects.iter().filter(|subject| matches!(subject, Subject::Address { .. }));
        let whole = named("url").map(|url| vec![without_secrets(&url)]);
        let urls = whole.unwrap_or_else(|| urls.map(|url| without_secrets(&url.to_string())).collect());
        return urls.into_iter().map(|url| (ActionKind::Address, url)).collect();
    }
    let mut written = reach.subjects.iter().filter(|subject| matches!(subject, Subject::Written(_)));
    // The last name is the one that links lead to.
    if let Some(path) = written.next_back() {
        return vec![(ActionKind::File, path.to_string())];
    }
    if reach.usual == Permission::Allow {
        return Vec::new();
    }
    let shown: String = call.arguments.chars().take(SHOWN).collect();
    vec![(ActionKind::Call, format!("{} {shown}", call.name))]
}

/// Checks whether a call may show what is in the workspace: not one that asks an address or the user.
fn shows_workspace(reach: &Reach) -> bool {
    let is_address = |subject: &Subject| matches!(subject, Subject::Address { .. });
    let is_free = reach.usual == Permission::Allow && reach.subjects.is_empty();
    !is_free && !reach.subjects.iter().any(is_address)
}

fn in_words(secret: &FoundSecret) -> String {
    let FoundSecret { kind, first_line, last_line } = secret;
    match last_line == first_line {
        true => format!("{kind} in line {first_line}"),
        false => format!("{kind} in the lines {first_line} to {last_line}"),
    }
}

/// Returns what the model reads in place of a file.
fn withheld_file(call: &ToolCall, path: &str, found: &[FoundSecret], why: &str) -> ToolResult {
    let kinds = found.iter().map(in_words).collect::<Vec<_>>().join(", ");
    let rule = secret_rule(path);
    ToolResult::error(
        call,
        format!(
            "`{path}` is not shown, because it holds {kinds}: {why}; {rule} in the user's own forge.yaml allows it. Do not try to \
             get there by another way; go on without it, or say what you would need"
        ),
    )
}

/// Returns the result without the lines that hold secrets: whole lines, each with a note in its place.
fn withheld_lines(
    result: ToolResult,
    text: &str,
    tool: &ToolName,
    found: &[FoundSecret],
    why: &str,
) -> ToolResult {
    let mut kept = String::new();
    let mut noted = None;
    for (at, line) in text.split('\n').enumerate() {
        let is_in = |secret: &&FoundSecret| (secret.first_line..=secret.last_line).contains(&(at + 1));
        match found.iter().find(is_in) {
            None => {
                kept.push_str(line);
                kept.push('\n');
            }
            Some(secret) if noted == Some(secret) => {}
            Some(secret) => {
                let n = secret.last_line - secret.first_line + 1;
                let s = if n == 1 { "" } else { "s" };
                kept.push_str(&format!("[{n} line{s} withheld: {}]\n", secret.kind));
                noted = Some(secret);
            }
        }
    }
    let rule = secret_rule(tool.as_str());
    kept.push_str(&format!(
        "[What holds secrets is withheld: {why}; {rule} in the user's own forge.yaml allows it]"
    ));
    ToolResult { content: Content::from(kept), ..result }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn call(name: &str, arguments: &str) -> ToolCall {
        ToolCall { id: "1".into(), name: ToolName::new(name).unwrap(), arguments: arguments.into() }
    }

    #[test]
    fn what_a_call_does_is_named_without_secrets() {
        let address = || Subject::Address { host: "docs.rs".into(), path: "/x?key=planted".into() };
        let ask = |subjects: Vec<Subject>| Reach { usual: Permission::Ask, subjects };
        for (name, arguments, reach, expected) in [
            (
                "shell",
                r#"{"command": "ls && rm x"}"#,
                ask(vec![Subject::Command("ls".into()), Subject::Command("rm x".into())]),
                vec![(ActionKind::Command, "ls && rm x")],
            ),
            (
                "write",
                r#"{"path": "a/../b"}"#,
                ask(vec![Subject::Written("b".into()), Subject::Written("real/b".into())]),
                vec![(ActionKind::File, "real/b")],
            ),
            (
                "fetch",
                r#"{"url": "https://me:planted@docs.rs/x?key=planted"}"#,
                ask(vec![address()]),
                vec![(ActionKind::Address, "https://docs.rs/x")],
            ),
            (
                "web_search",
                r#"{"query": "q"}"#,
                ask(vec![address()]),
                vec![(ActionKind::Address, "docs.rs/x")],
            ),
            ("git__log", r#"{"n": 1}"#, ask(vec![]), vec![(ActionKind::Call, r#"git__log {"n": 1}"#)]),
            (
                "read",
                "{}",
                Reach { usual: Permission::Allow, subjects: vec![Subject::Read("a".into())] },
                vec![],
            ),
            ("ask", "{}", Reach::free(), vec![]),
        ] {
            let actual = effects(&call(name, arguments), &reach);
            let expected: Vec<_> = expected.into_iter().map(|(kind, what)| (kind, what.to_owned())).collect();
            assert_eq!(actual, expected, "{name}");
        }
    }

    #[test]
    fn whole_lines_are_withheld_and_each_gap_is_named() {
        let found = |kind, first_line, last_line| FoundSecret { kind, first_line, last_line };
        let call = call("shell", "{}");
        let result = ToolResult::answer(&call, "one\ntwo\nthree\nfour\nfive\n");
        let secrets = [found("a token", 2, 2), found("a private key", 4, 5)];
        let actual =
            withheld_lines(result, "one\ntwo\nthree\nfour\nfive\n", &call.name, &secrets, "nobody answers");
        let expected = "one\n[1 line withheld: a token]\nthree\n[2 lines withheld: a private key]\n\n[What holds secrets is withheld: \
                        nobody answers; `permissions: { secrets: { 'shell': allow } }` in the user's own forge.yaml allows it]";
        assert_eq!(actual.content.to_text(), expected);
    }
}
