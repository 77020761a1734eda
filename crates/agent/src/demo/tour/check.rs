//! What a step expects of an answer, and what it saw instead.

use std::fmt::Debug;

use cheops_types::{Outcome, PlanKind, Receipt, Visit};
use serde_json::Value;

use crate::demo::exchange::Answer;

/// Collects the differences between an answer and what it should be.
#[derive(Debug)]
pub(super) struct Check<'a> {
    answer: &'a Answer,
    receipt: Option<Receipt>,
    wrong: Vec<String>,
}

impl<'a> Check<'a> {
    pub(super) fn of(answer: &'a Answer) -> Self {
        let mut wrong = Vec::new();
        let receipt = answer.receipt().and_then(|receipt| match receipt {
            Ok(receipt) => Some(receipt),
            Err(error) => {
                wrong.push(error);
                None
            }
        });
        Self {
            answer,
            receipt,
            wrong,
        }
    }

    /// One sentence for each difference.
    pub(super) fn wrong(self) -> Vec<String> {
        self.wrong
    }

    pub(super) fn body(&self) -> Value {
        self.answer.json()
    }

    pub(super) fn status(self, expected: u16) -> Self {
        let seen = self.answer.status.as_u16();
        self.same("status", &expected, &seen)
    }

    /// One of two statuses, where both are right.
    pub(super) fn status_among(mut self, expected: &[u16]) -> Self {
        let seen = self.answer.status.as_u16();
        if !expected.contains(&seen) {
            self.differs("status", &expected, &seen);
        }
        self
    }

    pub(super) fn text(self, expected: &str) -> Self {
        let seen = self.answer.text();
        self.same("body", expected, seen.as_str())
    }

    /// The body's member at a JSON pointer.
    pub(super) fn member(self, pointer: &str, expected: impl Into<Value>) -> Self {
        let body = self.answer.json();
        let seen = body.pointer(pointer).cloned().unwrap_or_default();
        self.same(pointer, &expected.into(), &seen)
    }

    /// A text anywhere in the body.
    pub(super) fn mentions(mut self, expected: &str) -> Self {
        let seen = self.answer.text();
        if !seen.contains(expected) {
            self.differs("body", &format!("…{expected}…"), &seen);
        }
        self
    }

    /// The list's items, each as its site and its name.
    pub(super) fn items(self, expected: &[(&str, &str)]) -> Self {
        let seen = items(&self.answer.json());
        let expected: Vec<_> = expected
            .iter()
            .map(|(site, name)| ((*site).to_owned(), (*name).to_owned()))
            .collect();
        self.same("items", &expected, &seen)
    }

    pub(super) fn no_receipt(self) -> Self {
        let seen = self.receipt.clone();
        self.same("receipt", &None, &seen)
    }

    pub(super) fn plan(self, expected: PlanKind) -> Self {
        let seen = self.receipt.as_ref().map(|receipt| receipt.plan);
        self.same("plan", &Some(expected), &seen)
    }

    pub(super) fn complete(self, expected: bool) -> Self {
        let seen = self.receipt.as_ref().map(|receipt| receipt.complete);
        self.same("complete", &Some(expected), &seen)
    }

    /// The sites that executed the request, in the receipt's order.
    pub(super) fn executed(self, expected: &[&str]) -> Self {
        let seen = self.sites(|visit| visit.outcome == Outcome::Executed);
        self.same("sites that executed", expected, seen.as_slice())
    }

    /// The sites that did not answer, in the receipt's order.
    pub(super) fn missing(self, expected: &[&str]) -> Self {
        let seen = self.sites(|visit| visit.outcome != Outcome::Executed);
        self.same("sites that did not", expected, seen.as_slice())
    }

    /// The sites where the operation has yet to execute, in the receipt's order.
    pub(super) fn pending(self, expected: &[&str]) -> Self {
        let seen = self.sites(|visit| visit.outcome == Outcome::Pending);
        self.same("sites that will", expected, seen.as_slice())
    }

    /// A site whose answer was lost: it may have executed the request.
    pub(super) fn unknown(self, expected: &[&str]) -> Self {
        let seen = self.sites(|visit| visit.outcome == Outcome::Unknown);
        self.same("sites that may have", expected, seen.as_slice())
    }

