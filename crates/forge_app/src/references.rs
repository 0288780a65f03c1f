//! Resources and prompts that a user's message names, as `@SERVER:URI` and `/SERVER:PROMPT`, in its text.

use crate::Services;

/// An error about a resource or a prompt that a message names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reference}: {why}")]
pub struct ReferenceError {
    /// The reference as it is written.
    pub reference: String,
    /// The reason, in words.
    pub why: String,
}

impl Services {
    /// Returns `message` with what it names: `/SERVER:PROMPT ARGUMENTS` at its beginning becomes the text of
    /// that prompt, and the content of each resource `@SERVER:URI` follows the text. A reference to an
    /// unknown server stays as it is.
    ///
    /// # Errors
    /// [`ReferenceError`] if a server does not have it, or cannot be reached.
    pub async fn expand(&self, message: &str) -> Result<String, ReferenceError> {
        let tools = &self.tools;
        let mut text = message.to_owned();
        if let Some((reference, server, name, rest)) = prompt_in(message)
            && let Some(prompt) = tools.prompt(server, name, rest).await
        {
            text = prompt.map_err(|why| ReferenceError { reference: reference.to_owned(), why })?;
        }
        let mut contents = String::new();
        for (reference, server, uri) in resources_in(message) {
            if let Some(resource) = tools.resource(server, uri).await {
                let resource =
                    resource.map_err(|why| ReferenceError { reference: reference.to_owned(), why })?;
                contents += &format!("\n\n{resource}");
            }
        }
        Ok(text + &contents)
    }
}

/// Returns the prompt that a message begins with: the reference, the server, the name, and the arguments.
fn prompt_in(message: &str) -> Option<(&str, &str, &str, &str)> {
    let message = message.trim();
    let (reference, rest) = message.split_once(char::is_whitespace).unwrap_or((message, ""));
    let (server, name) = reference.strip_prefix('/')?.split_once(':')?;
    (is_server(server) && !name.is_empty()).then_some((reference, server, name, rest.trim()))
}

/// Returns the resources in a message, each once: the reference, the server and the URI.
fn resources_in(message: &str) -> Vec<(&str, &str, &str)> {
    let mut found: Vec<(&str, &str, &str)> = Vec::new();
    for word in message.split_whitespace() {
        let word = word
            .trim_start_matches(['(', '"', '\'', '`'])
            .trim_end_matches([')', '"', '\'', '`', ',', '.', ';', '?', '!']);
        let Some((server, uri)) = word.strip_prefix('@').and_then(|rest| rest.split_once(':')) else {
            continue;
        };
        if is_server(server) && !uri.is_empty() && !found.iter().any(|known| known.0 == word) {
            found.push((word, server, uri));
        }
    }
    found
}

fn is_server(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_prompt_begins_a_message() {
        for (message, expected) in [
            ("/git:review a.rs b", Some(("/git:review", "git", "review", "a.rs b"))),
            ("/git:review", Some(("/git:review", "git", "review", ""))),
            ("/compact", None),
            ("see /git:review", None),
            ("/a/b:c", None),
            ("/git:", None),
        ] {
            assert_eq!(prompt_in(message), expected, "{message}");
        }
    }

    #[test]
    fn resources_are_words_with_a_server() {
        for (message, expected) in [
            (
                "compare @db:table://users, and (@files:file:///a.txt)",
                vec![
                    ("@db:table://users", "db", "table://users"),
                    ("@files:file:///a.txt", "files", "file:///a.txt"),
                ],
            ),
            ("twice @s:u @s:u", vec![("@s:u", "s", "u")]),
            ("mail me@example.com:25, @src/main.rs, @: and @s:", vec![]),
        ] {
            assert_eq!(resources_in(message), expected, "{message}");
        }
    }
}
