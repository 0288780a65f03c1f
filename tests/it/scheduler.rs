//! What every scheduler does. Each case is a function over a fleet; the scheduler of one process mounts them
//! here, and that of Temporal in `tests/temporal`.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use forge_app::LocalScheduler;
use forge_infra::SystemClock;
use forge_tests::scheduler_contract::{self as contract, Bench};
use futures::FutureExt;

fn bench() -> Bench {
    let moment = Arc::new(|| tokio::time::sleep(Duration::from_millis(5)).boxed());
    Bench::new(Arc::new(LocalScheduler::new(Arc::new(SystemClock), moment)))
}

macro_rules! contract {
    ($($case:ident),* $(,)?) => {
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $case() {
            contract::$case(bench()).await;
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
    contract::a_worker_has_no_more_slices_at_once_than_slots(bench(), NonZeroUsize::new(3).unwrap()).await;
}
