//! The workspace of the runs of a fleet: `workspace:` in YAML.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The workspace of runs that are submitted to a fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum WorkspaceSetting {
    /// The folder in which a worker was started, such as one that all machines have mounted: `shared`.
    #[default]
    Shared,
    /// An empty folder for each slice, which is deleted after it: `none`.
    None,
    /// A copy of a git repository, which travels with the run.
    Git(GitSource),
}

/// The git repository that a run works on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GitSource {
    /// Address of the repository, without a password: git asks its own helpers for one.
    #[schemars(extend("examples" = ["https://github.com/me/project"]))]
    pub git: GitAddress,
    /// Branch, tag or commit that runs begin with. Unset: the branch that the repository names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["main"]))]
    pub rev: Option<String>,
    /// Address of the bare repository that keeps the files of each checkpoint. Unset: the repository itself,
    /// in refs below `refs/forge`, which are no branches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["ssh://git@example.org/kept.git"]))]
    pub keep: Option<GitAddress>,
}

/// The address of a git repository: a URL, `USER@HOST:PATH`, or an absolute path.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(inline, with = "String", extend("pattern" = r"^(https?://|ssh://|git://|file:///|/|[^/:@]+@[^/:]+:)"))]
pub struct GitAddress(String);

/// An invalid address of a git repository.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GitAddressError {
    /// It has none of the forms.
    #[error(
        "invalid address of a git repository '{0}' (expected https://…, ssh://…, USER@HOST:PATH or an absolute path)"
    )]
    Form(String),
    /// It has a password, which would be kept in checkpoints.
    #[error(
        "the address of a git repository has a password or token in it: leave it out, and give it to git's \
         own helper (git config credential.helper)"
    )]
    Password,
}

impl GitAddress {
    /// Returns the address.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name of the project in it, for a folder: letters, digits, `-`, `_` and `.`.
    pub fn project(&self) -> String {
        let last = self.0.trim_end_matches('/').rsplit(['/', ':']).next().unwrap_or_default();
        let last = last.strip_suffix(".git").unwrap_or(last);
        let is_plain = |c: &char| c.is_alphanumeric() || "-_.".contains(*c);
        let plain: String = last.chars().filter(is_plain).collect();
        let plain = plain.trim_start_matches(['.', '-']);
        if plain.is_empty() { "workspace".to_owned() } else { plain.to_owned() }
    }
}

impl TryFrom<String> for GitAddress {
    type Error = GitAddressError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let is_strange = |c: char| c.is_control() || c.is_whitespace();
        // Git would take one as an option, and others as commands that it runs (`ext::`).
        if text.starts_with('-') || text.contains("::") || text.contains(is_strange) {
            return Err(GitAddressError::Form(text));
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            let is_path = text.starts_with('/') && text.len() > 1;
            let is_of_host = text.split_once(':').is_some_and(|(who, path)| {
                let host = who.split_once('@').map(|(user, host)| (!user.is_empty()).then_some(host));
                host.flatten().is_some_and(|host| !host.is_empty() && !host.starts_with('-'))
                    && !who.contains('/')
                    && !path.is_empty()
            });
            return if is_path || is_of_host { Ok(Self(text)) } else { Err(GitAddressError::Form(text)) };
        };
        let host = rest.split('/').next().unwrap_or_default();
        let user = host.rsplit_once('@').map(|(user, _)| user);
        match scheme {
            // There a token is often given as the user.
            "http" | "https" if user.is_some() => Err(GitAddressError::Password),
            "ssh" | "git" if user.is_some_and(|user| user.contains(':')) => Err(GitAddressError::Password),
            "http" | "https" | "ssh" | "git" if !host.is_empty() => Ok(Self(text)),
            "file" if rest.starts_with('/') => Ok(Self(text)),
            _ => Err(GitAddressError::Form(text)),
        }
    }
}

impl From<GitAddress> for String {
    fn from(address: GitAddress) -> Self {
        address.0
    }
}

