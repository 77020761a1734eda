//! One round of questions to sites, which makes one page of the merged list.

use std::collections::HashSet;

use cheops_types::{Problem, SiteName};

use crate::{
    GatherQuery,
    token::{Cursor, PageToken, Position},
};

/// The sites to ask for one page of a merged list, and how their answers become it.
#[derive(Debug, Clone)]
pub struct Round {
    pub(crate) query: GatherQuery,
    fetches: Vec<Fetch>,
    /// Parallel to `fetches`.
    pub(crate) cursors: Vec<Cursor>,
    /// All sites of the scope, each once.
    pub(crate) order: Vec<SiteName>,
    /// The first site of the scope that is not asked yet.
    pub(crate) later: Option<SiteName>,
}

/// One question to one site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetch {
    pub site: SiteName,
    /// The query to send, without `?`; empty when there is none.
    pub query: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// So many of the page's items are the site's.
    Taken(u32),
    /// The site gave no page where its items belong: the merged list is not complete.
    Missing,
    /// The site's items come on a later page, for which it is asked again; its answer, or its failure,
    /// says nothing about this one.
    Later,
}

impl GatherQuery {
    /// The sites to ask for the next page of the merged list, and with what. `sites` are the sites of
    /// the scope, in its order.
    pub fn round(&self, sites: &[SiteName]) -> Result<Round, Problem> {
        Round::new(self, sites)
    }
}

impl Round {
    fn new(query: &GatherQuery, sites: &[SiteName]) -> Result<Self, Problem> {
        let mut seen = HashSet::new();
        let sites: Vec<_> = sites.iter().filter(|site| seen.insert(*site)).collect();
        let first_page = |site: &SiteName| Cursor {
            site: site.clone(),
            token: None,
            skip: 0,
        };
        let mut later = None;
        let cursors = match query.position.as_ref().map(|token| &token.position) {
            None if query.shape.sort.is_some() => sites.iter().map(|site| first_page(site)).collect(),
            // In the order of the scope now, which breaks ties between equal keys.
            Some(Position::Sorted(cursors)) => {
                if let Some(cursor) = cursors.iter().find(|cursor| !seen.contains(&cursor.site)) {
                    return Err(query.refuse_site(&cursor.site));
                }
                let of = |site: &&SiteName| cursors.iter().find(|cursor| cursor.site == **site);
                sites.iter().filter_map(of).cloned().collect()
            }
            position => {
                let (begin, token) = match position {
                    Some(Position::InOrder { site, token }) => {
                        let begin = sites.iter().position(|other| *other == site);
                        (begin.ok_or_else(|| query.refuse_site(site))?, token.clone())
                    }
                    _ => (0, None),
                };
                let ahead = if query.limit.is_some() {
                    query.prefetch_max
                } else {
                    sites.len()
                };
                let end = (begin + 1).saturating_add(ahead).min(sites.len());
                later = sites.get(end).map(|site| (*site).clone());
                let mut cursors: Vec<_> = sites[begin.min(end)..end]
                    .iter()
                    .map(|site| first_page(site))
                    .collect();
                if let Some(first) = cursors.first_mut() {
                    first.token = token;
                }
                cursors
            }
        };
        let fetches = cursors.iter().map(|cursor: &Cursor| Fetch {
            site: cursor.site.clone(),
            query: query.site_query(cursor.token.as_deref()),
        });
        Ok(Self {
            query: query.clone(),
            fetches: fetches.collect(),
            cursors,
            order: sites.into_iter().cloned().collect(),
            later,
        })
    }

    /// The sites that earlier pages missed.
    pub(crate) fn missed(&self) -> &[SiteName] {
        self.query.position.as_ref().map_or(&[], |token| &*token.missed)
    }

    /// The token of the next page, after one on which the sites of `shares` had these parts.
    pub(crate) fn token(&self, position: Position, shares: &[Share]) -> PageToken {
        let mut missed = self.missed().to_vec();
        let here = self.cursors.iter().zip(shares);
        missed.extend(
            here.filter(|(_, share)| **share == Share::Missing)
                .map(|(cursor, _)| cursor.site.clone()),
        );
        missed.sort_unstable();
        missed.dedup();
        PageToken { position, missed }
    }

    /// Whom to ask and with what, in the order of the scope. All may be asked at the same time.
    pub fn fetches(&self) -> &[Fetch] {
        &self.fetches
    }
}
