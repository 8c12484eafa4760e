use bytemuck::Pod;
use memmap2::MmapMut;
use rayon::prelude::*;

use super::{BalancedCsr, Csr, HostArray, VertexId, Weights};
use crate::error::Error;
use crate::memory::anonymous;

/// Bands that edges are split into at most.
pub(crate) const MAX_BANDS: usize = 3;

/// The edges of a graph split by weight into bands, each a graph of its own with the same vertices. Shortest paths take
/// light edges again and again and heavy ones seldom, so that each kind should have pages of its own: a row whole, light
/// and heavy edges side by side, is fetched again for the few light ones.
#[derive(Debug)]
pub(crate) struct WeightBands {
    /// Light first. Together they hold every edge once.
    pub bands: Vec<BalancedCsr>,
}

impl WeightBands {
    /// Least weights of the bands, the first 0; `None` if a split does not pay: weights that are all alike, or so few
    /// edges a vertex that light ones alone connect little.
    ///
    /// The light band has an eighth of the edges, or more if a vertex would have fewer than four of them on average;
    /// the second what is below the median; both by a sample.
    pub fn floors(csr: &Csr) -> Option<Vec<f64>> {
        const LEAST_DEGREE: f64 = 8.0;
        let mean_degree = csr.num_edges() as f64 / csr.num_vertices().max(1) as f64;
        if mean_degree < LEAST_DEGREE {
            return None;
        }
        let mut sample = csr.weights().sample();
        sample.sort_unstable_by(f64::total_cmp);
        let above = |share: f64| {
            let quantile = sample[(sample.len() as f64 * share) as usize];
            // The next weight that there may be; bands begin with their floor.
            if csr.weights().weight_type().is_integer() {
                quantile + 1.0
            } else {
                f64::from((quantile as f32).next_up())
            }
        };
        if sample.is_empty() {
            return None;
        }
        let mut floors = vec![0.0, above((4.0 / mean_degree).clamp(0.125, 0.25)), above(0.5)];
        floors.dedup();
        // Without edges above it a floor parts nothing.
        floors.retain(|floor| sample.last().is_some_and(|most| floor <= most));
        (floors.len() > 1).then_some(floors)
    }

    /// Splits the edges of `csr` at `floors`, in parallel, into segments of `chunk_edges`.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; [`Error::Graph`] as [`BalancedCsr::new`].
    pub fn new(csr: &Csr, floors: &[f64], chunk_edges: u32) -> Result<Self, Error> {
        let band_of = |e: u64, u: VertexId, v: VertexId| {
            let weight = csr.weights().get(e, u, v);
            floors[1..].iter().filter(|&&floor| floor <= weight).count()
        };
        // Rows of several vertices make a piece of work.
        const PIECE: usize = 4096;
        let n = csr.num_vertices() as usize;
        let mut lengths = vec![[0_u32; MAX_BANDS]; n];
        lengths.par_chunks_mut(PIECE).enumerate().for_each(|(piece, lengths)| {
            for (i, lengths) in lengths.iter_mut().enumerate() {
                let u = (piece * PIECE + i) as VertexId;
                let begin = csr.row_offsets()[u as usize];
                for (i, &v) in csr.neighbors(u).iter().enumerate() {
                    lengths[band_of(begin + i as u64, u, v)] += 1;
                }
            }
        });
        let bands = (0..floors.len()).map(|band| {
            let mut row_offsets = Vec::with_capacity(n + 1);
            let mut end = 0_u64;
            row_offsets.push(end);
            row_offsets.extend(lengths.iter().map(|lengths| {
                end += u64::from(lengths[band]);
                end
            }));
            let chosen = |e: u64, u: VertexId, v: VertexId| band_of(e, u, v) == band;
            let columns = csr.column_indices();
            let new_columns = gather(csr, &row_offsets, columns, &chosen)?;
            let weights = match csr.weights() {
                Weights::Unit => Weights::Unit,
                Weights::Hash => Weights::Hash,
                Weights::U8(w) => Weights::U8(gather(csr, &row_offsets, w, &chosen)?),
                Weights::U16(w) => Weights::U16(gather(csr, &row_offsets, w, &chosen)?),
                Weights::U32(w) => Weights::U32(gather(csr, &row_offsets, w, &chosen)?),
                Weights::F32(w) => Weights::F32(gather(csr, &row_offsets, w, &chosen)?),
                Weights::F64(w) => Weights::F64(gather(csr, &row_offsets, w, &chosen)?),
            };
            let band = Csr::with_unread_columns(row_offsets, new_columns, weights, csr.is_symmetric())?;
            Ok(BalancedCsr::new(band, chunk_edges)?)
        });
        Ok(Self { bands: bands.collect::<Result<_, Error>>()? })
    }
}

