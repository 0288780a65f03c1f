//! The sandbox on macOS: a Seatbelt profile for `sandbox-exec`.
//!
//! No one has tried it on a Mac yet: the profile is tested as text alone.

use std::fmt::Write as _;
use std::path::Path;

use forge_domain::{SandboxNetwork, SandboxPolicy};

/// Returns the same command, started by `sandbox-exec`.
#[cfg(target_os = "macos")]
pub(crate) fn confine(
    command: &std::process::Command,
    policy: &SandboxPolicy,
    port: Option<u16>,
) -> std::process::Command {
    use std::os::unix::process::CommandExt;
    let mut confined = std::process::Command::new("/usr/bin/sandbox-exec");
    confined.arg("-p").arg(profile(policy, port)).arg(command.get_program()).args(command.get_args());
    confined.stdin(std::process::Stdio::null()).process_group(0);
    confined
}

/// Returns the profile that enforces `policy`. If several rules match, the last one counts. If hosts are
/// named, only `port` of this machine is open.
pub(crate) fn profile(policy: &SandboxPolicy, port: Option<u16>) -> String {
    let mut text = "(version 1)\n(allow default)\n(deny file-write*)\n".to_owned();
    let mut rules: Vec<(&Path, &str)> = Vec::new();
    rules.extend(
        policy.closed.iter().map(|path| (path.as_path(), "(deny file-read* file-write* (subpath {}))\n")),
    );
    rules.extend(policy.open.iter().map(|path| (path.as_path(), "(allow file-read* (subpath {}))\n")));
    rules.extend(
        policy.write.iter().map(|path| (path.as_path(), "(allow file-read* file-write* (subpath {}))\n")),
    );
    // The longest path counts, and so it comes last; among the same path the most permissive does.
    rules.sort_by_key(|(path, _)| path.components().count());
    for (path, rule) in rules {
        text.push_str(&rule.replace("{}", &quote(path)));
    }
    text.push_str("(allow file-read* file-write* (literal \"/dev/null\") (literal \"/dev/zero\"))\n");
    text.push_str("(allow file-read* (literal \"/dev/random\") (literal \"/dev/urandom\"))\n");
    if policy.network != SandboxNetwork::All {
        text.push_str("(deny network*)\n");
        for path in &policy.write {
            let path = quote(path);
            let _ = writeln!(
                text,
                "(allow network* (local unix-socket (subpath {path})) (remote unix-socket (subpath {path})))"
            );
        }
        if let Some(port) = port {
            let _ = writeln!(text, "(allow network-outbound (remote ip \"localhost:{port}\"))");
        }
    }
    text.push_str("(deny signal)\n(allow signal (target same-sandbox))\n(deny process-info*)\n");
    text.push_str("(allow process-info* (target same-sandbox))\n");
    text
}

fn quote(path: &Path) -> String {
    let text = path.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{text}\"")
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_profile_denies_what_the_policy_does() {
        let policy = SandboxPolicy {
            write: vec!["/Users/me/work \"1\"".into()],
            closed: vec!["/Users/me/.ssh".into(), "/Users/you".into()],
            open: vec!["/Users/me/.ssh/known_hosts".into()],
            network: SandboxNetwork::Hosts(Vec::new()),
            processes: 1,
            memory: None,
            is_required: false,
        };
        let expected = r#"(version 1)
(allow default)
(deny file-write*)
(deny file-read* file-write* (subpath "/Users/you"))
(deny file-read* file-write* (subpath "/Users/me/.ssh"))
(allow file-read* file-write* (subpath "/Users/me/work \"1\""))
(allow file-read* (subpath "/Users/me/.ssh/known_hosts"))
(allow file-read* file-write* (literal "/dev/null") (literal "/dev/zero"))
(allow file-read* (literal "/dev/random") (literal "/dev/urandom"))
(deny network*)
(allow network* (local unix-socket (subpath "/Users/me/work \"1\"")) (remote unix-socket (subpath "/Users/me/work \"1\"")))
(allow network-outbound (remote ip "localhost:77"))
(deny signal)
(allow signal (target same-sandbox))
(deny process-info*)
(allow process-info* (target same-sandbox))
"#;
        assert_eq!(profile(&policy, Some(77)), expected);
    }
}
