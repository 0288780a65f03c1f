//! A run in a list of runs: its age, its cost and its size in few columns.

use forge_app::RunCard;
use forge_domain::{CheckpointReason, Cost, Tokens};
use forge_infra::ProcessHolder;
use jiff::Timestamp;

use crate::output::visible;

/// Returns the time between two moments as people say it, such as `3 min` or `2 d`.
pub(crate) fn age(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second().saturating_sub(then.as_second()).max(0);
    match seconds {
        0..60 => "now".to_owned(),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// Returns a number of tokens in few columns, such as `12k`.
pub(crate) fn short_tokens(tokens: Tokens) -> String {
    match tokens.as_u64() {
        few @ 0..1_000 => few.to_string(),
        thousands @ 1_000..1_000_000 => format!("{}k", thousands.div_ceil(1_000)),
        millions => format!("{:.1}M", millions as f64 / 1e6),
    }
}

/// Returns the cost of a run in few columns. One whose first call failed says nothing of the price.
pub(crate) fn short_cost(card: &RunCard) -> String {
    let cost = card.spent.cost;
    let is_told = cost.unpriced_calls == 0 && !card.spent.is_nothing();
    let is_unknown = !is_told && cost.dollars == Cost::default().dollars;
    if is_unknown { "–".to_owned() } else { cost.dollars.to_string() }
}

/// Returns the state of a run in one word.
pub(crate) fn state_word(card: &RunCard) -> &'static str {
    let live = card.summary.holder.as_ref().filter(|holder| holder.is_live(&ProcessHolder::this()));
    match (live, card.summary.latest.as_ref().map(|info| info.reason)) {
        (Some(_), _) => "running",
        (None, None) => "empty",
        (None, Some(CheckpointReason::End)) => "ended",
        (None, Some(_)) => "stopped",
    }
}

/// Returns the title of a run; its agents if it has none.
pub(crate) fn title_text(card: &RunCard) -> String {
    let agents = || card.summary.agents.keys().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    visible(&card.title.clone().unwrap_or_else(agents))
}

/// Returns the folder of a run as it is shown from `folder`: nothing if it is the same one.
pub(crate) fn folder_text(card: &RunCard, folder: Option<&str>, home: Option<&str>) -> Option<String> {
    let own = card.folder.as_deref().filter(|own| Some(*own) != folder)?;
    let below = home.and_then(|home| own.strip_prefix(home)).filter(|rest| rest.starts_with('/'));
    Some(visible(&below.map_or_else(|| own.to_owned(), |rest| format!("~{rest}"))))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn an_age_and_a_size_take_few_columns() {
        let at = |second| Timestamp::from_second(second).unwrap();
        for (seconds, expected) in
            [(0, "now"), (-5, "now"), (59, "now"), (60, "1 min"), (7_200, "2 h"), (200_000, "2 d")]
        {
            assert_eq!(age(at(1_000_000), at(1_000_000 + seconds)), expected);
        }
        for (tokens, expected) in [(0, "0"), (999, "999"), (1_001, "2k"), (1_250_000, "1.2M")] {
            assert_eq!(short_tokens(Tokens::new(tokens)), expected);
        }
    }
}
