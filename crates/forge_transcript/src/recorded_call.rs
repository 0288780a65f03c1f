//! The calls of models that a recording agent took down: their tokens, and their cost if it knew it.

use std::num::NonZeroUsize;
use std::sync::Arc;

use forge_domain::{Dollars, Tokens, Usage};
use serde::Serialize;
use serde_json::Value;

use crate::any_blocks::text_at;
use crate::fields::Fields;
use crate::json_text::parse;
use crate::{Record, Session};

/// A call of a model, as the recording agent took it down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecordedCall {
    /// The record that holds it, counted from 0.
    pub record: usize,
    /// The model, if the record names it.
    pub model: Option<Arc<str>>,
    /// The tokens of the prompt and the reply.
    pub usage: Usage,
    /// The cost, if the agent recorded it.
    pub dollars: Option<Dollars>,
    /// True if a sub-agent made it, in a context of its own.
    pub is_aside: bool,
}

/// The places of the figures of a call in an entry.
struct Form {
    /// The objects that may hold them.
    places: &'static [&'static str],
    input: &'static str,
    /// Prompt tokens read from the cache, and written to it.
    cached: &'static [&'static str],
    written: &'static [&'static str],
    /// The parts of the reply, which add up.
    output: &'static [&'static str],
    /// True if `input` leaves out what was read from the cache and written to it.
    is_apart: bool,
}

const FORMS: [Form; 8] = [
    // Anthropic's usage: in Claude Code's records, in printed turns and in events of managed agents.
    Form {
        places: &["/message/usage", "/usage", "/model_usage", "/raw/model_usage"],
        input: "/input_tokens",
        cached: &["/cache_read_input_tokens"],
        written: &["/cache_creation_input_tokens"],
        output: &["/output_tokens"],
        is_apart: true,
    },
    // pi and OpenClaw.
    Form {
        places: &["/message/usage"],
        input: "/input",
        cached: &["/cacheRead"],
        written: &["/cacheWrite"],
        output: &["/output"],
        is_apart: true,
    },
    // Codex.
    Form {
        places: &["/payload/info/last_token_usage"],
        input: "/input_tokens",
        cached: &["/cached_input_tokens"],
        written: &[],
        output: &["/output_tokens"],
        is_apart: false,
    },
    // Cline and Roo.
    Form {
        places: &["/metrics", "/data"],
        input: "/inputTokens",
        cached: &["/cacheReadTokens"],
        written: &["/cacheWriteTokens"],
        output: &["/outputTokens"],
        is_apart: true,
    },
    // opencode.
    Form {
        places: &["/info/tokens"],
        input: "/input",
        cached: &["/cache/read"],
        written: &["/cache/write"],
        output: &["/output", "/reasoning"],
        is_apart: true,
    },
    // Gemini CLI.
    Form {
        places: &["/tokens"],
        input: "/input",
        cached: &["/cached"],
        written: &[],
        output: &["/output", "/thoughts"],
        is_apart: false,
    },
    // OpenAI's usage, and what counts in the same way: mini-SWE-agent, OpenHands, ATIF.
    Form {
        places: &[
            "/usage",
            "/message/usage",
            "/response/usage",
            "/extra/response/usage",
            "/tool_call_metadata/model_response/usage",
            "/metrics",
            "/context/usage",
        ],
        input: "/prompt_tokens",
        cached: &["/prompt_tokens_details/cached_tokens", "/cached_tokens"],
        written: &["/cache_creation_input_tokens"],
        output: &["/completion_tokens"],
        is_apart: false,
    },
    // LangChain.
    Form {
        places: &["/usage_metadata", "/kwargs/usage_metadata", "/data/usage_metadata"],
        input: "/input_tokens",
        cached: &["/input_token_details/cache_read"],
        written: &["/input_token_details/cache_creation"],
        output: &["/output_tokens"],
        is_apart: false,
    },
];

const COSTS: [&str; 6] = [
    "/message/usage/cost/total",
    "/metrics/cost",
    "/metrics/cost_usd",
    "/info/cost",
    "/extra/cost",
    "/context/usage/cost",
];

const MODELS: [&str; 13] = [
    "/message/model",
    "/message/usage/model",
    "/payload/model",
    "/modelInfo/id",
    "/info/modelID",
    "/model",
    "/data/model",
    "/model_name",
    "/response/model",
    "/extra/response/model",
    "/tool_call_metadata/model_response/model",
    "/response_metadata/model_name",
    "/kwargs/response_metadata/model_name",
];

/// The ids of a reply whose records repeat its usage.
const REPLIES: [&str; 2] = ["/message/id", "/tool_call_metadata/model_response/id"];

