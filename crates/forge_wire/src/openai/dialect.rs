//! The fields that a server takes: some refuse one that others need.

use super::model_name::is_reasoning;

/// The fields that depend on the server, of which Forge sends one form until the server refuses it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dialect {
    /// True if the server refuses `stream_options`. It then reports no tokens in streams.
    refuses_stream_options: bool,
    /// True if the server refuses reasoning that is sent back, as Groq does for models that do not reason.
    refuses_reasoning: bool,
    /// True if its chat template takes only one call per message, as that of Llama 3.
    takes_single_calls: bool,
    /// True if its chat template refuses a user message right after results, and the model's name does not
    /// tell.
    pauses: bool,
    /// The field for the longest reply; unset, the model's name decides.
    limit: Option<LimitField>,
}

/// The field for the longest reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LimitField {
    MaxTokens,
    /// That of OpenAI's newer models, which refuse the other.
    MaxCompletionTokens,
}

impl LimitField {
    const fn name(self) -> &'static str {
        match self {
            Self::MaxTokens => "max_tokens",
            Self::MaxCompletionTokens => "max_completion_tokens",
        }
    }
}

impl Dialect {
    pub(super) const fn takes_stream_options(self) -> bool {
        !self.refuses_stream_options
    }

    pub(super) const fn takes_reasoning(self) -> bool {
        !self.refuses_reasoning
    }

    /// Checks whether only one call per message is sent.
    pub(super) const fn takes_single_calls(self) -> bool {
        self.takes_single_calls
    }

    /// Checks whether the assistant has to pause between results and the user, whatever the model's name.
    pub(super) const fn pauses(self) -> bool {
        self.pauses
    }

    /// Checks whether messages are sent as to every server.
    pub(super) const fn takes_messages(self) -> bool {
        self.takes_reasoning() && !self.takes_single_calls && !self.pauses
    }

    /// Returns the field for the longest reply of `model`.
    pub(super) fn limit(self, model: &str) -> LimitField {
        self.limit.unwrap_or(match is_reasoning(model) {
            true => LimitField::MaxCompletionTokens,
            false => LimitField::MaxTokens,
        })
    }

    /// Returns the dialect to try next for `model` after the server refused a request in this one, by its
    /// words; `None` if it refused something else, or what was changed before.
    pub fn after_refusal(self, model: &str, message: &str) -> Option<Self> {
        if self.takes_stream_options() && message.contains("stream_options") {
            return Some(Self { refuses_stream_options: true, ..self });
        }
        let sent = self.limit(model);
        let other = match sent {
            LimitField::MaxTokens => LimitField::MaxCompletionTokens,
            LimitField::MaxCompletionTokens => LimitField::MaxTokens,
        };
        // A server that dislikes the number names the field that it was in; one that does not know the newer
        // field cannot name the older one for certain.
        let refuses = message.contains(sent.name())
            && (message.contains(other.name()) || sent == LimitField::MaxCompletionTokens);
        if refuses && self.limit.is_none() {
            return Some(Self { limit: Some(other), ..self });
        }
        if self.takes_reasoning() && refuses_reasoning(message) {
            return Some(Self { refuses_reasoning: true, ..self });
        }
        self.after_template(&message.to_ascii_lowercase())
    }

    /// Returns the dialect to try next after the server's chat template refused the messages.
    fn after_template(self, message: &str) -> Option<Self> {
        const SINGLE: [&str; 2] = ["single tool-call", "single tool call"];
        const ALTERNATE: [&str; 2] = ["roles must alternate", "must alternate user"];
        let says = |words: &[&str]| words.iter().any(|words| message.contains(words));
        if !self.takes_single_calls && says(&SINGLE) {
            return Some(Self { takes_single_calls: true, ..self });
        }
        (!self.pauses && says(&ALTERNATE)).then_some(Self { pauses: true, ..self })
    }
}

/// Checks whether a server's words refuse the reasoning in a message, and not the effort that is asked for.
fn refuses_reasoning(message: &str) -> bool {
    const WORDS: [&str; 4] = ["unsupported", "not supported", "not permitted", "remove"];
    let message = message.to_ascii_lowercase();
    let names_it = message.contains("reasoning") && !message.contains("effort");
    names_it && WORDS.iter().any(|word| message.contains(word))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_refused_field_is_sent_in_another_form_once() {
        let same = Dialect::default();
        let no_options = Dialect { refuses_stream_options: true, ..same };
        let no_reasoning = Dialect { refuses_reasoning: true, ..same };
        let single = Dialect { takes_single_calls: true, ..same };
        let pausing = Dialect { pauses: true, ..same };
        let alternate = "After the optional system message, conversation roles must alternate \
                         user/assistant/user/assistant/...";
        let limited = |field: LimitField| Dialect { limit: Some(field), ..same };
        let strange = "'messages.2' : for 'role:assistant' the following must be satisfied[('messages.2' : \
                       property 'reasoning_content' is unsupported)]";
        let swap = "Unsupported parameter: 'max_tokens' is not supported with this model. \
                    Use 'max_completion_tokens' instead.";
        for (dialect, model, message, expected) in [
            (same, "m", "body.stream_options: Extra inputs are not permitted", Some(no_options)),
            (no_options, "m", "body.stream_options: Extra inputs are not permitted", None),
            (same, "m", strange, Some(no_reasoning)),
            (no_reasoning, "m", strange, None),
            (
                same,
                "m",
                "`messages[3].reasoning`: reasoning is not supported with this model",
                Some(no_reasoning),
            ),
            (same, "m", "The `reasoning_content` in the thinking mode must be passed back to the API.", None),
            (same, "m", "Unsupported field: messages[2].reasoning_content", Some(no_reasoning)),
            (same, "m", "'reasoning_effort' is not supported with this model", None),
            (same, "m", "Unsupported parameter: 'reasoning.effort'", None),
            // One that names both limits refuses the field, whatever else it names.
            (
                same,
                "my-deployment",
                "'max_tokens' is not supported with reasoning models: use 'max_completion_tokens'",
                Some(limited(LimitField::MaxCompletionTokens)),
            ),
            (same, "my-deployment", swap, Some(limited(LimitField::MaxCompletionTokens))),
            (limited(LimitField::MaxCompletionTokens), "my-deployment", swap, None),
            (
                same,
                "gpt-5",
                "body.max_completion_tokens: Extra inputs are not permitted",
                Some(limited(LimitField::MaxTokens)),
            ),
            (same, "m", "This model only supports single tool-calls at once!", Some(single)),
            (single, "m", "This model only supports single tool-calls at once!", None),
            (same, "m", alternate, Some(pausing)),
            (pausing, "m", alternate, None),
            (single, "m", alternate, Some(Dialect { pauses: true, ..single })),
            (same, "m", "max_tokens must be at least 16", None),
            (same, "m", "`messages` must end with the user", None),
        ] {
            assert_eq!(dialect.after_refusal(model, message), expected, "{message}");
        }
    }
}
