//! The options that an agent or a model sends along with every request, besides sampling: effort, the choice
//! of tools, and what only some providers know.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Tokens, ToolName};

/// The options of a request besides its sampling. Unset: the provider's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestOptions {
    /// The settings of the model's thinking.
    pub reasoning: Reasoning,
    /// The tools that the model may or must call.
    pub tool_choice: Option<ToolChoice>,
    /// True if one reply may make several calls.
    pub parallel_tool_calls: Option<bool>,
    /// Texts that end a reply.
    pub stop: Option<Vec<String>>,
    /// The seed of the sampling.
    pub seed: Option<i64>,
    /// The class of service.
    pub service_tier: Option<String>,
    /// The form of the reply.
    pub response_format: Option<ResponseFormat>,
    /// OpenRouter's choice among those who serve a model: its field `provider`.
    pub routing: Option<Map<String, Value>>,
    /// The time that the provider keeps a cached prompt.
    pub cache: Option<CacheLifetime>,
    /// Fields that have no setting.
    pub extra_body: Option<ExtraBody>,
}

impl RequestOptions {
    /// Returns the options for a request of Forge's own, whose reply is any text: without demands on tools or
    /// on the form of the reply.
    #[must_use]
    pub fn for_text(self) -> Self {
        Self { tool_choice: None, parallel_tool_calls: None, stop: None, response_format: None, ..self }
    }

    /// Returns these options, and those of `base` for what they leave open.
    #[must_use]
    pub fn or(self, base: &Self) -> Self {
        Self {
            reasoning: self.reasoning.or(base.reasoning),
            tool_choice: self.tool_choice.or_else(|| base.tool_choice.clone()),
            parallel_tool_calls: self.parallel_tool_calls.or(base.parallel_tool_calls),
            stop: self.stop.or_else(|| base.stop.clone()),
            seed: self.seed.or(base.seed),
            service_tier: self.service_tier.or_else(|| base.service_tier.clone()),
            response_format: self.response_format.or_else(|| base.response_format.clone()),
            routing: self.routing.or_else(|| base.routing.clone()),
            cache: self.cache.or(base.cache),
            extra_body: self.extra_body.or_else(|| base.extra_body.clone()),
        }
    }
}

/// Declares a struct with the keys of a request besides its own, and how they become [`RequestOptions`]: the
/// keys of agents and of models are the same.
macro_rules! with_request_keys {
    ($(#[$attribute:meta])* pub struct $name:ident { $($own:tt)* }) => {
        $(#[$attribute])*
        pub struct $name {
            $($own)*
            /// Amount of thinking before an answer; an agent's keys win over the model's. Unset: the provider
            /// decides.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schemars(extend("examples" = [{"effort": "high"}]))]
            pub reasoning: Option<$crate::Reasoning>,
            /// Tools that the model may call: `auto`, `none`, `required` (any), or the name of one. A forced
            /// call holds for the first reply of a turn, since the turn would never end. Unset: the
            /// provider's own, `auto`.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schemars(extend("examples" = ["required"]))]
            pub tool_choice: Option<$crate::ToolChoice>,
            /// True if one reply may make several tool calls. Unset: the provider's own.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schemars(extend("examples" = [false]))]
            pub parallel_tool_calls: Option<bool>,
            /// Texts that end a reply when the model writes them. Unset: none.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schemars(extend("examples" = [["END"]]))]
            pub stop: Option<Vec<String>>,
            /// Seed of the sampling, for replies that can be repeated. Unset: a random one.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schemars(extend("examples" = [7]))]
            pub seed: Option<i64>,
            /// Class of service by the provider's name for it, such as `flex` or `priority`. Unset: the
            /// provider's own.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schemars(extend("examples" = ["flex"]))]
            pub service_tier: Option<String>,
            /// Form of the reply, in OpenAI's words, whatever the protocol. Unset: text.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schemars(extend("examples" = [{"type": "json_object"}]))]
            pub response_format: Option<$crate::ResponseFormat>,
            /// OpenRouter's choice among those who serve the model, sent as its field `provider`. Unset: its
            /// own.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schemars(extend("examples" = [{"order": ["deepinfra"], "allow_fallbacks": false}]))]
            pub routing: Option<serde_json::Map<String, serde_json::Value>>,
            /// Time that Anthropic keeps a cached prompt: `5m`, or `1h` at twice the price of writing. Unset:
            /// `5m`.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schemars(extend("examples" = ["1h"]))]
            pub cache: Option<$crate::CacheLifetime>,
            /// Fields of the request that have no key here, sent as they are. They cannot replace a field
            /// that Forge sends, and hold no secrets. Unset: none.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schemars(extend("examples" = [{"top_k": 40}]))]
            pub extra_body: Option<$crate::ExtraBody>,
        }

        impl $name {
            /// Returns its options of a request besides sampling.
            pub fn request_options(&self) -> $crate::RequestOptions {
                $crate::RequestOptions {
                    reasoning: self.reasoning.unwrap_or_default(),
                    tool_choice: self.tool_choice.clone(),
                    parallel_tool_calls: self.parallel_tool_calls,
                    stop: self.stop.clone(),
                    seed: self.seed,
                    service_tier: self.service_tier.clone(),
                    response_format: self.response_format.clone(),
                    routing: self.routing.clone(),
                    cache: self.cache,
                    extra_body: self.extra_body.clone(),
                }
            }
        }
    };
}
pub(crate) use with_request_keys;

/// A setting of a request that no provider would accept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestOptionError {
    /// An effort of another name.
    #[error("unknown effort `{0}` (expected none, minimal, low, medium, high or max)")]
    Effort(String),
    /// A budget for no thinking at all.
    #[error("`budget_tokens` contradicts `effort: none`")]
    Budget,
    /// A format with a schema that is not of the type `json_schema`, or the reverse.
    #[error("`type: json_schema` and `json_schema` go together")]
    Schema,
    /// A field that Forge sends itself.
    #[error("`extra_body` cannot replace `{field}`, which Forge sends{}", setting(field))]
    Replaces {
        /// The field.
        field: String,
    },
    /// A field that looks like a secret.
    #[error("`extra_body` has a secret in `{field}`: name its variable in `headers` of the provider instead")]
    Secret {
        /// The field.
        field: String,
    },
}

/// The amount of thinking before an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Effort {
    /// No thinking.
    None,
    /// The least that the model has.
    Minimal,
    /// Little.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
    /// More than much, if the model has it.
    Max,
}

