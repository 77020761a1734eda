//! A resource's whole story, for whoever has to find out what went wrong.

use std::fmt::Write as _;

use super::{
    history::{Document, Fate, History, Kind, SITES, Write, WriteId},
    look::{self, Agents, Applications},
};
use crate::trouble::{Sites, name};

/// Writes with their times, sites and answers, final states, conflicts and what waits.
pub(super) fn tell(
    sites: &Sites,
    born: WriteId,
    history: &History,
    applications: &Applications,
    agents: &Agents,
) -> String {
    let mut text = String::new();
    let Some(resource) = history.resources.get(&born) else {
        return "  no create is known\n".to_owned();
    };
    let at: Vec<_> = resource.sites.iter().map(|site| name(*site)).collect();
    let id = resource.id.as_deref().unwrap_or("(unknown)");
    let _ = writeln!(text, "  /{}/{id} at {}", resource.collection, at.join(" & "));
    let mut writes: Vec<_> = history.writes.iter().filter(|write| write.born == born).collect();
    writes.sort_by_key(|write| write.sent_ms);
    for write in writes {
        let _ = writeln!(text, "  {}", line(write, agents));
    }
    let finals = applications.finals.get(&born);
    for site in 0..SITES {
        let documents = finals.map_or(&[][..], |finals| finals[site].as_slice());
        for document in documents {
            let _ = writeln!(text, "  {} has {}", name(site), document.text);
        }
        if documents.is_empty() {
            let _ = writeln!(text, "  {} has none", name(site));
        }
    }
    let Some(set) = &resource.set else {
        return text;
    };
    for (site, operation) in agents.open.iter().filter(|(_, operation)| operation.set == *set) {
        let _ = writeln!(
            text,
            "  waits at {}: {} {} {} {:?}",
            name(*site),
            operation.id,
            operation.verb,
            operation.state,
            operation.status
        );
    }
    for site in &resource.sites {
        let _ = writeln!(text, "  {} says {}", name(*site), look::told(sites, *site, set));
    }
    text
}

fn line(write: &Write, agents: &Agents) -> String {
    let kind = match write.kind {
        Kind::Create => "create".to_owned(),
        Kind::Replace => "replace".to_owned(),
        Kind::Patch(field) => format!("patch f{field}"),
        Kind::Delete => "delete".to_owned(),
    };
    let head = format!(
        "{:>7} ms  w{} {kind} through {}",
        write.sent_ms,
        write.id,
        name(write.through)
    );
    match &write.fate {
        Fate::Acknowledged(acknowledged) => {
            let conflict = agents.conflicts.get(&acknowledged.operation);
            let conflict = conflict.map_or(String::new(), |sites| {
                let sites: Vec<_> = sites.iter().map(|site| name(*site)).collect();
                format!(" CONFLICT at {}", sites.join(" "))
            });
            let seen = acknowledged.seen.as_ref().map_or(String::new(), seen);
            format!(
                "{head}: acknowledged at {} as {}{seen}{conflict}",
                acknowledged.at_ms, acknowledged.operation
            )
        }
        Fate::Refused { at_ms, why } => format!("{head}: refused at {at_ms}: {why}"),
        Fate::Doubt { at_ms, why } => format!("{head}: in doubt since {at_ms}: {why}"),
    }
}

/// What the accepting site had then.
fn seen(document: &Document) -> String {
    let base = document.base.map_or("?".to_owned(), |base| format!("w{base}"));
    let marks: Vec<_> = document.marks.iter().map(|mark| format!("w{mark}")).collect();
    format!(", on {base} with [{}]", marks.join(" "))
}
