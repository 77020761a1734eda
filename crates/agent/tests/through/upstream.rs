//! What stands where the agent would be: it takes connections one by one and says what a test wants.

use std::{
    io::{BufRead as _, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    thread::{self, JoinHandle},
};

pub(crate) struct Upstream {
    listener: TcpListener,
}

/// The head of a message, in lower case, and its body.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Upstream {
    pub(crate) fn bind() -> Self {
        Self {
            listener: TcpListener::bind("127.0.0.1:0").unwrap(),
        }
    }

    pub(crate) fn address(&self) -> String {
        self.listener.local_addr().unwrap().to_string()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// Serves one connection.
    pub(crate) fn once<T: Send + 'static>(
        &self,
        serve: impl FnOnce(&mut BufReader<TcpStream>) -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let listener = self.listener.try_clone().unwrap();
        thread::spawn(move || serve(&mut BufReader::new(listener.accept().unwrap().0)))
    }

    /// Answers one request with these bytes.
    pub(crate) fn answer(&self, bytes: &'static str) -> JoinHandle<Message> {
        self.once(move |stream| {
            let request = read(stream);
            stream.get_mut().write_all(bytes.as_bytes()).unwrap();
            request
        })
    }
}

/// Reads one message, by its `Content-Length`.
pub(crate) fn read(stream: &mut BufReader<impl Read>) -> Message {
    let head = read_head(stream);
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    Message {
        head,
        body: String::from_utf8(body).unwrap(),
    }
}

pub(crate) fn read_head(stream: &mut BufReader<impl Read>) -> String {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(stream.read_line(&mut head).unwrap(), 0, "ended in {head:?}");
    }
    head.to_lowercase().replace("\r\n", "\n")
}

/// Sends a request as it is and gives back the connection, from which the answer can be read.
pub(crate) fn send(address: &str, request: &str) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    BufReader::new(stream)
}
