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

/// The word after `name` on the command line, or `default`.
#[allow(dead_code, reason = "not every benchmark has a choice of words")]
pub fn word(name: &str, default: &str) -> String {
    std::env::args().skip_while(|argument| argument != name).nth(1).unwrap_or_else(|| default.to_owned())
}
