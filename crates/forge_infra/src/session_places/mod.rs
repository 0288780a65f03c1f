//! The sessions that agents keep on this machine.
//!
//! The places are a table ([`table`]), one line per agent. Finding sessions reads folders and the facts of
//! files, and the lists of databases; it reads no session.

mod ends;
mod pattern;
mod table;

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::path::{Path, PathBuf};

use forge_domain::AgentSession;
use jiff::Timestamp;

use self::pattern::matches_of;
use self::table::{AGENTS, Kind, Place};

use crate::agent_database::{AgentDatabase, DatabaseSession};

pub use self::ends::{FileEnds, read_ends, visit_lines};

/// An agent whose places are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownAgent {
    /// Its word in names, such as `claude`.
    pub id: &'static str,
    /// Its name for people, such as Claude Code.
    pub name: &'static str,
}

/// The sessions that were found.
#[derive(Debug, Default)]
pub struct FoundSessions {
    /// The sessions, newest first.
    pub sessions: Vec<AgentSession>,
    /// The places that could not be read, each with its reason.
    pub faults: Vec<String>,
}

/// Returns the agents whose places are known.
pub fn known_agents() -> impl Iterator<Item = KnownAgent> {
    AGENTS.iter().map(|agent| KnownAgent { id: agent.id, name: agent.name })
}

/// Returns the folder below which the agent `id` keeps its sessions, whether it exists or not; `None` without
/// a home folder, or if no agent has that word.
pub fn agent_folder(environment: &BTreeMap<String, String>, id: &str) -> Option<PathBuf> {
    let agent = AGENTS.iter().find(|agent| agent.id == id)?;
    agent.places.first()?.roots(environment, Path::new("")).into_iter().next()
}

/// Checks whether the agent `id` keeps its sessions in the folders that it works in: then one may have come
/// with the folder, from someone else.
pub fn is_kept_in_folder(id: &str) -> bool {
    AGENTS.iter().any(|agent| agent.id == id && agent.places.iter().any(Place::is_in_folder))
}

/// Finds the sessions of the agents that `wanted` accepts. `here` is the working folder, in which some agents
/// keep theirs; the other places follow from the environment.
pub fn find_sessions(
    environment: &BTreeMap<String, String>,
    here: &Path,
    wanted: &dyn Fn(&str) -> bool,
) -> FoundSessions {
    let mut found = FoundSessions::default();
    for agent in AGENTS.iter().filter(|agent| wanted(agent.id)) {
        for place in agent.places {
            for root in place.roots(environment, here) {
                find_in(agent.id, place, &root, &mut found);
            }
        }
    }
    // Two variables may name one folder.
    found.sessions.sort_by(|a, b| (b.changed, &a.path, &a.part).cmp(&(a.changed, &b.path, &b.part)));
    found.sessions.dedup_by(|a, b| a.agent == b.agent && a.path == b.path && a.part == b.part);
    found
}

/// Finds the sessions of a place below `root`.
fn find_in(agent: &'static str, place: &Place, root: &Path, found: &mut FoundSessions) {
    for path in matches_of(root, place.files, &mut found.faults) {
        match (place.kind, std::fs::metadata(&path)) {
            (Kind::Database, Ok(_)) => {
                match AgentDatabase::open(&path).and_then(|opened| opened.sessions()) {
                    Ok(sessions) => {
                        let own = sessions.into_iter().filter(|session| !session.is_child);
                        found.sessions.extend(own.map(|session| database_session(agent, &path, session)));
                    }
                    Err(error) => found.faults.push(error.to_string()),
                }
            }
            (Kind::File(id) | Kind::Folder(id), Ok(metadata)) => {
                found.sessions.extend(session(agent, place.kind, id(&path), path, &metadata));
            }
            // It was deleted in the meantime, or is a broken link.
            (_, Err(_)) => {}
        }
    }
}

