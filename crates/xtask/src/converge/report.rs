//! The end of a run: the verdict, in numbers and, where something is wrong, in stories.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::Result;

use super::{
    AGREE_MAX,
    history::{History, SITES, body},
    look,
    oracle::{self, Case, Counts, Violation, What},
    phases::{Disturbed, Healed},
    story,
    verdict::{self, Unsettled},
};
use crate::trouble::{Planned, Site, Sites, name};

/// Stories that are printed; all are in the directory.
const STORIES_MAX: usize = 3;

/// Limits and their values in one line.
pub(super) fn limits(limits: &[(&str, u64)]) -> String {
    let limits: Vec<_> = limits
        .iter()
        .map(|(limit, value)| format!("{limit}={value}"))
        .collect();
    limits.join(" ")
}

/// Judges a run and prints everything; whether all is well.
pub(super) fn conclude(sites: &Sites, dir: &Path, run: &Disturbed, healed: &Healed) -> Result<bool> {
    let unsettled = verdict::unsettled(
        &healed.agents.open,
        &healed.agents.sets,
        &healed.born,
        &run.history,
        &run.log,
    );
    let conflicts = kept(sites, &run.history, healed);
    let case = Case {
        history: &run.history,
        finals: &healed.applications.finals,
        conflicts: &conflicts,
        log: &run.log,
        excused: &unsettled.excused,
    };
    let (mut violations, counts) = oracle::judge(&case);
    violations.extend(unsettled.violations.iter().cloned());
    summary(run, healed, &unsettled, &counts);
    for (site, row) in &healed.applications.strange {
        println!(
            "a document that this suite never wrote, at {}: {row}",
            name(*site)
        );
    }
    let stories = tell(sites, run, healed, &violations);
    fs::write(dir.join("faults.txt"), faults(run))?;
    if !stories.is_empty() {
        let text: String = stories.iter().flat_map(|story| [story.as_str(), "\n"]).collect();
        fs::write(dir.join("stories.txt"), text)?;
    }
    for story in stories.iter().take(STORIES_MAX) {
        println!("\n{story}");
    }
    let kinds = by_kind(&violations);
    for (kind, count) in &kinds {
        println!("WRONG: {count} × {kind}");
    }
    let holds =
        violations.is_empty() && healed.agreed_after.is_some() && healed.applications.strange.is_empty();
    if !holds {
        println!(
            "FAILED: {} violations; stories.txt has all of them",
            violations.len()
        );
        still_open(healed, &unsettled);
    }
    Ok(holds)
}

/// Operations that nothing excuses: sites do not agree while there are some, even if replicas happen to be the same.
fn still_open(healed: &Healed, unsettled: &Unsettled) {
    for (site, operation) in &healed.agents.open {
        let born = healed.born.get(&operation.set);
        if born.is_none_or(|born| !unsettled.excused.contains(born)) {
            let shown = born.map_or("an unknown resource".to_owned(), |born| format!("w{born}"));
            println!(
                "open at {}: {} {} of {shown} is {}",
                name(*site),
                operation.verb,
                operation.id,
                operation.state
            );
        }
    }
}

/// Conflicts of acknowledged writes that are kept with what was written.
fn kept(sites: &Sites, history: &History, healed: &Healed) -> BTreeSet<String> {
    let mut kept = BTreeSet::new();
    for write in &history.writes {
        let Some(acknowledged) = write.acknowledged() else {
            continue;
        };
        let listed = healed.agents.conflicts.get(&acknowledged.operation);
        let Some(site) = listed.and_then(BTreeSet::first) else {
            continue;
        };
        let body = body(write.id, write.born, write.kind);
        if look::has_payload(sites, *site, &acknowledged.operation, &body) {
            kept.insert(acknowledged.operation.clone());
        } else {
            println!("the conflict {} has lost its payload", acknowledged.operation);
        }
    }
    kept
}

