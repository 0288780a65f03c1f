//! Where checkpoints are kept: in memory, in a SQLite file, in a Postgres database.

mod inspection;
mod memory;
mod opening;
#[cfg(feature = "postgres")]
mod postgres;
mod record;
mod sqlite;
mod store_url;

use std::sync::Arc;

use forge_domain::{CheckpointStore, StoreError};

pub use self::memory::MemoryCheckpointStore;
pub use self::opening::OpeningCheckpointStore;
#[cfg(feature = "postgres")]
pub use self::postgres::PostgresCheckpointStore;
pub use self::sqlite::SqliteCheckpointStore;
#[cfg(feature = "postgres")]
pub use self::store_url::PostgresPlace;
pub use self::store_url::{Access, SqlitePlace, StoreUrl, StoreUrlError};

/// Opens the store at `url`; one that is not there yet is made, and one that an older forge made is brought up to date.
///
/// # Errors
/// [`StoreError`] where it cannot be reached, is none of ours, or is newer than this forge.
pub async fn open_checkpoint_store(url: &StoreUrl) -> Result<Arc<dyn CheckpointStore>, StoreError> {
    Ok(match url {
        StoreUrl::Memory => Arc::new(MemoryCheckpointStore::new()),
        #[cfg(feature = "postgres")]
        StoreUrl::Postgres(place) => {
            let store = PostgresCheckpointStore::connect((*place.config).clone(), &place.shown);
            Arc::new(store.await?)
        }
        StoreUrl::Sqlite(place) => Arc::new(SqliteCheckpointStore::open(place).await?),
    })
}
