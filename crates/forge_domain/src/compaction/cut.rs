//! The shortening of single messages: to how much, and how.

use super::asked_lines::AskedLines;
use super::pin::Pins;
use super::short_text::{SHORTEST, head_and_tail_of, readable_text, with_short_arguments};
use crate::{Context, ContextMessage, Edit, TokenCounter, Tokens};

/// A message that may have at most so many tokens; cut to the shortest if that is more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) position: usize,
    pub(crate) most: Tokens,
    pub(crate) of: CutOf,
}

/// The part of a message that is shortened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CutOf {
    /// Its text.
    Text,
    /// Its text, cut to the shortest, and then the texts in its calls' arguments.
    Arguments,
}

/// A message that may be shortened, and to how little.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    pub(crate) position: usize,
    pub(crate) tokens: Tokens,
    pub(crate) least: Tokens,
    /// The tokens of what stands beside the part that is shortened, such as the calls beside the agent's
    /// words.
    pub(crate) beside: Tokens,
}

/// Returns the cuts that save `excess`, the largest items first down to one level for all, and the least that
/// they save. If even the least of all of them is too much, all are cut to their least. What stands beside
/// the part that is shortened is not counted: a few words beside ten calls are no large item.
pub(crate) fn level(items: &[Item], excess: Tokens, of: CutOf) -> (Vec<Cut>, Tokens) {
    let cut_to = |item: &Item, most: u64| item.tokens.min(item.least.max(item.beside + Tokens::new(most)));
    let saved_at = |most: u64| -> Tokens { items.iter().map(|item| item.tokens - cut_to(item, most)).sum() };
    let (mut low, mut high) = (0, items.iter().map(|item| item.tokens.as_u64()).max().unwrap_or(0));
    // The highest level that saves enough, or zero: `low` always saves enough if any level does.
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if saved_at(middle) >= excess { low = middle } else { high = middle - 1 }
    }
    let cuts = items
        .iter()
        .filter(|item| cut_to(item, low) < item.tokens)
        .map(|item| Cut { position: item.position, most: cut_to(item, low), of })
        .collect();
    (cuts, saved_at(low))
}

/// Returns the message with its head and tail alone, and the lines between them that are asked for, in at
/// most the tokens of `cut`. Pinned text in it is cut last.
pub(crate) fn shorten(context: &Context, pins: &Pins, cut: &Cut, counter: &dyn TokenCounter) -> Option<Edit> {
    let message = &context.messages()[cut.position];
    if cut.of == CutOf::Arguments {
        return Some(Edit::Shorten {
            position: cut.position,
            with: shorten_arguments(message, cut.most, counter),
        });
    }
    let is_pinned = pins.matches(message.message());
    let least = is_pinned.then(|| pins.lines_alone(message, counter)).flatten();
    let least = least.filter(|least| least.tokens() <= cut.most);
    let with = match (is_pinned, &least) {
        (false, _) => {
            let text = readable_text(message.message());
            let asked = AskedLines::of(context, cut.position, &text);
            shortened_by(message, cut.most, counter, |_, keep| asked.shortened(keep))
        }
        (true, Some(_)) => shortened_by(message, cut.most, counter, |text, keep| pins.excerpt(text, keep)),
        (true, None) => None,
    };
    if let Some(with) = with {
        return Some(Edit::Shorten { position: cut.position, with });
    }
    least
        .or_else(|| cut_to_shortest(message, counter))
        .map(|with| Edit::Shorten { position: cut.position, with })
}

/// Returns the message with its text cut to the shortest, and as much of its calls' arguments as `most`
/// allows.
fn shorten_arguments(message: &ContextMessage, most: Tokens, counter: &dyn TokenCounter) -> ContextMessage {
    let cut = cut_to_shortest(message, counter);
    let cut = cut.as_ref().unwrap_or(message);
    let mut shortest = exchange_cut_to_shortest(message, counter);
    let (mut low, mut high) =
        (0, cut.message().calls().iter().map(|call| call.arguments.len()).max().unwrap_or(0));
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        let short =
            with_short_arguments(cut.message(), middle).map(|short| ContextMessage::count(short, counter));
        match short.filter(|short| short.tokens() <= most) {
            Some(short) => (low, shortest) = (middle, short),
            None => high = middle - 1,
        }
    }
    shortest
}

/// Returns the message with the head and the tail of its text alone, in at most `most` tokens; cut to the
/// shortest if that is more.
pub(crate) fn head_and_tail_within(
    message: &ContextMessage,
    most: Tokens,
    counter: &dyn TokenCounter,
) -> Option<ContextMessage> {
    let short = |text: &str, keep| head_and_tail_of(message.id(), text, keep);
    shortened_by(message, most, counter, short).or_else(|| cut_to_shortest(message, counter))
}

/// Returns the message in at most `most` tokens, its text shortened to about so many characters by `short`.
fn shortened_by(
    message: &ContextMessage,
    most: Tokens,
    counter: &dyn TokenCounter,
    short: impl Fn(&str, usize) -> String,
) -> Option<ContextMessage> {
    let text = readable_text(message.message());
    let n_chars = text.chars().count() as u64;
    let mut keep = n_chars * most.as_u64() / message.tokens().as_u64().max(1);
    while keep > 0 {
        let with =
            ContextMessage::count(message.message().with_content(short(&text, keep as usize)), counter);
        if with.tokens() <= most {
            return Some(with);
        }
        // The marker and the texture of head and tail cost more than the average: take what is over, and some
        // more.
        let over = (with.tokens() - most).as_u64() * n_chars / message.tokens().as_u64().max(1);
        keep = keep.saturating_sub(over.max(keep / 16).max(1));
    }
    None
}

/// Returns the message with its text cut to the shortest, if that is shorter.
pub(crate) fn cut_to_shortest(
    message: &ContextMessage,
    counter: &dyn TokenCounter,
) -> Option<ContextMessage> {
    message.message().content()?;
    let cut = ContextMessage::count(message.message().with_content(SHORTEST), counter);
    (cut.tokens() < message.tokens()).then_some(cut)
}

pub(crate) fn shortest(message: &ContextMessage, counter: &dyn TokenCounter) -> Tokens {
    cut_to_shortest(message, counter).map_or(message.tokens(), |cut| cut.tokens())
}

/// Returns the message with its text and the texts in its calls' arguments cut to the shortest.
pub(crate) fn exchange_cut_to_shortest(
    message: &ContextMessage,
    counter: &dyn TokenCounter,
) -> ContextMessage {
    let cut = cut_to_shortest(message, counter);
    let cut = cut.as_ref().unwrap_or(message);
    let shortest = with_short_arguments(cut.message(), 0).map(|short| ContextMessage::count(short, counter));
    shortest.filter(|short| short.tokens() < cut.tokens()).unwrap_or_else(|| cut.clone())
}
