//! The database's tables and their version.

use forge_domain::StoreError;
use tokio_postgres::Client;

use super::error::ServerName;

/// The migration from each version to the next. Released ones are never changed.
const MIGRATIONS: [&str; 4] = [
    include_str!("schema_1.sql"),
    include_str!("schema_2.sql"),
    include_str!("schema_3.sql"),
    include_str!("schema_4.sql"),
];
/// The version that this Forge writes.
pub(super) const SCHEMA: u32 = MIGRATIONS.len() as u32;
/// The number of the lock for which two simultaneous migrations wait: "forg".
const LOCK: i64 = 0x666f_7267;

/// Creates missing tables and migrates old ones, all in one transaction.
pub(super) async fn migrate(client: &mut Client, place: &ServerName) -> Result<(), StoreError> {
    if version(client, place).await? == SCHEMA {
        return Ok(());
    }
    let transaction = place.on(client.transaction().await)?;
    place.on(transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&LOCK]).await)?;
    let table = "CREATE TABLE IF NOT EXISTS forge_schema (version BIGINT NOT NULL)";
    place.on(transaction.batch_execute(table).await)?;
    // Another process may have been faster.
    let from: i64 = {
        let select = "SELECT coalesce(max(version), 0) FROM forge_schema";
        place.on(transaction.query_one(select, &[]).await)?.get(0)
    };
    let from = check_version(from, place)?;
    for step in &MIGRATIONS[from as usize..] {
        place.on(transaction.batch_execute(step).await)?;
    }
    let now = i64::from(SCHEMA);
    place.on(transaction.execute("DELETE FROM forge_schema", &[]).await)?;
    place.on(transaction.execute("INSERT INTO forge_schema (version) VALUES ($1)", &[&now]).await)?;
    place.on(transaction.commit().await)
}

/// Checks that everything that is read as a table is one: a view could never end, or show anything.
pub(super) async fn check_tables(client: &Client, place: &ServerName) -> Result<(), StoreError> {
    let others = "SELECT c.relname::text FROM pg_class c
        WHERE c.oid IN (to_regclass('forge_run'), to_regclass('forge_branch'), to_regclass('forge_content'),
            to_regclass('forge_line'), to_regclass('forge_checkpoint'), to_regclass('forge_action')) AND c.relkind NOT IN ('r', 'p') LIMIT 1";
    match place.on(client.query_opt(others, &[]).await)? {
        Some(row) => Err(place.corrupt(format!("`{}` is not a table", row.get::<_, &str>(0)))),
        None => Ok(()),
    }
}

/// Returns the version of the database; 0 if it has none of our tables.
async fn version(client: &Client, place: &ServerName) -> Result<u32, StoreError> {
    let exists = "SELECT to_regclass('forge_schema') IS NOT NULL";
    if !place.on(client.query_one(exists, &[]).await)?.get::<_, bool>(0) {
        return Ok(0);
    }
    let select = "SELECT coalesce(max(version), 0) FROM forge_schema";
    check_version(place.on(client.query_one(select, &[]).await)?.get(0), place)
}

fn check_version(version: i64, place: &ServerName) -> Result<u32, StoreError> {
    let found = u32::try_from(version).map_err(|_| StoreError::NotAStore { place: place.to_string() })?;
    if found > SCHEMA {
        return Err(StoreError::NewerSchema { place: place.to_string(), found, known: SCHEMA });
    }
    Ok(found)
}
