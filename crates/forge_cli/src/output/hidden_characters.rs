//! Characters that steer a terminal or are invisible: they are made visible in printed text.

use forge_domain::is_hidden;
use unicode_general_category::{GeneralCategory, get_general_category};

use super::secrets::hide_secrets;

/// Returns a name or a text of others, such as that of a tool or a file, in one line. Characters that could
/// steer a terminal or are invisible are escaped, as in `\u{1b}`.
pub(crate) fn visible(text: &str) -> String {
    escape_hidden(text, in_text)
}

/// Escapes a text like [`visible`], but keeps its lines.
pub(crate) fn visible_lines(text: &str) -> String {
    escape_hidden(text, |before, rest| if rest.starts_with(['\n', '\t']) { 1 } else { in_text(before, rest) })
}

/// Returns a line that the user is asked to consent to. Nothing stays hidden, not even characters that
/// usually are, and an unusual blank differs from the usual one.
pub(crate) fn exact(text: &str) -> String {
    escape_hidden(text, |_, _| 0)
        .chars()
        .map(|c| if is_odd_blank(c) { escape(c) } else { c.to_string() })
        .collect()
}

/// Returns a text for printing that cannot steer a terminal, except by our own colours. This is the last
/// safety net: foreign texts must be [`visible`] before, because their colours are not ours.
pub(crate) fn harmless(text: &str) -> String {
    escape_hidden(text, |before, rest| match rest.as_bytes().first() {
        Some(b'\n' | b'\t') => 1,
        Some(0x1b) => colour_at(rest),
        _ => in_text(before, rest),
    })
}

/// Returns the text with its hidden characters escaped. `kept` returns how many bytes to keep of each, given
/// the text before it and from it on.
fn escape_hidden(text: &str, kept: impl Fn(&str, &str) -> usize) -> String {
    let text = &*hide_secrets(text);
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(found) = text[at..].find(is_hidden) {
        let (before, from) = text.split_at(at + found);
        out.push_str(&text[at..before.len()]);
        let hidden = from.chars().next().unwrap_or_default();
        let n_kept = match kept(before, from) {
            0 => {
                out.push_str(&escape(hidden));
                hidden.len_utf8()
            }
            n_kept => {
                out.push_str(&from[..n_kept]);
                n_kept
            }
        };
        at = before.len() + n_kept;
    }
    out + &text[at..]
}

fn escape(c: char) -> String {
    match c {
        '\n' | '\r' | '\t' => c.escape_default().to_string(),
        c => c.escape_unicode().to_string(),
    }
}

/// Checks whether a character only looks like a blank.
fn is_odd_blank(c: char) -> bool {
    (c != ' ' && get_general_category(c) == GeneralCategory::SpaceSeparator) || c == '\u{2800}'
}

/// Returns how many bytes of a hidden character stay because a text needs it there and it hides nothing: the
/// joiner and the selector within an emoji, and joiners between letters of scripts that use them.
fn in_text(before: &str, rest: &str) -> usize {
    const JOINER: char = '\u{200d}';
    const NON_JOINER: char = '\u{200c}';
    const AS_EMOJI: char = '\u{fe0f}';
    let mut chars = rest.chars();
    let (Some(c), next) = (chars.next(), chars.next()) else { return 0 };
    let mut earlier = before.chars().rev();
    let last = earlier.next();
    // The selector stands between a symbol and what joins it to the next.
    let symbol = if last == Some(AS_EMOJI) { earlier.next() } else { last };
    let stays = match c {
        JOINER if symbol.is_some_and(is_emoji) => next.is_some_and(is_emoji),
        JOINER | NON_JOINER => last.is_some_and(is_joining) && next.is_some_and(is_joining),
        AS_EMOJI => last.is_some_and(|last| is_emoji(last) || (next == Some('\u{20e3}') && is_key(last))),
        _ => false,
    };
    if stays { c.len_utf8() } else { 0 }
}

