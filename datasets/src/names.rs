//! How generated graphs are written in one word: `gap-kron:24`, `gap-urand:20:v1.5`, `grid:1000x1000`.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::gap::{DEFAULT_DEGREE, GapGenerator, GapKind, GapRule};
use crate::grid::Grid;
use crate::registry::KnownGraph;

/// A word that names no graph.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum NameError {
    /// Neither a known graph nor a generator.
    #[error(
        "no graph is called {name}; known are {}; generated are gap-kron:SCALE, gap-urand:SCALE and grid:WIDTHxHEIGHT",
        KnownGraph::names()
    )]
    UnknownGraph {
        /// The word.
        name: String,
    },

    /// A generator of the GAP suite that it does not have.
    #[error("the GAP suite has no generator {name}, only kron and urand")]
    UnknownKind {
        /// The word.
        name: String,
    },

    /// A rule that is none.
    #[error("no generator rule is called {name}, only suitesparse and v1.5")]
    UnknownRule {
        /// The word.
        name: String,
    },

    /// A generator with no number, or a wrong one, where its size should stand.
    #[error("{name} does not say which graph to generate, expected {expected}")]
    Malformed {
        /// The word.
        name: String,
        /// Its form.
        expected: &'static str,
    },
}

impl FromStr for GapKind {
    type Err = NameError;

    /// `kron` or `urand`, with or without `gap-` before it, in upper or lower case.
    fn from_str(name: &str) -> Result<Self, NameError> {
        match name.to_ascii_lowercase().as_str() {
            "kron" | "gap-kron" => Ok(Self::Kron),
            "urand" | "gap-urand" => Ok(Self::Urand),
            _ => Err(NameError::UnknownKind { name: name.to_owned() }),
        }
    }
}

impl fmt::Display for GapKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for GapRule {
    type Err = NameError;

    /// `suitesparse` or `v1.5`, in upper or lower case.
    fn from_str(name: &str) -> Result<Self, NameError> {
        [Self::SuiteSparse, Self::Suite15]
            .into_iter()
            .find(|rule| rule.name().eq_ignore_ascii_case(name))
            .ok_or_else(|| NameError::UnknownRule { name: name.to_owned() })
    }
}

impl fmt::Display for GapRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for GapGenerator {
    type Err = NameError;

    /// `KIND:SCALE`, then, each if it is not the default, `:RULE` and `:degree=DEGREE`.
    ///
    /// Whether scale and degree are possible is for [`generate`](GapGenerator::generate) to say.
    fn from_str(name: &str) -> Result<Self, NameError> {
        let malformed = || NameError::Malformed {
            name: name.to_owned(),
            expected: "KIND:SCALE, KIND:SCALE:RULE or KIND:SCALE:RULE:degree=DEGREE",
        };
        let mut parts = name.split(':');
        let kind = parts.next().unwrap_or_default().parse()?;
        let scale = parts.next().and_then(|scale| scale.parse().ok()).ok_or_else(malformed)?;
        let mut generator = Self::new(kind, scale);
        for option in parts {
            match option.split_once('=') {
                Some((key, degree)) if key.eq_ignore_ascii_case("degree") => {
                    generator.degree = degree.parse().map_err(|_| malformed())?;
                }
                Some(_) => return Err(malformed()),
                None => generator.rule = option.parse()?,
            }
        }
        Ok(generator)
    }
}

/// The word that gives this generator again.
impl fmt::Display for GapGenerator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gap-{}:{}", self.kind, self.scale)?;
        if self.rule != GapRule::default() {
            write!(f, ":{}", self.rule)?;
        }
        if self.degree != DEFAULT_DEGREE {
            write!(f, ":degree={}", self.degree)?;
        }
        Ok(())
    }
}

impl FromStr for Grid {
    type Err = NameError;

    /// `grid:WIDTHxHEIGHT`, in upper or lower case.
    fn from_str(name: &str) -> Result<Self, NameError> {
        let size = |text: &str| {
            let (width, height) = text.strip_prefix("grid:")?.split_once('x')?;
            Some(Self { width: width.parse().ok()?, height: height.parse().ok()? })
        };
        size(&name.to_ascii_lowercase())
            .ok_or_else(|| NameError::Malformed { name: name.to_owned(), expected: "grid:WIDTHxHEIGHT" })
    }
}

/// The word that gives this grid again.
impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "grid:{}x{}", self.width, self.height)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generators_are_read_as_they_are_written() {
        for name in ["gap-kron:24", "gap-urand:20:v1.5", "gap-kron:27:degree=8", "gap-urand:3:v1.5:degree=1"]
        {
            assert_eq!(name.parse::<GapGenerator>().expect(name).to_string(), name);
        }
        assert_eq!("grid:5x70000".parse::<Grid>().expect("a grid").to_string(), "grid:5x70000");
    }

    #[test]
    fn names_are_read_in_any_case_and_with_the_suites_own_words() {
        let expected = GapGenerator { rule: GapRule::Suite15, ..GapGenerator::new(GapKind::Kron, 24) };
        assert_eq!("GAP-Kron:24:V1.5".parse(), Ok(expected));
        assert_eq!("kron:24:degree=16:v1.5".parse(), Ok(expected));
        assert_eq!("kron:24:suitesparse".parse(), Ok(GapGenerator::new(GapKind::Kron, 24)));
    }

    #[test]
    fn words_that_name_no_generator_are_refused_with_what_would_do() {
        let message = |name: &str| name.parse::<GapGenerator>().expect_err(name).to_string();
        assert!(message("gap-twitter:20").contains("only kron and urand"));
        assert!(message("gap-kron:20:v2").contains("only suitesparse and v1.5"));
        for name in
            ["gap-kron", "gap-kron:", "gap-kron:big", "gap-kron:-1", "gap-kron:9:degree=x", "gap-kron:9:a=1"]
        {
            assert!(message(name).contains("expected KIND:SCALE"), "{name}");
        }
        for name in ["grid", "grid:5", "grid:5x", "grid:5x6x7", "grid:-1x5", "mesh:5x5"] {
            assert!(name.parse::<Grid>().is_err(), "{name}");
        }
    }
}
