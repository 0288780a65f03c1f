//! The address of a provider.

use std::error::Error;

use forge_domain::without_secrets;
use reqwest::Url;

use super::Secret;

/// The base address of a provider. It may have a query, as some gateways require an API version in each
/// request.
#[derive(Clone)]
pub(crate) struct Endpoint(Url);

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Endpoint({})", without_secrets(self.0.as_str()))
    }
}

/// The ends of requests' paths, which are added to a base address. The longer of two comes first.
const REQUEST_PATHS: [&str; 6] =
    ["/chat/completions", "/completions", "/responses", "/messages", "/api/chat", "/api/generate"];
/// The ends of those that name a model of Gemini before.
const GEMINI_METHODS: [&str; 3] = [":generateContent", ":streamGenerateContent", ":countTokens"];

/// Returns the path of a base address without the path of a request that it ends in, and that path.
fn without_request_path(path: &str) -> Option<(&str, &str)> {
    let path = path.trim_end_matches('/');
    let of_gemini = || {
        let is_method = GEMINI_METHODS.iter().any(|method| path.ends_with(method));
        is_method.then(|| path.rfind("/models/")).flatten().map(|at| path.split_at(at))
    };
    let ends = REQUEST_PATHS.iter().find_map(|end| Some((path.strip_suffix(*end)?, *end)));
    ends.or_else(of_gemini)
}

impl Endpoint {
    /// Parses a base address; slashes at its end do not matter. The whole address of a request is refused:
    /// requests would be sent to one that does not exist.
    pub(crate) fn parse(base_url: &str) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let url = Url::parse(base_url.trim())?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err("it must begin with http:// or https://".into());
        }
        if let Some((base, end)) = without_request_path(url.path()) {
            let mut shorter = url.clone();
            shorter.set_path(base);
            let shorter = without_secrets(shorter.as_str());
            let shorter = shorter.trim_end_matches('/');
            return Err(format!("it must end before `{end}`: write `base_url: {shorter}`").into());
        }
        Ok(Self(url))
    }

    /// Returns the address of `path` below the base.
    pub(crate) fn url(&self, path: &str) -> Url {
        let mut url = self.0.clone();
        url.set_path(&format!("{}/{path}", self.0.path().trim_end_matches('/')));
        url.set_fragment(None);
        url
    }

    /// Returns the address of `path` below `folder`, whether or not the base already ends in that folder.
    pub(crate) fn url_in(&self, folder: &str, path: &str) -> Url {
        let base = self.0.path().trim_end_matches('/');
        match base.strip_suffix(folder).is_some_and(|rest| rest.ends_with('/')) {
            true => self.url(path),
            false => self.url(&format!("{folder}/{path}")),
        }
    }

    /// Returns the address without `folder` at its end.
    pub(crate) fn above(self, folder: &str) -> Self {
        let mut url = self.0;
        let base = url.path().trim_end_matches('/').to_owned();
        if let Some(rest) = base.strip_suffix(folder).filter(|rest| rest.ends_with('/')) {
            url.set_path(rest);
        }
        Self(url)
    }

    /// Returns the secrets in it: the password and the values of the query.
    pub(crate) fn secrets(&self) -> Vec<Secret> {
        let values = self.0.query_pairs().map(|(_, value)| value.into_owned());
        let all = values.chain(self.0.password().map(str::to_owned));
        all.map(Secret::new).collect()
    }

    /// Returns the host, or an empty text if the address has none.
    pub(crate) fn host(&self) -> &str {
        self.0.host_str().unwrap_or_default()
    }

    /// Checks whether it is on this machine, for which no proxy is used.
    pub(crate) fn is_loopback(&self) -> bool {
        let host = self.host();
        let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn addresses_are_joined_and_shown_without_secrets() {
        for (base_url, sent, shown) in [
            ("https://host/v1", "https://host/v1/models", "https://host/v1/models"),
            (" https://host/v1/ ", "https://host/v1/models", "https://host/v1/models"),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080/models", "http://127.0.0.1:8080/models"),
            ("https://host/v1?key=1", "https://host/v1/models?key=1", "https://host/v1/models"),
            ("https://me:pass@host/v1", "https://me:pass@host/v1/models", "https://host/v1/models"),
        ] {
            let url = Endpoint::parse(base_url).unwrap().url("models");
            assert_eq!((url.as_str(), without_secrets(url.as_str()).as_str()), (sent, shown));
        }
    }

    #[test]
    fn a_folder_that_the_base_names_is_not_named_twice() {
        for (base_url, expected) in [
            ("https://host", "https://host/v1/messages"),
            ("https://host/", "https://host/v1/messages"),
            ("https://host/v1/", "https://host/v1/messages"),
            ("https://host/anthropic", "https://host/anthropic/v1/messages"),
            ("https://host/xv1", "https://host/xv1/v1/messages"),
        ] {
            assert_eq!(Endpoint::parse(base_url).unwrap().url_in("v1", "messages").as_str(), expected);
        }
        let above = Endpoint::parse("http://host:1/v1").unwrap().above("v1");
        assert_eq!(above.url_in("api", "chat").as_str(), "http://host:1/api/chat");
    }

    #[test]
    fn an_address_is_shown_without_what_is_secret_in_it() {
        for (url, expected) in [
            ("http://h:80/v1", "http://h:80/v1"),
            ("http://me:secret@h/v1?key=1#x", "http://h/v1"),
            ("https://me@h", "https://h"),
            ("h/v1?key=1", "h/v1"),
        ] {
            assert_eq!(without_secrets(url), expected);
        }
    }

    #[test]
    fn what_is_no_http_address_is_refused() {
        for base_url in ["", "host/v1", "localhost:8080/v1", "ftp://host", "http://"] {
            assert!(Endpoint::parse(base_url).is_err(), "{base_url}");
        }
    }

    #[test]
    fn the_address_of_a_request_is_refused_with_the_base_address() {
        for (base_url, expected) in [
            ("http://h:1/v1/chat/completions", "`/chat/completions`: write `base_url: http://h:1/v1`"),
            ("https://me:pw@h/v1/responses/?key=1", "`/responses`: write `base_url: https://h/v1`"),
            ("https://h/v1/messages", "`/messages`: write `base_url: https://h/v1`"),
            ("http://h:1/api/chat", "`/api/chat`: write `base_url: http://h:1`"),
            (
                "https://h/v1beta/models/m:generateContent",
                "`/models/m:generateContent`: write `base_url: https://h/v1beta`",
            ),
        ] {
            let error = Endpoint::parse(base_url).unwrap_err().to_string();
            assert_eq!(error, format!("it must end before {expected}"));
        }
        for base_url in [
            "http://h/api",
            "http://h/models",
            "http://h/models/x:y/v1",
            "http://h/models/x:8b",
            "http://h/openai/deployments/chat",
            "http://h/xmessages",
        ] {
            assert!(Endpoint::parse(base_url).is_ok(), "{base_url}");
        }
    }

    #[test]
    fn loopback_is_known_in_every_spelling() {
        for (base_url, expected) in [
            ("http://localhost:1/v1", true),
            ("http://127.0.0.2", true),
            ("http://[::1]:1", true),
            ("http://10.0.0.1", false),
            ("http://localhost.example", false),
        ] {
            assert_eq!(Endpoint::parse(base_url).unwrap().is_loopback(), expected, "{base_url}");
        }
    }
}
