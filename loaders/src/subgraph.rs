//! A part of a graph as a graph of its own.

use std::sync::Arc;

use gpuvm_engine::graph::{Csr, HostArray, VertexId, Weights};
use rayon::prelude::*;

use crate::summary::LoadSummary;
use crate::write::in_natural_order;
use crate::{LoadError, LoadedGraph};

/// Vertices that one thread takes at a time.
const BLOCK: usize = 1 << 12;

/// The vertices `kept`, ascending, and all edges between them: vertex `kept[i]` becomes vertex i, so that their order stays.
///
/// `what` names the part in the summary's format, as in `largest component`.
///
/// # Errors
/// [`LoadError::Graph`] if a vertex is none of the graph, or `kept` is not ascending; [`LoadError::NaturalOrder`].
pub fn induced(graph: &LoadedGraph, kept: &[VertexId], what: &str) -> Result<LoadedGraph, LoadError> {
    let csr = &in_natural_order(&graph.csr, what.as_ref())?;
    let n = csr.num_vertices();
    let bad = kept.iter().position(|&v| u64::from(v) >= n);
    let falls = || kept.windows(2).position(|pair| pair[0] >= pair[1]);
    if let Some(at) = bad.or_else(falls) {
        let source = gpuvm_engine::GraphError::ColumnOutOfRange {
            edge: at as u64,
            column: kept[at].into(),
            num_vertices: n,
        };
        return Err(LoadError::Graph { path: what.into(), source });
    }
    let mut ids = vec![VertexId::MAX; n as usize];
    for (id, &v) in kept.iter().enumerate() {
        ids[v as usize] = id as VertexId;
    }
    // A damaged file may hold a column that is no vertex; such an edge is in no part of the graph.
    let id = |v: VertexId| ids.get(v as usize).copied().filter(|&id| id != VertexId::MAX);

    let mut offsets: Vec<u64> = std::iter::once(0).chain(kept.iter().map(|_| 0)).collect();
    offsets[1..].par_iter_mut().zip(kept).for_each(|(degree, &u)| {
        *degree = csr.neighbors(u).iter().filter(|&&v| id(v).is_some()).count() as u64;
    });
    let mut sum = 0;
    for offset in &mut offsets {
        sum += *offset;
        *offset = sum;
    }
    let part = Part { csr, kept, offsets: &offsets, id: &id };
    let columns = part.gather(0, |_, v| id(v).unwrap_or_default());
    let weights = match csr.weights() {
        Weights::Unit => Weights::Unit,
        // A weight is a function of the two ids, which are others now: it stays what it was.
        Weights::Hash => {
            let hashed = kept.par_iter().flat_map_iter(|&u| {
                let edges = csr.neighbors(u).iter().filter(|&&v| id(v).is_some());
                edges.map(move |&v| Weights::hash8(u, v))
            });
            Weights::U8(hashed.collect::<Vec<_>>().into())
        }
        Weights::U8(w) => Weights::U8(part.weights(w)),
        Weights::U16(w) => Weights::U16(part.weights(w)),
        Weights::U32(w) => Weights::U32(part.weights(w)),
        Weights::F32(w) => Weights::F32(part.weights(w)),
        Weights::F64(w) => Weights::F64(part.weights(w)),
    };
    let csr = Csr::new(offsets, columns, weights, csr.is_symmetric())
        .map_err(|source| LoadError::Graph { path: what.into(), source })?;
    let summary = summary(&graph.summary, &csr, kept, what);
    let names = |ids: &Arc<[u64]>| kept.iter().filter_map(|&v| ids.get(v as usize).copied()).collect();
    let ids = graph.ids.as_ref().map(names);
    Ok(LoadedGraph { csr, summary, ids })
}

/// The edges that stay.
struct Part<'a, F> {
    csr: &'a Csr,
    kept: &'a [VertexId],
    offsets: &'a [u64],
    id: &'a F,
}

impl<F: Fn(VertexId) -> Option<VertexId> + Sync> Part<'_, F> {
    fn weights<T: Copy + Default + Send + Sync + 'static>(&self, weights: &HostArray<T>) -> HostArray<T> {
        self.gather(T::default(), |edge, _| weights[edge as usize]).into()
    }

    /// Something of each edge that stays, by its number and target.
    fn gather<T: Copy + Send + Sync>(&self, fill: T, pick: impl Fn(u64, VertexId) -> T + Sync) -> Vec<T> {
        let num_edges = self.offsets.last().map_or(0, |&last| last as usize);
        let mut all = vec![fill; num_edges];
        let mut rest = &mut all[..];
        let mut blocks = Vec::new();
        for (block, kept) in self.kept.chunks(BLOCK).enumerate() {
            let first = block * BLOCK;
            let len = self.offsets[first + kept.len()] - self.offsets[first];
            let (front, back) = std::mem::take(&mut rest).split_at_mut(len as usize);
            blocks.push((kept, front));
            rest = back;
        }
        blocks.into_par_iter().for_each(|(kept, places)| {
            let edges = kept.iter().flat_map(|&u| {
                let begin = self.csr.row_offsets()[u as usize];
                (begin..).zip(self.csr.neighbors(u))
            });
            let staying = edges.filter(|&(_, &v)| (self.id)(v).is_some());
            for (place, (edge, &v)) in places.iter_mut().zip(staying) {
                *place = pick(edge, v);
            }
        });
        all
    }
}

