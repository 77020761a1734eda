//! What the agent says of itself, in the words that kubectl reads.

use cheops_types::{Code, Outcome, Problem, Receipt};
use http::StatusCode;
use serde_json::{Value, json};

/// An error as the API server writes it; kubectl shows the reason and the message.
pub(super) fn status(code: StatusCode, reason: &str, message: &str) -> Vec<u8> {
    let status = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        // kubectl knows the usual reasons, and goes by the code where it does not know one.
        "reason": reason,
        "code": code.as_u16(),
    });
    status.to_string().into_bytes()
}

/// The agent's problem as kubectl's status.
pub(super) fn from_problem(code: StatusCode, problem: &Value) -> Vec<u8> {
    let text = |member: &str| problem.get(member).and_then(Value::as_str);
    let message = text("detail")
        .or_else(|| text("title"))
        .unwrap_or("the agent refused");
    status(code, text("code").unwrap_or("Cheops"), message)
}

/// Whether a problem is that the scope itself is wrong: no request of this command can succeed.
pub(super) fn is_about_scope(problem: &Value) -> bool {
    const WRONG: [Code; 7] = [
        Code::ScopeSyntax,
        Code::ScopeMeaning,
        Code::ScopeTooLong,
        Code::ScopeTooDeep,
        Code::UnknownSite,
        Code::UnknownService,
        Code::UnknownFunction,
    ];
    let code = problem.get("code").and_then(Value::as_str);
    code.is_some_and(|code| WRONG.iter().any(|wrong| wrong.as_str() == code))
}

pub(super) fn is_problem(content_type: &[u8]) -> bool {
    content_type
        .split(|byte| *byte == b';')
        .next()
        .is_some_and(|media| {
            media
                .trim_ascii()
                .eq_ignore_ascii_case(Problem::CONTENT_TYPE.as_bytes())
        })
}

/// Warnings, which kubectl shows beside the result, about the sites that a receipt says are missing from it.
pub(super) fn warnings(receipt: &str) -> Vec<String> {
    let Ok(receipt) = Receipt::parse(receipt) else {
        return Vec::new();
    };
    if receipt.complete {
        return Vec::new();
    }
    let missing = receipt.sites.iter().filter(|visit| {
        visit.outcome != Outcome::Executed
            || visit.error.is_some()
            || visit.status.is_some_and(|code| code >= 400)
    });
    missing
        .map(|visit| {
            let why = match (&visit.error, visit.status) {
                (Some(error), _) => error.clone(),
                (None, Some(status)) => format!("it answered {status}"),
                (None, None) => visit.outcome.to_string(),
            };
            // 299: any warning; `-`: from an agent without a name.
            format!("299 - \"{} is missing here: {why}\"", visit.site)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_become_statuses() {
        let problem = json!({ "code": "peer_down", "title": "t", "detail": "site2 is down" });
        let bytes = from_problem(StatusCode::BAD_GATEWAY, &problem);
        let status: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(status["kind"], "Status");
        assert_eq!(status["status"], "Failure");
        assert_eq!(status["reason"], "peer_down");
        assert_eq!(status["message"], "site2 is down");
        assert_eq!(status["code"], 502);
        assert!(!is_about_scope(&problem));
        assert!(is_about_scope(&json!({ "code": "unknown_site" })));
        assert!(is_problem(b"application/problem+json; charset=utf-8"));
        assert!(!is_problem(b"application/json"));
    }

    #[test]
    fn missing_sites_are_warned_of() {
        let warned = |receipt| warnings(receipt);
        assert!(warned("plan=local, sites=(\"site1\";outcome=executed;status=200)").is_empty());
        assert!(warned("nonsense").is_empty());
        assert_eq!(
            warned(
                "plan=gather, complete=?0, sites=(\"site1\";outcome=executed;status=200 \
                 \"site2\";outcome=not-executed;error=\"peer_down\" \"site3\";outcome=executed;status=403)"
            ),
            [
                "299 - \"site2 is missing here: peer_down\"",
                "299 - \"site3 is missing here: it answered 403\"",
            ]
        );
    }
}