/// The number of calls back in which the same reply is searched.
const REACH: usize = 8;

impl Session {
    /// Returns the calls of models that the recording agent took down, in order, those of the whole file.
    pub fn calls(&self) -> Vec<RecordedCall> {
        let mut tally = CallTally::default();
        self.records.iter().enumerate().for_each(|(place, record): (usize, &Record)| {
            tally.add(place, record.raw());
        });
        tally.finish()
    }
}

/// The figures that a document has of all its calls together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedTotal {
    /// Their sum.
    pub sum: RecordedCall,
    /// Their number; 1 if the document does not tell it.
    pub n_calls: NonZeroUsize,
}

/// Returns the figures that a document has of all its calls together, if it has any: those of SWE-agent,
/// OpenHands and requests that were logged with their reply.
pub fn recorded_total(document: &[u8]) -> Option<RecordedTotal> {
    let text = std::str::from_utf8(document).ok().filter(|text| text.trim_start().starts_with('{'))?;
    let file = Fields::of(text);
    let object = |key: &str| parse::<Value>(file.get(key)).unwrap_or_default();
    let number = |value: &Value, at: &str| value.pointer(at).and_then(Value::as_f64);
    let (info, metrics) = (object("info"), object("metrics"));
    let context = Fields::of(file.get("context"));
    let response = Fields::of(file.get("response"));
    let beside = |fields: &Fields<'_>, key: &str| parse::<Value>(fields.get(key)).unwrap_or_default();
    let usages = [
        serde_json::json!({"usage": beside(&response, "usage")}),
        serde_json::json!({"usage": beside(&context, "usage")}),
        serde_json::json!({"usage": {"prompt_tokens": info.pointer("/model_stats/tokens_sent"),
            "completion_tokens": info.pointer("/model_stats/tokens_received")}}),
        serde_json::json!({"usage": metrics.pointer("/accumulated_token_usage")}),
    ];
    let usage = usages.iter().find_map(usage_of);
    let dollars = number(&info, "/model_stats/instance_cost")
        .or_else(|| number(&metrics, "/accumulated_cost"))
        .or_else(|| number(&usages[1], "/usage/cost"))
        .or_else(|| object("cost").as_f64())
        .or_else(|| object("accumulated_cost").as_f64());
    let dollars = dollars.filter(|dollars| *dollars > 0.0);
    if usage.is_none() && dollars.is_none() {
        return None;
    }
    let told = info.pointer("/model_stats/api_calls").and_then(Value::as_u64);
    let told = told.and_then(|calls| usize::try_from(calls).ok());
    let costs = || metrics.get("costs").and_then(Value::as_array).map(Vec::len);
    let n_calls = told.or_else(costs).and_then(NonZeroUsize::new).unwrap_or(NonZeroUsize::MIN);
    let model = beside(&response, "model").as_str().map(Arc::from);
    let (usage, dollars) = (usage.unwrap_or_default(), dollars.and_then(Dollars::new));
    Some(RecordedTotal { sum: RecordedCall { record: 0, model, usage, dollars, is_aside: false }, n_calls })
}

/// A tally of the calls of a session, filled entry by entry.
#[derive(Default)]
pub(crate) struct CallTally {
    calls: Vec<RecordedCall>,
    /// The replies of the newest calls.
    replies: Vec<Box<str>>,
    /// The sum that Codex reports; a report that repeats it tells of no call.
    sum: Option<Value>,
    model: Option<Arc<str>>,
}

impl CallTally {
    /// Counts the call in the entry at `place`, if it tells of one.
    pub(crate) fn add(&mut self, place: usize, entry: &str) {
        if may_tell(entry) {
            self.add_value(place, &parse(entry).unwrap_or_default());
        }
    }

