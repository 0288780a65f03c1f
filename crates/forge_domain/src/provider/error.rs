//! The reasons why a model gives no reply.

use std::time::Duration;

use crate::{ModelId, Overspend, ProviderId, Tokens};

/// The reasons why a model gave no reply.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// No provider of that name.
    #[error("there is no provider `{provider}` (expected one of {known})")]
    UnknownProvider {
        /// The requested name.
        provider: String,
        /// The names there are, separated by commas.
        known: String,
    },
    /// The provider needs a key, and none is set.
    #[error("provider `{provider}` needs a key: set the environment variable {variable}")]
    MissingKey {
        /// The provider.
        provider: ProviderId,
        /// The variable that would hold the key.
        variable: String,
    },
    /// The provider cannot be asked as it is configured.
    #[error("{what}")]
    Unusable {
        /// The fault, and what to do.
        what: String,
    },
    /// The server was not reached.
    #[error("cannot reach {url}")]
    Network {
        /// The address asked.
        url: String,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The connection broke after the server was reached: before the reply began, or while it came in.
    #[error("the connection to {url} broke before the reply was complete")]
    Interrupted {
        /// The address asked.
        url: String,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The server refused the key.
    #[error("the provider refused the key (status {status}): {message}")]
    Auth {
        /// HTTP status.
        status: u16,
        /// The server's words.
        message: String,
    },
    /// The server does not know the model.
    #[error("the provider does not know the model `{model}`: {message}")]
    UnknownModel {
        /// The requested model.
        model: ModelId,
        /// The server's words.
        message: String,
    },
    /// The prompt is longer than the server accepts.
    #[error("the prompt is too long for the model{}: {message}", figures(*.need, *.window))]
    ContextTooLong {
        /// Tokens that were requested, if the server reports them.
        need: Option<Tokens>,
        /// Tokens that the model accepts, if the server reports them.
        window: Option<Tokens>,
        /// The server's words.
        message: String,
    },
    /// The request has more bytes than the server, or a proxy before it, accepts.
    #[error(
        "the request has more bytes than the server or a proxy before it accepts (status 413; raise the limit \
         there, such as `client_max_body_size` of nginx): {message}"
    )]
    RequestTooLarge {
        /// The server's words.
        message: String,
    },
    /// The server limits how much it is asked.
    #[error("the provider's rate limit is reached: {message}{}", long_wait(*.retry_after))]
    RateLimited {
        /// The wait that it asks for, if any.
        retry_after: Option<Duration>,
        /// The server's words.
        message: String,
    },
    /// The request alone has more tokens than the server accepts within a minute: waiting does not help, a
    /// smaller prompt does.
    #[error(
        "the request alone is over the provider's limit of {limit} tokens a minute ({need} tokens): {message}"
    )]
    OverRate {
        /// Tokens that were requested, by the server's count.
        need: Tokens,
        /// Tokens that it accepts within a minute.
        limit: Tokens,
        /// The server's words.
        message: String,
    },
    /// Nothing was sent: the run's budget has no room for it.
    #[error(transparent)]
    OverBudget(Overspend),
    /// The server cannot answer now: too busy, or broken.
    #[error("the provider is unavailable ({}): {message}{}", told_by(*.status), long_wait(*.retry_after))]
    Overloaded {
        /// HTTP status; 200 if it failed inside a stream.
        status: u16,
        /// The wait that it asks for, if any.
        retry_after: Option<Duration>,
        /// The server's words.
        message: String,
    },
    /// The server refused the request for any other reason.
    #[error("the provider refused the request ({}): {message}", told_by(*.status))]
    InvalidRequest {
        /// HTTP status; 200 if the refusal came inside a stream.
        status: u16,
        /// The server's words.
        message: String,
    },
    /// The server could not read the tool call that the model wrote, and reports that as its own failure.
    #[error("the server could not read the model's tool call ({}): {message}", told_by(*.status))]
    UnreadableCall {
        /// HTTP status; 200 if it failed inside a stream.
        status: u16,
        /// The server's words.
        message: String,
    },
    /// The protocol cannot express what is configured; nothing was sent.
    #[error("the request cannot be sent as it is configured: {message}")]
    Unsendable {
        /// The cause.
        message: String,
    },
    /// Whatever answers at the address does not speak the protocol that is configured.
    #[error("{url} does not speak the configured protocol: {what}")]
    WrongProtocol {
        /// The address asked.
        url: String,
        /// The kind of answer, and what to do.
        what: String,
    },
    /// The answer did not end, and was stopped at one of our limits.
    #[error("the answer from {url} was stopped: {what}")]
    OverLimit {
        /// The address asked.
        url: String,
        /// Which limit, such as "no content came for 600 s, the longest that Forge waits".
        what: String,
        /// The kind of limit.
        limit: AnswerLimit,
    },
    /// The stream ended before the reply did.
    #[error("the reply was interrupted before its end")]
    Truncated,
    /// The server's answer is not of the protocol.
    #[error("the provider's answer cannot be read: {what}")]
    Malformed {
        /// The part that could not be read.
        what: String,
    },
    /// A recording has no further reply.
    #[error("the recording has no further reply")]
    RecordingEnded,
}

