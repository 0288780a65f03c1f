//! Hints in a failed command's output that the sandbox denied something; they never claim more than is known.

use std::fmt;
use std::path::{Component, Path, PathBuf};

use super::policy::{SandboxAccess, SandboxPolicy};
use super::values::SandboxNetwork;

/// Something that a command was probably denied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denial {
    /// Writing a path.
    Write(PathBuf),
    /// Reading a path.
    Read(PathBuf),
    /// Reaching a host, if its name is known.
    Network(Option<String>),
}

/// Most denials that are told of one command.
const MOST: usize = 3;

/// Words by which programs say that a file was denied.
const OF_FILES: [&str; 5] =
    ["permission denied", "operation not permitted", "read-only file system", "eacces", "eperm"];

/// Words by which programs say that a file is not there: so it looks if it is covered.
const OF_COVERED: [&str; 3] = ["no such file", "enoent", "cannot find"];

/// Words by which programs say that the network was denied.
const OF_NETWORK: [&str; 19] = [
    "network is unreachable",
    "enetunreach",
    "could not resolve",
    "couldn't resolve",
    "temporary failure in name resolution",
    "name or service not known",
    "no address associated with hostname",
    "failed to lookup address",
    "no such host",
    "unknown host",
    "enotfound",
    "eai_again",
    "getaddrinfo",
    "address family not supported",
    "response 403",
    "403 the sandbox",
    // No socket at all, where there is no network to put it into.
    "listen eperm",
    "connect eperm",
    "socket: operation not permitted",
];

impl Denial {
    /// Finds what `output` of a command that failed says of being denied, as far as `policy` denies it. Paths
    /// are those that begin with `/`, `~/` or `../`, of which the last begins in `folder`.
    pub fn find(policy: &SandboxPolicy, output: &str, folder: &Path, home: Option<&Path>) -> Vec<Self> {
        let mut found: Vec<Self> = Vec::new();
        for line in output.lines() {
            let lower = line.to_lowercase();
            let is_denied = OF_FILES.iter().any(|words| lower.contains(words));
            if is_denied || OF_COVERED.iter().any(|words| lower.contains(words)) {
                let paths = line.split(is_boundary).filter_map(|word| path_in(word, folder, home));
                let denials = paths.filter_map(|path| Self::of_path(policy, path));
                found.extend(denials.filter(|denial| is_denied || matches!(denial, Self::Read(_))));
            }
            if policy.network != SandboxNetwork::All && OF_NETWORK.iter().any(|words| lower.contains(words)) {
                found.push(Self::Network(host_in(line)));
            }
        }
        // A host that is named says more than that there was one.
        if found.iter().any(|denial| matches!(denial, Self::Network(Some(_)))) {
            found.retain(|denial| *denial != Self::Network(None));
        }
        let mut told: Vec<Self> = Vec::new();
        for denial in found {
            if !told.contains(&denial) && told.len() < MOST {
                told.push(denial);
            }
        }
        told
    }

    fn of_path(policy: &SandboxPolicy, path: PathBuf) -> Option<Self> {
        // A command has no terminal, whatever the sandbox allows.
        if path == Path::new("/dev/tty") {
            return None;
        }
        match policy.access(&path) {
            SandboxAccess::Write => None,
            SandboxAccess::Read => Some(Self::Write(path)),
            SandboxAccess::Closed => Some(Self::Read(path)),
        }
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = "in the user's own forge.yaml";
        match self {
            Self::Write(path) => {
                let shown = path.display();
                let rule = folder_of(path).display();
                write!(
                    f,
                    "the sandbox denies writing {shown}; `sandbox: {{ write: [{rule}] }}` {place} allows it"
                )
            }
            Self::Read(path) => {
                let shown = path.display();
                write!(
                    f,
                    "the sandbox denies reading {shown}; `sandbox: {{ read: [{shown}] }}` {place} allows it"
                )
            }
            Self::Network(Some(host)) => {
                write!(
                    f,
                    "the sandbox denies reaching {host}; `sandbox: {{ network: [{host}] }}` {place} allows it"
                )
            }
            Self::Network(None) => write!(
                f,
                "the sandbox denies the network; `sandbox: {{ network: [HOST] }}` {place} allows a host, \
                 `--sandbox network` all of them for one run"
            ),
        }
    }
}

/// Returns what a rule has to name so that the path can be made: what looks like a file needs its folder.
fn folder_of(path: &Path) -> &Path {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let looks_like_file = name.trim_start_matches('.').contains('.');
    path.parent().filter(|folder| looks_like_file && folder.components().count() > 2).unwrap_or(path)
}

fn is_boundary(c: char) -> bool {
    c.is_whitespace()
        || matches!(
            c,
            '\'' | '"'
                | '`'
                | '('
                | ')'
                | '['
                | ']'
                | ','
                | ';'
                | ':'
                | '='
                | '<'
                | '>'
                | '‘'
                | '’'
                | '“'
                | '”'
        )
}

