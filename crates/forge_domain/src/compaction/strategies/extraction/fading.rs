//! The worth of a term of the focus once a line has it.

use crate::Tokens;

/// The share of its worth that a term keeps if its lines would take too much of the space.
const SAID_AGAIN: f32 = 0.8;
/// The share of the space that lines may take whose terms are worth the same every time, in percent.
const WHOLE_PERCENT: u64 = 50;

/// A term of the focus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FocusTerm {
    /// The approximate tokens of all lines that have it.
    pub(super) tokens: u64,
    pub(super) number: u32,
}

/// Returns the terms, each with the share of its worth that is left when a line with it was chosen. A rare
/// term was meant: all lines of the rarest are wanted, as long as they take at most half of the space; a term
/// that is everywhere fades.
pub(super) fn fading(mut asked: Vec<FocusTerm>, room: Tokens) -> Vec<(u32, f32)> {
    asked.sort_unstable();
    let mut left = room.share(WHOLE_PERCENT, 100).as_u64();
    let share = |asked: FocusTerm| {
        let fits = asked.tokens <= left;
        left -= if fits { asked.tokens } else { 0 };
        (asked.number, if fits { 1.0 } else { SAID_AGAIN })
    };
    asked.into_iter().map(share).collect()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn what_is_rare_does_not_fade() {
        let asked = |all: &[(u64, u32)]| {
            all.iter()
                .map(|(tokens, number)| FocusTerm { tokens: *tokens, number: *number })
                .collect::<Vec<_>>()
        };
        for (all, expected) in [
            (&[][..], &[][..]),
            (&[(900, 1), (30, 2)], &[(2, 1.0), (1, SAID_AGAIN)]),
            (&[(30, 1), (20, 2), (1, 3)], &[(3, 1.0), (2, 1.0), (1, SAID_AGAIN)]),
        ] {
            assert_eq!(fading(asked(all), Tokens::new(100)), expected);
        }
    }
}