/// The kind of a limit at which an answer is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerLimit {
    /// The time without content: the server may have hung.
    Time,
    /// The size: the server answered, and without end. It would do so again, and each answer has its price.
    Size,
}

/// The chance of success of another try after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// No chance: the same request would fail again.
    Never,
    /// A chance at a time of the caller's choice.
    Soon,
    /// A chance, but not before this long from now.
    After(Duration),
}

impl ProviderError {
    /// Returns the word for it, in traces and metrics; it never changes and contains no text of the server's.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::UnknownProvider { .. } => "unknown_provider",
            Self::MissingKey { .. } => "missing_key",
            Self::Unusable { .. } => "unusable",
            Self::Network { .. } => "network",
            Self::Interrupted { .. } => "interrupted",
            Self::Auth { .. } => "auth",
            Self::UnknownModel { .. } => "unknown_model",
            Self::ContextTooLong { .. } => "context_too_long",
            Self::RequestTooLarge { .. } => "request_too_large",
            Self::RateLimited { .. } => "rate_limited",
            Self::OverRate { .. } => "over_rate",
            Self::OverBudget(_) => "over_budget",
            Self::Overloaded { .. } => "overloaded",
            Self::InvalidRequest { .. } => "invalid_request",
            Self::UnreadableCall { .. } => "unreadable_call",
            Self::Unsendable { .. } => "unsendable",
            Self::WrongProtocol { .. } => "wrong_protocol",
            Self::OverLimit { .. } => "over_limit",
            Self::Truncated => "truncated",
            Self::Malformed { .. } => "malformed",
            Self::RecordingEnded => "recording_ended",
        }
    }

    /// Returns whether the same request may succeed when it is sent again.
    pub const fn retry(&self) -> Retry {
        match self {
            Self::RateLimited { retry_after, .. } | Self::Overloaded { retry_after, .. } => match retry_after
            {
                Some(wait) => Retry::After(*wait),
                None => Retry::Soon,
            },
            Self::Network { .. }
            | Self::Interrupted { .. }
            | Self::OverLimit { limit: AnswerLimit::Time, .. }
            | Self::UnreadableCall { .. }
            | Self::Truncated
            | Self::Malformed { .. } => Retry::Soon,
            Self::UnknownProvider { .. }
            | Self::MissingKey { .. }
            | Self::Unusable { .. }
            | Self::Auth { .. }
            | Self::UnknownModel { .. }
            | Self::ContextTooLong { .. }
            | Self::RequestTooLarge { .. }
            | Self::OverRate { .. }
            | Self::OverBudget(_)
            | Self::InvalidRequest { .. }
            | Self::Unsendable { .. }
            | Self::WrongProtocol { .. }
            | Self::OverLimit { limit: AnswerLimit::Size, .. }
            | Self::RecordingEnded => Retry::Never,
        }
    }
}

/// The least wait that ends in an error. A shorter one is waited for, and reported then.
const LONG_WAIT: Duration = Duration::from_secs(120);

