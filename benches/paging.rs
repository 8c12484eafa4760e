//! Page throughput on a GPU: the whole fault path beside what the link gives, hits, unified memory, zero-copy, and the
//! latency of one fault.
//!
//!     cargo bench --bench paging -- [--gib 4] [--repeats 5] [--json FILE]
//!
//! The kernels are in `paging.cu`, compiled at run time as an embedder's own: NVRTC 12 is needed (`GPUVM_NVRTC`), and
//! nothing here is in the product. A row is the median of the repeats after one warm-up, by the device's clock. Pages are
//! taken one at a time from a list, in random order unless it says `sequential`; each is fetched once, and its last
//! line (128 bytes) is read and compared. Warm-ups compare all of each page. `copy` is the share of what the copy engine
//! reaches in this run, `pulls` that of raw pulls of random pages of the same size (of 4 KiB for lines): warps that copy
//! pages into frames of their own with no page table, the better of a full and a small grid.
//!
//! `fault` rows start with no page resident; `evicting` ones have frames for a quarter of the pages, all in use from
//! the start, so that every fault evicts. Hits are a reference taken and given back by a warp, pages uniformly at random, all
//! resident; `by lanes` the same by each lane for itself, on the page table alone. Unified memory is a quarter of the
//! region, set up anew for each repeat.

#[path = "common/arguments.rs"]
mod arguments;

use std::time::Instant;

use gpuvm_engine::graph::HostArray;
use gpuvm_engine::{
    DeviceArray, DeviceKind, Engine, EngineConfig, Frames, Grid, Kernel, KernelArgument, LaunchStats,
    PageSize, PagedArray, PagedArrayOptions, Policy,
};
use serde_json::{Value, json};

const PAGE_SIZES: [u64; 3] = [4 << 10, 8 << 10, 64 << 10];
/// One block a multiprocessor of an H200 with four warps: pulls fill its link from a quarter of this on.
const SMALL_GRID: Grid = Grid { num_blocks: Some(132), warps_per_block: 4 };
const ONE_WARP: Grid = Grid { num_blocks: Some(1), warps_per_block: 1 };

