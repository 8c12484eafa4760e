//! What NICs did.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::memory::RegistrationStats;

/// What one NIC did in a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NicStats {
    /// Its name.
    pub name: String,
    /// Requests that it completed well.
    pub requests: u64,
    /// Bytes that it moved.
    pub bytes: u64,
    /// How often it took up requests: those of a queue pair that it found at one look.
    pub batches: u64,
    /// How often its doorbells were rung.
    pub doorbells: u64,
    /// Requests of a queue pair under way, as each request found it, itself included; 0 if there were none.
    pub mean_queue_depth: f64,
    /// From taking up a request to its completion, in microseconds: of half of the requests, nine in ten, 99 in a hundred,
    /// and the longest. 0 if there were none.
    pub latency_us: Percentiles,
    /// Requests that it did not do, since it was lost: they were posted again to the others.
    pub flushed: u64,
    /// Whether it was lost.
    pub lost: bool,
    /// Why, if it says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_because: Option<String>,
    /// What its registration cache did since the graph was prepared; only with a budget of registered memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registrations: Option<RegistrationStats>,
}

/// Percentiles of a latency, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Percentiles {
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub max: f64,
}

/// The same while it is counted, so that kernels of one run can be added up.
#[derive(Clone, Debug)]
pub(crate) struct NicCounts {
    pub name: String,
    pub requests: u64,
    pub bytes: u64,
    pub batches: u64,
    pub doorbells: u64,
    pub taken: u64,
    pub depth_sum: u64,
    pub flushed: u64,
    pub lost: bool,
    pub lost_because: Option<String>,
    pub registrations: Option<RegistrationStats>,
    latency_ns: Histogram<u64>,
}

/// Latencies are kept up to a minute, to 2 digits.
const LONGEST_NS: u64 = 60_000_000_000;

impl NicCounts {
    pub fn new(name: String) -> Self {
        Self {
            name,
            requests: 0,
            bytes: 0,
            batches: 0,
            doorbells: 0,
            taken: 0,
            depth_sum: 0,
            flushed: 0,
            lost: false,
            lost_because: None,
            registrations: None,
            latency_ns: Histogram::new_with_max(LONGEST_NS, 2).expect("valid bounds"),
        }
    }

    /// A request was completed well after `latency`.
    pub fn add_done(&mut self, bytes: u64, latency: Duration) {
        self.requests += 1;
        self.bytes += bytes;
        self.add_latencies(latency.as_nanos().try_into().unwrap_or(u64::MAX), 1);
    }

    /// `count` requests took so long.
    pub fn add_latencies(&mut self, nanoseconds: u64, count: u64) {
        self.latency_ns.saturating_record_n(nanoseconds.min(LONGEST_NS), count);
    }

    /// The NIC and why it is gone, if it is and says so.
    pub fn why_lost(&self) -> Option<String> {
        self.lost_because.as_ref().map(|why| format!("{}: {why}", self.name))
    }

    /// Adds what the same NIC did in another kernel.
    pub fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.batches += other.batches;
        self.doorbells += other.doorbells;
        self.taken += other.taken;
        self.depth_sum += other.depth_sum;
        self.flushed += other.flushed;
        self.lost |= other.lost;
        self.lost_because.clone_from(&other.lost_because);
        self.registrations = other.registrations;
        self.latency_ns.add(&other.latency_ns).expect("the same bounds");
    }

    pub fn stats(&self) -> NicStats {
        let at = |quantile| match self.latency_ns.len() {
            0 => 0.0,
            _ => self.latency_ns.value_at_quantile(quantile) as f64 * 1e-3,
        };
        NicStats {
            name: self.name.clone(),
            requests: self.requests,
            bytes: self.bytes,
            batches: self.batches,
            doorbells: self.doorbells,
            mean_queue_depth: match self.taken {
                0 => 0.0,
                taken => self.depth_sum as f64 / taken as f64,
            },
            latency_us: Percentiles { p50: at(0.5), p90: at(0.9), p99: at(0.99), max: at(1.0) },
            flushed: self.flushed,
            lost: self.lost,
            lost_because: self.lost_because.clone(),
            registrations: self.registrations,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_latencies() {
        let mut counts = NicCounts::new("a".to_owned());
        (1..=100).for_each(|us| counts.add_done(8192, Duration::from_micros(us)));
        let stats = counts.stats();
        assert_eq!((stats.requests, stats.bytes), (100, 819_200));
        let Percentiles { p50, p90, p99, max } = stats.latency_us;
        for (found, expected) in [(p50, 50.0), (p90, 90.0), (p99, 99.0), (max, 100.0)] {
            assert!((found / expected - 1.0_f64).abs() < 0.02, "{found} instead of {expected}");
        }
    }

    #[test]
    fn nic_without_requests_has_no_depth_and_no_latency() {
        let stats = NicCounts::new("a".to_owned()).stats();
        assert_eq!((stats.mean_queue_depth, stats.latency_us), (0.0, Percentiles::default()));
    }
}