/// The elements of `values`, one an edge of `csr`, of the edges that are `chosen`: those of row u from `row_offsets[u]`
/// on.
fn gather<T: Pod + Send + Sync>(
    csr: &Csr,
    row_offsets: &[u64],
    values: &[T],
    chosen: &(impl Fn(u64, VertexId, VertexId) -> bool + Sync),
) -> Result<HostArray<T>, Error> {
    const PIECE: usize = 4096;
    let len = row_offsets[row_offsets.len() - 1] as usize;
    if len == 0 {
        return Ok(Vec::new().into());
    }
    let bytes = (len * size_of::<T>()) as u64;
    let mut map: MmapMut =
        anonymous(bytes as usize).map_err(|_| Error::OutOfMemory { what: "edges split by weight", bytes })?;
    let mut rest: &mut [T] = bytemuck::cast_slice_mut(&mut map);
    let mut pieces = Vec::new();
    let n = row_offsets.len() - 1;
    for first in (0..n).step_by(PIECE) {
        let last = (first + PIECE).min(n);
        let (piece, after) = rest.split_at_mut((row_offsets[last] - row_offsets[first]) as usize);
        pieces.push((first, last, piece));
        rest = after;
    }
    pieces.into_par_iter().for_each(|(first, last, piece)| {
        let mut places = piece.iter_mut();
        for u in first as VertexId..last as VertexId {
            let begin = csr.row_offsets()[u as usize];
            for (i, &v) in csr.neighbors(u).iter().enumerate() {
                let e = begin + i as u64;
                if chosen(e, u, v)
                    && let Some(place) = places.next()
                {
                    *place = values[e as usize];
                }
            }
        }
    });
    Ok(HostArray::from_map(map))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Row 0: nine edges of weights 1 to 9; row 1: none; row 2: nine of weights 9 to 1.
    fn graph() -> Csr {
        let weights = [1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 8, 7, 6, 5, 4, 3, 2, 1];
        let columns = (0..18).map(|e| e % 3).collect::<Vec<u32>>();
        Csr::new(vec![0, 9, 9, 18], columns, Weights::U8(weights.to_vec().into()), false).expect("valid")
    }

    #[test]
    fn bands_hold_every_edge_once_in_the_order_of_its_row() {
        let split = WeightBands::new(&graph(), &[0.0, 3.0, 6.0], 4).expect("fits");
        let rows = |band: usize, u| -> Vec<(u32, f64)> {
            split.bands[band].csr().edges(u).map(|(_, v, w)| (v, w)).collect()
        };
        assert_eq!(rows(0, 0), [(0, 1.0), (1, 2.0)]);
        assert_eq!(rows(0, 2), [(1, 2.0), (2, 1.0)]);
        assert_eq!(rows(1, 0), [(2, 3.0), (0, 4.0), (1, 5.0)]);
        assert_eq!(rows(1, 1), []);
        assert_eq!(rows(2, 2), [(0, 9.0), (1, 8.0), (2, 7.0), (0, 6.0)]);
        assert_eq!(split.bands.iter().map(|band| band.csr().num_edges()).sum::<u64>(), 18);
    }

    #[test]
    fn weights_that_are_all_alike_are_not_split() {
        let n = 100_u32;
        let columns: Vec<u32> = (0..n * 16).map(|e| e % n).collect();
        let offsets: Vec<u64> = (0..=u64::from(n)).map(|u| u * 16).collect();
        let with = |weights| Csr::new(offsets.clone(), columns.clone(), weights, false).expect("valid");
        assert_eq!(WeightBands::floors(&with(Weights::Unit)), None);
        assert_eq!(WeightBands::floors(&with(Weights::U16(vec![7; 1600].into()))), None);
        // Half of the edges weigh 1, half 200: two bands.
        let two: Vec<u8> = (0..1600).map(|e| if e / 2 % 2 == 0 { 1 } else { 200 }).collect();
        assert_eq!(WeightBands::floors(&with(Weights::U8(two.into()))), Some(vec![0.0, 2.0]));
    }
}
