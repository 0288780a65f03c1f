//! The arguments with which a worker starts the processes of slices.

use std::ffi::OsString;
use std::path::Path;

use crate::arguments::SetupFlags;

/// The variable by which a slice is told its store: other users may read arguments, and a URL may have a
/// password.
pub(super) const STORE_VARIABLE: &str = "FORGE_SLICE_STORE";

/// Returns the arguments of `forge slice` that configure it as the worker was configured.
pub(crate) fn slice_arguments(setup: &SetupFlags, workspaces: &Path, is_trusted: bool) -> Vec<OsString> {
    let SetupFlags { source, sandbox, consent } = setup;
    let store = format!("${STORE_VARIABLE}");
    let mut arguments: Vec<OsString> = vec!["slice".into(), "--store".into(), store.into()];
    arguments.extend(["--workspaces".into(), workspaces.into()]);
    if let Some(file) = source.config() {
        // The slice may work in another folder.
        let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        arguments.extend(["--config".into(), file.into()]);
    }
    let named = [
        ("--model", source.model.clone()),
        ("--provider", source.provider.clone()),
        ("--effort", source.effort.map(|effort| effort.to_string())),
        ("--sandbox", sandbox.map(|mode| mode.word().to_owned())),
    ];
    for (flag, value) in named {
        arguments.extend(value.into_iter().flat_map(|value| [flag.into(), value.into()]));
    }
    arguments.extend(consent.words().into_iter().map(OsString::from));
    if is_trusted {
        arguments.push("--trust".into());
    }
    arguments
}
