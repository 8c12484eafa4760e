//! Weights from the text to the narrowest type that holds them all: what is counted while reading, how the type is
//! chosen, and the cells that many threads fill at once.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

use bytemuck::Pod;
use gpuvm_engine::graph::{Csr, HostArray, VertexId, WeightType, Weights};
use rayon::prelude::*;

/// What the values of a file have in common; two pieces of a file are joined by [`join`](ValueStats::join).
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValueStats {
    min: f64,
    max: f64,
    integer: bool,
    f32_exact: bool,
}

impl ValueStats {
    /// Of no values at all.
    pub(crate) const NONE: Self =
        Self { min: f64::INFINITY, max: f64::NEG_INFINITY, integer: true, f32_exact: true };

    /// Of these values.
    pub(crate) fn of(values: &[f64]) -> Self {
        let mut stats = Self::NONE;
        if let Some((least, most)) = small_integers(values) {
            return Self { min: least, max: most, ..stats };
        }
        values.iter().for_each(|&value| stats.add(value));
        stats
    }

    #[inline(always)]
    fn add(&mut self, value: f64) {
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        // The casts saturate, so that an integer beyond i64 counts as a real, which changes nothing: no integer type
        // here would hold it.
        self.integer &= value as i64 as f64 == value;
        self.f32_exact &= f64::from(value as f32) == value;
    }

    pub(crate) fn join(self, other: Self) -> Self {
        Self {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
            integer: self.integer && other.integer,
            f32_exact: self.f32_exact && other.f32_exact,
        }
    }

    /// The same with the negative of every value.
    pub(crate) fn with_negatives(self) -> Self {
        Self { min: self.min.min(-self.max), max: self.max.max(-self.min), ..self }
    }

    /// The narrowest type that holds every value exactly.
    pub(crate) fn narrowest(&self) -> WeightType {
        if self.integer && self.min >= 0.0 {
            if self.max <= f64::from(u8::MAX) {
                return WeightType::U8;
            }
            if self.max <= f64::from(u16::MAX) {
                return WeightType::U16;
            }
            if self.max <= f64::from(u32::MAX) {
                return WeightType::U32;
            }
        }
        match self.min > self.max {
            true => WeightType::U8, // no values
            false if self.f32_exact => WeightType::F32,
            false => WeightType::F64,
        }
    }
}

/// The integers from 0 to 2^52 are the last bits of their sum with this.
const INTEGERS: f64 = (1_u64 << 52) as f64;

/// The least and the largest of values that are all integers from 0 to 2^24, as most weights are; `None` if not all are, or
/// there are none.
///
/// Without a branch and without a conversion, so that several values are looked at at once.
pub(crate) fn small_integers(values: &[f64]) -> Option<(f64, f64)> {
    let (mut least, mut most, mut whole) = (f64::INFINITY, f64::NEG_INFINITY, true);
    for &value in values {
        least = if value < least { value } else { least };
        most = if value > most { value } else { most };
        // A sum beyond 2^52 has no bits behind the point. What is no number is unequal to itself.
        whole &= (value + INTEGERS) - INTEGERS == value;
    }
    (whole && least >= 0.0 && most <= f64::from(1 << 24)).then_some((least, most))
}

/// Values in the narrowest type that holds all of them exactly.
#[derive(Debug)]
pub(crate) enum Values {
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
    F32(Vec<f32>),
    F64(Vec<f64>),
}

