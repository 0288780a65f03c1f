//! The user's consent to what a project's file would run, read and send.
//!
//! The file is read once: the bytes that are compared with the consent are the bytes that are used. The
//! answer is stored outside the folder ([`record`]). Its key is the real path of the folder and of the file.
//! It covers all that the file asks for, and the contents of the files that its commands name ([`content`]).

mod command_names;
mod content;
mod question;
mod record;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use forge_services::workflow::{Layers, Power, PowerRequest, Trust, project_secrets};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::failure::{Misconfigured, Untrusted};
use crate::output::line_wrap::FRAME;
use crate::output::{self, exact};
use crate::places::{self, MCP_FILE};

pub(crate) use self::record::{Grant, Record};

use self::question::Answer;

/// The flag `--trust`.
static IS_GIVEN: AtomicBool = AtomicBool::new(false);

/// The grants for this process only.
static ONCE: Mutex<Vec<Grant>> = Mutex::new(Vec::new());

/// Trusts the project's files in this process, if `--trust` was given.
pub(crate) fn give_once(is_given: bool) {
    IS_GIVEN.store(is_given, Ordering::Relaxed);
}

/// Checks whether the project's file is trusted for this command.
pub(crate) fn is_given_once() -> bool {
    IS_GIVEN.load(Ordering::Relaxed)
}

/// The most lines of a list that are shown without a pager.
const MOST_LINES: usize = 200;

/// The part of the project's file that a command needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// All of it. If it is not trusted, the user is asked; without a user the command fails.
    Everything,
    /// The store of checkpoints; nothing else of it is used.
    Store,
    /// Nothing that needs trust: untrusted parts are left out, which is reported.
    Nothing,
}

/// The place of the project's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProjectPlace {
    /// The real path of the folder in which its commands run.
    pub(crate) folder: PathBuf,
    /// Its own real path.
    pub(crate) file: PathBuf,
}

impl ProjectPlace {
    /// Returns the place of `file`, whose commands run in `folder`.
    pub(crate) fn of(folder: &Path, file: &Path) -> std::io::Result<Self> {
        // What is no file in a folder, such as a pipe, has no real path.
        let real = std::fs::canonicalize(file).or_else(|_| std::path::absolute(file))?;
        Ok(Self { folder: std::fs::canonicalize(folder)?, file: real })
    }

    /// Checks whether the file belongs to the user's own configuration.
    fn is_own(&self) -> bool {
        let folder = places::configuration_folder(&places::environment());
        let folder = folder.and_then(|folder| std::fs::canonicalize(folder).ok());
        folder.is_some_and(|folder| self.file.starts_with(folder))
    }
}

/// Something that a project's file asks for, and its place in the file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Demand {
    pub(crate) grant: Grant,
    /// The file's name and the line.
    pub(crate) at: String,
    /// The key that asks for it.
    pub(crate) path: String,
}

impl Demand {
    /// Returns its lines for users, without text that could steer a terminal or pass for a line of ours.
    pub(crate) fn lines(&self) -> Vec<String> {
        let text = self.grant.power.to_string();
        let mut lines = text.trim_end().split('\n');
        let first = format!("  {}: {}", exact(&self.at), exact(lines.next().unwrap_or_default()));
        std::iter::once(first).chain(lines.map(|line| format!("  {FRAME}{}", exact(line)))).collect()
    }
}

/// Returns what the project's file of `layers`, which is at `place`, asks for; nothing if the file cannot be
/// read.
pub(crate) fn demands(layers: &Layers, place: &ProjectPlace) -> Vec<Demand> {
    let name = layers.project.as_ref().map_or("", |project| project.name.as_str());
    // What is wrong with the file is told where it is loaded.
    let requests = layers.power_requests().unwrap_or_default();
    let mut demands: Vec<Demand> = Vec::new();
    for PowerRequest { power, path, says, position } in requests {
        let servers_file = layers.servers_file.as_ref().filter(|_| path.starts_with("mcp_servers"));
        let at = match (servers_file, position) {
            (Some(file), _) => file.clone(),
            // Its servers are read in another form, whose lines are no lines of the file.
            (None, _) if name.ends_with(MCP_FILE) => name.to_owned(),
            (None, Some(position)) => format!("{name}:{}", position.line),
            (None, None) => name.to_owned(),
        };
        let files = content::files_of(&power, &place.folder);
        let files = files.into_iter().map(|file| (file, Value::Null));
        for (power, says) in std::iter::once((power.clone(), says)).chain(files) {
            let grant = Grant { mark: mark(&says), power: power.without_secrets() };
            if !demands.iter().any(|known| known.grant == grant) {
                demands.push(Demand { grant, at: at.clone(), path: path.clone() });
            }
        }
    }
    demands
}

/// Returns the hash of a key's whole value, which may hold text that should not be stored twice.
fn mark(says: &Value) -> String {
    hex::encode(Sha256::digest(says.to_string()))
}

/// Checks that the project's file of `layers` contains no secret, before it is trusted. Secrets in
/// `.mcp.json` are no reason to refuse: other agents use that file as well.
///
/// # Errors
/// [`Misconfigured`] with the same errors as `forge config check`.
pub(crate) fn refuse_secrets(layers: &Layers) -> Result<(), Misconfigured> {
    let is_servers_file = layers.project.as_ref().is_some_and(|project| project.name.ends_with(MCP_FILE));
    let has_servers_file = is_servers_file || layers.servers_file.is_some();
    let found: Vec<String> = project_secrets(layers)
        .iter()
        .filter(|secret| !(has_servers_file && secret.path.starts_with("mcp_servers")))
        .map(ToString::to_string)
        .collect();
    if found.is_empty() { Ok(()) } else { Err(Misconfigured(found.join("\n\n"))) }
}

