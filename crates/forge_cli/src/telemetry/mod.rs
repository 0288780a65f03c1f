//! The log, and traces and metrics for OpenTelemetry, if Forge was built with the feature `otel` and the
//! environment names an endpoint.

#[cfg(feature = "otel")]
mod export;
#[cfg(feature = "otel")]
mod figures;
mod log;

pub(crate) use self::log::{LogFlags, start};

#[cfg(feature = "otel")]
pub(crate) use self::export::Telemetry;

/// The export of a build without telemetry: nothing is sent.
#[cfg(not(feature = "otel"))]
pub(crate) struct Telemetry;

#[cfg(not(feature = "otel"))]
impl Telemetry {
    /// Returns the export that the environment asks for.
    pub(crate) const fn of_environment() -> Self {
        Self
    }

    /// Returns a layer that ignores all spans.
    #[expect(clippy::unused_self, reason = "the same call with and without the feature")]
    pub(crate) fn layer(&self) -> tracing_subscriber::layer::Identity {
        tracing_subscriber::layer::Identity::new()
    }

    /// Sends the rest.
    pub(crate) const fn end(self) {}
}
