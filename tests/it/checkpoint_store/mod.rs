//! Checkpoint stores: one contract for all of them, and what is particular to each.

mod contract;
mod faults;
mod frozen;
mod kill_points;
mod model;
mod postgres_server;
mod sample;
