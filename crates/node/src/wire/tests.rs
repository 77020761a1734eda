use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use bytes::Bytes;
use cheops_mesh::MeshCa;
use cheops_replica::{
    Author, Birth, Carried, Content, Footprint, Message, MetaId, OpId, Operation, Recognise, Record, Report,
    Request, Secret, Snapshot, Token, Vector, Verb,
};
use cheops_types::{Code, Consistency, KeptBody, SiteName, Stamp};

use super::*;
use crate::{
    lab::{self, Lab, NOW_MS, service, site},
    secret,
    surroundings::Access,
};

pub(super) fn message(from: &str, set: &str, content: Content) -> Message {
    Message {
        set: MetaId::new(set),
        from: site(from),
        incarnation: 0,
        epoch: 0,
        now_ms: 0,
        report: Report {
            incarnation: 1,
            age: cheops_replica::Age::default(),
            stay: 0,
            held: Vector::new(),
            done: Vector::new(),
            local: None,
            degraded: None,
            left: false,
            ask: false,
            waits: Vec::new(),
            bare: Vec::new(),
        },
        content,
    }
}

pub(super) fn operation(origin: &str, seq: u64, body: &[u8]) -> Operation {
    Operation {
        id: OpId {
            author: Author {
                site: site(origin),
                incarnation: 1,
                stay: 0,
            },
            seq,
        },
        token: Token(u128::from(seq)),
        time: Stamp {
            millis: NOW_MS,
            count: 0,
        },
        age: cheops_replica::Age::default(),
        after: Vector::new(),
        births: std::collections::BTreeSet::new(),
        epoch: 0,
        verb: Verb::Create(Box::new(Birth {
            service: service("A"),
            kind: "order".to_owned(),
            parents: Vec::new(),
            name: None,
            sites: ["a", "b"].map(site).into(),
            span: None,
            generation: 0,
            consistency: Consistency::Eventual,
        })),
        touches: Footprint::Whole,
        recognise: Recognise::Marker,
        needs: Vec::new(),
        request: Request {
            method: "POST".to_owned(),
            path: "/orders".to_owned(),
            headers: Vec::new(),
            body: KeptBody::Inline(Bytes::copy_from_slice(body)),
            scope: String::new(),
            caller: None,
            shares: Vec::new(),
        },
        signature: Vec::new(),
    }
}

fn operations(from: &str, op: Operation, credential: Option<Secret>) -> Message {
    message(from, "m", Content::Operations(vec![Carried { op, credential }]))
}

/// Two sites of one mesh.
fn pair() -> (MeshCa, Lab, Lab) {
    let ca = lab::mesh();
    let (a, b) = (Lab::in_mesh("a", &ca), Lab::in_mesh("b", &ca));
    (ca, a, b)
}

fn sent(lab: &Lab, messages: Vec<Message>) -> Bytes {
    sent_to(lab, "b", messages)
}

fn sent_to(lab: &Lab, to: &str, messages: Vec<Message>) -> Bytes {
    let encoded: Vec<_> = messages
        .into_iter()
        .map(|message| outgoing::encode(&lab.core, &site(to), message).unwrap())
        .collect();
    batch::join(&encoded)
}

fn taken(lab: &Lab, from: &str, body: &[u8]) -> Result<Vec<Message>, (Code, String)> {
    incoming::admit(&lab.core, &site(from), body).map_err(|problem| (problem.code, problem.detail))
}

#[test]
fn a_credential_is_sealed_by_each_site_for_itself() {
    let (_, a, b) = pair();
    let headers = lab::headers(&[("authorization", "Bearer x")]);
    let sealed = secret::seal(&a.core.key, &*a.core.surroundings, &headers).unwrap();
    let body = sent(
        &a,
        vec![operations("a", operation("a", 1, b"{}"), Some(sealed.clone()))],
    );
    let mut taken = taken(&b, "a", &body).unwrap();
    assert_eq!(taken.len(), 1);
    let received = taken[0].credentials_mut().next().unwrap().take().unwrap();
    assert!(!received.0.windows(6).any(|part| part == b"Bearer"));
    assert_eq!(
        secret::open(&b.core.key, &sealed).map(|opened| opened.headers),
        Err(cheops_store::SealError::OtherKey)
    );
    let opened = secret::open(&b.core.key, &received).unwrap();
    assert_eq!((opened.headers, opened.is_supplied), (headers, false));
}

#[test]
fn a_credential_that_cannot_be_opened_stays_behind() {
    let (_, a, b) = pair();
    let broken = Secret(b"rubbish".to_vec());
    let body = sent(&a, vec![operations("a", operation("a", 1, b"{}"), Some(broken))]);
    let mut taken = taken(&b, "a", &body).unwrap();
    assert_eq!(taken[0].credentials_mut().next(), Some(&mut None));
}

