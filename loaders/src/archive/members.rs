//! Which file of an archive is the graph.

use std::path::{Component, Path, PathBuf};

use crate::error::LoadError;
use crate::text::quote;

/// How good a name is, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// Says nothing.
    Other,
    /// Has the extension of a graph file.
    Graph,
    /// NAME/NAME.rb or NAME/NAME.mat, as SuiteSparse packs a matrix.
    Packed,
    /// NAME/NAME.mtx.
    PackedMatrixMarket,
    /// Is asked for.
    Asked,
}

/// Extensions of graph files.
const GRAPHS: [&str; 27] = [
    "mtx", "rb", "mat", "txt", "el", "wel", "edges", "edgelist", "tsv", "csv", "gr", "col", "graph", "metis",
    "sg", "wsg", "adj", "rua", "rsa", "rra", "pua", "psa", "pra", "cua", "csa", "ira", "parquet",
];

/// Whether an extension, in lower case, is that of a compression.
pub(super) fn is_packed(extension: &str) -> bool {
    matches!(extension, "gz" | "bgz" | "bz2" | "xz" | "zst" | "zstd")
}

/// The names in an archive.
#[derive(Debug)]
pub(super) struct Members<'a> {
    asked: Option<&'a str>,
    /// The best so far, and the second of its rank.
    best: Option<(Rank, PathBuf)>,
    second: Option<String>,
    /// Names for a message.
    shown: Vec<String>,
    count: usize,
}

impl<'a> Members<'a> {
    pub(super) fn new(asked: Option<&'a str>) -> Self {
        Self { asked, best: None, second: None, shown: Vec::new(), count: 0 }
    }

    /// Notes a file; true if it is the best so far, and the one before is not wanted any more.
    pub(super) fn add(&mut self, name: &[u8]) -> bool {
        let name = String::from_utf8_lossy(name).into_owned();
        let shown = quote(name.as_bytes());
        self.count += 1;
        if self.shown.len() < 8 {
            self.shown.push(shown.clone());
        }
        let rank = self.rank(&name);
        match &self.best {
            Some((best, _)) if *best > rank => false,
            Some((best, _)) if *best == rank => {
                self.second.get_or_insert(shown);
                false
            }
            _ => {
                self.best = Some((rank, PathBuf::from(name)));
                self.second = None;
                true
            }
        }
    }

    /// Whether no other file can be better than the best so far.
    pub(super) fn is_sure(&self) -> bool {
        let least = if self.asked.is_some() { Rank::Asked } else { Rank::PackedMatrixMarket };
        self.best.as_ref().is_some_and(|(rank, _)| *rank >= least)
    }

    fn rank(&self, name: &str) -> Rank {
        let path = Path::new(name);
        let mut parts = path.components().rev().filter_map(|part| match part {
            Component::Normal(part) => part.to_str(),
            _ => None,
        });
        let (file, folder) = (parts.next().unwrap_or_default(), parts.next());
        if self.asked.is_some_and(|asked| asked == name || asked == file) {
            return Rank::Asked;
        }
        let is_named = |ending| file.strip_suffix(ending).is_some_and(|stem| folder == Some(stem));
        if is_named(".mtx") {
            return Rank::PackedMatrixMarket;
        }
        if is_named(".rb") || is_named(".mat") {
            return Rank::Packed;
        }
        let file = file.to_ascii_lowercase();
        // Files of the archiver's own, and texts about the graph.
        if file.starts_with('.') || file.starts_with("readme") || file.starts_with("license") {
            return Rank::Other;
        }
        let (stem, extension) = file.rsplit_once('.').unwrap_or((&file, ""));
        let extension = if is_packed(extension) {
            stem.rsplit_once('.').map_or("", |(_, inner)| inner)
        } else {
            extension
        };
        if GRAPHS.contains(&extension) { Rank::Graph } else { Rank::Other }
    }

    /// The name of the graph.
    pub(super) fn choose(self, path: &Path) -> Result<PathBuf, LoadError> {
        let path = path.to_owned();
        let more = self.count - self.shown.len();
        let found = match (self.shown.join(", "), more) {
            (names, _) if names.is_empty() => "no files".to_owned(),
            (names, 0) => names,
            (names, more) => format!("{names} and {more} more"),
        };
        match (self.best, self.second, self.asked) {
            (Some((Rank::Asked, name)), _, _) => Ok(name),
            (_, _, Some(asked)) => Err(LoadError::NoSuchMember { path, member: asked.to_owned(), found }),
            (Some((Rank::Other, name)), _, None) if self.count == 1 => Ok(name),
            (Some((Rank::Other, _)) | None, _, None) => Err(LoadError::NoMatrixMember { path, found }),
            (Some((_, name)), None, None) => Ok(name),
            (Some((_, first)), Some(second), None) => {
                let first = quote(first.to_string_lossy().as_bytes());
                Err(LoadError::SeveralMatrices { path, first, second })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(names: &[&str], asked: Option<&str>) -> Result<String, String> {
        let mut members = Members::new(asked);
        names.iter().for_each(|name| {
            members.add(name.as_bytes());
        });
        let chosen = members.choose(Path::new("a.zip"));
        chosen.map(|name| name.to_string_lossy().into_owned()).map_err(|error| error.to_string())
    }

    #[test]
    fn matrix_named_like_its_folder_is_the_graph() {
        let names = ["bfly/bfly_coord.mtx", "bfly/bfly.mtx", "bfly/notes.txt", "bfly/bfly.rb"];
        assert_eq!(chosen(&names, None).as_deref(), Ok("bfly/bfly.mtx"));
        assert_eq!(chosen(&["a/a.txt", "a/a.rb", "a/b.mtx"], None).as_deref(), Ok("a/a.rb"));
        assert_eq!(chosen(&["./x/a/a.mtx"], None).as_deref(), Ok("./x/a/a.mtx"));
    }

    #[test]
    fn only_graph_file_is_the_graph() {
        assert_eq!(chosen(&["readme.html", "soc-a.mtx"], None).as_deref(), Ok("soc-a.mtx"));
        assert_eq!(chosen(&["README.txt", "edges.csv.gz"], None).as_deref(), Ok("edges.csv.gz"));
        assert_eq!(chosen(&["data"], None).as_deref(), Ok("data"));
    }

    #[test]
    fn file_that_is_asked_for_is_the_graph() {
        let names = ["a/a.mtx", "b/b.mtx", "c/readme.md"];
        assert_eq!(chosen(&names, Some("b/b.mtx")).as_deref(), Ok("b/b.mtx"));
        assert_eq!(chosen(&names, Some("b.mtx")).as_deref(), Ok("b/b.mtx"));
        let error = chosen(&names, Some("d.mtx")).expect_err("not there");
        assert!(error.contains("\"d.mtx\"") && error.contains("a/a.mtx, b/b.mtx, c/readme.md"), "{error}");
    }

    #[test]
    fn archive_of_two_graphs_or_of_none_is_refused_with_what_would_do() {
        let error = chosen(&["a/a.mtx", "b/b.mtx"], None).expect_err("two");
        assert!(error.contains("a/a.mtx and b/b.mtx") && error.contains("--member b/b.mtx"), "{error}");
        let error = chosen(&["x.pdf", "y.pdf"], None).expect_err("none");
        assert!(error.contains("x.pdf, y.pdf") && error.contains("--member"), "{error}");
        assert!(chosen(&[], None).expect_err("none").contains("no files"));
    }
}
