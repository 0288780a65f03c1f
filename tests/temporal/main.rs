//! Fleets on Temporal, built with the feature `temporal`: against a server that the tests start, if
//! `$FORGE_TEMPORAL` or the path has its binary.
#![allow(clippy::disallowed_methods, reason = "tests read files and the environment")]
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod chaos;
mod histories;
mod server;

use std::sync::Arc;

use forge_app::{Scheduler, SchedulerError};
use forge_domain::RunId;
use forge_fleet::{TemporalOptions, TemporalScheduler};
use forge_tests::scheduler_contract::Bench;

use self::server::TemporalServer;

async fn bench(case: &str) -> Option<(Bench, TemporalServer)> {
    let server = TemporalServer::start(case).await?;
    Some((Bench::new(Arc::new(server.scheduler().await)), server))
}

forge_tests::test_scheduler!(bench);

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_there_and_a_namespace_that_it_does_not_have_are_said() {
    let nowhere = TemporalScheduler::connect("temporal://127.0.0.1:1/default", TemporalOptions::default());
    let Err(error) = nowhere.await else { panic!("it answers") };
    assert!(
        error.to_string().starts_with("temporal://127.0.0.1:1/default: no Temporal server answers there")
    );
    let Some(server) = TemporalServer::start("errors").await else { return };
    let scheduler = server.scheduler().await;
    let elsewhere = server.address().replace("/default", "/nowhere");
    let Err(error) = TemporalScheduler::connect(&elsewhere, TemporalOptions::default()).await else {
        panic!("it has it")
    };
    assert!(error.to_string().contains("no namespace `nowhere`"), "{error}");
    let run = RunId::new("r").unwrap();
    drop(server);
    let gone = scheduler.submit(&run).await;
    assert!(matches!(gone, Err(SchedulerError::Unavailable { .. })), "{gone:?}");
}
