//! The sites one after the other, each in its own order.

use super::{Selection, Share};
use crate::{ListPage, Round, token::PageToken};

/// Takes whole pages only: a site's token leads to the end of its page, never into it. A page of the
/// merged list may therefore have fewer items than the caller's limit allows.
pub(super) fn select(round: &Round<'_>, pages: &[Option<ListPage>]) -> Selection {
    let limit = round.query.limit.unwrap_or(usize::MAX);
    let mut shares = vec![Share::Later; pages.len()];
    let mut items = Vec::new();
    for (place, (cursor, page)) in round.cursors.iter().zip(pages).enumerate() {
        let Some(page) = page else {
            shares[place] = Share::Missing;
            continue;
        };
        let stop_at = |token| {
            let site = cursor.site.clone();
            Some(PageToken::InOrder { site, token })
        };
        if !items.is_empty() && items.len() + page.len() > limit {
            // Only the first site of a round is asked with a token, and it always fits.
            let next = stop_at(None);
            return Selection { shares, items, next };
        }
        shares[place] = Share::Taken(page.len() as u32);
        items.extend((0..page.len()).map(|item| (place, item)));
        if let Some(token) = page.next() {
            let next = stop_at(Some(token.to_owned()));
            return Selection { shares, items, next };
        }
    }
    let unasked = round.cursors.get(pages.len()).map(|cursor| &cursor.site);
    let next = unasked
        .or(round.later.as_ref())
        .cloned()
        .map(|site| PageToken::InOrder { site, token: None });
    Selection { shares, items, next }
}

/// Whether further pages cannot change what [`select`] takes.
pub(super) fn is_settled(limit: Option<usize>, pages: &[Option<ListPage>]) -> bool {
    let mut items = 0;
    for page in pages.iter().flatten() {
        let fits = items == 0 || limit.is_none_or(|limit| items + page.len() <= limit);
        if !fits || page.next().is_some() {
            return true;
        }
        items += page.len();
    }
    limit.is_some_and(|limit| items >= limit)
}
