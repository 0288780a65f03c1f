//! The similarity of two texts: a quick check of few of their terms (MinHash), then a check of all.

use std::collections::HashSet;

use super::{Features, Term, TermHasher};

/// The least of a text's terms in a few orders: texts that say nearly the same have one of them in common all
/// but certainly.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Signature(Option<[u64; N_ORDERS]>);

const N_ORDERS: usize = 3;
/// Texts of fewer distinct terms have none: short answers look alike and mean different things.
const LEAST_TERMS: usize = 8;

impl Signature {
    pub(super) fn of(terms: &[Term]) -> Self {
        let is_told = terms.len() >= LEAST_TERMS;
        Self(is_told.then(|| {
            std::array::from_fn(|nth| {
                let order = |hash: &u64| {
                    (hash ^ (nth as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
                        .wrapping_mul(0xD6E8_FEB8_6659_FD93)
                };
                terms.iter().map(|term| term.hash()).min_by_key(order).unwrap_or_default()
            })
        }))
    }

    /// Iterates over its terms, each with the number of its order.
    pub(crate) fn samples(&self) -> impl Iterator<Item = (usize, u64)> {
        self.0.iter().flatten().copied().enumerate()
    }
}

impl Features {
    /// Checks whether nine tenths of the terms of this or `other` are in both.
    pub(crate) fn is_nearly_the_same_as(&self, other: &Self) -> bool {
        let (n_least, n_most) =
            (self.terms.len().min(other.terms.len()), self.terms.len().max(other.terms.len()));
        // Most are distinguished by that alone.
        n_least * 10 >= n_most * 9 && {
            let known: HashSet<u64, TermHasher> = self.terms.iter().map(|term| term.hash()).collect();
            let n_shared = other.terms.iter().filter(|term| known.contains(&term.hash())).count();
            n_shared * 10 >= (self.terms.len() + other.terms.len() - n_shared) * 9
        }
    }
}
