//! From the pages of several sites to one page of the merged list.
//!
//! Without a sort key the merged list is the sites' lists one after the other, and a site's page is
//! never cut in two. With one it is their sorted union. Either way the token of the next page says how
//! far each site was taken, and what several sites have as replicas of one resource is there once.

mod in_order;
mod once;
mod sorted;
#[cfg(test)]
mod tests;
mod write;

use cheops_types::{Code, Problem, SiteName};
use once::Once;

use crate::{ListPage, Round, marks::mark_bytes, token::Position};

/// One page of a merged list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged {
    /// The first taken site's answer with the merged items and the token of the next page.
    pub body: Vec<u8>,
    /// What became of each site whose answer was given, in the order of [`Round::fetches`].
    pub parts: Vec<Part>,
    /// Whether there is no further page.
    pub is_last: bool,
}

/// One site's part in a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    pub site: SiteName,
    pub share: Share,
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

/// Why there is no page.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    #[error("no site answered with a list")]
    NothingAnswered,
    #[error("the page tokens of the sites are too long to be carried in one of {max} bytes")]
    TokenTooLong { max: usize },
    /// The envelope could be read when its page was, so this is a defect.
    #[error("the first site's answer cannot be extended: {0}")]
    Envelope(String),
}

impl From<MergeError> for Problem {
    fn from(error: MergeError) -> Self {
        let code = match error {
            MergeError::NothingAnswered | MergeError::TokenTooLong { .. } => Code::BodyUnreadable,
            MergeError::Envelope(_) => Code::Internal,
        };
        Problem::new(code, error.to_string())
    }
}

/// Whether the pages so far decide the merged page. A sorted one needs them all.
pub(crate) fn is_settled(round: &Round, pages: &[Option<ListPage>]) -> bool {
    is_settled_at_once(round, pages).unwrap_or_else(|| in_order::is_settled(round, pages))
}

/// The same where nothing has to be known of the items.
pub(crate) fn is_settled_at_once(round: &Round, pages: &[Option<ListPage>]) -> Option<bool> {
    if round.query.shape.sort.is_some() {
        return Some(false);
    }
    in_order::is_settled_at_once(round, pages)
}

/// What making the page takes in memory at most, beside the sites' pages.
pub(crate) fn work_bytes(round: &Round, pages: &[Option<ListPage>]) -> usize {
    let pages = round.cursors.iter().zip(pages);
    let bytes = pages.filter_map(|(cursor, page)| {
        let page = page.as_ref()?;
        let mark = mark_bytes(&round.query.shape, &cursor.site);
        // The items are written once by themselves and once into the answer around them.
        let written = 2 * (page.bytes() + page.len() * mark);
        Some(written + page.len() * size_of::<(usize, usize)>() + once::work_bytes(page))
    });
    bytes.sum()
}

/// What a page consists of, before it is written.
struct Selection {
    /// Parallel to the round's fetches.
    shares: Vec<Share>,
    /// Items as (fetch, item of its page), in the order of the merged list.
    items: Vec<(usize, usize)>,
    next: Option<Position>,
}

pub(crate) fn merge(round: &Round, pages: &[Option<ListPage>]) -> Result<Merged, MergeError> {
    assert!(
        pages.len() <= round.fetches().len(),
        "no answer without a question"
    );
    let shape = &round.query.shape;
    let once = Once::new(round, pages);
    let selection = match &shape.sort {
        None => in_order::select(round, pages, &once),
        Some(key) => sorted::select(round, pages, key, &once),
    };
    let taken = |share: &Share| matches!(share, Share::Taken(_));
    let envelope = selection
        .shares
        .iter()
        .position(taken)
        .and_then(|place| pages[place].as_ref())
        .ok_or(MergeError::NothingAnswered)?;
    // Without paging every site was asked for everything.
    let next = selection.next.as_ref().filter(|_| shape.paging.is_some());
    let next = next.map(|next| round.token(next.clone(), &selection.shares).encode());
    let max = round.query.token_max_bytes;
    if next.as_ref().is_some_and(|token| token.len() > max) {
        return Err(MergeError::TokenTooLong { max });
    }
    let sites: Vec<_> = round.fetches()[..pages.len()]
        .iter()
        .map(|fetch| &fetch.site)
        .collect();
    let items = selection.items.iter().filter_map(|&(place, item)| {
        let page = pages[place].as_ref()?;
        Some((sites[place], page.item(item)))
    });
    let body = write::page(&round.query, envelope, next.as_deref(), items)?;
    let parts = sites.into_iter().cloned().zip(selection.shares);
    Ok(Merged {
        body,
        parts: parts.map(|(site, share)| Part { site, share }).collect(),
        is_last: next.is_none(),
    })
}
