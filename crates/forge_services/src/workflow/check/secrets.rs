//! Secrets that were written into a file which others will read.

use super::super::key_forms::{find_key, is_variable_name};
use super::super::yaml::{Outline, Step};
use super::super::{Position, Source, WorkflowError};

/// Returns every secret in `source`, by its form or by its key: its position, and what to write instead. The
/// secret itself is in none of the texts.
pub(super) fn secrets_in(source: &Source) -> Vec<WorkflowError> {
    let outline = Outline::of(&source.text);
    let mut found: Vec<WorkflowError> = Vec::new();
    for (path, node) in outline.scalars() {
        let text = node.text().unwrap_or_default();
        let key = path.last_key().unwrap_or_default().to_owned();
        let is_in = |key: &str| path.0.iter().any(|step| *step == Step::Key(key.to_owned()));
        // What an MCP server is given in its environment is as good as a header.
        let in_headers = is_in("headers") || (is_in("mcp_servers") && is_in("env"));
        let is_secret = find_key(text).is_some()
            || names_a_secret(&key, in_headers)
                && !text.starts_with('$')
                && text.trim().len() >= LEAST_SECRET;
        let misnamed = key == "api_key_env" && !text.is_empty() && !is_variable_name(text);
        if !is_secret && !misnamed {
            continue;
        }
        let hint = match (key.as_str(), in_headers) {
            ("api_key_env", _) => {
                "write the name of the variable, such as `api_key_env: OPENAI_API_KEY`, and export it"
            }
            (_, true) => {
                "write the name of an environment variable after a `$`, such as `$TEAM_KEY`, and export it"
            }
            ("base_url", _) => "remove it from the address: name a variable in `api_key_env` or in `headers`",
            _ => "remove it from the file and replace it: anyone who reads the file has it",
        };
        let what = if is_secret { "the file contains a secret" } else { "this is not a variable name" };
        let path = outline.with_agent_ids(path);
        let mut error =
            WorkflowError::at(source, Some(node.start()), &path.to_string(), what).with_hint(Some(hint));
        error.snippet = error.snippet.map(|line| without(&line, text).into());
        found.push(error);
    }
    let in_comments = source.text.lines().enumerate().filter_map(|(index, line)| {
        let comment = line.find('#')?;
        let at = comment + find_key(&line[comment..])?;
        Some(Position { line: index + 1, column: line[..at].chars().count() + 1 })
    });
    for position in in_comments {
        if !found.iter().any(|error| error.position.is_some_and(|known| known.line == position.line)) {
            let hint = "remove it and replace it: anyone who reads the file has it";
            let error = WorkflowError::at(source, Some(position), "", "a comment contains a secret");
            found.push(error.with_hint(Some(hint)));
        }
    }
    found
}

/// The least length of a secret; anything shorter is a word.
const LEAST_SECRET: usize = 8;

/// Checks whether the value of a key of this name is a secret whatever it looks like.
fn names_a_secret(key: &str, in_headers: bool) -> bool {
    let key = key.to_lowercase().replace('-', "_");
    let always = ["api_key", "apikey", "secret", "password", "access_token", "auth_token", "private_key"];
    let of_headers = ["authorization", "cookie", "x_auth", "token", "_key"];
    always.iter().any(|name| key.ends_with(name))
        || (in_headers && of_headers.iter().any(|name| key.contains(name)))
}

/// Returns the line without the secret, which may continue in the next one.
fn without(line: &str, secret: &str) -> String {
    let first = secret.lines().next().unwrap_or_default().trim();
    if first.is_empty() { line.to_owned() } else { line.replace(first, "(hidden)") }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn check(yaml: &str, expected: &[(&str, &str)]) {
        let found = secrets_in(&Source::new("f", yaml));
        let actual: Vec<_> = found
            .iter()
            .map(|error| (error.position.map_or(String::new(), |at| at.to_string()), error.path.to_string()))
            .collect();
        let expected: Vec<_> =
            expected.iter().map(|(at, path)| ((*at).to_owned(), (*path).to_owned())).collect();
        assert_eq!(actual, expected, "{yaml}");
        for error in found {
            assert!(!error.to_string().contains("planted"), "{error}");
        }
    }

    #[test]
    fn secrets_are_found_by_their_form_and_by_their_key() {
        check("variables: { a: sk-planted-0123456789abcdef }\n", &[("1:17", "variables.a")]);
        check("variables: { api_key: planted-word }\n", &[("1:23", "variables.api_key")]);
        check("providers:\n  p:\n    api_key_env: sk-planted\n", &[("3:18", "providers.p.api_key_env")]);
        check(
            "providers: { p: { headers: { Authorization: planted-words } } }\n",
            &[("1:45", "providers.p.headers.Authorization")],
        );
        check(
            "providers: { p: { base_url: 'http://me:planted@h/v1' } }\n",
            &[("1:29", "providers.p.base_url")],
        );
        check(
            "agents:\n  - id: a\n    system_prompt: |\n      Use it.\n      Bearer planted.0123456789abcdef\n",
            &[("4:7", "agents.a.system_prompt")],
        );
        check("# key: sk-planted-0123456789abcdef\nagents: {}\n", &[("1:8", "")]);
    }

    #[test]
    fn what_is_none_is_left_alone() {
        for yaml in [
            "providers: { p: { api_key_env: OPENAI_API_KEY, base_url: 'http://localhost:8080/v1' } }\n",
            "providers: { p: { headers: { Authorization: $KEY, x-team: research-and-more } } }\n",
            "agents: { a: { max_output_tokens: 100000, compact: { max_tokens: 10000000 } } }\n",
            "variables: { token: research, secret: short }\n",
            "agents: { a: { system_prompt: 'Ask for sk- keys, and write to me@host.example' } } # a comment: user@host\n",
        ] {
            check(yaml, &[]);
        }
    }
}
