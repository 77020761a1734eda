//! A set in a few lines, for whoever looks at a failure.

use std::fmt::Write;

use cheops_replica::{Set, Vector};
use cheops_types::SiteName;

pub fn describe(site: &SiteName, set: &Set) -> String {
    let mut text = format!(
        "{site} {}: {:?} epoch {} members {:?} local {:?} deleted {} degraded {:?}",
        set.record().meta,
        set.standing(),
        set.epoch(),
        set.members()
            .iter()
            .map(|(site, member)| format!(
                "{site}/{}{}",
                member.stay,
                if member.leaving.is_some() { "-" } else { "" }
            ))
            .collect::<Vec<_>>(),
        set.local(),
        set.is_deleted(),
        set.degraded(),
    );
    let _ = write!(
        text,
        "\n    held {} done {} pruned {}",
        short(set.held()),
        short(set.done()),
        short(set.pruned())
    );
    if set.is_comparing() {
        let _ = write!(text, "\n    compares");
    }
    if let Some(job) = set.job() {
        let _ = write!(text, "\n    job {:?} {:?}", job.phase, job.work);
    }
    for entry in set.log() {
        let op = &entry.op;
        let _ = write!(
            text,
            "\n    {} {} after {} {:?} {:?}{}",
            op.id,
            op.time,
            short(&op.after),
            op.verb,
            entry.state,
            if entry.redo { " redo" } else { "" }
        );
    }
    for peer in set
        .members()
        .keys()
        .filter(|peer| *peer != site && set.owes(peer))
    {
        let _ = write!(text, "\n    owes {peer}: {:?}", set.peer_view(peer));
    }
    text
}

fn short(vector: &Vector) -> String {
    let parts: Vec<_> = vector
        .iter()
        .map(|(author, seq)| format!("{}.{}.{}:{seq}", author.site, author.incarnation, author.stay))
        .collect();
    parts.join(" ")
}
