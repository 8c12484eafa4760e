//! The way of an answer from the device to the user's memory: piece after piece through two buffers, and from these by all
//! cores to where each entry belongs.

use std::borrow::Cow;

use bytemuck::{AnyBitPattern, NoUninit};
use rayon::prelude::*;

use super::device::DeviceArray;
use super::large_vec::{Place, zeros};
use crate::device::{CudaMemory, CudaStaging, Device};
use crate::error::Error;
use crate::graph::{Permutation, VertexId};

/// Bytes of a buffer. The link needs 0.15 ms for as many, several times what it costs to have all cores at work.
const BUFFER_BYTES: usize = 8 << 20;

/// Entries that one thread takes at a time.
const BLOCK: usize = 1 << 14;

/// Copies that go on beside the host.
trait Copies {
    /// Has `size` bytes from offset `at` on copied to one of two buffers.
    fn start(&mut self, buffer: usize, at: usize, size: usize) -> Result<(), Error>;

    /// Waits for all that were started.
    fn wait(&mut self) -> Result<(), Error>;

    /// What is in a buffer.
    fn bytes(&self, buffer: usize, size: usize) -> &[u8];
}

/// Two buffers of pinned memory on a GPU; on the CPU device nothing, since the host has its arrays already.
#[derive(Debug)]
pub(crate) struct Staging(Option<CudaStaging>);

impl Staging {
    /// For arrays of no more than `most_bytes`.
    pub fn new(device: &Device, most_bytes: u64) -> Result<Self, Error> {
        let size = most_bytes.min(BUFFER_BYTES as u64) as usize;
        Ok(Self(match device {
            Device::Cuda(cuda) if size > 0 => Some(CudaStaging::new(cuda, size)?),
            _ => None,
        }))
    }

    /// For each vertex what `answer` says to the entry of its row in `array`, by the ids of vertices.
    pub fn by_vertex<T: Entry, U: Place>(
        &mut self,
        array: &DeviceArray<T>,
        permutation: Option<&Permutation>,
        answer: impl Fn(T) -> U + Sync,
    ) -> Result<Vec<U>, Error> {
        match self.pieces(array) {
            Pieces::Whole(by_row) => Ok(by_vertex(by_row, permutation, answer)),
            Pieces::Copied(mut copies, piece_len) => {
                scattered(&mut copies, array.len(), piece_len, permutation, answer)
            }
        }
    }

    /// All entries of `array`, in the order of rows.
    pub fn by_row<'a, T: Entry>(&mut self, array: &'a DeviceArray<T>) -> Result<Cow<'a, [T]>, Error> {
        match self.pieces(array) {
            Pieces::Whole(by_row) => Ok(Cow::Borrowed(by_row)),
            Pieces::Copied(mut copies, piece_len) => {
                gathered(&mut copies, array.len(), piece_len).map(Cow::Owned)
            }
        }
    }

    /// The entries of the first `len` rows of `array`.
    pub fn first_rows<T: Entry>(&mut self, array: &DeviceArray<T>, len: usize) -> Result<Vec<T>, Error> {
        assert!(len <= array.len(), "rows of the array");
        match self.pieces(array) {
            Pieces::Whole(by_row) => {
                let mut rows = zeros(len);
                copy_in_blocks(&mut rows, &by_row[..len]);
                Ok(rows)
            }
            Pieces::Copied(mut copies, piece_len) => gathered(&mut copies, len, piece_len),
        }
    }

    fn pieces<'s, 'a: 's, T: Entry>(&'s mut self, array: &'a DeviceArray<T>) -> Pieces<'s, 'a, T> {
        if let Some(whole) = array.on_host() {
            return Pieces::Whole(whole);
        }
        let (Some(staging), Some(memory)) = (&mut self.0, array.cuda()) else {
            unreachable!("an array that the host does not have is a GPU's, for which buffers were made");
        };
        let piece_len = staging.size() / size_of::<T>();
        assert!(piece_len > 0, "buffers are of an array's bytes, if not of many");
        Pieces::Copied(FromDevice { staging, memory }, piece_len)
    }
}

/// What vertices have an entry of.
pub(crate) trait Entry: AnyBitPattern + NoUninit + Send + Sync + Clone {}

impl Entry for u32 {}
impl Entry for u64 {}

