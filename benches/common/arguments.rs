//! The few options of a benchmark program: `--name NUMBER`. Cargo's own `--bench` is passed over.

/// The number after `name` on the command line, or `default`.
pub fn number(name: &str, default: u64) -> u64 {
    let mut arguments = std::env::args().skip_while(|argument| argument != name).skip(1);
    match arguments.next().map(|text| text.parse()) {
        None => default,
        Some(Ok(number)) => number,
        Some(Err(error)) => panic!("{name}: {error}"),
    }
}
