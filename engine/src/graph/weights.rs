use std::fmt;

use rayon::prelude::*;
use serde::Serialize;

use super::{HostArray, VertexId};

/// The weight of every edge, in the order of the column indices and in the narrowest type that holds them all
/// exactly; two rules need no storage at all.
#[derive(Clone, Debug)]
pub enum Weights {
    /// Every edge weighs 1: what a pattern matrix means.
    Unit,
    /// The `hash8` rule: [`hash8`](Weights::hash8) of the two ids, 1 to 255, the same in both directions.
    Hash,
    /// Integers up to 255.
    U8(HostArray<u8>),
    /// Integers up to 65 535.
    U16(HostArray<u16>),
    /// Integers up to 4 294 967 295.
    U32(HostArray<u32>),
    /// Reals that lose nothing as 32-bit floats.
    F32(HostArray<f32>),
    /// All other reals.
    F64(HostArray<f64>),
}

/// The type in which weights are stored, and with it that of distances: integer for integer weights, else `f64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WeightType {
    /// No storage, every weight is 1.
    Unit,
    /// No storage, weights are computed from the ids.
    Hash,
    /// `u8`
    U8,
    /// `u16`
    U16,
    /// `u32`
    U32,
    /// `f32`
    F32,
    /// `f64`
    F64,
}

impl WeightType {
    /// Bytes an edge: 0 for the rules without storage.
    pub fn bytes(self) -> u32 {
        match self {
            Self::Unit | Self::Hash => 0,
            Self::U8 => 1,
            Self::U16 => 2,
            Self::U32 | Self::F32 => 4,
            Self::F64 => 8,
        }
    }

    /// Whether weights, and so distances, are integers.
    pub fn is_integer(self) -> bool {
        !matches!(self, Self::F32 | Self::F64)
    }
}

impl fmt::Display for WeightType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unit => "unit",
            Self::Hash => "hash",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::F32 => "f32",
            Self::F64 => "f64",
        })
    }
}

/// The smallest and largest weight of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WeightRange {
    /// The smallest weight.
    pub min: f64,
    /// The largest weight.
    pub max: f64,
}

impl Weights {
    /// The storage type.
    pub fn weight_type(&self) -> WeightType {
        match self {
            Self::Unit => WeightType::Unit,
            Self::Hash => WeightType::Hash,
            Self::U8(_) => WeightType::U8,
            Self::U16(_) => WeightType::U16,
            Self::U32(_) => WeightType::U32,
            Self::F32(_) => WeightType::F32,
            Self::F64(_) => WeightType::F64,
        }
    }

    /// Number of stored weights; `None` for the rules without storage.
    pub fn stored_len(&self) -> Option<usize> {
        match self {
            Self::Unit | Self::Hash => None,
            Self::U8(w) => Some(w.len()),
            Self::U16(w) => Some(w.len()),
            Self::U32(w) => Some(w.len()),
            Self::F32(w) => Some(w.len()),
            Self::F64(w) => Some(w.len()),
        }
    }

    /// The stored weights as bytes in native order; empty for the rules without storage.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Unit | Self::Hash => &[],
            Self::U8(w) => w,
            Self::U16(w) => bytemuck::cast_slice(w),
            Self::U32(w) => bytemuck::cast_slice(w),
            Self::F32(w) => bytemuck::cast_slice(w),
            Self::F64(w) => bytemuck::cast_slice(w),
        }
    }

    /// The weight of edge `e`, which leads from `u` to `v`.
    ///
    /// # Panics
    /// If weights are stored and `e` is not below their number.
    pub fn get(&self, e: u64, u: VertexId, v: VertexId) -> f64 {
        let e = e as usize;
        match self {
            Self::Unit => 1.0,
            Self::Hash => f64::from(Self::hash8(u, v)),
            Self::U8(w) => f64::from(w[e]),
            Self::U16(w) => f64::from(w[e]),
            Self::U32(w) => f64::from(w[e]),
            Self::F32(w) => f64::from(w[e]),
            Self::F64(w) => w[e],
        }
    }

    /// About the mean weight: of a thousand edges, evenly spread; 0 without edges.
    pub(crate) fn sampled_mean(&self) -> f64 {
        let sample = self.sample();
        sample.iter().sum::<f64>() / sample.len().max(1) as f64
    }

    /// The weights of a thousand edges, evenly spread; of the rules without storage all that there are.
    pub(crate) fn sample(&self) -> Vec<f64> {
        const SAMPLES: usize = 1024;
        fn sample<T: Copy + Into<f64>>(weights: &[T]) -> Vec<f64> {
            let stride = weights.len().div_ceil(SAMPLES).max(1);
            weights.iter().step_by(stride).map(|&w| w.into()).collect()
        }
        match self {
            Self::Unit => vec![1.0],
            Self::Hash => (1..=255).map(f64::from).collect(), // all alike
            Self::U8(w) => sample(w),
            Self::U16(w) => sample(w),
            Self::U32(w) => sample(w),
            Self::F32(w) => sample(w),
            Self::F64(w) => sample(w),
        }
    }

    /// Range of the stored weights; `None` without stored weights or without edges. Weights that are not numbers make
    /// a bound that is not a number.
    pub fn stored_range(&self) -> Option<WeightRange> {
        fn range<T: Copy + Sync + Into<f64>>(weights: &[T]) -> Option<WeightRange> {
            let keep_nan = |a: f64, b: f64, pick: fn(f64, f64) -> f64| {
                if a.is_nan() || b.is_nan() { f64::NAN } else { pick(a, b) }
            };
            weights.par_iter().map(|&w| WeightRange { min: w.into(), max: w.into() }).reduce_with(|a, b| {
                WeightRange { min: keep_nan(a.min, b.min, f64::min), max: keep_nan(a.max, b.max, f64::max) }
            })
        }
        match self {
            Self::Unit | Self::Hash => None,
            Self::U8(w) => range(w),
            Self::U16(w) => range(w),
            Self::U32(w) => range(w),
            Self::F32(w) => range(w),
            Self::F64(w) => range(w),
        }
    }

    /// The weight, 1 to 255, that the `hash8` rule gives the edge between `u` and `v`: two odd multipliers, one shift,
    /// a remainder; symmetric, so that both directions of an edge agree.
    pub fn hash8(u: VertexId, v: VertexId) -> u8 {
        let (low, high) = (u.min(v), u.max(v));
        let mixed = low.wrapping_mul(0x9E37_79B1).wrapping_add(high.wrapping_mul(0x85EB_CA77));
        (1 + (mixed ^ (mixed >> 15)) % 255) as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash8_is_symmetric_and_follows_the_documented_formula() {
        // Hand calculation for (0, 1): h = 0x85EBCA77; h ^ (h >> 15) = 0x85EBCA77 ^ 0x00010BD7 = 0x85EAC1A0.
        assert_eq!(u32::from(Weights::hash8(0, 1)), 1 + 0x85EA_C1A0_u32 % 255);
        assert_eq!(Weights::hash8(7, 3), Weights::hash8(3, 7));
    }

    #[test]
    fn range_of_weights_with_a_nan_is_not_a_number() {
        let range = Weights::F32(vec![1.0, f32::NAN, 2.0].into()).stored_range().expect("has weights");
        assert!(range.min.is_nan() && range.max.is_nan());
    }
}
