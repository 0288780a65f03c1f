//! `forge config migrate`: converts the transforms of earlier versions to `compact`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use forge_infra::{keep_copy, write_whole};
use forge_services::workflow::{Finding, Layers, Source, WorkflowError, migrate};
use serde::Serialize;
use similar::TextDiff;

use crate::arguments::JsonFlag;
use crate::failure::Misconfigured;
use crate::places::PROJECT_FILE;
use crate::{output, setup};

/// Convert the transforms of earlier versions to `compact`, and keep the rest of the file
///
/// Without `--write` it shows the changes and writes nothing. It names what it cannot convert.
#[derive(Debug, Args)]
pub(crate) struct MigrateArguments {
    /// The workflow file [default: forge.yaml in the working folder]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Write the file; the old one is kept beside it, as FILE.bak
    #[arg(long)]
    write: bool,
    #[command(flatten)]
    form: JsonFlag,
}

impl MigrateArguments {
    /// Shows the new file, and writes it on request.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let path = self.config.as_deref().unwrap_or(Path::new(PROJECT_FILE));
        let before = setup::read_yaml(path)?;
        let below = setup::user_layer()?.filter(|below| below.name != before.name);
        let migration = migrate(&before, below.as_ref()).map_err(|error| Misconfigured(error.to_string()))?;
        let changed = migration.text != before.text;
        let diff = if changed { diff(&before, &migration.text) } else { String::new() };
        let backup = match changed && self.write {
            true => Some(write(path, &before.text, &migration.text)?),
            false => None,
        };
        let done = point_at_all(&before, &migration.done);
        let left = match &backup {
            None => point_at_all(&before, &migration.left),
            Some(_) => point_at_all(&Source::new(&before.name, migration.text), &migration.left_afterwards),
        };
        if self.form.json {
            let report = MigrationReport {
                file: &before.name,
                changed,
                written: backup.is_some(),
                backup: backup.as_deref(),
                done: done.iter().map(Note::of).collect(),
                left: left.iter().map(Note::of).collect(),
                diff: &diff,
            };
            output::print_json(&report)?;
            return Ok(ExitCode::SUCCESS);
        }
        output::print(&output::display_text(&diff))?;
        for note in &left {
            output::say(&format!("{note}\n"));
        }
        output::say(&match (&backup, changed) {
            (Some(backup), _) => format!("{}: written; the old file is {}", before.name, backup.display()),
            (None, true) => format!("{}: nothing was written; `--write` writes the file", before.name),
            (None, false) if left.is_empty() => format!("{}: nothing to migrate", before.name),
            (None, false) => format!("{}: nothing that can be migrated automatically", before.name),
        });
        Ok(ExitCode::SUCCESS)
    }
}

/// The result, for scripts.
#[derive(Serialize)]
struct MigrationReport<'a> {
    file: &'a str,
    /// True if the file would change, or has changed.
    changed: bool,
    written: bool,
    /// The copy of the old text.
    backup: Option<&'a Path>,
    done: Vec<Note<'a>>,
    left: Vec<Note<'a>>,
    diff: &'a str,
}

#[derive(Serialize)]
struct Note<'a> {
    path: &'a str,
    line: Option<usize>,
    column: Option<usize>,
    what: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
}

impl<'a> Note<'a> {
    fn of(error: &'a WorkflowError) -> Self {
        Self {
            path: &error.path,
            line: error.position.map(|position| position.line),
            column: error.position.map(|position| position.column),
            what: &error.what,
            hint: error.hint.as_deref(),
        }
    }
}

fn point_at_all(source: &Source, findings: &[Finding]) -> Vec<WorkflowError> {
    let layers = Layers { project: Some(source.clone()), ..Layers::default() };
    findings.iter().map(|finding| layers.point_at(finding)).collect()
}

fn diff(before: &Source, after: &str) -> String {
    let (old, new) = (before.name.as_str(), format!("{} (migrated)", before.name));
    TextDiff::from_lines(before.text.as_str(), after).unified_diff().header(old, &new).to_string()
}

/// Keeps the old text and replaces it by the new one.
fn write(path: &Path, before: &str, after: &str) -> anyhow::Result<PathBuf> {
    let name = path.display();
    let now =
        std::fs::read(path).with_context(|| format!("cannot read {name} again; nothing was written"))?;
    if now != before.as_bytes() {
        anyhow::bail!("{name} was changed while it was read; nothing was written: try again");
    }
    let backup = keep_copy(path, before.as_bytes())
        .with_context(|| format!("cannot keep a copy of {name} beside it; nothing was written"))?;
    write_whole(path, after.as_bytes()).with_context(|| {
        format!("cannot write {name}; it is unchanged, and so is its copy {}", backup.display())
    })?;
    Ok(backup)
}
