//! The user's own runs as sessions.

use std::sync::Arc;

use forge_app::{latest_of_run, runs};
use forge_domain::{AgentSession, Checkpoint, CheckpointStore, Conversation, Message, RunId};
use forge_infra::{SqlitePlace, StoreUrl};

use super::OWN;
use super::title::title;
use crate::run::{block_on, select_here};
use crate::setup::store;

/// The store of the user's own runs.
pub(crate) struct OwnRuns {
    store: Arc<dyn CheckpointStore>,
}

/// The facts about a run that only its state tells.
pub(crate) struct RunFacts {
    pub(crate) title: Option<String>,
    pub(crate) folder: Option<String>,
    pub(crate) compactions: usize,
}

impl OwnRuns {
    /// Opens the store that runs of this folder use, and lists its runs. `None` if there is no such file; a
    /// database on another machine is not asked.
    pub(super) fn find() -> anyhow::Result<Option<(Self, Vec<AgentSession>)>> {
        let Some(StoreUrl::Sqlite(place)) = store::of_runs(None, None)? else { return Ok(None) };
        if !place.path.exists() {
            return Ok(None);
        }
        block_on(async { Self::list(place).await }).map(Some)
    }

    async fn list(place: SqlitePlace) -> anyhow::Result<(Self, Vec<AgentSession>)> {
        let path = place.path.clone();
        let store = store::open_for_reading(&StoreUrl::Sqlite(place)).await?;
        let found = runs(&*store).await?;
        let session = |run: &forge_app::RunSummary| {
            let latest = run.latest.as_ref()?;
            Some(AgentSession {
                agent: OWN,
                id: run.run.to_string(),
                path: path.clone(),
                part: Some(run.run.to_string()),
                changed: latest.created_at,
                bytes: 0,
                title: None,
                folder: None,
                tokens: Some(latest.estimated_tokens.as_u64()),
            })
        };
        Ok((Self { store }, found.iter().filter_map(session).collect()))
    }

    /// Reads the latest state of a run; `None` if it cannot be read.
    fn latest(&self, run: &str) -> Option<Checkpoint> {
        let run = RunId::new(run).ok()?;
        let load = async {
            let latest = latest_of_run(&*self.store, &run, None).await?;
            Ok(self.store.load(latest.info.key).await?)
        };
        block_on(load).ok()
    }

    /// Returns the facts about a run.
    pub(super) fn facts(&self, run: &str) -> Option<RunFacts> {
        let snapshot = self.latest(run)?.snapshot;
        let conversation = &snapshot.conversation;
        let title = conversation.task().and_then(|task| title(&task.to_text()));
        let folder = snapshot.configuration.0.get("folder").and_then(|folder| folder.as_str());
        Some(RunFacts {
            title,
            folder: folder.map(str::to_owned),
            compactions: conversation.compactions().count(),
        })
    }
}

/// Returns the messages that the model would see of a run, and the conversation that has all of them.
pub(crate) fn view_of_run(word: &str) -> anyhow::Result<(Vec<Message>, Conversation)> {
    let load = async {
        let url = store::named_or_of_runs(None, None)?;
        let store = store::open_for_reading(&url).await?;
        let selected = select_here(&*store, word, None).await?;
        Ok::<_, anyhow::Error>(store.load(selected.info.key).await?.snapshot.conversation)
    };
    let conversation = block_on(load)?;
    let messages = conversation.view().messages().iter().map(|message| message.message().clone()).collect();
    Ok((messages, conversation))
}
