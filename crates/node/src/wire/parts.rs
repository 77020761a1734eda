//! The operations inside a message, wherever they are.

use cheops_replica::{Cause, Conflict, Content, Message, Operation};

/// Every operation of a message.
pub(super) fn operations(message: &mut Message) -> Vec<&mut Operation> {
    match &mut message.content {
        Content::Operations(carried) => carried.iter_mut().map(|carried| &mut carried.op).collect(),
        Content::Snapshot(snapshot) => {
            let log = snapshot.log.iter_mut().map(|entry| &mut entry.op);
            let conflicts = snapshot.conflicts.iter_mut().flat_map(of_conflict);
            log.chain(conflicts).collect()
        }
        Content::Report | Content::Digest { .. } | Content::State { .. } | Content::Expelled => Vec::new(),
    }
}

fn of_conflict(conflict: &mut Conflict) -> impl Iterator<Item = &mut Operation> {
    let winner = match &mut conflict.cause {
        Cause::Winner(winner) => Some(&mut **winner),
        _ => None,
    };
    std::iter::once(&mut conflict.loser).chain(winner)
}
