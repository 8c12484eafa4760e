use std::marker::PhantomData;

use bytemuck::Pod;
use memmap2::MmapMut;
use rayon::prelude::*;

use super::row_parts::RowParts;
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
        let split = Split { csr, floors, chunk_edges };
        match csr.weights() {
            Weights::Unit => split.by(|_, _, _| 1.0, &[0_u8; 0], |_| Weights::Unit),
            Weights::Hash => split.by(|_, u, v| Weights::hash8(u, v).into(), &[0_u8; 0], |_| Weights::Hash),
            Weights::U8(w) => split.by(|e, _, _| w[e].into(), w, Weights::U8),
            Weights::U16(w) => split.by(|e, _, _| w[e].into(), w, Weights::U16),
            Weights::U32(w) => split.by(|e, _, _| w[e].into(), w, Weights::U32),
            Weights::F32(w) => split.by(|e, _, _| w[e].into(), w, Weights::F32),
            Weights::F64(w) => split.by(|e, _, _| w[e], w, Weights::F64),
        }
    }
}

struct Split<'a> {
    csr: &'a Csr,
    floors: &'a [f64],
    chunk_edges: u32,
}

impl Split<'_> {
    /// Splits by the `weight` of edge e from u to v. The bands get their part of the `stored` weights, if there are any,
    /// made into weights by `wrap`.
    fn by<T: Pod + Send + Sync>(
        &self,
        weight: impl Fn(usize, VertexId, VertexId) -> f64 + Sync,
        stored: &[T],
        wrap: impl Fn(HostArray<T>) -> Weights,
    ) -> Result<WeightBands, Error> {
        let (csr, n) = (self.csr, self.csr.num_vertices() as usize);
        let floor = |band: usize| self.floors.get(band).copied().unwrap_or(f64::INFINITY);
        let (second, third) = (floor(1), floor(2));
        // The edges of row u: edge, its end and its band.
        let row = |u: usize| {
            let begin = csr.row_offsets()[u] as usize;
            let weight = &weight;
            csr.neighbors(u as VertexId).iter().enumerate().map(move |(i, &v)| {
                let w = weight(begin + i, u as VertexId, v);
                (begin + i, v, usize::from(w >= second) + usize::from(w >= third))
            })
        };

        // Lengths of rows summed up, each part by itself; then over the parts.
        let parts = RowParts::new(csr.row_offsets());
        let mut offsets = [(); MAX_BANDS].map(|()| vec![0_u64; n + 1]);
        let [light, middle, heavy] = offsets.each_mut().map(|offsets| parts.of_rows(&mut offsets[1..]));
        let lengths: Vec<[u64; MAX_BANDS]> = (parts.par_iter().zip(light).zip(middle).zip(heavy))
            .map(|(((rows, light), middle), heavy)| {
                let mut total = [0; MAX_BANDS];
                for (i, u) in rows.enumerate() {
                    row(u).for_each(|(_, _, band)| total[band] += 1);
                    [light[i], middle[i], heavy[i]] = total;
                }
                total
            })
            .collect();
        let mut begin = [0; MAX_BANDS];
        let mut begins = Vec::with_capacity(lengths.len());
        for lengths in &lengths {
            begins.push(begin);
            begin.iter_mut().zip(lengths).for_each(|(begin, length)| *begin += length);
        }
        for (band, offsets) in offsets.iter_mut().enumerate() {
            let parts = parts.of_rows(&mut offsets[1..]).into_par_iter().zip(&begins);
            parts.for_each(|(part, begins)| part.iter_mut().for_each(|end| *end += begins[band]));
        }

        let mut columns = begin.map(Room::<VertexId>::new);
        let mut weights = begin.map(|len| Room::<T>::new(if stored.is_empty() { 0 } else { len }));
        let columns_of_parts = parts_of(&mut columns, &lengths)?;
        let weights_of_parts = parts_of(&mut weights, &lengths)?;
        let all = parts.par_iter().zip(columns_of_parts).zip(weights_of_parts);
        all.for_each(|((rows, columns), weights)| {
            let mut at = [0; MAX_BANDS];
            for (e, v, band) in rows.flat_map(row) {
                columns[band][at[band]] = v;
                if let Some(&w) = stored.get(e) {
                    weights[band][at[band]] = w;
                }
                at[band] += 1;
            }
        });
        let bands = offsets.into_iter().zip(columns).zip(weights).take(self.floors.len());
        let bands = bands.map(|((offsets, columns), weights)| {
            let weights = wrap(weights.into_array()?);
            let band = Csr::with_unread_columns(offsets, columns.into_array()?, weights, csr.is_symmetric())?;
            Ok(BalancedCsr::new(band, self.chunk_edges)?)
        });
        Ok(WeightBands { bands: bands.collect::<Result<_, Error>>()? })
    }
}

/// Zeros that become an array.
struct Room<T> {
    map: Result<MmapMut, u64>,
    elements: PhantomData<T>,
}

impl<T: Pod + Send + Sync> Room<T> {
    fn new(len: u64) -> Self {
        let bytes = len * size_of::<T>() as u64;
        let map = usize::try_from(bytes).ok().filter(|&size| size > 0).and_then(|size| anonymous(size).ok());
        Self { map: map.ok_or(bytes), elements: PhantomData }
    }

    fn out_of_memory(bytes: u64) -> Error {
        Error::OutOfMemory { what: "edges split by weight", bytes }
    }

    fn elements(&mut self) -> Result<&mut [T], Error> {
        match &mut self.map {
            Ok(map) => Ok(bytemuck::cast_slice_mut(map)),
            Err(0) => Ok(&mut []),
            Err(bytes) => Err(Self::out_of_memory(*bytes)),
        }
    }

    fn into_array(self) -> Result<HostArray<T>, Error> {
        match self.map {
            Ok(map) => Ok(HostArray::from_map(map)),
            Err(0) => Ok(Vec::new().into()),
            Err(bytes) => Err(Self::out_of_memory(bytes)),
        }
    }
}

/// What each part of the rows fills of each room: so many elements one after the other; nothing of a room without any.
fn parts_of<'a, T: Pod + Send + Sync>(
    rooms: &'a mut [Room<T>; MAX_BANDS],
    lengths: &[[u64; MAX_BANDS]],
) -> Result<Vec<[&'a mut [T]; MAX_BANDS]>, Error> {
    let [light, middle, heavy] = rooms;
    let mut rest = [light.elements()?, middle.elements()?, heavy.elements()?];
    let part = |lengths: &[u64; MAX_BANDS]| {
        let mut band = 0;
        rest.each_mut().map(|rest| {
            let length = rest.len().min(lengths[band] as usize);
            band += 1;
            rest.split_off_mut(..length).unwrap_or_default()
        })
    };
    Ok(lengths.iter().map(part).collect())
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
