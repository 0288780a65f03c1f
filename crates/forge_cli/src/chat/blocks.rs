//! A splitter for Markdown that arrives in pieces: it returns each block when it is complete.

/// The kind of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Lines of prose.
    Paragraph,
    /// A line that begins with `#`.
    Heading,
    /// Items and the lines that belong to them.
    List,
    /// Lines that begin with `>`.
    Quote,
    /// Lines that begin with `|`.
    Table,
    /// A horizontal rule.
    Rule,
    /// Two fences and the lines between them.
    Fence,
}

/// A block of Markdown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) kind: Kind,
    /// Its lines as they came, without their ends.
    pub(super) lines: Vec<String>,
    /// True if an empty line precedes it.
    pub(super) is_apart: bool,
}

/// A splitter of a text into blocks. The blocks are the same for any pieces of the text.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    /// The line without an end so far.
    line: String,
    open: Option<Block>,
    has_gap: bool,
}

impl Blocks {
    /// Adds a piece; returns the completed blocks, in order.
    pub(super) fn push(&mut self, piece: &str) -> Vec<Block> {
        let mut whole = Vec::new();
        let mut rest = piece;
        while let Some((line, behind)) = rest.split_once('\n') {
            self.line.push_str(line);
            let line = std::mem::take(&mut self.line);
            self.take(line.trim_end_matches('\r').to_owned(), &mut whole);
            rest = behind;
        }
        self.line.push_str(rest);
        whole
    }

    /// Ends the text, and returns its last block.
    pub(super) fn finish(&mut self) -> Vec<Block> {
        let mut whole = Vec::new();
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.take(line.trim_end_matches('\r').to_owned(), &mut whole);
        }
        whole.extend(self.open.take());
        self.has_gap = false;
        whole
    }

    /// Returns the received part of the incomplete block.
    pub(super) fn unfinished(&self) -> Option<Block> {
        let mut ahead = Self { line: String::new(), open: self.open.clone(), has_gap: self.has_gap };
        let mut whole = Vec::new();
        if !self.line.is_empty() {
            ahead.take(self.line.trim_end_matches('\r').to_owned(), &mut whole);
        }
        // A last line that begins a block of its own stands for what comes next.
        ahead.open.take().or_else(|| whole.pop())
    }

    fn take(&mut self, line: String, whole: &mut Vec<Block>) {
        if let Some(fence) = self.open.as_mut().filter(|block| block.kind == Kind::Fence) {
            let is_end = fence.lines.first().is_some_and(|first| closes(first, &line));
            fence.lines.push(line);
            if is_end {
                whole.extend(self.open.take());
            }
            return;
        }
        if line.trim().is_empty() {
            whole.extend(self.open.take());
            self.has_gap = true;
            return;
        }
        let found = kind_of(&line);
        let continues = self.open.as_ref().is_some_and(|open| match (open.kind, found) {
            (Kind::List, Kind::Paragraph) => true,
            (open, found) => open == found && found != Kind::Heading,
        });
        if continues {
            self.open.iter_mut().for_each(|block| block.lines.push(line.clone()));
            return;
        }
        whole.extend(self.open.take());
        let block = Block { kind: found, lines: vec![line], is_apart: std::mem::take(&mut self.has_gap) };
        match found {
            Kind::Heading | Kind::Rule => whole.push(block),
            _ => self.open = Some(block),
        }
    }
}

/// Returns the kind of a block that begins with this line.
fn kind_of(line: &str) -> Kind {
    let text = line.trim_start();
    let hashes = text.bytes().take_while(|byte| *byte == b'#').count();
    if fence_of(text).is_some() {
        Kind::Fence
    } else if (1..=6).contains(&hashes) && text[hashes..].starts_with(' ') {
        Kind::Heading
    } else if is_rule(text) {
        Kind::Rule
    } else if text.starts_with('|') {
        Kind::Table
    } else if text.starts_with('>') {
        Kind::Quote
    } else if is_item(text) {
        Kind::List
    } else {
        Kind::Paragraph
    }
}

