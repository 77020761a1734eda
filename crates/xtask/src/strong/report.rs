//! The end of a run: the verdict, in numbers and, where something is wrong, in pictures.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::Path,
};

use anyhow::Result;
use cheops_linear::{Report, STEPS_MAX, check};

use super::{
    AGREE_MAX,
    callers::tally,
    history::{Born, Call, Fate, History, Kind, key},
    journal::Journal,
    look,
    oracle::{self, Violation},
    outage,
    phases::{Disturbed, Healed},
};
use crate::trouble::{Mesh, Planned, name};

/// Pictures that are printed; all are in the directory.
const PICTURES_MAX: usize = 3;
/// Lines of what is wrong that are printed.
const LINES_MAX: usize = 10;

/// What was found.
struct Found {
    histories: Report,
    violations: Vec<Violation>,
    /// Whether everything but the histories is as it should be.
    is_else_well: bool,
}

/// Judges a run and prints everything; whether all is well.
pub(super) fn conclude(mesh: &Mesh<'_>, run: &Disturbed, healed: &Healed) -> Result<bool> {
    let found = judge(mesh, run, healed)?;
    let holds = found.histories.is_linearizable() && found.is_else_well;
    if !holds {
        show(mesh.dir, run, &found)?;
        println!("FAILED: histories.txt has all pictures, calls.txt what callers were told");
    }
    Ok(holds)
}

/// Whether a run that promises less shows a history without an order, and nothing else that is wrong; prints some.
pub(super) fn must_find(mesh: &Mesh<'_>, run: &Disturbed, healed: &Healed) -> Result<bool> {
    let found = judge(mesh, run, healed)?;
    show(mesh.dir, run, &found)?;
    let has_found = !found.histories.violations.is_empty();
    println!(
        "{}",
        match (has_found, found.is_else_well) {
            (true, true) => "as it must be: reads under `&` can be stale, and this suite sees it",
            (false, _) => "FAILED: reads under `&` can be stale, and this suite saw none",
            (true, false) => "FAILED: something else is wrong as well",
        }
    );
    Ok(has_found && found.is_else_well)
}

fn judge(mesh: &Mesh<'_>, run: &Disturbed, healed: &Healed) -> Result<Found> {
    let journals = look::journals(mesh.dir, mesh.sites)?;
    let finals = &healed.applications.finals;
    let violations = oracle::judge(&run.history, finals, &journals);
    let calls: Vec<_> = run.history.calls.iter().chain(&healed.last_reads).collect();
    let resources: Vec<_> = run.history.resources.keys().copied().collect();
    let operations = oracle::operations(&calls, finals, healed.at_us, &resources);
    let histories = check(&operations, STEPS_MAX);
    summary(mesh, run, healed, &journals);
    println!("histories   {}", last_line(&histories));
    let strange = healed.applications.strange.iter();
    let strange = strange.map(|(site, row)| {
        format!(
            "a document that this suite never wrote, at {}: {row}",
            name(*site)
        )
    });
    let wrong: Vec<_> = strange.chain(healed.unsettled.iter().cloned()).collect();
    for line in wrong.iter().take(LINES_MAX) {
        println!("WRONG: {line}");
    }
    if wrong.len() > LINES_MAX {
        println!("WRONG: {} more like these", wrong.len() - LINES_MAX);
    }
    for (kind, count) in by_kind(&violations) {
        println!("WRONG: {count} × {kind}");
    }
    fs::write(mesh.dir.join("faults.txt"), faults(run))?;
    Ok(Found {
        is_else_well: violations.is_empty() && healed.agreed_after.is_some() && wrong.is_empty(),
        histories,
        violations,
    })
}

fn summary(mesh: &Mesh<'_>, run: &Disturbed, healed: &Healed, journals: &[Journal]) {
    let mut faults = BTreeMap::<_, usize>::new();
    for happened in &run.log.0 {
        *faults.entry(happened.fault.word()).or_default() += 1;
    }
    let faults: Vec<_> = faults
        .iter()
        .map(|(word, count)| format!("{count} {word}"))
        .collect();
    println!("faults      {}", faults.join(", "));
    println!("{}", tallied(&run.history));
    let accepted: Vec<_> = accepted(&run.history).map(|call| call.over_us / 1_000).collect();
    let outage = outage::longest(&run.log, mesh.sites, run.length_ms, &accepted);
    println!(
        "failovers   {} changes of the site that decides; with a majority connected, at most {:.1} s without an accepted write \
         ({:.1} s … {:.1} s)",
        failovers(&run.history),
        (outage.to_ms - outage.from_ms) as f64 / 1e3,
        outage.from_ms as f64 / 1e3,
        outage.to_ms as f64 / 1e3,
    );
    let again: usize = journals.iter().map(Journal::again).sum();
    println!("executions  {again} came again at an application: repeated in doubt, or set back");
    match healed.agreed_after {
        Some(after) => println!("agreement   {:.1} s after healing", after.as_secs_f64()),
        None => println!("agreement   NOT within {} s of healing", AGREE_MAX.as_secs()),
    }
}

