//! The folder that tools may touch, and the way a path of the model's becomes a path in it.

use std::io;
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::Dir;

/// One folder, open. The kernel, or cap-std in its stead, resolves each path below it and refuses one that leaves.
#[derive(Debug)]
pub(super) struct Workspace {
    dir: Dir,
    /// The root by its given and its real path: models know one or the other from what they were told.
    roots: [PathBuf; 2],
}

impl Workspace {
    pub(super) fn open(root: &Path) -> io::Result<Self> {
        let real = std::fs::canonicalize(root)?;
        let dir = Dir::open_ambient_dir(&real, ambient_authority())?;
        Ok(Self { dir, roots: [std::path::absolute(root)?, real] })
    }

    /// The folder itself.
    pub(super) const fn dir(&self) -> &Dir {
        &self.dir
    }

    /// `path` relative to the root: an absolute path below the root loses that beginning, any other stays as it is.
    pub(super) fn relative<'path>(&self, path: &'path str) -> &'path Path {
        let path = Path::new(path);
        let relative = self.roots.iter().find_map(|root| path.strip_prefix(root).ok()).unwrap_or(path);
        if relative.as_os_str().is_empty() { Path::new(".") } else { relative }
    }
}
