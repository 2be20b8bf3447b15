//! Token counts that add up: the budget of every operator.

use super::words;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Bytes of a piece that is worth a thread's while.
const PIECE: usize = 8 << 10;

/// Which tokenizer a budget is meant in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tokenizer {
    /// `cl100k_base`.
    #[default]
    Cl100k,
    /// `o200k_base`.
    O200k,
    /// One token for every four characters begun: needs no tables, for models whose tokenizer is not public.
    Chars4,
}

/// A word that is no tokenizer, or a budget that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BudgetError {
    /// Not one of the three.
    #[error("Unknown tokenizer {0:?}: expected one of cl100k, o200k, chars4")]
    Tokenizer(String),
    /// Neither a count nor a percentage.
    #[error("Failed to read the budget {0:?}: expected a count of tokens such as 2000, or a share such as 50%")]
    Budget(String),
}

impl Tokenizer {
    /// Every tokenizer.
    pub const ALL: [Self; 3] = [Self::Cl100k, Self::O200k, Self::Chars4];

    /// Its name on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cl100k => "cl100k",
            Self::O200k => "o200k",
            Self::Chars4 => "chars4",
        }
    }

    /// How many tokens `text` is.
    ///
    /// ```
    /// use aac::triage::Tokenizer;
    /// assert_eq!(Tokenizer::Cl100k.count("Never push to main."), 5);
    /// assert_eq!(Tokenizer::Chars4.count("12345"), 2);
    /// ```
    pub fn count(self, text: &str) -> usize {
        self.tokens(self.units(text))
    }

    /// The same for a long text, on all threads: cut where [pieces add up](Self::units).
    pub(super) fn count_long(self, text: &str) -> usize {
        use rayon::prelude::*;
        let mut pieces = Vec::new();
        let mut rest = text;
        while rest.len() > PIECE {
            let opens = |at: &usize| rest[*at..].starts_with(|c: char| !c.is_whitespace() && c != '/');
            let feeds = rest.bytes().enumerate().skip(PIECE).filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
            let Some(cut) = feeds.into_iter().find(opens) else { break };
            let (piece, behind) = rest.split_at(cut);
            pieces.push(piece);
            rest = behind;
        }
        pieces.push(rest);
        self.tokens(pieces.par_iter().map(|piece| self.units(piece)).sum())
    }

    /// The size of `text` in units that add up over [lines](Self#additive-pieces): tokens, or characters.
    ///
    /// # Additive pieces
    /// Both tables cut a text into words before they merge bytes, and no word reaches over the end of a run of line
    /// feeds, but for one corner: `o200k_base` takes slashes behind a line feed into the word before it. So for pieces
    /// that end with a line feed and begin with text or with blanks and text (for `o200k`: no slash), the units of the
    /// whole are the sum of the units of the pieces, exactly; that is how a compaction is priced without counting it
    /// anew after every choice.
    pub(super) fn units(self, text: &str) -> usize {
        match self {
            Self::Cl100k => words::count(bpe_openai::cl100k_base(), 0, text),
            Self::O200k => words::count(bpe_openai::o200k_base(), 1, text),
            Self::Chars4 => text.chars().count(),
        }
    }

    /// Whether a piece that starts with `text` adds up with what stands before it.
    pub(super) fn adds_up(self, text: &str) -> bool {
        self != Self::O200k || !text.starts_with('/')
    }

    /// The most units that so many tokens hold.
    pub(super) const fn room(self, tokens: usize) -> usize {
        match self {
            Self::Cl100k | Self::O200k => tokens,
            Self::Chars4 => tokens.saturating_mul(4),
        }
    }

    /// How many tokens so many units are.
    pub(super) const fn tokens(self, units: usize) -> usize {
        match self {
            Self::Cl100k | Self::O200k => units,
            Self::Chars4 => units.div_ceil(4),
        }
    }
}

impl fmt::Display for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Tokenizer {
    type Err = BudgetError;
    fn from_str(word: &str) -> Result<Self, BudgetError> {
        Self::ALL.into_iter().find(|t| t.as_str() == word).ok_or_else(|| BudgetError::Tokenizer(word.to_owned()))
    }
}

/// How much an output may take: so many tokens, or a share of the input.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Budget {
    /// Tokens.
    Tokens(usize),
    /// Share of the input's tokens, in percent; rounded down to whole tokens.
    Percent(f64),
}

impl Budget {
    /// The budget in tokens for an input of `tokens_in`.
    pub fn of(self, tokens_in: usize) -> usize {
        match self {
            Self::Tokens(tokens) => tokens,
            Self::Percent(percent) => (tokens_in as f64 * percent / 100.0).floor() as usize,
        }
    }
}

impl FromStr for Budget {
    type Err = BudgetError;

    /// `2000` or `50%`.
    fn from_str(text: &str) -> Result<Self, BudgetError> {
        let wrong = || BudgetError::Budget(text.to_owned());
        match text.trim().strip_suffix('%') {
            Some(percent) => {
                let percent: f64 = percent.trim().parse().map_err(|_| wrong())?;
                if (0.0..=1000.0).contains(&percent) { Ok(Self::Percent(percent)) } else { Err(wrong()) }
            }
            None => text.trim().parse().map(Self::Tokens).map_err(|_| wrong()),
        }
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tokens(tokens) => write!(f, "{tokens}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn budgets_read_as_counts_and_shares() {
        assert_eq!("2000".parse(), Ok(Budget::Tokens(2000)));
        assert_eq!("12.5%".parse::<Budget>().unwrap().of(1001), 125);
        for bad in ["", "-1", "x%", "-3%", "nan%", "2k"] {
            assert!(bad.parse::<Budget>().is_err(), "{bad}");
        }
        assert!("gpt2".parse::<Tokenizer>().is_err());
    }

    #[test]
    fn long_texts_count_as_on_one_thread() {
        let lines = [
            "Never push.\n",
            "\n\n",
            "  - indented /a\n",
            "/slash\n",
            "\u{a0}blank\n",
            "| a | b |\n",
            "no feed ",
            "é漢字\n",
        ];
        let text: String = (0..20_000usize).map(|n| lines[n.wrapping_mul(2_654_435_761) >> 7 & 7]).collect();
        for tokenizer in Tokenizer::ALL {
            for text in [&text[..], "", &"x".repeat(3 * PIECE), &"\n".repeat(3 * PIECE)] {
                assert_eq!(tokenizer.count_long(text), tokenizer.count(text), "{tokenizer}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        /// The claim that every price rests on.
        #[test]
        fn units_of_pieces_add_up(pieces in prop::collection::vec(
            ("[ \t]{0,5}", "(?s)[\\PC\n\r\t .,'`*_-]{1,40}", 1usize..3), 1..8,
        )) {
            let pieces: Vec<String> = pieces
                .into_iter()
                .filter(|(_, text, _)| !text.trim().is_empty())
                .map(|(blank, text, feeds)| format!("{blank}{}{}", text.trim(), "\n".repeat(feeds)))
                .collect();
            let whole = pieces.concat();
            for tokenizer in Tokenizer::ALL {
                if !pieces.iter().all(|p| tokenizer.adds_up(p)) {
                    continue;
                }
                let sum: usize = pieces.iter().map(|p| tokenizer.units(p)).sum();
                prop_assert_eq!(tokenizer.units(&whole), sum, "{}", tokenizer);
            }
        }
    }
}
