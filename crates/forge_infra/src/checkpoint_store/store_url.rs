//! The URLs of `--store` and `checkpoint.store`: where checkpoints are kept.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// The time that a write waits for another process, unless the URL sets one.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The place of a checkpoint store.
#[derive(Clone, PartialEq, Eq)]
pub enum StoreUrl {
    /// The memory of this process, until it ends: `memory:`.
    Memory,
    /// A file: `sqlite:///PATH`.
    Sqlite(SqlitePlace),
    /// A database: `postgres://USER:PASSWORD@HOST/DATABASE`.
    #[cfg(feature = "postgres")]
    Postgres(PostgresPlace),
}

/// A Postgres database and how to reach it.
#[cfg(feature = "postgres")]
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresPlace {
    /// The settings of the connection.
    pub config: Box<tokio_postgres::Config>,
    /// The URL without its password.
    pub shown: String,
}

/// A SQLite file and how to open it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlitePlace {
    /// The file.
    pub path: PathBuf,
    /// The permitted use; `?mode=ro` permits only reading.
    pub access: Access,
    /// The time that a write waits for another process; `?busy_timeout=` milliseconds.
    pub busy_timeout: Duration,
}

/// The permitted use of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The store is read and written, and created if it is missing.
    ReadWrite,
    /// The store is only read.
    ReadOnly,
}

/// The error for a text that names no store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid checkpoint store '{url}': {why} (expected sqlite:///PATH, postgres://USER@HOST/DATABASE or \
     memory:)"
)]
pub struct StoreUrlError {
    /// The text as written, without a password.
    pub url: String,
    /// The fault in it.
    pub why: String,
}

impl SqlitePlace {
    /// Names the file at `path`, which is created if it is missing.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), access: Access::ReadWrite, busy_timeout: BUSY_TIMEOUT }
    }
}

impl FromStr for StoreUrl {
    type Err = StoreUrlError;

    /// Reads `memory:`, `sqlite:///PATH` (absolute), `sqlite:PATH` and `sqlite://PATH` (as given), each with
    /// `?mode=ro&busy_timeout=MILLISECONDS`, and `postgres://…` as libpq does. `%20` and the like stand for
    /// their bytes.
    fn from_str(url: &str) -> Result<Self, StoreUrlError> {
        let wrong = |why: &str| StoreUrlError { url: without_password(url), why: why.to_owned() };
        let (scheme, rest) = url.split_once(':').ok_or_else(|| wrong("it has no scheme"))?;
        match scheme {
            "memory" if rest.is_empty() => Ok(Self::Memory),
            "memory" => Err(wrong("nothing may follow `memory:`")),
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
            _ => Err(wrong(&format!("unknown kind of store `{scheme}`"))),
        }
    }
}

impl StoreUrl {
    /// Returns the URL of the SQLite file at `path`, as it is written.
    pub fn of_file(path: &Path) -> String {
        let path = path.display().to_string();
        let escaped = |c: char| match c {
            '%' | '?' | '#' | ' ' => format!("%{:02x}", u32::from(c)),
            c => c.to_string(),
        };
        format!("sqlite://{}", path.chars().map(escaped).collect::<String>())
    }

    /// Returns `url`, as it is written, with an absolute path, so that it means the same in every folder.
    ///
    /// # Errors
    /// [`StoreUrlError`] if `url` is invalid, or the working folder is unknown.
    pub fn anywhere(url: &str) -> Result<String, StoreUrlError> {
        let Self::Sqlite(SqlitePlace { path, .. }) = url.parse()? else { return Ok(url.to_owned()) };
        let path = std::path::absolute(path)
            .map_err(|error| StoreUrlError { url: url.to_owned(), why: error.to_string() })?;
        let options = url.split_once('?').map(|(_, options)| format!("?{options}")).unwrap_or_default();
        Ok(Self::of_file(&path) + &options)
    }
}

impl std::fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl std::fmt::Display for StoreUrl {
    /// Writes the store as users see it: without options and password.
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
    let path = unescape(path.strip_prefix("//").unwrap_or(path))?;
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
                    milliseconds.parse().map_err(|_| "busy_timeout is not a number".to_owned())?;
                place.busy_timeout = Duration::from_millis(milliseconds);
            }
            _ => {
                return Err(format!("unknown option `{option}` (known: mode=ro, mode=rwc, busy_timeout=MS)"));
            }
        }
    }
    Ok(place)
}

fn unescape(path: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let digits: String = rest.by_ref().take(2).map(char::from).collect();
                let byte =
                    u8::from_str_radix(&digits, 16).map_err(|_| format!("`%{digits}` is not a byte"))?;
                bytes.push(byte);
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).map_err(|_| "the path is not UTF-8".to_owned())
}

/// Returns the URL without everything between the user's name and the host.
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
    fn a_url_means_the_same_in_every_folder() {
        let here = std::env::current_dir().unwrap();
        for (url, path) in [
            ("sqlite:///my%20runs%3f.db", PathBuf::from("/my runs?.db")),
            ("sqlite:a%25.db?busy_timeout=20", here.join("a%.db")),
            ("sqlite://b/a.db", here.join("b/a.db")),
        ] {
            let there = StoreUrl::anywhere(url).unwrap();
            let Ok(StoreUrl::Sqlite(place)) = there.parse() else { panic!("{there}") };
            assert_eq!(place.path, path);
            assert_eq!(there.contains("?busy_timeout=20"), url.contains("busy_timeout"), "{there}");
        }
        assert_eq!(StoreUrl::anywhere("memory:").unwrap(), "memory:");
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
            ("sqlite:///a?mode=x", Err("unknown option `mode=x`")),
            ("sqlite:///a%zz", Err("`%zz` is not a byte")),
            ("memory:x", Err("nothing may follow")),
            (
                "postgres://me:secret@host:port/x",
                Err("invalid checkpoint store 'postgres://me:…@host:port/x'"),
            ),
            ("runs.db", Err("no scheme")),
            ("redis://x:secret@y", Err("unknown kind of store `redis`")),
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
