//! Fleets: the connection to a scheduler, and slices of runs, each in a process of its own.

mod connection;
mod forwarding;
mod lines;
mod slice;
mod slice_process;
mod workspace;

pub(crate) use self::connection::FleetFlags;
pub(crate) use self::forwarding::slice_arguments;
pub(crate) use self::slice::run_slice;
pub(crate) use self::slice_process::SliceProcesses;
pub(crate) use self::workspace::{BegunWorkspace, WorkspacesFlag};