impl Values {
    /// None yet, and room for some of the narrowest type.
    pub(crate) fn with_room(room: usize) -> Self {
        Self::U8(Vec::with_capacity(room))
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::U8(values) => values.len(),
            Self::U16(values) => values.len(),
            Self::U32(values) => values.len(),
            Self::F32(values) => values.len(),
            Self::F64(values) => values.len(),
        }
    }

    /// Adds values, after which all of them are held in this type.
    pub(crate) fn add(&mut self, values: &[f64], narrowest: WeightType) {
        fn widened<W: Cell>(values: &Values, room: usize) -> Vec<W> {
            let mut wide = Vec::with_capacity(room);
            wide.resize(values.len(), W::from_value(0.0));
            W::copy(values, &mut wide);
            wide
        }
        let room = self.room();
        match (&*self, narrowest) {
            (Self::U8(_), WeightType::U16) => *self = Self::U16(widened(self, room)),
            (Self::U8(_) | Self::U16(_), WeightType::U32) => *self = Self::U32(widened(self, room)),
            (Self::U8(_) | Self::U16(_) | Self::U32(_), WeightType::F32) => {
                *self = Self::F32(widened(self, room));
            }
            (Self::F64(_), _) => {}
            (_, WeightType::F64) => *self = Self::F64(widened(self, room)),
            _ => {}
        }
        match self {
            Self::U8(held) => held.extend(values.iter().map(|&value| (value + INTEGERS).to_bits() as u8)),
            Self::U16(held) => held.extend(values.iter().map(|&value| (value + INTEGERS).to_bits() as u16)),
            Self::U32(held) => held.extend(values.iter().map(|&value| (value + INTEGERS).to_bits() as u32)),
            Self::F32(held) => held.extend(values.iter().map(|&value| value as f32 + 0.0)),
            Self::F64(held) => held.extend(values.iter().map(|&value| value + 0.0)),
        }
    }

    fn room(&self) -> usize {
        match self {
            Self::U8(values) => values.capacity(),
            Self::U16(values) => values.capacity(),
            Self::U32(values) => values.capacity(),
            Self::F32(values) => values.capacity(),
            Self::F64(values) => values.capacity(),
        }
    }
}

/// A weight as it is stored: filled through an atomic cell, so that threads scatter without `unsafe` and without
/// locks (a relaxed store is a plain store), and sorted packed with its column.
pub(crate) trait Cell: Pod + Send + Sync {
    type Shared: Send + Sync;
    /// Column and weight in one word, ordered by column, then by weight.
    type Packed: Copy + Ord + Send;
    /// Whether the cell occupies memory.
    const STORED: bool;
    /// Bits of the cell.
    const BITS: u32;

    fn shared() -> Self::Shared;
    fn store(cell: &Self::Shared, value: f64);
    fn into_inner(cell: Self::Shared) -> Self;
    fn pack(column: VertexId, weight: Self) -> Self::Packed;
    fn unpack(packed: Self::Packed) -> (VertexId, Self);
    fn into_weights(cells: impl Into<HostArray<Self>>) -> Weights;

    /// The weight that `value` is.
    fn from_value(value: f64) -> Self;
    /// Copies values to as many weights.
    fn copy(values: &Values, weights: &mut [Self]);

    /// The bits of the weight that `value` is, ordered as weights are.
    fn ordered(value: f64) -> u64;
    /// Appends the weight of these bits as a file has it, little-endian.
    fn append(ordered: u64, bytes: &mut Vec<u8>);
}

impl Cell for () {
    type Shared = ();
    type Packed = VertexId;
    const STORED: bool = false;
    const BITS: u32 = 0;

    fn shared() {}
    #[inline(always)]
    fn store((): &(), _value: f64) {}
    fn into_inner((): ()) {}
    fn pack(column: VertexId, (): ()) -> VertexId {
        column
    }
    fn unpack(packed: VertexId) -> (VertexId, ()) {
        (packed, ())
    }
    fn into_weights(_cells: impl Into<HostArray<()>>) -> Weights {
        Weights::Unit
    }
    fn from_value(_value: f64) {}
    fn copy(_values: &Values, _weights: &mut [()]) {}
    fn ordered(_value: f64) -> u64 {
        0
    }
    fn append(_ordered: u64, _bytes: &mut Vec<u8>) {}
}

/// Without a conversion where the type is the same.
macro_rules! copy_values {
    ($type:ident $variant:ident) => {
        fn copy(values: &Values, weights: &mut [Self]) {
            fn convert<V: Copy + Into<f64>>(values: &[V], weights: &mut [$type]) {
                for (weight, &value) in weights.iter_mut().zip(values) {
                    *weight = $type::from_value(value.into());
                }
            }
            #[allow(unreachable_patterns, reason = "the type of this instance stands first")]
            match values {
                Values::$variant(values) => weights.copy_from_slice(values),
                Values::U8(values) => convert(values, weights),
                Values::U16(values) => convert(values, weights),
                Values::U32(values) => convert(values, weights),
                Values::F32(values) => convert(values, weights),
                Values::F64(values) => convert(values, weights),
            }
        }
    };
}

