//! Fleets on Temporal, built with the feature `temporal`: against a server that the tests start, if
//! `$FORGE_TEMPORAL` or the path has its binary.
#![allow(clippy::disallowed_methods, reason = "tests read files and the environment")]
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod chaos;
mod server;

use std::num::NonZeroUsize;
use std::sync::Arc;

use forge_app::{Scheduler, SchedulerError};
use forge_domain::RunId;
use forge_fleet::{TemporalOptions, TemporalScheduler};
use forge_tests::scheduler_contract::{self as contract, Bench};

use self::server::TemporalServer;

macro_rules! contract {
    ($($case:ident),* $(,)?) => {
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $case() {
            if let Some(server) = TemporalServer::start(stringify!($case)).await {
                contract::$case(Bench::new(Arc::new(server.scheduler().await))).await;
            }
        })*
    };
}

contract! {
    slices_follow_each_other_until_the_run_is_done,
    a_run_waits_for_its_answer_and_nothing_runs_meanwhile,
    a_slice_that_failed_for_now_is_tried_again_with_its_words,
    a_run_that_failed_is_tried_again_when_somebody_says_so,
    a_run_is_stopped_at_work_and_while_it_waits,
    what_cannot_be_done_is_said,
    a_worker_that_drains_leaves_its_runs_to_others,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_has_no_more_slices_at_once_than_slots() {
    if let Some(server) = TemporalServer::start("slots").await {
        let bench = Bench::new(Arc::new(server.scheduler().await));
        contract::a_worker_has_no_more_slices_at_once_than_slots(bench, NonZeroUsize::new(3).unwrap()).await;
    }
}

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
