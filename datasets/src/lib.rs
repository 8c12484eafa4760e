//! Graphs to try things on: generators that give the same graph at any number of threads.
#![forbid(unsafe_code)]

mod kronecker;

pub use kronecker::{Kronecker, KroneckerError};
