//! The integration tests share one binary.
#![allow(clippy::disallowed_methods, reason = "tests read files and the environment")]
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod acp;
mod actions;
mod background;
mod bad_files;
#[cfg(target_os = "linux")]
mod chat;
mod check;
mod checkpoint_store;
mod checkpoints;
mod command_line;
mod commands;
mod compact;
mod dice;
mod docs;
mod doctor;
mod effort;
mod encoding;
mod endings;
mod endurance;
mod example;
mod export;
#[cfg(target_os = "linux")]
mod first_hours;
mod fleet;
mod forge;
mod home;
mod hooks;
mod images;
mod init;
mod inspect;
mod interruption;
#[cfg(target_os = "linux")]
mod latency;
mod logging;
mod mcp;
mod migration;
mod modes;
mod mutated;
mod orchestrator;
#[cfg(unix)]
mod picture;
mod program;
mod provider_contract;
#[cfg(unix)]
mod pseudo_terminal;
mod reasoning;
mod recall;
mod recorded_sample;
mod recording;
mod recovery;
mod replay;
mod replayed_resume;
mod research;
mod resolved;
mod resume;
#[cfg(target_os = "linux")]
mod sandbox;
mod schema;
mod scheduler;
mod secrets;
#[cfg(unix)]
mod sessions;
mod slices;
mod spending;
mod sweep;
mod terminal;
#[cfg(target_os = "linux")]
mod terminal_lost;
mod tidy;
mod tools;
mod transforms;
#[cfg(unix)]
mod trust;
mod workspace_secrets;
mod workspaces;
