//! Names of sessions on this machine, such as `@codex:last` and `@claude:3f2`.

use std::fmt;
use std::str::FromStr;

use forge_domain::AgentSession;

/// The most sessions that an error lists.
const MOST_LISTED: usize = 5;
/// The fewest characters of an id in a name that Forge prints.
const LEAST_OF_AN_ID: usize = 6;

/// The name of a session: `@AGENT:last`, `@AGENT:here`, `@AGENT:ID`, or `@last` and `@here` of any agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionName {
    /// The agent's word; `None` for any agent.
    pub agent: Option<String>,
    /// The session among those of the agent.
    pub which: Which,
}

/// A session among those of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// The one that changed last.
    Last,
    /// The one that changed last of those in the working folder.
    Here,
    /// The one whose id begins with this.
    Id(String),
}

/// The reasons why a name means no session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionNameError {
    /// The text has another form.
    #[error("invalid session name `{0}` (expected @AGENT:last, @AGENT:here, @AGENT:ID or @last)")]
    Form(String),
    /// No agent has that word.
    #[error("unknown agent `{agent}` in `{name}` (expected one of {known})")]
    Agent {
        /// The word.
        agent: String,
        /// The name.
        name: SessionName,
        /// The known words.
        known: String,
    },
    /// Nothing has that name.
    #[error("no session is named `{name}`{known}")]
    None {
        /// The name.
        name: SessionName,
        /// The sessions of the agent, in words.
        known: String,
    },
    /// The session is kept in the working folder or one above it, and may be someone else's.
    #[error(
        "`{name}` means {path}, which is kept in a project folder and may have come with it, from someone else: \
         name it by its path"
    )]
    InFolder {
        /// The name.
        name: SessionName,
        /// The path of the session.
        path: String,
    },
    /// Several have that name.
    #[error("`{name}` names {n} sessions: write more of the id\n  {}", candidates.join("\n  "))]
    Several {
        /// The name.
        name: SessionName,
        /// The number of sessions.
        n: usize,
        /// The first ones, by their names.
        candidates: Vec<String>,
    },
}

impl fmt::Display for SessionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("@")?;
        if let Some(agent) = &self.agent {
            write!(f, "{agent}:")?;
        }
        f.write_str(match &self.which {
            Which::Last => "last",
            Which::Here => "here",
            Which::Id(id) => id,
        })
    }
}

impl FromStr for SessionName {
    type Err = SessionNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let form = || SessionNameError::Form(text.to_owned());
        let name = text.strip_prefix('@').ok_or_else(form)?;
        let (agent, word) = match name.split_once(':') {
            Some((agent, word)) => (Some(agent), word),
            None => (None, name),
        };
        let which = match (word, agent) {
            ("last", _) => Which::Last,
            ("here", _) => Which::Here,
            (id, Some(_)) if !id.is_empty() => Which::Id(id.to_owned()),
            _ => return Err(form()),
        };
        if agent.is_some_and(str::is_empty) {
            return Err(form());
        }
        Ok(Self { agent: agent.map(str::to_owned), which })
    }
}

impl SessionName {
    /// Checks that the agent is one of `known`.
    ///
    /// # Errors
    /// [`SessionNameError::Agent`] if it is not.
    pub fn check(&self, known: &[&str]) -> Result<(), SessionNameError> {
        match &self.agent {
            Some(agent) if !known.contains(&agent.as_str()) => Err(SessionNameError::Agent {
                agent: agent.clone(),
                name: self.clone(),
                known: known.join(", "),
            }),
            _ => Ok(()),
        }
    }

    /// Finds the session among `sessions`, which are sorted from the newest to the oldest. `is_here` checks
    /// whether one is of the working folder; only `@AGENT:here` asks it.
    ///
    /// # Errors
    /// [`SessionNameError`] if there is no such session, or several.
    pub fn find<'s>(
        &self,
        sessions: &'s [AgentSession],
        is_here: &dyn Fn(&AgentSession) -> bool,
    ) -> Result<&'s AgentSession, SessionNameError> {
        let mut own = sessions.iter().filter(|session| self.is_of(session));
        let found = match &self.which {
            Which::Last => own.next(),
            Which::Here => own.find(|session| is_here(session)),
            Which::Id(id) => return self.find_id(id, own.collect()),
        };
        found.ok_or_else(|| self.no_session(sessions))
    }

    fn find_id<'s>(
        &self,
        id: &str,
        own: Vec<&'s AgentSession>,
    ) -> Result<&'s AgentSession, SessionNameError> {
        if let Some(exact) = own.iter().find(|session| session.id == id) {
            return Ok(exact);
        }
        let matching: Vec<_> = own.iter().filter(|session| session.id.starts_with(id)).copied().collect();
        match matching.as_slice() {
            [one] => Ok(one),
            [] => {
                let own: Vec<AgentSession> = own.into_iter().cloned().collect();
                Err(self.no_session(&own))
            }
            several => Err(SessionNameError::Several {
                name: self.clone(),
                n: several.len(),
                candidates: several
                    .iter()
                    .take(MOST_LISTED)
                    .map(|session| format!("@{}:{}", session.agent, session.id))
                    .collect(),
            }),
        }
    }

    fn no_session(&self, sessions: &[AgentSession]) -> SessionNameError {
        let own: Vec<String> = sessions
            .iter()
            .filter(|session| self.is_of(session))
            .take(MOST_LISTED)
            .map(|session| format!("@{}:{}", session.agent, session.id))
            .collect();
        let here = if self.which == Which::Here { ": `here` means this folder, which has none" } else { "" };
        let known = match (own.is_empty(), &self.agent) {
            (true, Some(agent)) => format!(": no session of `{agent}` was found on this machine"),
            (true, None) => ": no session was found on this machine".to_owned(),
            (false, _) => format!("{here}; the newest are {}", own.join(", ")),
        };
        SessionNameError::None { name: self.clone(), known }
    }

    /// Checks whether a session is one of the agent's.
    pub fn is_of(&self, session: &AgentSession) -> bool {
        self.agent.as_deref().is_none_or(|agent| agent == session.agent)
    }
}