/// What a file of the part would have said.
fn summary(whole: &LoadSummary, csr: &Csr, kept: &[VertexId], what: &str) -> LoadSummary {
    let n = csr.num_vertices();
    let rows = if whole.bipartite { kept.partition_point(|&v| u64::from(v) < whole.rows) as u64 } else { n };
    let loops = (0..n as VertexId).into_par_iter();
    let loops: usize = loops.map(|u| csr.neighbors(u).iter().filter(|&&v| v == u).count()).sum();
    let count = |test: fn(f64) -> bool| {
        let num_weights = csr.weights().stored_len().unwrap_or(0) as u64;
        (0..num_weights).into_par_iter().filter(|&edge| test(csr.weights().get(edge, 0, 0))).count() as u64
    };
    let symmetry = if csr.is_symmetric() { "symmetric" } else { "general" };
    LoadSummary {
        format: format!("{what} of {}", whole.converted_from.as_ref().unwrap_or(&whole.format)),
        converted_from: None,
        rows,
        columns: if whole.bipartite { n - rows } else { n },
        field: whole.field.clone(),
        symmetry: symmetry.to_owned(),
        stored_entries: csr.num_edges(),
        expanded_entries: csr.num_edges(),
        self_loops: loops as u64,
        explicit_zeros: count(|w| w == 0.0),
        negative_weights: count(|w| w < 0.0),
        bipartite: whole.bipartite,
        symmetrized: whole.symmetrized,
        duplicates_kept: whole.duplicates_kept,
        loops_kept: whole.loops_kept,
        ..LoadSummary::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(weights: Weights) -> LoadedGraph {
        // 0 -> 1, 0 -> 3, 1 -> 4, 3 -> 0, 3 -> 4, 4 -> 4; 2 is alone.
        let csr = Csr::new(vec![0, 2, 3, 3, 5, 6], vec![1, 3, 4, 0, 4, 4], weights, false).expect("valid");
        LoadedGraph {
            csr,
            summary: LoadSummary { format: "a test".to_owned(), ..LoadSummary::default() },
            ids: None,
        }
    }

    #[test]
    fn edges_between_the_vertices_kept_stay_with_their_weights_under_new_ids() {
        let whole = graph(Weights::F32(vec![1.0, 2.0, 3.0, -4.0, 0.0, 6.0].into()));
        let part = induced(&whole, &[0, 3, 4], "part").expect("vertices");
        assert_eq!(part.csr.row_offsets().as_slice(), [0, 1, 3, 4]);
        assert_eq!(part.csr.column_indices().as_slice(), [1, 0, 2, 2]);
        let Weights::F32(weights) = part.csr.weights() else { panic!("another type") };
        assert_eq!(weights.as_slice(), [2.0, -4.0, 0.0, 6.0]);
        let summary = &part.summary;
        assert_eq!((summary.rows, summary.columns, summary.stored_entries), (3, 3, 4));
        assert_eq!((summary.self_loops, summary.explicit_zeros, summary.negative_weights), (1, 1, 1));
        assert_eq!(summary.format, "part of a test");
    }

    #[test]
    fn weights_made_of_the_ids_stay_those_of_the_whole_graph() {
        let part = induced(&graph(Weights::Hash), &[1, 4], "part").expect("vertices");
        assert_eq!(part.csr.column_indices().as_slice(), [1, 1]);
        let Weights::U8(weights) = part.csr.weights() else { panic!("another type") };
        assert_eq!(weights.as_slice(), [Weights::hash8(1, 4), Weights::hash8(4, 4)]);
    }

    #[test]
    fn no_vertex_at_all_is_a_graph_and_one_that_is_none_is_refused() {
        assert_eq!(induced(&graph(Weights::Unit), &[], "part").expect("valid").csr.num_vertices(), 0);
        assert!(induced(&graph(Weights::Unit), &[5], "part").is_err());
        assert!(induced(&graph(Weights::Unit), &[3, 1], "part").is_err());
    }
}
