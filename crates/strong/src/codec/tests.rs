use proptest::prelude::*;

use super::*;
use crate::{
    command::{Command, Intent, Token},
    types::Entry,
};
use openraft::{EntryPayload, entry::RaftEntry};

fn message() -> Message {
    let member = Member::from(1);
    let log_id = LogId::new_term_index(3, 8);
    let intent = Command::Intent(Intent {
        token: Token(u128::MAX - 7),
        set: "x".to_owned(),
        from: member.site.clone(),
        content: Bytes::from(vec![0; 300]),
    });
    Message {
        founders: [member.site.clone(), Member::from(2).site].into(),
        generation: 1,
        from: member.clone(),
        to: Member::from(2),
        request: Request::Append(AppendEntriesRequest {
            vote: Vote::new_committed(3, member),
            prev_log_id: Some(log_id),
            entries: vec![Entry::new(
                LogId::new_term_index(3, 9),
                EntryPayload::Normal(intent),
            )],
            leader_commit: Some(log_id),
        }),
    }
}

#[test]
fn what_is_written_can_be_read() {
    let bytes = write(&message());
    let read: Message = decode(&bytes).unwrap();
    assert_eq!(format!("{read:?}"), format!("{:?}", message()));
}

#[test]
fn what_is_no_message_is_an_error() {
    let bytes = write(&message());
    assert_eq!(decode::<Message>(&[]).unwrap_err(), Unreadable::Empty);
    let mut other = bytes.to_vec();
    other[0] = 2;
    assert_eq!(decode::<Message>(&other).unwrap_err(), Unreadable::Version(2));
    let longer = [&bytes[..], &[0]].concat();
    assert!(matches!(decode::<Message>(&longer), Err(Unreadable::Garbage(_))));
    for end in 0..bytes.len() {
        assert!(decode::<Message>(&bytes[..end]).is_err(), "{end}");
    }
}

proptest! {
    #[test]
    fn garbage_is_read_or_not_but_never_panics(garbage in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode::<Message>(&[&[VERSION], &garbage[..]].concat());
        let _ = decode::<Reply>(&[&[VERSION], &garbage[..]].concat());
    }

    #[test]
    fn a_damaged_message_never_panics(at in 1usize..300, byte in any::<u8>()) {
        let mut bytes = write(&message()).to_vec();
        let at = at % bytes.len();
        bytes[at] = byte;
        let _ = decode::<Message>(&bytes);
    }
}
