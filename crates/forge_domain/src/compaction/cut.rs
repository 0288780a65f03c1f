//! The shortening of single messages: to how much, and how.

use super::asked_lines::AskedLines;
use super::pin::Pins;
use super::short_text::{SHORTEST, head_and_tail_of, readable_text, with_short_arguments};
use crate::{Content, Context, ContextMessage, Edit, Part, TokenCounter, Tokens};

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
    /// The tokens of its images and files, of which nothing is left where it is shortened.
    pub(crate) images: Tokens,
}

impl Item {
    /// Returns its tokens at a level of `most` for all.
    fn cut_to(&self, most: u64) -> Tokens {
        self.tokens.min(self.least.max(self.beside + Tokens::new(most)))
    }
}

/// The most levels that are tried: of more images, several leave at once.
const MOST_LEVELS: usize = 256;

/// Returns the cuts that save `excess`, the largest items first down to one level for all, and the least that
/// they save. If even the least of all of them is too much, all are cut to their least. What stands beside
/// the part that is shortened is not counted: a few words beside ten calls are no large item. A message that
/// is cut loses its images, the oldest first, and only then its text.
pub(crate) fn level(items: &[Item], excess: Tokens, of: CutOf) -> (Vec<Cut>, Tokens) {
    let mut bare = items.to_vec();
    let mut left = excess;
    let at_once = 1 + items.len() / MOST_LEVELS;
    let most = loop {
        let most = highest_level(&bare, left);
        let is_reached = |item: &&mut Item| item.images > Tokens::ZERO && item.cut_to(most) < item.tokens;
        let mut reached: Vec<&mut Item> = bare.iter_mut().filter(is_reached).collect();
        if reached.is_empty() {
            break most;
        }
        reached.sort_unstable_by_key(|item| item.position);
        for oldest in reached.into_iter().take(at_once) {
            left = left - oldest.images;
            oldest.tokens = oldest.tokens - oldest.images;
            oldest.images = Tokens::ZERO;
        }
    };
    let cut = items.iter().zip(&bare).map(|(item, bare)| (item, bare.cut_to(most)));
    let saved: Tokens = cut.clone().map(|(item, most)| item.tokens - most).sum();
    let cuts = cut
        .filter(|(item, most)| *most < item.tokens)
        .map(|(item, most)| Cut { position: item.position, most, of })
        .collect();
    (cuts, saved)
}

/// Returns the highest level at which `items` save `excess`; zero if there is none.
fn highest_level(items: &[Item], excess: Tokens) -> u64 {
    let saved_at = |most: u64| -> Tokens { items.iter().map(|item| item.tokens - item.cut_to(most)).sum() };
    let (mut low, mut high) = (0, items.iter().map(|item| item.tokens.as_u64()).max().unwrap_or(0));
    // `low` always saves enough if any level does.
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if saved_at(middle) >= excess { low = middle } else { high = middle - 1 }
    }
    low
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

/// A text of more characters is counted few times: it need not fill the last of its room.
const LARGE: usize = 128 * 1_024;