/// Returns how the server told of an error: by its status, or within an answer that began well.
fn told_by(status: u16) -> String {
    if status == 200 { "within its answer".to_owned() } else { format!("status {status}") }
}

/// Returns when to try again, in parentheses, if that is long from now.
fn long_wait(wait: Option<Duration>) -> String {
    let Some(wait) = wait.filter(|wait| *wait > LONG_WAIT) else { return String::new() };
    let minutes = wait.as_secs().div_ceil(60);
    let (days, hours, minutes) = (minutes / 1_440, minutes / 60 % 24, minutes % 60);
    let parts = [(days, "d"), (hours, "h"), (minutes, "min")];
    let parts: Vec<String> =
        parts.iter().filter(|(n, _)| *n > 0).take(2).map(|(n, unit)| format!("{n} {unit}")).collect();
    format!(" (try again in {})", parts.join(" "))
}

/// Returns the known ones of the two figures, in parentheses.
fn figures(need: Option<Tokens>, window: Option<Tokens>) -> String {
    match (need, window) {
        (Some(need), Some(window)) => format!(" ({need} of {window} tokens)"),
        (None, Some(window)) => format!(" (it takes {window} tokens)"),
        (Some(need), None) => format!(" ({need} tokens)"),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn only_what_may_pass_is_worth_another_try() {
        let words = String::new;
        let wait = Duration::from_secs(7);
        for (error, expected) in [
            (ProviderError::RateLimited { retry_after: None, message: words() }, Retry::Soon),
            (
                ProviderError::Overloaded { status: 529, retry_after: Some(wait), message: words() },
                Retry::After(wait),
            ),
            (ProviderError::Truncated, Retry::Soon),
            (ProviderError::UnreadableCall { status: 500, message: words() }, Retry::Soon),
            (ProviderError::Auth { status: 401, message: words() }, Retry::Never),
            (ProviderError::InvalidRequest { status: 400, message: words() }, Retry::Never),
            (ProviderError::ContextTooLong { need: None, window: None, message: words() }, Retry::Never),
            (ProviderError::RequestTooLarge { message: words() }, Retry::Never),
            (ProviderError::RecordingEnded, Retry::Never),
            (ProviderError::OverLimit { url: words(), what: words(), limit: AnswerLimit::Time }, Retry::Soon),
            (
                ProviderError::OverLimit { url: words(), what: words(), limit: AnswerLimit::Size },
                Retry::Never,
            ),
        ] {
            assert_eq!(error.retry(), expected, "{error}");
        }
    }

    #[test]
    fn a_long_wait_is_told() {
        for (seconds, expected) in [
            (None, "slow down"),
            (Some(90), "slow down"),
            (Some(150), "slow down (try again in 3 min)"),
            (Some(7_200), "slow down (try again in 2 h)"),
            (Some(86_400), "slow down (try again in 1 d)"),
            (Some(93_659), "slow down (try again in 1 d 2 h)"),
        ] {
            let retry_after = seconds.map(Duration::from_secs);
            let limited = ProviderError::RateLimited { retry_after, message: "slow down".into() };
            assert_eq!(limited.to_string(), format!("the provider's rate limit is reached: {expected}"));
            let busy = ProviderError::Overloaded { status: 503, retry_after, message: "slow down".into() };
            assert_eq!(busy.to_string(), format!("the provider is unavailable (status 503): {expected}"));
        }
    }

    #[test]
    fn an_overflow_tells_the_figures_that_are_known() {
        let tokens = |n: u64| Some(Tokens::new(n));
        for (need, window, expected) in [
            (tokens(9), tokens(8), "the prompt is too long for the model (9 of 8 tokens): no"),
            (None, tokens(8), "the prompt is too long for the model (it takes 8 tokens): no"),
            (tokens(9), None, "the prompt is too long for the model (9 tokens): no"),
            (None, None, "the prompt is too long for the model: no"),
        ] {
            let error = ProviderError::ContextTooLong { need, window, message: "no".into() };
            assert_eq!(error.to_string(), expected);
        }
    }
}
