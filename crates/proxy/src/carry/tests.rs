use cheops_glue::KeyFormat;
use cheops_scope::{ParseLimits, parse};

use super::*;
use crate::correlation::{Carried, Owner};

const FOREIGN: HeaderValue =
    HeaderValue::from_static("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");

fn correlation() -> Correlation {
    Correlation::new(KeyMaker::new(&[1; 16], &[2; 16]))
}

/// The same agent after a restart: it knows its keys, and no scope.
fn restarted() -> Correlation {
    Correlation::new(KeyMaker::new(&[1; 16], &[3; 16]))
}

fn begin(correlation: &Correlation, text: &str) -> Workflow {
    let limits = ParseLimits {
        max_bytes: 1000,
        max_depth: 4,
    };
    let carried = Carried::new(parse(text, &limits).unwrap());
    correlation
        .begin(&carried, Owner::COMMON, &Limits::default())
        .unwrap()
}

/// The scope that is found, `lost`, or `foreign`.
fn found(headers: &HeaderMap, carriers: &[Carrier], correlation: &Correlation) -> String {
    match find_workflow(headers, carriers, correlation, &Limits::default()) {
        Found::Known(workflow) => workflow.carried.text.clone(),
        Found::Lost => "lost".to_owned(),
        Found::Foreign => "foreign".to_owned(),
    }
}

#[test]
fn the_callers_trace_is_replaced_and_linked() {
    let correlation = correlation();
    let workflow = begin(&correlation, "B: site2");
    let mut headers = HeaderMap::new();
    let callers = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    headers.insert(TRACEPARENT, HeaderValue::from_static(callers));
    headers.insert(TRACESTATE, HeaderValue::from_static("other=1"));
    write(&mut headers, &workflow, &[Carrier::Traceparent], &correlation);
    let written = headers[TRACEPARENT].to_str().unwrap();
    assert_eq!(written, format!("00-{:032x}-b7ad6b7169203331-01", workflow.key));
    assert_eq!(
        headers[TRACESTATE],
        "cheops-link=0af7651916cd43dd8448eb211c80319c,other=1"
    );
    assert_eq!(found(&headers, &[Carrier::Traceparent], &correlation), "B: site2");
    assert_eq!(found(&headers, &[Carrier::Traceparent], &restarted()), "lost");
}

#[test]
fn a_member_carries_the_scope_itself() {
    for (carrier, name) in [(Carrier::Tracestate, TRACESTATE), (Carrier::Baggage, BAGGAGE)] {
        let (before, carriers) = (correlation(), [carrier]);
        let workflow = begin(&before, "A: site1, B: site2 ; site3");
        let mut headers = HeaderMap::new();
        headers.insert(&name, HeaderValue::from_static("other=1"));
        write(&mut headers, &workflow, &carriers, &before);
        assert_eq!(found(&headers, &carriers, &before), "A: site1, B: site2 ; site3");
        assert_eq!(
            found(&headers, &carriers, &restarted()),
            "A: site1, B: site2 ; site3"
        );
        let stranger = Correlation::new(KeyMaker::new(&[4; 16], &[2; 16]));
        assert_eq!(found(&headers, &carriers, &stranger), "lost");
    }
}

#[test]
fn a_member_that_nobody_wrote_like_that_is_an_error_and_never_local() {
    let before = correlation();
    let carriers = [Carrier::Tracestate];
    let mut headers = HeaderMap::new();
    write(&mut headers, &begin(&before, "B: site2"), &carriers, &before);
    let written = headers[TRACESTATE].to_str().unwrap().to_owned();
    let other = begin(&before, "B: site3");
    let value = written.strip_prefix("cheops=").unwrap();
    let (key, sealed) = value.split_once(SEALED).unwrap();
    let mut changed = vec![
        String::new(),
        "0".to_owned(),
        key[1..].to_owned(),
        format!("{key}."),
        format!("{key}.{}", &sealed[1..]),
        format!("{key}.{sealed}A"),
        // The seal is of one key.
        format!("{:032x}.{sealed}", other.key),
        key.to_owned(),
    ];
    for at in 0..value.len() {
        let mut bytes = value.as_bytes().to_vec();
        bytes[at] = if bytes[at] == b'0' { b'1' } else { b'0' };
        changed.push(String::from_utf8(bytes).unwrap());
    }
    for changed in changed {
        let member = format!("a=1,cheops={changed}");
        headers.insert(TRACESTATE, HeaderValue::try_from(&member).unwrap());
        assert_eq!(found(&headers, &carriers, &restarted()), "lost", "{member}");
    }
    headers.insert(TRACESTATE, HeaderValue::from_static("a=1,cheops-link=0"));
    assert_eq!(found(&headers, &carriers, &restarted()), "foreign");
}

