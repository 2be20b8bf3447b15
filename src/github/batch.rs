//! How many things to ask for in one GraphQL query: as many as are known to work, half as many when a query proves too
//! heavy, and one more after each that works.

/// The size of the next batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    size: usize,
    most: usize,
}

impl Batch {
    /// Start with `most`, which is also the upper bound (25 repositories in a query work; of queries with 50, 43 % had
    /// to be repeated).
    pub const fn new(most: usize) -> Self {
        let most = if most == 0 { 1 } else { most };
        Self { size: most, most }
    }

    /// How many to ask for next; at least one.
    pub const fn size(self) -> usize {
        self.size
    }

    /// A query over `asked` things worked.
    pub fn worked(&mut self, asked: usize) {
        if asked >= self.size {
            self.size = (self.size + 1).min(self.most);
        }
    }

    /// A query over `asked` things was too heavy.
    pub fn too_heavy(&mut self, asked: usize) {
        self.size = (asked / 2).clamp(1, self.size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heavy_query_halves_the_batch_and_it_grows_back_one_by_one() {
        let mut batch = Batch::new(25);
        batch.too_heavy(25);
        assert_eq!(batch.size(), 12);
        batch.worked(5);
        assert_eq!(batch.size(), 12, "a small remainder proves nothing");
        (0..40).for_each(|_| batch.worked(batch.size()));
        assert_eq!(batch.size(), 25);
        (0..9).for_each(|_| batch.too_heavy(batch.size()));
        assert_eq!(batch.size(), 1);
    }
}
