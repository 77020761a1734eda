//! What an answer says of a request. Pure.

use cheops_types::Receipt;
use serde_json::Value;

use super::history::{Fate, Form, Kind, read};
use crate::{processes::http::Answer, trouble::origin};

/// What is read under a strong scope and marked as stale is no promise.
const STALE: &str = "110";

/// Whoever errs here errs towards unknown, which explains more histories than there are.
pub(super) fn fate(kind: Kind, form: Form, answer: &anyhow::Result<Answer>) -> Fate {
    match answer {
        Err(error) => Fate::Unknown(format!("no answer: {error}")),
        Ok(answer) if kind == Kind::Read => of_read(form, answer),
        Ok(answer) => of_write(kind, answer),
    }
}

fn of_read(form: Form, answer: &Answer) -> Fate {
    let done = |found| Fate::Done { found, origin: None };
    let is_stale = answer
        .warning
        .as_deref()
        .is_some_and(|warning| warning.starts_with(STALE));
    match answer.status {
        200 | 404 | 410 if is_stale && form == Form::Strong => Fate::Refused("stale, and says so".to_owned()),
        // A document of nobody is a value that nobody wrote.
        200 => done(Some(read(&answer.body).map_or(u64::MAX, |(_, number)| number))),
        404 | 410 => done(None),
        _ => Fate::Refused(why(answer)),
    }
}

fn of_write(kind: Kind, answer: &Answer) -> Fate {
    let receipt = answer
        .receipt
        .as_deref()
        .and_then(|receipt| Receipt::parse(receipt).ok());
    // An error of the application has no code: it has seen the request, and what was there spoke against it.
    let is_applications = answer.body["code"].is_null();
    match (answer.status, kind) {
        // Whoever is answered like this asked not to wait.
        (202, _) => Fate::Unknown(why(answer)),
        (200..=299, _) => match receipt {
            // Nobody promised anything: it may have executed where nothing is replicated.
            None => Fate::Unknown(format!("{} without a receipt", answer.status)),
            Some(receipt) => Fate::Done {
                found: None,
                origin: receipt.operation.as_deref().and_then(origin),
            },
        },
        (409, Kind::Create) | (404, Kind::Delete) if is_applications => Fate::Unmet(why(answer)),
        (400..=499, _) => Fate::Refused(why(answer)),
        _ if receipt.is_some_and(|receipt| receipt.certainly_not_executed()) => Fate::Refused(why(answer)),
        _ => Fate::Unknown(why(answer)),
    }
}

/// The status and the code of an error, or what else it says.
fn why(answer: &Answer) -> String {
    let said = &answer.body["code"];
    let said = said
        .as_str()
        .map_or_else(|| answer.body.to_string(), str::to_owned);
    format!("{} {said}", answer.status)
}

/// The id that an answer gives to what was made.
pub(super) fn id(body: &Value) -> Option<String> {
    match &body["id"] {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::history::document, *};

    const EXECUTED: &str =
        r#"plan=replicate, sites=("site2";outcome=executed;status=200), operation="72:site2.9.0.3""#;
    const NOWHERE: &str = r#"plan=replicate, sites=("site2";outcome=not-executed;error="peer_down")"#;
    const UNKNOWN: &str = r#"plan=replicate, sites=("site2";outcome=unknown)"#;

    fn answer(status: u16, receipt: Option<&str>, body: Value) -> Answer {
        Answer {
            status,
            receipt: receipt.map(str::to_owned),
            warning: None,
            body,
        }
    }

    #[track_caller]
    fn check(kind: Kind, answer: Answer, is: fn(&Fate) -> bool) {
        let text = format!("{kind:?} {answer:?}");
        let fate = fate(kind, Form::Strong, &Ok(answer));
        assert!(is(&fate), "{text}: {fate:?}");
    }

    #[test]
    fn a_write_is_judged_by_its_status_and_its_receipt() {
        let agents = || json!({ "code": "peer_down" });
        let applications = || json!({ "error": "labels already has n1" });
        let refused = |fate: &Fate| matches!(fate, Fate::Refused(_));
        let unknown = |fate: &Fate| matches!(fate, Fate::Unknown(_));
        let unmet = |fate: &Fate| matches!(fate, Fate::Unmet(_));
        check(Kind::Write, answer(200, Some(EXECUTED), json!({})), |fate| {
            *fate
                == Fate::Done {
                    found: None,
                    origin: Some(1),
                }
        });
        check(Kind::Write, answer(200, None, json!({})), unknown);
        check(Kind::Write, answer(202, Some(EXECUTED), json!({})), unknown);
        check(Kind::Write, answer(503, Some(NOWHERE), agents()), refused);
        check(Kind::Write, answer(503, Some(UNKNOWN), agents()), unknown);
        check(Kind::Write, answer(504, Some(UNKNOWN), agents()), unknown);
        check(Kind::Write, answer(503, None, agents()), unknown);
        check(Kind::Write, answer(500, None, Value::Null), unknown);
        check(Kind::Write, answer(404, None, applications()), refused);
        check(Kind::Create, answer(409, Some(EXECUTED), applications()), unmet);
        check(Kind::Create, answer(409, Some(NOWHERE), agents()), refused);
        check(
            Kind::Delete,
            answer(204, Some(EXECUTED), Value::Null),
            Fate::is_done,
        );
        check(Kind::Delete, answer(404, Some(EXECUTED), applications()), unmet);
        let lost = fate(Kind::Write, Form::Strong, &Err(anyhow::anyhow!("reset")));
        assert!(unknown(&lost), "{lost:?}");
    }

    #[test]
    fn a_read_finds_a_value_or_nothing_or_says_nothing() {
        let found = |kind, answer| fate(kind, Form::Strong, &Ok(answer));
        let done = |found| Fate::Done { found, origin: None };
        assert_eq!(
            found(Kind::Read, answer(200, None, document(5, 17))),
            done(Some(17))
        );
        assert_eq!(found(Kind::Read, answer(404, None, json!({}))), done(None));
        assert_eq!(
            found(Kind::Read, answer(200, None, json!([]))),
            done(Some(u64::MAX))
        );
        check(Kind::Read, answer(503, None, json!({})), |fate| {
            matches!(fate, Fate::Refused(_))
        });
        let mut stale = answer(200, None, document(5, 17));
        stale.warning = Some("110 - \"response is stale\"".to_owned());
        check(Kind::Read, stale, |fate| matches!(fate, Fate::Refused(_)));
        // A site that is cut off does not know what was made meanwhile.
        let mut stale = answer(404, None, json!({}));
        stale.warning = Some("110 - \"response is stale\"".to_owned());
        check(Kind::Read, stale, |fate| matches!(fate, Fate::Refused(_)));
    }

    #[test]
    fn ids_are_numbers_or_texts() {
        assert_eq!(id(&json!({ "id": 7 })).as_deref(), Some("7"));
        assert_eq!(id(&json!({ "id": "x" })).as_deref(), Some("x"));
        assert_eq!(id(&Value::Null), None);
    }
}
