//! Reading an answer into memory, within three bounds: its own, the agent's and time.

use std::pin::pin;

use bytes::Bytes;
use cheops_net::Body;
use cheops_types::{Code, Limit};
use http_body_util::BodyExt as _;

use super::Core;
use crate::{memory::Lease, pieces::Pieces};

impl Core {
    /// Reads all of a body, or says which bound it broke. A long one is joined beside the cores.
    pub(crate) async fn collect(&self, body: Body) -> Result<(Bytes, Lease), Code> {
        let (body, progress) = body.watch();
        let reading = pin!(self.read(body));
        let timeout_ms = self.limits().peer_timeout_ms;
        let read = self.clock.timeout_idle(timeout_ms, progress, reading).await;
        let (pieces, held) = read.unwrap_or_else(|_| {
            Limit::PeerTimeout.hit();
            Err(Code::PeerTimeout)
        })?;
        self.join(pieces, held).await
    }

    /// What has come, in one piece. It counts also while it waits to be joined, whoever still wants it.
    pub(crate) async fn join(&self, pieces: Pieces, held: Lease) -> Result<(Bytes, Lease), Code> {
        self.work(pieces.bytes(), move || (pieces.join(), held)).await
    }

    async fn read(&self, mut body: Body) -> Result<(Pieces, Lease), Code> {
        let mut held = Lease::none(&self.shared.memory);
        let mut pieces = Pieces::default();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|_| Code::PeerFailed)?.into_data() else {
                continue;
            };
            held.take(data.len(), pieces.bytes(), self.limits())?;
            pieces.push(&data);
        }
        Ok((pieces, held))
    }
}