/// Checks whether a character is a picture, or its skin tone.
fn is_emoji(c: char) -> bool {
    matches!(c, '\u{2194}'..='\u{21aa}' | '\u{231a}'..='\u{23ff}' | '\u{25aa}'..='\u{27bf}' | '\u{2934}'..='\u{2b55}'
        | '\u{203c}' | '\u{2049}' | '\u{2122}' | '\u{2139}' | '\u{a9}' | '\u{ae}' | '\u{1f000}'..='\u{1faff}')
}

/// Checks whether a character becomes a keycap with the mark for that.
fn is_key(c: char) -> bool {
    c.is_ascii_digit() || matches!(c, '#' | '*')
}

/// Checks whether a letter, or a mark on one, belongs to a script that uses joiners: Arabic, and those of
/// India and around it.
fn is_joining(c: char) -> bool {
    matches!(c, '\u{620}'..='\u{6d3}' | '\u{6d5}'..='\u{6dc}' | '\u{6de}'..='\u{6ef}' | '\u{6fa}'..='\u{6ff}' | '\u{750}'..='\u{77f}'
        | '\u{8a0}'..='\u{8e1}' | '\u{900}'..='\u{dff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17b3}'
        | '\u{17b6}'..='\u{17d3}')
}

/// Returns the length of a colour sequence at the beginning of `text`; zero if there is none.
fn colour_at(text: &str) -> usize {
    let Some(codes) = text.strip_prefix("\u{1b}[") else { return 0 };
    match codes.find(|c: char| !(c.is_ascii_digit() || c == ';')) {
        Some(end) if codes[end..].starts_with('m') => end + 3,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_steers_a_terminal_is_made_visible() {
        for (text, in_a_line, in_lines, with_colours) in [
            ("plain é 👩‍🚀", "plain é 👩‍🚀", "plain é 👩‍🚀", "plain é 👩‍🚀"),
            ("a\n\tb", "a\\n\\tb", "a\n\tb", "a\n\tb"),
            (
                "\u{1b}[31mred\u{1b}[0m",
                "\\u{1b}[31mred\\u{1b}[0m",
                "\\u{1b}[31mred\\u{1b}[0m",
                "\u{1b}[31mred\u{1b}[0m",
            ),
            ("\u{1b}[2Jgone", "\\u{1b}[2Jgone", "\\u{1b}[2Jgone", "\\u{1b}[2Jgone"),
            ("\u{1b}]0;t\u{7}x\r", "\\u{1b}]0;t\\u{7}x\\r", "\\u{1b}]0;t\\u{7}x\\r", "\\u{1b}]0;t\\u{7}x\\r"),
            ("é\u{9b}x\u{7f}", "é\\u{9b}x\\u{7f}", "é\\u{9b}x\\u{7f}", "é\\u{9b}x\\u{7f}"),
            ("\u{202e}gpj.exe", "\\u{202e}gpj.exe", "\\u{202e}gpj.exe", "\\u{202e}gpj.exe"),
            ("a\u{1b}", "a\\u{1b}", "a\\u{1b}", "a\\u{1b}"),
            ("rm\u{200b}x", "rm\\u{200b}x", "rm\\u{200b}x", "rm\\u{200b}x"),
            ("a\u{200d}b\u{fe0f}", "a\\u{200d}b\\u{fe0f}", "a\\u{200d}b\\u{fe0f}", "a\\u{200d}b\\u{fe0f}"),
            (
                "🏴\u{e0067}\u{e007f}",
                "🏴\\u{e0067}\\u{e007f}",
                "🏴\\u{e0067}\\u{e007f}",
                "🏴\\u{e0067}\\u{e007f}",
            ),
            ("❤️‍🔥 1️⃣ 👍🏽", "❤️‍🔥 1️⃣ 👍🏽", "❤️‍🔥 1️⃣ 👍🏽", "❤️‍🔥 1️⃣ 👍🏽"),
            ("❤\u{fe0f}\u{fe0f}", "❤\u{fe0f}\\u{fe0f}", "❤\u{fe0f}\\u{fe0f}", "❤\u{fe0f}\\u{fe0f}"),
            ("שלום می\u{200c}خواهم", "שלום می\u{200c}خواهم", "שלום می\u{200c}خواهم", "שלום می\u{200c}خواهم"),
        ] {
            let actual = (visible(text), visible_lines(text), harmless(text));
            assert_eq!(actual, (in_a_line.into(), in_lines.into(), with_colours.into()), "{text:?}");
        }
    }

    #[test]
    fn what_is_consented_to_hides_nothing() {
        for (text, expected) in [
            ("ls -l é 言葉 שלום", "ls -l é 言葉 שלום"),
            ("👩\u{200d}🚀 ❤\u{fe0f}", "👩\\u{200d}🚀 ❤\\u{fe0f}"),
            ("rm\u{a0}-rf\u{2800}\u{3164}x\ty\n", "rm\\u{a0}-rf\\u{2800}\\u{3164}x\\ty\\n"),
        ] {
            assert_eq!(exact(text), expected);
        }
    }

    /// Checks whether displays show nothing for a character according to Unicode, or are steered by it.
    fn must_not_pass(c: char) -> bool {
        use GeneralCategory::{Control, Format, LineSeparator, ParagraphSeparator};
        matches!(get_general_category(c), Control | Format | LineSeparator | ParagraphSeparator)
            || matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{e0000}'..='\u{e0fff}')
    }

    #[test]
    fn every_character_that_must_not_pass_is_hidden() {
        let missed = ('\0'..=char::MAX).filter(|c| must_not_pass(*c) && !is_hidden(*c));
        assert_eq!(missed.collect::<Vec<_>>(), Vec::<char>::new());
    }

    fn hostile() -> impl Strategy<Value = String> {
        let chars = prop_oneof![
            any::<char>(),
            prop::sample::select(vec![
                '\u{1b}', '[', 'm', '3', '\u{200d}', '\u{fe0f}', '👩', '🚀', 'a', 'م', '\u{200c}', '\n'
            ]),
            (0..0x3000_u32).prop_map(|code| char::from_u32(code).unwrap_or('x')),
            (0xe0000..0xe0200_u32).prop_map(|code| char::from_u32(code).unwrap_or('x')),
        ];
        prop::collection::vec(chars, 0..40).prop_map(|chars| chars.into_iter().collect())
    }

    proptest! {
        #[test]
        fn nothing_hidden_reaches_the_terminal(text in hostile()) {
            let passed = |shown: &str| -> Vec<char> { shown.chars().filter(|c| must_not_pass(*c)).collect() };
            prop_assert_eq!(passed(&exact(&text)), Vec::<char>::new());
            // In a text, what joins emoji and letters stays, where it does.
            for (shown, also) in [(visible(&text), ""), (visible_lines(&text), "\n\t")] {
                let chars: Vec<char> = shown.chars().collect();
                for at in (0..chars.len()).filter(|at| must_not_pass(chars[*at]) && !also.contains(chars[*at])) {
                    let before = at.checked_sub(1).map_or('x', |before| chars[before]);
                    let next = chars.get(at + 1).copied().unwrap_or('x');
                    let is_between = |is: fn(char) -> bool| is(before) && is(next);
                    let stays = match chars[at] {
                        '\u{200c}' => is_between(is_joining),
                        '\u{200d}' => is_between(is_joining) || ((is_emoji(before) || before == '\u{fe0f}') && is_emoji(next)),
                        '\u{fe0f}' => is_emoji(before) || next == '\u{20e3}',
                        _ => false,
                    };
                    prop_assert!(stays, "{:?} in {:?}", chars[at], shown);
                }
            }
            // Colours of our own are the only sequences that the last net lets through.
            let net = harmless(&text);
            for (at, _) in net.match_indices('\u{1b}') {
                prop_assert!(colour_at(&net[at..]) > 0, "{net:?}");
            }
        }
    }
}