/// How the host comes to an array.
enum Pieces<'s, 'a, T> {
    Whole(&'a [T]),
    /// By pieces of so many entries.
    Copied(FromDevice<'s>, usize),
}

struct FromDevice<'a> {
    staging: &'a mut CudaStaging,
    memory: &'a CudaMemory,
}

impl Copies for FromDevice<'_> {
    fn start(&mut self, buffer: usize, at: usize, size: usize) -> Result<(), Error> {
        self.staging.start(buffer, self.memory, at as u64, size)
    }

    fn wait(&mut self) -> Result<(), Error> {
        self.staging.wait()
    }

    fn bytes(&self, buffer: usize, size: usize) -> &[u8] {
        self.staging.bytes(buffer, size)
    }
}

/// Shows `each` piece of `len` entries with the number of its first; the next one is on its way meanwhile, to the other
/// buffer.
fn for_each_piece<T: Entry>(
    copies: &mut impl Copies,
    len: usize,
    piece_len: usize,
    mut each: impl FnMut(usize, &[T]),
) -> Result<(), Error> {
    let size_at = |at: usize| piece_len.min(len - at) * size_of::<T>();
    if len > 0 {
        copies.start(0, 0, size_at(0))?;
    }
    for (number, at) in (0..len).step_by(piece_len).enumerate() {
        // Only this piece is under way: the next one is started once it is here, to the buffer that was emptied before.
        copies.wait()?;
        let next = at + piece_len;
        if next < len {
            copies.start((number + 1) % 2, next * size_of::<T>(), size_at(next))?;
        }
        each(at, bytemuck::cast_slice(copies.bytes(number % 2, size_at(at))));
    }
    Ok(())
}

/// As [`by_vertex`], from pieces.
fn scattered<T: Entry, U: Place>(
    copies: &mut impl Copies,
    len: usize,
    piece_len: usize,
    permutation: Option<&Permutation>,
    answer: impl Fn(T) -> U + Sync,
) -> Result<Vec<U>, Error> {
    let ids = ids_of_rows(permutation);
    let mut answers = zeros(len);
    let places = U::shared(&mut answers);
    for_each_piece(copies, len, piece_len, |first, piece| scatter(piece, first, ids, places, &answer))?;
    Ok(answers)
}

/// For each vertex what `answer` says to the entry of its row.
pub(crate) fn by_vertex<T: Copy + Sync, U: Place>(
    by_row: &[T],
    permutation: Option<&Permutation>,
    answer: impl Fn(T) -> U + Sync,
) -> Vec<U> {
    let mut answers = zeros(by_row.len());
    scatter(by_row, 0, ids_of_rows(permutation), U::shared(&mut answers), &answer);
    answers
}

/// The vertex of each row, unless rows are those of the ids.
fn ids_of_rows(permutation: Option<&Permutation>) -> Option<&[VertexId]> {
    permutation.map(|permutation| permutation.original_ids().as_slice())
}

/// Writes what `answer` says to the entries of rows from number `first` on to the places of their vertices. Vertices of one
/// degree have their rows in the order of ids, so in degree order most writes go forward, where reads of rows in the order of
/// ids would not.
fn scatter<T: Copy + Sync, U: Place>(
    entries: &[T],
    first: usize,
    ids: Option<&[VertexId]>,
    places: &[U::Shared],
    answer: &(impl Fn(T) -> U + Sync),
) {
    let rows = first..first + entries.len();
    match ids {
        Some(ids) => {
            let blocks = entries.par_chunks(BLOCK).zip(ids[rows].par_chunks(BLOCK));
            blocks.for_each(|(entries, ids)| {
                for (&entry, &id) in entries.iter().zip(ids) {
                    answer(entry).set(&places[id as usize]);
                }
            });
        }
        None => {
            let blocks = entries.par_chunks(BLOCK).zip(places[rows].par_chunks(BLOCK));
            blocks.for_each(|(entries, places)| {
                for (&entry, place) in entries.iter().zip(places) {
                    answer(entry).set(place);
                }
            });
        }
    }
}

/// All entries, from pieces.
fn gathered<T: Entry>(copies: &mut impl Copies, len: usize, piece_len: usize) -> Result<Vec<T>, Error> {
    let mut entries = zeros(len);
    for_each_piece(copies, len, piece_len, |first, piece: &[T]| {
        copy_in_blocks(&mut entries[first..first + piece.len()], piece);
    })?;
    Ok(entries)
}