/// Returns the fence at the beginning of a line: three or more backticks or tildes.
fn fence_of(text: &str) -> Option<&str> {
    let mark = text.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
    let end = text.find(|c| c != mark).unwrap_or(text.len());
    // Backticks behind it make it code within a line.
    let is_inline = mark == '`' && text[end..].contains('`');
    (end >= 3 && !is_inline).then(|| &text[..end])
}

/// Checks whether `line` ends the block that `first` has begun.
fn closes(first: &str, line: &str) -> bool {
    let (Some(open), Some(close)) = (fence_of(first.trim_start()), fence_of(line.trim())) else {
        return false;
    };
    close.len() >= open.len() && close.starts_with(&open[..1]) && line.trim().len() == close.len()
}

fn is_rule(text: &str) -> bool {
    let marks: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let first = marks.chars().next().filter(|mark| matches!(mark, '-' | '*' | '_'));
    first.is_some_and(|mark| marks.len() >= 3 && marks.chars().all(|c| c == mark))
}

fn is_item(text: &str) -> bool {
    let behind = match text.strip_prefix(['-', '*', '+']) {
        Some(behind) => behind,
        None => {
            let digits = text.bytes().take_while(u8::is_ascii_digit).count();
            match text[digits..].strip_prefix(['.', ')']) {
                Some(behind) if (1..=9).contains(&digits) => behind,
                _ => return false,
            }
        }
    };
    behind.starts_with(' ')
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    const TEXT: &str = "# Title\nOne\ntwo\r\n\n- a\n  b\n1. c\n\n```rust\nlet x;\n\n# no\n```\n| a | b |\n|---|---|\n> q\n\n---\n`````\n```\n`````\n* * *\n~~~\nnever closed";

    fn blocks(pieces: &[&str]) -> Vec<Block> {
        let mut blocks = Blocks::default();
        let mut all: Vec<Block> = pieces.iter().flat_map(|piece| blocks.push(piece)).collect();
        all.extend(blocks.finish());
        all
    }

    #[test]
    fn a_text_is_cut_where_its_blocks_end() {
        let shown: Vec<String> = blocks(&[TEXT])
            .iter()
            .map(|block| {
                format!("{}{:?} {}", if block.is_apart { "+" } else { "" }, block.kind, block.lines.join("/"))
            })
            .collect();
        let expected = [
            "Heading # Title",
            "Paragraph One/two",
            "+List - a/  b/1. c",
            "+Fence ```rust/let x;//# no/```",
            "Table | a | b |/|---|---|",
            "Quote > q",
            "+Rule ---",
            "Fence `````/```/`````",
            "Rule * * *",
            "Fence ~~~/never closed",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_line_says_what_it_begins() {
        for (line, expected) in [
            ("####### seven", Kind::Paragraph),
            ("#no", Kind::Paragraph),
            ("  ## in", Kind::Heading),
            ("-no", Kind::Paragraph),
            ("--", Kind::Paragraph),
            ("12) yes", Kind::List),
            ("1.5 metres", Kind::Paragraph),
            ("``` a `b` ```", Kind::Paragraph),
            ("~~~ sh", Kind::Fence),
            ("_ _ _", Kind::Rule),
        ] {
            assert_eq!(kind_of(line), expected, "{line}");
        }
    }

    #[test]
    fn in_whatever_pieces_it_comes_the_blocks_are_the_same() {
        let whole = blocks(&[TEXT]);
        for size in 1..TEXT.len() {
            let bytes: Vec<&[u8]> = TEXT.as_bytes().chunks(size).collect();
            let pieces: Vec<&str> = bytes.iter().map(|piece| std::str::from_utf8(piece).unwrap()).collect();
            assert_eq!(blocks(&pieces), whole, "{size}");
        }
    }

    #[test]
    fn what_is_not_whole_yet_can_be_seen() {
        let mut blocks = Blocks::default();
        assert_eq!(blocks.unfinished(), None);
        blocks.push("One\ntw");
        let unfinished = blocks.unfinished().unwrap();
        assert_eq!((unfinished.kind, unfinished.lines.join("/")), (Kind::Paragraph, "One/tw".to_owned()));
        blocks.push("o\n# Ti");
        assert_eq!(blocks.unfinished().unwrap().lines, ["# Ti"]);
        assert_eq!(blocks.finish().len(), 2);
        assert_eq!(blocks.unfinished(), None);
    }
}
