//! Databases in which agents keep their sessions: those of opencode and goose, read and never written.

use std::path::Path;

use jiff::Timestamp;
use rusqlite::{Connection, OpenFlags, Row};
use serde_json::{Map, Value, json};

/// The first bytes of every SQLite file.
const MAGIC: &[u8] = b"SQLite format 3\0";

/// A database of sessions, opened for reading only.
///
/// A session leaves it in the form of its agent's own export, so that a session has one form to be read in.
pub struct AgentDatabase {
    connection: Connection,
    agent: &'static Agent,
}

/// A session in a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseSession {
    /// Its id.
    pub id: String,
    /// Its title; it may be empty.
    pub title: String,
    /// The folder that its agent worked in.
    pub folder: String,
    /// The time of its last change, if the database has it.
    pub updated: Option<Timestamp>,
    /// The number of its messages.
    pub messages: u64,
    /// True if another session started it.
    pub is_child: bool,
}

/// The reasons why a database cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum AgentDatabaseError {
    /// SQLite failed.
    #[error(
        "{place} cannot be read as a database: {source}; copy it with `sqlite3 {place} .dump`, or export the session with its agent"
    )]
    Failed {
        /// The file.
        place: String,
        /// The cause.
        #[source]
        source: rusqlite::Error,
    },
    /// It has the tables of no known agent.
    #[error(
        "{place} is a SQLite database, but not one of opencode or goose; export the session with its agent"
    )]
    Unknown {
        /// The file.
        place: String,
    },
    /// It has no such session.
    #[error("{place} has no session `{id}`; `forge inspect {place}` lists them")]
    NoSession {
        /// The file.
        place: String,
        /// The session that was asked for.
        id: String,
    },
}

/// An agent that keeps its sessions in a database.
struct Agent {
    /// The id of the format of its exports.
    format: &'static str,
    /// The tables by which its databases are recognized, each with the columns that are read.
    tables: &'static [(&'static str, &'static [&'static str])],
    /// Lists its sessions, newest first.
    sessions: fn(&Connection) -> rusqlite::Result<Vec<DatabaseSession>>,
    /// Exports a session.
    export: fn(&Connection, &str) -> rusqlite::Result<Option<Value>>,
}

const AGENTS: [Agent; 2] = [
    Agent {
        format: "opencode",
        tables: &[
            ("session", &["id", "title", "directory", "time_updated"]),
            ("message", &["id", "session_id", "time_created", "data"]),
            ("part", &["id", "message_id", "data"]),
        ],
        sessions: opencode_sessions,
        export: opencode_export,
    },
    Agent {
        format: "goose",
        tables: &[
            ("sessions", &["id", "working_dir", "description"]),
            ("messages", &["id", "session_id", "role", "content_json", "created_timestamp"]),
        ],
        sessions: goose_sessions,
        export: goose_export,
    },
];

impl AgentDatabase {
    /// Checks whether a file that begins with `bytes` is a SQLite database.
    pub fn is_one(bytes: &[u8]) -> bool {
        bytes.starts_with(MAGIC)
    }

    /// Opens the database at `path` without changing anything on the disk.
    ///
    /// # Errors
    /// [`AgentDatabaseError`] if it cannot be read, or is no known agent's.
    pub fn open(path: &Path) -> Result<Self, AgentDatabaseError> {
        let failed = |source| AgentDatabaseError::Failed { place: path.display().to_string(), source };
        let connection = open(path).map_err(failed)?;
        let agent = AGENTS.iter().find(|agent| agent.tables.iter().all(|table| has(&connection, table)));
        let Some(agent) = agent else {
            // A file that is damaged has no tables either; asking for one shows the fault.
            let count = "SELECT count(*) FROM sqlite_master";
            connection.query_row(count, [], |row| row.get::<_, i64>(0)).map_err(failed)?;
            return Err(AgentDatabaseError::Unknown { place: path.display().to_string() });
        };
        Ok(Self { connection, agent })
    }

