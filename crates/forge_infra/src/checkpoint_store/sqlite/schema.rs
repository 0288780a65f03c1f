//! The opening of a file: its owner, its version, and its migration.

use std::path::Path;
use std::time::{Duration, Instant};

use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use forge_domain::StoreError;

use super::error::StoreFileName;
use super::words;
use crate::checkpoint_store::record::Press;
use crate::checkpoint_store::store_url::{Access, SqlitePlace};

/// The pause between two attempts to switch a file to write-ahead logging.
const PAUSE: Duration = Duration::from_millis(5);
/// The mark of our files: "forg".
const APPLICATION_ID: i32 = 0x666f_7267;
/// The migration from each version to the next. Released ones are never changed.
const MIGRATIONS: [&str; 6] = [
    include_str!("schema_1.sql"),
    include_str!("schema_2.sql"),
    include_str!("schema_3.sql"),
    include_str!("schema_4.sql"),
    include_str!("schema_5.sql"),
    include_str!("schema_6.sql"),
];
/// The first version that has an index of words.
const WITH_WORDS: u32 = 2;
/// The version that this Forge writes.
pub(super) const SCHEMA: u32 = MIGRATIONS.len() as u32;

/// Creates the file if there is none, so that only its user can read it: SQLite would let everybody. If that
/// fails, opening it says why. A link is followed, as SQLite follows it.
fn make_private(path: &Path) {
    const MOST_LINKS: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        let Ok(target) = std::fs::read_link(&path) else { break };
        path = path.parent().unwrap_or(Path::new("")).join(target);
    }
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let _ = options.open(path);
}

/// Opens the file, creates the tables of a new one, and migrates an old one. A read-only file must have this
/// version.
pub(super) fn open(
    at: &SqlitePlace,
    press: &mut Press,
    place: &StoreFileName,
) -> Result<Connection, StoreError> {
    if matches!(at.access, Access::ReadOnly) {
        return open_for_reading(at, place);
    }
    make_private(&at.path);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let mut connection = connect(&at.path, flags, at, place)?;
    let version = current_version(&mut connection, place)?;
    write_ahead(&connection, at.busy_timeout, place)?;
    // The file survives the death of the process in any case; a loss of power may take the last saves with
    // it.
    place.on(connection.pragma_update(None, "synchronous", "normal"))?;
    if version < SCHEMA {
        migrate(&mut connection, press, place)?;
    }
    Ok(connection)
}

/// Opens the file to read it. Beside a file with a write-ahead log SQLite also makes an index for readers. If
/// that fails, as on a full disk or in a folder of someone else, this function reads without it.
fn open_for_reading(at: &SqlitePlace, place: &StoreFileName) -> Result<Connection, StoreError> {
    let usual = connect(&at.path, OpenFlags::SQLITE_OPEN_READ_ONLY, at, place);
    match usual.and_then(|connection| of_this_version(connection, place)) {
        Err(
            error @ (StoreError::Full { .. } | StoreError::ReadOnly { .. } | StoreError::Unavailable { .. }),
        ) => open_alone(at, place).or_else(|_| open_unchanging(at, place)).map_err(|_| error),
        opened => opened,
    }
}

/// Opens the file with the index in memory, which SQLite does if no other process can use the file meanwhile.
/// Nothing is written, nor is the log moved into the file at the end.
fn open_alone(at: &SqlitePlace, place: &StoreFileName) -> Result<Connection, StoreError> {
    let connection = connect(&at.path, OpenFlags::SQLITE_OPEN_READ_WRITE, at, place)?;
    place.on(connection.pragma_update(None, "locking_mode", "exclusive"))?;
    place.on(connection.pragma_update(None, "query_only", true))?;
    place.on(connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true))?;
    of_this_version(connection, place)
}

/// Opens the file without locks and without its log, which must be empty: a file that this process
/// cannot lock.
fn open_unchanging(at: &SqlitePlace, place: &StoreFileName) -> Result<Connection, StoreError> {
    let unavailable =
        |error: std::io::Error| StoreError::Unavailable { place: place.to_string(), source: error.into() };
    let path = std::fs::canonicalize(&at.path).map_err(unavailable)?;
    let mut log = path.clone().into_os_string();
    log.push("-wal");
    if std::fs::metadata(log).is_ok_and(|log| log.len() > 0) {
        return Err(StoreError::ReadOnly { place: place.to_string() });
    }
    let escaped = percent_encode(path.as_os_str().as_encoded_bytes(), NON_ALPHANUMERIC);
    let url = format!("file:{escaped}?immutable=1");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    of_this_version(connect(Path::new(&url), flags, at, place)?, place)
}

