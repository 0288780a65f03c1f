//! Which store of checkpoints is meant, and opening it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forge_domain::{CheckpointStore, StoreSetting};
use forge_infra::{OpeningCheckpointStore, SqlitePlace, StoreUrl, open_checkpoint_store};

use crate::arguments::Source;
use crate::failure::Misconfigured;
use crate::setup;

/// The store's file in the user's state folder.
const FILE: &str = "checkpoints.db";

/// The store that `named`, a URL of `--store` or of the configuration, means; where nothing is named, one file in the
/// user's state folder.
pub(crate) fn store_url(named: Option<&str>) -> anyhow::Result<StoreUrl> {
    if let Some(url) = named {
        return Ok(url.parse().map_err(|error| Misconfigured(format!("{error}")))?);
    }
    let place = default_place(&environment()).ok_or_else(|| {
        Misconfigured(
            "there is no home folder to keep checkpoints in: name a place with --store sqlite:///PATH"
                .to_owned(),
        )
    })?;
    Ok(StoreUrl::Sqlite(SqlitePlace::new(place)))
}

/// Where the user's state of that name is kept; `None` where there is no home folder.
pub(crate) fn state_file(name: &str) -> Option<PathBuf> {
    state_folder(&environment()).map(|folder| folder.join(name))
}

/// Makes the file, which only its owner may read, and its folder, where they are not there.
pub(crate) fn make_private(file: &Path) -> std::io::Result<()> {
    let mut folders = std::fs::DirBuilder::new();
    folders.recursive(true);
    let mut options = std::fs::OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
        folders.mode(0o700);
        options.mode(0o600);
    }
    if let Some(folder) = file.parent() {
        folders.create(folder)?;
    }
    options.open(file).map(drop)
}

/// The environment, as far as it is text.
fn environment() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

fn default_place(environment: &BTreeMap<String, String>) -> Option<PathBuf> {
    state_folder(environment).map(|folder| folder.join(FILE))
}

/// `$XDG_STATE_HOME/forge`, else `~/.local/state/forge`; on Windows, where neither is set, `%LOCALAPPDATA%\forge`.
pub(crate) fn state_folder(environment: &BTreeMap<String, String>) -> Option<PathBuf> {
    let set = |name: &str| environment.get(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = set("XDG_STATE_HOME")
        .filter(|folder| folder.is_absolute())
        .or_else(|| set("HOME").map(|home| home.join(".local").join("state")))
        .or_else(|| set("LOCALAPPDATA"))?;
    Some(folder.join("forge"))
}

/// Opens the store; a file that is not there is made, and its folder with it, readable by its user alone.
pub(crate) async fn open(url: &StoreUrl) -> anyhow::Result<Arc<dyn CheckpointStore>> {
    Ok(OpeningCheckpointStore::new(url.clone()).opened().await?)
}

/// Opens a store that must be there already: looking at nothing does not make it.
pub(crate) async fn open_existing(url: &StoreUrl) -> anyhow::Result<Arc<dyn CheckpointStore>> {
    match url {
        StoreUrl::Memory => Err(Misconfigured(
            "memory: ends with the process that filled it: name a file or a database with --store".to_owned(),
        )
        .into()),
        StoreUrl::Sqlite(SqlitePlace { path, .. }) if !path.exists() => Err(Misconfigured(format!(
            "there are no checkpoints at {}: `forge run` makes them, or name another store with --store",
            path.display()
        ))
        .into()),
        StoreUrl::Sqlite(_) | StoreUrl::Postgres(_) => Ok(open_checkpoint_store(url).await?),
    }
}

/// The store that the configuration means: `None` where it says `none`.
pub(crate) fn configured(setting: Option<&StoreSetting>) -> anyhow::Result<Option<StoreUrl>> {
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

/// The store that `named`, what `--store` says, means; where it says nothing the one in which runs of this folder are kept,
/// `None` where these keep none.
pub(crate) fn of_runs(named: Option<&str>, config: Option<&Path>) -> anyhow::Result<Option<StoreUrl>> {
    if let Some(named) = named {
        return match named.parse() {
            Ok(setting) => configured(Some(&setting)),
            Err(_) => store_url(Some(named)).map(Some),
        };
    }
    let source = Source { config: config.map(Path::to_owned), model: None, provider: None };
    let configuration = setup::configuration(&source).map_err(|error| {
        Misconfigured(format!(
            "{error:#}\nit says which store is meant: mend it, or name the store with --store"
        ))
    })?;
    configured(configuration.workflow.checkpoint.store.as_ref())
}

/// The same, where there must be one.
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
    fn the_default_is_one_file_in_the_users_state_folder() {
        for (environment, expected) in [
            (&[("HOME", "/h")][..], Some("/h/.local/state/forge/checkpoints.db")),
            (&[("HOME", "/h"), ("XDG_STATE_HOME", "/s")], Some("/s/forge/checkpoints.db")),
            // The specification calls a relative path invalid.
            (&[("HOME", "/h"), ("XDG_STATE_HOME", "s")], Some("/h/.local/state/forge/checkpoints.db")),
            (&[("HOME", ""), ("LOCALAPPDATA", "/l")], Some("/l/forge/checkpoints.db")),
            (&[], None),
        ] {
            let named = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            let actual = default_place(&environment.iter().map(named).collect());
            assert_eq!(actual, expected.map(PathBuf::from), "{environment:?}");
        }
    }

    #[test]
    fn a_store_that_is_named_is_meant() {
        assert_eq!(store_url(Some("memory:")).ok(), Some(StoreUrl::Memory));
        let error = store_url(Some("redis://x")).err().map(|error| error.to_string());
        assert!(error.is_some_and(|error| error.contains("names no checkpoint store")));
    }
}
