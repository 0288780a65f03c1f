//! The user at an editor, who is asked through it.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use forge_domain::{Consent, ConsentRequest, EditorFiles, EditorTerminal, Person, Question, Unanswered};
use serde_json::{Value, json};

use super::connection::Connection;
use super::terminal::EditorTerminals;
use super::updates::{EditorAbilities, Updates, fenced, text_block};

/// The options of a permission: an id, a name and a kind.
const OPTIONS: [(&str, &str, &str); 3] = [
    ("once", "Allow once", "allow_once"),
    ("always", "Allow for this session", "allow_always"),
    ("reject", "Reject", "reject_once"),
];

/// The user at an editor.
pub(super) struct EditorUser {
    pub(super) connection: Arc<Connection>,
    pub(super) updates: Arc<Updates>,
    pub(super) abilities: EditorAbilities,
}

#[async_trait]
impl Person for EditorUser {
    async fn answer(&self, question: &Question) -> Result<String, Unanswered> {
        // The protocol has choices only; a question for a text has no answer here.
        if question.options.is_empty() {
            return Err(Unanswered::Nobody);
        }
        let option = |(at, name): (usize, &String)| json!({"optionId": at.to_string(), "name": name, "kind": "allow_once"});
        let options: Vec<Value> = question.options.iter().enumerate().map(option).collect();
        let call = json!({
            "toolCallId": "question", "title": question.text, "kind": "other", "status": "pending",
            "content": [{"type": "content", "content": text_block(&question.text)}],
        });
        let chosen = self.updates.choose(&call, &options).await?;
        let chosen = chosen.and_then(|id| question.options.get(id.parse::<usize>().ok()?).cloned());
        chosen.ok_or(Unanswered::Nobody)
    }

    async fn consent(&self, request: &ConsentRequest<'_>) -> Result<Consent, Unanswered> {
        let mut call = self.updates.call_json(request.call);
        call["status"] = "pending".into();
        let command = call["rawInput"]["command"].as_str().map(fenced);
        if let Some(command) = command.filter(|_| request.call.name.as_str() == "shell") {
            call["content"] = json!([{"type": "content", "content": text_block(&command)}]);
        }
        if let Some(change) = request.change {
            call["content"] = json!([self.updates.diff(change)]);
        }
        if !request.about.is_empty() {
            let about: Vec<String> = request.about.iter().map(ToString::to_string).collect();
            let about = format!("About:\n{}", fenced(&about.join("\n")));
            let about = json!({"type": "content", "content": text_block(&about)});
            match call["content"].as_array_mut() {
                Some(content) => content.push(about),
                None => call["content"] = json!([about]),
            }
        }
        let option =
            |(id, name, kind): (&str, &str, &str)| json!({"optionId": id, "name": name, "kind": kind});
        let chosen = self.updates.choose(&call, &OPTIONS.map(option)).await?;
        Ok(match chosen.as_deref() {
            Some("once") => Consent::Once,
            Some("always") => Consent::ForRun,
            _ => Consent::Refused { why: None },
        })
    }

    fn editor(&self) -> Option<Arc<dyn EditorFiles>> {
        let EditorAbilities { reads_files, writes_files, .. } = self.abilities;
        let files = OpenFiles {
            connection: Arc::clone(&self.connection),
            updates: Arc::clone(&self.updates),
            abilities: self.abilities,
        };
        (reads_files || writes_files).then(|| Arc::new(files) as Arc<dyn EditorFiles>)
    }

    fn terminal(&self) -> Option<Arc<dyn EditorTerminal>> {
        let terminals =
            EditorTerminals { connection: Arc::clone(&self.connection), updates: Arc::clone(&self.updates) };
        self.abilities.terminals.then(|| Arc::new(terminals) as Arc<dyn EditorTerminal>)
    }
}

/// The files of the editor.
struct OpenFiles {
    connection: Arc<Connection>,
    updates: Arc<Updates>,
    abilities: EditorAbilities,
}

#[async_trait]
impl EditorFiles for OpenFiles {
    async fn read(&self, path: &Path) -> Option<String> {
        if !self.abilities.reads_files {
            return None;
        }
        let params = json!({"sessionId": self.updates.session(), "path": path});
        // A file that the editor cannot read is read from the disk.
        let answer = self.connection.request("fs/read_text_file", &params).await.ok()?;
        answer["content"].as_str().map(str::to_owned)
    }

    async fn write(&self, path: &Path, text: &str) -> Option<Result<(), String>> {
        if !self.abilities.writes_files {
            return None;
        }
        let params = json!({"sessionId": self.updates.session(), "path": path, "content": text});
        let answer = self.connection.request("fs/write_text_file", &params).await;
        Some(answer.map(drop).map_err(|error| error.message().to_owned()))
    }
}
