//! What every scheduler does, of the scheduler of one process. That of Temporal is tried in `tests/temporal`.

use std::sync::Arc;
use std::time::Duration;

use forge_app::LocalScheduler;
use forge_infra::SystemClock;
use forge_tests::scheduler_contract::Bench;
use futures::FutureExt;

async fn bench(_: &str) -> Option<(Bench, ())> {
    let moment = Arc::new(|| tokio::time::sleep(Duration::from_millis(5)).boxed());
    Some((Bench::new(Arc::new(LocalScheduler::new(Arc::new(SystemClock), moment))), ()))
}

forge_tests::test_scheduler!(bench);
