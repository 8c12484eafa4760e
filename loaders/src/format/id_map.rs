//! Names of vertices that are numbers of any size, and the vertices that they name: the k-th in a list.

use std::path::Path;

use gpuvm_engine::graph::{MAX_VERTICES, VertexId};
use rayon::prelude::*;

use crate::error::{LoadError, Place};
use crate::memory;

/// Ids of a file to vertices from 0 on.
///
/// Ids in order are cut into intervals of one length, about one for each id, so that a look-up is a shift, two reads and a
/// search among the few ids of an interval (among more of them where ids stand in clusters).
#[derive(Debug)]
pub(super) struct IdMap {
    /// In order, each once.
    ids: Vec<u64>,
    /// The first id of each interval, and the end.
    begins: Vec<u32>,
    least: u64,
    shift: u32,
    /// The vertex of each id, if it is not its place.
    vertices: Option<Vec<VertexId>>,
    /// The id of each vertex, if that is not the order of the ids.
    listed: Option<Vec<u64>>,
}

impl IdMap {
    /// Of the ids in `parts`, each part in order; vertices are in the order of their ids.
    pub(super) fn new(parts: Vec<Vec<u64>>, path: &Path) -> Result<Self, LoadError> {
        let total: usize = parts.iter().map(Vec::len).sum();
        memory::check(total as u64 * 8, path, "the ids of this file")?;
        let mut ids = Vec::with_capacity(total);
        parts.into_iter().for_each(|part| ids.extend(part));
        ids.par_sort_unstable();
        ids.dedup();
        ids.shrink_to_fit();
        if ids.len() as u64 > MAX_VERTICES {
            let num_vertices = ids.len() as u64;
            let (rows, columns, line) = (num_vertices, num_vertices, Place::default());
            return Err(LoadError::TooManyVertices {
                path: path.to_owned(),
                line,
                rows,
                columns,
                num_vertices,
            });
        }
        Ok(Self::of(ids))
    }

    /// Vertices in the order of a list, or the place of the first id that is in it twice.
    pub(super) fn listed(list: Vec<u64>) -> Result<Self, usize> {
        let mut order: Vec<u32> = (0..list.len() as u32).collect();
        order.par_sort_unstable_by_key(|&at| (list[at as usize], at));
        let twice = order.par_windows(2).filter(|pair| list[pair[0] as usize] == list[pair[1] as usize]);
        if let Some(at) = twice.map(|pair| pair[1]).min() {
            return Err(at as usize);
        }
        let ids = order.iter().map(|&at| list[at as usize]).collect();
        Ok(Self { vertices: Some(order), listed: Some(list), ..Self::of(ids) })
    }

    fn of(ids: Vec<u64>) -> Self {
        let least = ids.first().copied().unwrap_or(0);
        let span = ids.last().map_or(0, |&last| last - least);
        let mut shift = 0;
        while (span >> shift) as usize >= ids.len().max(1) {
            shift += 1;
        }
        let intervals = (span >> shift) as usize + 1;
        let mut begins = Vec::with_capacity(intervals + 1);
        for (at, id) in ids.iter().enumerate() {
            let interval = ((id - least) >> shift) as usize;
            while begins.len() <= interval {
                begins.push(at as u32);
            }
        }
        begins.resize(intervals + 1, ids.len() as u32);
        Self { ids, begins, least, shift, vertices: None, listed: None }
    }

    /// The vertex that `id` names.
    #[inline(always)]
    pub(super) fn get(&self, id: u64) -> Option<VertexId> {
        let interval = (id.checked_sub(self.least)? >> self.shift) as usize;
        let begin = *self.begins.get(interval)? as usize;
        let end = *self.begins.get(interval + 1)? as usize;
        let among = self.ids.get(begin..end)?;
        let at = begin + among.partition_point(|&other| other < id);
        if self.ids.get(at) != Some(&id) {
            return None;
        }
        match &self.vertices {
            Some(vertices) => vertices.get(at).copied(),
            None => Some(at as VertexId),
        }
    }

    /// The id of each vertex.
    pub(super) fn ids(&self) -> &[u64] {
        self.listed.as_deref().unwrap_or(&self.ids)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_is_found_and_no_other() {
        for ids in [
            vec![],
            vec![7],
            vec![0, 1, 2, 3],
            vec![5, 1 << 40, (1 << 40) + 1, u64::MAX - 1],
            (0..1000).map(|k| k * k * 977).collect(),
        ] {
            let map = IdMap::new(vec![ids.clone()], Path::new("a")).expect("fits");
            for (at, &id) in ids.iter().enumerate() {
                assert_eq!(map.get(id), Some(at as u32));
                if !ids.contains(&(id + 1)) {
                    assert_eq!(map.get(id + 1), None);
                }
            }
            assert_eq!(map.ids(), ids);
        }
    }

    #[test]
    fn listed_ids_name_vertices_in_the_order_of_the_list() {
        let map = IdMap::listed(vec![30, 10, 20]).expect("each once");
        assert_eq!([10, 20, 30, 40].map(|id| map.get(id)), [Some(1), Some(2), Some(0), None]);
        assert_eq!(map.ids(), [30, 10, 20]);
        assert_eq!(IdMap::listed(vec![4, 9, 4, 9]).err(), Some(2));
    }
}
