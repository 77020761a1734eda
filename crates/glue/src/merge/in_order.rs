//! The sites one after the other, each in its own order.

use super::{Once, Selection};
use crate::{ListPage, Round, Share, token::Position};

/// Takes whole pages only: a site's token leads to the end of its page, never into it. A page of the
/// merged list may therefore have fewer items than the caller's limit allows.
pub(super) fn select(round: &Round, pages: &[Option<ListPage>], once: &Once) -> Selection {
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
            Some(Position::InOrder { site, token })
        };
        let count = page.len() - once.left_out(place);
        if !items.is_empty() && items.len() + count > limit {
            // Only the first site of a round is asked with a token, and it always fits.
            let next = stop_at(None);
            return Selection { shares, items, next };
        }
        shares[place] = Share::Taken(count as u32);
        let taken = (0..page.len()).filter(|item| !once.leaves_out(place, *item));
        items.extend(taken.map(|item| (place, item)));
        if let Some(token) = page.next() {
            let next = stop_at(Some(token.to_owned()));
            return Selection { shares, items, next };
        }
    }
    let unasked = round.cursors.get(pages.len()).map(|cursor| &cursor.site);
    let next = unasked
        .or(round.later.as_ref())
        .cloned()
        .map(|site| Position::InOrder { site, token: None });
    Selection { shares, items, next }
}

/// What [`is_settled`] says where it does not matter what is left out.
pub(super) fn is_settled_at_once(round: &Round, pages: &[Option<ListPage>]) -> Option<bool> {
    // A site that goes on ends the page, and without a limit nothing else does.
    if pages.iter().flatten().any(|page| page.next().is_some()) {
        return Some(true);
    }
    let items: usize = pages.iter().flatten().map(ListPage::len).sum();
    if round.query.limit.is_none_or(|limit| items < limit) {
        return Some(false);
    }
    None
}

/// Whether further pages cannot change what [`select`] takes.
pub(super) fn is_settled(round: &Round, pages: &[Option<ListPage>]) -> bool {
    let limit = round.query.limit.unwrap_or(usize::MAX);
    let once = Once::new(round, pages);
    let mut items = 0;
    for (place, page) in pages.iter().enumerate() {
        let Some(page) = page else { continue };
        let count = page.len() - once.left_out(place);
        if items > 0 && items + count > limit {
            return true;
        }
        items += count;
    }
    items >= limit
}