    /// Counts the call in an entry that was parsed before.
    pub(crate) fn add_value(&mut self, place: usize, entry: &Value) {
        let named = MODELS.iter().map(|at| text_at(entry, at)).find(|model| !model.is_empty());
        if let Some(named) = named.filter(|named| self.model.as_deref() != Some(*named)) {
            self.model = Some(Arc::from(named));
        }
        // What opencode and managed agents write about the whole session has the sum of all calls.
        let is_sum = (entry.get("slug").is_some() && entry.get("projectID").is_some())
            || text_at(entry, "/type") == "session.usage";
        let usage = if is_sum { None } else { usage_of(entry).or_else(|| span_usage(entry)) };
        let Some(usage) = usage else { return };
        let sum = entry.pointer("/payload/info/total_token_usage");
        if sum.is_some() && sum == self.sum.as_ref() {
            return;
        }
        self.sum = sum.cloned();
        let is_true = |at: &str| entry.pointer(at) == Some(&Value::Bool(true));
        let is_aside = is_true("/isSidechain")
            || ["/data/parentToolCallId", "/parent_tool_use_id"]
                .iter()
                .any(|at| !text_at(entry, at).is_empty());
        let call = RecordedCall {
            record: place,
            model: self.model.clone(),
            usage,
            dollars: COSTS.iter().find_map(|at| entry.pointer(at)?.as_f64()).and_then(Dollars::new),
            is_aside,
        };
        let reply = REPLIES.iter().map(|at| text_at(entry, at)).find(|id| !id.is_empty()).unwrap_or_default();
        let oldest = self.replies.len().saturating_sub(REACH);
        let same = self.replies[oldest..].iter().rposition(|id| !reply.is_empty() && **id == *reply);
        if let Some(same) = same {
            // The last piece of a reply has all of its tokens.
            let at = self.calls.len() - (self.replies.len() - oldest) + same;
            self.calls[at] = RecordedCall { record: self.calls[at].record, ..call };
            return;
        }
        self.replies.drain(..oldest);
        self.replies.push(reply.into());
        self.calls.push(call);
    }

    /// Returns the calls.
    pub(crate) fn finish(self) -> Vec<RecordedCall> {
        self.calls
    }
}

/// Checks quickly whether an entry may tell of a call or a model.
fn may_tell(entry: &str) -> bool {
    entry.contains("okens\"") || entry.contains("\"usage\"") || entry.contains("\"turn_context\"")
}

fn usage_of(entry: &Value) -> Option<Usage> {
    let usage = FORMS.iter().find_map(|form| {
        form.places.iter().filter_map(|place| entry.pointer(place)).find_map(|object| form.read(object))
    })?;
    let is_call = usage.prompt_tokens > Tokens::ZERO || usage.completion_tokens > Tokens::ZERO;
    is_call.then_some(usage)
}

impl Form {
    fn read(&self, object: &Value) -> Option<Usage> {
        let number = |at: &&str| object.pointer(at).and_then(Value::as_u64);
        let first = |places: &[&str]| places.iter().find_map(number).unwrap_or(0);
        let (cached, written) = (first(self.cached), first(self.written));
        let apart = if self.is_apart { cached.saturating_add(written) } else { 0 };
        let output = self.output.iter().filter_map(number).fold(0, u64::saturating_add);
        Some(Usage {
            prompt_tokens: Tokens::new(number(&self.input)?.saturating_add(apart)),
            completion_tokens: Tokens::new(output),
            cached_tokens: Tokens::new(cached),
            cache_written_tokens: Tokens::new(written),
            dropped_reasoning: 0,
        })
    }
}