/// Returns the shortest name of each session that means it alone, in the same order.
pub fn short_names(sessions: &[AgentSession]) -> Vec<String> {
    let mut order: Vec<usize> = (0..sessions.len()).collect();
    let key = |n: usize| (sessions[n].agent, sessions[n].id.as_str());
    order.sort_by_key(|n| key(*n));
    let mut names = vec![String::new(); sessions.len()];
    for (at, n) in order.iter().enumerate() {
        let (agent, id) = key(*n);
        let neighbours = [at.checked_sub(1).map(|before| order[before]), order.get(at + 1).copied()];
        let shared = neighbours.into_iter().flatten().map(key).filter(|(other, _)| *other == agent);
        let shared = shared.map(|(_, other)| common_prefix(id, other)).max().unwrap_or_default();
        let length = (shared + 1).max(LEAST_OF_AN_ID);
        let short: String = id.chars().take(length).collect();
        names[*n] = format!("@{agent}:{short}");
    }
    names
}

/// Returns the number of characters that two texts begin with.
fn common_prefix(one: &str, other: &str) -> usize {
    one.chars().zip(other.chars()).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use pretty_assertions::assert_eq;

    use super::*;

    fn session(agent: &'static str, id: &str) -> AgentSession {
        AgentSession {
            agent,
            id: id.to_owned(),
            path: id.into(),
            part: None,
            changed: Timestamp::UNIX_EPOCH,
            bytes: 1,
            title: None,
            folder: None,
            tokens: None,
        }
    }

    #[test]
    fn a_name_means_one_session() {
        let sessions = [
            session("codex", "019f1d64-a"),
            session("claude", "3f2a91c0"),
            session("codex", "019f1d64-b"),
            session("claude", "3f2a"),
            session("claude", "77"),
        ];
        for (name, expected) in [
            ("@last", Ok("019f1d64-a")),
            ("@claude:last", Ok("3f2a91c0")),
            ("@claude:here", Ok("77")),
            ("@claude:3f2a9", Ok("3f2a91c0")),
            ("@claude:3f2a", Ok("3f2a")),
            ("@codex:019f1d64-b", Ok("019f1d64-b")),
            (
                "@codex:019",
                Err(
                    "`@codex:019` names 2 sessions: write more of the id\n  @codex:019f1d64-a\n  @codex:019f1d64-b",
                ),
            ),
            (
                "@claude:x",
                Err(
                    "no session is named `@claude:x`; the newest are @claude:3f2a91c0, @claude:3f2a, @claude:77",
                ),
            ),
            ("@pi:last", Err("no session is named `@pi:last`: no session of `pi` was found on this machine")),
            (
                "@codex",
                Err("invalid session name `@codex` (expected @AGENT:last, @AGENT:here, @AGENT:ID or @last)"),
            ),
            (
                "@:last",
                Err("invalid session name `@:last` (expected @AGENT:last, @AGENT:here, @AGENT:ID or @last)"),
            ),
        ] {
            let found = name
                .parse::<SessionName>()
                .and_then(|name| name.find(&sessions, &|session| session.id == "77").cloned());
            let actual = found.map(|found| found.id).map_err(|error| error.to_string());
            assert_eq!(actual, expected.map(str::to_owned).map_err(str::to_owned), "{name}");
        }
    }

    #[test]
    fn a_short_name_means_its_session() {
        let sessions = [
            session("codex", "019f1d64-a"),
            session("codex", "019f1d64-b"),
            session("claude", "3f2a91c0-77"),
            session("pi", "7"),
        ];
        let names = short_names(&sessions);
        assert_eq!(names, ["@codex:019f1d64-a", "@codex:019f1d64-b", "@claude:3f2a91", "@pi:7"]);
        for (name, session) in names.iter().zip(&sessions) {
            let name: SessionName = name.parse().unwrap();
            assert_eq!(name.to_string().parse(), Ok(name.clone()));
            assert_eq!(name.find(&sessions, &|_| true), Ok(session));
        }
    }
}
