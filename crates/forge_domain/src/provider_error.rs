//! Why a model gives no reply.

use crate::{ModelId, ProviderId};

/// Why a model gave no reply.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// No provider of that name.
    #[error("there is no provider `{provider}`; known are: {known}")]
    UnknownProvider {
        /// The name asked for.
        provider: String,
        /// The names there are, separated by commas.
        known: String,
    },
    /// The provider needs a key and there is none.
    #[error("provider `{provider}` needs a key: set the environment variable {variable}")]
    MissingKey {
        /// The provider.
        provider: ProviderId,
        /// The variable that would hold the key.
        variable: String,
    },
    /// The server was not reached.
    #[error("cannot reach {url}")]
    Network {
        /// The address asked.
        url: String,
        /// What went wrong.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The connection broke while the reply came in.
    #[error("the connection to {url} broke during the reply")]
    Interrupted {
        /// The address asked.
        url: String,
        /// What went wrong.
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
        /// The model asked for.
        model: ModelId,
        /// The server's words.
        message: String,
    },
    /// The server refused the request for any other reason.
    #[error("the provider refused the request (status {status}): {message}")]
    Refused {
        /// HTTP status; 200 where the refusal came inside a stream.
        status: u16,
        /// The server's words.
        message: String,
    },
    /// The stream ended before the reply did.
    #[error("the reply broke off before its end")]
    Truncated,
    /// The server's answer is not of the protocol.
    #[error("the provider's answer cannot be read: {what}")]
    Malformed {
        /// What could not be read.
        what: String,
    },
    /// A recording has no further reply.
    #[error("the recording has no further reply")]
    RecordingEnded,
}
