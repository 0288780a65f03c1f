//! The places of the user's own files, and of the administrator's.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The name of a workflow file if none is given.
pub(crate) const PROJECT_FILE: &str = "forge.yaml";
/// The name of a file of MCP servers, as other agents have it.
pub(crate) const MCP_FILE: &str = ".mcp.json";

/// The administrator's file, if it differs from the usual one.
static SYSTEM_FILE: OnceLock<PathBuf> = OnceLock::new();

/// Sets the administrator's file of this process to `path`; only the first call counts.
pub(crate) fn read_system_file_from(path: PathBuf) {
    drop(SYSTEM_FILE.set(path));
}

/// Returns the environment, as far as it is text.
pub(crate) fn environment() -> BTreeMap<String, String> {
    let variables = std::env::vars_os();
    variables
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// Returns the administrator's file; `None` on systems without a usual place for it.
pub(crate) fn system_file() -> Option<PathBuf> {
    let usual = cfg!(unix).then(|| Path::new("/etc/forge").join(PROJECT_FILE));
    SYSTEM_FILE.get().cloned().or(usual)
}

/// Returns the folder of the user's own configuration: `$XDG_CONFIG_HOME/forge`, else `~/.config/forge`.
///
/// A relative path does not count: it would lie in whatever folder Forge runs in.
pub(crate) fn configuration_folder(environment: &BTreeMap<String, String>) -> Option<PathBuf> {
    let folder = set(environment, "XDG_CONFIG_HOME")
        .or_else(|| set(environment, "HOME").map(|home| home.join(".config")))?;
    Some(folder.join("forge"))
}

/// Returns the fetched table of models: `models.yaml` in `$XDG_DATA_HOME/forge`, else `~/.local/share/forge`;
/// on Windows, if neither is set, in `%LOCALAPPDATA%\forge`.
pub(crate) fn models_file(environment: &BTreeMap<String, String>) -> Option<PathBuf> {
    local_folder(environment, "XDG_DATA_HOME", "share").map(|folder| folder.join("models.yaml"))
}

/// Returns the path of the user's state with that name; `None` without a home folder.
pub(crate) fn state_file(name: &str) -> Option<PathBuf> {
    state_folder(&environment()).map(|folder| folder.join(name))
}

/// Returns `$XDG_STATE_HOME/forge`, else `~/.local/state/forge`; on Windows, if neither is set,
/// `%LOCALAPPDATA%\forge`.
pub(crate) fn state_folder(environment: &BTreeMap<String, String>) -> Option<PathBuf> {
    local_folder(environment, "XDG_STATE_HOME", "state")
}

/// Returns the folder for files that can be made again: `$XDG_CACHE_HOME/forge`, else `~/.cache/forge`; on
/// Windows, if neither is set, `%LOCALAPPDATA%\forge\cache`.
pub(crate) fn cache_folder(environment: &BTreeMap<String, String>) -> Option<PathBuf> {
    set(environment, "XDG_CACHE_HOME")
        .or_else(|| set(environment, "HOME").map(|home| home.join(".cache")))
        .map(|folder| folder.join("forge"))
        .or_else(|| set(environment, "LOCALAPPDATA").map(|folder| folder.join("forge").join("cache")))
}

/// Returns Forge's folder in the one that `variable` names, else in `~/.local/NAME`, else in
/// `%LOCALAPPDATA%`.
fn local_folder(environment: &BTreeMap<String, String>, variable: &str, name: &str) -> Option<PathBuf> {
    let folder = set(environment, variable)
        .or_else(|| set(environment, "HOME").map(|home| home.join(".local").join(name)))
        .or_else(|| set(environment, "LOCALAPPDATA"))?;
    Some(folder.join("forge"))
}

/// Returns the folder that a variable names. The specification calls a relative one invalid.
fn set(environment: &BTreeMap<String, String>, name: &str) -> Option<PathBuf> {
    let folder = environment.get(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    folder.filter(|folder| folder.is_absolute())
}

/// Creates the folders of `file` that are missing, which only their owner may read.
pub(crate) fn make_private_folder(file: &Path) -> std::io::Result<()> {
    let mut folders = std::fs::DirBuilder::new();
    folders.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt as _;
        folders.mode(0o700);
    }
    file.parent().map_or(Ok(()), |folder| folders.create(folder))
}

/// Creates the file, which only its owner may read, and its folder, if they are missing.
pub(crate) fn make_private(file: &Path) -> std::io::Result<()> {
    make_private_folder(file)?;
    let mut options = std::fs::OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    options.open(file).map(drop)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn what_is_the_persons_own_is_never_in_the_working_folder() {
        for (environment, configuration, state) in [
            (&[("HOME", "/h")][..], Some("/h/.config/forge"), Some("/h/.local/state/forge")),
            (
                &[("HOME", "/h"), ("XDG_STATE_HOME", "/s"), ("XDG_CONFIG_HOME", "/c")],
                Some("/c/forge"),
                Some("/s/forge"),
            ),
            // The specification calls a relative path invalid.
            (
                &[("HOME", "/h"), ("XDG_STATE_HOME", "s"), ("XDG_CONFIG_HOME", "c")],
                Some("/h/.config/forge"),
                Some("/h/.local/state/forge"),
            ),
            (&[("HOME", ".")], None, None),
            (&[("HOME", ""), ("LOCALAPPDATA", "/l")], None, Some("/l/forge")),
            (&[], None, None),
        ] {
            let named = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            let environment = environment.iter().map(named).collect();
            let actual = (configuration_folder(&environment), state_folder(&environment));
            let expected = (configuration.map(PathBuf::from), state.map(PathBuf::from));
            assert_eq!(actual, expected, "{environment:?}");
        }
    }
}
