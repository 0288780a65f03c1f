//! When checkpoints are saved, where, and for how long: `checkpoint:` in YAML.

use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;

use jiff::SignedDuration;
use merge::Merge;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The checkpoint settings of a run. Every field may be unset, which differs from its default: a later
/// layer's unset field keeps what an earlier layer set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Merge)]
#[serde(deny_unknown_fields)]
#[merge(strategy = later)]
#[schemars(extend("dependencies" = {"max_age": ["store"], "max_size": ["store"]}))]
pub struct CheckpointPolicy {
    /// Checkpoint store: sqlite:///PATH, postgres://USER@HOST/DATABASE, memory:, the name of an environment
    /// variable that holds one as $NAME, or none. Unset: one file in the user's state folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["sqlite:///var/lib/forge/runs.db"]))]
    pub store: Option<StoreSetting>,
    /// Number of model calls per checkpoint. A save costs about a millisecond.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 1, "examples" = [3]))]
    pub interval: Option<NonZeroUsize>,
    /// Points at which checkpoints are saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend(
        "default" = ["iteration", "compaction", "interrupt", "end"],
        "examples" = [["iteration", "compaction", "interrupt", "end"]]
    ))]
    pub on: Option<BTreeSet<CheckpointMoment>>,
    /// Reaction when a run is resumed with another configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "continue", "examples" = ["refuse"]))]
    pub on_change: Option<OnChange>,
    /// Number of checkpoints to keep for each agent when the run ends. Unset: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [8]))]
    pub keep_last: Option<NonZeroUsize>,
    /// Age above which checkpoints of the whole store are deleted when the run ends; needs `store`. Unset:
    /// none are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["30d"]))]
    pub max_age: Option<Age>,
    /// Size of the store above which whole runs are deleted when the run ends, the oldest first; needs
    /// `store`. Unset: none are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["500MB"]))]
    pub max_size: Option<ByteCount>,
}

/// The checkpoint settings in which one agent differs from the workflow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentCheckpoints {
    /// Number of model calls per checkpoint. Unset: as in the workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [3]))]
    pub interval: Option<NonZeroUsize>,
    /// Points at which checkpoints are saved; with an empty list, none of this agent are. Unset: as in the
    /// workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [["iteration", "compaction", "interrupt", "end"]]))]
    pub on: Option<BTreeSet<CheckpointMoment>>,
}

/// A point of a run at which a checkpoint may be saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckpointMoment {
    /// A task was given, or a model call and the tools that it called are done.
    Iteration,
    /// The context was compacted.
    Compaction,
    /// The run was interrupted, or failed.
    Interrupt,
    /// The run came to its end.
    End,
}

impl CheckpointMoment {
    /// Every moment.
    pub const ALL: [Self; 4] = [Self::Iteration, Self::Compaction, Self::Interrupt, Self::End];
}

/// The reaction to a run that is resumed with another configuration than it was saved with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnChange {
    /// The run is not resumed.
    Refuse,
    /// The run continues with the current configuration, and the difference is shown.
    #[default]
    Continue,
    /// A new run starts with the saved state.
    Fork,
}

/// The points at which checkpoints of one agent are made, with all defaults filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointPoints {
    interval: NonZeroUsize,
    on: BTreeSet<CheckpointMoment>,
}

impl CheckpointPolicy {
    /// Returns the points of an agent with the settings `own`.
    pub fn points(&self, own: Option<&AgentCheckpoints>) -> CheckpointPoints {
        let interval = own.and_then(|own| own.interval).or(self.interval);
        let on = own.and_then(|own| own.on.as_ref()).or(self.on.as_ref());
        CheckpointPoints {
            interval: interval.unwrap_or(NonZeroUsize::MIN),
            on: on.map_or_else(|| CheckpointMoment::ALL.into(), Clone::clone),
        }
    }

    /// Returns keys that would delete what other projects keep in the store that all share.
    pub fn keys_beyond_project(&self) -> Vec<&'static str> {
        let set = [("max_age", self.max_age.is_some()), ("max_size", self.max_size.is_some())];
        let reaching = set.into_iter().filter(|(_, is_set)| self.store.is_none() && *is_set);
        reaching.map(|(key, _)| key).collect()
    }
}

impl CheckpointPoints {
    /// Returns the number of model calls per checkpoint.
    pub const fn interval(&self) -> NonZeroUsize {
        self.interval
    }

    /// Returns the moments at which checkpoints are saved.
    pub const fn moments(&self) -> &BTreeSet<CheckpointMoment> {
        &self.on
    }

    /// Checks whether a checkpoint is due at `moment`, after `iterations` model calls.
    pub fn is_due(&self, moment: CheckpointMoment, iterations: usize) -> bool {
        let is_time = moment != CheckpointMoment::Iteration || iterations.is_multiple_of(self.interval.get());
        is_time && self.on.contains(&moment)
    }
}

