//! One connection through the link.

use std::{net::SocketAddr, pin::pin, sync::atomic::AtomicU64};

use tokio::{net::TcpStream, time};

use crate::{
    link::{Link, State, Way},
    pipe,
};

/// Bytes that arrived, in both directions.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) to_target: AtomicU64,
    pub(crate) from_target: AtomicU64,
}

/// Carries `near` to `target` until both ends are done, one of them breaks or the link refuses.
pub(crate) async fn carry(mut near: TcpStream, target: SocketAddr, mut link: Link, counters: &Counters) {
    let refusals = link.refusals();
    if link.state() == State::Refused {
        reset(&near);
        return;
    }
    tokio::select! {
        () = handshake(link.clone()) => {}
        () = link.refused(refusals) => {
            reset(&near);
            return;
        }
    }
    let mut dialling = pin!(TcpStream::connect(target));
    let dialled = tokio::select! {
        dialled = &mut dialling => dialled,
        () = link.refused(refusals) => {
            reset(&near);
            drop(near);
            // The target may have accepted already. Giving up the dialling would look like an
            // orderly end to it, so it is finished in order to be reset.
            if let Ok(far) = dialling.await {
                reset(&far);
            }
            return;
        }
    };
    let mut far = match dialled {
        Ok(far) => far,
        Err(error) => {
            tracing::debug!(%target, %error, "the far end of the link does not answer");
            reset(&near);
            return;
        }
    };
    // Small writes are the sender's business, the link adds no delay of its own.
    let _ = near.set_nodelay(true);
    let _ = far.set_nodelay(true);
    let ended = {
        let (from_near, to_near) = near.split();
        let (from_far, to_far) = far.split();
        let both = async {
            tokio::try_join!(
                pipe::carry(
                    from_near,
                    to_far,
                    link.clone(),
                    Way::ToTarget,
                    &counters.to_target
                ),
                pipe::carry(
                    from_far,
                    to_near,
                    link.clone(),
                    Way::FromTarget,
                    &counters.from_target
                ),
            )
        };
        let mut refusing = link.clone();
        tokio::select! {
            ended = both => ended.is_ok(),
            () = refusing.refused(refusals) => false,
        }
    };
    if !ended {
        reset(&near);
        reset(&far);
    }
}

/// The near end's handshake was local and took no time, so the round trip that it would have cost
/// is spent here.
async fn handshake(mut link: Link) {
    link.up().await;
    time::sleep(link.delay() * 2).await;
    link.up().await;
}

/// Makes dropping the connection a reset instead of an orderly end.
fn reset(stream: &TcpStream) {
    let _ = stream.set_zero_linger();
}
