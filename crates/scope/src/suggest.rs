//! What was probably meant.

/// Lists up to this length are shown whole.
const LISTED_MAX: usize = 12;
/// Candidates that are compared: a mesh may have thousands of sites, and a wrong scope costs nothing.
const COMPARED_MAX: usize = 4096;

/// The candidate nearest to `written`, if one is near enough to be meant.
pub(crate) fn nearest<'a>(written: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let written = written.to_ascii_lowercase();
    let tolerated = (written.len() / 3).max(1);
    candidates
        .take(COMPARED_MAX)
        .filter(|candidate| candidate.len().abs_diff(written.len()) <= tolerated)
        .map(|candidate| {
            (
                strsim::osa_distance(&written, &candidate.to_ascii_lowercase()),
                candidate,
            )
        })
        .filter(|(distance, _)| *distance <= tolerated)
        .min()
        .map(|(_, candidate)| candidate)
}

/// `` `a`, `b` and `c` ``, or `None` when there are none or too many to read.
pub(crate) fn list<'a>(names: impl Iterator<Item = &'a str>) -> Option<String> {
    let mut names: Vec<_> = names
        .take(LISTED_MAX + 1)
        .map(|name| format!("`{name}`"))
        .collect();
    if names.len() > LISTED_MAX {
        return None;
    }
    let last = names.pop()?;
    Some(if names.is_empty() {
        last
    } else {
        format!("{} and {last}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_name() {
        let sites = ["site1", "site2", "paris", "lyon"];
        for (written, meant) in [
            ("sit2", Some("site2")),
            ("Paris", Some("paris")),
            ("pairs", Some("paris")),
            ("loyn", Some("lyon")),
            ("tokyo", None),
            ("", None),
        ] {
            assert_eq!(nearest(written, sites.into_iter()), meant, "{written}");
        }
    }

    #[test]
    fn lists() {
        assert_eq!(list([].into_iter()), None);
        assert_eq!(list(["a"].into_iter()).as_deref(), Some("`a`"));
        assert_eq!(
            list(["a", "b", "c"].into_iter()).as_deref(),
            Some("`a`, `b` and `c`")
        );
        assert_eq!(list(["a"; 13].into_iter()), None);
    }
}
