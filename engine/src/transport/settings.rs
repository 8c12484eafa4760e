//! How pages travel: which transport, how many queues, and what a modelled NIC is like.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::Serialize;

use super::is_built;
use super::mlx5::Syndrome;
use crate::config::{Doorbell, TransportKind};
use crate::error::Error;

/// Queue pairs of a NIC at most: the numbers of a queue pair have 24 bits, and errors name it in 16.
const MOST_QUEUE_PAIRS: u32 = 4096;
/// Entries of a queue at most: a request is told from the others by 16 bits of its number.
const MOST_QUEUE_DEPTH: u32 = 1024;
/// NICs at most.
const MOST_NICS: u32 = 16;
/// The largest page, and what is registered with it, twice over.
const LEAST_PIN_BUDGET: u64 = 2 << 20;

/// Who moves the pages, and through which queues. All but the first apply to transports other than `direct`.
#[derive(Clone, Debug, PartialEq)]
pub struct TransportConfig {
    /// Who moves the pages.
    pub kind: TransportKind,
    /// Queue pairs of each NIC, 1 to 4096. Warp w uses number w mod this.
    pub queue_pairs: u32,
    /// Entries of a queue, a power of two from 1 to 1024: so many requests are under way at most.
    pub queue_depth: u32,
    /// Requests behind one doorbell, from 1 to the depth of a queue. A request that waits for others to fill the batch rings
    /// by itself after a moment.
    pub fault_batch: u32,
    /// NICs that `host` and `device` stand for, 1 to 16; pages are striped over them.
    pub rnics: u32,
    /// RDMA devices of transports `rdma` and `mlx5`, by name (`mlx5_0`); if there is none, all whose port is active.
    pub nics: Vec<String>,
    /// Bytes of the graph that each device of transport `rdma` has registered at most, from 2 MiB on: pages are registered
    /// when they are asked for, and those asked for longest ago make room. `None` registers all of it once.
    pub pin_budget: Option<u64>,
    /// Who rings the doorbells of transport `mlx5`.
    pub doorbell: Doorbell,
    /// How slow they are; `None` for as fast as they can.
    pub rnic_model: Option<RnicModel>,
    /// What goes wrong, for tests.
    #[doc(hidden)]
    pub faults: FaultInjection,
}

impl Default for TransportConfig {
    /// `direct`; for the others the paper's 84 queue pairs of 64 entries, and two NICs.
    fn default() -> Self {
        Self {
            kind: TransportKind::Direct,
            queue_pairs: 84,
            queue_depth: 64,
            fault_batch: 8,
            rnics: 2,
            nics: Vec::new(),
            pin_budget: None,
            doorbell: Doorbell::Assisted,
            rnic_model: None,
            faults: FaultInjection::default(),
        }
    }
}

impl TransportConfig {
    /// Whether pages are asked for through queues.
    pub fn uses_queues(&self) -> bool {
        self.kind != TransportKind::Direct
    }

    /// # Errors
    /// [`Error::QueueSetting`]; [`Error::NoTransport`] if it is not part of this build.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if !is_built(self.kind) {
            return Err(Error::NoTransport { transport: self.kind.name() });
        }
        let check = |what, given: u32, holds: bool, allowed| match holds {
            true => Ok(()),
            false => Err(Error::QueueSetting { what, given, allowed }),
        };
        let (pairs, depth, batch, nics) = (self.queue_pairs, self.queue_depth, self.fault_batch, self.rnics);
        check("queue pairs", pairs, (1..=MOST_QUEUE_PAIRS).contains(&pairs), "from 1 to 4096")?;
        let depth_is_good = depth.is_power_of_two() && depth <= MOST_QUEUE_DEPTH;
        check("entries of a queue", depth, depth_is_good, "a power of two from 1 to 1024")?;
        check(
            "requests of a batch",
            batch,
            (1..=depth).contains(&batch),
            "from 1 to the entries of a queue",
        )?;
        check("NICs", nics, (1..=MOST_NICS).contains(&nics), "from 1 to 16")?;
        if let Some(bytes) = self.pin_budget
            && bytes < LEAST_PIN_BUDGET
        {
            return Err(Error::PinBudget { bytes, least: LEAST_PIN_BUDGET });
        }
        let named = self.nics.len() as u32;
        check("NICs", named, named <= MOST_NICS, "from 1 to 16")
    }
}

/// A NIC as it is modelled: a request ends `latency` after its bytes have gone over a link of `bandwidth`, one request after
/// the other.
///
/// ```
/// use gpuvm_engine::RnicModel;
/// let model: RnicModel = "latency=23us,bandwidth=6.5GB/s".parse().expect("the paper's NIC");
/// assert_eq!((model.latency.as_micros(), model.bandwidth), (23, 6.5e9));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RnicModel {
    /// From a request to its completion, without the bytes.
    pub latency: Duration,
    /// Bytes a second of the link; infinite if there is no limit.
    pub bandwidth: f64,
}

