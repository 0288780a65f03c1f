//! Panics in what was brought from outside, such as tools and strategies: a fault in one of them must not end
//! the run.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;

/// Runs a future of a part. A panic in it becomes an error with the panic's message.
pub(crate) async fn catch_panic<T>(work: impl Future<Output = T>) -> Result<T, String> {
    // It borrows nothing of the engine mutably, so a panic leaves no inconsistent state behind.
    AssertUnwindSafe(work).catch_unwind().await.map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason given").to_owned()
    })
}