/// A checkpoint store, as it is written.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(inline, with = "String", extend("pattern" = r"^(none$|\$.|memory:|sqlite:|postgres(ql)?://)"))]
pub enum StoreSetting {
    /// Nowhere: `none`.
    Nowhere,
    /// At this URL.
    Url(String),
    /// At the URL that this environment variable holds: `$NAME`.
    Variable(String),
}

/// A text that names no store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid checkpoint store (expected sqlite:///PATH, postgres://USER@HOST/DATABASE, memory:, the name of \
     an environment variable as $NAME, or none)"
)]
pub struct StoreSettingError;

impl FromStr for StoreSetting {
    type Err = StoreSettingError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const SCHEMES: [&str; 4] = ["memory:", "sqlite:", "postgres://", "postgresql://"];
        match (text, text.strip_prefix('$')) {
            ("none", _) => Ok(Self::Nowhere),
            (_, Some(name)) if !name.is_empty() => Ok(Self::Variable(name.to_owned())),
            (url, None) if SCHEMES.iter().any(|scheme| url.starts_with(scheme)) => {
                Ok(Self::Url(url.to_owned()))
            }
            _ => Err(StoreSettingError),
        }
    }
}

impl TryFrom<String> for StoreSetting {
    type Error = StoreSettingError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<StoreSetting> for String {
    fn from(store: StoreSetting) -> Self {
        store.to_string()
    }
}

impl fmt::Display for StoreSetting {
    /// Writes it as in the file, without a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nowhere => f.write_str("none"),
            Self::Variable(name) => write!(f, "${name}"),
            Self::Url(url) => {
                match url.split_once("://").map(|(scheme, rest)| (scheme, rest.rsplit_once('@'))) {
                    Some((scheme, Some((user, place)))) => {
                        let user = user
                            .split_once(':')
                            .map_or_else(|| user.to_owned(), |(user, _)| format!("{user}:…"));
                        write!(f, "{scheme}://{user}@{place}")
                    }
                    _ => f.write_str(url),
                }
            }
        }
    }
}

