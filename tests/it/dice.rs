//! Made-up input that is the same in every run.

/// A small generator (xorshift), so that a failure can be repeated; never of zero.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    /// A number below `sides`.
    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }

    /// So many words.
    pub(crate) fn words(&mut self, n: usize) -> String {
        (0..n).map(|_| format!("word{} ", self.roll(500))).collect()
    }
}
