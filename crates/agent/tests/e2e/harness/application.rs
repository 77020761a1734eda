//! The example application, in a thread of the test's process.

use std::{net::SocketAddr, path::PathBuf, thread};

use cheops_example::{Carry, Config, Service};
use tokio::{net::TcpListener, runtime, sync::oneshot, task::JoinSet};

use super::port;

/// One instance per site, all on one thread; it ends with its handle.
pub(crate) struct Application {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

/// One service to be run.
pub(crate) struct Instance {
    config: Config,
    listener: std::net::TcpListener,
}

impl Instance {
    /// `number` counts sites from 1.
    pub(crate) fn a(number: usize, b_addr: SocketAddr, carry: &Carry, data_dir: PathBuf) -> Self {
        let carry = carry.clone();
        Self::new(number, Service::A { b_addr, carry }, data_dir)
    }

    pub(crate) fn b(number: usize, data_dir: PathBuf) -> Self {
        let string = format!("from site {number}");
        Self::new(number, Service::B { string }, data_dir)
    }

    /// Callers need one of the tokens in a file.
    pub(crate) fn token_file(mut self, path: PathBuf) -> Self {
        self.config.token_file = Some(path);
        self
    }

    fn new(number: usize, service: Service, data_dir: PathBuf) -> Self {
        let listener = port::listen();
        let config = Config {
            service,
            id_base: 1000 * number as u64 + 1,
            data_dir,
            token_file: None,
        };
        Self { config, listener }
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }
}

impl Application {
    pub(crate) fn start(instances: Vec<Instance>) -> Self {
        let (stop, stopped) = oneshot::channel();
        let thread = thread::spawn(move || {
            let runtime = runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let mut serving = JoinSet::new();
                for Instance { config, listener } in instances {
                    let listener = TcpListener::from_std(listener).unwrap();
                    serving.spawn(cheops_example::serve(config, listener, std::future::pending()));
                }
                let _ = stopped.await;
            });
        });
        Self {
            stop: Some(stop),
            thread: Some(thread),
        }
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
