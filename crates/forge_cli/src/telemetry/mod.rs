//! Traces and metrics for OpenTelemetry, where forge was built with the feature `otel` and the environment names an endpoint.

#[cfg(feature = "otel")]
mod figures;

#[cfg(feature = "otel")]
mod sending;

#[cfg(feature = "otel")]
pub(crate) use self::sending::Telemetry;

/// What is sent to whom: nothing to nobody.
#[cfg(not(feature = "otel"))]
pub(crate) struct Telemetry;

#[cfg(not(feature = "otel"))]
impl Telemetry {
    /// What the environment asks for.
    pub(crate) const fn of_environment() -> Self {
        Self
    }

    /// What listens to spans: nothing.
    #[expect(clippy::unused_self, reason = "the same call with and without the feature")]
    pub(crate) fn layer(&self) -> tracing_subscriber::layer::Identity {
        tracing_subscriber::layer::Identity::new()
    }

    /// Sends what is left.
    pub(crate) const fn end(self) {}
}