macro_rules! integer_cell {
    ($($type:ident $atomic:ident $variant:ident),*) => {$(
        impl Cell for $type {
            type Shared = $atomic;
            type Packed = u64;
            const STORED: bool = true;
            const BITS: u32 = $type::BITS;

            fn shared() -> $atomic {
                $atomic::new(0)
            }
            #[inline(always)]
            fn store(cell: &$atomic, value: f64) {
                cell.store(value as $type, Relaxed);
            }
            #[inline(always)]
            fn from_value(value: f64) -> Self {
                value as $type
            }
            #[inline(always)]
            fn ordered(value: f64) -> u64 {
                u64::from(value as $type)
            }
            #[inline(always)]
            fn append(ordered: u64, bytes: &mut Vec<u8>) {
                bytes.extend((ordered as $type).to_le_bytes());
            }
            fn into_inner(cell: $atomic) -> Self {
                cell.into_inner()
            }
            #[inline(always)]
            fn pack(column: VertexId, weight: Self) -> u64 {
                u64::from(column) << 32 | u64::from(weight)
            }
            #[inline(always)]
            fn unpack(packed: u64) -> (VertexId, Self) {
                ((packed >> 32) as u32, packed as $type)
            }
            fn into_weights(cells: impl Into<HostArray<Self>>) -> Weights {
                Weights::$variant(cells.into())
            }
            copy_values!($type $variant);
        }
    )*};
}
integer_cell!(u8 AtomicU8 U8, u16 AtomicU16 U16, u32 AtomicU32 U32);

macro_rules! float_cell {
    ($($type:ident $bits:ident $atomic:ident $variant:ident $packed:ident),*) => {$(
        impl Cell for $type {
            type Shared = $atomic;
            type Packed = $packed;
            const STORED: bool = true;
            const BITS: u32 = $bits::BITS;

            fn shared() -> $atomic {
                $atomic::new(0)
            }
            #[inline(always)]
            fn ordered(value: f64) -> u64 {
                // Of column 0, so that nothing stands above the weight.
                Self::pack(0, value as $type + 0.0) as u64
            }
            #[inline(always)]
            fn append(ordered: u64, bytes: &mut Vec<u8>) {
                bytes.extend(Self::unpack(ordered.into()).1.to_le_bytes());
            }
            #[inline(always)]
            fn store(cell: &$atomic, value: f64) {
                cell.store(Self::from_value(value).to_bits(), Relaxed);
            }
            #[inline(always)]
            fn from_value(value: f64) -> Self {
                // Adding 0 makes a negative zero positive: mirrored entries of a skew-symmetric matrix.
                value as $type + 0.0
            }
            fn into_inner(cell: $atomic) -> Self {
                $type::from_bits(cell.into_inner())
            }
            #[inline(always)]
            fn pack(column: VertexId, weight: Self) -> $packed {
                // As integers the bits of floats are ordered like the floats once negative ones are turned over.
                let bits = weight.to_bits();
                let negative = bits >> ($bits::BITS - 1) != 0;
                let ordered = if negative { !bits } else { bits | 1 << ($bits::BITS - 1) };
                $packed::from(column) << $bits::BITS | $packed::from(ordered)
            }
            #[inline(always)]
            fn unpack(packed: $packed) -> (VertexId, Self) {
                let ordered = packed as $bits;
                let positive = ordered >> ($bits::BITS - 1) != 0;
                let bits = if positive { ordered & !(1 << ($bits::BITS - 1)) } else { !ordered };
                ((packed >> $bits::BITS) as u32, $type::from_bits(bits))
            }
            fn into_weights(cells: impl Into<HostArray<Self>>) -> Weights {
                Weights::$variant(cells.into())
            }
            copy_values!($type $variant);
        }
    )*};
}
float_cell!(f32 u32 AtomicU32 F32 u64, f64 u64 AtomicU64 F64 u128);

/// The weight, 1 to 255, that `seed` gives the edge between `u` and `v`, the same in both directions.
///
/// The ids, in order, are one 64-bit word; seed and word go through the finalizer of SplitMix64.
pub(crate) fn random8(seed: u64, u: VertexId, v: VertexId) -> u8 {
    let pair = u64::from(u.min(v)) << 32 | u64::from(u.max(v));
    let mut z = pair.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ seed;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^= z >> 31;
    (1 + z % 255) as u8
}

/// [`random8`] for every edge of `csr`.
pub(crate) fn random_weights(csr: &Csr, seed: u64) -> Weights {
    csr.weights_by_ids(|u, v| random8(seed, u, v))
}

