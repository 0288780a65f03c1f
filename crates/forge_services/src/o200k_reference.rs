//! The plain way to count `o200k_base`: slower than the crate's, and exact on the text that the crate splits
//! wrongly.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use regex::Regex;
use tiktoken::CoreBpe;

/// A counter that splits by the vocabulary's own pattern and merges by its ranks, without a shortcut.
pub(crate) struct O200kReference {
    pieces: Regex,
    ranks: HashMap<Vec<u8>, usize>,
}

impl O200kReference {
    /// Reads the ranks back from the loaded vocabulary.
    pub(crate) fn new(vocabulary: &CoreBpe) -> Self {
        let Ok(pieces) = Regex::new(PIECES) else { unreachable!("the pattern is a constant that compiles") };
        let ranks =
            (0_u32..).take(vocabulary.vocab_size()).map(|rank| (vocabulary.decode(&[rank]), rank as usize));
        Self { pieces, ranks: ranks.collect() }
    }

    /// Counts the tokens of `text`.
    pub(crate) fn count(&self, text: &str) -> usize {
        let mut tokens = 0;
        let mut position = 0;
        while let Some(piece) = self.pieces.find_at(text, position) {
            let piece = without_next_words_space(text, piece.start(), piece.as_str());
            tokens += self.tokens_of(piece.as_bytes());
            position += piece.len();
        }
        tokens
    }

    fn tokens_of(&self, piece: &[u8]) -> usize {
        if self.ranks.contains_key(piece) { 1 } else { self.merge(piece) }
    }

    /// Merges neighbours, the lowest rank first and the leftmost of equals, until no pair is a token.
    fn merge(&self, piece: &[u8]) -> usize {
        let mut parts = Parts::of_bytes(piece.len());
        let mut pairs: BinaryHeap<_> =
            (0..piece.len().saturating_sub(1)).filter_map(|start| self.pair(piece, &parts, start)).collect();
        let mut tokens = piece.len();
        while let Some(Reverse((_, start, end))) = pairs.pop() {
            if !parts.has_pair(start, end) {
                continue;
            }
            parts.join(start);
            tokens -= 1;
            pairs.extend(self.pair(piece, &parts, start));
            if let Some(before) = parts.before(start) {
                pairs.extend(self.pair(piece, &parts, before));
            }
        }
        tokens
    }

    /// Returns the pair that starts with the part at `start`, if the two make a token.
    fn pair(&self, piece: &[u8], parts: &Parts, start: usize) -> Option<Reverse<(usize, usize, usize)>> {
        let end = parts.pair_end(start)?;
        let rank = self.ranks.get(&piece[start..end])?;
        Some(Reverse((*rank, start, end)))
    }
}

/// A piece's parts as a linked list over byte positions; a part is identified by its start.
struct Parts {
    ends: Vec<usize>,
    /// For each start, the start of the part before; for the first one, `None`.
    befores: Vec<Option<usize>>,
    is_part: Vec<bool>,
}

impl Parts {
    fn of_bytes(n: usize) -> Self {
        let befores = (0..n).map(|start| start.checked_sub(1)).collect();
        Self { ends: (1..=n).collect(), befores, is_part: vec![true; n] }
    }

    fn before(&self, start: usize) -> Option<usize> {
        self.befores[start]
    }

    fn pair_end(&self, start: usize) -> Option<usize> {
        self.ends.get(self.ends[start]).copied()
    }

    fn has_pair(&self, start: usize, end: usize) -> bool {
        self.is_part[start] && self.pair_end(start) == Some(end)
    }

    fn join(&mut self, start: usize) {
        let second = self.ends[start];
        self.is_part[second] = false;
        self.ends[start] = self.ends[second];
        if let Some(before) = self.befores.get_mut(self.ends[start]) {
            *before = Some(start);
        }
    }
}

/// The vocabulary's pattern without its look-ahead `\s+(?!\S)`, which [`without_next_words_space`] replaces.
const PIECES: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*",
    r"|\s*[\r\n]+",
    r"|\s+",
);

/// Leaves the last space of a run to what follows it; a run that ends a line, or the text, stays whole.
fn without_next_words_space<'a>(text: &str, start: usize, piece: &'a str) -> &'a str {
    let ends_text = start + piece.len() == text.len();
    if ends_text || piece.ends_with(['\r', '\n']) || !piece.chars().all(char::is_whitespace) {
        return piece;
    }
    match piece.char_indices().next_back() {
        None | Some((0, _)) => piece,
        Some((last, _)) => &piece[..last],
    }
}
