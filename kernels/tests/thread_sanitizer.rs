//! Builds `thread_sanitizer.cc` and `queue_sanitizer.cc` with ThreadSanitizer and runs them.

use std::path::PathBuf;
use std::process::{Command, Output};

const RACE: &str = "WARNING: ThreadSanitizer: data race";

/// Compiles and runs the program; `None` where the compiler has no ThreadSanitizer.
fn run(source: &str, name: &str, defines: &[&str]) -> Option<Output> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    let compiled = Command::new(&compiler)
        .args(["-std=c++20", "-O1", "-g", "-fsanitize=thread", "-pthread", "-w"])
        .args(defines)
        .arg("-I")
        .arg(folder.join("cuda"))
        .arg(folder.join("tests").join(source))
        .arg("-o")
        .arg(&program)
        .output()
        .expect("the C++ compiler that built the CPU device");
    if !compiled.status.success() {
        let message = String::from_utf8_lossy(&compiled.stderr).into_owned();
        assert!(message.contains("tsan") || message.contains("sanitize"), "{message}");
        println!(
            "skipped: {compiler} cannot link ThreadSanitizer: {}",
            message.lines().next().unwrap_or_default()
        );
        return None;
    }
    let output = Command::new(&program).output().expect("runs");
    if String::from_utf8_lossy(&output.stderr).contains("unexpected memory mapping") {
        // Older runtimes cannot live with much address space randomization; setarch turns it off for one program.
        return Some(Command::new("setarch").args(["-R"]).arg(&program).output().expect("setarch runs"));
    }
    Some(output)
}

#[test]
fn threads_that_fault_and_evict_do_not_race() {
    let Some(output) = run("thread_sanitizer.cc", "thread_sanitizer", &[]) else { return };
    let (log, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{log}");
    assert!(output.status.success() && !errors.contains(RACE), "{errors}");
}

#[test]
fn sanitizer_finds_the_race_when_release_order_is_taken_away() {
    let Some(output) = run("thread_sanitizer.cc", "thread_sanitizer_broken", &["-DBREAK_RELEASE"]) else {
        return;
    };
    assert!(String::from_utf8_lossy(&output.stderr).contains(RACE), "no race was found");
}

#[test]
fn threads_that_ask_and_threads_that_serve_queues_do_not_race() {
    let Some(output) = run("queue_sanitizer.cc", "queue_sanitizer", &[]) else { return };
    let (log, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{log}");
    assert!(output.status.success() && !errors.contains(RACE), "{errors}");
}

#[test]
fn sanitizer_finds_the_race_in_queues_when_release_order_is_taken_away() {
    let Some(output) = run("queue_sanitizer.cc", "queue_sanitizer_broken", &["-DBREAK_RELEASE"]) else {
        return;
    };
    assert!(String::from_utf8_lossy(&output.stderr).contains(RACE), "no race was found");
}
