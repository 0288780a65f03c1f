//! Digests of ids: a session of many megabytes has a million ids, which are only compared.

use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::num::NonZeroU64;

/// A digest that distinguishes a million ids in eight bytes, also where there may be none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct IdDigest(NonZeroU64);

impl IdDigest {
    /// Returns the digest of an id.
    pub(crate) fn of(id: &str) -> Self {
        let digest = BuildHasherDefault::<DefaultHasher>::default().hash_one(id);
        Self(NonZeroU64::new(digest).unwrap_or(NonZeroU64::MIN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_id_takes_no_space_of_its_own() {
        assert_eq!(size_of::<Option<IdDigest>>(), 8);
        assert_eq!(IdDigest::of("a"), IdDigest::of("a"));
        assert_ne!(IdDigest::of("a"), IdDigest::of("b"));
        assert_ne!(IdDigest::of(""), IdDigest::of("a"));
    }
}
