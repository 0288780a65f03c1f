//! Checkpoint stores: one contract for all of them, and what is particular to each.

mod contract;
pub(crate) mod cut_connections;
mod faults;
mod frozen;
mod kill_points;
mod model;
pub(crate) mod postgres_server;
pub(crate) mod sample;
mod two_processes;
