//! The places on the machine that the sandbox has to know.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use forge_domain::{Sandbox, SandboxPlaces, SandboxPolicy};
use rustix::fs::Access;
use rustix::io::Errno;

use super::SandboxSurroundings;

/// Folders that hold the home folders of users.
const HOMES: [&str; 2] = ["/home", "/Users"];
const HOME_OF_ROOT: &str = "/root";

/// Decides what commands may do here. Missing writable folders are created.
pub(super) fn decide(
    settings: &Sandbox,
    surroundings: &SandboxSurroundings,
    temporary: &Path,
) -> io::Result<SandboxPolicy> {
    let home = surroundings.home.as_deref().filter(|home| home.is_absolute());
    for path in settings.write.iter().flatten().filter_map(|path| path.resolve(home)) {
        if !path.exists()
            && let Err(error) = fs::create_dir_all(&path)
        {
            tracing::warn!("the folder {} cannot be created for the sandbox: {error}", path.display());
        }
    }
    let (mut homes, others) = homes_of_users(rustix::process::geteuid().as_raw());
    homes.extend(home.map(Path::to_owned));
    let places = SandboxPlaces {
        workspace: fs::canonicalize(&surroundings.workspace)?,
        temporary: fs::canonicalize(temporary)?,
        home: home.map(Path::to_owned),
        homes,
        others,
        own: absolute(surroundings.own_folders.iter().chain(&surroundings.own_files))?,
    };
    let mut policy = SandboxPolicy::decide(settings, &places);
    for paths in [&mut policy.write, &mut policy.closed, &mut policy.open] {
        add_real(paths);
    }
    policy.closed.retain(|path| !is_locked(path));
    Ok(policy)
}

/// Returns the paths from the root on, and those that they are without links: the home folder may be a link.
pub(super) fn absolute<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> io::Result<Vec<PathBuf>> {
    let mut all: Vec<PathBuf> = paths.into_iter().map(std::path::absolute).collect::<io::Result<_>>()?;
    let real: Vec<PathBuf> = all.iter().filter_map(|path| without_links(path)).collect();
    all.extend(real);
    all.sort();
    all.dedup();
    Ok(all)
}

/// Returns the path without links as far as it exists, and the rest of it as it is.
fn without_links(path: &Path) -> Option<PathBuf> {
    path.ancestors().find_map(|existing| {
        let mut real = fs::canonicalize(existing).ok()?;
        real.extend(path.strip_prefix(existing).ok()?);
        Some(real)
    })
}

/// Creates Forge's own folders where a command could: only what is there can be covered.
pub(super) fn create_folders(policy: &SandboxPolicy, own: &[PathBuf]) {
    let missing = own.iter().filter(|path| !path.exists());
    for folder in missing.filter(|path| policy.closed_within_writable().any(|closed| closed == *path)) {
        let created = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
        if let Err(error) = created {
            tracing::warn!("the folder {} cannot be created for the sandbox: {error}", folder.display());
        }
    }
}

/// Checks whether the user cannot open a path anyway: an unreadable file, or a folder that cannot be entered.
fn is_locked(path: &Path) -> bool {
    let right = if path.is_dir() { Access::EXEC_OK } else { Access::READ_OK };
    rustix::fs::access(path, right) == Err(Errno::ACCESS)
}

/// Adds the targets of paths that lead through links.
fn add_real(paths: &mut Vec<PathBuf>) {
    let real: Vec<PathBuf> = paths.iter().filter_map(|path| fs::canonicalize(path).ok()).collect();
    paths.extend(real);
    paths.sort();
    paths.dedup();
}

/// Returns the home folders of the user with this number, and those of all others.
fn homes_of_users(user: u32) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let below = HOMES.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    let all = below.map(|entry| entry.path()).chain([PathBuf::from(HOME_OF_ROOT)]);
    all.filter(|path| path.exists())
        .partition(|path| fs::metadata(path).is_ok_and(|metadata| metadata.uid() == user))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_folder_is_known_by_its_path_without_links() {
        let folder = tempfile::tempdir().unwrap();
        let real = fs::canonicalize(folder.path()).unwrap();
        fs::create_dir(real.join("home")).unwrap();
        let link = real.join("link");
        std::os::unix::fs::symlink("home", &link).unwrap();
        let found = absolute([&link.join(".config/forge"), &link]).unwrap();
        for path in ["link", "link/.config/forge", "home", "home/.config/forge"] {
            assert!(found.contains(&real.join(path)), "{path}: {found:?}");
        }
        assert_eq!(found.len(), 4);
    }
}
