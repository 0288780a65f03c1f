//! Blocks of Markdown as lines for a terminal. Model output cannot steer it: every text is made visible after
//! parsing, so neither an escape nor an entity for one gets through.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::blocks::{Block, Kind};
use super::spans::{Paint, Span, Tone, paint_spans, wrap_spans};
use super::table::table_lines;
use crate::output::{harmless, visible};

/// The most columns of prose: longer lines are hard to read.
const WIDEST: usize = 100;

/// Returns the block's lines for a terminal of `columns`, without line ends. Code is not wrapped, so that
/// copying it gives the original.
pub(super) fn render(block: &Block, columns: usize, paint: Paint) -> Vec<String> {
    let width = columns.saturating_sub(1).clamp(8, WIDEST);
    let lines = match block.kind {
        Kind::Fence => fence(&block.lines),
        Kind::Rule => vec![vec![Span::new("─".repeat(width.min(40)), Tone::QUIET)]],
        _ => parse(block, width, paint),
    };
    lines.iter().map(|line| harmless(paint_spans(line, paint).trim_end())).collect()
}

/// Returns the code between its fences; the fences themselves only name the language.
fn fence(lines: &[String]) -> Vec<Vec<Span>> {
    let indentation = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let (first, rest) = lines.split_first().map_or(("", &[][..]), |(first, rest)| (first.as_str(), rest));
    let margin = indentation(first);
    let marks = first.trim();
    let mark = &marks[..1.min(marks.len())];
    let language = marks.trim_start_matches(['`', '~']).trim();
    let is_end = |line: &String| {
        let line = line.trim();
        line.len() >= 3 && !mark.is_empty() && line.replace(mark, "").is_empty()
    };
    let code = match rest.split_last() {
        Some((last, code)) if is_end(last) => code,
        _ => rest,
    };
    let pad = " ".repeat(margin + 2);
    let named =
        (!language.is_empty()).then(|| vec![Span::new(pad.clone() + &visible(language), Tone::QUIET)]);
    let line = |line: &String| {
        let text = &line[indentation(line).min(margin)..];
        let text = visible(&text.replace('\t', "    "));
        vec![Span::new(pad.clone(), Tone::PLAIN), Span::new(text, Tone::CODE)]
    };
    named.into_iter().chain(code.iter().map(line)).collect()
}

/// Returns the lines of anything but code.
fn parse(block: &Block, width: usize, paint: Paint) -> Vec<Vec<Span>> {
    // What stands far to the right belongs to an item that was cut off by code: it keeps its place.
    let first = block.lines.first().map(String::as_str).unwrap_or_default();
    let margin = (first.len() - first.trim_start().len()).min(width / 2);
    let dedented = block.lines.iter().map(|line| {
        let own = line.len() - line.trim_start().len();
        let text = if block.kind == Kind::List { &line[own.min(margin)..] } else { line.trim_start() };
        text.replace('\t', "    ")
    });
    let text = dedented.collect::<Vec<_>>().join("\n");
    let mut page = Page::new(width - margin, paint);
    for event in Parser::new_ext(&text, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH) {
        page.take(event);
    }
    page.flush();
    let mut lines = page.lines;
    if margin > 0 {
        lines.iter_mut().for_each(|line| line.insert(0, Span::new(" ".repeat(margin), Tone::PLAIN)));
    }
    lines
}

/// Lines that grow event by event.
struct Page {
    width: usize,
    paint: Paint,
    lines: Vec<Vec<Span>>,
    /// Text that is not in lines yet.
    open: Vec<Span>,
    tone: Tone,
    /// The number of the next item of each open list; `None` if it has bullets.
    lists: Vec<Option<u64>>,
    /// The text before the next line of an item, such as its bullet.
    bullet: Option<String>,
    quotes: usize,
    /// The target of the open link, and the start of its text.
    link: Option<(String, usize)>,
    table: Option<Vec<Vec<Vec<Span>>>>,
}

