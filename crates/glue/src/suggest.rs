//! "Did you mean": the known word that a misspelt one is nearest to.

/// The nearest of `known` to `word`, if it is near enough to be a slip: at most a third of the word.
pub(crate) fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let distance_max = word.chars().count().div_ceil(3);
    known
        .iter()
        .map(|candidate| (distance(word, candidate), *candidate))
        .filter(|(distance, _)| *distance <= distance_max)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance, without regard to case and to `-` against `_`.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().map(fold).collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.chars().map(fold).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

fn fold(c: char) -> char {
    if c == '_' { '-' } else { c.to_ascii_lowercase() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_other_words_are_not() {
        let known = ["kind", "collection", "item", "scope-header"];
        assert_eq!(nearest("colection", &known), Some("collection"));
        assert_eq!(nearest("Kind", &known), Some("kind"));
        assert_eq!(nearest("scope_header", &known), Some("scope-header"));
        assert_eq!(nearest("itme", &known), Some("item"));
        assert_eq!(nearest("requires", &known), None);
        assert_eq!(nearest("", &known), None);
    }
}
