//! Bodies that are no messages.

use anyhow::Result;
use bytes::Bytes;
use cheops_replica::Content;
use cheops_types::headers::PEER_REPLICATION_PATH;
use http::Method;

use super::{Scene, Verdict, counted};
use crate::hostile::mallory::{ask, join};

const TOO_LONG_BYTES: usize = 64 * 1024 * 1024 + 1;
const DEEP: usize = 1_000_000;

pub(super) fn play(scene: &Scene<'_>) -> Result<Verdict> {
    let (mallory, victim) = (scene.mallory, scene.victim());
    let shared = scene.share()?;
    let whole = join(&[
        mallory.carry(&shared, [shared.create.clone()]),
        mallory.message(&shared, Content::Report),
    ])?;
    let with_length = |body: &[u8]| {
        let length = u32::try_from(body.len()).unwrap_or(u32::MAX).to_be_bytes();
        Bytes::from([&[3], &length[..], body].concat())
    };
    let mut bodies: Vec<Bytes> = vec![
        Bytes::from_static(&[2]),
        Bytes::from_static(&[255; 64]),
        Bytes::from_static(&[3, 0, 0]),
        Bytes::from_static(&[3, 255, 255, 255, 255]),
        Bytes::from_static(&[3, 0, 0, 0, 0]),
        // Arrays in arrays, an array and a text that claim four billion, maps in maps.
        with_length(&[0x91; DEEP]),
        with_length(&[0xdd, 255, 255, 255, 255]),
        with_length(&[0xdb, 255, 255, 255, 255]),
        with_length(&[0x81; DEEP]),
    ];
    bodies.extend((1..20).map(|part| whole.slice(..whole.len() * part / 20)));
    let noise = (0..1_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 11) as u8);
    bodies.push([3].into_iter().chain(noise).collect());
    let mut answers = Vec::new();
    for body in bodies {
        answers.push(mallory.deliver(victim, body)?);
    }
    let too_long = mallory.deliver(victim, Bytes::from(vec![3; TOO_LONG_BYTES]));
    // An answer may come before all of it is sent, and end the stream.
    let too_long = too_long.map_or("cut off".to_owned(), |status| status.to_string());

    let mut others = Vec::new();
    for path in ["hello", "names", "ranges", "read/", "check/", "../../", "nothing"] {
        for body in [vec![b'['; DEEP], vec![0xff; 1000], b"{}".to_vec(), Vec::new()] {
            let path = format!("{PEER_REPLICATION_PATH}{path}");
            let answer = mallory.talk(victim, async |link| {
                ask(&link, (Method::POST, &path), &[], Bytes::from(body.clone())).await
            });
            others.push(answer.map_or(0, |(status, _)| status));
        }
    }
    let is_refused = |status: &u16| (400..500).contains(status);
    let holds = answers.iter().all(is_refused) && matches!(&*too_long, "413" | "cut off");
    Ok(Verdict::of(
        holds,
        format!(
            "{} damaged bodies answered {}, 64 MiB and a byte {too_long}; other paths {}",
            answers.len(),
            counted(&answers),
            counted(&others)
        ),
    ))
}
