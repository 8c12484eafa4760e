//! How far it is, on a terminal, and whether Ctrl-C was pressed.

use std::io::IsTerminal;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use gpuvm_engine::CancelHandle;
use gpuvm_loaders::Progress;
use indicatif::{ProgressBar, ProgressStyle};

use crate::{FAILED, output};

/// Ctrl-C: the first asks whatever is going on to stop, the second ends the program.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    pressed: Arc<AtomicBool>,
    engine: Arc<Mutex<Option<CancelHandle>>>,
}

impl Interrupt {
    /// Listens from now on.
    pub fn listen() -> Result<Self> {
        let interrupt = Self::default();
        let on_press = interrupt.clone();
        ctrlc::set_handler(move || on_press.press()).context("cannot listen for Ctrl-C")?;
        Ok(interrupt)
    }

    fn press(&self) {
        if self.pressed.swap(true, Relaxed) {
            output::discard_drafts();
            process::exit(FAILED.into());
        }
        if let Some(engine) = &*self.engine.lock().unwrap_or_else(PoisonError::into_inner) {
            engine.cancel();
        }
    }

    /// Runs of this engine are stopped, too.
    pub fn stops(&self, engine: CancelHandle) {
        let mut slot = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        if self.pressed.load(Relaxed) {
            engine.cancel();
        }
        *slot = Some(engine);
    }

    /// An error once Ctrl-C was pressed: asked between steps that do not ask themselves.
    pub fn check(&self) -> Result<()> {
        if self.pressed.load(Relaxed) {
            bail!("interrupted");
        }
        Ok(())
    }
}

/// A bar on stderr.
#[derive(Debug)]
pub struct Watch {
    bar: ProgressBar,
    pub interrupt: Interrupt,
}

impl Watch {
    /// A bar if stderr is a terminal and `visible`.
    pub fn new(visible: bool, interrupt: Interrupt) -> Self {
        let bar = match visible && std::io::stderr().is_terminal() {
            true => ProgressBar::new(0),
            false => ProgressBar::hidden(),
        };
        if let Ok(style) =
            ProgressStyle::with_template("{msg:12} {wide_bar} {percent:>3}% {elapsed:>4}, {eta} left")
        {
            bar.set_style(style);
        }
        Self { bar, interrupt }
    }
}

impl Progress for Watch {
    fn begin(&self, phase: &'static str, total: u64) {
        self.bar.set_message(phase);
        self.bar.set_length(total);
        self.bar.reset();
    }

    fn advance(&self, by: u64) {
        self.bar.inc(by);
    }

    fn end(&self) {
        self.bar.finish_and_clear();
    }

    fn is_cancelled(&self) -> bool {
        self.interrupt.pressed.load(Relaxed)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