impl RnicModel {
    /// How long the link is busy with so many bytes.
    pub(crate) fn transfer_time(&self, bytes: u64) -> Duration {
        Duration::from_secs_f64(bytes as f64 / self.bandwidth)
    }
}

impl fmt::Display for RnicModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "latency={}us", self.latency.as_secs_f64() * 1e6)?;
        match self.bandwidth.is_finite() {
            true => write!(f, ",bandwidth={}GB/s", self.bandwidth / 1e9),
            false => Ok(()),
        }
    }
}

impl Serialize for RnicModel {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for RnicModel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (mut latency, mut bandwidth) = (None, None);
        for part in text.split(',') {
            let parsed = match part.split_once('=') {
                Some(("latency", value)) if latency.is_none() => {
                    latency = measure(value, &[("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0)]);
                    latency.is_some_and(|seconds| seconds <= 10.0)
                }
                Some(("bandwidth", value)) if bandwidth.is_none() => {
                    bandwidth = measure(
                        value,
                        &[("GB/s", 1e9), ("MB/s", 1e6), ("KB/s", 1e3), ("kB/s", 1e3), ("B/s", 1.0)],
                    );
                    bandwidth.is_some_and(|rate| rate >= 1.0)
                }
                _ => false,
            };
            if !parsed {
                return Err(format!("'{part}' is no part of a NIC, use latency=23us,bandwidth=6.5GB/s"));
            }
        }
        Ok(Self {
            latency: Duration::from_secs_f64(latency.unwrap_or(0.0)),
            bandwidth: bandwidth.unwrap_or(f64::INFINITY),
        })
    }
}

/// A number with one of these units, the longest first where one ends in another.
fn measure(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let (number, unit) = units.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit)))?;
    number
        .parse()
        .ok()
        .filter(|number: &f64| number.is_finite() && *number >= 0.0)
        .map(|number| number * unit)
}

/// What goes wrong with the NICs of transport `host`, for tests.
#[derive(Clone, Debug, Default, PartialEq)]
#[doc(hidden)]
pub struct FaultInjection {
    /// Every completion comes so much later.
    pub delay: Duration,
    /// Completions come in any order.
    pub reorder: bool,
    /// The request of this number, counted over a NIC from 0, ends with this syndrome.
    pub fail: Option<(u64, Syndrome)>,
    /// The request of this number is never answered.
    pub silent: Option<u64>,
    /// Requests name a key that the frames do not have.
    pub wrong_local_key: bool,
    /// Requests name a key that the arrays do not have.
    pub wrong_remote_key: bool,
    /// The arrays are registered without their last bytes.
    pub short_by: u64,
    /// NICs that vanish, each after so many requests.
    pub vanish: Vec<(u32, u64)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_is_read_with_its_units_and_prints_as_it_is_read() {
        for (text, latency_ns, bandwidth) in [
            ("latency=23us,bandwidth=6.5GB/s", 23_000, 6.5e9),
            ("bandwidth=100MB/s,latency=1ms", 1_000_000, 1e8),
            ("latency=1500ns", 1_500, f64::INFINITY),
            ("bandwidth=8000B/s", 0, 8e3),
        ] {
            let model: RnicModel = text.parse().expect(text);
            assert_eq!((model.latency.as_nanos(), model.bandwidth), (latency_ns, bandwidth), "{text}");
            assert_eq!(model.to_string().parse(), Ok(model));
        }
        for bad in [
            "",
            "latency",
            "latency=23",
            "latency=-1us",
            "bandwidth=0GB/s",
            "latency=1us,latency=2us",
            "mtu=1",
            "latency=1h",
        ] {
            assert!(bad.parse::<RnicModel>().is_err(), "{bad}");
        }
    }

    #[test]
    fn transfer_takes_what_the_bandwidth_says() {
        let model: RnicModel = "latency=23us,bandwidth=8GB/s".parse().expect("valid");
        assert_eq!(model.transfer_time(8000).as_nanos(), 1000);
    }

    #[test]
    fn settings_out_of_range_are_refused() {
        let good = TransportConfig::default();
        assert!(good.check().is_ok());
        for bad in [
            TransportConfig { queue_pairs: 0, ..good.clone() },
            TransportConfig { queue_pairs: 4097, ..good.clone() },
            TransportConfig { queue_depth: 48, ..good.clone() },
            TransportConfig { queue_depth: 2048, ..good.clone() },
            TransportConfig { fault_batch: 0, ..good.clone() },
            TransportConfig { queue_depth: 4, fault_batch: 8, ..good.clone() },
            TransportConfig { rnics: 17, ..good.clone() },
        ] {
            assert!(matches!(bad.check(), Err(Error::QueueSetting { .. })), "{bad:?}");
        }
    }
}
