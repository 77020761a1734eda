//! What became of the mutants, for people and for programs.

use std::fmt;

use anyhow::Result;
use serde::Serialize;

use super::{table::Mutant, workshop::Ending};

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub(super) enum Verdict {
    Killed {
        seed: Option<u64>,
        by: String,
    },
    Survived,
    /// It survived, as the table says that it does for now.
    KnownSurvivor,
    /// It survived, as the table says that it must.
    Equivalent,
    /// The table says that it survives, or that nobody can tell it from the engine, and a schedule notices it.
    NowKilled {
        seed: Option<u64>,
        by: String,
    },
    DoesNotBuild {
        error: String,
    },
}

pub(super) struct Tried<'m> {
    pub(super) mutant: &'m Mutant,
    pub(super) verdict: Verdict,
}

/// The same for a program.
#[derive(Serialize)]
struct Row<'t> {
    mutant: &'t str,
    area: &'t str,
    wrong: &'t str,
    #[serde(flatten)]
    verdict: &'t Verdict,
}

impl Verdict {
    pub(super) fn of(mutant: &Mutant, ending: Ending) -> Self {
        let (seed, what) = match ending {
            Ending::Passed if mutant.equivalent.is_some() => return Self::Equivalent,
            Ending::Passed if mutant.survives.is_some() => return Self::KnownSurvivor,
            Ending::Passed => return Self::Survived,
            Ending::DoesNotBuild(error) => return Self::DoesNotBuild { error },
            Ending::Failed { seed, what } => (seed, what),
            Ending::Endless => (None, "endless: it does not come to an end".to_owned()),
        };
        let by = what.split(':').next().unwrap_or_default().to_owned();
        if mutant.is_to_be_found() {
            Self::Killed { seed, by }
        } else {
            Self::NowKilled { seed, by }
        }
    }

    /// Whether it is what the table promises.
    pub(super) fn is_good(&self) -> bool {
        matches!(self, Self::Killed { .. } | Self::KnownSurvivor | Self::Equivalent)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |seed: &Option<u64>| seed.map_or("no seed".to_owned(), |seed| format!("seed {seed}"));
        match self {
            Self::Killed { seed, by } => write!(f, "killed by {by}, {}", at(seed)),
            Self::Survived => f.write_str("SURVIVED"),
            Self::KnownSurvivor => f.write_str("survived, as is known"),
            Self::Equivalent => f.write_str("equivalent"),
            Self::NowKilled { seed, by } => {
                write!(f, "NOW KILLED by {by}, {}: the table says otherwise", at(seed))
            }
            Self::DoesNotBuild { error } => write!(f, "DOES NOT BUILD: {error}"),
        }
    }
}

/// One line per mutant, then the totals and what the table's reader has to do something about.
pub(super) fn table(tried: &[Tried<'_>]) -> String {
    let width = tried.iter().map(|tried| tried.mutant.name.len()).max();
    let width = width.unwrap_or(0);
    let line = |tried: &Tried<'_>| format!("{:<width$}  {}\n", tried.mutant.name, tried.verdict);
    let lines: String = tried.iter().map(line).collect();
    let bad: Vec<_> = tried.iter().filter(|tried| !tried.verdict.is_good()).collect();
    let remark = |Tried { mutant, verdict }: &&Tried<'_>| {
        let Mutant {
            name, area, wrong, ..
        } = mutant;
        format!("{name} ({area}): {verdict}\n    {wrong}\n")
    };
    let remarks: String = bad.iter().map(remark).collect();
    format!("{lines}\n{}\n{remarks}", totals(tried))
}

fn totals(tried: &[Tried<'_>]) -> String {
    let count =
        |is: fn(&Verdict) -> bool| -> usize { tried.iter().filter(|tried| is(&tried.verdict)).count() };
    let killed = count(|verdict| matches!(verdict, Verdict::Killed { .. } | Verdict::NowKilled { .. }));
    let equivalent = count(|verdict| *verdict == Verdict::Equivalent);
    let known = count(|verdict| *verdict == Verdict::KnownSurvivor);
    let survived = count(|verdict| *verdict == Verdict::Survived);
    let broken = count(|verdict| matches!(verdict, Verdict::DoesNotBuild { .. }));
    let all = tried.len();
    format!(
        "{all} mutants: {killed} killed, {equivalent} equivalent, {known} known to survive, \
         {survived} survived unexpectedly, {broken} did not build"
    )
}

pub(super) fn list(mutants: &[Mutant]) -> String {
    let lines = mutants.iter().map(|mutant| {
        let note = match (&mutant.equivalent, &mutant.survives) {
            (Some(why), _) => format!("\n    equivalent: {why}"),
            (_, Some(why)) => format!("\n    survives: {why}"),
            _ => String::new(),
        };
        format!(
            "{:<10} {} ({}): {}{note}\n",
            mutant.area, mutant.name, mutant.file, mutant.wrong
        )
    });
    lines.collect()
}

pub(super) fn json(tried: &[Tried<'_>]) -> Result<String> {
    let row = |Tried { mutant, verdict }: &'_ Tried<'_>| -> Result<serde_json::Value> {
        Ok(serde_json::to_value(Row {
            mutant: &mutant.name,
            area: &mutant.area,
            wrong: &mutant.wrong,
            verdict,
        })?)
    };
    let rows = tried.iter().map(row).collect::<Result<Vec<_>>>()?;
    Ok(serde_json::to_string_pretty(&rows)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutant(survives: Option<&str>, equivalent: Option<&str>) -> Mutant {
        Mutant {
            name: "m".to_owned(),
            area: "order".to_owned(),
            file: "step.rs".to_owned(),
            find: "a".to_owned(),
            replace: "b".to_owned(),
            wrong: "all".to_owned(),
            equivalent: equivalent.map(str::to_owned),
            survives: survives.map(str::to_owned),
        }
    }

    fn failed() -> Ending {
        Ending::Failed {
            seed: Some(7),
            what: "order: m0".to_owned(),
        }
    }

    #[test]
    fn the_list_of_survivors_can_only_shrink() {
        let is_good = |mutant: &Mutant, ending| Verdict::of(mutant, ending).is_good();
        for declared in [mutant(Some("why"), None), mutant(None, Some("why"))] {
            assert!(is_good(&declared, Ending::Passed));
            assert!(!is_good(&declared, failed()));
        }
        let other = mutant(None, None);
        assert!(is_good(&other, failed()));
        assert!(!is_good(&other, Ending::Passed));
    }

    #[test]
    fn totals_count_each_verdict() {
        let survivor = mutant(Some("why"), None);
        let tried = [Ending::Passed, failed()].map(|ending| Tried {
            mutant: &survivor,
            verdict: Verdict::of(&survivor, ending),
        });
        assert!(totals(&tried).starts_with("2 mutants: 1 killed, 0 equivalent, 1 known to survive"));
    }
}