fn copy_in_blocks<T: Entry>(to: &mut [T], from: &[T]) {
    let blocks = to.par_chunks_mut(BLOCK).zip(from.par_chunks(BLOCK));
    blocks.for_each(|(to, from)| to.copy_from_slice(from));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EngineConfig;

    /// Copies of an array in host memory that happen as late as they may, when somebody waits, or at once.
    struct Pretended<'a> {
        array: &'a [u8],
        buffers: [Vec<u8>; 2],
        under_way: Option<(usize, usize, usize)>,
        at_once: bool,
    }

    impl<'a> Pretended<'a> {
        fn new<T: Entry>(array: &'a [T], piece_len: usize, at_once: bool) -> Self {
            let buffer = vec![0xAA; piece_len * size_of::<T>()];
            let buffers = [buffer.clone(), buffer];
            Self { array: bytemuck::cast_slice(array), buffers, under_way: None, at_once }
        }

        fn copy(&mut self, (buffer, at, size): (usize, usize, usize)) {
            self.buffers[buffer][..size].copy_from_slice(&self.array[at..at + size]);
        }
    }

    impl Copies for Pretended<'_> {
        fn start(&mut self, buffer: usize, at: usize, size: usize) -> Result<(), Error> {
            assert_eq!(self.under_way, None, "a wait would wait for more than the piece it is for");
            self.under_way = Some((buffer, at, size));
            if self.at_once {
                self.copy((buffer, at, size));
            }
            Ok(())
        }

        fn wait(&mut self) -> Result<(), Error> {
            let copy = self.under_way.take().expect("nothing to wait for");
            self.copy(copy);
            Ok(())
        }

        fn bytes(&self, buffer: usize, size: usize) -> &[u8] {
            assert_ne!(self.under_way.map(|(filled, ..)| filled), Some(buffer), "read while it is filled");
            &self.buffers[buffer][..size]
        }
    }

    /// Pieces that divide the array, that do not, and that are larger than it.
    const PIECES: [usize; 6] = [1, 2, 3, 7, 100, 1000];

    #[test]
    fn pieces_come_in_order_and_make_up_the_array() {
        for len in [0, 1, 2, 99, 100, 101] {
            let array: Vec<u64> = (0..len).map(|i| i * i + 1).collect();
            for (piece_len, at_once) in PIECES.into_iter().flat_map(|p| [(p, true), (p, false)]) {
                let mut copies = Pretended::new(&array, piece_len, at_once);
                let copied = gathered::<u64>(&mut copies, array.len(), piece_len).expect("copies");
                assert_eq!(copied, array, "pieces of {piece_len}");
                assert_eq!(copies.under_way, None);
            }
        }
    }

    #[test]
    fn entries_of_rows_come_to_their_vertices_whatever_the_pieces() {
        // 37 has no factor in common with 101: row r is that of vertex 37 r mod 101.
        let ids: Vec<u32> = (0..101).map(|row| row * 37 % 101).collect();
        let permutation = Permutation::new(ids.clone()).expect("a permutation");
        let levels: Vec<u32> = (0..101).map(|row| 1000 + row).collect();
        for (piece_len, at_once) in PIECES.into_iter().flat_map(|p| [(p, true), (p, false)]) {
            let mut copies = Pretended::new(&levels, piece_len, at_once);
            let answer = |level: u32| f64::from(level) / 2.0;
            let found = scattered(&mut copies, 101, piece_len, Some(&permutation), answer).expect("copies");
            assert!((0..101).all(|row| found[ids[row] as usize] == (1000 + row) as f64 / 2.0), "{found:?}");
            let mut copies = Pretended::new(&levels, piece_len, at_once);
            let found = scattered(&mut copies, 101, piece_len, None, |level: u32| level).expect("copies");
            assert_eq!(found, levels);
        }
    }

    #[test]
    fn arrays_of_the_host_are_not_copied_but_to_the_answer() {
        let device = Device::new(&EngineConfig::default()).expect("threads");
        let mut staging = Staging::new(&device, 12).expect("nothing to allocate");
        assert!(staging.0.is_none());
        let array = DeviceArray::copied(&device, "levels", &[5_u32, 6, 7]).expect("12 bytes");
        let permutation = Permutation::new(vec![2, 0, 1]).expect("a permutation");
        let found = staging.by_vertex(&array, Some(&permutation), |level| u64::from(level) * 10);
        assert_eq!(found.expect("memory"), [60, 70, 50]);
        assert!(matches!(staging.by_row(&array), Ok(Cow::Borrowed([5, 6, 7]))));
        let nothing = DeviceArray::<u32>::zeroed(&device, "levels", 0).expect("no bytes");
        assert!(staging.by_vertex(&nothing, None, |level| level).expect("memory").is_empty());
    }
}
