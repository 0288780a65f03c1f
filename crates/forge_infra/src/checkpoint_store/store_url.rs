//! What `--store` and `checkpoint.store` say: where checkpoints are kept.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// How long a write waits for another process, unless the URL says otherwise.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Where checkpoints are kept.
#[derive(Clone, PartialEq, Eq)]
pub enum StoreUrl {
    /// In the memory of this process, until it ends: `memory:`.
    Memory,
    /// In a file: `sqlite:///PATH`.
    Sqlite(SqlitePlace),
    /// In a database: `postgres://USER:PASSWORD@HOST/DATABASE`.
    #[cfg(feature = "postgres")]
    Postgres(PostgresPlace),
}

/// A Postgres database and how it is reached.
#[cfg(feature = "postgres")]
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresPlace {
    /// How it is reached.
    pub config: Box<tokio_postgres::Config>,
    /// The URL without its password.
    pub shown: String,
}

/// A SQLite file and how it is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlitePlace {
    /// The file.
    pub path: PathBuf,
    /// How it may be used; `?mode=ro` only reads.
    pub access: Access,
    /// How long a write waits for another process; `?busy_timeout=` milliseconds.
    pub busy_timeout: Duration,
}

/// How a store may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read and written; made where it is not there.
    ReadWrite,
    /// Only read.
    ReadOnly,
}

/// A text that names no store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{url}` names no checkpoint store ({why}): write sqlite:///PATH, postgres://USER@HOST/DATABASE or memory:"
)]
pub struct StoreUrlError {
    /// What was written, without a password.
    pub url: String,
    /// What is wrong with it.
    pub why: String,
}

impl SqlitePlace {
    /// The file at `path`, made where it is not there.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), access: Access::ReadWrite, busy_timeout: BUSY_TIMEOUT }
    }
}

impl FromStr for StoreUrl {
    type Err = StoreUrlError;

    /// Reads `memory:`, `sqlite:///PATH` (absolute), `sqlite:PATH` and `sqlite://PATH` (as given), each with
    /// `?mode=ro&busy_timeout=MILLISECONDS`, and `postgres://…` as libpq does. `%20` and the like stand for their bytes.
    fn from_str(url: &str) -> Result<Self, StoreUrlError> {
        let wrong = |why: &str| StoreUrlError { url: without_password(url), why: why.to_owned() };
        let (scheme, rest) = url.split_once(':').ok_or_else(|| wrong("it has no scheme"))?;
        match scheme {
            "memory" if rest.is_empty() => Ok(Self::Memory),
            "memory" => Err(wrong("`memory:` takes nothing after it")),
            #[cfg(not(feature = "postgres"))]
            "postgres" | "postgresql" => {
                Err(wrong("this forge was built without Postgres; build it with `--features postgres`"))
            }
            #[cfg(feature = "postgres")]
            "postgres" | "postgresql" => {
                // The driver's words may repeat what was written, the password with it.
                let config = url.parse().map_err(|_| wrong("the driver cannot read it"))?;
                Ok(Self::Postgres(PostgresPlace { config: Box::new(config), shown: without_password(url) }))
            }
            "sqlite" => sqlite(rest).map(Self::Sqlite).map_err(|why| wrong(&why)),
            _ => Err(wrong(&format!("`{scheme}` is no kind of store"))),
        }
    }
}

impl std::fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl std::fmt::Display for StoreUrl {
    /// The store as people are told of it: without options and password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Memory => f.write_str("memory:"),
            Self::Sqlite(place) => write!(f, "{}", place.path.display()),
            #[cfg(feature = "postgres")]
            Self::Postgres(place) => f.write_str(&place.shown),
        }
    }
}

fn sqlite(rest: &str) -> Result<SqlitePlace, String> {
    let (path, options) = rest.split_once('?').unwrap_or((rest, ""));
    let path = unescaped(path.strip_prefix("//").unwrap_or(path))?;
    if path.is_empty() {
        return Err("the path of the file is missing".into());
    }
    let mut place = SqlitePlace::new(path);
    for option in options.split('&').filter(|option| !option.is_empty()) {
        match option.split_once('=') {
            Some(("mode", "ro")) => place.access = Access::ReadOnly,
            Some(("mode", "rwc")) => place.access = Access::ReadWrite,
            Some(("busy_timeout", milliseconds)) => {
                let milliseconds =
                    milliseconds.parse().map_err(|_| "busy_timeout is no number".to_owned())?;
                place.busy_timeout = Duration::from_millis(milliseconds);
            }
            _ => {
                return Err(format!("`{option}` is no option; known are mode=ro, mode=rwc, busy_timeout=MS"));
            }
        }
    }
    Ok(place)
}

fn unescaped(path: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let digits: String = rest.by_ref().take(2).map(char::from).collect();
                let byte = u8::from_str_radix(&digits, 16).map_err(|_| format!("`%{digits}` is no byte"))?;
                bytes.push(byte);
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).map_err(|_| "the path is no UTF-8".to_owned())
}

/// The URL with what stands between a user's name and the host left out.
pub(super) fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    match authority.rsplit_once('@').map(|(user, host)| (user.split_once(':'), host)) {
        Some((Some((user, _)), host)) => format!("{scheme}://{user}:…@{host}{path}"),
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[cfg(not(feature = "postgres"))]
    #[test]
    fn a_build_without_postgres_says_so() {
        let error = "postgres://me:secret@host/runs".parse::<StoreUrl>().unwrap_err().to_string();
        assert!(error.contains("--features postgres") && !error.contains("secret"), "{error}");
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn a_password_is_not_shown() {
        let url: StoreUrl = "postgres://me:secret@host/runs?sslmode=require".parse().unwrap();
        let expected = "postgres://me:…@host/runs?sslmode=require";
        assert_eq!((url.to_string(), format!("{url:?}")), (expected.into(), expected.into()));
    }

    #[test]
    fn a_url_names_a_store_or_says_what_is_wrong() {
        let file = |path: &str| StoreUrl::Sqlite(SqlitePlace::new(path));
        let read_only = SqlitePlace { access: Access::ReadOnly, ..SqlitePlace::new("/a") };
        let patient = SqlitePlace { busy_timeout: Duration::from_millis(20), ..SqlitePlace::new("/a") };
        for (url, expected) in [
            ("memory:", Ok(StoreUrl::Memory)),
            ("sqlite:///var/a.db", Ok(file("/var/a.db"))),
            ("sqlite:a.db", Ok(file("a.db"))),
            ("sqlite://b/a.db", Ok(file("b/a.db"))),
            ("sqlite:///my%20runs.db", Ok(file("/my runs.db"))),
            ("sqlite:///a?mode=ro", Ok(StoreUrl::Sqlite(read_only))),
            ("sqlite:///a?busy_timeout=20", Ok(StoreUrl::Sqlite(patient))),
            ("sqlite://", Err("path of the file is missing")),
            ("sqlite:///a?mode=x", Err("`mode=x` is no option")),
            ("sqlite:///a%zz", Err("`%zz` is no byte")),
            ("memory:x", Err("takes nothing")),
            ("postgres://me:secret@host:port/x", Err("`postgres://me:…@host:port/x` names no")),
            ("runs.db", Err("no scheme")),
            ("redis://x:secret@y", Err("`redis` is no kind of store")),
        ] {
            match (url.parse::<StoreUrl>(), expected) {
                (Err(error), Err(expected)) => {
                    let said = error.to_string();
                    assert!(said.contains(expected) && !said.contains("secret"), "{url}: {said}");
                }
                (actual, expected) => assert_eq!(actual.map_err(|_| "an error"), expected, "{url}"),
            }
        }
    }
}
