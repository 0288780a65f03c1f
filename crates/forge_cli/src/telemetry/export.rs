//! The export of traces and metrics, configured by OpenTelemetry's variables. Its end neither hangs nor fails
//! a run.

use std::sync::mpsc::channel;
use std::time::Duration;

use forge_infra::install_tls_provider;
use opentelemetry::metrics::MeterProvider;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{MetricExporter, SpanExporter};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::{Level, Metadata};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;

use super::figures::Figures;
use crate::output;

/// The time limit for sending the rest.
const PATIENCE: Duration = Duration::from_secs(3);
/// The service name if the environment has none.
const SERVICE: &str = "forge";

/// The export.
#[derive(Default)]
pub(crate) struct Telemetry {
    tracers: Option<SdkTracerProvider>,
    meters: Option<SdkMeterProvider>,
}

impl Telemetry {
    /// Sets up what the environment asks for. What cannot be set up is reported, and left out.
    pub(crate) fn of_environment() -> Self {
        if variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Self::default();
        }
        install_tls_provider();
        Self {
            tracers: is_wanted("TRACES").then(tracers).and_then(|tracers| report_failure("traces", tracers)),
            meters: is_wanted("METRICS").then(meters).and_then(|meters| report_failure("metrics", meters)),
        }
    }

    /// Returns a layer that listens to spans, and to nothing else: log lines may hold private text.
    pub(crate) fn layer<S>(&self) -> Option<Box<dyn Layer<S> + Send + Sync>>
    where
        S: tracing::Subscriber + for<'s> tracing_subscriber::registry::LookupSpan<'s> + Send + Sync,
    {
        let traces = self.tracers.as_ref().map(|tracers| {
            let layer = tracing_opentelemetry::layer().with_tracer(tracers.tracer(SERVICE));
            layer.with_location(false).with_threads(false).with_tracked_inactivity(false).boxed()
        });
        let figures = self.meters.as_ref().map(|meters| Figures::new(&meters.meter(SERVICE)).boxed());
        let layers: Vec<_> = traces.into_iter().chain(figures).collect();
        (!layers.is_empty()).then(|| layers.with_filter(filter_fn(is_told)).boxed())
    }

    /// Sends the rest within a few seconds; what does not arrive by then is lost, which is reported.
    pub(crate) fn end(self) {
        if self.tracers.is_none() && self.meters.is_none() {
            return;
        }
        let (tell, told) = channel();
        // A server that does not answer is abandoned with the thread that waits for it.
        std::thread::spawn(move || {
            let traces = self.tracers.map(|tracers| tracers.shutdown_with_timeout(PATIENCE));
            let metrics = self.meters.map(|meters| meters.shutdown_with_timeout(PATIENCE));
            let failed = traces.into_iter().chain(metrics).find_map(Result::err);
            let _ = tell.send(failed.map(|error| error.to_string()));
        });
        let why = match told.recv_timeout(PATIENCE) {
            Ok(None) => return,
            Ok(Some(why)) => why,
            Err(_) => format!("the collector did not answer within {} seconds", PATIENCE.as_secs()),
        };
        output::say(&format!("note: traces or metrics were not delivered: {}", output::visible_lines(&why)));
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

/// Checks whether an endpoint is named for a signal, or for all, and it is not disabled.
fn is_wanted(signal: &str) -> bool {
    let of_signal = variable(&format!("OTEL_EXPORTER_OTLP_{signal}_ENDPOINT"));
    let exporter = variable(&format!("OTEL_{signal}_EXPORTER"));
    of_signal.or_else(|| variable("OTEL_EXPORTER_OTLP_ENDPOINT")).is_some()
        && exporter.is_none_or(|exporter| exporter != "none")
}

/// Checks whether to send a span: only ours, without those of the most detailed level.
fn is_told(metadata: &Metadata<'_>) -> bool {
    metadata.is_span() && metadata.target().starts_with("forge::") && *metadata.level() <= Level::INFO
}

fn report_failure<T>(what: &str, made: Result<T, String>) -> Option<T> {
    made.map_err(|why| {
        output::say(&format!("note: no {what} are sent: {}", output::visible_lines(&why)));
    })
    .ok()
}

fn tracers() -> Result<SdkTracerProvider, String> {
    let exporter = SpanExporter::builder().with_http().build().map_err(|error| error.to_string())?;
    Ok(SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource()).build())
}

fn meters() -> Result<SdkMeterProvider, String> {
    let exporter = MetricExporter::builder().with_http().build().map_err(|error| error.to_string())?;
    Ok(SdkMeterProvider::builder().with_periodic_exporter(exporter).with_resource(resource()).build())
}

fn resource() -> Resource {
    let version = opentelemetry::KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let builder = Resource::builder().with_attribute(version);
    let attributes = variable("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
    let is_named = variable("OTEL_SERVICE_NAME").is_some() || attributes.contains("service.name=");
    if is_named { builder.build() } else { builder.with_service_name(SERVICE).build() }
}