fn tallied(history: &History) -> String {
    let tally = tally(history);
    format!(
        "writes      {} acknowledged, {} not as things stood, {} refused, {} unknown, to {} resources\n\
         reads       {} answered, {} not; {} more requests reached no agent",
        tally.acknowledged,
        tally.unmet,
        tally.refused,
        tally.unknown,
        tally.resources,
        tally.read,
        tally.unread,
        tally.unsent
    )
}

/// Acknowledged writes, in the order of their answers.
fn accepted(history: &History) -> impl Iterator<Item = &Call> {
    let mut calls: Vec<_> = history
        .calls
        .iter()
        .filter(|call| call.kind != Kind::Read && call.fate.is_done())
        .collect();
    calls.sort_by_key(|call| call.over_us);
    calls.into_iter()
}

/// How often another site than before decided, by the receipts. One that decided nothing is not seen; an answer that
/// was overtaken by one of the next site is not taken for a change back.
fn failovers(history: &History) -> usize {
    let mut changes = 0;
    let mut last = None;
    let mut since_us = 0;
    for call in accepted(history) {
        let Fate::Done {
            origin: Some(origin), ..
        } = call.fate
        else {
            continue;
        };
        if call.sent_us < since_us || last == Some(origin) {
            continue;
        }
        changes += usize::from(last.is_some());
        last = Some(origin);
        since_us = call.over_us;
    }
    changes
}

/// Writes everything to the directory and prints some of it.
fn show(dir: &Path, run: &Disturbed, found: &Found) -> Result<()> {
    let Found {
        histories: checked,
        violations,
        ..
    } = found;
    let mut text = String::new();
    for violation in &checked.violations {
        // Text takes everything.
        let _ = writeln!(text, "{violation}");
    }
    for too_hard in &checked.too_hard {
        let _ = writeln!(text, "{too_hard}");
    }
    for violation in violations {
        let _ = writeln!(text, "{}: {}", key(violation.born), violation.what);
    }
    fs::write(dir.join("histories.txt"), text)?;
    let wrong = checked.violations.iter().map(|violation| violation.key.clone());
    let wrong: BTreeSet<_> = wrong
        .chain(violations.iter().map(|violation| key(violation.born)))
        .collect();
    fs::write(dir.join("calls.txt"), calls(&run.history, &wrong))?;
    for violation in checked.violations.iter().take(PICTURES_MAX) {
        println!("\n{violation}");
    }
    for violation in violations.iter().take(PICTURES_MAX) {
        println!("{}: {}", key(violation.born), violation.what);
    }
    Ok(())
}

/// What callers were told of these resources, one line for each request.
fn calls(history: &History, keys: &BTreeSet<String>) -> String {
    let mut text = String::new();
    for (born, resource) in &history.resources {
        if !keys.contains(&key(*born)) {
            continue;
        }
        let path = resource.path.as_deref().unwrap_or("(unknown)");
        let _ = writeln!(text, "{}: {} {path}", key(*born), resource.collection);
        let mut own: Vec<_> = of(history, *born).collect();
        own.sort_by_key(|call| call.sent_us);
        for call in own {
            let Call {
                number,
                kind,
                caller,
                through,
                sent_us,
                over_us,
                fate,
                ..
            } = call;
            let _ = writeln!(
                text,
                "  {sent_us:>10} … {over_us:>10} µs  p{caller} through {}: {kind:?} {number}: {fate:?}",
                name(*through)
            );
        }
    }
    text
}

fn of(history: &History, born: Born) -> impl Iterator<Item = &Call> {
    history.calls.iter().filter(move |call| call.born == born)
}

fn last_line(checked: &Report) -> String {
    let text = checked.to_string();
    text.lines().last().unwrap_or_default().to_owned()
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
        *kinds.entry(violation.what.kind()).or_default() += 1;
    }
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failover_is_a_change_of_who_decides() {
        let call = |number: u64, origin, sent_us, over_us| Call {
            number,
            born: 1,
            kind: Kind::Write,
            caller: 1,
            through: 0,
            sent_us,
            over_us,
            fate: Fate::Done { found: None, origin },
        };
        let history = History {
            calls: vec![
                call(1, Some(0), 0, 10),
                call(2, Some(0), 20, 30),
                call(3, None, 31, 32),
                call(4, Some(2), 40, 50),
                // Decided before the fail-over and answered late.
                call(5, Some(0), 25, 60),
                call(6, Some(2), 61, 70),
                call(7, Some(0), 80, 90),
            ],
            ..History::default()
        };
        assert_eq!(failovers(&history), 2);
    }
}
