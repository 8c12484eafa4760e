//! The way of an answer from the device to the user's memory: piece after piece through two buffers, and from these by all
//! cores. Where rows are not in the order of ids a GPU puts each piece into that order as it writes it.

use std::borrow::Cow;
use std::time::Instant;

use bytemuck::{AnyBitPattern, NoUninit};
use gpuvm_kernels::layout::GatherArgs;
use rayon::prelude::*;

use super::device::DeviceArray;
use super::large_vec::{Place, touched_zeros};
use super::pinned::PinnedArray;
use crate::device::{CudaMemory, CudaStaging, Device};
use crate::error::Error;
use crate::graph::{Permutation, VertexId};

/// Bytes of a buffer. The link needs 0.15 ms for as many, several times what it costs to have all cores at work.
const BUFFER_BYTES: usize = 8 << 20;

/// Entries that one thread takes at a time.
const BLOCK: usize = 1 << 14;

/// Copies that go on beside the host.
trait Copies {
    /// Has `size` bytes of the array from offset `at` on, in the order that is wanted, copied to one of two buffers.
    fn start(&mut self, buffer: usize, at: usize, size: usize) -> Result<(), Error>;

    /// Waits for all that were started.
    fn wait(&mut self) -> Result<(), Error>;

    /// What is in a buffer.
    fn bytes(&self, buffer: usize, size: usize) -> &[u8];
}

/// Two buffers of pinned memory on a GPU, and the rows of vertices, if these are not their ids; on the CPU device nothing,
/// since the host has its arrays already.
#[derive(Debug)]
pub(crate) struct Staging {
    buffers: Option<CudaStaging>,
    rows: Option<PinnedArray>,
}

impl Staging {
    /// For arrays of an entry for each of `num_vertices` vertices, 8 bytes at the most, whose rows are in the order that
    /// `permutation` says. The caller keeps it in place as long as this lives.
    pub fn new(device: &Device, num_vertices: u64, permutation: Option<&Permutation>) -> Result<Self, Error> {
        let size = (8 * num_vertices).min(BUFFER_BYTES as u64) as usize;
        let Device::Cuda(cuda) = device else { return Ok(Self { buffers: None, rows: None }) };
        if size == 0 {
            return Ok(Self { buffers: None, rows: None });
        }
        let rows = permutation
            .map(|permutation| {
                device.load_kernel(&GatherArgs::default())?;
                PinnedArray::new(device, "rows of vertices", bytemuck::cast_slice(permutation.rows()))
            })
            .transpose()?;
        Ok(Self { buffers: Some(CudaStaging::new(cuda, size)?), rows })
    }

    /// For each vertex what `answer` says to the entry of its row in `array`, by the ids of vertices. `permutation` is that
    /// of [`new`](Self::new).
    pub fn by_vertex<T: Entry, U: Place>(
        &mut self,
        array: &DeviceArray<T>,
        permutation: Option<&Permutation>,
        answer: impl Fn(T) -> U + Sync,
    ) -> Result<Vec<U>, Error> {
        let started = Instant::now();
        let answers = match self.pieces(array, Order::Ids) {
            Pieces::Whole(by_row) => Ok(by_vertex(by_row, permutation, answer)),
            Pieces::Copied(mut copies, piece_len) => answered(&mut copies, array.len(), piece_len, answer),
        };
        tracing::debug!(seconds = started.elapsed().as_secs_f64(), "answer in host memory");
        answers
    }

    /// All entries of `array`, in the order of rows.
    pub fn by_row<'a, T: Entry>(&mut self, array: &'a DeviceArray<T>) -> Result<Cow<'a, [T]>, Error> {
        match self.pieces(array, Order::Rows) {
            Pieces::Whole(by_row) => Ok(Cow::Borrowed(by_row)),
            Pieces::Copied(mut copies, piece_len) => {
                gathered(&mut copies, array.len(), piece_len).map(Cow::Owned)
            }
        }
    }

    /// The entries of the first `len` rows of `array`.
    pub fn first_rows<T: Entry>(&mut self, array: &DeviceArray<T>, len: usize) -> Result<Vec<T>, Error> {
        assert!(len <= array.len(), "rows of the array");
        match self.pieces(array, Order::Rows) {
            Pieces::Whole(by_row) => {
                let mut rows = touched_zeros(len);
                copy_in_blocks(&mut rows, &by_row[..len]);
                Ok(rows)
            }
            Pieces::Copied(mut copies, piece_len) => gathered(&mut copies, len, piece_len),
        }
    }

    fn pieces<'s, 'a: 's, T: Entry>(
        &'s mut self,
        array: &'a DeviceArray<T>,
        order: Order,
    ) -> Pieces<'s, 'a, T> {
        if let Some(whole) = array.on_host() {
            return Pieces::Whole(whole);
        }
        let (Some(staging), Some(memory)) = (&mut self.buffers, array.cuda()) else {
            unreachable!("an array that the host does not have is a GPU's, for which buffers were made");
        };
        let piece_len = staging.size() / size_of::<T>();
        assert!(piece_len > 0, "buffers are of an array's bytes, if not of many");
        let rows = self.rows.as_ref().filter(|_| order == Order::Ids);
        let gather = rows.map(|rows| GatherArgs {
            entries: memory.address(),
            num_rows: array.len() as u64,
            rows: rows.address(),
            entry_bytes: size_of::<T>() as u64,
            ..GatherArgs::default()
        });
        Pieces::Copied(FromDevice { staging, memory, gather }, piece_len)
    }
}