#[test]
fn what_is_kept_from_a_site_does_not_leave_with_an_operation() {
    let ca = lab::mesh();
    let a = Lab::in_mesh("a", &ca);
    let (cookie, token) = (("Cookie", "mine"), ("authorization", "Bearer x"));
    let arrived = |at: &str, headers: &[(&str, &str)]| {
        let headers = lab::headers(headers);
        let sealed = secret::seal(&a.core.key, &*a.core.surroundings, &headers).unwrap();
        let message = operations("a", operation("a", 1, b"{}"), Some(sealed));
        let body = sent_to(&a, at, vec![message]);
        assert!(at == "b" || !body.windows(4).any(|part| part == b"mine"));
        let there = Lab::in_mesh(at, &ca);
        let mut taken = taken(&there, "a", &body).unwrap();
        let credential = taken[0].credentials_mut().next().unwrap().take();
        credential.map(|sealed| secret::open(&there.core.key, &sealed).unwrap().headers)
    };
    let both = [cookie, token];
    assert_eq!(arrived("b", &both), Some(lab::headers(&both)));
    assert_eq!(arrived("c", &both), Some(lab::headers(&[token])));
    assert_eq!(arrived("c", &[cookie]), None);
}

#[test]
fn bytes_come_back_as_they_were() {
    let (_, a, b) = pair();
    let every: Vec<u8> = (0..=255).cycle().take(5000).collect();
    let mut op = operation("a", 1, &every);
    op.touches = Footprint::parts(["/x", "/y/z"]);
    op.after.advance(&OpId {
        seq: 1,
        ..operation("b", 1, b"").id
    });
    let report = message("a", "n", Content::Report);
    let state = message(
        "a",
        "o",
        Content::State {
            at: Vector::new(),
            state: every.clone(),
            digest: cheops_replica::Digest(Vec::new()),
        },
    );
    let messages = vec![operations("a", op, None), report, state];
    let body = sent(&a, messages.clone());
    // Bytes are not written number by number.
    assert!(body.len() < 2 * every.len() + 2000, "{}", body.len());
    let mut taken = taken(&b, "a", &body).unwrap();
    for op in parts::operations(&mut taken[0]) {
        assert!(!op.signature.is_empty());
        op.signature.clear();
    }
    assert_eq!(taken, messages);
}

#[test]
fn a_sender_is_who_its_certificate_says() {
    let (_, a, b) = pair();
    let body = sent(&a, vec![message("a", "m", Content::Report)]);
    assert!(taken(&b, "a", &body).is_ok());
    let (code, detail) = taken(&b, "c", &body).unwrap_err();
    assert_eq!(code, Code::PeerRefused);
    assert!(detail.contains("says that it is from site `a`"), "{detail}");
}

#[test]
fn forged_foreign_and_unsigned_operations_are_refused_without_a_word_of_what_is_in_them() {
    let (ca, a, b) = pair();
    let refused = |body: &[u8]| {
        let (code, detail) = taken(&b, "a", body).unwrap_err();
        assert_eq!(code, Code::PeerRefused, "{detail}");
        assert!(!detail.contains("hunter2"), "{detail}");
        detail
    };
    let signed = |by: &str, mut op: Operation| {
        let identity = lab::identity(&ca, by);
        crate::sign::sign(&identity, &MetaId::new("m"), &mut op).unwrap();
        op
    };
    let carried = |op: Operation| {
        let message = operations("a", op, None);
        batch::join(&[batch::encode(&message).unwrap().into()])
    };

    // A relay may pass on what another site has signed.
    assert!(taken(&b, "a", &carried(signed("c", operation("c", 1, b"hunter2")))).is_ok());
    // It may not change it.
    let mut changed = signed("c", operation("c", 1, b"hunter2"));
    changed.request.path.push('x');
    assert!(refused(&carried(changed)).contains("did not sign"));
    // Nor make it up.
    let unsigned = operation("c", 1, b"hunter2");
    assert!(refused(&carried(unsigned.clone())).contains("not signed"));
    // Nor sign it itself, on its own way out or by hand.
    assert!(refused(&sent(&a, vec![operations("a", unsigned, None)])).contains("not signed"));
    let mut foreign = signed("a", operation("a", 1, b"hunter2"));
    foreign.id.author.site = site("c");
    assert!(refused(&carried(foreign)).contains("did not sign"));
    // Nor with a certificate of another mesh.
    let other = lab::identity(&lab::mesh(), "c");
    let mut stranger = operation("c", 1, b"hunter2");
    crate::sign::sign(&other, &MetaId::new("m"), &mut stranger).unwrap();
    assert!(refused(&carried(stranger)).contains("not believed"));
}

#[test]
fn a_site_without_an_identity_takes_nothing() {
    let (_, a, _) = pair();
    let alone = Lab::new("b");
    let body = sent(&a, vec![operations("a", operation("a", 1, b"{}"), None)]);
    assert_eq!(taken(&alone, "a", &body).unwrap_err().0, Code::PeerRefused);
}

