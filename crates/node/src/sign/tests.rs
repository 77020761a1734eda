use cheops_mesh::{MeshCa, Validity};
use cheops_replica::{Author, Footprint, Need, OpId, Recognise, Request, Token, Vector, Verb};
use cheops_types::{KeptBody, Stamp};

use super::*;

const NOW_MS: u64 = 1_800_000_000_000;
const GRACE_MS: u64 = 20 * 86_400_000;

fn at(now_ms: u64) -> Moment {
    Moment {
        now_ms,
        grace_s: GRACE_MS / 1000,
    }
}

fn site(name: &str) -> SiteName {
    SiteName::new(name).unwrap()
}

fn mesh() -> MeshCa {
    MeshCa::create(Validity::days(NOW_MS / 1000, 3650)).unwrap()
}

fn identity(ca: &MeshCa, name: &str, from_ms: u64) -> Identity {
    let issued = ca.issue(&site(name), Validity::days(from_ms / 1000, 2)).unwrap();
    Identity::new(&ca.to_pem().certificate, &issued.certificate, &issued.key).unwrap()
}

fn operation(origin: &str) -> Operation {
    Operation {
        id: OpId {
            author: Author {
                site: site(origin),
                incarnation: 1,
                stay: 0,
            },
            seq: 3,
        },
        token: Token(7),
        time: Stamp {
            millis: NOW_MS,
            count: 0,
        },
        age: cheops_replica::Age::default(),
        after: Vector::new(),
        births: std::collections::BTreeSet::new(),
        epoch: 0,
        verb: Verb::Replace,
        touches: Footprint::Whole,
        recognise: Recognise::Nothing,
        needs: Vec::new(),
        request: Request {
            method: "PUT".into(),
            path: "/orders/{id}".into(),
            headers: vec![("content-type".into(), "application/json".into())],
            body: KeptBody::Inline(br#"{"n":1}"#[..].into()),
            scope: "A: paris & rome".into(),
            caller: None,
            shares: Vec::new(),
        },
        signature: Vec::new(),
    }
}

fn signed(by: &Identity, set: &MetaId) -> Operation {
    let mut op = operation(by.site());
    sign(by, set, &mut op).unwrap();
    op
}

#[test]
fn a_signed_operation_is_its_origins() {
    let ca = mesh();
    let (paris, rome) = (identity(&ca, "paris", NOW_MS), identity(&ca, "rome", NOW_MS));
    let set = MetaId::new("m");
    assert_eq!(check(&rome, &set, &signed(&paris, &set), at(NOW_MS)), Ok(()));
}

#[test]
fn every_part_counts() {
    let ca = mesh();
    let paris = identity(&ca, "paris", NOW_MS);
    let set = MetaId::new("m");
    let changes: [fn(&mut Operation); 9] = [
        |op| op.id.seq += 1,
        |op| op.token = Token(8),
        |op| op.time.count += 1,
        |op| op.epoch += 1,
        |op| op.verb = Verb::Delete,
        |op| op.touches = Footprint::parts(["/n"]),
        |op| {
            op.needs.push(Need {
                set: MetaId::new("other"),
                gone: false,
            });
        },
        |op| op.request.body = KeptBody::Inline(br#"{"n":2}"#[..].into()),
        |op| op.request.scope.clear(),
    ];
    for (number, change) in changes.iter().enumerate() {
        let mut op = signed(&paris, &set);
        change(&mut op);
        let refused = check(&paris, &set, &op, at(NOW_MS));
        assert!(
            matches!(refused, Err(Untrusted::Signature { .. })),
            "{number}: {refused:?}"
        );
    }
}

#[test]
fn an_operation_cannot_be_moved_to_another_set() {
    let paris = identity(&mesh(), "paris", NOW_MS);
    let op = signed(&paris, &MetaId::new("m"));
    assert!(check(&paris, &MetaId::new("n"), &op, at(NOW_MS)).is_err());
}

#[test]
fn nobody_signs_for_another_site() {
    let ca = mesh();
    let rome = identity(&ca, "rome", NOW_MS);
    let set = MetaId::new("m");
    let mut op = signed(&rome, &set);
    op.id.author.site = site("paris");
    op.signature = rome.sign(&canonical(&set, &op).unwrap()).unwrap();
    assert_eq!(
        check(&rome, &set, &op, at(NOW_MS)),
        Err(Untrusted::OtherSite {
            operation: op.id.to_string(),
            signer: site("rome"),
        })
    );
    // Nor by passing it on.
    let mut relayed = operation("paris");
    sign(&rome, &set, &mut relayed).unwrap();
    assert_eq!(relayed.signature, Vec::<u8>::new());
}

#[test]
fn a_relay_keeps_the_signature() {
    let ca = mesh();
    let (paris, rome) = (identity(&ca, "paris", NOW_MS), identity(&ca, "rome", NOW_MS));
    let set = MetaId::new("m");
    let op = signed(&paris, &set);
    let mut relayed = op.clone();
    sign(&rome, &set, &mut relayed).unwrap();
    assert_eq!(relayed, op);
}

#[test]
fn certificates_may_end_or_begin_between_making_and_sending() {
    const DAY_MS: u64 = 86_400_000;
    let ca = mesh();
    let set = MetaId::new("m");
    let reader = identity(&ca, "rome", NOW_MS);
    // It has ended since the operation was made, not long ago.
    let old = signed(&identity(&ca, "paris", NOW_MS), &set);
    let ended = NOW_MS + 2 * DAY_MS;
    assert_eq!(check(&reader, &set, &old, at(ended + DAY_MS)), Ok(()));
    // Long ago. That the operation says it was made before is its signer's word.
    assert!(check(&reader, &set, &old, at(ended + 2 * GRACE_MS)).is_err());
    // It was issued since, and is valid now.
    let renewed = identity(&ca, "paris", ended + 2 * GRACE_MS);
    let op = signed(&renewed, &set);
    assert_eq!(check(&reader, &set, &op, at(ended + 2 * GRACE_MS)), Ok(()));
    // It is not valid yet, and the operation says that it comes from then.
    let mut early = operation("paris");
    early.time.millis = ended + 2 * GRACE_MS;
    sign(&renewed, &set, &mut early).unwrap();
    assert!(check(&reader, &set, &early, at(NOW_MS)).is_err());
}

#[test]
fn what_is_given_up_is_still_its_origins() {
    let ca = mesh();
    let (paris, rome) = (identity(&ca, "paris", NOW_MS), identity(&ca, "rome", NOW_MS));
    let set = MetaId::new("m");
    let forgo = |lost: Operation| {
        let mut op = operation("rome");
        op.verb = Verb::Forgo { lost: vec![lost] };
        sign(&rome, &set, &mut op).unwrap();
        op
    };
    assert_eq!(
        check(&paris, &set, &forgo(signed(&paris, &set)), at(NOW_MS)),
        Ok(())
    );
    // One of its own that never left it is signed with it.
    assert_eq!(check(&paris, &set, &forgo(operation("rome")), at(NOW_MS)), Ok(()));
    let mut changed = signed(&paris, &set);
    changed.request.path = "/other".into();
    assert!(check(&paris, &set, &forgo(changed), at(NOW_MS)).is_err());
    assert!(check(&paris, &set, &forgo(operation("paris")), at(NOW_MS)).is_err());
}