/// Returns a session that is in a database.
fn database_session(agent: &'static str, path: &Path, session: DatabaseSession) -> AgentSession {
    let text = |text: String| Some(text).filter(|text| !text.trim().is_empty());
    AgentSession {
        agent,
        part: Some(session.id.clone()),
        id: session.id,
        path: path.to_owned(),
        changed: session.updated.unwrap_or_default(),
        bytes: 0,
        title: text(session.title),
        folder: text(session.folder),
        tokens: None,
    }
}

/// Returns the session in `path`; `None` if it is not a file, or is empty.
fn session(
    agent: &'static str,
    kind: Kind,
    id: Option<String>,
    path: PathBuf,
    metadata: &Metadata,
) -> Option<AgentSession> {
    let id = id.filter(|_| metadata.is_file() && metadata.len() > 0)?;
    let changed = metadata.modified().ok().and_then(|at| Timestamp::try_from(at).ok()).unwrap_or_default();
    let path = match kind {
        Kind::Folder(_) => path.parent().map(Path::to_owned)?,
        Kind::File(_) | Kind::Database => path,
    };
    // The events of a folder have files of their own.
    let bytes = if matches!(kind, Kind::Folder(_)) { 0 } else { metadata.len() };
    Some(AgentSession {
        agent,
        id,
        path,
        part: None,
        changed,
        bytes,
        title: None,
        folder: None,
        tokens: None,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use pretty_assertions::assert_eq;

    use super::*;

    /// Creates the files in a folder of their own, and returns it.
    fn home(files: &[&str]) -> tempfile::TempDir {
        let home = tempfile::tempdir().unwrap();
        for file in files {
            let path = home.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "{}\n").unwrap();
        }
        home
    }

    fn names(home: &Path, variables: &[(&str, &str)]) -> Vec<String> {
        let mut environment = BTreeMap::from([("HOME".to_owned(), home.display().to_string())]);
        for (name, folder) in variables {
            environment.insert((*name).to_owned(), home.join(folder).display().to_string());
        }
        let found = find_sessions(&environment, &home.join("work"), &|_| true);
        assert_eq!(found.faults, Vec::<String>::new());
        let mut names: Vec<String> =
            found.sessions.iter().map(|session| format!("{}:{}", session.agent, session.id)).collect();
        names.sort();
        names
    }

    #[test]
    fn sessions_are_found_where_their_agents_keep_them() {
        const UUID: &str = "019f1d64-a048-7e10-8a4d-fd6b9e9d7b34";
        let rollout = format!(".codex/sessions/2026/07/01/rollout-2026-07-01T11-16-12-{UUID}.jsonl");
        let old = "elsewhere/archived_sessions/rollout-2026-07-01T11-16-12-\
                   029f1d64-a048-7e10-8a4d-fd6b9e9d7b34.jsonl.zst";
        let files = [
            ".claude/projects/-home-me/50a7220d.jsonl",
            ".claude/projects/-home-me/agent-a21e2f5.jsonl",
            ".claude/projects/-home-me/50a7220d/subagents/agent-b.jsonl",
            &rollout,
            old,
            ".pi/agent/sessions/--home-me--/2026-01-01T00-00-00-000Z_aa11.jsonl",
            ".openclaw/agents/main/sessions/bb22.jsonl",
            ".gemini/tmp/abc/chats/session-2026-01-10T20-00-fa4593e0.json",
            ".gemini/tmp/abc/logs.json",
            ".gemini/antigravity/brain/ff66/.system_generated/logs/transcript.jsonl",
            ".gemini/antigravity/brain/ff66/.system_generated/logs/transcript_full.jsonl",
            ".gemini/antigravity-cli/brain/aa77/.system_generated/logs/transcript.jsonl",
            ".gemini/antigravity/brain/aa77/task.md",
            ".copilot/session-state/cc33/events.jsonl",
            ".openhands/conversations/dd44/base_state.json",
            ".config/Code/User/globalStorage/saoudrizwan.claude-dev/tasks/1700/api_conversation_history.json",
            ".config/Cursor/User/globalStorage/rooveterinaryinc.roo-cline/tasks/ee55/api_conversation_history.json",
            "work/.aider.chat.history.md",
        ];
        let home = home(&files);
        let all = names(home.path(), &[]);
        let (aider, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|name| name.starts_with("aider:"));
        assert_eq!(aider.len(), 1);
        let expected = [
            "antigravity:aa77",
            "antigravity:ff66",
            "claude:50a7220d",
            "cline:1700",
            &format!("codex:{UUID}"),
            "copilot:cc33",
            "gemini:fa4593e0",
            "openclaw:bb22",
            "openhands:dd44",
            "pi:aa11",
            "roo:ee55",
        ];
        assert_eq!(others, expected);
        let moved = names(home.path(), &[("CODEX_HOME", "elsewhere"), ("CLAUDE_CONFIG_DIR", "nowhere")]);
        let moved: Vec<_> =
            moved.into_iter().filter(|name| name.starts_with('c') && name.contains("f1d64")).collect();
        assert_eq!(moved, ["codex:029f1d64-a048-7e10-8a4d-fd6b9e9d7b34"]);
    }

    #[test]
    fn an_empty_home_has_none() {
        assert_eq!(names(home(&[]).path(), &[]), Vec::<String>::new());
        let found = find_sessions(&BTreeMap::new(), Path::new("/nowhere"), &|_| true);
        assert!(found.sessions.is_empty() && found.faults.is_empty());
    }

    #[test]
    fn the_databases_of_agents_list_their_sessions() {
        let home = home(&[]);
        let folder = home.path().join(".local/share");
        fs::create_dir_all(folder.join("goose/sessions")).unwrap();
        fs::create_dir_all(folder.join("opencode")).unwrap();
        let goose = rusqlite::Connection::open(folder.join("goose/sessions/sessions.db")).unwrap();
        goose
            .execute_batch(
                "CREATE TABLE sessions (id TEXT, description TEXT, working_dir TEXT, updated_at TEXT);
                 CREATE TABLE messages (id INTEGER, session_id TEXT, role TEXT, content_json TEXT, created_timestamp INTEGER);
                 INSERT INTO sessions VALUES ('20260211_1', 'Fix it', '/w', '2026-02-11 10:00:00');",
            )
            .unwrap();
        let opencode = rusqlite::Connection::open(folder.join("opencode/opencode.db")).unwrap();
        opencode
            .execute_batch(
                "CREATE TABLE message (id TEXT, session_id TEXT, time_created INTEGER, data TEXT);
                 CREATE TABLE part (id TEXT, message_id TEXT, data TEXT);
                 CREATE TABLE session (id TEXT, parent_id TEXT, title TEXT, directory TEXT, time_updated INTEGER);
                 INSERT INTO session VALUES ('ses_1', NULL, 'Plan', '/v', 1770804000000), ('ses_2', 'ses_1', 'sub', '/v', 1);",
            )
            .unwrap();
        let environment = BTreeMap::from([("HOME".to_owned(), home.path().display().to_string())]);
        let found = find_sessions(&environment, Path::new("/nowhere"), &|_| true);
        let told: Vec<_> = found
            .sessions
            .iter()
            .map(|one| (one.agent, one.part.as_deref(), one.title.as_deref(), one.folder.as_deref()))
            .collect();
        let expected = [
            ("goose", Some("20260211_1"), Some("Fix it"), Some("/w")),
            ("opencode", Some("ses_1"), Some("Plan"), Some("/v")),
        ];
        assert_eq!(told, expected);
        fs::write(folder.join("goose/sessions/sessions.db"), "no database").unwrap();
        let found = find_sessions(&environment, Path::new("/nowhere"), &|agent| agent == "goose");
        assert_eq!((found.sessions.len(), found.faults.len()), (0, 1));
    }
}