    /// Returns the id of the format in which its sessions are exported.
    pub const fn format(&self) -> &'static str {
        self.agent.format
    }

    /// Lists the sessions, newest first.
    ///
    /// # Errors
    /// [`AgentDatabaseError::Failed`] if it cannot be read.
    pub fn sessions(&self) -> Result<Vec<DatabaseSession>, AgentDatabaseError> {
        (self.agent.sessions)(&self.connection).map_err(|source| self.error(source))
    }

    /// Exports the session `id` as its agent would: one JSON document.
    ///
    /// # Errors
    /// [`AgentDatabaseError`] if it cannot be read, or there is no such session.
    pub fn export(&self, id: &str) -> Result<String, AgentDatabaseError> {
        let exported = (self.agent.export)(&self.connection, id).map_err(|source| self.error(source))?;
        let missing = || AgentDatabaseError::NoSession { place: self.place(), id: id.to_owned() };
        exported.map(|document| document.to_string()).ok_or_else(missing)
    }

    fn place(&self) -> String {
        self.connection.path().unwrap_or_default().to_owned()
    }

    fn error(&self, source: rusqlite::Error) -> AgentDatabaseError {
        AgentDatabaseError::Failed { place: self.place(), source }
    }
}

/// Opens a database for reading. A database without a write-ahead log is opened as one that does not change,
/// since SQLite would otherwise put files beside it.
fn open(path: &Path) -> rusqlite::Result<Connection> {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = if Path::new(&log).exists() {
        Connection::open_with_flags(path, flags)?
    } else {
        let address = format!("file:{}?mode=ro&immutable=1", escape_path(&path.to_string_lossy()));
        Connection::open_with_flags(address, flags | OpenFlags::SQLITE_OPEN_URI)?
    };
    connection.busy_timeout(std::time::Duration::from_secs(5))?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

/// Returns a path with the characters escaped that mean something in an address.
fn escape_path(path: &str) -> String {
    path.replace('%', "%25").replace('?', "%3f").replace('#', "%23")
}

/// Checks whether the database has a table, not a view, with these columns.
fn has(connection: &Connection, (table, columns): &(&str, &[&str])) -> bool {
    let is_table = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?1";
    let n_tables = connection.query_row(is_table, [table], |row| row.get::<_, i64>(0));
    n_tables == Ok(1) && columns.iter().all(|column| has_column(connection, table, column))
}

fn has_column(connection: &Connection, table: &str, column: &str) -> bool {
    let query = "SELECT count(*) FROM pragma_table_info(?1) WHERE name = ?2";
    connection.query_row(query, [table, column], |row| row.get::<_, i64>(0)) == Ok(1)
}

/// Returns the column if the table has it, else SQL's null: agents add columns over time.
fn optional<'c>(connection: &Connection, table: &str, column: &'c str) -> &'c str {
    if has_column(connection, table, column) { column } else { "NULL" }
}

/// Returns a text; an empty one if the column is null or anything else.
fn text(row: &Row<'_>, column: usize) -> rusqlite::Result<String> {
    Ok(row.get_ref(column)?.as_str_or_null().ok().flatten().unwrap_or_default().to_owned())
}

/// Returns the JSON in a column. A text that is not JSON stays a text.
fn json_of(row: &Row<'_>, column: usize) -> rusqlite::Result<Value> {
    let text = text(row, column)?;
    Ok(serde_json::from_str(&text).unwrap_or(if text.is_empty() { Value::Null } else { Value::String(text) }))
}

/// Returns an object with more keys, which win.
fn with(object: Value, more: &[(&str, Value)]) -> Value {
    let mut fields = match object {
        Value::Object(fields) => fields,
        Value::Null => Map::new(),
        // Nothing that an agent stored is left out.
        other => Map::from_iter([("data".to_owned(), other)]),
    };
    for (key, value) in more.iter().filter(|(_, value)| !value.is_null()) {
        fields.insert((*key).to_owned(), value.clone());
    }
    Value::Object(fields)
}

