//! Texts that the agent says again and again, to the letter, such as that it did not understand.

use std::collections::{HashMap, HashSet};

use super::has_agent_text;
use crate::ContextMessage;

/// The fewest times that the agent says such a text.
const LEAST_TIMES: usize = 3;

/// Returns the positions of the messages in which the agent says nothing but such a text. The last of them
/// counts as any other message if it tells something: it has a number or a given name.
pub(super) fn phrases(sources: &[ContextMessage]) -> HashSet<usize> {
    let mut times: HashMap<&str, Vec<usize>> = HashMap::new();
    for (position, source) in sources.iter().enumerate().filter(|(_, source)| has_agent_text(source)) {
        times.entry(source.features().beside_calls().trim()).or_default().push(position);
    }
    let mut phrases = HashSet::new();
    for (text, positions) in times.iter().filter(|(_, positions)| positions.len() >= LEAST_TIMES) {
        let mut terms = sources[positions[0]].features().terms.iter();
        let tells = text.contains(char::is_numeric)
            || terms.any(|term| term.is_said() && term.kind().is_a_name_given());
        phrases.extend(&positions[..positions.len() - usize::from(tells)]);
    }
    phrases
}
