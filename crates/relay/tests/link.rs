//! Links between real sockets: delay, throughput, cuts, refusals and ends.

use std::{
    io::{self, ErrorKind},
    net::{Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use cheops_relay::Relay;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};

/// Long enough for anything that is to happen, on any machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long something that must not happen is waited for.
const SILENCE: Duration = Duration::from_millis(150);

fn any_port() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

async fn target() -> (TcpListener, Relay) {
    let listener = TcpListener::bind(any_port()).await.unwrap();
    let relay = Relay::bind(any_port(), listener.local_addr().unwrap()).unwrap();
    (listener, relay)
}

/// Both ends of one connection through the link.
async fn connect(listener: &TcpListener, relay: &Relay) -> (TcpStream, TcpStream) {
    let near = TcpStream::connect(relay.addr()).await.unwrap();
    let (far, _) = within(listener.accept()).await.unwrap();
    (near, far)
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.expect("took too long")
}

async fn expect(stream: &mut TcpStream, expected: &[u8]) {
    let mut seen = vec![0; expected.len()];
    within(stream.read_exact(&mut seen)).await.unwrap();
    assert_eq!(seen, expected);
}

async fn expect_silence(stream: &mut TcpStream) {
    let mut byte = [0];
    let read = timeout(SILENCE, stream.read(&mut byte)).await;
    assert!(read.is_err(), "something arrived: {read:?}");
}

async fn expect_reset(stream: &mut TcpStream) {
    let mut byte = [0];
    let read = within(stream.read(&mut byte)).await;
    assert!(
        matches!(&read, Err(error) if error.kind() == ErrorKind::ConnectionReset),
        "{read:?}"
    );
}

#[tokio::test]
async fn carries_both_ways_and_counts() -> io::Result<()> {
    let (listener, relay) = target().await;
    let (mut near, mut far) = connect(&listener, &relay).await;
    near.write_all(b"ping").await?;
    expect(&mut far, b"ping").await;
    far.write_all(b"answer").await?;
    expect(&mut near, b"answer").await;
    assert_eq!(relay.target(), listener.local_addr()?);
    // Bytes are counted right after they were handed to the socket.
    within(async {
        while relay.traffic().from_target_bytes < 6 || relay.traffic().to_target_bytes < 4 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(relay.traffic().to_target_bytes, 4);
    assert_eq!(relay.traffic().from_target_bytes, 6);
    Ok(())
}

#[tokio::test]
async fn a_round_trip_takes_the_delay_twice() -> io::Result<()> {
    let (listener, relay) = target().await;
    let (mut near, mut far) = connect(&listener, &relay).await;
    let one_way = Duration::from_millis(40);
    relay.set_delay(one_way);
    let start = Instant::now();
    near.write_all(b"ping").await?;
    expect(&mut far, b"ping").await;
    assert!(start.elapsed() >= one_way);
    far.write_all(b"pong").await?;
    expect(&mut near, b"pong").await;
    assert!(start.elapsed() >= one_way * 2);
    Ok(())
}

#[tokio::test]
async fn a_new_connection_costs_a_round_trip_more() -> io::Result<()> {
    let (listener, relay) = target().await;
    let one_way = Duration::from_millis(40);
    relay.set_delay(one_way);
    let start = Instant::now();
    let (mut near, mut far) = connect(&listener, &relay).await;
    assert!(start.elapsed() >= one_way * 2);
    near.write_all(b"ping").await?;
    expect(&mut far, b"ping").await;
    assert!(start.elapsed() >= one_way * 3);
    Ok(())
}

#[tokio::test]
async fn delay_does_not_limit_throughput() -> io::Result<()> {
    const PIECES: usize = 200;
    const PIECE_BYTES: usize = 64 * 1024;
    let (listener, relay) = target().await;
    let (mut near, mut far) = connect(&listener, &relay).await;
    let one_way = Duration::from_millis(50);
    relay.set_delay(one_way);
    let start = Instant::now();
    let sending = tokio::spawn(async move {
        for piece in 0..PIECES {
            near.write_all(&vec![piece as u8; PIECE_BYTES]).await?;
        }
        near.shutdown().await?;
        io::Result::Ok(near)
    });
    let mut received = Vec::new();
    within(far.read_to_end(&mut received)).await?;
    let _near = within(sending).await??;
    assert!(start.elapsed() >= one_way);
    // One piece per delay would take two hundred of them.
    assert!(start.elapsed() < one_way * PIECES as u32 / 4);
    assert_eq!(received.len(), PIECES * PIECE_BYTES);
    let in_order = received
        .chunks(PIECE_BYTES)
        .enumerate()
        .all(|(piece, bytes)| bytes.iter().all(|byte| *byte == piece as u8));
    assert!(in_order);
    Ok(())
}

#[tokio::test]
async fn a_cut_swallows_and_healing_delivers() -> io::Result<()> {
    let (listener, relay) = target().await;
    let (mut near, mut far) = connect(&listener, &relay).await;
    near.write_all(b"before").await?;
    expect(&mut far, b"before").await;

    relay.cut();
    near.write_all(b"during").await?;
    far.write_all(b"back").await?;
    expect_silence(&mut far).await;
    expect_silence(&mut near).await;
    let mut new = TcpStream::connect(relay.addr()).await?;
    new.write_all(b"new").await?;
    assert!(timeout(SILENCE, listener.accept()).await.is_err());

    relay.heal();
    expect(&mut far, b"during").await;
    expect(&mut near, b"back").await;
    let (mut new_far, _) = within(listener.accept()).await?;
    expect(&mut new_far, b"new").await;
    Ok(())
}

#[tokio::test]
async fn an_end_does_not_pass_a_cut() -> io::Result<()> {
    let (listener, relay) = target().await;
    let (near, mut far) = connect(&listener, &relay).await;
    relay.cut();
    drop(near);
    expect_silence(&mut far).await;
    relay.heal();
    let mut rest = Vec::new();
    assert_eq!(within(far.read_to_end(&mut rest)).await?, 0);
    Ok(())
}

#[tokio::test]
async fn a_sender_waits_when_too_much_is_in_flight() -> io::Result<()> {
    static PIECE: [u8; 256 * 1024] = [7; 256 * 1024];
    let (listener, relay) = target().await;
    let (mut near, mut far) = connect(&listener, &relay).await;
    relay.cut();
    // The kernel's buffers hold a few MiB more than the link does.
    let mut accepted_bytes = 0;
    while let Ok(written) = timeout(SILENCE, near.write(&PIECE)).await {
        accepted_bytes += written?;
        assert!(accepted_bytes < 64 * 1024 * 1024, "the link holds without bound");
    }
    relay.heal();
    near.shutdown().await?;
    let mut received = Vec::new();
    within(far.read_to_end(&mut received)).await?;
    assert_eq!(received.len(), accepted_bytes);
    Ok(())
}

#[tokio::test]
async fn half_of_a_connection_can_end() -> io::Result<()> {
    let (listener, relay) = target().await;
    let (mut near, mut far) = connect(&listener, &relay).await;
    near.write_all(b"question").await?;
    near.shutdown().await?;
    let mut question = Vec::new();
    within(far.read_to_end(&mut question)).await?;
    assert_eq!(question, b"question");
    far.write_all(b"answer").await?;
    drop(far);
    let mut answer = Vec::new();
    within(near.read_to_end(&mut answer)).await?;
    assert_eq!(answer, b"answer");
    Ok(())
}

#[tokio::test]
async fn a_reset_is_passed_on() {
    let (listener, relay) = target().await;
    let (mut near, far) = connect(&listener, &relay).await;
    far.set_zero_linger().unwrap();
    drop(far);
    expect_reset(&mut near).await;
}

#[tokio::test]
async fn refuses_old_and_new_connections() -> io::Result<()> {
    let (listener, relay) = target().await;
    let (mut near, mut far) = connect(&listener, &relay).await;
    relay.refuse();
    expect_reset(&mut near).await;
    expect_reset(&mut far).await;
    // The reset may reach the new connection while it is still being made.
    if let Ok(mut new) = TcpStream::connect(relay.addr()).await {
        expect_reset(&mut new).await;
    }
    relay.heal();
    let (mut near, mut far) = connect(&listener, &relay).await;
    near.write_all(b"again").await?;
    expect(&mut far, b"again").await;
    Ok(())
}

#[tokio::test]
async fn a_refusal_that_heals_at_once_still_resets() {
    let (listener, relay) = target().await;
    let (mut near, _far) = connect(&listener, &relay).await;
    relay.refuse();
    relay.heal();
    expect_reset(&mut near).await;
}

#[tokio::test]
async fn a_target_that_does_not_listen_is_a_reset() {
    let unused = std::net::TcpListener::bind(any_port()).unwrap();
    let addr = unused.local_addr().unwrap();
    drop(unused);
    let relay = Relay::bind(any_port(), addr).unwrap();
    if let Ok(mut near) = TcpStream::connect(relay.addr()).await {
        expect_reset(&mut near).await;
    }
}

#[tokio::test]
async fn ends_with_its_last_handle() {
    let (listener, relay) = target().await;
    let (mut near, mut far) = connect(&listener, &relay).await;
    let other = relay.clone();
    drop(relay);
    near.write_all(b"still").await.unwrap();
    expect(&mut far, b"still").await;
    drop(other);
    let mut rest = Vec::new();
    // Whether as an end or as a reset, the connection is over.
    let _ = within(near.read_to_end(&mut rest)).await;
    assert!(rest.is_empty());
}

#[tokio::test]
async fn a_cut_of_one_way_lets_the_other_pass() -> io::Result<()> {
    let (listener, relay) = target().await;
    let (mut near, mut far) = connect(&listener, &relay).await;

    relay.cut_to_target();
    near.write_all(b"out").await?;
    far.write_all(b"in").await?;
    expect(&mut near, b"in").await;
    expect_silence(&mut far).await;
    // A handshake needs both ways.
    let _new = TcpStream::connect(relay.addr()).await?;
    assert!(timeout(SILENCE, listener.accept()).await.is_err());

    relay.cut_from_target();
    expect(&mut far, b"out").await;
    far.write_all(b"late").await?;
    expect_silence(&mut near).await;

    relay.heal();
    expect(&mut near, b"late").await;
    within(listener.accept()).await?;
    Ok(())
}
