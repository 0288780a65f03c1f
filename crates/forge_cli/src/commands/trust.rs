//! `forge trust`: trusts what a project's file may run, read and send.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use forge_services::workflow::load;
use serde_json::{Value, json};

use crate::arguments::{ConfigFlag, JsonFlag, Source};
use crate::consent::{self, Demand, Grant, ProjectPlace, Record};
use crate::failure::Misconfigured;
use crate::{output, setup};

/// Trust what a project's forge.yaml would run, read and send, until it changes
///
/// Shows everything that it asks for. Until you trust it, a forge.yaml can only narrow your own
/// configuration; `forge run` asks at a terminal, and ends with exit code 10 elsewhere.
#[derive(Debug, Args)]
pub(crate) struct TrustArguments {
    /// The folder with the forge.yaml, or another file to use in the working folder [default: the working
    /// folder]
    #[arg(value_name = "PATH")]
    path: Option<PathBuf>,
    /// List the trusted files
    #[arg(long, conflicts_with_all = ["path", "revoke"])]
    list: bool,
    /// Revoke the trust
    #[arg(long)]
    revoke: bool,
    #[command(flatten)]
    form: JsonFlag,
}

impl TrustArguments {
    /// Trusts a file until it changes, revokes that, or lists the trusted files.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        if self.list {
            list(self.form.json)?;
            return Ok(ExitCode::SUCCESS);
        }
        let place = place(self.path.as_deref())?;
        if self.revoke {
            revoke(&place, self.form.json)?;
        } else {
            keep(&place, self.form.json)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns the selected file: a folder's is the one that a run in it would use, and any other one is used in
/// the working folder.
fn place(path: Option<&Path>) -> anyhow::Result<ProjectPlace> {
    let folder = path.filter(|path| path.is_dir());
    if let Some(folder) = folder {
        std::env::set_current_dir(folder)
            .map_err(|error| Misconfigured(format!("cannot enter {}: {error}", folder.display())))?;
    }
    let named = path.filter(|_| folder.is_none()).map(Path::to_owned);
    let file = named.unwrap_or_else(setup::nearest_project_file);
    ProjectPlace::of(Path::new("."), &file).map_err(|error| {
        Misconfigured(format!("cannot read the configuration {}: {error}", file.display())).into()
    })
}

fn keep(place: &ProjectPlace, is_json: bool) -> anyhow::Result<()> {
    // The servers of `.mcp.json` are a part of it, as in a run.
    let file = ConfigFlag { config: Some(place.file.clone()) };
    let layers = setup::layers(&Source { file, ..Source::default() })?;
    // What is wrong with the file is told before anything of it is trusted.
    load(&layers).map_err(|error| Misconfigured(error.to_string()))?;
    consent::refuse_secrets(&layers)?;
    let demands = consent::demands(&layers, place);
    if demands.is_empty() {
        Record::revoke(place)?;
    } else {
        Record::of(place, &demands).save()?;
    }
    if is_json {
        let powers: Vec<Value> = demands.iter().map(demand_json).collect();
        return output::print_json(&json!({ "folder": place.folder, "file": place.file, "powers": powers }));
    }
    let file = output::visible(&place.file.display().to_string());
    if demands.is_empty() {
        return output::print(&format!("{file} asks for nothing that needs trust\n"));
    }
    let lines: Vec<String> = demands.iter().flat_map(Demand::lines).collect();
    let lines = lines.join("\n");
    output::print(&format!(
        "{file} is trusted until it changes. It may:\n{lines}\n`forge trust --revoke` takes that back.\n"
    ))
}

fn demand_json(demand: &Demand) -> Value {
    let mut said = grant_json(&demand.grant);
    said["path"] = json!(demand.path);
    said["at"] = json!(demand.at);
    said
}

fn grant_json(grant: &Grant) -> Value {
    let mut said = json!(grant.power);
    said["text"] = json!(grant.power.to_string());
    said
}

fn revoke(place: &ProjectPlace, is_json: bool) -> anyhow::Result<()> {
    let was_trusted = Record::revoke(place)?;
    if is_json {
        return output::print_json(
            &json!({ "folder": place.folder, "file": place.file, "was_trusted": was_trusted }),
        );
    }
    let file = output::visible(&place.file.display().to_string());
    let words = if was_trusted { "is not trusted any more" } else { "was not trusted" };
    output::print(&format!("{file} {words}\n"))
}

fn list(is_json: bool) -> anyhow::Result<()> {
    let records = Record::all();
    if is_json {
        let records: Vec<Value> = records
            .iter()
            .map(|record| {
                let powers: Vec<Value> = record.grants.iter().map(grant_json).collect();
                json!({ "folder": record.folder, "file": record.file, "powers": powers })
            })
            .collect();
        return output::print_json(&json!(records));
    }
    if records.is_empty() {
        return output::print("nothing is trusted\n");
    }
    let mut text = String::new();
    for record in records {
        let file = output::visible(&record.file.display().to_string());
        let folder = output::visible(&record.folder.display().to_string());
        let is_inside = record.file.parent() == Some(&record.folder);
        text += &if is_inside { format!("{file}\n") } else { format!("{file} in {folder}\n") };
        for grant in &record.grants {
            text += &format!("  {}\n", consent::text_of(&grant.power));
        }
    }
    output::print(&text)
}