/// Returns the path that a word is, without detours.
fn path_in(word: &str, folder: &Path, home: Option<&Path>) -> Option<PathBuf> {
    let word = word.trim_end_matches(['.', '!', '?']);
    let path = match word.strip_prefix("~/") {
        Some(rest) => home?.join(rest),
        None if word.starts_with('/') => PathBuf::from(word),
        None if word.starts_with("../") => folder.join(word),
        None => return None,
    };
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    (plain.components().count() > 1).then_some(plain)
}

/// Returns the host that a line names after the words that usually stand before one, or in an address.
fn host_in(line: &str) -> Option<String> {
    const BEFORE: [&str; 8] = [
        "resolve host: ",
        "resolve host ",
        "resolve host '",
        "enotfound ",
        "eai_again ",
        "lookup ",
        "unknown host ",
        "://",
    ];
    let lower = line.to_ascii_lowercase();
    let after = BEFORE.iter().find_map(|words| lower.split_once(words).map(|(_, rest)| rest))?;
    let is_end = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'));
    let host = after.split(is_end).next()?.trim_end_matches('.');
    (host.contains('.') && host.len() < 254).then(|| host.to_owned())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::{Sandbox, SandboxPlaces};
    use super::*;

    fn denials(yaml: &str, output: &str) -> Vec<String> {
        let places = SandboxPlaces {
            workspace: "/w".into(),
            temporary: "/tmp/t".into(),
            home: Some("/home/me".into()),
            homes: vec!["/home/me".into()],
            ..SandboxPlaces::default()
        };
        let settings: Sandbox = serde_saphyr::from_str(yaml).unwrap();
        let policy = SandboxPolicy::decide(&settings, &places);
        let found = Denial::find(&policy, output, Path::new("/w"), Some(Path::new("/home/me")));
        found
            .iter()
            .map(|denial| denial.to_string().split_once(" in the").unwrap_or_default().0.to_owned())
            .collect()
    }

    #[test]
    fn a_denial_is_told_with_the_rule_that_allows_it() {
        let write = |path: &str, rule: &str| {
            format!("the sandbox denies writing {path}; `sandbox: {{ write: [{rule}] }}`")
        };
        for (output, expected) in [
            ("sh: 1: cannot create /etc/x: Permission denied", vec![write("/etc/x", "/etc/x")]),
            (
                "mkdir: cannot create directory ‘/home/me/.cache/b’: Permission denied",
                vec![write("/home/me/.cache/b", "/home/me/.cache/b")],
            ),
            (
                "PermissionError: [Errno 13] Permission denied: '/home/me/.cache/b/x.o'",
                vec![write("/home/me/.cache/b/x.o", "/home/me/.cache/b")],
            ),
            ("touch: cannot touch '../up': Permission denied", vec![write("/up", "/up")]),
            ("Error: EACCES: permission denied, open '~/a.'", vec![write("/home/me/a", "/home/me/a")]),
            (
                "cat: /home/me/.ssh/id_rsa: Permission denied",
                vec![
                    "the sandbox denies reading /home/me/.ssh/id_rsa; `sandbox: { read: [/home/me/.ssh/id_rsa] }`"
                        .to_owned(),
                ],
            ),
            (
                "cat: /home/me/.ssh/id_rsa: No such file or directory",
                vec![
                    "the sandbox denies reading /home/me/.ssh/id_rsa; `sandbox: { read: [/home/me/.ssh/id_rsa] }`"
                        .to_owned(),
                ],
            ),
            ("cat: /etc/nothing: No such file or directory", vec![]),
            (
                "curl: (6) Could not resolve host: a.org",
                vec!["the sandbox denies reaching a.org; `sandbox: { network: [a.org] }`".to_owned()],
            ),
            (
                "fatal: unable to access 'https://git.org/x/': Could not resolve proxy",
                vec!["the sandbox denies reaching git.org; `sandbox: { network: [git.org] }`".to_owned()],
            ),
            (
                "connect: Network is unreachable",
                vec!["the sandbox denies the network; `sandbox: { network: [HOST] }`".to_owned()],
            ),
            (
                "Error: listen EPERM: operation not permitted 127.0.0.1",
                vec!["the sandbox denies the network; `sandbox: { network: [HOST] }`".to_owned()],
            ),
            // What the sandbox allows was denied by something else.
            ("sh: /w/locked: Permission denied", vec![]),
            ("sh: /tmp/t/x: Permission denied", vec![]),
            ("error: expected `;`\n  --> /etc/x.rs:1:1", vec![]),
            ("Permission denied (publickey).", vec![]),
            ("sh: 1: cannot open /dev/tty: Permission denied", vec![]),
        ] {
            assert_eq!(denials("{}", output), expected, "{output}");
        }
        assert_eq!(
            denials("{network: all}", "curl: (6) Could not resolve host: a.org"),
            Vec::<String>::new()
        );
    }

    #[test]
    fn few_denials_are_told_and_none_twice() {
        let line = |n: usize| format!("cat: /root/{}: Permission denied\n", n / 2);
        let output: String = (0..20).map(line).collect();
        assert_eq!(denials("{}", &output).len(), MOST);
    }
}
