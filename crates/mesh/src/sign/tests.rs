use cheops_net::Serial;

use super::*;
use crate::{MeshCa, Validity};

const NOW: u64 = 1_800_000_000;
const DAY_S: u64 = 86_400;
const GRACE_S: u64 = 10 * DAY_S;

fn identity(ca: &MeshCa, site: &str) -> Identity {
    let issued = ca
        .issue(&SiteName::new(site).unwrap(), Validity::days(NOW, 2))
        .unwrap();
    Identity::new(&ca.to_pem().certificate, &issued.certificate, &issued.key).unwrap()
}

fn ca() -> MeshCa {
    MeshCa::create(Validity::days(NOW, 3650)).unwrap()
}

#[test]
fn every_site_of_the_mesh_knows_who_signed() {
    let ca = ca();
    let (paris, rome) = (identity(&ca, "paris"), identity(&ca, "rome"));
    let signature = paris.sign(b"hello").unwrap();
    // The second time the certificate is known.
    for _ in 0..2 {
        let signer = rome.signer(b"hello", &signature, NOW, GRACE_S).unwrap();
        assert_eq!(signer.as_str(), "paris");
    }
}

#[test]
fn texts_that_are_signed_together_are_checked_one_by_one() {
    let ca = ca();
    let (paris, rome) = (identity(&ca, "paris"), identity(&ca, "rome"));
    for count in [1, 2, 3, 8, 100] {
        let texts: Vec<_> = (0..count).map(|n: u32| n.to_string().into_bytes()).collect();
        let signatures = paris.sign_all(&texts).unwrap();
        for (at, (text, signature)) in texts.iter().zip(&signatures).enumerate().rev() {
            let signer = rome.signer(text, signature, NOW, GRACE_S).unwrap();
            assert_eq!(signer.as_str(), "paris");
            let forged = rome.signer(b"other", signature, NOW, GRACE_S);
            assert_eq!(
                forged,
                Err(SignatureError::Forged(paris.site().clone())),
                "{at} of {count}"
            );
        }
    }
}

#[test]
fn a_bundle_with_any_byte_wrong_was_not_signed() {
    let ca = ca();
    let (paris, rome) = (identity(&ca, "paris"), identity(&ca, "rome"));
    let texts = [b"a".to_vec(), b"b".to_vec(), b"c".to_vec()];
    let signature = paris.sign_all(&texts).unwrap().swap_remove(1);
    // What was found right must not make anything else right.
    rome.signer(b"b", &signature, NOW, GRACE_S).unwrap();
    for at in (0..2).chain(paris.prefix.len()..signature.len()) {
        let mut wrong = signature.clone();
        wrong[at] ^= 1;
        assert!(rome.signer(b"b", &wrong, NOW, GRACE_S).is_err(), "byte {at}");
        assert!(
            rome.signer(b"b", &signature[..at], NOW, GRACE_S).is_err(),
            "cut at {at}"
        );
    }
    // The signature of the whole is none of its text.
    let own = &signature[signature.len() - 70..];
    let alone = [&paris.prefix[..], own].concat();
    assert!(rome.signer(b"b", &alone, NOW, GRACE_S).is_err());
}

#[test]
fn a_certificate_that_has_ended_signs_no_bundle() {
    let ca = ca();
    let paris = identity(&ca, "paris");
    let rome = identity(&ca, "rome");
    let signature = paris
        .sign_all(&[b"a".to_vec(), b"b".to_vec()])
        .unwrap()
        .swap_remove(0);
    rome.signer(b"a", &signature, NOW, GRACE_S).unwrap();
    let late = NOW + 30 * DAY_S;
    assert!(matches!(
        rome.signer(b"a", &signature, late, GRACE_S),
        Err(SignatureError::Signer(_))
    ));
}

#[test]
fn another_text_was_not_signed() {
    let ca = ca();
    let (paris, rome) = (identity(&ca, "paris"), identity(&ca, "rome"));
    let signature = paris.sign(b"hello").unwrap();
    assert_eq!(
        rome.signer(b"hullo", &signature, NOW, GRACE_S),
        Err(SignatureError::Forged(paris.site().clone()))
    );
}

#[test]
fn a_certificate_alone_signs_nothing() {
    let ca = ca();
    let (paris, rome) = (identity(&ca, "paris"), identity(&ca, "rome"));
    // Rome's key under the certificate of Paris.
    let own = rome.sign(b"hello").unwrap();
    let mut forged = paris.prefix.clone();
    forged.extend(&own[rome.prefix.len()..]);
    assert_eq!(
        rome.signer(b"hello", &forged, NOW, GRACE_S),
        Err(SignatureError::Forged(paris.site().clone()))
    );
}

