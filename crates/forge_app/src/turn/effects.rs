//! The effects of a tool call: its actions are logged, and the user is asked before the model reads secrets
//! in its result.

use forge_domain::{
    ActionConsent, ActionKind, Content, FoundSecret, Permission, Reach, Subject, ToolCall, ToolName,
    ToolResult, find_secrets, quantity, secret_rule, without_secrets,
};
use serde_json::Value;

use super::calls::{Decision, NO_WAY_AROUND, Permit, ToolCalls, consent};
use crate::actions::{ActionDraft, ActionNumber};
use crate::engine::NoConsent;

/// Most characters of a call's arguments in the log, if no more is known of what it does.
const SHOWN: usize = 500;

impl ToolCalls<'_, '_> {
    /// Logs what `call` is about to do outside the conversation, which is nothing for a call that only reads.
    pub(super) async fn begin_effects(
        &self,
        call: &ToolCall,
        reach: &Reach,
        permit: &Permit,
    ) -> Vec<ActionNumber> {
        let mut begun = Vec::new();
        if !self.engine.is_playback {
            for (kind, what) in effects(call, reach) {
                begun.extend(self.begin_action(call, kind, what, permit.consent.clone()).await);
            }
        }
        begun
    }

    async fn begin_action(
        &self,
        call: &ToolCall,
        kind: ActionKind,
        what: String,
        consent: ActionConsent,
    ) -> Option<ActionNumber> {
        let (agent, through) = (Some(self.agent.id.clone()), call.name.to_string());
        let begun = self.engine.actions.begin(ActionDraft { agent, kind, what, through, consent }).await;
        self.engine.events.report_gap(&self.engine.actions);
        begun
    }

    /// Logs how the effects of a call ended.
    pub(super) async fn end_effects(&self, begun: Vec<ActionNumber>, permit: &Permit, result: &ToolResult) {
        let outcome = permit.scope.notes().outcome.unwrap_or_else(|| {
            let n_bytes = result.content.to_text().len();
            let word = if result.is_error { "failed" } else { "done" };
            format!("{word}, {n_bytes} bytes")
        });
        for begun in begun {
            self.engine.actions.end(Some(begun), result.is_error, outcome.clone(), 1).await;
        }
    }

    /// Returns the result as the model may read it: with its secrets if rules or the user allow that, else
    /// without.
    pub(super) async fn guard_secrets(
        &self,
        call: &ToolCall,
        reach: &Reach,
        permit: &Permit,
        result: ToolResult,
    ) -> ToolResult {
        self.log_shown(call, &permit.secrets, &permit.secret_consent, result.is_error).await;
        // There is consent already, or the result does not come from the workspace.
        if !permit.secrets.is_empty() || self.engine.is_playback || !shows_workspace(reach) {
            return result;
        }
        let text = result.content.to_text();
        let in_files = permit.scope.notes().secrets;
        let is_in_files = in_files.is_some();
        let found = in_files.unwrap_or_else(|| {
            let in_output = find_secrets(&text).into_iter();
            in_output.map(|secret| (call.name.to_string(), secret)).collect()
        });
        if found.is_empty() {
            return result;
        }
        let subject = |(place, secret): &(String, FoundSecret)| Subject::Secret {
            place: place.clone(),
            what: description(secret),
        };
        let secrets: Vec<Subject> = found.iter().map(subject).collect();
        match self.permit_secrets(call, &secrets).await {
            Ok(consent) => {
                self.log_shown(call, &secrets, &consent, result.is_error).await;
                result
            }
            Err(why) if is_in_files => withhold_file(call, &found, &why),
            Err(why) => withhold_lines(result, &text, &call.name, &found, &why),
        }
    }