impl Effort {
    /// All efforts, the least first.
    pub const ALL: [Self; 6] = [Self::None, Self::Minimal, Self::Low, Self::Medium, Self::High, Self::Max];

    /// Returns its name in YAML.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Max => "max",
        }
    }
}

impl fmt::Display for Effort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Effort {
    type Err = RequestOptionError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|effort| effort.as_str() == text);
        found.ok_or_else(|| RequestOptionError::Effort(text.to_owned()))
    }
}

/// The settings of a model's thinking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "ReasoningBlock")]
#[schemars(!try_from, deny_unknown_fields)]
pub struct Reasoning {
    /// Amount of thinking. Unset: the provider's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["high"]))]
    pub effort: Option<Effort>,
    /// Most tokens of thinking in one reply, for models that take a number; the output reserve grows by them.
    /// Unset: as the effort says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [8000]))]
    pub budget_tokens: Option<NonZeroU64>,
    /// False to hide the thinking in the chat. Default true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = true, "examples" = [true]))]
    pub show: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReasoningBlock {
    effort: Option<Effort>,
    budget_tokens: Option<NonZeroU64>,
    show: Option<bool>,
}

impl TryFrom<ReasoningBlock> for Reasoning {
    type Error = RequestOptionError;
    fn try_from(block: ReasoningBlock) -> Result<Self, Self::Error> {
        let ReasoningBlock { effort, budget_tokens, show } = block;
        if effort == Some(Effort::None) && budget_tokens.is_some() {
            return Err(RequestOptionError::Budget);
        }
        Ok(Self { effort, budget_tokens, show })
    }
}

impl Reasoning {
    /// Returns these settings, and those of `base` for what they leave open. An effort and a budget belong
    /// together: setting one of them sets both.
    #[must_use]
    pub fn or(self, base: Self) -> Self {
        let amount = if self.effort.is_some() || self.budget_tokens.is_some() { self } else { base };
        Self { effort: amount.effort, budget_tokens: amount.budget_tokens, show: self.show.or(base.show) }
    }

    /// Returns the tokens of thinking to expect in one reply: the budget, else what the effort stands for
    /// with models that take a number; `None` if neither is set.
    pub fn thinking_tokens(self) -> Option<Tokens> {
        let of_effort = |effort| match effort {
            Effort::None => 0,
            Effort::Minimal => 1_024,
            Effort::Low => 4_096,
            Effort::Medium => 8_192,
            Effort::High => 16_384,
            Effort::Max => 32_768,
        };
        self.budget_tokens.map(NonZeroU64::get).or_else(|| self.effort.map(of_effort)).map(Tokens::new)
    }

