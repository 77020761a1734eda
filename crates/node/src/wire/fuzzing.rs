use super::{batch, parts};

/// Reads a body of messages as it came from a peer, before anything is known of its signatures. What can be read is
/// written and read again the same.
pub(crate) fn messages(body: &[u8]) -> bool {
    let Ok(mut messages) = batch::decode(body) else {
        return false;
    };
    let encoded = messages
        .iter()
        .map(|message| batch::encode(message).map(Into::into));
    let encoded: Option<Vec<_>> = encoded.collect();
    let again = batch::decode(&batch::join(&encoded.expect("what was read can be written")));
    assert_eq!(again.as_ref(), Ok(&messages));
    for message in &mut messages {
        parts::operations(message);
        message.credentials_mut().for_each(drop);
    }
    true
}
