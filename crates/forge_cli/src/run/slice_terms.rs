//! The terms on which a run is driven in slices.

use std::path::PathBuf;
use std::sync::Arc;

use forge_domain::{Lease, RunId, WorkspaceKeeper};

/// The terms on which a run is driven in slices. It does nothing that it has not saved.
pub(crate) struct SliceTerms {
    /// The lease, which the caller renews.
    pub(crate) lease: Lease,
    /// The name of a run that begins.
    pub(crate) run: Option<RunId>,
    /// The keeper of its files, if they travel with it.
    pub(crate) keeper: Option<Arc<dyn WorkspaceKeeper>>,
    /// The folder that it works in. If unset, it is the folder of this process.
    pub(crate) folder: Option<PathBuf>,
}

impl SliceTerms {
    /// Creates the terms of a run that works in the folder of this process.
    pub(crate) const fn new(lease: Lease) -> Self {
        Self { lease, run: None, keeper: None, folder: None }
    }
}
