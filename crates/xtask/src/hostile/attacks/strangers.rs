//! Who has no certificate, one of another mesh, or one for a site that nobody lists.

use std::process::{Command, Stdio};

use anyhow::Result;
use cheops_types::headers::PEER_HEARTBEAT_PATH;
use http::Method;

use super::{Scene, Verdict};
use crate::{
    command::succeed,
    hostile::{
        client,
        mallory::{ask, talk_with},
        stage::{HOSTILE, UNLISTED},
    },
};

pub(super) fn play(scene: &Scene<'_>) -> Result<Verdict> {
    let victim = scene.victim();
    let heartbeat = async |link: std::rc::Rc<cheops_net::PeerLink>| {
        ask(
            &link,
            (Method::GET, PEER_HEARTBEAT_PATH),
            &[],
            bytes::Bytes::new(),
        )
        .await
    };
    let listed = scene.mallory.talk(victim, heartbeat)?.0;

    let unlisted = scene.stage.dir.join(UNLISTED);
    let unlisted = talk_with(&unlisted, UNLISTED, victim, heartbeat).map(|(status, _)| status);

    let other = scene.stage.dir.join("other-mesh");
    if !other.exists() {
        for args in [["ca", "init"].as_slice(), &["ca", "issue", HOSTILE]] {
            let mut command = Command::new(victim.program());
            succeed(command.args(args).arg("--dir").arg(&other).stdout(Stdio::null()))?;
        }
    }
    // It believes the CA of the mesh, so that it is the agent that refuses.
    std::fs::copy(victim.dir().join("ca.pem"), other.join("ca.pem"))?;
    let foreign = talk_with(&other, HOSTILE, victim, heartbeat).map(|(status, _)| status);

    let text = format!("GET {PEER_HEARTBEAT_PATH} HTTP/1.1\r\nHost: x\r\n\r\n");
    let plain = client::connect(client::STRANGER, victim.peer.addr)
        .and_then(|mut stream| client::exchange(&mut stream, text.as_bytes()));

    let holds = listed == 200
        && matches!(unlisted, Ok(403))
        && foreign.is_err()
        && !plain.as_ref().is_ok_and(|answer| answer.status < 400);
    let word = |status: &Result<u16>| status.as_ref().map_or("no connection".to_owned(), u16::to_string);
    Ok(Verdict::of(
        holds,
        format!(
            "unlisted site {}, certificate of another mesh {}, without TLS {}; listed {listed}",
            word(&unlisted),
            word(&foreign),
            word(&plain.map(|answer| answer.status)),
        ),
    ))
}
