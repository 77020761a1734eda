//! Bodies that are too long to be part of an operation.

use std::{fs, path::Path};

use bytes::Bytes;
use serde_json::json;

use crate::harness::{Connection, Mesh, get, put, until};

use super::support::{ALL, BOTH, Made, replicate};

const LENGTH: usize = 64 * 1024 * 1024;
/// What an agent's memory may grow by while it handles one.
const GROWTH_MAX_KIB: u64 = 24 * 1024;

fn noise() -> Bytes {
    let mut state = 1_u64;
    let words = (0..LENGTH / 8).flat_map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.collect::<Vec<_>>().into()
}

fn spooled(dir: &Path) -> Vec<String> {
    ["partial", "whole"]
        .iter()
        .flat_map(|part| fs::read_dir(dir.join("spool").join(part)).into_iter().flatten())
        .map(|entry| entry.unwrap().path().display().to_string())
        .collect()
}

async fn bytes_at(mesh: &Mesh, made: &Made, site: usize) -> u64 {
    let replica = made.replica(mesh, site).await;
    replica.map_or(0, |replica| replica["bytes"].as_u64().unwrap_or(0))
}

#[tokio::test]
async fn a_long_body_reaches_all_sites_also_the_one_that_was_away() {
    let mut mesh = Mesh::of(3).start().await;
    let made = replicate(&mesh, 1, ("B", "files"), json!({ "name": "plan" }), ALL).await;
    made.until_state(&mesh, &[1, 2, 3], "ok").await;
    mesh.site_mut(3).agent_mut().kill();
    mesh.site(1).until_sees("site3", false).await;
    let before: Vec<_> = [1, 2]
        .map(|site| mesh.site(site).agent().memory_kib("VmHWM"))
        .into();

    let data = noise();
    let path = format!("{}/data", made.path());
    let mut connection = Connection::http1(mesh.b(1)).await;
    let answer = put(mesh.b(1), &path, data.clone())
        .header("content-type", "application/octet-stream")
        .on(&mut connection)
        .await;
    assert_eq!(answer.status, 204, "{answer:?}");
    until("site2 has the data", async || {
        bytes_at(&mesh, &made, 2).await == LENGTH as u64
    })
    .await;
    for (site, before) in [1, 2].into_iter().zip(before) {
        let growth = mesh.site(site).agent().memory_kib("VmHWM").saturating_sub(before);
        assert!(growth < GROWTH_MAX_KIB, "site{site} grew by {growth} KiB");
    }

    // The site that accepted it need not be there for the third to get it.
    mesh.site_mut(1).agent_mut().kill();
    mesh.site_mut(3).start();
    mesh.site_mut(3).ready(&["site2".to_owned()]).await;
    until("site3 has the data", async || {
        bytes_at(&mesh, &made, 3).await == LENGTH as u64
    })
    .await;
    let peak = mesh.site(3).agent().memory_kib("VmHWM");
    assert!(peak < 128 * 1024, "site3 took {peak} KiB");
    mesh.site_mut(1).restart().await;
    mesh.site(1).until_sees("site3", true).await;
    let same = made.until_same(&mesh, &[1, 2, 3]).await;
    assert_eq!(same["bytes"], json!(LENGTH));
    for site in 1..=3 {
        let download = get(mesh.b(site), &path).await.is(200);
        assert!(download.body == data, "other data at site{site}");
        let dir = mesh.site(site).data_dir();
        until("the payload is no longer kept", async || spooled(dir).is_empty()).await;
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_leaves_nothing() {
    use tokio::io::AsyncWriteExt as _;
    let mesh = Mesh::of(2).start().await;
    let made = replicate(&mesh, 1, ("B", "files"), json!({ "name": "plan" }), BOTH).await;
    let mut stream = tokio::net::TcpStream::connect(mesh.b(1)).await.unwrap();
    let head = format!(
        "PUT {}/data HTTP/1.1\r\nhost: x\r\ncontent-length: 10000000\r\n\r\n",
        made.path()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&vec![7; 1_000_000]).await.unwrap();
    let dir = mesh.site(1).data_dir();
    until("the body is being spooled", async || !spooled(dir).is_empty()).await;
    drop(stream);
    until("the part is deleted", async || spooled(dir).is_empty()).await;
    assert_eq!(made.until_same(&mesh, &[1, 2]).await, json!({ "name": "plan" }));
    let whole = put(mesh.b(1), &format!("{}/data", made.path()), vec![7; 1_000_000]);
    whole.header("prefer", "wait=20").await.is(204);
    assert_eq!(made.until_same(&mesh, &[1, 2]).await["bytes"], 1_000_000);
}
