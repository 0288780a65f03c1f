//! The integration tests share one binary.
#![allow(clippy::disallowed_methods, reason = "tests read files and the environment")]
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod provider_contract;
mod tidy;
