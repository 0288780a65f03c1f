//! Lines of an output that tell nothing of how its command ended: the advice with which packagers and
//! harnesses close, and the names of streams.

/// The beginnings of closing advice, in small letters.
const ADVICE: [&str; 12] = [
    "[notice] ",
    "a different dependency",
    "npm audit fix",
    "npm notice",
    "please check your input and try again",
    "run `npm ",
    "some issues need review",
    "to address all issues",
    "to address issues that",
    "to update, run: pip",
    "use the `composer fund` command",
    "warning: running pip as the 'root' user",
];
/// A sentence of it that begins with a number.
const FUNDING: &str = "looking for funding";
/// The names of streams, of which nothing may follow.
const STREAMS: [&str; 2] = ["stdout:", "stderr:"];

/// Checks whether a line is advice with which a packager or a harness closes.
pub(super) fn is_advice(line: &str) -> bool {
    let line = line.trim().to_ascii_lowercase();
    ADVICE.iter().any(|advice| line.starts_with(advice)) || line.contains(FUNDING)
}

/// Checks whether a line tells nothing of how a command ended.
pub(super) fn tells_nothing(line: &str) -> bool {
    STREAMS.iter().any(|name| line.trim().eq_ignore_ascii_case(name)) || is_advice(line)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn advice_and_names_of_streams_tell_nothing() {
        for (line, expected) in [
            ("Run `npm audit` for details.", true),
            ("  run `npm fund` for details", true),
            ("45 packages are looking for funding", true),
            ("Some issues need review, and may require choosing", true),
            ("[notice] A new release of pip is available: 24.0 -> 25.1", true),
            ("Stderr:", true),
            ("Please check your input and try again.", true),
            ("3 vulnerabilities (1 moderate, 2 high)", false),
            ("Stderr: no such file", false),
            ("added 312 packages in 9s", false),
        ] {
            assert_eq!(tells_nothing(line), expected, "{line}");
        }
    }
}
