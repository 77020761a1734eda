//! Which items of a round are left out, because another site shows the same resource.

use std::collections::{HashMap, HashSet};

use cheops_types::SiteName;

use crate::{ListPage, Round};

/// Of the replicas of one resource the one of the first site in the order of the scope is shown.
///
/// What the pages of one round show is known, so within it each resource is there once. A site whose list
/// is not all in front of us counts as showing what it is known to have, unless it was missed.
#[derive(Debug)]
pub(super) struct Once {
    /// By page; empty when nothing is left out.
    left_out: Vec<HashSet<usize>>,
}

/// What it takes in memory at most to find what of a page is left out.
pub(super) fn work_bytes(page: &ListPage) -> usize {
    // An entry by name, one by place, and tables are up to half empty.
    let entry = size_of::<((&str, &str), usize)>() + size_of::<usize>();
    2 * page.replicas().len() * entry
}

impl Once {
    pub(super) fn new(round: &Round, pages: &[Option<ListPage>]) -> Self {
        let is_marked = |page: &ListPage| !page.replicas().is_empty();
        if !pages.iter().flatten().any(is_marked) {
            return Self { left_out: Vec::new() };
        }
        let mut first: HashMap<(&str, &str), usize> = HashMap::new();
        for (place, page) in pages.iter().enumerate() {
            for replica in page.iter().flat_map(ListPage::replicas) {
                first.entry((&replica.kind, &replica.key)).or_insert(place);
            }
        }
        let elsewhere = Elsewhere::new(round, pages);
        let left_out = pages.iter().enumerate().map(|(place, page)| {
            let here = elsewhere.order[&round.cursors[place].site];
            let replicas = page.iter().flat_map(ListPage::replicas);
            let is_shown_before = replicas.filter(|replica| {
                first[&(&*replica.kind, &*replica.key)] < place
                    || elsewhere.is_shown_before(here, &replica.sites)
            });
            is_shown_before.map(|replica| replica.place).collect()
        });
        Self {
            left_out: left_out.collect(),
        }
    }

    pub(super) fn leaves_out(&self, place: usize, item: usize) -> bool {
        self.left_out
            .get(place)
            .is_some_and(|items| items.contains(&item))
    }

    /// How many items of a page are left out.
    pub(super) fn left_out(&self, place: usize) -> usize {
        self.left_out.get(place).map_or(0, HashSet::len)
    }
}

/// The sites whose lists are shown on other pages, at least in part.
struct Elsewhere<'r> {
    order: HashMap<&'r SiteName, usize>,
    /// Missed, or all in front of us.
    settled: HashSet<&'r SiteName>,
}

impl<'r> Elsewhere<'r> {
    fn new(round: &'r Round, pages: &[Option<ListPage>]) -> Self {
        let order = round.order.iter().enumerate().map(|(place, site)| (site, place));
        let is_whole = |page: &Option<ListPage>, began: bool| match page {
            Some(page) => began && page.next().is_none(),
            None => true,
        };
        let here = round.cursors.iter().zip(pages);
        let whole = here.filter(|(cursor, page)| is_whole(page, cursor.token.is_none()));
        Self {
            order: order.collect(),
            settled: whole
                .map(|(cursor, _)| &cursor.site)
                .chain(round.missed())
                .collect(),
        }
    }

    /// Whether one of `sites` comes before the place `here` in the scope and shows its items elsewhere.
    fn is_shown_before(&self, here: usize, sites: &[SiteName]) -> bool {
        let is_before = |site| self.order.get(site).is_some_and(|place| *place < here);
        sites
            .iter()
            .any(|site| is_before(site) && !self.settled.contains(site))
    }
}
