//! Devices, regions, queue pairs: what the transport is made of.

use std::time::{Duration, Instant};

use gpuvm_engine::transport::mlx5::Syndrome;
use gpuvm_engine::transport::rdma::{
    Access, DevicePinner, Outcome, Queues, RdmaDevice, RdmaError, Read, Region, device_names,
};
use gpuvm_engine::{MemoryKind, Pinnable, RegistrationCache};

use crate::nics_or_skip;

const PAGE: usize = 8192;

/// Memory of this process, page-aligned and in place.
struct Bytes(Vec<[u64; 512]>);

impl Bytes {
    fn zeroed(pages: usize) -> Self {
        Self(vec![[0; 512]; pages * PAGE / 4096])
    }

    /// Each word another, so that a page in the wrong place shows.
    fn counting(pages: usize) -> Self {
        let mut bytes = Self::zeroed(pages);
        for (i, word) in bytes.0.as_flattened_mut().iter_mut().enumerate() {
            *word = (i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
        bytes
    }

    fn range(&self) -> std::ops::Range<u64> {
        let start = self.0.as_ptr().expose_provenance() as u64;
        start..start + size_of_val(self.0.as_slice()) as u64
    }

    fn page(&self, page: usize) -> &[u64] {
        &self.0.as_flattened()[page * PAGE / 8..(page + 1) * PAGE / 8]
    }
}

// SAFETY: the elements of a vector that is never changed stay where they are until it is dropped.
unsafe impl Pinnable for Bytes {
    fn extent(&self) -> std::ops::Range<u64> {
        self.range()
    }
    fn kind(&self) -> MemoryKind {
        MemoryKind::Host
    }
}

fn open(names: &[String]) -> Vec<RdmaDevice> {
    names.iter().map(|name| RdmaDevice::open(name).unwrap_or_else(|error| panic!("{error}"))).collect()
}

fn region(device: &RdmaDevice, range: std::ops::Range<u64>, access: Access) -> Region {
    // SAFETY: tests keep the memory until after the region, and look at it when no request is under way.
    unsafe { Region::new(device, range, access) }.expect("registered")
}

fn post(queues: &Queues, pair: usize, read: &Read) {
    // SAFETY: tests look at the local bytes when no request is under way, and keep regions as long.
    unsafe { queues.pairs()[pair].post_read(read) }.expect("posted");
}

/// Polls until `count` requests have ended; in seconds, or it is a failure.
fn wait(queues: &mut Queues, count: usize) -> Vec<Outcome> {
    let (mut outcomes, started) = (Vec::new(), Instant::now());
    while outcomes.len() < count {
        assert!(started.elapsed() < Duration::from_secs(60), "{} of {count} have ended", outcomes.len());
        if queues.poll(|outcome| outcomes.push(outcome)).expect("polled") == 0 {
            std::thread::yield_now();
        }
    }
    outcomes
}

#[test]
fn device_says_what_its_port_offers_and_a_wrong_name_which_devices_there_are() {
    let names = nics_or_skip!("device_says_what_its_port_offers_and_a_wrong_name_which_devices_there_are");
    for device in open(&names) {
        let facts = device.facts();
        assert!(device.is_active());
        assert!([256, 512, 1024, 2048, 4096].contains(&facts.mtu_bytes), "{facts:?}");
        assert!(
            facts.max_reads >= 1 && facts.max_reads_answered >= 1 && facts.max_queue_pairs >= 84,
            "{facts:?}"
        );
    }
    let message = RdmaDevice::open("mlx9_9").expect_err("no such device").to_string();
    let all = device_names().expect("listed").join(", ");
    assert_eq!(message, format!("there is no RDMA device mlx9_9: there are {all}"));
    let refused = Queues::in_loopback(&open(&names)[0], 1, 1 << 30).expect_err("too deep");
    assert!(matches!(refused, RdmaError::TooMany { what: "requests a queue pair", .. }), "{refused}");
}

#[test]
fn pages_read_over_all_devices_and_many_queue_pairs_arrive_once_and_whole() {
    let names = nics_or_skip!("pages_read_over_all_devices_and_many_queue_pairs_arrive_once_and_whole");
    const PAGES: usize = 512;
    let devices = open(&names);
    for (num_pairs, depth) in [(1, 1), (1, 64), (84, 4)] {
        let (graph, frames) = (Bytes::counting(PAGES), Bytes::zeroed(PAGES));
        let mut arrived = vec![0; PAGES];
        let mut nics: Vec<_> = devices
            .iter()
            .map(|device| {
                let graph = region(device, graph.range(), Access::RemoteRead);
                let frames = region(device, frames.range(), Access::LocalWrite);
                (Queues::in_loopback(device, num_pairs, depth).expect("queues"), graph, frames)
            })
            .collect();
        let batch = (num_pairs * depth) as usize * nics.len();
        for pages in (0..PAGES).collect::<Vec<_>>().chunks(batch) {
            let mut posted = vec![0; nics.len()];
            for (i, &page) in pages.iter().enumerate() {
                let nic = i % nics.len();
                let (queues, from, to) = &nics[nic];
                let at = (page * PAGE) as u64;
                post(
                    queues,
                    posted[nic] % num_pairs as usize,
                    &Read {
                        id: page as u64,
                        remote_address: graph.range().start + at,
                        remote_key: from.remote_key(),
                        local_address: frames.range().start + at,
                        local_key: to.local_key(),
                        length: PAGE as u32,
                    },
                );
                posted[nic] += 1;
            }
            for ((queues, ..), posted) in nics.iter_mut().zip(posted) {
                for outcome in wait(queues, posted) {
                    assert_eq!((outcome.failure, outcome.length), (None, PAGE as u32));
                    arrived[outcome.id as usize] += 1;
                }
            }
        }
        drop(nics);
        assert!(arrived.iter().all(|&times| times == 1), "{num_pairs} x {depth}");
        assert!((0..PAGES).all(|page| frames.page(page) == graph.page(page)), "{num_pairs} x {depth}");
    }
}

#[test]
fn wrong_key_and_region_too_short_are_refused_by_the_device_with_their_status() {
    let names = nics_or_skip!("wrong_key_and_region_too_short_are_refused_by_the_device_with_their_status");
    for device in open(&names) {
        let (graph, frames) = (Bytes::counting(2), Bytes::zeroed(2));
        let readable = region(&device, graph.range(), Access::RemoteRead);
        let short =
            region(&device, graph.range().start..graph.range().start + PAGE as u64, Access::RemoteRead);
        let writable = region(&device, frames.range(), Access::LocalWrite);
        let good = Read {
            id: 1,
            remote_address: graph.range().start + 4096,
            remote_key: readable.remote_key(),
            local_address: frames.range().start,
            local_key: writable.local_key(),
            length: PAGE as u32,
        };
        let cases = [
            (
                "wrong remote key",
                Read { remote_key: good.remote_key ^ 0x5A00, ..good },
                Syndrome::REMOTE_ACCESS,
            ),
            ("region too short", Read { remote_key: short.remote_key(), ..good }, Syndrome::REMOTE_ACCESS),
            (
                "region not to be read",
                Read { remote_key: writable.remote_key(), ..good },
                Syndrome::REMOTE_ACCESS,
            ),
            (
                "wrong local key",
                Read { local_key: good.local_key ^ 0x5A00, ..good },
                Syndrome::LOCAL_PROTECTION,
            ),
        ];
        for (case, read, syndrome) in cases {
            let mut queues = Queues::in_loopback(&device, 1, 4).expect("queues");
            post(&queues, 0, &good);
            assert_eq!(wait(&mut queues, 1)[0].failure, None, "{case}: before");
            post(&queues, 0, &read);
            let failure = wait(&mut queues, 1)[0].failure.unwrap_or_else(|| panic!("{case}: not refused"));
            assert_eq!(failure.syndrome(), syndrome, "{case}: {}", failure.text());
            assert!(!failure.is_of_the_nic(), "{case}");
            post(&queues, 0, &good);
            let after = wait(&mut queues, 1)[0].failure.expect("the queue pair does no more");
            assert_eq!(after.syndrome(), Syndrome::FLUSHED, "{case}");
        }
        assert_eq!(frames.page(0), &graph.0.as_flattened()[512..512 + PAGE / 8]);
        assert!(frames.page(1).iter().all(|&word| word == 0));
    }
}

#[test]
fn region_of_the_registration_cache_is_read_through_while_others_come_and_go() {
    let names = nics_or_skip!("region_of_the_registration_cache_is_read_through_while_others_come_and_go");
    // 32 pieces of 64 KiB, room for 8 of them.
    const PIECE: u64 = 64 << 10;
    let devices = open(&names);
    let frames = Bytes::zeroed(1);
    let cache = RegistrationCache::new(DevicePinner::new(&devices, Access::RemoteRead), 8 * PIECE);
    let graph = cache.adopt(Bytes::counting(32 * PIECE as usize / PAGE));
    let mut nics: Vec<_> = devices
        .iter()
        .map(|device| {
            (
                Queues::in_loopback(device, 1, 1).expect("queues"),
                region(device, frames.range(), Access::LocalWrite),
            )
        })
        .collect();
    let mut state = 1_u64;
    for round in 0..400 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // Half of the reads go to four pieces.
        let piece = if round % 2 == 0 { (state >> 33) % 4 } else { (state >> 33) % 32 };
        let page = piece * 8 + round % 8;
        let regions = graph.register(page * PAGE as u64, PAGE as u64).expect("pinned");
        let nic = round as usize % nics.len();
        let (queues, local) = &mut nics[nic];
        post(
            queues,
            0,
            &Read {
                id: page,
                remote_address: graph.memory().range().start + page * PAGE as u64,
                remote_key: regions[nic].remote_key(),
                local_address: frames.range().start,
                local_key: local.local_key(),
                length: PAGE as u32,
            },
        );
        assert_eq!(wait(queues, 1)[0].failure, None, "page {page}");
        assert_eq!(frames.page(0), graph.memory().page(page as usize), "page {page}");
    }
    let stats = cache.stats();
    println!("registration cache: hit rate {:.2}, {stats:?}", stats.hit_rate());
    assert_eq!(stats.hits + stats.pins, 400);
    assert!(stats.evictions > 100 && stats.hit_rate() > 0.4, "{stats:?}");
    assert_eq!(stats.most_pinned_bytes, 8 * PIECE);
    drop(graph);
    assert_eq!((cache.stats().pinned_bytes, cache.stats().unpins), (0, cache.stats().pins));
}
