use super::*;
use crate::{MeshCa, Validity};

const NOW: u64 = 1_800_000_000;

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
        let signer = rome.signer(b"hello", &signature, &[NOW]).unwrap();
        assert_eq!(signer.as_str(), "paris");
    }
}

#[test]
fn another_text_was_not_signed() {
    let ca = ca();
    let (paris, rome) = (identity(&ca, "paris"), identity(&ca, "rome"));
    let signature = paris.sign(b"hello").unwrap();
    assert_eq!(
        rome.signer(b"hullo", &signature, &[NOW]),
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
        rome.signer(b"hello", &forged, &[NOW]),
        Err(SignatureError::Forged(paris.site().clone()))
    );
}

#[test]
fn another_mesh_is_not_believed() {
    let (ours, theirs) = (identity(&ca(), "paris"), identity(&ca(), "paris"));
    let signature = theirs.sign(b"hello").unwrap();
    assert_eq!(
        ours.signer(b"hello", &signature, &[NOW]),
        Err(SignatureError::Signer(IdentityError::OtherCa))
    );
}

#[test]
fn one_of_the_times_is_enough() {
    let ca = ca();
    let paris = identity(&ca, "paris");
    let signature = paris.sign(b"hello").unwrap();
    let late = NOW + 30 * 86_400;
    assert_eq!(
        paris.signer(b"hello", &signature, &[late]),
        Err(SignatureError::Signer(IdentityError::OutOfDate))
    );
    assert!(paris.signer(b"hello", &signature, &[late, NOW]).is_ok());
}

#[test]
fn what_is_cut_or_empty_is_no_signature() {
    let ca = ca();
    let paris = identity(&ca, "paris");
    let signature = paris.sign(b"hello").unwrap();
    assert_eq!(paris.signer(b"hello", b"", &[NOW]), Err(SignatureError::Missing));
    for end in 1..signature.len() {
        assert!(
            paris.signer(b"hello", &signature[..end], &[NOW]).is_err(),
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
