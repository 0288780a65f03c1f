//! Deprecation warnings about the transforms of earlier versions, for a run and for a check of the
//! configuration.

use forge_domain::{Agent, Transform};
use forge_services::workflow::Finding;

/// The warning about transforms of type `assistant`.
const ASSISTANT_IS_DEPRECATED: &str =
    "Transform::Assistant is deprecated. Use the compact field on Agent instead.";
/// The warning about other transforms.
const OTHERS_ARE_DROPPED: &str = "transforms are deprecated: `user` and `pass_through` still run, but have no automatic \
     replacement";

/// Returns the deprecated parts of `agent`, each once and at its first place. None of them is an error.
pub fn deprecations(agent: &Agent) -> Vec<Finding> {
    let transforms = agent.transforms.as_deref().unwrap_or_default();
    let path = format!("agents.{}.transforms", agent.id);
    let first = |is_meant: fn(&Transform) -> bool, what: &str, hint: &str| {
        let place = transforms.iter().position(is_meant)?;
        Some(Finding { path: format!("{path}[{place}]"), what: what.to_owned(), hint: Some(hint.to_owned()) })
    };
    let both = (!transforms.is_empty() && agent.compact.is_some()).then(|| Finding {
        path: path.clone(),
        what: format!(
            "the agent `{}` has both `transforms` and `compact`: before each call its transforms run, then it is compacted",
            agent.id
        ),
        hint: None,
    });
    let by_hand = "remove it: `compact` does its work";
    let rewritten = "`forge config migrate` rewrites it";
    let instead = if agent.compact.is_some() { by_hand } else { rewritten };
    let each = [
        first(Transform::is_assistant, ASSISTANT_IS_DEPRECATED, instead),
        first(
            |transform| !transform.is_assistant(),
            OTHERS_ARE_DROPPED,
            "`forge config migrate` shows what to write instead",
        ),
        both,
    ];
    each.into_iter().flatten().collect()
}
