//! Words for people: what was probably meant, and several as one list.

/// Candidates that are compared: a mesh may have thousands of sites, and a wrong name costs nothing.
const COMPARED_MAX: usize = 4096;

/// The candidate nearest to `written`, if it is near enough to be a slip: a third of the word may be wrong. Case does not count, nor
/// `-` against `_`.
pub fn nearest<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let fold = |word: &str| word.to_ascii_lowercase().replace('_', "-");
    let written = fold(written);
    let tolerated = (written.len() / 3).max(1);
    candidates
        .into_iter()
        .take(COMPARED_MAX)
        .filter(|candidate| candidate.len().abs_diff(written.len()) <= tolerated)
        .map(|candidate| (strsim::osa_distance(&written, &fold(candidate)), candidate))
        .filter(|(distance, _)| *distance <= tolerated)
        .min()
        .map(|(_, candidate)| candidate)
}

/// `` `a`, `b` and `c` ``, with another word than "and" if need be.
pub fn listed<'a>(names: impl IntoIterator<Item = &'a str>, and: &str) -> String {
    let mut names: Vec<_> = names.into_iter().map(|name| format!("`{name}`")).collect();
    match names.pop() {
        None => "nothing".to_owned(),
        Some(last) if names.is_empty() => last,
        Some(last) => format!("{} {and} {last}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_other_words_are_not() {
        for (written, meant) in [
            ("sit2", Some("site2")),
            ("Paris", Some("paris")),
            ("pairs", Some("paris")),
            ("loyn", Some("lyon")),
            ("tokyo", None),
            ("", None),
            ("colection", Some("collection")),
            ("scope_header", Some("scope-header")),
        ] {
            let known = ["site1", "site2", "paris", "lyon", "collection", "scope-header"];
            assert_eq!(nearest(written, known), meant, "{written}");
        }
    }

    #[test]
    fn lists() {
        assert_eq!(listed([], "and"), "nothing");
        assert_eq!(listed(["a"], "and"), "`a`");
        assert_eq!(listed(["a", "b", "c"], "or"), "`a`, `b` or `c`");
    }
}
