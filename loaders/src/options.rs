//! What a caller may ask of a load.

use std::fmt;
use std::str::FromStr;

use crate::format::Format;

/// How a file becomes a graph. The default keeps the file's weights, refuses rectangular matrices, merges duplicates
/// and drops self-loops.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadOptions {
    /// Where weights come from.
    pub weights: WeightRule,
    /// Row i becomes vertex i and column j vertex `rows + j`: what a rectangular matrix means as a graph.
    pub bipartite: bool,
    /// Adds the reverse of every edge; where both were there, the smaller weight stays.
    pub symmetrize: bool,
    /// Keeps entries that name the same edge; otherwise the smallest weight stays.
    pub keep_duplicates: bool,
    /// Keeps edges from a vertex to itself.
    pub keep_loops: bool,
    /// The format of the file; looked for in its bytes if not given.
    pub format: Option<Format>,
    /// The columns of source, target and, if there is one, weight, between commas: names, or numbers from 1. For edge
    /// lists and tables.
    pub columns: Option<String>,
    /// Numbers the ids that occur from 0, in their order, instead of taking them for the numbers of vertices. For edge lists
    /// and tables.
    pub relabel: bool,
    /// The file in an archive that is the graph.
    pub member: Option<String>,
    /// Reads the whole of a `.gvg` file and compares every checksum; says nothing to other formats, which are read
    /// and checked anyway.
    pub verify_file: bool,
    /// Bytes of memory that a `.gvg` file is compared with: a larger one works, with a warning, at the speed of the disk.
    /// What the machine has if `None`.
    pub memory_bytes: Option<u64>,
}

/// Where the weights of a graph come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WeightRule {
    /// Weights do not matter (BFS, connected components): values must be numbers, but none is kept.
    Ignore,
    /// The values of the file as they stand, negative ones as well; a pattern matrix weighs 1 everywhere.
    #[default]
    File,
    /// The absolute values of the file, the modulus of complex ones.
    Abs,
    /// 1 for every edge.
    Unit,
    /// The `hash8` rule: 1 to 255, computed from the two ids.
    Hash,
    /// 1 to 255, a function of the seed and of the two ids, the same in both directions.
    Random {
        /// Another seed gives other weights.
        seed: u64,
    },
}

impl WeightRule {
    /// Whether the values of a file become weights.
    pub(crate) fn keeps_values(self) -> bool {
        matches!(self, Self::File | Self::Abs)
    }
}

impl fmt::Display for WeightRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ignore => f.write_str("ignore"),
            Self::File => f.write_str("file"),
            Self::Abs => f.write_str("abs"),
            Self::Unit => f.write_str("unit"),
            Self::Hash => f.write_str("hash"),
            Self::Random { seed } => write!(f, "random:{seed}"),
        }
    }
}

/// A word that names no [`WeightRule`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{word}\" is no weight rule, use file, abs, unit, hash, ignore or random:SEED (as in random:42)")]
pub struct UnknownWeightRule {
    /// What was typed.
    pub word: String,
}

impl FromStr for WeightRule {
    type Err = UnknownWeightRule;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let unknown = || UnknownWeightRule { word: word.to_owned() };
        Ok(match word {
            "ignore" => Self::Ignore,
            "file" => Self::File,
            "abs" => Self::Abs,
            "unit" => Self::Unit,
            "hash" => Self::Hash,
            _ => {
                let seed = word.strip_prefix("random:").ok_or_else(unknown)?;
                Self::Random { seed: seed.parse().map_err(|_| unknown())? }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weight_rules_are_read_back_as_they_are_written() {
        for word in ["ignore", "file", "abs", "unit", "hash", "random:18446744073709551615"] {
            assert_eq!(word.parse::<WeightRule>().expect("a rule").to_string(), word);
        }
    }

    #[test]
    fn word_that_is_no_weight_rule_is_refused_with_the_words_that_are() {
        for word in ["", "File", "random", "random:", "random:-1", "random:x"] {
            let refused = word.parse::<WeightRule>().expect_err("no rule");
            assert!(refused.to_string().contains("random:SEED"), "{word}");
        }
    }
}
