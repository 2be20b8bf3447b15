//! How an encoder is fine-tuned, as `aac train` and `aac evaluate` ask for it.

use crate::train::tuned::TunedOptions;
use clap::Args;
use clap::builder::RangedU64ValueParser;

#[derive(Debug, Clone, Args)]
pub(super) struct TuneArgs {
    /// Passes over the labels when fine-tuning
    #[arg(long, value_name = "N", default_value_t = 3, requires = "finetune", value_parser = RangedU64ValueParser::<usize>::new().range(1..=100))]
    epochs: usize,
    /// Lowest layers of the encoder that stay as they are: more is faster
    #[arg(long, value_name = "N", default_value_t = 2, requires = "finetune")]
    frozen: usize,
    /// Tokens of an item that are read: fewer is faster
    #[arg(long, value_name = "N", default_value_t = 128, requires = "finetune", value_parser = RangedU64ValueParser::<usize>::new().range(8..=400))]
    tokens: usize,
    /// Tokens that are read of the items before and after, each
    #[arg(long, value_name = "N", default_value_t = 8, requires = "finetune", value_parser = RangedU64ValueParser::<usize>::new().range(..=24))]
    neighbours: usize,
    /// Order of the items and dropout follow from it
    #[arg(long, value_name = "N", default_value_t = 1, requires = "finetune")]
    seed: u64,
}

impl TuneArgs {
    /// The options that they stand for.
    pub(super) fn options(&self) -> TunedOptions {
        let mut options = TunedOptions::default();
        let finetune = &mut options.finetune;
        finetune.epochs = self.epochs;
        finetune.frozen = self.frozen;
        finetune.seed = self.seed;
        finetune.input.text = self.tokens;
        finetune.input.neighbour = self.neighbours;
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[arg(long)]
        finetune: bool,
        #[command(flatten)]
        tune: TuneArgs,
    }

    #[test]
    fn without_a_flag_the_library_decides() {
        let line = Line::try_parse_from(["x", "--finetune"]).unwrap();
        assert!(line.finetune);
        assert_eq!(line.tune.options(), TunedOptions::default());
    }
}
