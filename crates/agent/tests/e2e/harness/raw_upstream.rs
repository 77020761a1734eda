//! A service that is a script on a TCP connection.

use std::{
    io::{self, Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

/// One accepted connection, as its script sees it.
pub(crate) struct RawConnection {
    stream: TcpStream,
    /// Read, not yet taken.
    buffer: Vec<u8>,
}

/// A request as it stood on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RawRequest {
    /// Up to and with the empty line.
    pub(crate) head: String,
    /// As framed: a chunked body with its chunk sizes.
    pub(crate) body: Vec<u8>,
}

impl RawRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (field, value) = line.split_once(':')?;
            field.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }
}

impl RawConnection {
    /// The next request, read to its end; none when the connection ended before.
    pub(crate) fn request(&mut self) -> Option<RawRequest> {
        let head = self.take_through(b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(&head).into_owned();
        let mut request = RawRequest {
            head,
            body: Vec::new(),
        };
        let chunked = request
            .header("transfer-encoding")
            .is_some_and(|value| value.eq_ignore_ascii_case("chunked"));
        if chunked {
            request.body = self.take_through(b"0\r\n\r\n")?;
        } else if let Some(length) = request.header("content-length") {
            let length: usize = length.parse().ok()?;
            while self.buffer.len() < length {
                self.read_more()?;
            }
            request.body = self.buffer.drain(..length).collect();
        }
        Some(request)
    }

    /// Answers with a body of known length; the connection stays open.
    pub(crate) fn answer(&mut self, status: u16, body: &str) -> Option<()> {
        let head = format!(
            "HTTP/1.1 {status} Scripted\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        self.write(head.as_bytes())?;
        self.write(body.as_bytes())
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Option<()> {
        self.stream.write_all(bytes).ok()
    }

    fn take_through(&mut self, end: &[u8]) -> Option<Vec<u8>> {
        loop {
            let found = self.buffer.windows(end.len()).position(|window| window == end);
            if let Some(start) = found {
                return Some(self.buffer.drain(..start + end.len()).collect());
            }
            self.read_more()?;
        }
    }

    fn read_more(&mut self) -> Option<()> {
        let mut chunk = [0; 16 * 1024];
        let length = self.stream.read(&mut chunk).ok().filter(|length| *length > 0)?;
        self.buffer.extend_from_slice(&chunk[..length]);
        Some(())
    }
}

#[derive(Default)]
struct State {
    connections: AtomicUsize,
    closed: AtomicUsize,
    executed: AtomicUsize,
    stopped: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
}

/// Runs a script per connection; the connection closes when its script returns.
pub(crate) struct RawUpstream {
    addr: SocketAddr,
    state: Arc<State>,
}

/// What a script may tell its upstream.
#[derive(Clone)]
pub(crate) struct Counter(Arc<State>);

impl Counter {
    /// Counts one execution.
    pub(crate) fn executed(&self) {
        self.0.executed.fetch_add(1, Ordering::SeqCst);
    }
}

impl RawUpstream {
    pub(crate) fn start<S>(script: S) -> Self
    where
        S: Fn(&mut RawConnection, &Counter) -> Option<()> + Send + Sync + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let state = Arc::new(State::default());
        let shared = state.clone();
        thread::spawn(move || accept(&listener, &shared, &Arc::new(script)));
        Self { addr, state }
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// How often a script said that it executed.
    pub(crate) fn executed(&self) -> usize {
        self.state.executed.load(Ordering::SeqCst)
    }

    /// How many connections were accepted.
    pub(crate) fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }

    /// How many connections were closed at the end of their script.
    pub(crate) fn closed(&self) -> usize {
        self.state.closed.load(Ordering::SeqCst)
    }
}

fn accept<S>(listener: &TcpListener, state: &Arc<State>, script: &Arc<S>)
where
    S: Fn(&mut RawConnection, &Counter) -> Option<()> + Send + Sync + 'static,
{
    for stream in listener.incoming() {
        if state.stopped.load(Ordering::SeqCst) {
            return;
        }
        let Ok(stream) = stream else { continue };
        let Ok(mut connection) = state.open(stream) else {
            continue;
        };
        let (state, script) = (state.clone(), script.clone());
        thread::spawn(move || {
            script(&mut connection, &Counter(state.clone()));
            let _ = connection.stream.shutdown(Shutdown::Both);
            state.closed.fetch_add(1, Ordering::SeqCst);
        });
    }
}

impl State {
    fn open(&self, stream: TcpStream) -> io::Result<RawConnection> {
        let _ = stream.set_nodelay(true);
        self.open.lock().unwrap().push(stream.try_clone()?);
        self.connections.fetch_add(1, Ordering::SeqCst);
        Ok(RawConnection {
            stream,
            buffer: Vec::new(),
        })
    }
}

impl Drop for RawUpstream {
    fn drop(&mut self) {
        self.state.stopped.store(true, Ordering::SeqCst);
        // Wakes the one that accepts.
        let _ = TcpStream::connect(self.addr);
        for stream in self.state.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}
