//! What vertices are called: by their numbers, or by the ids that the file gives them where those are others.

use std::sync::Arc;

use gpuvm_engine::graph::VertexId;
use rayon::prelude::*;

/// The ids of the file, if they are not the numbers of the vertices.
#[derive(Clone, Debug, Default)]
pub struct Ids(Option<Arc<[u64]>>);

impl Ids {
    pub fn new(ids: Option<Arc<[u64]>>) -> Self {
        Self(ids)
    }

    /// What `vertex` is called.
    pub fn of(&self, vertex: VertexId) -> u64 {
        let id = self.0.as_ref().and_then(|ids| ids.get(vertex as usize).copied());
        id.unwrap_or_else(|| vertex.into())
    }

    /// All ids, in the order of the vertices; none if they are the numbers.
    pub fn list(&self) -> Option<&[u64]> {
        self.0.as_deref()
    }

    /// The vertex that is called `id`.
    pub fn vertex(&self, id: u64) -> Option<VertexId> {
        match &self.0 {
            Some(ids) => ids.par_iter().position_first(|&other| other == id).map(|at| at as VertexId),
            None => VertexId::try_from(id).ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vertices_are_called_by_their_numbers_or_by_the_ids_of_the_file() {
        let numbers = Ids::default();
        assert_eq!((numbers.of(7), numbers.vertex(7), numbers.vertex(1 << 40)), (7, Some(7), None));
        let ids = Ids::new(Some(Arc::from([900, 5, 1 << 40])));
        assert_eq!((ids.of(2), ids.vertex(1 << 40), ids.vertex(0)), (1 << 40, Some(2), None));
    }
}