    /// Checks whether the thinking is shown to the user.
    pub fn is_shown(self) -> bool {
        self.show.unwrap_or(true)
    }
}

/// The tools that a model may or must call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "ToolName", into = "ToolName")]
#[schemars(!from, !into, with = "String", inline)]
pub enum ToolChoice {
    /// Any tool, or none.
    Auto,
    /// None of them.
    None,
    /// At least one, whichever.
    Required,
    /// This one.
    Tool(ToolName),
}

impl From<ToolName> for ToolChoice {
    fn from(name: ToolName) -> Self {
        match name.as_str() {
            "auto" => Self::Auto,
            "none" => Self::None,
            "required" | "any" => Self::Required,
            _ => Self::Tool(name),
        }
    }
}

impl From<ToolChoice> for ToolName {
    fn from(choice: ToolChoice) -> Self {
        let word = match choice {
            ToolChoice::Auto => "auto",
            ToolChoice::None => "none",
            ToolChoice::Required => "required",
            ToolChoice::Tool(name) => return name,
        };
        Self::new(word).unwrap_or_else(|_| unreachable!("the word is not blank"))
    }
}

impl ToolChoice {
    /// Checks whether it demands a call.
    pub const fn is_forced(&self) -> bool {
        matches!(self, Self::Required | Self::Tool(_))
    }
}

/// The form of a reply, as OpenAI writes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "ResponseFormatBlock")]
#[schemars(!try_from, deny_unknown_fields)]
pub struct ResponseFormat {
    /// Kind of the form.
    #[serde(rename = "type")]
    #[schemars(extend("examples" = ["json_object"]))]
    pub kind: ResponseKind,
    /// Schema of the JSON, if the type is `json_schema`. Unset: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [{"name": "night", "schema": {"type": "object"}}]))]
    pub json_schema: Option<ResponseSchema>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResponseFormatBlock {
    #[serde(rename = "type")]
    kind: ResponseKind,
    json_schema: Option<ResponseSchema>,
}

impl TryFrom<ResponseFormatBlock> for ResponseFormat {
    type Error = RequestOptionError;
    fn try_from(block: ResponseFormatBlock) -> Result<Self, Self::Error> {
        let ResponseFormatBlock { kind, json_schema } = block;
        if (kind == ResponseKind::JsonSchema) != json_schema.is_some() {
            return Err(RequestOptionError::Schema);
        }
        Ok(Self { kind, json_schema })
    }
}

/// The kind of a reply's form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum ResponseKind {
    /// Any text.
    Text,
    /// Any JSON object.
    JsonObject,
    /// JSON of a schema.
    JsonSchema,
}

/// The schema of a reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResponseSchema {
    /// Name of the schema.
    #[schemars(extend("examples" = ["night"]))]
    pub name: String,
    /// Meaning of the reply, in words. Unset: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["one night's log"]))]
    pub description: Option<String>,
    /// JSON Schema of the reply.
    #[schemars(extend("examples" = [{"type": "object"}]))]
    pub schema: Map<String, Value>,
    /// True if the reply must follow the schema exactly. Unset: the provider's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [true]))]
    pub strict: Option<bool>,
}

/// The time that a cached prompt is kept after its last use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum CacheLifetime {
    /// Five minutes.
    #[serde(rename = "5m")]
    FiveMinutes,
    /// One hour.
    #[serde(rename = "1h")]
    OneHour,
}

/// Fields of a request that Forge does not know. `Debug` shows their names alone.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Map<String, Value>")]
#[schemars(!try_from, inline, with = "Map<String, Value>")]
pub struct ExtraBody(Map<String, Value>);

impl fmt::Debug for ExtraBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Fields that Forge sends in some protocol, each with the key that sets it, if there is one. A field of an
/// object that it sends is written after a dot.
const SENT_FIELDS: [(&str, &str); 45] = [
    ("model", "model"),
    ("messages", ""),
    ("input", ""),
    ("contents", ""),
    ("system", "system_prompt"),
    ("instructions", "system_prompt"),
    ("systemInstruction", "system_prompt"),
    ("system_instruction", "system_prompt"),
    ("tools", "tools"),
    ("tool_choice", "tool_choice"),
    ("toolConfig", "tool_choice"),
    ("parallel_tool_calls", "parallel_tool_calls"),
    ("stream", ""),
    ("stream_options", ""),
    ("temperature", "temperature"),
    ("top_p", "top_p"),
    ("max_tokens", "max_output_tokens"),
    ("max_completion_tokens", "max_output_tokens"),
    ("max_output_tokens", "max_output_tokens"),
    ("reasoning_effort", "reasoning"),
    ("reasoning.effort", "reasoning"),
    ("thinking", "reasoning"),
    ("think", "reasoning"),
    ("output_config.effort", "reasoning"),
    ("output_config.format", "response_format"),
    ("stop", "stop"),
    ("stop_sequences", "stop"),
    ("seed", "seed"),
    ("service_tier", "service_tier"),
    ("response_format", "response_format"),
    ("format", "response_format"),
    ("text.format", "response_format"),
    ("provider", "routing"),
    ("options.num_ctx", "window"),
    ("options.num_predict", "max_output_tokens"),
    ("options.temperature", "temperature"),
    ("options.top_p", "top_p"),
    ("options.seed", "seed"),
    ("options.stop", "stop"),
    ("generationConfig.temperature", "temperature"),
    ("generationConfig.topP", "top_p"),
    ("generationConfig.maxOutputTokens", "max_output_tokens"),
    ("generationConfig.thinkingConfig", "reasoning"),
    ("generationConfig.stopSequences", "stop"),
    ("generationConfig.seed", "seed"),
];

