//! A term: a word or a name, known by its hash.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A word or a name by its hash, in one number: there are hundreds of thousands, and each is looked at in
/// each compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Term(u64);

/// The flag of a term in a line of a call; the next bit is that of any other line.
const IS_CALLED: u64 = 1;
const IS_SAID: u64 = 2;
/// The position of the kind.
const KIND_SHIFT: u32 = 2;
/// The bits that are no part of the hash.
const NOT_HASH: u64 = 0b1111;

impl Term {
    pub(super) fn new(hash: u64, kind: Kind) -> Self {
        Self(hash | (kind as u64) << KIND_SHIFT)
    }

    pub(crate) const fn hash(self) -> u64 {
        self.0 & !NOT_HASH
    }

    pub(crate) const fn kind(self) -> Kind {
        Kind::ALL[(self.0 >> KIND_SHIFT & 0b11) as usize]
    }

    pub(crate) const fn is_called(self) -> bool {
        self.0 & IS_CALLED != 0
    }

    pub(crate) const fn is_said(self) -> bool {
        self.0 & IS_SAID != 0
    }

    /// Notes that it occurs, as such a kind, in a line of a call or in another. The most telling kind counts.
    pub(super) fn take(&mut self, kind: Kind, is_call: bool) {
        if kind as u8 > self.kind() as u8 {
            *self = Self(Self::new(self.hash(), kind).0 | self.0 & (IS_CALLED | IS_SAID));
        }
        self.0 |= if is_call { IS_CALLED } else { IS_SAID };
    }
}

/// The form of a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A plain word.
    Word,
    /// A word that begins with a capital in mid-text, or a short number.
    Name,
    /// A given name: a symbol, a code, a long number.
    Symbol,
    /// An address: a path, a file, a URL.
    Address,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Word, Self::Name, Self::Symbol, Self::Address];

    /// Checks whether it is a given name, which can be looked up.
    pub(crate) const fn is_a_name_given(self) -> bool {
        matches!(self, Self::Symbol | Self::Address)
    }
}

/// A map by the hashes of terms.
pub(crate) type ByTerm<T> = HashMap<u64, T, TermHasher>;
/// A hasher for maps and sets of the hashes of terms, which are hashes already.
pub(crate) type TermHasher = BuildHasherDefault<Taken>;

/// A hasher that uses a term's hash, whose last bits are zero, nearly unchanged.
#[derive(Default)]
pub(crate) struct Taken(u64);

impl Hasher for Taken {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }
    fn write_u64(&mut self, hash: u64) {
        self.0 = (hash >> NOT_HASH.count_ones()).wrapping_mul(PRIME);
    }
}

/// An odd number whose bits are spread: the golden ratio's.
const PRIME: u64 = 0x9E37_79B9_7F4A_7C15;

/// Most bytes of a word whose form is written without an allocation.
const MOST_BYTES: usize = 64;
/// The digits of a commit's hash by which people name it.
const SHORT_HASH: usize = 7;

/// Returns the hash by which all forms of a word are known: people write `openDoor`, `tx-4059` and `1024` for
/// `open_door`, `TX-4059` and `1,024`, and the first digits of a commit's hash for all of them.
pub(crate) fn form_hash(word: &str, kind: Kind) -> u64 {
    let is_symbol = kind == Kind::Symbol;
    if !is_symbol && word.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase()) {
        return hash(word);
    }
    let is_joint = |c: char| is_symbol && matches!(c, '_' | '-' | ',');
    if !word.is_ascii() || word.len() > MOST_BYTES {
        return hash(
            &word.chars().filter(|c| !is_joint(*c)).flat_map(char::to_lowercase).collect::<String>(),
        );
    }
    let mut form = [0; MOST_BYTES];
    let letters = word.bytes().filter(|byte| !is_joint(char::from(*byte)));
    let n_bytes = form.iter_mut().zip(letters).map(|(at, byte)| *at = byte.to_ascii_lowercase()).count();
    let form = &form[..n_bytes];
    let is_commit =
        is_symbol && form.iter().all(u8::is_ascii_hexdigit) && form.iter().any(u8::is_ascii_alphabetic);
    hash_of(if is_commit { &form[..n_bytes.min(SHORT_HASH)] } else { form })
}

/// Returns a hash that is the same on every machine and in every run; its last bits are zero.
pub(crate) fn hash(word: &str) -> u64 {
    hash_of(word.as_bytes())
}

fn hash_of(bytes: &[u8]) -> u64 {
    let mut hash = bytes.len() as u64;
    for chunk in bytes.chunks(8) {
        let mut bytes = [0; 8];
        bytes[..chunk.len()].copy_from_slice(chunk);
        hash = (hash ^ u64::from_le_bytes(bytes)).wrapping_mul(PRIME);
        hash ^= hash >> 29;
    }
    hash & !NOT_HASH
}