impl Page {
    fn new(width: usize, paint: Paint) -> Self {
        Self {
            width,
            paint,
            lines: Vec::new(),
            open: Vec::new(),
            tone: Tone::PLAIN,
            lists: Vec::new(),
            bullet: None,
            quotes: 0,
            link: None,
            table: None,
        }
    }

    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => self.say(&text, self.tone),
            Event::Code(text) => {
                // Without colours only its marks tell code from words.
                let text = if self.paint == Paint::Bare { format!("`{text}`") } else { text.to_string() };
                self.say(&text, Tone { code: true, ..self.tone });
            }
            Event::Html(text) | Event::InlineHtml(text) => self.say(text.trim_end_matches('\n'), self.tone),
            Event::SoftBreak | Event::HardBreak => self.open.push(Span::new("\n", self.tone)),
            Event::Rule => {
                self.flush();
                self.lines.push(vec![Span::new("─".repeat(self.width.min(40)), Tone::QUIET)]);
            }
            _ => {}
        }
    }

    fn say(&mut self, text: &str, tone: Tone) {
        self.open.push(Span::new(visible(text), tone));
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Emphasis => self.tone.italic = true,
            Tag::Strong => self.tone.bold = true,
            Tag::Strikethrough => self.tone.struck = true,
            Tag::Heading { level, .. } => {
                self.flush();
                self.tone = Tone::HEADING;
                if self.paint == Paint::Bare {
                    self.say(&format!("{} ", "#".repeat(level as usize)), Tone::HEADING);
                }
            }
            Tag::List(first) => {
                self.flush();
                self.lists.push(first);
            }
            Tag::Item => {
                self.flush();
                self.bullet = Some(match self.lists.last_mut() {
                    Some(Some(number)) => {
                        *number += 1;
                        format!("{}. ", *number - 1)
                    }
                    _ => "• ".to_owned(),
                });
            }
            Tag::BlockQuote(_) => {
                self.flush();
                self.quotes += 1;
            }
            Tag::Link { dest_url, .. } => self.link = Some((dest_url.to_string(), self.open.len())),
            Tag::Image { dest_url, .. } => {
                self.say("image ", Tone::QUIET);
                self.link = Some((dest_url.to_string(), self.open.len()));
            }
            Tag::Table(_) => {
                self.flush();
                self.table = Some(Vec::new());
            }
            Tag::TableHead | Tag::TableRow => self.table.iter_mut().for_each(|rows| rows.push(Vec::new())),
            Tag::Paragraph | Tag::CodeBlock(_) | Tag::HtmlBlock => self.flush(),
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Emphasis => self.tone.italic = false,
            TagEnd::Strong => self.tone.bold = false,
            TagEnd::Strikethrough => self.tone.struck = false,
            TagEnd::Heading(_) => {
                self.flush();
                self.tone = Tone::PLAIN;
            }
            TagEnd::List(_) => {
                self.flush();
                self.lists.pop();
            }
            TagEnd::Item => {
                self.flush();
                self.bullet = None;
            }
            TagEnd::BlockQuote(_) => {
                self.flush();
                self.quotes = self.quotes.saturating_sub(1);
            }
            TagEnd::Link | TagEnd::Image => {
                if let Some((address, from)) = self.link.take() {
                    let text: String = self.open[from..].iter().map(|span| span.text.as_str()).collect();
                    if text != visible(&address) {
                        self.say(&format!(" ({address})"), Tone::QUIET);
                    }
                }
            }
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.open);
                let row = self.table.as_mut().and_then(|rows| rows.last_mut());
                row.into_iter().for_each(|row| row.push(cell.clone()));
            }
            TagEnd::Table => {
                let rows = self.table.take().unwrap_or_default();
                self.lines.extend(table_lines(&rows, self.width, self.paint));
            }
            TagEnd::Paragraph | TagEnd::CodeBlock | TagEnd::HtmlBlock => self.flush(),
            _ => {}
        }
    }

    /// Turns the open text into lines.
    fn flush(&mut self) {
        let mut open = std::mem::take(&mut self.open);
        while open.last().is_some_and(|span| span.text == "\n") {
            open.pop();
        }
        if open.is_empty() {
            return;
        }
        let depth = self.lists.len();
        let quotes = "│ ".repeat(self.quotes);
        let bullet = self.bullet.take();
        let hang = match (&bullet, depth) {
            (_, 0) => 0,
            (Some(bullet), _) => bullet.chars().count(),
            (None, _) => 2,
        };
        let indentation = " ".repeat(2 * depth.saturating_sub(1));
        let taken = quotes.chars().count() + indentation.len() + hang;
        let lines = wrap_spans(&open, self.width.saturating_sub(taken).max(8));
        for (at, mut line) in lines.into_iter().enumerate() {
            let before = match &bullet {
                Some(bullet) if at == 0 => bullet.clone(),
                _ => " ".repeat(hang),
            };
            let margin = Span::new(format!("{quotes}{indentation}{before}"), Tone::QUIET);
            if !margin.text.is_empty() {
                line.insert(0, margin);
            }
            self.lines.push(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::blocks::Blocks;
    use super::*;

    /// Returns the text as shown in so many columns.
    fn render_text(text: &str, columns: usize, paint: Paint) -> Vec<String> {
        let mut blocks = Blocks::default();
        let mut all = blocks.push(text);
        all.extend(blocks.finish());
        all.iter().flat_map(|block| render(block, columns, paint)).collect()
    }

    #[test]
    fn blocks_are_shown_as_lines() {
        for (text, columns, expected) in [
            ("one two three four", 11, &["one two", "three four"][..]),
            ("## Why `x`", 40, &["## Why `x`"]),
            (
                "- a **b** *c*\n  - nested item\n3. three\n4. four",
                40,
                &["• a b c", "  • nested item", "3. three", "4. four"],
            ),
            ("1. a long item of a list", 15, &["1. a long item", "   of a list"]),
            ("> said\n> so", 40, &["│ said", "│ so"]),
            ("```rust\nfn main() {}\n\n\tx\n```", 40, &["  rust", "  fn main() {}", "", "      x"]),
            ("   ```\n   in an item\n   ```\n   and on", 40, &["     in an item", "   and on"]),
            (
                "src/*.rs and a * b * c and snake_case_name",
                60,
                &["src/*.rs and a * b * c and snake_case_name"],
            ),
            (
                "see [the page](https://x.y/z) or <https://a.b>",
                60,
                &["see the page (https://x.y/z) or https://a.b"],
            ),
            ("![a cat](c.png)", 60, &["image a cat (c.png)"]),
            ("a &amp; b <i>c</i> \\*d\\*", 40, &["a & b <i>c</i> *d*"]),
            ("---", 20, &["───────────────────"]),
            ("~~~\nopen", 20, &["  open"]),
        ] {
            let actual = render_text(text, columns, Paint::Bare);
            assert_eq!(actual, expected, "{text}");
        }
    }

    #[test]
    fn nothing_that_is_said_steers_the_terminal() {
        for text in [
            "a\u{1b}[2Jb",
            "a&#27;[2Jb &#x9b;2J &#8238;x",
            "`\u{1b}]0;t\u{7}`",
            "```\u{1b}[2J\n\u{1b}[2J\r\n```",
            "[x](\u{1b}[2J)",
            "# \u{1b}[31mred",
            "| \u{1b}[2J | b |\n|---|---|\n| \u{202e}x | y |",
            "- \u{9b}2J",
            "> \u{1b}c",
            "<b \u{1b}[2J>",
        ] {
            for paint in [Paint::Bare, Paint::Colours] {
                let shown = render_text(text, 40, paint).join("\n");
                let left = console::strip_ansi_codes(&shown).into_owned();
                let steers = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
                assert!(!left.contains(steers), "{text:?}: {shown:?}");
                let is_ours = |code: &str| {
                    code.split_once('m')
                        .is_some_and(|(digits, _)| digits.chars().all(|c| c.is_ascii_digit() || c == ';'))
                };
                assert!(shown.split("\u{1b}[").skip(1).all(is_ours), "{text:?}: {shown:?}");
            }
        }
    }

    #[test]
    fn looks_are_colours_where_there_are_some() {
        assert_eq!(
            render_text("# T\na **b** `c`", 40, Paint::Colours),
            ["\u{1b}[36m\u{1b}[1mT\u{1b}[0m", "a \u{1b}[1mb\u{1b}[0m \u{1b}[36mc\u{1b}[0m"]
        );
    }

    proptest::proptest! {
        #[test]
        fn in_whatever_pieces_a_text_comes_it_is_shown_the_same(
            parts in proptest::collection::vec(proptest::sample::select(PARTS.to_vec()), 0..24),
            cuts in proptest::collection::vec(0_usize..400, 0..12),
            columns in 8_usize..90,
        ) {
            let text = parts.concat();
            let mut ends: Vec<usize> = cuts.into_iter().filter(|at| text.is_char_boundary(*at)).collect();
            ends.push(text.len());
            ends.sort_unstable();
            let (mut blocks, mut all, mut from) = (Blocks::default(), Vec::new(), 0);
            for end in ends.into_iter().filter(|end| *end <= text.len()) {
                all.extend(blocks.push(&text[from..end]));
                // Looking at what is not whole yet changes nothing.
                let _ = blocks.incomplete_block();
                from = end;
            }
            all.extend(blocks.finish());
            let lines = |block: &Block| render(block, columns, Paint::Bare);
            let actual: Vec<String> = all.iter().flat_map(lines).collect();
            proptest::prop_assert_eq!(actual, render_text(&text, columns, Paint::Bare));
        }
    }

    /// Parts of Markdown, complete and broken, from which test texts are built.
    const PARTS: [&str; 18] = [
        "\n",
        "\n\n",
        "- a\n",
        "  - b\n",
        "1. c\n",
        "# d\n",
        "```rust\n",
        "```\n",
        "~~~",
        "> e\n",
        "| f | g |\n",
        "|---|---|\n",
        "**h",
        "`i`",
        "言葉 and words ",
        "\u{1b}[2J",
        "\r\n",
        "---\n",
    ];
}
