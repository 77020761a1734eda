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

use crate::{ListPage, Round, Share, marks::mark_bytes, token::Position};

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

impl Round {
    /// Whether `pages`, the answers to the first questions, decide the page, so that the other questions need not
    /// be waited for. A sorted page needs them all.
    pub fn is_settled(&self, pages: &[Option<ListPage>]) -> bool {
        self.is_settled_at_once(pages)
            .unwrap_or_else(|| in_order::is_settled(self, pages))
    }

    /// What [`Round::is_settled`] says, where that takes no longer with longer pages.
    pub fn is_settled_at_once(&self, pages: &[Option<ListPage>]) -> Option<bool> {
        if self.query.shape.sort.is_some() {
            return Some(false);
        }
        in_order::is_settled_at_once(self, pages)
    }

    /// What [`Round::merge`] takes in memory at most, beside `pages`.
    pub fn work_bytes(&self, pages: &[Option<ListPage>]) -> usize {
        let pages = self.cursors.iter().zip(pages);
        let bytes = pages.filter_map(|(cursor, page)| {
            let page = page.as_ref()?;
            let mark = mark_bytes(&self.query.shape, &cursor.site);
            // The items are written once by themselves and once into the answer around them.
            let written = 2 * (page.bytes() + page.len() * mark);
            Some(written + page.len() * size_of::<(usize, usize)>() + once::work_bytes(page))
        });
        bytes.sum()
    }

    /// Makes the page. `pages` are the answers to [`Round::fetches`], in the same order, or the first of
    /// them if they settle it; none where a site failed or its answer is not a list.
    pub fn merge(&self, pages: &[Option<ListPage>]) -> Result<Merged, MergeError> {
        assert!(
            pages.len() <= self.fetches().len(),
            "no answer without a question"
        );
        let shape = &self.query.shape;
        let once = Once::new(self, pages);
        let selection = match &shape.sort {
            None => in_order::select(self, pages, &once),
            Some(key) => sorted::select(self, pages, key, &once),
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
        let next = next.map(|next| self.token(next.clone(), &selection.shares).encode());
        let max = self.query.token_max_bytes;
        if next.as_ref().is_some_and(|token| token.len() > max) {
            return Err(MergeError::TokenTooLong { max });
        }
        let sites: Vec<_> = self.fetches()[..pages.len()]
            .iter()
            .map(|fetch| &fetch.site)
            .collect();
        let items = selection.items.iter().filter_map(|&(place, item)| {
            let page = pages[place].as_ref()?;
            Some((sites[place], page.item(item)))
        });
        let body = write::page(&self.query, envelope, next.as_deref(), items)?;
        let parts = sites.into_iter().cloned().zip(selection.shares);
        Ok(Merged {
            body,
            parts: parts.map(|(site, share)| Part { site, share }).collect(),
            is_last: next.is_none(),
        })
    }
}

/// What a page consists of, before it is written.
struct Selection {
    /// Parallel to the round's fetches.
    shares: Vec<Share>,
    /// Items as (fetch, item of its page), in the order of the merged list.
    items: Vec<(usize, usize)>,
    next: Option<Position>,
}
