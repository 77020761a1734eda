//! One connection that sends one request after the other and times each.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use socket2::{Domain, Socket, Type};

const SILENCE_MAX: Duration = Duration::from_secs(30);

pub(super) struct Client {
    address: SocketAddr,
    stream: BufReader<TcpStream>,
}

pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) receipt: Option<String>,
    pub(super) body: Vec<u8>,
    pub(super) took: Duration,
}

impl Client {
    pub(super) fn connect(address: SocketAddr) -> Result<Self> {
        Self::connect_from(Ipv4Addr::UNSPECIFIED, address)
    }

    /// From an address of this machine.
    pub(super) fn connect_from(from: Ipv4Addr, address: SocketAddr) -> Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        if !from.is_unspecified() {
            socket.bind(&SocketAddr::new(from.into(), 0).into())?;
        }
        socket
            .connect(&address.into())
            .with_context(|| format!("nobody answers at {address}"))?;
        let stream = TcpStream::from(socket);
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        Ok(Self {
            address,
            stream: BufReader::new(stream),
        })
    }

    /// Sends a request with a JSON body and reads the answer, whose length must be told.
    pub(super) fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Result<Answer> {
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n", self.address);
        for (name, value) in headers {
            head.extend([name, ": ", value, "\r\n"]);
        }
        let length = body.len().to_string();
        head.extend([
            "Content-Type: application/json\r\nContent-Length: ",
            &length,
            "\r\n\r\n",
            body,
        ]);
        let start = Instant::now();
        self.stream.get_mut().write_all(head.as_bytes())?;
        let answer = self.read()?;
        Ok(Answer {
            took: start.elapsed(),
            ..answer
        })
    }

    fn read(&mut self) -> Result<Answer> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.stream.read_line(&mut head)? == 0 {
                bail!("the answer ended in its head: {head}");
            }
        }
        let status = head.split_whitespace().nth(1).and_then(|word| word.parse().ok());
        let status = status.with_context(|| format!("no status in `{head}`"))?;
        let field = |wanted: &str| {
            head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case(wanted).then(|| value.trim())
            })
        };
        let length = field("content-length").and_then(|length| length.parse::<usize>().ok());
        let length = match length {
            Some(length) => length,
            None if status == 204 => 0,
            None => bail!("the answer does not tell its length:\n{head}"),
        };
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        Ok(Answer {
            status,
            receipt: field("cheops-receipt").map(str::to_owned),
            body,
            took: Duration::ZERO,
        })
    }
}
