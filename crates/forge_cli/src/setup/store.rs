//! The choice of the checkpoint store, and its opening.

use std::path::Path;
use std::sync::Arc;

use forge_domain::{CheckpointStore, StoreError, StoreSetting};
use forge_infra::{Access, OpeningCheckpointStore, SqlitePlace, StoreUrl, open_checkpoint_store};

use super::configuration::configuration;
use crate::arguments::ConfigFlag;
use crate::consent::Need;
use crate::failure::{Misconfigured, Untrusted};
use crate::places;

/// The store's file in the user's state folder.
const FILE: &str = "checkpoints.db";

/// Returns the store of `named`, a URL of `--store` or of the configuration; without one, a file in the
/// user's state folder.
pub(crate) fn store_url(named: Option<&str>) -> anyhow::Result<StoreUrl> {
    if let Some(url) = named {
        return Ok(url.parse().map_err(|error| Misconfigured(format!("{error}")))?);
    }
    let place = places::state_file(FILE).ok_or_else(|| {
        Misconfigured(
            "there is no home folder (HOME is not an absolute path) to keep checkpoints in: name a place with \
             --store sqlite:///PATH"
                .to_owned(),
        )
    })?;
    Ok(StoreUrl::Sqlite(SqlitePlace::new(place)))
}

/// Returns the URL of the file in the user's state folder.
pub(crate) fn default_url() -> anyhow::Result<String> {
    match store_url(None)? {
        StoreUrl::Sqlite(SqlitePlace { path, .. }) => Ok(StoreUrl::of_file(&path)),
        other => Ok(other.to_string()),
    }
}

/// Opens the store; a missing file is created, and its folder with it, readable by its user alone.
pub(crate) async fn open(url: &StoreUrl) -> anyhow::Result<Arc<dyn CheckpointStore>> {
    Ok(OpeningCheckpointStore::new(url.clone()).store().await?)
}

/// Opens a store that must exist: reading does not create it.
pub(crate) async fn open_existing(url: &StoreUrl) -> anyhow::Result<Arc<dyn CheckpointStore>> {
    match url {
        StoreUrl::Memory => Err(Misconfigured(
            "memory: ends with the process that filled it: name a file or a database with --store".to_owned(),
        )
        .into()),
        StoreUrl::Sqlite(SqlitePlace { path, .. }) if !path.exists() => Err(Misconfigured(format!(
            "there are no checkpoints at {}: `forge run` creates them, or name another store with --store",
            path.display()
        ))
        .into()),
        _ => Ok(open_checkpoint_store(url).await?),
    }
}

/// Opens a store that must exist, for a command that only reads. A file that cannot be written, as on a full
/// disk, is opened as it is.
pub(crate) async fn open_for_reading(url: &StoreUrl) -> anyhow::Result<Arc<dyn CheckpointStore>> {
    let error = match open_existing(url).await {
        Ok(store) => return Ok(store),
        Err(error) => error,
    };
    let is_unwritable = matches!(
        error.downcast_ref::<StoreError>(),
        Some(StoreError::Full { .. } | StoreError::ReadOnly { .. } | StoreError::Unavailable { .. })
    );
    match url {
        StoreUrl::Sqlite(place) if is_unwritable => {
            let place = SqlitePlace { access: Access::ReadOnly, ..place.clone() };
            open_checkpoint_store(&StoreUrl::Sqlite(place)).await.map_err(|_| error)
        }
        _ => Err(error),
    }
}

/// Returns the configured store; `None` if it is `none`.
pub(crate) fn configured_store(setting: Option<&StoreSetting>) -> anyhow::Result<Option<StoreUrl>> {
    match setting {
        None => store_url(None).map(Some),
        Some(StoreSetting::Nowhere) => Ok(None),
        Some(StoreSetting::Url(url)) => store_url(Some(url)).map(Some),
        Some(StoreSetting::Variable(name)) => match std::env::var(name) {
            Ok(url) => store_url(Some(&url)).map(Some),
            Err(_) => {
                let what = format!(
                    "the store is named by ${name}, which is not set: export it, or write --store none"
                );
                Err(Misconfigured(what).into())
            }
        },
    }
}

/// Returns the store of `--store`; `None` if it is `none`.
pub(crate) fn named_store(named: &str) -> anyhow::Result<Option<StoreUrl>> {
    match named.parse() {
        Ok(setting) => configured_store(Some(&setting)),
        Err(_) => store_url(Some(named)).map(Some),
    }
}

/// Returns the store of `named`, which is the value of `--store`; without it, the one of this folder's runs,
/// which is `None` if they save no checkpoints.
pub(crate) fn of_runs(named: Option<&str>, config: Option<&Path>) -> anyhow::Result<Option<StoreUrl>> {
    match named {
        Some(named) => named_store(named),
        None => configured_store(setting_of_runs(None, config)?.as_ref()),
    }
}

/// Returns the store of `named` like [`of_runs`], as it was written.
pub(crate) fn setting_of_runs(
    named: Option<&str>,
    config: Option<&Path>,
) -> anyhow::Result<Option<StoreSetting>> {
    if let Some(named) = named {
        let setting = named.parse().map_err(|error| Misconfigured(format!("{error}")))?;
        return Ok(Some(setting));
    }
    let source = ConfigFlag { config: config.map(Path::to_owned) }.source();
    let configuration = configuration(&source, Need::Store).map_err(|error| {
        if error.is::<Untrusted>() {
            return error;
        }
        let help = "it may name the store: fix it, or name the store with --store";
        Misconfigured(format!("{error:#}\n{help}")).into()
    })?;
    Ok(configuration.workflow.checkpoint.store)
}

/// Returns the store like [`of_runs`], or an error if there is none.
pub(crate) fn named_or_of_runs(named: Option<&str>, config: Option<&Path>) -> anyhow::Result<StoreUrl> {
    of_runs(named, config)?.ok_or_else(|| {
        Misconfigured("no checkpoints are kept here (`none`): name a store with --store".to_owned()).into()
    })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_store_that_is_named_is_meant() {
        assert_eq!(store_url(Some("memory:")).ok(), Some(StoreUrl::Memory));
        let error = store_url(Some("redis://x")).err().map(|error| error.to_string());
        assert!(error.is_some_and(|error| error.contains("invalid checkpoint store")));
    }
}