/// Opens a connection with the settings that all of ours have.
fn connect(
    path: &Path,
    flags: OpenFlags,
    at: &SqlitePlace,
    place: &StoreFileName,
) -> Result<Connection, StoreError> {
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX);
    let connection = place.on(connection)?;
    place.on(connection.busy_timeout(at.busy_timeout))?;
    place.on(connection.pragma_update(None, "trusted_schema", false))?;
    connection.set_prepared_statement_cache_capacity(64);
    // Plans do not depend on bound values, so SQLite need not plan again at each save.
    place.on(connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true))?;
    Ok(connection)
}

/// Returns the connection if its file has the version of this Forge.
fn of_this_version(mut connection: Connection, place: &StoreFileName) -> Result<Connection, StoreError> {
    let version = current_version(&mut connection, place)?;
    if version < SCHEMA {
        return Err(StoreError::ReadOnly { place: place.migration_needed(version) });
    }
    Ok(connection)
}

/// Returns the version of the file in one look: another process may be making the tables.
fn current_version(connection: &mut Connection, place: &StoreFileName) -> Result<u32, StoreError> {
    let look = place.on(connection.transaction_with_behavior(TransactionBehavior::Deferred))?;
    version(&look, place)
}

/// Switches the file to write-ahead logging. If another process does the same at that moment, SQLite reports
/// a busy file at once instead of waiting, so this function waits.
fn write_ahead(connection: &Connection, most: Duration, place: &StoreFileName) -> Result<(), StoreError> {
    let begun = Instant::now();
    loop {
        match connection.pragma_update(None, "journal_mode", "wal") {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && begun.elapsed() < most =>
            {
                std::thread::sleep(PAUSE);
            }
            done => return place.on(done),
        }
    }
}

/// Returns the version of the file; 0 if it is new.
fn version(connection: &Connection, place: &StoreFileName) -> Result<u32, StoreError> {
    let pragma = |name| place.on(connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0)));
    let (owner, version) = (pragma("application_id")?, pragma("user_version")?);
    let tables = "SELECT count(*) FROM sqlite_master";
    let n_tables: i64 = place.on(connection.query_row(tables, [], |row| row.get(0)))?;
    let is_new = owner == 0 && version == 0 && n_tables == 0;
    match u32::try_from(version) {
        // A view that never ends, or a trigger, would be run by what reads and writes tables.
        Ok(1..) if owner == APPLICATION_ID && n_foreign(connection, place)? > 0 => {
            Err(place.corrupt("it has views or triggers, which Forge does not create"))
        }
        _ if !is_new && owner != APPLICATION_ID => Err(StoreError::NotAStore { place: place.to_string() }),
        Ok(found) if found > SCHEMA => {
            Err(StoreError::NewerSchema { place: place.to_string(), found, known: SCHEMA })
        }
        Ok(version) => Ok(version),
        Err(_) => Err(StoreError::NotAStore { place: place.to_string() }),
    }
}

/// Returns the number of things in the file that are neither tables nor indexes.
fn n_foreign(connection: &Connection, place: &StoreFileName) -> Result<i64, StoreError> {
    let count = "SELECT count(*) FROM sqlite_master WHERE type NOT IN ('table', 'index')";
    place.on(connection.query_row(count, [], |row| row.get(0)))
}

/// Runs all missing migrations in one transaction: the file has the old version or the new one.
fn migrate(connection: &mut Connection, press: &mut Press, place: &StoreFileName) -> Result<(), StoreError> {
    let transaction = place.on(connection.transaction_with_behavior(TransactionBehavior::Immediate))?;
    // Another process may have been faster.
    let from = version(&transaction, place)?;
    for step in &MIGRATIONS[from as usize..] {
        place.on(transaction.execute_batch(step))?;
    }
    if from < WITH_WORDS {
        words::index_all(&transaction, press, place)?;
    }
    place.on(transaction.pragma_update(None, "application_id", APPLICATION_ID))?;
    place.on(transaction.pragma_update(None, "user_version", SCHEMA))?;
    place.on(transaction.commit())
}
