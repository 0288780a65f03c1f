//! What is said of the transforms of earlier versions, by a run and by a check of the configuration.

use forge_domain::{Agent, Transform};
use forge_services::workflow::Finding;

/// What is said of a workflow that still has transforms of type `assistant`.
const ASSISTANT_IS_DEPRECATED: &str =
    "Transform::Assistant is deprecated. Use the compact field on Agent instead.";
/// What is said of one that has others.
const OTHERS_ARE_DROPPED: &str = "transforms are deprecated: `user` and `pass_through` still run, but have \
     no automatic replacement";

/// What works in `agent` and will not for ever, each once and at the first place that it holds for. Nothing of it is an
/// error.
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
    let each = [
        first(Transform::is_assistant, ASSISTANT_IS_DEPRECATED, "`forge config migrate` rewrites it"),
        first(
            |transform| !transform.is_assistant(),
            OTHERS_ARE_DROPPED,
            "`forge config migrate` shows what to write instead",
        ),
        both,
    ];
    each.into_iter().flatten().collect()
}
