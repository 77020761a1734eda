//! HTTP/1.1 on real connections: to a service, and of a client.

mod client;
mod server;

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::LocalSet,
    time::timeout,
};

/// Far more than anything takes; only a failure waits so long.
const DEADLINE: Duration = Duration::from_secs(20);

/// Runs a test as a core does.
fn on_a_core(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let within = async {
        timeout(DEADLINE, test)
            .await
            .expect("the test came to its end in time");
    };
    LocalSet::new().block_on(&runtime, within);
}

/// Reads until what came ends with `end`.
async fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut text = Vec::new();
    while !text.ends_with(end.as_bytes()) {
        let byte = stream.read_u8().await;
        let byte = byte.unwrap_or_else(|error| panic!("{error} after {:?}", String::from_utf8_lossy(&text)));
        text.push(byte);
    }
    String::from_utf8(text).unwrap()
}

/// What comes until the connection ends, however it does.
async fn read_rest(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    let _ = stream.read_to_end(&mut text).await;
    String::from_utf8(text).unwrap()
}

async fn write(stream: &mut TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).await.unwrap();
}
