//! One resource that spans sites, and how a count is divided among them.

use serde::{Deserialize, Serialize};

use crate::SiteName;

/// How a cross resource spans its sites. Chosen when it is made, the same at all of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    pub form: SpanForm,
    /// The sites as the scope named them. Those that joined later come behind them, by name.
    pub order: Vec<SiteName>,
    pub unreserved: Unreserved,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpanForm {
    /// It contains others: each of those is at one site, and its name is taken at all of them.
    Container,
    /// A count in it is divided among the sites.
    Divided,
}

/// What becomes of a create in a container whose prime site cannot be asked for the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unreserved {
    #[default]
    Refuse,
    /// It is made, and told to the prime site afterwards. Of two of the same name the earlier keeps it; the
    /// other is flagged.
    Flag,
}

impl Span {
    /// The sites that are there, the prime site first.
    pub fn ordered<'s>(&self, members: impl IntoIterator<Item = &'s SiteName>) -> Vec<SiteName> {
        let place = |site: &SiteName| self.order.iter().position(|known| known == site);
        let mut sites: Vec<SiteName> = members.into_iter().cloned().collect();
        sites.sort_by(|a, b| {
            let rank = |site: &SiteName| place(site).unwrap_or(usize::MAX);
            rank(a).cmp(&rank(b)).then_with(|| a.cmp(b))
        });
        sites.dedup();
        sites
    }

    /// The site that gives names away: the first that is still there.
    pub fn prime<'s>(&self, members: impl IntoIterator<Item = &'s SiteName>) -> Option<SiteName> {
        self.ordered(members).into_iter().next()
    }

    /// Divides a count among the sites that are there. A site without a weight has 1.
    pub fn divide<'s>(
        &self,
        pointer: String,
        total: u64,
        members: impl IntoIterator<Item = &'s SiteName>,
        weights: &[(SiteName, u32)],
    ) -> Share {
        let weight = |site: &SiteName| {
            let listed = weights.iter().find(|(known, _)| known == site);
            listed.map_or(1, |(_, weight)| *weight)
        };
        let sites = self.ordered(members);
        let in_order: Vec<u32> = sites.iter().map(weight).collect();
        Share {
            pointer,
            parts: sites.into_iter().zip(divide(total, &in_order)).collect(),
            weights: weights.to_vec(),
        }
    }
}

/// A count that is divided: where it stands in the resource, and each site's part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// A JSON pointer into the resource.
    pub pointer: String,
    pub parts: Vec<(SiteName, u64)>,
    /// By which it was divided, and is again when the whole changes. A site that is not listed has 1.
    pub weights: Vec<(SiteName, u32)>,
}

impl Share {
    pub fn total(&self) -> u64 {
        self.parts.iter().map(|(_, part)| part).sum()
    }

    /// A site that is not among them has nothing: it came later.
    pub fn part_of(&self, site: &SiteName) -> u64 {
        let found = self.parts.iter().find(|(known, _)| known == site);
        found.map_or(0, |(_, part)| *part)
    }
}

/// Parts of a whole in proportion to weights. What is left over goes one each to those that lost most by
/// rounding, the earlier first. Where nobody has a weight, all have the same.
fn divide(total: u64, weights: &[u32]) -> Vec<u64> {
    let even = vec![1; weights.len()];
    let weights = if weights.iter().all(|weight| *weight == 0) {
        &even
    } else {
        weights
    };
    let sum: u128 = weights.iter().map(|weight| u128::from(*weight)).sum();
    if sum == 0 {
        return Vec::new();
    }
    let exact = |weight: &u32| u128::from(total) * u128::from(*weight);
    let mut parts: Vec<u64> = weights
        .iter()
        .map(|weight| (exact(weight) / sum) as u64)
        .collect();
    let left = total - parts.iter().sum::<u64>();
    let mut by_loss: Vec<usize> = (0..weights.len()).collect();
    by_loss.sort_by_key(|place| std::cmp::Reverse(exact(&weights[*place]) % sum));
    for place in by_loss.into_iter().take(left as usize) {
        parts[place] += 1;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(name: &str) -> SiteName {
        SiteName::new(name).unwrap()
    }

    fn span(order: &[&str]) -> Span {
        Span {
            form: SpanForm::Divided,
            order: order.iter().map(|name| site(name)).collect(),
            unreserved: Unreserved::Refuse,
        }
    }

    #[test]
    fn the_first_that_is_left_is_the_prime_site() {
        let span = span(&["n", "a"]);
        let members = ["a", "b", "n", "0"].map(site);
        let names = |sites: Vec<SiteName>| sites.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(names(span.ordered(&members)), ["n", "a", "0", "b"]);
        assert_eq!(span.prime(&members[..2]), Some(site("a")));
        assert_eq!(span.prime(&[]), None);
    }

    #[test]
    fn parts_add_up_and_rest_goes_to_the_first() {
        for (total, weights, expect) in [
            (10, &[1, 1][..], &[5, 5][..]),
            (7, &[1, 1], &[4, 3]),
            (7, &[1], &[7]),
            (10, &[1, 1, 1], &[4, 3, 3]),
            (11, &[1, 1, 1], &[4, 4, 3]),
            (10, &[1, 3], &[3, 7]),
            (10, &[0, 1], &[0, 10]),
            (3, &[0, 0], &[2, 1]),
            (0, &[1, 1], &[0, 0]),
            (1, &[1, 2, 1], &[0, 1, 0]),
            (5, &[], &[]),
            (u64::MAX, &[u32::MAX, u32::MAX], &[u64::MAX / 2 + 1, u64::MAX / 2]),
        ] {
            assert_eq!(divide(total, weights), expect, "{total} {weights:?}");
        }
        let members = ["a", "b"].map(site);
        let share = span(&["b", "a"]).divide("/n".to_owned(), 4, &members, &[(site("a"), 2)]);
        assert_eq!(share.parts, [(site("b"), 1), (site("a"), 3)]);
        assert_eq!(
            (
                share.total(),
                share.part_of(&site("b")),
                share.part_of(&site("c"))
            ),
            (4, 1, 0)
        );
    }
}