/// The absolute values, without a copy if none is negative.
pub(crate) fn absolute(weights: &Weights) -> Weights {
    fn copy<T: Copy + Send + Sync + PartialOrd>(
        weights: &HostArray<T>,
        zero: T,
        abs: fn(T) -> T,
    ) -> HostArray<T> {
        match weights.par_iter().any(|&w| w < zero) {
            true => weights.par_iter().map(|&w| abs(w)).collect::<Vec<_>>().into(),
            false => weights.clone(),
        }
    }
    match weights {
        Weights::F32(w) => Weights::F32(copy(w, 0.0, f32::abs)),
        Weights::F64(w) => Weights::F64(copy(w, 0.0, f64::abs)),
        others => others.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn narrowest(values: &[f64]) -> WeightType {
        let mut stats = ValueStats::NONE;
        values.iter().for_each(|&v| stats.add(v));
        stats.narrowest()
    }

    #[test]
    fn type_is_the_narrowest_that_holds_every_value() {
        assert_eq!(narrowest(&[]), WeightType::U8);
        assert_eq!(narrowest(&[0.0, 255.0]), WeightType::U8);
        assert_eq!(narrowest(&[256.0]), WeightType::U16);
        assert_eq!(narrowest(&[65536.0]), WeightType::U32);
        assert_eq!(narrowest(&[4294967295.0]), WeightType::U32);
        assert_eq!(narrowest(&[4294967296.0]), WeightType::F32); // a power of two
        assert_eq!(narrowest(&[4294967297.0]), WeightType::F64);
        assert_eq!(narrowest(&[-1.0]), WeightType::F32);
        assert_eq!(narrowest(&[0.5]), WeightType::F32);
        assert_eq!(narrowest(&[0.1]), WeightType::F64);
        assert_eq!(narrowest(&[1e300]), WeightType::F64);
    }

    #[test]
    fn packed_floats_are_ordered_like_floats_and_come_back() {
        let ordered = [f64::MIN, -1.5, -0.25, 0.0, 1e-300, 0.25, 7.0, f64::MAX];
        let packed: Vec<u128> = ordered.iter().map(|&w| f64::pack(9, w)).collect();
        assert!(packed.is_sorted());
        assert!(packed.iter().zip(ordered).all(|(&p, w)| f64::unpack(p) == (9, w)));
        assert!(f32::pack(1, f32::MAX) < f32::pack(2, f32::MIN));
        assert_eq!(f32::unpack(f32::pack(u32::MAX, -2.5)), (u32::MAX, -2.5));
    }

    #[test]
    fn ordered_bits_are_ordered_like_weights_and_give_them_back() {
        fn check<W: Cell>(ascending: &[f64], bytes: impl Fn(f64) -> Vec<u8>) {
            let ordered: Vec<u64> = ascending.iter().map(|&w| W::ordered(w)).collect();
            assert!(ordered.is_sorted_by(|a, b| a < b));
            for (&bits, &weight) in ordered.iter().zip(ascending) {
                assert!(W::BITS == 64 || bits >> W::BITS == 0);
                let mut appended = Vec::new();
                W::append(bits, &mut appended);
                assert_eq!(appended, bytes(weight));
            }
        }
        check::<u8>(&[0.0, 1.0, 255.0], |w| vec![w as u8]);
        check::<u16>(&[0.0, 256.0, 65535.0], |w| (w as u16).to_le_bytes().to_vec());
        check::<u32>(&[7.0, 4294967295.0], |w| (w as u32).to_le_bytes().to_vec());
        check::<f32>(&[-1.5, -0.25, 0.0, 0.5, 3e38], |w| (w as f32).to_le_bytes().to_vec());
        check::<f64>(&[f64::MIN, -0.1, 0.0, 1e-300, f64::MAX], |w| w.to_le_bytes().to_vec());
        assert_eq!(f64::ordered(-0.0), f64::ordered(0.0));
    }

    #[test]
    fn random_weights_are_the_same_in_both_directions() {
        let csr = Csr::new(vec![0, 0, 2, 3, 4], vec![2, 3, 1, 1], Weights::Unit, true).expect("valid");
        let Weights::U8(weights) = random_weights(&csr, 42) else { panic!("stored as u8") };
        assert_eq!((weights[0], weights[1]), (weights[2], weights[3]));
        assert!(weights.iter().all(|&w| w > 0));
        assert_ne!(random8(1, 2, 3), random8(2, 2, 3)); // these two seeds differ here
    }
}