/// Returns the usage in the attributes of a span of OpenTelemetry.
fn span_usage(span: &Value) -> Option<Usage> {
    let attributes = span.get("attributes")?.as_array()?;
    let number = |key: &str| {
        let found = attributes.iter().find(|attribute| text_at(attribute, "/key") == key)?;
        let value = found.pointer("/value/intValue")?;
        value.as_u64().or_else(|| value.as_str()?.parse().ok()).map(Tokens::new)
    };
    Some(Usage {
        prompt_tokens: number("gen_ai.usage.input_tokens")?,
        completion_tokens: number("gen_ai.usage.output_tokens").unwrap_or_default(),
        ..Usage::default()
    })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    /// Returns prompt, cached, written and reply tokens of each call, and its cost.
    fn figures(entries: &[Value]) -> Vec<(u64, u64, u64, u64, Option<f64>)> {
        let mut tally = CallTally::default();
        entries.iter().enumerate().for_each(|(place, entry)| tally.add(place, &entry.to_string()));
        let numbers = |call: RecordedCall| {
            let Usage { prompt_tokens, cached_tokens, cache_written_tokens, completion_tokens, .. } =
                call.usage;
            let [prompt, cached, written, reply] =
                [prompt_tokens, cached_tokens, cache_written_tokens, completion_tokens].map(Tokens::as_u64);
            (prompt, cached, written, reply, call.dollars.map(Dollars::as_f64))
        };
        tally.finish().into_iter().map(numbers).collect()
    }

    #[test]
    fn each_agents_figures_are_read() {
        let claude = |id: &str, output: u64| {
            json!({"message": {"id": id, "model": "m", "usage": {"input_tokens": 1, "cache_read_input_tokens": 20,
                "cache_creation_input_tokens": 300, "output_tokens": output}}})
        };
        let codex = |total: u64| {
            json!({"type": "event_msg", "payload": {"type": "token_count", "info": {
                "total_token_usage": {"total_tokens": total},
                "last_token_usage": {"input_tokens": 100, "cached_input_tokens": 60, "output_tokens": 4}}}})
        };
        for (entries, expected) in [
            // The pieces of a reply are one call, whose last piece has all its tokens.
            (
                vec![claude("a", 1), claude("a", 9), claude("b", 2)],
                vec![(321, 20, 300, 9, None), (321, 20, 300, 2, None)],
            ),
            // A report that repeats the sum tells of no call.
            (vec![codex(104), codex(104), codex(208)], vec![(100, 60, 0, 4, None); 2]),
            (
                vec![
                    json!({"message": {"usage": {"input": 1, "output": 2, "cacheRead": 30, "cacheWrite": 400,
                    "totalTokens": 433, "cost": {"total": 0.5}}}}),
                ],
                vec![(431, 30, 400, 2, Some(0.5))],
            ),
            (
                vec![
                    json!({"metrics": {"inputTokens": 5, "outputTokens": 6, "cacheReadTokens": 0, "cost": 0.25}}),
                ],
                vec![(5, 0, 0, 6, Some(0.25))],
            ),
            (
                vec![json!({"info": {"cost": 0.5, "tokens": {"input": 1, "output": 2, "reasoning": 3,
                    "cache": {"read": 40, "write": 0}}}})],
                vec![(41, 40, 0, 5, Some(0.5))],
            ),
            (
                vec![
                    json!({"id": "s", "slug": "kind-panda", "projectID": "p", "tokens": {"input": 1, "output": 2}}),
                ],
                vec![],
            ),
            (
                vec![
                    json!({"raw": {"type": "span.model_request_end", "model_usage": {"input_tokens": 2,
                        "cache_read_input_tokens": 30, "cache_creation_input_tokens": 400, "output_tokens": 5}}}),
                    json!({"type": "session.usage", "usage": {"input_tokens": 2, "output_tokens": 5}}),
                ],
                vec![(432, 30, 400, 5, None)],
            ),
            (
                vec![json!({"tokens": {"input": 50, "output": 2, "cached": 40, "thoughts": 3}})],
                vec![(50, 40, 0, 5, None)],
            ),
            (
                vec![
                    json!({"extra": {"cost": 0.1, "response": {"usage": {"prompt_tokens": 7, "completion_tokens": 8,
                    "prompt_tokens_details": {"cached_tokens": 2}}}}}),
                ],
                vec![(7, 2, 0, 8, Some(0.1))],
            ),
            (
                vec![json!({"attributes": [{"key": "gen_ai.usage.input_tokens", "value": {"intValue": "7"}},
                    {"key": "gen_ai.usage.output_tokens", "value": {"intValue": 8}}]})],
                vec![(7, 0, 0, 8, None)],
            ),
            (
                vec![
                    json!({"message": {"usage": {"prompt_tokens": 7, "completion_tokens": 8, "model": "m"}}}),
                ],
                vec![(7, 0, 0, 8, None)],
            ),
            (
                vec![json!({"usage": {"input_tokens": 0, "output_tokens": 0}}), json!({"role": "user"})],
                vec![],
            ),
        ] {
            assert_eq!(figures(&entries), expected, "{entries:?}");
        }
    }

    #[test]
    fn a_document_has_the_total() {
        for (document, n_calls, prompt, dollars) in [
            (
                json!({"info": {"model_stats": {"instance_cost": 0.5, "tokens_sent": 9, "api_calls": 3}}}),
                3,
                9,
                Some(0.5),
            ),
            (json!({"metrics": {"accumulated_cost": 0.25}, "history": []}), 1, 0, Some(0.25)),
            (json!({"metrics": {"accumulated_cost": 0.5, "costs": [{}, {}]}}), 2, 0, Some(0.5)),
            (
                json!({"messages": [], "response": {"usage": {"prompt_tokens": 3}}, "cost": 0.1}),
                1,
                3,
                Some(0.1),
            ),
        ] {
            let RecordedTotal { sum, n_calls: calls } =
                recorded_total(document.to_string().as_bytes()).unwrap();
            let actual = (calls.get(), sum.usage.prompt_tokens.as_u64(), sum.dollars.map(Dollars::as_f64));
            assert_eq!(actual, (n_calls, prompt, dollars), "{document}");
        }
        assert_eq!(recorded_total(b"{\"messages\": []}"), None);
        assert_eq!(recorded_total(b"[1]"), None);
    }
}