impl fmt::Debug for StoreSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A maximum age: a whole number of minutes, hours, days or weeks, such as `30d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(inline, with = "String", extend("pattern" = r"^[0-9]+[mhdw]$"))]
pub struct Age {
    n: u32,
    unit: char,
}

/// A text that is not an age.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid age '{0}' (expected a number from 1 with a unit, such as 90m, 12h, 30d or 8w)")]
pub struct AgeError(String);

impl Age {
    /// Returns it as a duration.
    pub fn as_duration(self) -> SignedDuration {
        let minutes = match self.unit {
            'm' => 1,
            'h' => 60,
            'd' => 24 * 60,
            _ => 7 * 24 * 60,
        };
        SignedDuration::from_mins(i64::from(self.n) * minutes)
    }
}

impl TryFrom<String> for Age {
    type Error = AgeError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        let unit = text.chars().last().filter(|unit| "mhdw".contains(*unit));
        let n = text.get(..text.len().saturating_sub(1)).and_then(|digits| digits.parse().ok());
        match (n.filter(|n| *n > 0), unit) {
            (Some(n), Some(unit)) => Ok(Self { n, unit }),
            _ => Err(AgeError(text)),
        }
    }
}

impl From<Age> for String {
    fn from(age: Age) -> Self {
        format!("{}{}", age.n, age.unit)
    }
}

/// A number of bytes: `500MB`, in thousands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(inline, with = "String", extend("pattern" = r"^[0-9]+ *[KMG]B$"))]
pub struct ByteCount(u64);

/// A text that is not a number of bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid size '{0}' (expected a number from 1 with a unit, such as 500MB or 2GB)")]
pub struct ByteCountError(String);

/// The units of a size, the largest first.
const UNITS: [(&str, u64); 3] = [("GB", 1_000_000_000), ("MB", 1_000_000), ("KB", 1_000)];

impl ByteCount {
    /// Returns the plain number.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

impl TryFrom<String> for ByteCount {
    type Error = ByteCountError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        let sized = UNITS.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)));
        let n = sized.and_then(|(digits, factor)| digits.trim().parse::<u64>().ok()?.checked_mul(*factor));
        n.filter(|n| *n > 0).map(Self).ok_or(ByteCountError(text))
    }
}

impl From<ByteCount> for String {
    fn from(count: ByteCount) -> Self {
        let unit = UNITS.iter().find(|(_, factor)| count.0.is_multiple_of(*factor));
        unit.map_or_else(|| count.0.to_string(), |(unit, factor)| format!("{}{unit}", count.0 / factor))
    }
}

/// Overrides a value by the later layer's, if that is set.
pub(crate) fn later<T>(base: &mut Option<T>, later: Option<T>) {
    if later.is_some() {
        *base = later;
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn policy(yaml: &str) -> CheckpointPolicy {
        serde_saphyr::from_str(yaml).unwrap()
    }

    #[test]
    fn what_is_written_is_read_and_written_again() {
        for yaml in [
            "{}",
            "store: none",
            "store: $STORE",
            "store: sqlite:///a.db",
            "interval: 3",
            "on: [iteration, compaction, interrupt, end]",
            "on: []",
            "on_change: refuse",
            "{ store: 'memory:', keep_last: 5, max_age: 30d, max_size: 500MB }",
        ] {
            let written = serde_json::to_string(&policy(yaml)).unwrap();
            assert_eq!(serde_json::from_str::<CheckpointPolicy>(&written).unwrap(), policy(yaml), "{yaml}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (yaml, expected) in [
            ("interval: 0", "nonzero"),
            ("on: [sometimes]", "sometimes"),
            ("on_change: panic", "panic"),
            ("store: runs.db", "invalid checkpoint store"),
            ("store: $", "invalid checkpoint store"),
            ("store: redis://me:secret@host", "invalid checkpoint store"),
            ("max_age: 30", "invalid age '30'"),
            ("max_age: 0d", "invalid age '0d'"),
            ("max_age: ä", "invalid age 'ä'"),
            ("max_size: 5", "invalid size '5'"),
            ("max_size: 99999999999999GB", "invalid size"),
            ("keep: 5", "keep"),
        ] {
            let error = serde_saphyr::from_str::<CheckpointPolicy>(yaml).unwrap_err().to_string();
            assert!(error.contains(expected), "{yaml}: {error}");
        }
    }

    #[test]
    fn a_password_is_not_shown() {
        for (url, expected) in [
            ("postgres://me:secret@host/runs", "postgres://me:…@host/runs"),
            ("postgres://me@host/runs", "postgres://me@host/runs"),
            ("sqlite:///a.db", "sqlite:///a.db"),
        ] {
            let store: StoreSetting = url.parse().unwrap();
            assert_eq!((store.to_string(), format!("{store:?}")), (expected.to_owned(), expected.to_owned()));
        }
    }

    #[test]
    fn a_checkpoint_is_due_at_every_so_many_calls_and_at_what_is_named() {
        use CheckpointMoment::{Compaction, End, Iteration};
        let own = |yaml: &str| serde_saphyr::from_str::<AgentCheckpoints>(yaml).unwrap();
        for (yaml, agent, moment, iterations, expected) in [
            ("{}", None, Iteration, 1, true),
            ("interval: 3", None, Iteration, 2, false),
            ("interval: 3", None, Iteration, 3, true),
            ("interval: 3", None, Compaction, 2, true),
            ("interval: 3", Some("interval: 2"), Iteration, 2, true),
            ("on: [end]", None, Iteration, 3, false),
            ("on: [end]", None, End, 3, true),
            ("on: [end]", Some("on: [iteration]"), End, 3, false),
            ("{}", Some("on: []"), End, 3, false),
        ] {
            let points = policy(yaml).points(agent.map(own).as_ref());
            assert_eq!(
                points.is_due(moment, iterations),
                expected,
                "{yaml} {agent:?} {moment:?} {iterations}"
            );
        }
    }

    #[test]
    fn ages_and_sizes_are_what_they_say() {
        let age = |text: &str| Age::try_from(text.to_owned()).unwrap().as_duration().as_hours();
        assert_eq!(["60m", "12h", "30d", "2w"].map(age), [1, 12, 720, 336]);
        let size = |text: &str| ByteCount::try_from(text.to_owned()).unwrap().as_u64();
        assert_eq!(["1KB", "500MB", "2GB"].map(size), [1_000, 500_000_000, 2_000_000_000]);
    }

    #[test]
    fn a_later_layer_wins_key_by_key() {
        let mut merged = policy("{ store: none, interval: 3 }");
        merged.merge(policy("{ interval: 5, keep_last: 2 }"));
        assert_eq!(merged, policy("{ store: none, interval: 5, keep_last: 2 }"));
    }

    #[test]
    fn what_reaches_beyond_the_run_needs_a_store_of_its_own() {
        for (yaml, expected) in [
            ("{ keep_last: 5 }", &[][..]),
            ("{ max_age: 1d, max_size: 1MB }", &["max_age", "max_size"]),
            ("{ max_age: 1d, store: 'sqlite:a.db' }", &[]),
        ] {
            assert_eq!(policy(yaml).keys_beyond_project(), expected, "{yaml}");
        }
    }
}