/// Returns the message with its text cut to the shortest, and as much of its calls' arguments as `most`
/// allows.
fn shorten_arguments(message: &ContextMessage, most: Tokens, counter: &dyn TokenCounter) -> ContextMessage {
    let cut = cut_to_shortest(message, counter);
    let cut = cut.as_ref().unwrap_or(message);
    let mut shortest = with_shortest_arguments(cut, counter);
    let longest = cut.message().calls().iter().map(|call| call.arguments.len()).max().unwrap_or(0);
    let (mut low, mut high) = (0, longest);
    while low < high && (longest <= LARGE || high - low > low / 32) {
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

/// Returns the message in at most `most` tokens, its text shortened to about so many characters by `short`;
/// its text whole if it is enough that the images beside it leave.
fn shortened_by(
    message: &ContextMessage,
    most: Tokens,
    counter: &dyn TokenCounter,
    short: impl Fn(&str, usize) -> String,
) -> Option<ContextMessage> {
    let text = readable_text(message.message());
    let n_chars = text.chars().count() as u64;
    let tokens = message.tokens() - images_of(message, counter);
    if tokens <= most {
        return Some(ContextMessage::count(message.message().with_content(text), counter));
    }
    let tokens = tokens.as_u64().max(1);
    let mut keep = n_chars * most.as_u64() / tokens;
    // The part that is taken away at least; of a large text a larger one each time.
    let mut least = 16;
    while keep > 0 {
        let with =
            ContextMessage::count(message.message().with_content(short(&text, keep as usize)), counter);
        if with.tokens() <= most {
            return Some(with);
        }
        // The marker and the texture of head and tail cost more than the average: take what is over, and some
        // more.
        let over = (with.tokens() - most).as_u64() * n_chars / tokens;
        keep = keep.saturating_sub(over.max(keep / least).max(1));
        if keep > LARGE as u64 {
            least = (least / 2).max(2);
        }
    }
    None
}

/// Returns the tokens of the images and files of a message.
pub(crate) fn images_of(message: &ContextMessage, counter: &dyn TokenCounter) -> Tokens {
    match message.message().content() {
        Some(Content::Parts(parts)) if parts.iter().any(|part| matches!(part, Part::Media(_))) => {
            let text = message.message().with_content(readable_text(message.message()));
            message.tokens() - ContextMessage::count(text, counter).tokens()
        }
        _ => Tokens::ZERO,
    }
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
    with_shortest_arguments(cut.as_ref().unwrap_or(message), counter)
}

/// Returns the message with the texts in its calls' arguments cut to the shortest, if that is shorter.
fn with_shortest_arguments(cut: &ContextMessage, counter: &dyn TokenCounter) -> ContextMessage {
    let shortest = with_short_arguments(cut.message(), 0).map(|short| ContextMessage::count(short, counter));
    shortest.filter(|short| short.tokens() < cut.tokens()).unwrap_or_else(|| cut.clone())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Mutex;

    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;
    use crate::{Characters, Message, ToolCall, ToolName};

    /// A counter of characters that notes the lengths of the long texts.
    #[derive(Default)]
    struct Noting(Mutex<BTreeSet<usize>>);

    impl TokenCounter for Noting {
        fn count(&self, text: &str) -> Tokens {
            if text.len() > 50_000 {
                self.0.lock().unwrap().insert(text.len());
            }
            Characters.count(text)
        }
    }

    #[test]
    fn long_arguments_are_counted_few_times() {
        let call = ToolCall {
            id: "c".into(),
            name: ToolName::new("write").unwrap(),
            arguments: json!({"text": "x".repeat(1 << 20)}).to_string(),
        };
        let message = ContextMessage::count(Message::calling(vec![call]), &Characters);
        let (counter, most) = (Noting::default(), Tokens::new(100_000));
        let short = shorten_arguments(&message, most, &counter).tokens();
        assert!(short <= most && short > Tokens::new(90_000), "{short:?}");
        let n_tries = counter.0.lock().unwrap().len();
        assert!(n_tries < 13, "{n_tries}");
    }

    #[test]
    fn images_leave_before_the_text_beside_them() {
        let text = "Still blank when the video is off.";
        let image = Part::Media(json!({"type": "image_url", "image_url": {"url": "https://a.b/c.png"}}));
        let message = Message::user(Content::Parts(vec![image, Part::Text(text.to_owned())]));
        let message = ContextMessage::count(message, &Characters);
        let images = images_of(&message, &Characters);
        let whole = message.tokens() - images;
        let shortened = |most: Tokens| {
            let short = head_and_tail_within(&message, most, &Characters);
            short.map(|short| short.message().to_text())
        };
        let expected = Some(format!("[attachment left out]\n{text}"));
        assert_eq!(images, Tokens::new(85 - 22), "a few words stand for the image");
        assert_eq!(shortened(message.tokens() - Tokens::new(1)), expected);
        assert_eq!(shortened(whole), expected);
        assert_ne!(shortened(whole - Tokens::new(1)), expected);
        let plain = ContextMessage::count(Message::user(text), &Characters);
        assert_eq!(images_of(&plain, &Characters), Tokens::ZERO);
    }
}