fn setting(field: &str) -> String {
    let known = SENT_FIELDS.iter().find(|(name, key)| *name == field && !key.is_empty());
    known.map_or_else(String::new, |(_, key)| format!("; set `{key}` instead"))
}

impl TryFrom<Map<String, Value>> for ExtraBody {
    type Error = RequestOptionError;
    fn try_from(fields: Map<String, Value>) -> Result<Self, Self::Error> {
        for (name, value) in &fields {
            let below = value.as_object().into_iter().flatten().map(|(key, _)| format!("{name}.{key}"));
            let mut names = std::iter::once(name.clone()).chain(below);
            if let Some(field) = names.find(|name| SENT_FIELDS.iter().any(|(sent, _)| sent == name)) {
                return Err(RequestOptionError::Replaces { field });
            }
            // An object that only some of its fields are sent of is merged; any other value would replace it.
            let is_ours =
                SENT_FIELDS.iter().any(|(sent, _)| sent.split_once('.').is_some_and(|(of, _)| of == name));
            if is_ours && !value.is_object() {
                return Err(RequestOptionError::Replaces { field: name.clone() });
            }
            if !crate::find_secrets(&value.to_string()).is_empty() || is_named_secret(name) {
                return Err(RequestOptionError::Secret { field: name.clone() });
            }
        }
        Ok(Self(fields))
    }
}

/// Checks whether a field of this name holds a secret whatever it looks like.
fn is_named_secret(name: &str) -> bool {
    const SECRET: [&str; 6] = ["api_key", "apikey", "authorization", "password", "secret", "access_token"];
    let name = name.to_ascii_lowercase().replace('-', "_");
    SECRET.iter().any(|word| name.ends_with(word))
}

impl ExtraBody {
    /// Returns the fields by name.
    pub const fn fields(&self) -> &Map<String, Value> {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use crate::Agent;

    fn agent(yaml: &str) -> Result<Agent, String> {
        let yaml = format!("{{ id: a, {yaml} }}");
        serde_saphyr::from_str(&yaml).map_err(|error| error.to_string())
    }

    #[test]
    fn what_no_provider_would_accept_is_refused() {
        for (yaml, expected) in [
            ("reasoning: { effort: none, budget_tokens: 5 }", "contradicts"),
            ("reasoning: { budget_tokens: 0 }", "0"),
            ("reasoning: { effort: enormous }", "enormous"),
            ("reasoning: { depth: 5 }", "depth"),
            ("response_format: { type: json_schema }", "go together"),
            ("response_format: { type: text, json_schema: { name: n, schema: {} } }", "go together"),
            ("cache: 2h", "2h"),
            ("extra_body: { model: other }", "`model`"),
            ("extra_body: { tool_choice: auto }", "set `tool_choice` instead"),
            ("extra_body: { max_tokens: 5 }", "set `max_output_tokens` instead"),
            ("extra_body: { options: { num_ctx: 5 } }", "`options.num_ctx`"),
            ("extra_body: { options: 5 }", "`options`"),
            ("extra_body: { text: { format: {} } }", "`text.format`"),
            ("extra_body: { api_key: word }", "secret in `api_key`"),
        ] {
            let error = agent(yaml).unwrap_err();
            assert!(error.contains(expected), "{yaml}: {error}");
        }
        let yaml = "extra_body: { top_k: 40, options: { repeat_penalty: 1.1 }, text: { verbosity: low } }";
        let body = agent(yaml).unwrap().extra_body.unwrap();
        assert_eq!(format!("{body:?}"), r#"{"top_k", "options", "text"}"#);
    }

    #[test]
    fn an_agents_options_come_before_its_models() {
        let request = |yaml: &str| agent(yaml).unwrap().request_options();
        for (own, base, expected) in [
            ("stop: [a]", "stop: [b], seed: 1", "stop: [a], seed: 1"),
            (
                "reasoning: { show: false }",
                "reasoning: { effort: low }",
                "reasoning: { effort: low, show: false }",
            ),
            // An effort in place of a budget.
            ("reasoning: { effort: low }", "reasoning: { budget_tokens: 9 }", "reasoning: { effort: low }"),
            ("tool_choice: read", "tool_choice: any", "tool_choice: read"),
            ("seed: 2", "tool_choice: any", "seed: 2, tool_choice: required"),
        ] {
            assert_eq!(request(own).or(&request(base)), request(expected), "{own} over {base}");
        }
    }
}
