//! A message on its way out: signed, its credentials in clear for the one site that it goes to.

use bytes::Bytes;
use cheops_replica::{Message, Secret};
use cheops_types::SiteName;
use tracing::warn;

use super::{batch, parts};
use crate::{core::Core, secret, sign};

/// Signs what goes out together, as far as that takes less time than one by one.
pub(crate) fn sign_all<'m>(core: &Core, messages: impl Iterator<Item = &'m mut Message>) {
    if let Some(identity) = core.surroundings.identity() {
        let ops = messages.flat_map(|message| {
            let set = message.set.clone();
            let ops = parts::operations(message).into_iter();
            ops.map(move |op| (set.clone(), op))
        });
        sign::sign_all(&identity, ops);
    }
}

/// A message as another site reads it; none when it cannot be sent. A credential that this site cannot open
/// any more stays behind, and so does what the configuration keeps from the site: the operation asks for one where it
/// executes.
pub(super) fn encode(core: &Core, to: &SiteName, mut message: Message) -> Option<Bytes> {
    if let Some(identity) = core.surroundings.identity() {
        let set = message.set.clone();
        for op in parts::operations(&mut message) {
            if let Err(error) = sign::sign(&identity, &set, op) {
                warn!(set = %set, operation = %op.id, %error, "an operation cannot be signed and is not sent");
                return None;
            }
        }
    }
    let withheld = core.surroundings.withheld(to);
    for credential in message.credentials_mut() {
        *credential = credential
            .take()
            .and_then(|sealed| secret::open_clear(&core.key, &sealed).ok())
            .and_then(|clear| secret::without(clear, &withheld))
            .map(Secret);
    }
    batch::encode(&message).map(Bytes::from)
}