    /// Returns the consent to show the model secrets that a result holds.
    ///
    /// # Errors
    /// The reason why they may not be shown.
    async fn permit_secrets(&self, call: &ToolCall, secrets: &[Subject]) -> Result<ActionConsent, String> {
        let reach = Reach { usual: Permission::Allow, subjects: secrets.to_vec() };
        let rules = self.engine.services.workflow.rules(self.agent);
        let verdict = rules.decide(&self.engine.conduct.discretion(), &call.name, &reach);
        let decision = Decision { permission: verdict.permission, is_by_mode: false };
        match self.answer(call, decision, secrets, async { None }).await {
            Ok((answer, _)) => Ok(consent(&verdict, &answer)),
            Err(NoConsent::Denied(_, why)) => Err(why),
            // The call has had its effect: it cannot be made again when the answer comes.
            Err(NoConsent::Later(_)) => Err("no one can decide on it now".to_owned()),
        }
    }

    /// Logs that the model is shown secrets. The result of a failed call may show them or not.
    async fn log_shown(
        &self,
        call: &ToolCall,
        secrets: &[Subject],
        consent: &ActionConsent,
        has_failed: bool,
    ) {
        let outcome =
            if has_failed { "the call failed; it may have been shown" } else { "shown to the model" };
        for secret in secrets {
            let kind = ActionKind::Secret;
            let begun = self.begin_action(call, kind, secret.to_string(), consent.clone()).await;
            self.engine.actions.end(begun, false, outcome.to_owned(), 1).await;
        }
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

/// Returns the kind of a secret, and its lines.
fn description(secret: &FoundSecret) -> String {
    let FoundSecret { kind, first_line, last_line } = secret;
    if last_line == first_line {
        format!("{kind} in line {first_line}")
    } else {
        format!("{kind} in the lines {first_line} to {last_line}")
    }
}

/// Returns the result that replaces a file's text.
fn withhold_file(call: &ToolCall, found: &[(String, FoundSecret)], why: &str) -> ToolResult {
    let path = found.first().map_or("", |(path, _)| path);
    let kinds = found.iter().map(|(_, secret)| description(secret)).collect::<Vec<_>>().join(", ");
    let why = with_rule(why, path);
    ToolResult::error(
        call,
        format!("`{path}` is not shown, because it holds {kinds}: {why}. {NO_WAY_AROUND}"),
    )
}

/// Returns the reason why secrets of `place` are withheld, with the rule that would allow them.
fn with_rule(why: &str, place: &str) -> String {
    let rule = secret_rule(place);
    if why.contains(&rule) {
        why.to_owned()
    } else {
        format!("{why}; {rule} in the user's own forge.yaml allows it")
    }
}

/// Returns the result without the lines that hold secrets: whole lines, each with a note in its place.
fn withhold_lines(
    result: ToolResult,
    text: &str,
    tool: &ToolName,
    found: &[(String, FoundSecret)],
    why: &str,
) -> ToolResult {
    let mut kept = String::new();
    let mut noted = None;
    for (at, line) in text.split('\n').enumerate() {
        let is_in = |secret: &&FoundSecret| (secret.first_line..=secret.last_line).contains(&(at + 1));
        match found.iter().map(|(_, secret)| secret).find(is_in) {
            None => {
                kept.push_str(line);
                kept.push('\n');
            }
            Some(secret) if noted == Some(secret) => {}
            Some(secret) => {
                let n = secret.last_line - secret.first_line + 1;
                kept.push_str(&format!("[{} withheld: {}]\n", quantity(n, "line"), secret.kind));
                noted = Some(secret);
            }
        }
    }
    kept.push_str(&format!("[What holds secrets is withheld: {}]", with_rule(why, tool.as_str())));
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
        let found =
            |kind, first_line, last_line| ("shell".to_owned(), FoundSecret { kind, first_line, last_line });
        let call = call("shell", "{}");
        let result = ToolResult::answer(&call, "one\ntwo\nthree\nfour\nfive\n");
        let secrets = [found("a token", 2, 2), found("a private key", 4, 5)];
        let actual =
            withhold_lines(result, "one\ntwo\nthree\nfour\nfive\n", &call.name, &secrets, "nobody answers");
        let expected = "one\n[1 line withheld: a token]\nthree\n[2 lines withheld: a private key]\n\n[What holds secrets is withheld: \
                        nobody answers; `permissions: { secrets: { 'shell': allow } }` in the user's own forge.yaml allows it]";
        assert_eq!(actual.content.to_text(), expected);
    }
}
