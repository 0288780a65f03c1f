//! The records of consent in the user's state folder. Each project file has one of its own, which only its
//! owner may read or write. Deleting it revokes the consent, even while another process writes others.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use forge_infra::{is_of_user, write_whole};
use forge_services::workflow::Power;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{Demand, ProjectPlace};
use crate::failure::Misconfigured;
use crate::places;

/// The folder of the records, in the user's state folder.
const FOLDER: &str = "trust";
/// The version of the record's format.
const VERSION: u32 = 1;

/// A demand with consent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Grant {
    /// The power.
    #[serde(flatten)]
    pub(crate) power: Power,
    /// The hash of the key's whole value.
    pub(crate) mark: String,
}

/// The consent for one file in one folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    version: u32,
    /// The folder in which the commands run.
    pub(crate) folder: PathBuf,
    /// The file.
    pub(crate) file: PathBuf,
    /// The grants.
    pub(crate) grants: Vec<Grant>,
}

impl Record {
    /// Returns the record of a file with consent to all its demands.
    pub(crate) fn of(place: &ProjectPlace, demands: &[Demand]) -> Self {
        let grants = demands.iter().map(|demand| demand.grant.clone()).collect();
        Self { version: VERSION, folder: place.folder.clone(), file: place.file.clone(), grants }
    }

    /// Returns the record of the file at `place`, if there is one.
    pub(crate) fn load(place: &ProjectPlace) -> Option<Self> {
        let record = read(&path_of(place)?)?;
        (record.folder == place.folder && record.file == place.file).then_some(record)
    }

    /// Writes the record, whole or not at all.
    pub(crate) fn save(&self) -> anyhow::Result<()> {
        let place = ProjectPlace { folder: self.folder.clone(), file: self.file.clone() };
        let path = path_of(&place).ok_or_else(|| {
            Misconfigured(
                "there is no home folder (HOME is not an absolute path) to keep the answer in; --trust trusts \
                 this once"
                    .to_owned(),
            )
        })?;
        let cannot = || format!("cannot keep the answer in {}", path.display());
        places::make_private_folder(&path).with_context(cannot)?;
        write_whole(&path, &serde_json::to_vec_pretty(self)?).with_context(cannot)
    }

    /// Revokes the consent for the file at `place`. Returns whether there was any.
    pub(crate) fn revoke(place: &ProjectPlace) -> anyhow::Result<bool> {
        let Some(path) = path_of(place) else { return Ok(false) };
        match std::fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(anyhow::Error::new(error).context(format!("cannot remove {}", path.display()))),
        }
    }

    /// Returns every record, by folder and file.
    pub(crate) fn all() -> Vec<Self> {
        let entries = places::state_file(FOLDER).and_then(|folder| std::fs::read_dir(folder).ok());
        let paths = entries.into_iter().flatten().flatten().map(|entry| entry.path());
        let mut records: Vec<Self> = paths.filter_map(|path| read(&path)).collect();
        records.sort_by(|one, other| (&one.folder, &one.file).cmp(&(&other.folder, &other.file)));
        records
    }
}

fn path_of(place: &ProjectPlace) -> Option<PathBuf> {
    let mut hash = Sha256::new();
    hash.update(place.folder.as_os_str().as_encoded_bytes());
    hash.update([0]);
    hash.update(place.file.as_os_str().as_encoded_bytes());
    Some(places::state_file(FOLDER)?.join(hex::encode(hash.finalize())).with_extension("json"))
}

fn read(path: &Path) -> Option<Record> {
    let file = std::fs::File::open(path).ok()?;
    let metadata = file.metadata().ok()?;
    if !is_private(&metadata) || is_of_user(&metadata) == Some(false) {
        return None;
    }
    let mut record: Record = serde_json::from_reader(std::io::BufReader::new(file)).ok()?;
    // Earlier versions stored the text as it was.
    for grant in &mut record.grants {
        grant.power = grant.power.without_secrets();
    }
    (record.version == VERSION).then_some(record)
}

/// Checks whether only its owner may write or read a record. One that came with a project, if the home folder
/// is the project's, is not valid: neither git nor an archive that others unpack preserves this and the
/// owner.
#[cfg(unix)]
fn is_private(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    metadata.mode() & 0o077 == 0
}

#[cfg(not(unix))]
fn is_private(_: &std::fs::Metadata) -> bool {
    true
}
