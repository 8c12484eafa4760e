//! Memory is asked for before it is taken: a graph too large for the machine is an error with two numbers in it.

use std::io::{self, Read};
use std::path::Path;

use crate::error::LoadError;
use crate::progress::Progress;

/// Below this nothing is asked: the answer costs a read of `/proc` and is never no.
const UNCHECKED_BYTES: u64 = 64 << 20;

/// Refuses `what` if it needs more memory than the machine, or its control group, has available.
pub(crate) fn check(needed_bytes: u64, path: &Path, what: &'static str) -> Result<(), LoadError> {
    if needed_bytes <= UNCHECKED_BYTES {
        return Ok(());
    }
    if needed_bytes > available_bytes() {
        return Err(refusal(needed_bytes, path, what));
    }
    Ok(())
}

/// What is said of more memory than there is.
pub(crate) fn refusal(needed_bytes: u64, path: &Path, what: &'static str) -> LoadError {
    LoadError::OutOfMemory { path: path.to_owned(), what, needed_bytes, available_bytes: available_bytes() }
}

/// What may still be allocated. Page cache counts as available, in a control group as well: the kernel gives it back.
pub(crate) fn available_bytes() -> u64 {
    let Ok(mut system) = sysinfo::System::new() else {
        return u64::MAX; // nobody knows, so nobody says no
    };
    system.refresh_memory_specifics(sysinfo::MemoryRefreshKind::nothing().with_ram());
    let machine = system.available_memory();
    system.cgroup_limits().map_or(machine, |group| machine.min(group.total_memory.saturating_sub(group.rss)))
}

/// What the machine has, or its control group allows, page cache included; without bound where nobody knows.
pub(crate) fn total_bytes() -> u64 {
    let Ok(mut system) = sysinfo::System::new() else { return u64::MAX };
    system.refresh_memory_specifics(sysinfo::MemoryRefreshKind::nothing().with_ram());
    let machine = system.total_memory();
    system.cgroup_limits().map_or(machine, |group| machine.min(group.total_memory))
}

/// Reads `reader` to its end, as [`Read::read_to_end`], but within the memory that is available.
pub(crate) fn read_to_end(
    reader: &mut dyn Read,
    bytes: &mut Vec<u8>,
    path: &Path,
    what: &'static str,
    progress: Option<&dyn Progress>,
) -> Result<(), LoadError> {
    const STEP: usize = 1 << 20;
    loop {
        if progress.is_some_and(Progress::is_cancelled) {
            return Err(LoadError::Interrupted);
        }
        let at = bytes.len();
        if bytes.capacity() - at < STEP {
            // Growing by half again: the allocator moves large blocks by remapping, without a second copy.
            let grow = STEP.max(at / 2);
            check((at + grow) as u64, path, what)?;
            bytes.try_reserve_exact(grow).map_err(|_| LoadError::OutOfMemory {
                path: path.to_owned(),
                what,
                needed_bytes: (at + grow) as u64,
                available_bytes: available_bytes(),
            })?;
        }
        let read = reader.take(STEP as u64).read_to_end(bytes).map_err(|source| match source.kind() {
            io::ErrorKind::Other
            | io::ErrorKind::InvalidInput
            | io::ErrorKind::InvalidData
            | io::ErrorKind::UnexpectedEof => LoadError::Unpack { path: path.to_owned(), what, source },
            _ => LoadError::Read { path: path.to_owned(), source },
        })?;
        if read == 0 {
            return Ok(());
        }
    }
}