fn opencode_sessions(connection: &Connection) -> rusqlite::Result<Vec<DatabaseSession>> {
    let parent = optional(connection, "session", "parent_id");
    let query = format!(
        "SELECT id, title, directory, time_updated,
            (SELECT count(*) FROM message WHERE message.session_id = session.id), {parent}
        FROM session ORDER BY time_updated DESC, id DESC"
    );
    let session = |row: &Row<'_>| {
        Ok(DatabaseSession {
            id: text(row, 0)?,
            title: text(row, 1)?,
            folder: text(row, 2)?,
            updated: row.get::<_, i64>(3).ok().and_then(|at| Timestamp::from_millisecond(at).ok()),
            messages: row.get::<_, i64>(4)?.unsigned_abs(),
            is_child: !text(row, 5)?.is_empty(),
        })
    };
    connection.prepare(&query)?.query_map([], session)?.collect()
}

/// Exports a session in the form of `opencode export`.
fn opencode_export(connection: &Connection, id: &str) -> rusqlite::Result<Option<Value>> {
    let [parent, version, revert] =
        ["parent_id", "version", "revert"].map(|column| optional(connection, "session", column));
    let query = format!(
        "SELECT title, directory, {version}, {parent}, {revert}, time_created, time_updated
        FROM session WHERE id = ?1"
    );
    let info = |row: &Row<'_>| {
        let time = json!({"created": row.get::<_, i64>(5).ok(), "updated": row.get::<_, i64>(6).ok()});
        let word =
            |column| text(row, column).map(|text| if text.is_empty() { Value::Null } else { json!(text) });
        let facts = [
            ("id", json!(id)),
            ("title", word(0)?),
            ("directory", word(1)?),
            ("version", word(2)?),
            ("parentID", word(3)?),
            ("revert", json_of(row, 4)?),
            ("time", time),
        ];
        Ok(with(Value::Null, &facts))
    };
    let Some(info) = connection.prepare(&query)?.query_map([id], info)?.next().transpose()? else {
        return Ok(None);
    };
    let mut messages =
        connection.prepare("SELECT id, data FROM message WHERE session_id = ?1 ORDER BY time_created, id")?;
    let mut parts = connection.prepare("SELECT id, data FROM part WHERE message_id = ?1 ORDER BY id")?;
    let mut exported = Vec::new();
    let mut rows = messages.query([id])?;
    while let Some(row) = rows.next()? {
        let message = text(row, 0)?;
        let part = |row: &Row<'_>| {
            let own = [("id", json!(text(row, 0)?)), ("messageID", json!(message)), ("sessionID", json!(id))];
            Ok(with(json_of(row, 1)?, &own))
        };
        let parts: Vec<Value> = parts.query_map([&message], part)?.collect::<Result<_, _>>()?;
        let info = with(json_of(row, 1)?, &[("id", json!(message)), ("sessionID", json!(id))]);
        exported.push(json!({"info": info, "parts": parts}));
    }
    Ok(Some(json!({"info": info, "messages": exported})))
}

fn goose_sessions(connection: &Connection) -> rusqlite::Result<Vec<DatabaseSession>> {
    let [name, updated, parent] =
        ["name", "updated_at", "parent_session_id"].map(|column| optional(connection, "sessions", column));
    let query = format!(
        "SELECT id, coalesce(nullif({name}, ''), description), working_dir, strftime('%s', {updated}),
            (SELECT count(*) FROM messages WHERE messages.session_id = sessions.id), {parent}
        FROM sessions ORDER BY {updated} DESC, id DESC"
    );
    let session = |row: &Row<'_>| {
        Ok(DatabaseSession {
            id: text(row, 0)?,
            title: text(row, 1)?,
            folder: text(row, 2)?,
            updated: text(row, 3)?.parse().ok().and_then(|at| Timestamp::from_second(at).ok()),
            messages: row.get::<_, i64>(4)?.unsigned_abs(),
            is_child: !text(row, 5)?.is_empty(),
        })
    };
    connection.prepare(&query)?.query_map([], session)?.collect()
}