/// Decides whether the project's file of `layers`, read from `file`, is trusted as far as a command needs it.
/// Returns what is left out because it is not.
///
/// # Errors
/// Fails with [`Untrusted`] if it must be trusted and is not, and with [`Misconfigured`] if it would be and
/// contains a secret.
pub(crate) fn settle(layers: &mut Layers, file: &Path, need: Need) -> anyhow::Result<Vec<Demand>> {
    if layers.project.is_none() || IS_GIVEN.load(Ordering::Relaxed) {
        layers.trust = Trust::Granted;
        let is_own = || ProjectPlace::of(Path::new("."), file).is_ok_and(|place| place.is_own());
        if need == Need::Everything && !is_own() {
            refuse_secrets(layers)?;
        }
        return Ok(Vec::new());
    }
    layers.trust = Trust::Withheld;
    let place = ProjectPlace::of(Path::new("."), file)?;
    if place.is_own() {
        layers.trust = Trust::Granted;
        return Ok(Vec::new());
    }
    let demands = demands(layers, &place);
    // What asks for nothing loses nothing: it stays withheld, so that nothing counts that was not
    // listed.
    if demands.is_empty() {
        return Ok(Vec::new());
    }
    let record = Record::load(&place);
    let known = record.as_ref().map_or(&[][..], |record| &record.grants);
    let once = ONCE.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let is_missing = |demand: &&Demand| !known.contains(&demand.grant) && !once.contains(&demand.grant);
    let missing: Vec<Demand> = demands.iter().filter(is_missing).cloned().collect();
    let is_about_the_store = |demand: &Demand| demand.grant.power.is_about_the_store();
    let is_needed = match need {
        Need::Everything => true,
        Need::Store => missing.iter().any(is_about_the_store),
        Need::Nothing => false,
    };
    // Consent to the store stays valid whatever else has changed, so a run keeps its store.
    let is_store_known = need == Need::Store && !is_needed && demands.iter().any(is_about_the_store);
    if missing.is_empty() || is_store_known {
        layers.trust = Trust::Granted;
        return Ok(Vec::new());
    }
    let about = About { place: &place, demands: &demands, missing: &missing, record: record.as_ref() };
    match (is_needed, need) {
        (true, _) => match question::ask(&about) {
            Some(Answer::Keep) => {
                refuse_secrets(layers)?;
                Record::of(&place, &demands).save()?;
                layers.trust = Trust::Granted;
                Ok(Vec::new())
            }
            Some(Answer::Once) => {
                refuse_secrets(layers)?;
                let grants = demands.iter().map(|demand| demand.grant.clone());
                ONCE.lock().unwrap_or_else(PoisonError::into_inner).extend(grants);
                layers.trust = Trust::Granted;
                Ok(Vec::new())
            }
            Some(Answer::Without) => Ok(demands),
            Some(Answer::Stop) => Err(Untrusted("nothing was started".to_owned()).into()),
            None => Err(Untrusted(about.refusal()).into()),
        },
        (false, Need::Nothing) => {
            about.tell_what_is_left_out();
            Ok(demands)
        }
        (false, _) => Ok(demands),
    }
}

/// The facts about an untrusted file that the user is shown.
struct About<'a> {
    place: &'a ProjectPlace,
    demands: &'a [Demand],
    /// The demands without consent.
    missing: &'a [Demand],
    /// The earlier consent.
    record: Option<&'a Record>,
}

impl About<'_> {
    /// Returns the list: all that the file asks for, or the changes since it was trusted.
    fn list(&self) -> Vec<String> {
        let Some(record) = self.record else {
            return self.demands.iter().flat_map(Demand::lines).collect();
        };
        let gone =
            record.grants.iter().filter(|grant| !self.demands.iter().any(|demand| demand.grant == **grant));
        let gone = gone.map(|grant| format!("  - {}", text_of(&grant.power)));
        let new = self.missing.iter().flat_map(Demand::lines).map(|line| format!("  +{}", &line[1..]));
        gone.chain(new).collect()
    }

    fn heading(&self) -> String {
        let ProjectPlace { folder, file } = self.place;
        let shown = exact(&file.display().to_string());
        let within = match file.parent() == Some(folder.as_path()) {
            true => String::new(),
            false => format!(" in {}", exact(&folder.display().to_string())),
        };
        match self.record {
            None => format!("{shown} is not trusted{within}. It would:"),
            Some(_) => format!("{shown} has changed since you trusted it{within}:"),
        }
    }

    /// Returns the message for when no user can be asked.
    fn refusal(&self) -> String {
        let mut list = self.list();
        let n_more = list.len().saturating_sub(MOST_LINES);
        list.truncate(MOST_LINES);
        if n_more > 0 {
            list.push(format!("  … {n_more} more lines; `forge trust` shows all of it"));
        }
        format!(
            "{}\n{}\n  help: read the list, then run `forge trust` (until it changes) or add --trust (this once)",
            self.heading(),
            list.join("\n")
        )
    }

    fn tell_what_is_left_out(&self) {
        output::note(&self.heading());
        let list = self.list();
        list.iter().take(MOST_LINES).for_each(|line| output::say(line));
        output::say("  Left out here; `forge trust` allows it until it changes, --trust this once.");
    }
}

/// Returns a power in one line for users.
pub(crate) fn text_of(power: &Power) -> String {
    exact(power.to_string().trim_end())
}