#[test]
fn a_scope_that_was_carried_is_known_again() {
    let before = correlation();
    let carriers = [Carrier::Baggage];
    let workflow = begin(&before, "B: site2");
    let mut headers = HeaderMap::new();
    write(&mut headers, &workflow, &carriers, &before);
    let (after, limits) = (restarted(), Limits::default());
    assert!(matches!(after.find(workflow.key, &limits), Found::Lost));
    let Found::Known(call) = find_workflow(&headers, &carriers, &after, &limits) else {
        panic!("not known");
    };
    assert!(matches!(after.find(workflow.key, &limits), Found::Known(_)));
    after.goes_on(&call, &limits);
    assert_eq!(after.to_be_kept().len(), 1);
}

#[test]
fn members_of_others_need_not_be_text() {
    let correlation = correlation();
    let carriers = [Carrier::Baggage];
    let mut headers = HeaderMap::new();
    let others = HeaderValue::from_bytes(b"user=J\xf6rg").unwrap();
    headers.insert(BAGGAGE, others.clone());
    write(
        &mut headers,
        &begin(&correlation, "B: site2"),
        &carriers,
        &correlation,
    );
    assert!(headers[BAGGAGE].as_bytes().ends_with(b",user=J\xf6rg"));
    assert_eq!(found(&headers, &carriers, &correlation), "B: site2");
    strip_keys(&mut headers, &carriers, correlation.keys());
    assert_eq!(headers[BAGGAGE], others);
    // One of ours is not like that.
    headers.insert(BAGGAGE, HeaderValue::from_bytes(b"a=1,cheops=\xf6").unwrap());
    assert_eq!(found(&headers, &carriers, &correlation), "lost");
    headers.insert(BAGGAGE, HeaderValue::from_static("cheops"));
    assert_eq!(found(&headers, &carriers, &correlation), "lost");
}

#[test]
fn a_long_scope_leaves_room_for_others() {
    let (before, carriers) = (correlation(), [Carrier::Tracestate]);
    let sites: Vec<_> = (0..40).map(|site| format!("site{site}")).collect();
    for n in [1, 10, 14, 15, 40] {
        let text = format!("B: {}", sites[..n].join(" ; "));
        let mut headers = HeaderMap::new();
        write(&mut headers, &begin(&before, &text), &carriers, &before);
        let member = headers[TRACESTATE].to_str().unwrap();
        assert!(member.len() <= 256, "{member}");
        assert_eq!(found(&headers, &carriers, &before), text);
        let expected = if text.len() <= 128 { &text } else { "lost" };
        assert_eq!(found(&headers, &carriers, &restarted()), expected);
    }
}

#[test]
fn a_foreign_key_is_no_key_and_ours_is_taken_off_users() {
    let correlation = correlation();
    let carriers = [Carrier::Tracestate, Carrier::Traceparent, Carrier::Baggage];
    let mut headers = HeaderMap::new();
    headers.insert(TRACEPARENT, FOREIGN);
    assert_eq!(found(&headers, &carriers, &correlation), "foreign");
    strip_keys(&mut headers, &carriers, correlation.keys());
    assert!(headers.contains_key(TRACEPARENT));
    write(
        &mut headers,
        &begin(&correlation, "B: site2"),
        &carriers,
        &correlation,
    );
    let key = headers[TRACEPARENT].clone();
    strip_keys(&mut headers, &carriers, correlation.keys());
    assert_eq!(found(&headers, &carriers, &correlation), "foreign");
    // Not the first value, and not the only member.
    headers.insert(TRACEPARENT, FOREIGN);
    headers.append(TRACEPARENT, key);
    headers.insert(TRACESTATE, HeaderValue::from_static("a=1,cheops=0,b=2,cheops=1"));
    strip_keys(&mut headers, &carriers, correlation.keys());
    assert!(!headers.contains_key(TRACEPARENT));
    assert_eq!(headers[TRACESTATE], "a=1,b=2");
}

#[test]
fn an_id_of_ours_is_taken_off_users_in_every_value() {
    let correlation = correlation();
    let format = KeyFormat::default();
    let ours = format.write(begin(&correlation, "B: site2").key);
    let carriers = [Carrier::Header {
        name: "x-request-id".to_owned(),
        format,
    }];
    let foreign = HeaderValue::from_static("0af76519-16cd-43dd-8448-eb211c80319c");
    let mut headers = HeaderMap::new();
    headers.insert("x-request-id", foreign);
    strip_keys(&mut headers, &carriers, correlation.keys());
    assert!(headers.contains_key("x-request-id"));
    headers.append("x-request-id", HeaderValue::try_from(ours).unwrap());
    strip_keys(&mut headers, &carriers, correlation.keys());
    assert!(!headers.contains_key("x-request-id"));
}
