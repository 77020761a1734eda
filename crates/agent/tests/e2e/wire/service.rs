//! Services of the application that are scripts on a connection.

use std::{
    io::{Cursor, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Instant,
};

use super::{DEADLINE, Message, Wire, ok};

/// What a service got on one connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    pub(crate) bytes: Vec<u8>,
    /// Whether the agent, or the script, closed it.
    pub(crate) ended: bool,
}

impl Seen {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

#[derive(Default)]
struct Log {
    connections: Mutex<Vec<Seen>>,
    changed: Condvar,
}

impl Log {
    fn lock(&self) -> MutexGuard<'_, Vec<Seen>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Seen>)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }
}

/// Where one connection's bytes are noted.
pub(super) struct Record {
    log: Arc<Log>,
    index: usize,
}

impl Record {
    fn begin(log: &Arc<Log>) -> Self {
        let mut index = 0;
        log.change(|seen| {
            index = seen.len();
            seen.push(Seen::default());
        });
        let log = log.clone();
        Self { log, index }
    }

    pub(super) fn note(&self, bytes: &[u8]) {
        self.log
            .change(|seen| seen[self.index].bytes.extend_from_slice(bytes));
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.log.change(|seen| seen[self.index].ended = true);
    }
}

/// A service of the application: every connection runs a script on a thread of its own.
pub(crate) struct Service {
    addr: SocketAddr,
    log: Arc<Log>,
}

impl Service {
    pub(crate) fn start(script: impl Fn(&mut Wire) + Send + Sync + 'static) -> Self {
        Self::start_over(|stream| stream, script)
    }

    /// Like [`Service::start`], with something between TCP and the script.
    pub(crate) fn start_over<S: Read + Write>(
        layer: impl Fn(TcpStream) -> S + Send + Sync + 'static,
        script: impl Fn(&mut Wire<S>) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let log = Arc::new(Log::default());
        let run = Arc::new((layer, script));
        let logged = log.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                let (record, run) = (Record::begin(&logged), run.clone());
                // A kept connection may be idle for long: reads have no time limit.
                let _ = stream.set_nodelay(true);
                thread::spawn(move || {
                    let (layer, script) = &*run;
                    let mut wire = Wire::over(layer(stream));
                    wire.record = Some(record);
                    script(&mut wire);
                });
            }
        });
        Self { addr, log }
    }

    /// Answers every whole request with what `answer` makes of it.
    pub(crate) fn answering(answer: impl Fn(&Message) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::start(move |wire| {
            while let Some(request) = wire.request() {
                if wire.try_send(answer(&request)).is_err() {
                    return;
                }
            }
            // A request that was cut short: the rest is only remembered.
            wire.rest();
        })
    }

    /// Answers every whole request with 200 and `text`.
    pub(crate) fn saying(text: &'static str) -> Self {
        Self::answering(move |_| ok(text))
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Every connection so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.log.lock().clone()
    }

    /// The bytes of all connections, one after the other.
    pub(crate) fn text(&self) -> String {
        self.seen().iter().map(Seen::text).collect()
    }

    /// Every request so far, by what stands on the wire alone; there is nothing but whole ones.
    #[track_caller]
    pub(crate) fn requests(&self) -> Vec<Message> {
        let mut requests = Vec::new();
        for connection in self.seen() {
            let mut wire = Wire::over(Cursor::new(connection.bytes.clone()));
            while let Some(request) = wire.request() {
                requests.push(request);
            }
            assert_eq!(wire.rest(), b"", "a part of a request: {connection:?}");
        }
        requests
    }

    /// The only request with this target.
    #[track_caller]
    pub(crate) fn request(&self, target: &str) -> Message {
        let mut requests = self.requests();
        requests.retain(|request| request.line.split(' ').nth(1) == Some(target));
        assert_eq!(requests.len(), 1, "not one request for {target}: {requests:?}");
        requests.remove(0)
    }

    /// Waits until what the service got satisfies `condition`.
    #[track_caller]
    pub(crate) fn wait(&self, what: &str, condition: impl Fn(&[Seen]) -> bool) -> Vec<Seen> {
        let deadline = Instant::now() + DEADLINE;
        let mut seen = self.log.lock();
        while !condition(&seen) {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{what} did not happen: {seen:?}");
            seen = self
                .log
                .changed
                .wait_timeout(seen, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        seen.clone()
    }
}