    /// Where later calls of the workflow were executed, as `service@site`.
    pub(super) fn workflow(self, expected: &[&str]) -> Self {
        let visits = self.receipt.as_ref().map(|receipt| receipt.workflow.as_slice());
        let seen: Vec<_> = visits
            .unwrap_or_default()
            .iter()
            .map(|visit| {
                let service = visit.service.as_ref().map_or("?", |name| name.as_str());
                format!("{service}@{}", visit.site)
            })
            .collect();
        self.same("workflow", expected, seen.as_slice())
    }

    /// Any other condition, in words.
    pub(super) fn that(mut self, holds: bool, expected: &str) -> Self {
        if !holds {
            self.wrong.push(format!("expected {expected}"));
        }
        self
    }

    fn sites(&self, which: impl Fn(&Visit) -> bool) -> Vec<String> {
        let visits = self.receipt.as_ref().map(|receipt| receipt.sites.as_slice());
        let visits = visits.unwrap_or_default().iter();
        visits
            .filter(|visit| which(visit))
            .map(|visit| visit.site.to_string())
            .collect()
    }

    fn same<T, U>(mut self, what: &str, expected: &T, seen: &U) -> Self
    where
        T: PartialEq<U> + Debug + ?Sized,
        U: Debug + ?Sized,
    {
        if expected != seen {
            self.differs(what, &expected, &seen);
        }
        self
    }

    fn differs(&mut self, what: &str, expected: &dyn Debug, seen: &dyn Debug) {
        self.wrong
            .push(format!("{what}: expected {expected:?}, saw {seen:?}"));
    }
}

/// The items of a merged list, each as its site and its name.
pub(super) fn items(list: &Value) -> Vec<(String, String)> {
    let member = |item: &Value, name: &str| item[name].as_str().unwrap_or("?").to_owned();
    list["items"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|item| (member(item, "@site"), member(item, "name")))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::{HeaderMap, StatusCode};

    use super::*;

    fn answer(receipt: Option<&str>, body: &str) -> Answer {
        let mut headers = HeaderMap::new();
        if let Some(receipt) = receipt {
            headers.insert("cheops-receipt", receipt.parse().unwrap());
        }
        Answer {
            status: StatusCode::OK,
            headers,
            body: body.to_owned().into(),
            took: Duration::ZERO,
        }
    }

    const GATHER: &str = r#"plan=gather, complete=?0, sites=("site1";outcome=executed;status=200 "site2";outcome=not-executed;error="peer_timeout"), workflow=("site3";service="B";outcome=executed;status=200)"#;

    #[test]
    fn what_is_right_is_not_wrong() {
        let answer = answer(Some(GATHER), r#"{"items":[{"name":"bolt","@site":"site1"}]}"#);
        let check = Check::of(&answer)
            .status(200)
            .status_among(&[200, 201])
            .mentions("bolt")
            .items(&[("site1", "bolt")])
            .member("/items/0/name", "bolt")
            .plan(PlanKind::Gather)
            .complete(false)
            .executed(&["site1"])
            .missing(&["site2"])
            .unknown(&[])
            .workflow(&["B@site3"])
            .that(true, "nothing");
        assert_eq!(check.wrong(), [""; 0]);
    }

    #[test]
    fn every_difference_is_told() {
        let told = |check: fn(Check<'_>) -> Check<'_>, expected: &str| {
            let answer = answer(Some(GATHER), "hello");
            let wrong = check(Check::of(&answer)).wrong();
            assert_eq!(wrong, [expected]);
        };
        told(|check| check.status(201), "status: expected 201, saw 200");
        told(|check| check.text("bye"), "body: expected \"bye\", saw \"hello\"");
        told(
            |check| check.plan(PlanKind::Local),
            "plan: expected Some(Local), saw Some(Gather)",
        );
        told(
            |check| check.executed(&["site2"]),
            "sites that executed: expected [\"site2\"], saw [\"site1\"]",
        );
        told(
            |check| check.workflow(&[]),
            "workflow: expected [], saw [\"B@site3\"]",
        );
        told(|check| check.that(false, "more"), "expected more");
    }

    #[test]
    fn a_receipt_that_cannot_be_read_is_wrong() {
        let answer = answer(Some("nonsense"), "");
        assert_eq!(Check::of(&answer).wrong().len(), 1);
    }
}
