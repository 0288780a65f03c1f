//! The encryption of a connection, set by the variables that Temporal's own tools read.

use std::collections::HashMap;
use std::io;

use temporalio_client::{ClientTlsOptions, TlsOptions};

/// The encryption of a connection, and the key that it is opened with.
#[derive(Clone, Default)]
pub struct TemporalTls {
    /// `None` if the connection is not encrypted.
    pub(crate) options: Option<TlsOptions>,
    pub(crate) api_key: Option<String>,
}

/// A fault in the variables.
#[derive(Debug, thiserror::Error)]
pub enum TemporalTlsError {
    /// The value is neither true nor false.
    #[error("TEMPORAL_TLS is '{0}' (expected true or false)")]
    NoSwitch(String),
    /// The file that a variable names cannot be read.
    #[error("{file}, named by {variable}: {source}")]
    File {
        /// The variable.
        variable: String,
        /// The file.
        file: String,
        /// The system's error.
        source: io::Error,
    },
    /// A certificate has no key, or a key no certificate.
    #[error(
        "a client needs both a certificate and a key: TEMPORAL_TLS_CLIENT_CERT_PATH and TEMPORAL_TLS_CLIENT_KEY_PATH"
    )]
    Half,
}

impl TemporalTls {
    /// Reads `TEMPORAL_TLS`, `TEMPORAL_API_KEY`, `TEMPORAL_TLS_SERVER_NAME`, and the certificates and the key
    /// named by `TEMPORAL_TLS_SERVER_CA_CERT_PATH`, `TEMPORAL_TLS_CLIENT_CERT_PATH` and
    /// `TEMPORAL_TLS_CLIENT_KEY_PATH`, or held by the same with `_DATA`. The connection is encrypted if any
    /// of them is set, unless `TEMPORAL_TLS` is false. `read` reads a file.
    ///
    /// # Errors
    /// [`TemporalTlsError`].
    pub fn of(
        variables: &HashMap<String, String>,
        read: impl Fn(&str) -> io::Result<Vec<u8>>,
    ) -> Result<Self, TemporalTlsError> {
        let set = |name: &str| variables.get(name).filter(|value| !value.is_empty());
        let content = |name: &str| {
            if let Some(data) = set(&format!("{name}_DATA")) {
                return Ok(Some(data.clone().into_bytes()));
            }
            let variable = format!("{name}_PATH");
            let file = set(&variable).cloned();
            let fault = |file: String, source| TemporalTlsError::File { variable, file, source };
            file.map(|file| read(&file).map_err(|source| fault(file, source))).transpose()
        };
        let api_key = set("TEMPORAL_API_KEY").cloned();
        let server_name = set("TEMPORAL_TLS_SERVER_NAME").cloned();
        let authority = content("TEMPORAL_TLS_SERVER_CA_CERT")?;
        let client = match (content("TEMPORAL_TLS_CLIENT_CERT")?, content("TEMPORAL_TLS_CLIENT_KEY")?) {
            (Some(certificate), Some(key)) => {
                Some(ClientTlsOptions::builder().client_cert(certificate).client_private_key(key).build())
            }
            (None, None) => None,
            _ => return Err(TemporalTlsError::Half),
        };
        let is_on = match set("TEMPORAL_TLS").map(|value| value.to_ascii_lowercase()).as_deref() {
            Some("true" | "1") => true,
            Some("false" | "0") => false,
            Some(other) => return Err(TemporalTlsError::NoSwitch(other.to_owned())),
            None => api_key.is_some() || server_name.is_some() || authority.is_some() || client.is_some(),
        };
        let options = TlsOptions::builder()
            .maybe_server_root_ca_cert(authority)
            .maybe_domain(server_name)
            .maybe_client_tls_options(client)
            .build();
        Ok(Self { options: is_on.then_some(options), api_key })
    }
}

impl std::fmt::Debug for TemporalTls {
    /// Writes no key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TemporalTls").field("is_encrypted", &self.options.is_some()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_connection_is_encrypted_as_for_temporals_own_tools() {
        let read = |file: &str| match file {
            "there" => Ok(b"x".to_vec()),
            _ => Err(io::ErrorKind::NotFound.into()),
        };
        for (variables, expected) in [
            (&[][..], Ok(false)),
            (&[("TEMPORAL_ADDRESS", "b:2"), ("TEMPORAL_TLS_SERVER_NAME", "")], Ok(false)),
            (&[("TEMPORAL_TLS", "true")], Ok(true)),
            (&[("TEMPORAL_API_KEY", "k")], Ok(true)),
            (&[("TEMPORAL_API_KEY", "k"), ("TEMPORAL_TLS", "False")], Ok(false)),
            (&[("TEMPORAL_TLS_SERVER_CA_CERT_PATH", "there")], Ok(true)),
            (&[("TEMPORAL_TLS_SERVER_CA_CERT_DATA", "x"), ("TEMPORAL_TLS_SERVER_NAME", "s")], Ok(true)),
            (&[("TEMPORAL_TLS_CLIENT_CERT_DATA", "x"), ("TEMPORAL_TLS_CLIENT_KEY_PATH", "there")], Ok(true)),
            (&[("TEMPORAL_TLS", "maybe")], Err("expected true or false")),
            (&[("TEMPORAL_TLS_CLIENT_CERT_DATA", "x")], Err("both a certificate and a key")),
            (&[("TEMPORAL_TLS_CLIENT_KEY_PATH", "gone")], Err("gone, named by TEMPORAL_TLS_CLIENT_KEY_PATH")),
        ] {
            let named = variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
            match (TemporalTls::of(&named, read), expected) {
                (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{error}"),
                (tls, expected) => {
                    let is_encrypted = tls.map(|tls| tls.options.is_some());
                    assert_eq!(is_encrypted.ok(), expected.ok(), "{variables:?}");
                }
            }
        }
    }
}
