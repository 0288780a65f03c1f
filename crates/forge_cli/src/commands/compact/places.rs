//! The places of the outputs: none may be the input, or that of another output.

use std::path::Path;

use super::CompactArguments;
use crate::failure::Misconfigured;
use crate::session_file::{is_same, refuse_input};

/// Rejects outputs that would lose something: the input as an output, or one file for two outputs.
pub(super) fn check_places(arguments: &CompactArguments) -> anyhow::Result<()> {
    if arguments.plan.json
        && arguments.files.output.is_none()
        && !arguments.plan.dry_run
        && !arguments.files.in_place
        && arguments.files.run.run.is_none()
    {
        let what = "--json prints the report to stdout: name a file for the result with --output";
        return Err(Misconfigured(what.to_owned()).into());
    }
    if arguments.files.redact && arguments.files.in_place {
        let what = "--in-place keeps every line of the file, so its secrets would stay: write a file of its own \
                    with --redact --output FILE";
        return Err(Misconfigured(what.to_owned()).into());
    }
    if let Some(path) = arguments.files.output.as_ref().filter(|_| arguments.plan.dry_run) {
        let what = format!(
            "--dry-run writes no result, so {} would stay empty: omit --output or --dry-run",
            path.display()
        );
        return Err(Misconfigured(what).into());
    }
    let outputs: Vec<(&str, &Path)> = [
        ("--output", &arguments.files.output),
        ("--report", &arguments.plan.report),
        ("--proposal", &arguments.plan.proposal),
    ]
    .into_iter()
    .filter_map(|(flag, path)| Some((flag, path.as_deref()?)))
    .collect();
    let inputs = [arguments.files.file.as_deref(), arguments.plan.apply.as_deref()];
    for (n, (flag, path)) in outputs.iter().enumerate() {
        for input in inputs.iter().flatten() {
            refuse_input(flag, path, input)?;
        }
        if let Some((other, _)) = outputs[..n].iter().find(|(_, other)| is_same(path, other)) {
            return Err(Misconfigured(format!("{other} and {flag} are the same file")).into());
        }
    }
    Ok(())
}
