//! A run as a person recognizes it: its first message, its folder, its age, its cost and its size.

use forge_domain::{CheckpointStore, Conversation, Message, Spent, StoreError};
use serde::Serialize;

use super::{RunSummary, runs};

/// Most characters of a title.
const TITLE: usize = 200;

/// A run as people recognize it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunCard {
    /// Its summary.
    #[serde(flatten)]
    pub summary: RunSummary,
    /// The beginning of its first message, on one line; `None` if that is not known.
    pub title: Option<String>,
    /// The folder in which it works.
    pub folder: Option<String>,
    /// The tokens and the cost of all its agents until now.
    pub spent: Spent,
}

/// Lists the runs, those of `folder` first, and of these the one that was saved last; at most `limit`.
///
/// Of a run, only the latest [`forge_domain::CheckpointOutline`] of each agent is read, so that long
/// conversations cost nothing.
///
/// # Errors
/// [`StoreError`] if the store fails.
pub async fn run_cards(
    store: &dyn CheckpointStore,
    folder: Option<&str>,
    limit: usize,
) -> Result<Vec<RunCard>, StoreError> {
    let mut cards = Vec::new();
    for summary in runs(store).await? {
        let Some(latest) = summary.latest.as_ref().map(|latest| latest.key) else {
            cards.push(RunCard { summary, title: None, folder: None, spent: Spent::default() });
            continue;
        };
        // The latest checkpoint of a run that is being written may be gone by now.
        let outline = match store.outline(latest).await {
            Err(StoreError::NotFound { .. }) => continue,
            read => read?,
        };
        let mut spent = outline.progress.spent;
        for key in summary.agents.values().filter(|key| **key != latest) {
            match store.outline(*key).await {
                // An agent that works at the moment has a later one by now.
                Err(StoreError::NotFound { .. }) => {}
                read => spent += read?.progress.spent,
            }
        }
        let own = outline.configuration.0.get("folder").and_then(|folder| folder.as_str());
        cards.push(RunCard {
            title: outline.task.as_ref().and_then(task_title),
            folder: own.map(str::to_owned),
            spent,
            summary,
        });
    }
    // Only now is it known which runs are the folder's.
    cards.sort_by_key(|card| folder.is_some() && card.folder.as_deref() != folder);
    cards.truncate(limit);
    Ok(cards)
}

/// Returns the beginning of the first message of the user's, on one line.
pub fn title(conversation: &Conversation) -> Option<String> {
    conversation.task().and_then(task_title)
}

/// Returns the beginning of a message on one line.
fn task_title(task: &Message) -> Option<String> {
    let text = task.to_text();
    let words: Vec<&str> = text.split_whitespace().collect();
    let title: String = words.join(" ").chars().take(TITLE).collect();
    Some(title).filter(|title| !title.is_empty())
}
