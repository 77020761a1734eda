//! One direction of one connection.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::tcp::{ReadHalf, WriteHalf},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::{self, Instant},
};

use crate::link::{Link, Way};

/// What one direction of a connection may hold before its sender has to wait.
const IN_FLIGHT_MAX_BYTES: usize = 4 * 1024 * 1024;
/// The most that is read at once.
const READ_MAX_BYTES: usize = 64 * 1024;
/// What a piece counts for at least, so that many tiny ones are bounded too.
const PIECE_MIN_BYTES: usize = 256;

/// Something under way.
struct Piece {
    due: Instant,
    content: Content,
    _room: Option<OwnedSemaphorePermit>,
}

enum Content {
    Bytes(Box<[u8]>),
    /// The sender closed its direction.
    End,
    /// The sender's connection broke.
    Broken(io::Error),
}

/// Carries one direction until its sender ends it. An error means that the connection is to be
/// reset; it has travelled the link like everything else.
pub(crate) async fn carry(
    from: ReadHalf<'_>,
    to: WriteHalf<'_>,
    link: Link,
    way: Way,
    delivered_bytes: &AtomicU64,
) -> io::Result<()> {
    // Unbounded in pieces, bounded in bytes by the permits that the pieces hold.
    let (pieces, arriving) = mpsc::unbounded_channel();
    let ((), delivered) = tokio::join!(
        send(from, link.clone(), pieces),
        deliver(to, link, way, arriving, delivered_bytes)
    );
    delivered
}

async fn send(mut from: ReadHalf<'_>, link: Link, pieces: mpsc::UnboundedSender<Piece>) {
    let room = Arc::new(Semaphore::new(IN_FLIGHT_MAX_BYTES));
    let mut buffer = vec![0; READ_MAX_BYTES].into_boxed_slice();
    loop {
        // The receiver is gone once it failed to deliver: nothing more is to be read then.
        let read = tokio::select! {
            read = from.read(&mut buffer) => read,
            () = pieces.closed() => return,
        };
        let due = Instant::now() + link.delay();
        let (content, counts_bytes) = match read {
            Ok(0) => (Content::End, 0),
            Ok(length) => (
                Content::Bytes(buffer[..length].into()),
                length.max(PIECE_MIN_BYTES),
            ),
            Err(error) => (Content::Broken(error), 0),
        };
        let last = !matches!(content, Content::Bytes(_));
        let permit = tokio::select! {
            permit = room.clone().acquire_many_owned(counts_bytes as u32) => permit.ok(),
            () = pieces.closed() => return,
        };
        let piece = Piece {
            due,
            content,
            _room: permit,
        };
        if pieces.send(piece).is_err() || last {
            return;
        }
    }
}

async fn deliver(
    mut to: WriteHalf<'_>,
    mut link: Link,
    way: Way,
    mut pieces: mpsc::UnboundedReceiver<Piece>,
    delivered_bytes: &AtomicU64,
) -> io::Result<()> {
    while let Some(piece) = pieces.recv().await {
        passes(&mut link, way, piece.due).await;
        let written = match piece.content {
            Content::Bytes(bytes) => to.write_all(&bytes).await.inspect(|()| {
                delivered_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            }),
            Content::End => return to.shutdown().await,
            Content::Broken(error) => return Err(error),
        };
        if let Err(error) = written {
            // The far end's reset has to travel back before the near end can know.
            let due = Instant::now() + link.delay();
            passes(&mut link, way.back(), due).await;
            return Err(error);
        }
    }
    Ok(())
}

/// Waits until something that is due then can arrive.
async fn passes(link: &mut Link, way: Way, due: Instant) {
    loop {
        link.open(way).await;
        time::sleep_until(due).await;
        if link.passes(way) {
            return;
        }
    }
}
