//! The graphs that papers on this subject measure, by name: their sizes, and how to come by them.
//!
//! Counts are those of the SuiteSparse Matrix Collection's index (Davis, Hu, ACM TOMS 38(1), 2011). Two of the four need no
//! download: [`GapGenerator`] makes the structure and labels of GAP-kron and GAP-urand bit for bit.

use std::fmt;
use std::str::FromStr;

use crate::gap::{GapGenerator, GapKind, GapRule};
use crate::generated::GeneratedGraph;
use crate::grid::Grid;
use crate::names::NameError;

/// A graph of the SuiteSparse Matrix Collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KnownGraph {
    /// Its name in the collection.
    pub name: &'static str,
    /// Two letters that papers use for it.
    pub short_name: &'static str,
    /// The group of the collection that it belongs to.
    pub group: &'static str,
    /// What it is.
    pub description: &'static str,
    /// Number of vertices.
    pub num_vertices: u64,
    /// Number of entries that a load gives, both directions of an edge and stored zeros among them.
    pub num_edges: u64,
    /// What its values are.
    pub weights: &'static str,
    /// What makes the same graph without a download.
    pub generator: Option<GapGenerator>,
}

const fn suite_sparse(kind: GapKind) -> Option<GapGenerator> {
    Some(GapGenerator { kind, scale: 27, degree: 16, rule: GapRule::SuiteSparse })
}

/// All of them.
static KNOWN_GRAPHS: [KnownGraph; 4] = [
    KnownGraph {
        name: "GAP-kron",
        short_name: "GK",
        group: "GAP",
        description: "Kronecker graph of the GAP benchmark suite, scale 27",
        num_vertices: 134_217_726,
        num_edges: 4_223_264_644,
        weights: "integers from 1 to 255",
        generator: suite_sparse(GapKind::Kron),
    },
    KnownGraph {
        name: "GAP-urand",
        short_name: "GU",
        group: "GAP",
        description: "uniformly random graph of the GAP benchmark suite, scale 27",
        num_vertices: 134_217_728,
        num_edges: 4_294_966_740,
        weights: "integers from 1 to 255",
        generator: suite_sparse(GapKind::Urand),
    },
    KnownGraph {
        name: "com-Friendster",
        short_name: "FS",
        group: "SNAP",
        description: "friendships of the Friendster social network",
        num_vertices: 65_608_366,
        num_edges: 3_612_134_270,
        weights: "none",
        generator: None,
    },
    KnownGraph {
        name: "MOLIERE_2016",
        short_name: "MO",
        group: "Sybrandt",
        description: "terms of biomedical literature and how they are related",
        num_vertices: 30_239_687,
        // The index counts 6,669,254,694 nonzeros; 8,046,672 zeros are stored, and they are edges as well.
        num_edges: 6_677_301_366,
        weights: "reals from 0 to 3",
        generator: None,
    },
];

impl KnownGraph {
    /// All known graphs.
    pub fn all() -> &'static [Self] {
        &KNOWN_GRAPHS
    }

    /// The graph called `name`, in full or by its two letters, in upper or lower case.
    ///
    /// # Errors
    /// [`NameError::UnknownGraph`], which lists the known ones.
    pub fn find(name: &str) -> Result<&'static Self, NameError> {
        Self::all()
            .iter()
            .find(|graph| [graph.name, graph.short_name].iter().any(|known| known.eq_ignore_ascii_case(name)))
            .ok_or_else(|| NameError::UnknownGraph { name: name.to_owned() })
    }

    /// The names of all, as an enumeration.
    pub(crate) fn names() -> String {
        let names = Self::all().iter().map(|graph| format!("{} ({})", graph.name, graph.short_name));
        names.collect::<Vec<_>>().join(", ")
    }

    /// The archive that the collection offers in Matrix Market format.
    pub fn archive_name(&self) -> String {
        format!("{}.tar.gz", self.name)
    }

    /// The matrix within the archive.
    pub fn matrix_name(&self) -> String {
        format!("{0}/{0}.mtx", self.name)
    }

    /// The graph's page in the collection.
    pub fn page(&self) -> String {
        format!("https://sparse.tamu.edu/{}/{}", self.group, self.name)
    }

    /// What to do to have it, as a clause.
    pub fn how_to_get(&self) -> String {
        let download = format!(
            "download {} (Matrix Market, with {} in it) from {}",
            self.archive_name(),
            self.matrix_name(),
            self.page()
        );
        match self.generator {
            Some(generator) => format!("generate {generator}, which is the same graph, or {download}"),
            None => download,
        }
    }
}

/// Name, group and size.
impl fmt::Display for KnownGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, short_name, group, description, num_vertices, num_edges, .. } = self;
        write!(
            f,
            "{name} ({short_name}): {description}, {num_vertices} vertices, {num_edges} edges; {group}/{name} in the \
             SuiteSparse collection"
        )
    }
}

