//! The program, run in a folder of its own.
#![allow(dead_code, reason = "each test program uses its part")]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A folder of its own for a test.
pub struct Folder(TempDir);

pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    /// A folder with a graph in `graph.mtx`.
    pub fn with(graph: &str) -> Self {
        let folder = Self::new();
        fs::write(folder.path("graph.mtx"), graph).expect("written");
        folder
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub fn command(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpuvm-graph"));
        command
            .current_dir(self.0.path())
            .args(line.split_whitespace())
            .env("LC_ALL", "C")
            .env("GPUVM_CACHE_DIR", "cache") // never the user's own
            .stdin(Stdio::null());
        command
    }

    /// Runs the program in this folder.
    pub fn run(&self, line: &str) -> Ended {
        let output = self.command(line).output().expect("the program starts");
        Ended {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }

    /// Runs the program, which must succeed without a word on stderr.
    pub fn done(&self, line: &str) -> String {
        let ended = self.run(line);
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{line}\n{}", ended.stdout);
        ended.stdout
    }

    /// Runs the program, which must fail with exit code 2 and nothing on stdout, and returns its message.
    pub fn refused(&self, line: &str) -> String {
        let ended = self.run(line);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{line}\n{}", ended.stderr);
        assert!(ended.stderr.starts_with("error: "), "{line}: {}", ended.stderr);
        ended.stderr
    }

    pub fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.done(&format!("{line} --json"))).expect("JSON")
    }

    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).expect("a folder");
        let mut names: Vec<_> = entries
            .map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

#[track_caller]
pub fn assert_mentions(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "\"{word}\" is not in:\n{text}");
    }
}