/// Exports a session in the form of `goose session export --format json`.
fn goose_export(connection: &Connection, id: &str) -> rusqlite::Result<Option<Value>> {
    let columns = ["name", "input_tokens", "output_tokens", "total_tokens", "accumulated_cost"];
    let [name, input, output, total, cost] = columns.map(|column| optional(connection, "sessions", column));
    let query = format!(
        "SELECT working_dir, coalesce(nullif({name}, ''), description), {input}, {output}, {total}, {cost}
        FROM sessions WHERE id = ?1"
    );
    let facts = |row: &Row<'_>| {
        let number = |column| row.get::<_, i64>(column).map_or(Value::Null, |number| json!(number));
        let facts = [
            ("id", json!(id)),
            ("working_dir", json!(text(row, 0)?)),
            ("name", json!(text(row, 1)?)),
            ("input_tokens", number(2)),
            ("output_tokens", number(3)),
            ("total_tokens", number(4)),
            ("accumulated_cost", row.get::<_, f64>(5).map_or(Value::Null, |cost| json!(cost))),
        ];
        Ok(with(Value::Null, &facts))
    };
    let Some(session) = connection.prepare(&query)?.query_map([id], facts)?.next().transpose()? else {
        return Ok(None);
    };
    let [own, metadata] =
        ["message_id", "metadata_json"].map(|column| optional(connection, "messages", column));
    // Rows are in the order of the conversation, also where a compaction wrote it again.
    let query = format!(
        "SELECT {own}, role, content_json, created_timestamp, {metadata}
        FROM messages WHERE session_id = ?1 ORDER BY id"
    );
    let message = |row: &Row<'_>| {
        let own = text(row, 0)?;
        let facts = [
            ("id", if own.is_empty() { Value::Null } else { json!(own) }),
            ("role", json!(text(row, 1)?)),
            ("created", row.get::<_, i64>(3).map_or(Value::Null, |at| json!(at))),
            ("content", json_of(row, 2)?),
            ("metadata", json_of(row, 4)?),
        ];
        Ok(with(Value::Null, &facts))
    };
    let messages = connection.prepare(&query)?.query_map([id], message)?.collect::<Result<Vec<_>, _>>()?;
    Ok(Some(with(session, &[("conversation", Value::Array(messages))])))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use pretty_assertions::assert_eq;

    use super::*;

    const OPENCODE: &str = r#"
        CREATE TABLE session (id TEXT PRIMARY KEY, parent_id TEXT, directory TEXT NOT NULL, title TEXT NOT NULL,
            version TEXT NOT NULL, revert TEXT, time_created INTEGER, time_updated INTEGER);
        CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, data TEXT NOT NULL);
        CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, data TEXT NOT NULL);
        INSERT INTO session VALUES ('ses_1', NULL, '/w', 'Old', '1.0', NULL, 1, 1000),
            ('ses_2', 'ses_1', '/w', 'New', '1.0', '{"messageID":"msg_9"}', 2, 2000);
        INSERT INTO message VALUES ('msg_2', 'ses_1', 20, '{"role":"assistant"}'),
            ('msg_1', 'ses_1', 10, '{"role":"user"}'), ('msg_3', 'ses_1', 30, 'no JSON');
        INSERT INTO part VALUES ('prt_2', 'msg_1', 'ses_1', '{"type":"text","text":"there"}'),
            ('prt_1', 'msg_1', 'ses_1', '{"type":"text","text":"hi"}');
    "#;
    const GOOSE: &str = r#"
        CREATE TABLE sessions (id TEXT PRIMARY KEY, description TEXT NOT NULL DEFAULT '', working_dir TEXT NOT NULL,
            updated_at TIMESTAMP, total_tokens INTEGER);
        CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content_json TEXT,
            created_timestamp INTEGER, metadata_json TEXT);
        INSERT INTO sessions VALUES ('20260101_1', 'Find it', '/w', '2026-01-01 10:00:00', 9);
        INSERT INTO messages VALUES (1, '20260101_1', 'user', '[{"type":"text","text":"hi"}]', 5, '{"agentVisible":false}'),
            (2, '20260101_1', 'assistant', '[{"type":"text","text":"ho"}]', 4, NULL);
    "#;

    fn database(schema: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a ?#%.db");
        Connection::open(&path).unwrap().execute_batch(schema).unwrap();
        (folder, path)
    }

    #[test]
    fn a_session_leaves_in_the_form_of_its_agents_export() {
        let (_folder, path) = database(OPENCODE);
        let opencode = AgentDatabase::open(&path).unwrap();
        assert_eq!(opencode.format(), "opencode");
        let listed: Vec<_> = opencode.sessions().unwrap();
        let listed: Vec<_> = listed.iter().map(|one| (one.id.as_str(), one.messages, one.is_child)).collect();
        assert_eq!(listed, [("ses_2", 0, true), ("ses_1", 3, false)]);
        let text = |id: &str, message: &str, text: &str| json!({"type": "text", "text": text, "id": id, "messageID": message, "sessionID": "ses_1"});
        let info = |role: &str, id: &str| json!({"role": role, "id": id, "sessionID": "ses_1"});
        let expected = json!({
            "info": {"id": "ses_1", "title": "Old", "directory": "/w", "version": "1.0",
                "time": {"created": 1, "updated": 1000}},
            "messages": [
                {"info": info("user", "msg_1"), "parts": [text("prt_1", "msg_1", "hi"), text("prt_2", "msg_1", "there")]},
                {"info": info("assistant", "msg_2"), "parts": []},
                {"info": {"data": "no JSON", "id": "msg_3", "sessionID": "ses_1"}, "parts": []},
            ],
        });
        assert_eq!(serde_json::from_str::<Value>(&opencode.export("ses_1").unwrap()).unwrap(), expected);

        let (_folder, path) = database(GOOSE);
        let goose = AgentDatabase::open(&path).unwrap();
        assert_eq!(goose.sessions().unwrap()[0].updated.unwrap().to_string(), "2026-01-01T10:00:00Z");
        let expected = json!({"id": "20260101_1", "working_dir": "/w", "name": "Find it", "total_tokens": 9,
        "conversation": [
            {"role": "user", "created": 5, "content": [{"type": "text", "text": "hi"}], "metadata": {"agentVisible": false}},
            {"role": "assistant", "created": 4, "content": [{"type": "text", "text": "ho"}]},
        ]});
        assert_eq!(serde_json::from_str::<Value>(&goose.export("20260101_1").unwrap()).unwrap(), expected);
        let missing = goose.export("x").unwrap_err().to_string();
        assert!(missing.contains("has no session `x`"), "{missing}");
    }

    #[test]
    fn reading_leaves_the_folder_as_it_was() {
        for log in ["DELETE", "WAL"] {
            let (folder, path) = database(OPENCODE);
            let writer = Connection::open(&path).unwrap();
            writer.pragma_update(None, "journal_mode", log).unwrap();
            writer.execute("INSERT INTO part VALUES ('prt_3', 'msg_2', 'ses_1', '{}')", []).unwrap();
            let files = || {
                let mut files: Vec<_> =
                    fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
                files.sort();
                files
            };
            let (before, bytes) = (files(), fs::read(&path).unwrap());
            let database = AgentDatabase::open(&path).unwrap();
            // What is only in the log is read as well.
            assert!(database.export("ses_1").unwrap().contains("prt_3"), "{log}");
            drop(database);
            assert_eq!((files(), fs::read(&path).unwrap()), (before, bytes), "{log}");
        }
    }

    #[test]
    fn a_foreign_or_damaged_database_is_refused() {
        let view = OPENCODE.replace(
            "CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, data TEXT NOT NULL);",
            "CREATE VIEW part AS SELECT 1 AS id, 2 AS message_id, 3 AS data;",
        );
        let view = view.split("INSERT INTO part").next().unwrap();
        for schema in ["CREATE TABLE notes (id TEXT)", view] {
            let (_folder, path) = database(schema);
            let error = AgentDatabase::open(&path).err().unwrap().to_string();
            assert!(error.contains("not one of opencode or goose"), "{error}");
        }
        let (_folder, path) = database(OPENCODE);
        let mut bytes = fs::read(&path).unwrap();
        bytes.truncate(bytes.len() / 2);
        bytes[200..].fill(0xff);
        fs::write(&path, &bytes).unwrap();
        let error = AgentDatabase::open(&path).err().unwrap().to_string();
        assert!(error.contains("cannot be read as a database"), "{error}");
        assert!(AgentDatabase::is_one(&bytes));
    }
}