/// What a user may call a graph that is no file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NamedGraph {
    /// A graph of the collection: `GAP-kron`, `gk`.
    Known(&'static KnownGraph),
    /// A graph of the GAP suite: `gap-kron:24`.
    Gap(GapGenerator),
    /// A grid: `grid:1000x1000`.
    Grid(Grid),
}

impl NamedGraph {
    /// What makes the graph; `None` for one that has to be downloaded.
    pub fn generated(self) -> Option<GeneratedGraph> {
        match self {
            Self::Known(known) => known.generator.map(GeneratedGraph::Gap),
            Self::Gap(generator) => Some(GeneratedGraph::Gap(generator)),
            Self::Grid(grid) => Some(GeneratedGraph::Grid(grid)),
        }
    }

    /// Vertices, and edges of both directions, where they are known without making the graph: those of the collection's
    /// graphs, under whatever name, and of grids.
    pub fn counts(self) -> Option<(u64, u64)> {
        match self {
            Self::Known(known) => Some((known.num_vertices, known.num_edges)),
            Self::Gap(generator) => {
                let known = KnownGraph::all().iter().find(|known| known.generator == Some(generator))?;
                Some((known.num_vertices, known.num_edges))
            }
            Self::Grid(grid) => grid.num_vertices_and_edges().ok(),
        }
    }
}

impl FromStr for NamedGraph {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        let family = name.split(':').next().unwrap_or_default().to_ascii_lowercase();
        match family.as_str() {
            "grid" => Ok(Self::Grid(name.parse()?)),
            _ if name.contains(':') && family.parse::<GapKind>().is_ok() => Ok(Self::Gap(name.parse()?)),
            _ => Ok(Self::Known(KnownGraph::find(name)?)),
        }
    }
}

/// The name that gives this graph again.
impl fmt::Display for NamedGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(graph) => f.write_str(graph.name),
            Self::Gap(generator) => generator.fmt(f),
            Self::Grid(grid) => grid.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graphs_are_found_by_both_names_in_any_case() {
        for (name, expected) in [
            ("GAP-kron", "GAP-kron"),
            ("gap-KRON", "GAP-kron"),
            ("gu", "GAP-urand"),
            ("molierE_2016", "MOLIERE_2016"),
        ] {
            assert_eq!(KnownGraph::find(name).expect(name).name, expected);
        }
        assert_eq!(KnownGraph::find("FS").expect("known").archive_name(), "com-Friendster.tar.gz");
        assert_eq!(KnownGraph::find("FS").expect("known").matrix_name(), "com-Friendster/com-Friendster.mtx");
    }

    #[test]
    fn unknown_name_lists_the_known_ones() {
        let message = KnownGraph::find("twitter").expect_err("unknown").to_string();
        for known in
            ["twitter", "GAP-kron (GK)", "GAP-urand (GU)", "com-Friendster (FS)", "MOLIERE_2016 (MO)"]
        {
            assert!(message.contains(known), "{message}");
        }
    }

    #[test]
    fn a_scale_makes_a_generator_of_a_name() {
        let parse = |name: &str| name.parse::<NamedGraph>().map(|graph| graph.to_string());
        assert_eq!(parse("gap-kron").as_deref(), Ok("GAP-kron"));
        assert_eq!(parse("GAP-kron:24").as_deref(), Ok("gap-kron:24"));
        assert_eq!(parse("Grid:3x4").as_deref(), Ok("grid:3x4"));
        assert!(matches!(parse("gap-kron:x"), Err(NameError::Malformed { .. })));
        assert!(matches!(parse("mo:24"), Err(NameError::UnknownGraph { .. })));
        assert!(matches!(parse(""), Err(NameError::UnknownGraph { .. })));
    }

    #[test]
    fn counts_are_known_of_the_collection_and_of_grids_alone() {
        let counts = |name: &str| name.parse::<NamedGraph>().expect(name).counts();
        assert_eq!(counts("FS"), Some((65_608_366, 3_612_134_270)));
        assert_eq!(counts("gap-kron:27"), counts("GK"));
        // Two rows of three: 3 + 2 * 2 undirected edges.
        assert_eq!(counts("grid:3x2"), Some((6, 14)));
        assert_eq!((counts("gap-kron:20"), counts("gap-kron:27:v1.5")), (None, None));
    }

    #[test]
    fn generated_graphs_say_how_and_the_others_where_to_download() {
        let of = |name| KnownGraph::find(name).expect("known").how_to_get();
        assert!(of("GU").starts_with("generate gap-urand:27"));
        assert!(of("MO").starts_with("download MOLIERE_2016.tar.gz"));
        assert!(of("MO").contains("Sybrandt/MOLIERE_2016"));
    }
}
