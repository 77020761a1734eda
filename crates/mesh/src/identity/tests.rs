use super::*;

const NOW: u64 = 1_800_000_000;

fn ca() -> MeshCa {
    MeshCa::create(Validity::days(NOW, 3650)).unwrap()
}

fn site(name: &str) -> SiteName {
    SiteName::new(name).unwrap()
}

#[test]
fn a_site_is_who_its_certificate_says() {
    let ca = ca();
    let issued = ca.issue(&site("paris"), Validity::days(NOW, 730)).unwrap();
    let pem = ca.to_pem();
    assert_eq!(
        verify(&pem.certificate, &issued.certificate, NOW),
        Ok(site("paris"))
    );
}

#[test]
fn a_ca_is_taken_up_again_from_its_files() {
    let pem = ca().to_pem();
    let again = MeshCa::from_pem(&pem.certificate, &pem.key).unwrap();
    let issued = again.issue(&site("a"), Validity::days(NOW, 1)).unwrap();
    assert_eq!(verify(&pem.certificate, &issued.certificate, NOW), Ok(site("a")));
}

#[test]
fn a_certificate_has_its_dates() {
    let ca = ca();
    let pem = ca.to_pem();
    let issued = ca.issue(&site("a"), Validity::days(NOW, 2)).unwrap();
    let at = |unix_s| verify(&pem.certificate, &issued.certificate, unix_s);
    assert!(at(NOW + 2 * 86_400 - 1).is_ok());
    assert_eq!(at(NOW + 2 * 86_400 + 1), Err(IdentityError::OutOfDate));
    assert_eq!(at(NOW - 3601), Err(IdentityError::OutOfDate));
}

#[test]
fn another_mesh_is_not_believed() {
    let (ours, theirs) = (ca(), ca());
    let issued = theirs.issue(&site("a"), Validity::days(NOW, 2)).unwrap();
    assert_eq!(
        verify(&ours.to_pem().certificate, &issued.certificate, NOW),
        Err(IdentityError::OtherCa)
    );
}

#[test]
fn a_site_cannot_issue() {
    let ca = ca();
    let issued = ca.issue(&site("a"), Validity::days(NOW, 2)).unwrap();
    let usurper = MeshCa::from_pem(&issued.certificate, &issued.key).unwrap();
    assert_eq!(
        usurper.issue(&site("b"), Validity::days(NOW, 2)).err(),
        Some(IdentityError::ForeignCa)
    );
}

#[test]
fn a_ca_key_belongs_to_its_certificate() {
    let (one, two) = (ca().to_pem(), ca().to_pem());
    assert_eq!(
        MeshCa::from_pem(&one.certificate, &two.key).err(),
        Some(IdentityError::WrongKey)
    );
}

#[test]
fn the_ca_itself_is_not_a_site() {
    let pem = ca().to_pem();
    assert!(verify(&pem.certificate, &pem.certificate, NOW).is_err());
}

#[test]
fn only_one_name_is_a_site() {
    let ca = ca();
    let pem = ca.to_pem();
    let with_names = |names: Vec<SanType>| {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        Validity::days(NOW, 2).apply(&mut params).unwrap();
        params.subject_alt_names = names;
        let certificate = params.signed_by(&key, &ca.issuer).unwrap().pem();
        verify(&pem.certificate, &certificate, NOW)
    };
    let uri = |text: &str| SanType::URI(text.try_into().unwrap());
    let dns = |text: &str| SanType::DnsName(text.try_into().unwrap());
    assert_eq!(with_names(vec![uri("cheops:site:a")]), Ok(site("a")));
    for names in [
        vec![],
        vec![uri("cheops:site:a"), uri("cheops:site:b")],
        vec![uri("cheops:site:a"), dns("a.example")],
        vec![uri("cheops:site:")],
        vec![uri("cheops:site:a b")],
        vec![uri("https://a.example")],
    ] {
        assert_eq!(
            with_names(names.clone()),
            Err(IdentityError::NotASite),
            "{names:?}"
        );
    }
}

#[test]
fn long_names_stay_whole_in_the_identity() {
    let ca = ca();
    let long = site(&"x".repeat(128));
    let issued = ca.issue(&long, Validity::days(NOW, 2)).unwrap();
    assert_eq!(
        verify(&ca.to_pem().certificate, &issued.certificate, NOW),
        Ok(long)
    );
}

#[test]
fn bad_input_is_told() {
    let pem = ca().to_pem();
    assert!(matches!(
        MeshCa::from_pem("nothing", &pem.key),
        Err(IdentityError::Unreadable {
            what: "CA certificate",
            ..
        })
    ));
    assert!(matches!(
        MeshCa::from_pem(&pem.certificate, "nothing"),
        Err(IdentityError::Unreadable { what: "CA key", .. })
    ));
    assert_eq!(
        MeshCa::create(Validity {
            not_before_unix_s: 2,
            not_after_unix_s: 1
        })
        .err(),
        Some(IdentityError::Validity)
    );
    assert_eq!(
        MeshCa::create(Validity {
            not_before_unix_s: 0,
            not_after_unix_s: u64::MAX
        })
        .err(),
        Some(IdentityError::Validity)
    );
}

#[test]
fn debug_hides_the_key() {
    let pem = ca().to_pem();
    assert!(!format!("{pem:?}").contains("PRIVATE"));
}