#[test]
fn what_cannot_be_read_is_told() {
    let (_, a, b) = pair();
    let body = sent(&a, vec![operations("a", operation("a", 1, b"{}"), None)]);
    for end in 2..body.len() {
        assert_eq!(
            taken(&b, "a", &body[..end]).unwrap_err().0,
            Code::BadRequest,
            "{end}"
        );
    }
    let mut later = body.to_vec();
    later[0] = 9;
    let (_, detail) = taken(&b, "a", &later).unwrap_err();
    assert!(detail.contains("version 9"), "{detail}");
    assert_eq!(taken(&b, "a", &body[..1]), Ok(Vec::new()));
}

#[test]
fn only_members_read_and_check() {
    let lab = Lab::new("a");
    lab.know("A", "order", "m", Some("7"), &["a", "b"]);
    let ask = |from: &str, path: &str| {
        lab::run(receive(&lab.core, &site(from), path, Bytes::new())).map_err(|problem| problem.code)
    };
    assert_eq!(ask("c", "read/m"), Err(Code::UnknownReplicaSet));
    assert_eq!(ask("c", "check/m"), Err(Code::UnknownReplicaSet));
    assert_eq!(ask("b", "read/n"), Err(Code::UnknownReplicaSet));
    assert_eq!(ask("b", "what"), Err(Code::BadRequest));
    // There is no runner here to read with.
    assert_eq!(ask("b", "read/m"), Err(Code::StoreBusy));
}

/// For the outbox: what a site makes of a body.
pub(super) fn arrived(core: &Arc<crate::core::Core>, from: &SiteName, body: &[u8]) -> Vec<Message> {
    incoming::admit(core, from, body).unwrap()
}

#[test]
fn a_message_that_is_not_accepted_holds_up_no_other_set() {
    let (ca, a, b) = pair();
    let other = Lab::with("a", Some(lab::identity(&lab::mesh(), "a")), |_| {});
    drop(ca);
    let forged = outgoing::encode(
        &other.core,
        &site("b"),
        operations("a", operation("a", 1, b"{}"), None),
    )
    .unwrap();
    let good = message("a", "n", Content::Report);
    let good = outgoing::encode(&a.core, &site("b"), good).unwrap();
    let taken = taken(&b, "a", &batch::join(&[forged, good])).unwrap();
    let sets: Vec<_> = taken.iter().map(|message| message.set.as_str()).collect();
    assert_eq!(sets, ["n"]);
}

#[test]
fn a_peer_begins_no_set_of_a_service_that_is_not_offered() {
    let ca = lab::mesh();
    let a = Lab::in_mesh("a", &ca);
    let withheld = Access {
        is_offered: false,
        ..Access::default()
    };
    let b = Lab::in_mesh_with("b", &ca, HashMap::from([("A".to_owned(), withheld)]));
    let refused = |message: Message| {
        let (code, detail) = taken(&b, "a", &sent(&a, vec![message])).unwrap_err();
        assert_eq!(code, Code::PeerRefused, "{detail}");
        assert!(
            detail.contains("`A` is not offered") && detail.contains("`peers = true`"),
            "{detail}"
        );
    };
    refused(operations("a", operation("a", 1, b"{}"), None));
    refused(message("a", "m", Content::Snapshot(Box::new(snapshot("A")))));
    // Another service, and what belongs to a set that is there already.
    let other = message("a", "m", Content::Snapshot(Box::new(snapshot("B"))));
    let mut change = operation("a", 1, b"{}");
    change.verb = Verb::Replace;
    for message in [other, operations("a", change, None)] {
        assert_eq!(taken(&b, "a", &sent(&a, vec![message])).unwrap().len(), 1);
    }
}

fn snapshot(of: &str) -> Snapshot {
    Snapshot {
        record: Record {
            meta: MetaId::new("m"),
            service: service(of),
            kind: "order".to_owned(),
            parents: Vec::new(),
            name: None,
            span: None,
            consistency: cheops_types::Consistency::Eventual,
        },
        members: BTreeMap::new(),
        expelled: BTreeMap::new(),
        passages: BTreeMap::new(),
        token: Token(1),
        birth: Token(1),
        born: None,
        recognise: Recognise::Marker,
        at: Vector::new(),
        state: None,
        deleted: None,
        creates: BTreeMap::new(),
        buried: Vec::new(),
        degraded: None,
        pruned: Vector::new(),
        pruned_writes: Vector::new(),
        last: None,
        division: None,
        time: Stamp {
            millis: NOW_MS,
            count: 0,
        },
        log: Vec::new(),
        conflicts: Vec::new(),
        dismissed: BTreeSet::new(),
        forgone: BTreeSet::new(),
        credential: None,
        yours: None,
    }
}

/// What nobody knows is skipped, however deep: a peer must not exhaust the stack.
#[test]
fn a_message_is_not_nested_without_end() {
    let mut message = b"\x81\xa1x".to_vec();
    message.extend(vec![0x91; 1000]);
    message.push(0xc0);
    let too_deep = crate::pack::unpack::<Message>(&message).unwrap_err();
    assert!(
        matches!(too_deep, rmp_serde::decode::Error::DepthLimitExceeded),
        "{too_deep}"
    );
}
