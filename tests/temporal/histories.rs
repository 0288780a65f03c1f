//! Histories that earlier versions wrote, which this one must be able to continue. They are recorded from the
//! cases of the scheduler with `FORGE_RECORD_FIXTURES=1`, and never replaced: a version adds its own.

use std::path::PathBuf;
use std::sync::Arc;

use forge_app::Scheduler;
use forge_fleet::replay_history;
use forge_tests::scheduler_contract::{self as cases, Bench};

use crate::server::TemporalServer;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/histories")
}

#[tokio::test]
async fn what_earlier_versions_began_can_be_continued() {
    let mut n = 0;
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let history = std::fs::read(&path).unwrap();
        replay_history(&history).await.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        // A version that asked for something else would be found out.
        let text = String::from_utf8(history).unwrap();
        let other = text.replace("\"name\":\"slice\"", "\"name\":\"other\"");
        if other != text {
            assert!(replay_history(other.as_bytes()).await.is_err(), "{}", path.display());
            n += 1;
        }
    }
    assert!(n >= 6, "{n}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_this_version_begins_can_be_continued() {
    let Some(server) = TemporalServer::start("histories").await else { return };
    let scheduler = server.scheduler().await;
    let bench = || Bench::new(Arc::new(scheduler.clone()));
    cases::slices_follow_each_other_until_the_run_is_done(bench()).await;
    cases::a_run_waits_for_its_answer_and_nothing_runs_meanwhile(bench()).await;
    cases::a_slice_that_failed_for_now_is_tried_again_with_its_words(bench()).await;
    cases::a_run_that_failed_is_tried_again_when_somebody_says_so(bench()).await;
    cases::a_run_is_stopped_at_work_and_while_it_waits(bench()).await;
    cases::advice_is_heard_at_the_next_safe_point(bench()).await;
    cases::a_worker_that_drains_leaves_its_runs_to_others(bench()).await;
    for listed in scheduler.list().await.unwrap() {
        let history = scheduler.history(&listed.run).await.unwrap();
        replay_history(&history).await.unwrap_or_else(|error| panic!("{}: {error}", listed.run));
        if std::env::var_os("FORGE_RECORD_FIXTURES").is_some() {
            let name = format!("{}-{}.json", env!("CARGO_PKG_VERSION"), listed.run);
            let path = folder().join(name);
            if !path.exists() {
                std::fs::write(path, history).unwrap();
            }
        }
    }
}