fn summary(run: &Disturbed, healed: &Healed, unsettled: &Unsettled, counts: &Counts) {
    let mut faults = BTreeMap::<_, usize>::new();
    for happened in &run.log.0 {
        *faults.entry(happened.fault.word()).or_default() += 1;
    }
    let faults: Vec<_> = faults
        .iter()
        .map(|(word, count)| format!("{count} {word}"))
        .collect();
    let tally = &run.tally;
    println!("faults      {}", faults.join(", "));
    println!(
        "writes      {} to {} resources: {} acknowledged, {} refused, {} in doubt; {} more reached no agent",
        tally.writes, tally.resources, tally.acknowledged, tally.refused, tally.doubt, tally.unsent
    );
    println!(
        "of the acknowledged  {} are there, {} were replaced in order, {} are conflicts, {} were deleted, {} wait with a \
         reason, {} are LOST",
        counts.present, counts.superseded, counts.conflicts, counts.deleted, counts.excused, counts.lost
    );
    println!(
        "conflicts   {} listed, {} of them not at every site of their set",
        healed.agents.conflicts.len(),
        partly_listed(&run.history, healed)
    );
    let unsettled_text: Vec<_> = unsettled
        .counts
        .iter()
        .map(|(state, count)| format!("{count} {state}"))
        .collect();
    println!(
        "unsettled   {}; {} resources excused",
        if unsettled_text.is_empty() {
            "nothing".to_owned()
        } else {
            unsettled_text.join(", ")
        },
        unsettled.excused.len()
    );
    match healed.agreed_after {
        Some(after) => println!("agreement   {:.1} s after healing", after.as_secs_f64()),
        None => println!("agreement   NOT within {} s of healing", AGREE_MAX.as_secs()),
    }
}

/// Conflicts that some sites of their set do not list.
fn partly_listed(history: &History, healed: &Healed) -> usize {
    let is_missing = |(id, at): &(&String, &BTreeSet<Site>)| {
        let set = id.rsplit_once(':').map_or("", |(set, _)| set);
        let resource = healed.born.get(set).and_then(|born| history.resources.get(born));
        resource.is_some_and(|resource| resource.sites.iter().any(|site| !at.contains(site)))
    };
    healed.agents.conflicts.iter().filter(is_missing).count()
}

/// One story per resource with what is wrong with it.
fn tell(sites: &Sites, run: &Disturbed, healed: &Healed, violations: &[Violation]) -> Vec<String> {
    let mut by_resource: BTreeMap<_, Vec<&What>> = BTreeMap::new();
    for violation in violations {
        by_resource
            .entry(violation.born)
            .or_default()
            .push(&violation.what);
    }
    let story = |(born, whats): (u32, Vec<&What>)| {
        let whats: Vec<_> = whats.iter().map(ToString::to_string).collect();
        let told = story::tell(sites, born, &run.history, &healed.applications, &healed.agents);
        format!("w{born}: {}\n{told}", whats.join("; "))
    };
    by_resource.into_iter().map(story).collect()
}

fn faults(run: &Disturbed) -> String {
    let mut log = run.log.0.clone();
    log.sort_by_key(|one| one.at_ms);
    let line = |one: &Planned| format!("{} … {} ms: {}\n", one.at_ms, one.until_ms, one.fault);
    log.iter().map(line).collect()
}

/// How many violations of each kind.
fn by_kind(violations: &[Violation]) -> BTreeMap<&'static str, usize> {
    let mut kinds = BTreeMap::new();
    for violation in violations {
        let kind = match violation.what {
            What::Unequal => "sites do not have the same",
            What::Elsewhere(_) => "a site outside the set has it",
            What::Twice(_) => "a site has it twice",
            What::Stranger => "nobody asked for it",
            What::Lost { .. } => "an acknowledged write is lost",
            What::Gone => "gone without a delete",
            What::Undeleted { .. } => "there in spite of an acknowledged delete",
            What::Refused { .. } => "a refused write is there",
            What::Invented { .. } => "a value that nobody wrote",
            What::Degraded(_) => "degraded without a reason",
            What::Stuck(_) => "an operation waits without a reason",
        };
        *kinds.entry(kind).or_default() += 1;
    }
    kinds
}

const _: () = assert!(SITES == 3, "scopes and stories are about three sites");
