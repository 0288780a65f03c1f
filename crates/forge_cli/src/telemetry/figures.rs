//! Metrics, derived from ended spans: the duration and usage of calls, and the effects of compactions.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Instant;

use opentelemetry::metrics::{Counter, Histogram, Meter};
use opentelemetry::{KeyValue, StringValue, Value};
use tracing::Subscriber;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// The boundaries that the conventions recommend, in seconds and in tokens.
const SECONDS: [f64; 14] =
    [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
const TOKENS: [f64; 14] = [
    1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 4194304.0,
    16777216.0, 67108864.0,
];

/// The counters and histograms.
pub(super) struct Figures {
    duration: Histogram<f64>,
    usage: Histogram<u64>,
    compactions: Counter<u64>,
    removed: Histogram<u64>,
    compacting: Histogram<f64>,
}

/// The values of a span.
struct Told {
    started: Instant,
    fields: BTreeMap<&'static str, Value>,
}

impl Figures {
    pub(super) fn new(meter: &Meter) -> Self {
        let seconds = |name: &'static str, what: &'static str| {
            let histogram = meter.f64_histogram(name).with_unit("s").with_description(what);
            histogram.with_boundaries(SECONDS.to_vec()).build()
        };
        let tokens = |name: &'static str, what: &'static str| {
            let histogram = meter.u64_histogram(name).with_unit("{token}").with_description(what);
            histogram.with_boundaries(TOKENS.to_vec()).build()
        };
        Self {
            duration: seconds(
                "gen_ai.client.operation.duration",
                "The duration of a call to a model or a tool.",
            ),
            usage: tokens("gen_ai.client.token.usage", "Tokens of a prompt, or of an answer."),
            compactions: meter
                .u64_counter("forge.compactions")
                .with_unit("{compaction}")
                .with_description("Compactions that were due, by outcome.")
                .build(),
            removed: tokens("forge.compaction.removed", "Tokens that a compaction removed from a context."),
            compacting: seconds(
                "forge.compaction.duration",
                "The duration of a compaction, including summaries.",
            ),
        }
    }

    fn take(&self, name: &str, told: &Told) {
        let took = told.started.elapsed().as_secs_f64();
        match name {
            "chat" | "execute_tool" => {
                let shared = told.those(&[
                    "gen_ai.operation.name",
                    "gen_ai.provider.name",
                    "gen_ai.request.model",
                    "gen_ai.response.model",
                    "gen_ai.tool.name",
                ]);
                let failed = told.those(&["error.type"]);
                self.duration.record(took, &[shared.clone(), failed].concat());
                for (kind, key) in
                    [("input", "gen_ai.usage.input_tokens"), ("output", "gen_ai.usage.output_tokens")]
                {
                    if let Some(tokens) = told.number(key) {
                        let kind = KeyValue::new("gen_ai.token.type", kind);
                        self.usage.record(tokens, &[shared.clone(), vec![kind]].concat());
                    }
                }
            }
            "compact" => {
                let of = told.those(&[
                    "forge.compaction.trigger",
                    "forge.compaction.outcome",
                    "forge.compaction.strategies",
                ]);
                self.compactions.add(1, &of);
                self.compacting.record(took, &of);
                let sizes = ["forge.compaction.before.tokens", "forge.compaction.after.tokens"];
                if let [Some(before), Some(after)] = sizes.map(|key| told.number(key)) {
                    self.removed.record(before.saturating_sub(after), &of);
                }
            }
            _ => {}
        }
    }
}

impl Told {
    fn new() -> Self {
        Self { started: Instant::now(), fields: BTreeMap::new() }
    }

    fn those(&self, keys: &[&'static str]) -> Vec<KeyValue> {
        let known = keys.iter().filter_map(|key| Some(KeyValue::new(*key, self.fields.get(key)?.clone())));
        known.collect()
    }

    fn number(&self, key: &str) -> Option<u64> {
        match self.fields.get(key) {
            Some(Value::I64(number)) => u64::try_from(*number).ok(),
            _ => None,
        }
    }
}

impl Visit for Told {
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.fields.insert(field.name(), Value::I64(i64::try_from(value).unwrap_or(i64::MAX)));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name(), Value::String(StringValue::from(value.to_owned())));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

impl<S: Subscriber + for<'s> LookupSpan<'s>> Layer<S> for Figures {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut told = Told::new();
        attributes.record(&mut told);
        span.extensions_mut().insert(told);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(told) = span.extensions_mut().get_mut::<Told>() {
            values.record(told);
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let told = span.extensions_mut().remove::<Told>();
        if let Some(told) = told {
            self.take(span.name(), &told);
        }
    }
}
