//! What became of the mutants, for people and for programs.

use std::{collections::BTreeMap, fmt};

use anyhow::Result;
use serde::Serialize;

use super::{
    table::Mutant,
    workshop::{Ending, Notice},
};

const PAGE_HEAD: &str = "\
# What kills each mutant

Written by `cargo xtask mutants --page`: the invariant that did not hold and a seed that shows it, of the 2,000 ordinary
schedules or of `tests/pinned.txt`. Where no schedule notices a mutant, a test of the engine that fails. `mutants.toml` says what each one
breaks. What killed a mutant last is tried first, and all the rest only if it does not any more; `--afresh` looks for the first again.

| area | mutant | killed by |
|---|---|---|
";

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub(super) enum Verdict {
    Killed {
        by: Notice,
    },
    Survived,
    /// It survived, as the table says that it does for now.
    KnownSurvivor,
    /// It survived, as the table says that it must.
    Equivalent,
    /// The table says that it survives, or that nobody can tell it from the engine, and it is noticed.
    NowKilled {
        by: Notice,
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
        match ending {
            Ending::Passed if mutant.equivalent.is_some() => Self::Equivalent,
            Ending::Passed if mutant.survives.is_some() => Self::KnownSurvivor,
            Ending::Passed => Self::Survived,
            Ending::DoesNotBuild(error) => Self::DoesNotBuild { error },
            Ending::Noticed(by) if mutant.is_to_be_found() => Self::Killed { by },
            Ending::Noticed(by) => Self::NowKilled { by },
        }
    }

    /// Whether it is what the table promises.
    pub(super) fn is_good(&self) -> bool {
        matches!(self, Self::Killed { .. } | Self::KnownSurvivor | Self::Equivalent)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Killed { by } => write!(f, "killed by {by}"),
            Self::Survived => f.write_str("SURVIVED"),
            Self::KnownSurvivor => f.write_str("survived, as is known"),
            Self::Equivalent => f.write_str("equivalent"),
            Self::NowKilled { by } => write!(f, "NOW KILLED by {by}: the table says otherwise"),
            Self::DoesNotBuild { error } => write!(f, "DOES NOT BUILD: {error}"),
        }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Schedule { seed, invariant } => write!(f, "`{invariant}`, seed {seed}"),
            Self::Test(name) => write!(f, "test `{name}`"),
            Self::Endless => f.write_str("its not coming to an end"),
            Self::Breakdown => f.write_str("breaking down"),
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

/// The page that says what notices which mutant, for those who read the repository.
pub(super) fn page(tried: &[Tried<'_>]) -> String {
    let mut rows: Vec<_> = tried.iter().map(row_of_page).collect();
    rows.sort_unstable();
    format!("{PAGE_HEAD}{}", rows.concat())
}

fn row_of_page(Tried { mutant, verdict }: &Tried<'_>) -> String {
    let end = match (verdict, &mutant.equivalent, &mutant.survives) {
        (Verdict::Killed { by } | Verdict::NowKilled { by }, ..) => by.to_string(),
        (Verdict::Equivalent, Some(why), _) => format!("equivalent: {why}"),
        (Verdict::KnownSurvivor, _, Some(why)) => format!("survives: {why}"),
        (other, ..) => other.to_string(),
    };
    format!("| {} | {} | {end} |\n", mutant.area, mutant.name)
}

/// What the page says that each mutant was killed by.
pub(super) fn last_killers(page: &str) -> BTreeMap<String, Notice> {
    let row = |line: &str| {
        let mut cells = line.trim_matches('|').split(" | ").map(str::trim);
        let (_, name, end) = (cells.next()?, cells.next()?, cells.next()?);
        Some((name.to_owned(), notice(end)?))
    };
    page.lines().filter_map(row).collect()
}

/// What was printed of a notice that can be tried again.
fn notice(text: &str) -> Option<Notice> {
    if let Some(name) = text.strip_prefix("test `") {
        return Some(Notice::Test(name.strip_suffix('`')?.to_owned()));
    }
    let (invariant, seed) = text.strip_prefix('`')?.split_once("`, seed ")?;
    Some(Notice::Schedule {
        seed: seed.parse().ok()?,
        invariant: invariant.to_owned(),
    })
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
        Ending::Noticed(Notice::Schedule {
            seed: 7,
            invariant: "order".to_owned(),
        })
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
    fn the_page_names_what_notices() {
        let (killed, equal) = (mutant(None, None), mutant(None, Some("nobody can tell")));
        let tried = |mutant, ending| Tried {
            mutant,
            verdict: Verdict::of(mutant, ending),
        };
        let page = page(&[tried(&killed, failed()), tried(&equal, Ending::Passed)]);
        assert!(page.contains("| order | m | `order`, seed 7 |"), "{page}");
        assert!(
            page.contains("| order | m | equivalent: nobody can tell |"),
            "{page}"
        );
        let by_test = tried(&killed, Ending::Noticed(Notice::Test("names::a_name".to_owned())));
        let killers = last_killers(&format!("{page}{}", row_of_page(&by_test)));
        let Some(Notice::Test(name)) = killers.get("m") else {
            panic!("{killers:?}");
        };
        assert_eq!((name.as_str(), killers.len()), ("names::a_name", 1));
        let Ending::Noticed(seventh) = failed() else {
            unreachable!()
        };
        assert_eq!(last_killers(&page), BTreeMap::from([("m".to_owned(), seventh)]));
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
