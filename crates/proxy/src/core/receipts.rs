//! The receipts of requests that this site's service answered, and that went nowhere else: one for each status.

use std::cell::RefCell;

use cheops_net::Body;
use cheops_types::{Outcome, PlanKind, Receipt, SiteName, Visit};
use http::{HeaderValue, Response};

use crate::answer::{self, RECEIPT};

/// A service answers with a few statuses. Who answers with many others has their receipts written each time.
const STATUSES_MAX: usize = 8;

#[derive(Default)]
pub(crate) struct Receipts(RefCell<Vec<(u16, HeaderValue)>>);

impl Receipts {
    pub(crate) fn put(&self, response: &mut Response<Body>, receipt: &Receipt, here: &SiteName) {
        let Some(status) = status_alone(receipt, here) else {
            return answer::put_receipt(response, receipt);
        };
        let mut known = self.0.borrow_mut();
        if let Some((_, value)) = known.iter().find(|(other, _)| *other == status) {
            response.headers_mut().insert(RECEIPT, value.clone());
            return;
        }
        let Ok(value) = HeaderValue::try_from(receipt.to_header()) else {
            return;
        };
        if known.len() < STATUSES_MAX {
            known.push((status, value.clone()));
        }
        response.headers_mut().insert(RECEIPT, value);
    }
}

/// The status of the only visit, where a receipt says nothing besides.
fn status_alone(receipt: &Receipt, here: &SiteName) -> Option<u16> {
    let Receipt {
        plan: PlanKind::Local,
        complete: true,
        sites,
        workflow,
        unused,
        operation: None,
        set: None,
        held: None,
    } = receipt
    else {
        return None;
    };
    let [
        Visit {
            site,
            service: None,
            outcome: Outcome::Executed,
            status: Some(status),
            error: None,
            items: None,
        },
    ] = &**sites
    else {
        return None;
    };
    (site == here && workflow.is_empty() && unused.is_empty()).then_some(*status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_what_would_be_written() {
        let (here, far) = (SiteName::new("here").unwrap(), SiteName::new("far").unwrap());
        let local = |visit| Receipt::new(PlanKind::Local, vec![visit]);
        let with_items = Visit {
            items: Some(1),
            ..Visit::executed(&here, 200)
        };
        let mut receipts: Vec<Receipt> = (200..220)
            .map(|status| local(Visit::executed(&here, status)))
            .collect();
        receipts.extend([
            local(with_items),
            local(Visit::executed(&far, 200)),
            local(Visit::failed(&here, Outcome::Unknown, "x")),
            Receipt::new(PlanKind::Forward, vec![Visit::executed(&here, 200)]),
            Receipt {
                complete: false,
                ..local(Visit::executed(&here, 200))
            },
            Receipt {
                workflow: vec![Visit::executed(&far, 200)],
                ..local(Visit::executed(&here, 200))
            },
        ]);
        let remembered = Receipts::default();
        for receipt in receipts.iter().chain(&receipts) {
            let mut response = Response::new(Body::Empty);
            remembered.put(&mut response, receipt, &here);
            assert_eq!(response.headers()[RECEIPT], receipt.to_header());
        }
        assert_eq!(remembered.0.borrow().len(), STATUSES_MAX);
    }
}
