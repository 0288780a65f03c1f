//! The stores for checkpoints: in memory, in a SQLite file, in a Postgres database.

mod inspection;
mod lazy_store;
mod memory;
#[cfg(feature = "postgres")]
mod postgres;
mod record;
mod sqlite;
mod store_url;

use std::sync::Arc;

use forge_domain::{CheckpointStore, StoreError};

pub use self::lazy_store::OpeningCheckpointStore;
pub use self::memory::MemoryCheckpointStore;
#[cfg(feature = "postgres")]
pub use self::postgres::PostgresCheckpointStore;
pub use self::sqlite::SqliteCheckpointStore;
#[cfg(feature = "postgres")]
pub use self::store_url::PostgresPlace;
pub use self::store_url::{Access, SqlitePlace, StoreUrl, StoreUrlError};

/// Opens the store at `url`. A missing one is created, and one of an older Forge is migrated.
///
/// # Errors
/// Fails with [`StoreError`] if it cannot be reached, is not a checkpoint store, or is newer than this Forge.
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
