//! Queues that host threads serve, one a NIC.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::Transport;
use super::nic::Nic;
use super::queues::{Geometry, Keys, Memory, Queues};
use super::serve::Server;
use super::settings::TransportConfig;
use super::stats::NicCounts;
use crate::device::{Device, StreamWriter};
use crate::error::Error;
use crate::memory::CancelHandle;

/// A transport whose NICs are driven by host threads. They sleep between runs.
#[derive(Debug)]
pub(crate) struct ServedQueues {
    // Threads end before the queues go.
    threads: Vec<NicThread>,
    queues: Queues,
    stop: Arc<AtomicBool>,
    /// What the doorbells said when a run began.
    doorbells: Vec<u64>,
}

#[derive(Debug)]
struct NicThread {
    /// Gone when the thread is to end.
    commands: Option<Sender<Command>>,
    reports: Mutex<Receiver<Result<NicCounts, Error>>>,
    handle: Option<JoinHandle<()>>,
}

#[derive(Debug)]
enum Command {
    /// Until `stop`; a thread that fails stops the run, which would wait for it in vain.
    Serve(CancelHandle),
    Reset,
}

impl ServedQueues {
    /// Queues for requests about `memory`, served by `nics`. On a GPU each NIC has the writer whose stream its data goes
    /// through, so that completions come behind the data; none on the CPU device.
    pub fn new(
        device: &Device,
        config: &TransportConfig,
        memory: &Memory,
        nics: Vec<(Box<dyn Nic>, Option<StreamWriter>)>,
    ) -> Result<Self, Error> {
        let mut nics = nics;
        let mut keys = Vec::new();
        for (nic, _) in &mut nics {
            let remote: Result<Vec<u32>, Error> =
                memory.arrays.iter().map(|&(_, array)| nic.register(array)).collect();
            keys.push(Keys { local: nic.register(memory.frames)?, remote: remote? });
        }
        let geometry = Geometry::new(config, nics.len() as u32);
        let queues = Queues::new(device, geometry, config.fault_batch, memory, &keys, false)?;
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for (number, (nic, writer)) in (0..).zip(nics) {
            let name = nic.name();
            let server = Server::new(nic, queues.nic_end(device, number, writer)?);
            threads.push(NicThread::start(name, server, &stop)?);
        }
        let doorbells = vec![0; threads.len()];
        Ok(Self { threads, queues, stop, doorbells })
    }

    fn command(&self, command: impl Fn() -> Command) {
        for thread in &self.threads {
            // A thread that is gone leaves no report, and that is an error later.
            if let Some(commands) = &thread.commands {
                let _ = commands.send(command());
            }
        }
    }
}

impl Transport for ServedQueues {
    fn queues_address(&self) -> u64 {
        self.queues.address()
    }

    fn begin(&mut self, run: &CancelHandle) -> Result<(), Error> {
        self.stop.store(false, Ordering::Release);
        self.command(|| Command::Serve(run.clone()));
        Ok(())
    }

    fn end(&mut self, succeeded: bool) -> Result<Vec<NicCounts>, Error> {
        self.stop.store(true, Ordering::Release);
        let reports: Vec<_> = self.threads.iter().map(NicThread::report).collect();
        let mut counts = reports.into_iter().collect::<Result<Vec<_>, Error>>()?;
        let rung = self.queues.doorbells()?;
        for ((counts, rung), before) in counts.iter_mut().zip(&rung).zip(&self.doorbells) {
            counts.doorbells = rung - before;
        }
        self.doorbells = rung;
        if !succeeded {
            self.queues.reset()?;
            self.doorbells.fill(0);
            self.command(|| Command::Reset);
        }
        Ok(counts)
    }
}

impl NicThread {
    fn start(name: String, mut server: Server, stop: &Arc<AtomicBool>) -> Result<Self, Error> {
        let (commands, received) = channel();
        let (report, reports) = channel();
        let stop = Arc::clone(stop);
        let work = move || {
            for command in received {
                match command {
                    Command::Serve(run) => {
                        let outcome = server.serve(&stop);
                        if outcome.is_err() {
                            run.cancel();
                        }
                        if report.send(outcome).is_err() {
                            return;
                        }
                    }
                    Command::Reset => server.reset(),
                }
            }
        };
        let handle = std::thread::Builder::new().name(name).spawn(work).map_err(Error::StartNicThread)?;
        Ok(Self { commands: Some(commands), reports: Mutex::new(reports), handle: Some(handle) })
    }

    fn report(&self) -> Result<NicCounts, Error> {
        let reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        reports.recv().unwrap_or(Err(Error::NicThreadGone))
    }
}

impl Drop for ServedQueues {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        for thread in &mut self.threads {
            thread.commands = None;
        }
        for thread in &mut self.threads {
            if let Some(handle) = thread.handle.take() {
                // A panic was reported on stderr by the thread itself.
                let _ = handle.join();
            }
        }
    }
}
