//! Makes every CPU switch at the start and at the end, so that its state is known over the whole recording.

use std::sync::mpsc::{Receiver, Sender, channel};

use super::RecordError;
use super::cpus::{Worker, online, visit};

/// A thread that waits to be sent round the CPUs.
#[derive(Debug)]
pub struct Visitor {
    worker: Worker<()>,
    orders: Sender<()>,
    done: Receiver<()>,
}

impl Visitor {
    /// Starts the thread, so that its id is known before anything is recorded.
    pub fn start(cpus: &[u32]) -> Result<Self, RecordError> {
        let (orders, ordered) = channel();
        let (report, done) = channel();
        let cpus = cpus.to_vec();
        let everywhere = online()?;
        let worker = Worker::start("ttwu-visitor", &everywhere, move || {
            while ordered.recv().is_ok() {
                visit(&cpus);
                if report.send(()).is_err() {
                    break;
                }
            }
        })?;
        Ok(Self {
            worker,
            orders,
            done,
        })
    }

    pub fn tid(&self) -> i32 {
        self.worker.tid()
    }

    /// Returns when it has been on each CPU.
    pub fn round(&self) {
        if self.orders.send(()).is_ok() {
            // A thread that is gone has nothing more to tell.
            let _ = self.done.recv();
        }
    }

    pub fn end(self) {
        drop(self.orders);
        self.worker.join();
    }
}