/// How entries follow each other in the pieces of an array that is the GPU's.
#[derive(PartialEq, Eq)]
enum Order {
    Rows,
    Ids,
}

/// What vertices have an entry of.
pub(crate) trait Entry: AnyBitPattern + NoUninit + Place {}

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
    /// For pieces in the order of ids, but for which vertices and where to.
    gather: Option<GatherArgs>,
}

impl Copies for FromDevice<'_> {
    fn start(&mut self, buffer: usize, at: usize, size: usize) -> Result<(), Error> {
        let Some(gather) = self.gather else {
            return self.staging.start(buffer, self.memory, at as u64, size);
        };
        let args = GatherArgs {
            first_vertex: at as u64 / gather.entry_bytes,
            num_vertices: size as u64 / gather.entry_bytes,
            ..gather
        };
        // SAFETY: `gather` is of `memory`, which has an entry a row, and of the rows of a permutation, which are as many; both
        // are borrowed, by whoever waits.
        unsafe { self.staging.start_gather(buffer, args) }
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

/// What `answer` says to each entry, from pieces.
fn answered<T: Entry, U: Place>(
    copies: &mut impl Copies,
    len: usize,
    piece_len: usize,
    answer: impl Fn(T) -> U + Sync,
) -> Result<Vec<U>, Error> {
    let mut answers = touched_zeros(len);
    let places = U::shared(&mut answers);
    for_each_piece(copies, len, piece_len, |first, piece| scatter(piece, first, None, places, &answer))?;
    Ok(answers)
}

/// For each vertex what `answer` says to the entry of its row.
pub(crate) fn by_vertex<T: Copy + Sync, U: Place>(
    by_row: &[T],
    permutation: Option<&Permutation>,
    answer: impl Fn(T) -> U + Sync,
) -> Vec<U> {
    let mut answers = touched_zeros(by_row.len());
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
    let mut entries = touched_zeros(len);
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
    fn answers_are_to_the_entries_in_order_whatever_the_pieces() {
        let levels: Vec<u32> = (0..101).map(|row| 1000 + row).collect();
        let halves: Vec<f64> = levels.iter().map(|&level| f64::from(level) / 2.0).collect();
        for (piece_len, at_once) in PIECES.into_iter().flat_map(|p| [(p, true), (p, false)]) {
            let mut copies = Pretended::new(&levels, piece_len, at_once);
            let found = answered(&mut copies, 101, piece_len, |level: u32| f64::from(level) / 2.0);
            assert_eq!(found.expect("copies"), halves, "pieces of {piece_len}");
        }
    }

    /// The kernel, on the CPU device and in buffers of the host.
    struct GatheredByCpu<'a> {
        device: &'a Device,
        args: GatherArgs,
        buffers: [Vec<u64>; 2],
    }

    impl Copies for GatheredByCpu<'_> {
        fn start(&mut self, buffer: usize, at: usize, size: usize) -> Result<(), Error> {
            let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut self.buffers[buffer]);
            let answers = bytes[..size].as_mut_ptr().expose_provenance() as u64;
            let (first_vertex, num_vertices) =
                (at as u64 / self.args.entry_bytes, size as u64 / self.args.entry_bytes);
            let args = GatherArgs { first_vertex, num_vertices, answers, ..self.args };
            // SAFETY: the entries and the rows are as many as `args` says and are not written meanwhile, and the buffer has as
            // many bytes, which nobody else has.
            unsafe { self.device.launch(&args, self.device.max_warps(), num_vertices) }
        }

        fn wait(&mut self) -> Result<(), Error> {
            Ok(())
        }

        fn bytes(&self, buffer: usize, size: usize) -> &[u8] {
            &bytemuck::cast_slice(&self.buffers[buffer])[..size]
        }
    }

    fn entries_of_rows_by_their_vertices<T: Entry>(
        device: &Device,
        by_row: &[T],
        rows: &[VertexId],
    ) -> Vec<Vec<T>> {
        let address = |bytes: &[u8]| bytes.as_ptr().expose_provenance() as u64;
        let gathered = PIECES.map(|piece_len| {
            let args = GatherArgs {
                entries: address(bytemuck::cast_slice(by_row)),
                num_rows: by_row.len() as u64,
                rows: address(bytemuck::cast_slice(rows)),
                entry_bytes: size_of::<T>() as u64,
                ..GatherArgs::default()
            };
            let buffer = vec![0xAAAA_u64; piece_len];
            let mut copies = GatheredByCpu { device, args, buffers: [buffer.clone(), buffer] };
            answered(&mut copies, by_row.len(), piece_len, |entry: T| entry).expect("nothing to fail")
        });
        gathered.into()
    }

    fn assert_entries_of_rows_come_to_their_vertices(config: EngineConfig) {
        let device = Device::new(&config).expect("threads");
        // 37 has no factor in common with 1001: row r is that of vertex 37 r mod 1001.
        let permutation = Permutation::new((0..1001).map(|row| row * 37 % 1001).collect::<Vec<_>>());
        let permutation = permutation.expect("a permutation");
        let expected: Vec<u32> = permutation.rows().iter().map(|&row| 5000 + row).collect();
        let levels: Vec<u32> = (5000..6001).collect();
        for found in entries_of_rows_by_their_vertices(&device, &levels, permutation.rows()) {
            assert_eq!(found, expected);
        }
        let distances: Vec<u64> = (5000..6001).map(|distance| distance << 30).collect();
        let expected: Vec<u64> = expected.iter().map(|&level| u64::from(level) << 30).collect();
        for found in entries_of_rows_by_their_vertices(&device, &distances, permutation.rows()) {
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn entries_of_rows_come_to_their_vertices_whatever_the_pieces() {
        for threads in [1, 3] {
            let config = EngineConfig { threads: Some(threads), ..EngineConfig::default() };
            assert_entries_of_rows_come_to_their_vertices(config.clone());
            #[cfg(feature = "emulated-warps")]
            assert_entries_of_rows_come_to_their_vertices(EngineConfig {
                warp_lanes: crate::WarpLanes::ThirtyTwo,
                ..config
            });
        }
    }

    #[test]
    fn vertex_whose_row_is_none_has_the_largest_number() {
        let device = Device::new(&EngineConfig::default()).expect("threads");
        for found in entries_of_rows_by_their_vertices(&device, &[7_u32, 8, 9], &[2, 3, 0]) {
            assert_eq!(found, [9, u32::MAX, 7]);
        }
    }

    #[test]
    #[ignore = "needs a CUDA device"]
    fn entries_of_rows_come_to_their_vertices_on_a_gpu() {
        let config = EngineConfig { device: crate::config::DeviceKind::Cuda(0), ..EngineConfig::default() };
        let device = Device::new(&config).expect("a device");
        // Several pieces, the last of them not full.
        let num_vertices = 5_000_011;
        let ids: Vec<u32> = (0..num_vertices).map(|row| (u64::from(row) * 37 % 5_000_011) as u32).collect();
        let permutation = Permutation::new(ids).expect("37 divides no prime");
        let mut staging = Staging::new(&device, num_vertices.into(), Some(&permutation)).expect("memory");
        let levels: Vec<u32> = (0..num_vertices).map(|row| row ^ 0x5555).collect();
        let expected: Vec<u32> = permutation.rows().iter().map(|&row| row ^ 0x5555).collect();
        let array = DeviceArray::copied(&device, "levels", &levels).expect("20 MB");
        let found = staging.by_vertex(&array, Some(&permutation), |level| level).expect("a GPU");
        assert!(found == expected);
        assert!(*staging.by_row(&array).expect("a GPU") == levels);
        let distances: Vec<u64> = levels.iter().map(|&level| u64::from(level) << 20).collect();
        let array = DeviceArray::copied(&device, "distances", &distances).expect("40 MB");
        let found = staging.by_vertex(&array, Some(&permutation), |distance| distance >> 20).expect("a GPU");
        assert!(found.iter().zip(&expected).all(|(&found, &expected)| found == u64::from(expected)));
    }

    #[test]
    fn arrays_of_the_host_are_not_copied_but_to_the_answer() {
        let device = Device::new(&EngineConfig::default()).expect("threads");
        let permutation = Permutation::new(vec![2, 0, 1]).expect("a permutation");
        let mut staging = Staging::new(&device, 3, Some(&permutation)).expect("nothing to allocate");
        assert!(staging.buffers.is_none() && staging.rows.is_none());
        let array = DeviceArray::copied(&device, "levels", &[5_u32, 6, 7]).expect("12 bytes");
        let found = staging.by_vertex(&array, Some(&permutation), |level| u64::from(level) * 10);
        assert_eq!(found.expect("memory"), [60, 70, 50]);
        assert!(matches!(staging.by_row(&array), Ok(Cow::Borrowed([5, 6, 7]))));
        let nothing = DeviceArray::<u32>::zeroed(&device, "levels", 0).expect("no bytes");
        assert!(staging.by_vertex(&nothing, None, |level| level).expect("memory").is_empty());
    }
}