/// What word `i` of the array holds, as `word_at` in `paging.cu`.
fn word_at(i: u64) -> u64 {
    i.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// 0 to `len - 1` in random order.
fn shuffled(len: u64) -> Vec<u32> {
    let mut numbers: Vec<u32> = (0..len as u32).collect();
    let mut state = 1_u64;
    for i in (1..numbers.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        numbers.swap(i, ((u128::from(state) * (i as u128 + 1)) >> 64) as usize);
    }
    numbers
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn kib(bytes: u64) -> String {
    format!("{}KiB", bytes >> 10)
}

/// The kernels of `paging.cu`.
struct Kernels {
    fault_pages: Kernel,
    pull_pages: Kernel,
    pull_pages_in_bulk: Kernel,
    hit_pages: Kernel,
    hit_entries: Kernel,
    read_units: Kernel,
    read_random_lines: Kernel,
    fault_one_by_one: Kernel,
    pull_one_by_one: Kernel,
}

impl Kernels {
    fn new(engine: &Engine) -> Self {
        let names = [
            "fault_pages",
            "pull_pages",
            "pull_pages_in_bulk",
            "hit_pages",
            "hit_entries",
            "read_units",
            "read_random_lines",
            "fault_one_by_one",
            "pull_one_by_one",
        ];
        let kernels = engine.compile_kernels(include_str!("paging.cu"), names);
        let [
            fault_pages,
            pull_pages,
            pull_pages_in_bulk,
            hit_pages,
            hit_entries,
            read_units,
            read_random_lines,
            fault_one_by_one,
            pull_one_by_one,
        ] = kernels.unwrap_or_else(|error| panic!("paging.cu: {error}"));
        Self {
            fault_pages,
            pull_pages,
            pull_pages_in_bulk,
            hit_pages,
            hit_entries,
            read_units,
            read_random_lines,
            fault_one_by_one,
            pull_one_by_one,
        }
    }
}

/// The GPU, what was measured on it, and the words that kernels share.
struct Bench {
    engine: Engine,
    kernels: Kernels,
    repeats: usize,
    copy_rate: f64,
    /// Bytes a second of raw pulls, by page size in the order of [`PAGE_SIZES`].
    pull_rates: Vec<f64>,
    cursor: DeviceArray<u64>,
    mismatches: DeviceArray<u64>,
    num_mismatches: u64,
    rows: Vec<Value>,
    shown: Vec<Value>,
}

impl Bench {
    /// Seconds and counts of the median launch of `run`, which is told whether it is the warm-up.
    fn measure(&mut self, mut run: impl FnMut(&mut Self, bool) -> LaunchStats) -> LaunchStats {
        let mut launch = |bench: &mut Self, is_warm_up| {
            bench.cursor.fill(0).expect("a working GPU");
            bench.mismatches.fill(0).expect("a working GPU");
            let stats = run(bench, is_warm_up);
            bench.num_mismatches += bench.mismatches.to_vec().expect("a working GPU")[0];
            stats
        };
        launch(self, true);
        let mut launches: Vec<_> = (0..self.repeats).map(|_| launch(self, false)).collect();
        launches.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        launches.swap_remove(launches.len() / 2)
    }

    /// Bytes a second of raw pulls of pages of this size; of the smallest for lines.
    fn pulls(&self, page_bytes: u64) -> f64 {
        self.pull_rates[PAGE_SIZES.iter().position(|&size| size == page_bytes).unwrap_or(0)]
    }

    /// A row of bytes moved in units of `page_bytes`; returns bytes a second.
    fn row(&mut self, name: &str, page_bytes: u64, bytes: u64, stats: LaunchStats) -> f64 {
        let rate = bytes as f64 / stats.seconds;
        let pulls = self.pulls(page_bytes);
        println!(
            "{name:44} {:>9.5} {:>8.2} {:>7.1}% {:>7.1}% {:>9} {:>9}",
            stats.seconds,
            rate / 1e9,
            rate / self.copy_rate * 100.0,
            rate / pulls * 100.0,
            stats.paging.faults,
            stats.paging.evictions
        );
        self.rows.push(json!({
            "name": name, "bytes": bytes, "seconds": stats.seconds, "bytes_per_second": rate,
            "share_of_copy_engine": rate / self.copy_rate,
            "share_of_warp_pulls": rate / pulls,
            "warps": stats.num_warps, "faults": stats.paging.faults, "evictions": stats.paging.evictions,
        }));
        rate
    }

    fn show(&mut self, what: String, value: f64, aim: f64, unit: &str) {
        self.shown
            .push(json!({ "what": what, "value": value, "aim": aim, "unit": unit, "pass": value >= aim }));
    }

    /// Raw pulls, of which the best row that takes pages at random is what others are held against.
    fn raw_pulls(
        &mut self,
        array: &PagedArray<u64>,
        random: &DeviceArray<u32>,
        sequential: &DeviceArray<u32>,
    ) {
        let (page_bytes, num_pages) = (array.page_size().bytes(), array.num_pages());
        let bytes = page_bytes * num_pages;
        let page_words = page_bytes / 8;
        // A frame for each warp that a GPU may hold at a time.
        let mut frames = self.engine.zeros::<u64>(page_words * 16_384).expect("device memory");
        let kinds = [
            ("random", random, Grid::default()),
            ("random, small grid", random, SMALL_GRID),
            ("sequential", sequential, Grid::default()),
        ];
        let measured = kinds.map(|(_, pages, grid)| {
            self.measure(|bench, is_warm_up| {
                let check = u32::from(is_warm_up);
                let (cursor, wrong) = (&mut bench.cursor, &mut bench.mismatches);
                let arguments =
                    (array.in_place(), page_words, pages, num_pages, check, &mut frames, cursor, wrong);
                // SAFETY: the types that the kernel declares; it has a frame for each warp of the grid.
                unsafe { bench.kernels.pull_pages.launch(grid, arguments) }.expect("runs")
            })
        });
        self.pull_rates.push(bytes as f64 / measured[0].seconds.min(measured[1].seconds));
        for ((order, ..), stats) in kinds.into_iter().zip(measured) {
            self.row(&format!("pull/{order}/page={}", kib(page_bytes)), page_bytes, bytes, stats);
        }
        let capability = self.engine.compute_capability().expect("a working GPU").expect("a GPU");
        if capability < (9, 0) {
            println!("pull in bulk/random/page={}: skipped: needs compute capability 9.0", kib(page_bytes));
            return;
        }
        for num_blocks in [132, 264, 792] {
            let grid = Grid { num_blocks: Some(num_blocks), warps_per_block: 1 };
            let stats = self.measure(|bench, _| {
                let (cursor, wrong) = (&mut bench.cursor, &mut bench.mismatches);
                let arguments = (array.in_place(), page_words, random, num_pages, &mut frames, cursor, wrong);
                // SAFETY: as above.
                unsafe { bench.kernels.pull_pages_in_bulk.launch(grid, arguments) }.expect("runs")
            });
            let name = format!("pull in bulk/random, {num_blocks} lanes/page={}", kib(page_bytes));
            self.row(&name, page_bytes, bytes, stats);
        }
    }

    /// The whole fault path: random rows are held against the aim.
    fn faults(&mut self, array: &mut PagedArray<u64>, lists: [(&str, &DeviceArray<u32>); 2], aim: f64) {
        let (page_bytes, num_pages, evicts) = (array.page_size().bytes(), array.num_pages(), array.evicts());
        for (order, pages) in lists {
            let stats = self.measure(|bench, is_warm_up| {
                if !evicts {
                    array.evict_all().expect("a working GPU");
                }
                let check = u32::from(is_warm_up);
                let (cursor, wrong) = (&mut bench.cursor, &mut bench.mismatches);
                let arguments = (&mut *array, pages, num_pages, check, cursor, wrong);
                // SAFETY: the types that the kernel declares; it writes the last two.
                unsafe { bench.kernels.fault_pages.launch(Grid::default(), arguments) }.expect("runs")
            });
            let name =
                format!("fault/{order}{}/page={}", if evicts { ", evicting" } else { "" }, kib(page_bytes));
            let rate = self.row(&name, page_bytes, stats.paging.bytes_in, stats);
            if order == "random" {
                self.show(name, rate / self.pulls(page_bytes), aim, "of warp pulls");
            }
        }
    }

    /// Hits on the first `num_pages` pages, which are resident; returns hits a second by warps.
    fn hits(&mut self, array: &mut PagedArray<u64>, num_pages: u64, label: &str) -> f64 {
        let mut by_warps = 0.0;
        for (name, rounds, lanes) in [("", 20_000_u64, 1), (" by lanes", 1000, 32)] {
            let stats = self.measure(|bench, _| {
                let Kernels { hit_pages, hit_entries, .. } = &mut bench.kernels;
                let kernel = if lanes == 1 { hit_pages } else { hit_entries };
                let arguments = (&mut *array, num_pages, rounds, &mut bench.mismatches);
                // SAFETY: the types that the kernels declare; they write the last.
                unsafe { kernel.launch(Grid::default(), arguments) }.expect("runs")
            });
            assert_eq!(stats.paging.faults, 0, "all pages are resident");
            let rate = (stats.num_warps * lanes * rounds) as f64 / stats.seconds;
            let name = format!("hit/{label}{name}/page={}", kib(array.page_size().bytes()));
            println!("{name:44} {:>9.5} {:>8.2} G/s", stats.seconds, rate / 1e9);
            self.rows.push(json!({ "name": name, "seconds": stats.seconds, "hits_per_second": rate }));
            if lanes == 1 {
                by_warps = rate;
            }
        }
        by_warps
    }

    /// The latency of one fault, one hit, one page pulled and one load: one warp, alone, one after another.
    fn latencies(&mut self, array: &mut PagedArray<u64>, pages: &DeviceArray<u32>) {
        let (page_bytes, num) = (array.page_size().bytes(), array.num_pages().min(2000));
        let page_words = page_bytes / 8;
        let mut frame = self.engine.zeros::<u64>(page_words).expect("device memory");
        let mut times = self.engine.zeros::<u64>(num).expect("device memory");
        let mut span = self.engine.zeros::<u64>(2).expect("device memory");
        for what in ["fault", "hit", "pull", "load"] {
            let mut medians = Vec::new();
            self.measure(|bench, is_warm_up| {
                if what == "fault" {
                    array.evict_all().expect("a working GPU");
                }
                let (times_at, span_at, wrong) = (&mut times, &mut span, &mut bench.mismatches);
                let stats = if what == "fault" || what == "hit" {
                    let again = u32::from(what == "hit");
                    let arguments = (&mut *array, pages, num, again, times_at, span_at, wrong);
                    // SAFETY: the types that the kernel declares; `times` has a place for each page.
                    unsafe { bench.kernels.fault_one_by_one.launch(ONE_WARP, arguments) }
                } else {
                    let unit_words = if what == "load" { 1 } else { page_words };
                    let arguments = (
                        array.in_place(),
                        page_words,
                        unit_words,
                        pages,
                        num,
                        &mut frame,
                        times_at,
                        span_at,
                        wrong,
                    );
                    // SAFETY: as above, and the frame takes a page.
                    unsafe { bench.kernels.pull_one_by_one.launch(ONE_WARP, arguments) }
                }
                .expect("runs");
                let span = span.to_vec().expect("a working GPU");
                let ns_per_clock = span[1] as f64 / span[0] as f64;
                let clocks = times.to_vec().expect("a working GPU").iter().map(|&t| t as f64).collect();
                if !is_warm_up {
                    medians.push(median(clocks) * ns_per_clock);
                }
                stats
            });
            let ns = median(medians);
            let name = format!("latency/{what}/page={}", kib(page_bytes));
            println!("{name:44} {:>9.0} ns", ns);
            self.rows.push(json!({ "name": name, "ns": ns }));
        }
    }

    /// Units of `unit_bytes` in the order of a list, read where they lie.
    fn read(
        &mut self,
        name: &str,
        values: impl KernelArgument,
        units: &DeviceArray<u32>,
        unit_bytes: u64,
    ) -> LaunchStats {
        let arguments =
            (values, unit_bytes / 8, units, units.len() as u64, &mut self.cursor, &mut self.mismatches);
        // SAFETY: the types that the kernel declares; units are inside the array.
        unsafe { self.kernels.read_units.launch(Grid::default(), arguments) }
            .unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    fn zero_copy(&mut self, array: &PagedArray<u64>) {
        let bytes = array.elements().size_bytes();
        let rounds = 256_u64;
        let stats = self.measure(|bench, _| {
            let arguments = (array.in_place(), bytes / 128, rounds, &mut bench.mismatches);
            // SAFETY: the types that the kernel declares; lines are inside the array.
            unsafe { bench.kernels.read_random_lines.launch(Grid::default(), arguments) }.expect("runs")
        });
        self.row("zero-copy/random/line=128B", 128, stats.num_warps * rounds * 4 * 128, stats);
        for page_bytes in PAGE_SIZES {
            let random = self.engine.copy_of(&shuffled(bytes / page_bytes)).expect("device memory");
            let name = format!("zero-copy/random/page={}", kib(page_bytes));
            let stats = self.measure(|bench, _| bench.read(&name, array.in_place(), &random, page_bytes));
            self.row(&name, page_bytes, bytes, stats);
        }
        let list: Vec<u32> = (0..(bytes / PAGE_SIZES[2]) as u32).collect();
        let list = self.engine.copy_of(&list).expect("device memory");
        let name = "zero-copy/sequential";
        let stats = self.measure(|bench, _| bench.read(name, array.in_place(), &list, PAGE_SIZES[2]));
        self.row(name, PAGE_SIZES[2], bytes, stats);
    }

    /// Unified memory, cold. Each repeat has an array of its own, since pages cannot be thrown out.
    fn managed(&mut self, elements: &[u64]) {
        let bytes = size_of_val(elements) as u64;
        for (kind, read_mostly) in [("managed", false), ("managed-read-mostly", true)] {
            for (order, page_bytes) in [("random", 8 << 10), ("random", 64 << 10), ("sequential", 64 << 10)] {
                let list = match order {
                    "random" => shuffled(bytes / page_bytes),
                    _ => (0..(bytes / page_bytes) as u32).collect(),
                };
                let list = self.engine.copy_of(&list).expect("device memory");
                let name = format!("{kind}/{order}/page={}", kib(page_bytes));
                let stats = self.measure(|bench, _| {
                    let array =
                        bench.engine.managed_copy_of(elements, read_mostly).expect("a quarter of the region");
                    bench.read(&name, &array, &list, page_bytes)
                });
                self.row(&name, page_bytes, bytes, stats);
            }
        }
    }
}

fn main() {
    let gib = arguments::number("--gib", 4);
    let repeats = arguments::number("--repeats", 5).max(1) as usize;
    let json_file = arguments::word("--json", "");
    let started = Instant::now();
    let engine = Engine::new(EngineConfig { device: DeviceKind::Cuda(0), ..EngineConfig::default() })
        .expect("a GPU: this benchmark is of nothing else");
    let copy_rate = engine.link_rate().expect("the link works").expect("a GPU");
    let words = HostArray::from_fn(gib << 27, word_at).expect("host memory for the region");
    println!(
        "{}, {gib} GiB in host memory, copy engine {:.2} GB/s, median of {repeats}",
        engine.device_name(),
        copy_rate / 1e9
    );
    println!(
        "{:44} {:>9} {:>8} {:>8} {:>8} {:>9} {:>9}",
        "", "seconds", "GB/s", "copy", "pulls", "faults", "evicted"
    );
    let (cursor, mismatches) = (engine.zeros(1).expect("8 bytes"), engine.zeros(1).expect("8 bytes"));
    let mut bench = Bench {
        kernels: Kernels::new(&engine),
        engine,
        repeats,
        copy_rate,
        pull_rates: Vec::new(),
        cursor,
        mismatches,
        num_mismatches: 0,
        rows: Vec::new(),
        shown: Vec::new(),
    };
    // Memory can be registered once at a time, so arrays of the same words follow each other.
    for page_bytes in PAGE_SIZES {
        let options = |frames| PagedArrayOptions {
            page_size: PageSize::new(page_bytes).expect("allowed"),
            frames,
            policy: Policy::Fifo,
        };
        let array = |bench: &Bench, frames| {
            PagedArray::new(&bench.engine, words.clone(), options(frames)).expect("memory for the frames")
        };
        let num_pages = words.size_bytes() / page_bytes;
        let random = bench.engine.copy_of(&shuffled(num_pages)).expect("device memory");
        let in_order: Vec<u32> = (0..num_pages as u32).collect();
        let in_order = bench.engine.copy_of(&in_order).expect("device memory");
        let lists = [("random", &random), ("sequential", &in_order)];

        let mut resident = array(&bench, Frames::Number(num_pages));
        bench.raw_pulls(&resident, &random, &in_order);
        bench.faults(&mut resident, lists, 0.99);
        if page_bytes == 8 << 10 {
            bench.hits(&mut resident, num_pages, "not counted");
        }
        bench.latencies(&mut resident, &random);
        if page_bytes == 64 << 10 {
            bench.zero_copy(&resident);
        }
        drop(resident);
        bench.faults(&mut array(&bench, Frames::Number(num_pages / 4)), lists, 0.98);
        if page_bytes == 8 << 10 {
            // One frame short, so that references are counted, and all pages but one are resident.
            let mut counted = array(&bench, Frames::Number(num_pages - 1));
            bench.cursor.fill(0).expect("a working GPU");
            let (cursor, wrong) = (&mut bench.cursor, &mut bench.mismatches);
            let arguments = (&mut counted, &in_order, num_pages - 1, 0_u32, cursor, wrong);
            // SAFETY: the types that the kernel declares; it writes the last two.
            unsafe { bench.kernels.fault_pages.launch(Grid::default(), arguments) }.expect("runs");
            let rate = bench.hits(&mut counted, num_pages - 1, "counted");
            bench.show("hit/counted".to_owned(), rate / 1e9, 1.2, "G/s");
        }
    }
    bench.managed(&words[..words.len() / 4]);

    let wrong = bench.num_mismatches;
    println!("\n{} s in all", started.elapsed().as_secs());
    println!(
        "{:44} {wrong:>8} words{:11} {}",
        "content of every page",
        "",
        if wrong == 0 { "pass" } else { "FAIL" }
    );
    for shown in &bench.shown {
        println!(
            "{:44} {:>8.3} {:16} {} (aim {})",
            shown["what"].as_str().unwrap_or_default(),
            shown["value"].as_f64().unwrap_or_default(),
            shown["unit"].as_str().unwrap_or_default(),
            if shown["pass"] == true { "pass" } else { "FAIL" },
            shown["aim"]
        );
    }
    if !json_file.is_empty() {
        let report = json!({
            "program": "paging benchmark", "device": bench.engine.device_name(), "gib": gib, "repeats": repeats,
            "copy_engine_bytes_per_second": copy_rate, "mismatches": wrong,
            "seconds": started.elapsed().as_secs_f64(), "rows": bench.rows, "shown": bench.shown,
        });
        std::fs::write(&json_file, format!("{report:#}\n")).expect("the JSON file can be written");
    }
}
