//! The tokens that a server reports of a reply, and what they tell of the window of the model.

use forge_domain::{ProviderError, Reply, Tokens, WindowSource};

use super::Turn;
use crate::engine::is_absurd;
use crate::{Engine, RunError};

/// Removes figures that cannot be true, which is reported once: the call counts as one without any. From then
/// on, no figure of the same server that is more than twice our count is believed.
pub(super) fn drop_absurd_usage(turn: &mut Turn<'_, '_>, sent: Tokens, reply: &mut Reply) {
    let Some(usage) = reply.usage.filter(|_| !turn.engine.is_playback) else { return };
    let Engine { limits, events, .. } = turn.engine;
    let (window, model) = (turn.setup.limits.budget.window(), turn.setup.model());
    if is_absurd(usage, sent, window) {
        limits.distrust(model);
        turn.work.conversation.forget_usage(model);
        events.notice_once(&format!(
            "`{model}` reports more tokens than its window has; Forge counts such calls itself"
        ));
    } else if !limits.is_distrusted(model) || usage.prompt_tokens.share(1, 2) <= sent {
        return;
    }
    reply.usage = None;
}

/// Learns the window of the model, which has answered, if its server could not tell it before. Returns
/// whether it was asked.
pub(super) async fn learn_window(turn: &mut Turn<'_, '_>) -> Result<bool, RunError> {
    let Engine { catalog, services, events, .. } = turn.engine;
    let is_asked = turn.setup.window_source == WindowSource::Assumed
        && catalog.learn_late(services, turn.setup.model(), events).await;
    if is_asked {
        turn.setup = turn.engine.setup(turn.agent)?;
    }
    Ok(is_asked)
}

/// Returns the error of a prompt that the server silently cut, as its count shows: the model read neither
/// the task nor its orders. Where the window is known, a prompt fits.
pub(super) fn silent_cut(turn: &Turn<'_, '_>, sent: Tokens, reply: &Reply) -> Option<ProviderError> {
    let read = reply.usage?.prompt_tokens;
    let may_be_cut = turn.setup.window_source == WindowSource::Assumed && !turn.engine.is_playback;
    let is_cut = may_be_cut && turn.engine.limits.is_cut(&turn.agent.id, turn.setup.model(), sent, read);
    is_cut.then(|| ProviderError::ContextTooLong {
        need: Some(sent),
        window: Some(read),
        message: format!("the server reads {read} tokens of a prompt and silently drops the rest"),
    })
}