#[test]
fn another_mesh_is_not_believed() {
    let (ours, theirs) = (identity(&ca(), "paris"), identity(&ca(), "paris"));
    let signature = theirs.sign(b"hello").unwrap();
    assert_eq!(
        ours.signer(b"hello", &signature, NOW, GRACE_S),
        Err(SignatureError::Signer(IdentityError::OtherCa))
    );
}

#[test]
fn a_signature_outlives_its_certificate_by_the_grace_and_no_longer() {
    let ca = ca();
    let (paris, rome) = (identity(&ca, "paris"), identity(&ca, "rome"));
    let signature = paris.sign(b"hello").unwrap();
    let end = NOW + 2 * DAY_S;
    for (now, is_believed) in [
        (NOW, true),
        (end, true),
        (end + GRACE_S, true),
        // Beyond what is believed unchecked for a while.
        (end + GRACE_S + 2 * BELIEVED_S, false),
        (end + 365 * DAY_S, false),
        // Nor before it began, an hour early.
        (NOW - 2 * BELIEVED_S, false),
    ] {
        let signer = rome.signer(b"hello", &signature, now, GRACE_S);
        let expected = if is_believed {
            Ok(paris.site().clone())
        } else {
            Err(SignatureError::Signer(IdentityError::OutOfDate))
        };
        assert_eq!(signer, expected, "{now}");
    }
}

#[test]
fn a_certificate_that_was_short_has_its_grace_too() {
    let ca = ca();
    let validity = Validity {
        not_before_unix_s: NOW,
        not_after_unix_s: NOW + 60,
    };
    let issued = ca.issue(&SiteName::new("paris").unwrap(), validity).unwrap();
    let pem = ca.to_pem().certificate;
    let paris = Identity::new(&pem, &issued.certificate, &issued.key).unwrap();
    let signature = paris.sign(b"hello").unwrap();
    assert!(paris.signer(b"hello", &signature, NOW + DAY_S, GRACE_S).is_ok());
}

#[test]
fn a_revoked_certificate_signs_nothing() {
    let ca = ca();
    let issue = || {
        ca.issue(&SiteName::new("paris").unwrap(), Validity::days(NOW, 2))
            .unwrap()
    };
    let pem = ca.to_pem().certificate;
    let [old, new] = [issue(), issue()].map(|issued| {
        let identity = Identity::new(&pem, &issued.certificate, &issued.key).unwrap();
        (issued, identity.sign(b"hello").unwrap())
    });
    let rome = identity(&ca, "rome");
    assert!(rome.signer(b"hello", &old.1, NOW, GRACE_S).is_ok());
    let chain = identity::certificates("certificate", &old.0.certificate).unwrap();
    let rome = rome.revoking(Serial::of(&chain[0]).into_iter().collect());
    assert_eq!(
        rome.signer(b"hello", &old.1, NOW, GRACE_S),
        Err(SignatureError::Signer(IdentityError::Revoked))
    );
    // The site itself goes on with a new one.
    assert!(rome.signer(b"hello", &new.1, NOW, GRACE_S).is_ok());
}

#[test]
fn what_is_cut_or_empty_is_no_signature() {
    let ca = ca();
    let paris = identity(&ca, "paris");
    let signature = paris.sign(b"hello").unwrap();
    assert_eq!(
        paris.signer(b"hello", b"", NOW, GRACE_S),
        Err(SignatureError::Missing)
    );
    for end in 1..signature.len() {
        assert!(
            paris.signer(b"hello", &signature[..end], NOW, GRACE_S).is_err(),
            "{end}"
        );
    }
}

#[test]
fn a_key_belongs_to_its_certificate_and_is_not_shown() {
    let ca = ca();
    let issue = |site: &str| {
        ca.issue(&SiteName::new(site).unwrap(), Validity::days(NOW, 2))
            .unwrap()
    };
    let (paris, rome) = (issue("paris"), issue("rome"));
    let pem = ca.to_pem().certificate;
    assert_eq!(
        Identity::new(&pem, &paris.certificate, &rome.key).err(),
        Some(IdentityError::WrongKey)
    );
    let shown = format!(
        "{:?}",
        Identity::new(&pem, &paris.certificate, &paris.key).unwrap()
    );
    assert_eq!(shown, "Identity { site: paris, .. }");
}