impl fmt::Display for GitAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for GitAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl FromStr for WorkspaceSetting {
    type Err = GitAddressError;

    /// Reads `shared`, `none`, or the address of a repository, after which `#` and a revision may stand.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "shared" => Ok(Self::Shared),
            "none" => Ok(Self::None),
            address => {
                let (address, rev) = match address.split_once('#') {
                    Some((address, rev)) => (address, Some(rev.to_owned()).filter(|rev| !rev.is_empty())),
                    None => (address, None),
                };
                Ok(Self::Git(GitSource { git: address.to_owned().try_into()?, rev, keep: None }))
            }
        }
    }
}

impl Serialize for WorkspaceSetting {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Shared => serializer.serialize_str("shared"),
            Self::None => serializer.serialize_str("none"),
            Self::Git(source) => source.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for WorkspaceSetting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SettingVisitor)
    }
}

struct SettingVisitor;

impl<'de> Visitor<'de> for SettingVisitor {
    type Value = WorkspaceSetting;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected shared, none or `{ git: URL, rev: main }`")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
        match text {
            "shared" => Ok(WorkspaceSetting::Shared),
            "none" => Ok(WorkspaceSetting::None),
            other => Err(E::custom(format!(
                "invalid workspace '{other}' (expected shared, none or `{{ git: URL, rev: main }}`)"
            ))),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, keys: A) -> Result<Self::Value, A::Error> {
        GitSource::deserialize(MapAccessDeserializer::new(keys)).map(WorkspaceSetting::Git)
    }
}

impl JsonSchema for WorkspaceSetting {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "WorkspaceSetting".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let source = generator.subschema_for::<GitSource>();
        json_schema!({ "anyOf": [{ "type": "string", "enum": ["shared", "none"] }, source] })
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn an_address_is_one_that_git_only_reads_from() {
        for (text, project) in [
            ("https://github.com/me/project.git", Some("project")),
            ("http://localhost:3000/me/project/", Some("project")),
            ("ssh://git@host:22/a/b.git", Some("b")),
            ("git@host:a/b.git", Some("b")),
            ("file:///srv/x.git", Some("x")),
            ("/srv/..git", Some("workspace")),
            ("", None),
            ("/", None),
            ("project", None),
            ("../project", None),
            ("--upload-pack=x", None),
            ("ext::sh -c id", None),
            ("a@-oProxyCommand=x:b", None),
            ("ftp://host/x", None),
            ("https:///x", None),
            ("https://token@host/x", None),
            ("ssh://a:b@host/x", None),
            ("/srv/a\nb", None),
        ] {
            let read = GitAddress::try_from(text.to_owned());
            assert_eq!(read.map(|address| address.project()).ok().as_deref(), project, "{text}");
        }
    }

    #[test]
    fn a_setting_is_read_as_it_was_written() {
        for (yaml, word) in [
            ("shared", "shared"),
            ("none", "none"),
            ("{ git: /srv/x.git }", "/srv/x.git"),
            ("{ git: /srv/x.git, rev: v1 }", "/srv/x.git#v1"),
        ] {
            let read: WorkspaceSetting = serde_saphyr::from_str(yaml).unwrap();
            assert_eq!(read, word.parse().unwrap());
            let written = serde_json::to_string(&read).unwrap();
            assert_eq!(serde_json::from_str::<WorkspaceSetting>(&written).unwrap(), read);
        }
        for (yaml, fault) in [
            ("mine", "invalid workspace 'mine'"),
            ("3", "expected shared, none or"),
            ("{ git: /x, branch: y }", "branch"),
            ("{ rev: y }", "git"),
            ("{ git: 'https://a:b@host/x' }", "password or token"),
        ] {
            let error = serde_saphyr::from_str::<WorkspaceSetting>(yaml).unwrap_err().to_string();
            assert!(error.contains(fault), "{yaml}: {error}");
        }
    }
}
