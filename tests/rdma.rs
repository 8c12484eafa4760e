//! Pages over real RDMA devices. `bash tests/rdma.sh` runs this in a virtual machine with two SoftRoCE devices; elsewhere
//! `GPUVM_TEST_NICS=mlx5_0,mlx5_1` names the devices to take. Without it every test says that it is skipped, with it a device
//! that is missing is a failure. The tests take turns (`--test-threads=1`): one of them takes a link down.
#![cfg(feature = "rdma")]

mod common;
#[path = "common/expected.rs"]
mod expected;
#[path = "common/program.rs"]
mod program;
#[path = "rdma/program.rs"]
mod program_tests;
#[path = "rdma/transport.rs"]
mod transport;
#[path = "rdma/verbs.rs"]
mod verbs;

/// The devices to test with; none, and a word why, if none are named.
fn nics(test: &str) -> Option<Vec<String>> {
    match std::env::var("GPUVM_TEST_NICS") {
        Ok(names) => Some(names.split(',').map(str::to_owned).collect()),
        Err(_) => {
            println!(
                "skipped: {test}: GPUVM_TEST_NICS names no RDMA devices (bash tests/rdma.sh brings its own)"
            );
            None
        }
    }
}

/// Leaves the test if there are no devices.
macro_rules! nics_or_skip {
    ($test:literal) => {
        match crate::nics($test) {
            Some(names) => names,
            None => return,
        }
    };
}
pub(crate) use nics_or_skip;
