//! The port between agents: who calls is what the certificate says.

use std::{
    fs,
    net::{SocketAddr, TcpStream},
    path::Path,
    sync::Arc,
};

use cheops_net::{Signatures, signatures_by};
use rustls::{
    ClientConfig, ClientConnection, StreamOwned,
    client::danger::{ServerCertVerified, ServerCertVerifier},
    crypto::ring,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject as _};
use serde_json::json;

use crate::{
    certificates,
    harness::{DEADLINE, Mesh, get, run_cheops, until},
    wire::{Service, Wire},
};

/// Whoever answers is right: these tests are about who calls.
#[derive(Debug)]
struct Anybody {
    signatures: Signatures,
}

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    signatures_by!(signatures);
}

/// Calls a peer port as whom the files `<site>.pem` and `<site>.key` in a directory say, or as nobody.
fn call(to: SocketAddr, identity: Option<(&Path, &str)>) -> Wire<StreamOwned<ClientConnection, TcpStream>> {
    let anybody = Anybody {
        signatures: Signatures::default(),
    };
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(anybody));
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some((dir, site)) => {
            let file = |extension: &str| fs::read(dir.join(format!("{site}.{extension}"))).unwrap();
            let certificate = CertificateDer::from_pem_slice(&file("pem")).unwrap();
            let key = PrivateKeyDer::from_pem_slice(&file("key")).unwrap();
            builder.with_client_auth_cert(vec![certificate], key).unwrap()
        }
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let name = ServerName::try_from("site").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    Wire::over(StreamOwned::new(connection, stream))
}

async fn two_sites(service: &Service) -> (Mesh, SocketAddr) {
    let mesh = Mesh::of(2).upstream(2, "A", service.addr()).start().await;
    let peer_port = mesh.link(1, 2).target();
    (mesh, peer_port)
}

const REQUEST: &str =
    "GET /in HTTP/1.1\r\nHost: app\r\nX-Cheops-Service: A\r\nX-Cheops-Scope: A: site2\r\n\r\n";

#[tokio::test]
async fn nobody_gets_in_without_a_certificate_of_the_mesh() {
    let service = Service::saying("in");
    let (mesh, peer_port) = two_sites(&service).await;
    let other_mesh = tempfile::tempdir().unwrap();
    let dir = other_mesh.path().to_str().unwrap();
    run_cheops(&["ca", "init", "--dir", dir]);
    run_cheops(&["ca", "issue", "site1", "--dir", dir]);
    for identity in [None, Some((other_mesh.path(), "site1"))] {
        for request in [REQUEST, "GET /.cheops/heartbeat HTTP/1.1\r\nHost: app\r\n\r\n"] {
            let mut stranger = call(peer_port, identity);
            // The other side may have hung up before the request was written.
            let _ = stranger.try_send(request);
            assert_eq!(stranger.rest(), b"", "{identity:?}");
        }
    }
    let mut plain = Wire::connect(peer_port);
    plain.send(REQUEST);
    let answer = plain.rest();
    assert!(!answer.starts_with(b"HTTP/"), "{answer:?}");
    assert_eq!(service.text(), "");

    // The same request of a site of the mesh is served, so that the refusals above mean something.
    let mut peer = call(peer_port, Some((mesh.site(1).dir(), "site1")));
    peer.send(REQUEST);
    assert_eq!(peer.answer().text(), "in");
}

#[tokio::test]
async fn a_header_does_not_say_who_calls() {
    let service = Service::saying("in");
    let (mesh, peer_port) = two_sites(&service).await;
    let claims = "X-Cheops-Peer: site3\r\nX-Cheops-Site: site3\r\nFrom: site3\r\nForwarded: for=site3\r\n";
    let mut peer = call(peer_port, Some((mesh.site(1).dir(), "site1")));
    peer.send(format!("GET /in HTTP/1.1\r\nHost: app\r\n{claims}\r\n"));
    let refused = peer.answer();
    assert_eq!((refused.status(), refused.code().as_str()), (400, "bad_request"));
    assert!(refused.text().contains("`site1`"), "{}", refused.text());
    assert!(!refused.text().contains("site3"), "{}", refused.text());

    peer.send(get_of("Nothing"));
    let refused = peer.answer();
    assert_eq!(
        (refused.status(), refused.code().as_str()),
        (400, "unknown_service")
    );
    assert_eq!(service.text(), "");
}

#[tokio::test]
async fn a_service_that_is_not_offered_is_refused_to_peers_alone() {
    let service = Service::saying("in");
    let (mesh, peer_port) = two_sites(&service).await;
    let site = mesh.site(2);
    site.edit_config(|text| text.replacen("[services.A]", "[services.A]\npeers = false", 1));
    certificates::reload(&mesh, 2).await;

    let mut peer = call(peer_port, Some((mesh.site(1).dir(), "site1")));
    for method in ["GET", "DELETE"] {
        peer.send(REQUEST.replacen("GET", method, 1));
        let refused = peer.answer();
        assert_eq!((refused.status(), refused.code().as_str()), (403, "peer_refused"));
        let text = refused.text();
        assert!(text.contains("`site2` does not offer service `A`"), "{text}");
        assert!(text.contains("peers = true"), "{text}");
    }
    let scoped = get(mesh.a(1), "/in").scope("site2").await;
    let problem = scoped.problem(403, "peer_refused");
    assert_eq!(
        (&problem["site"], &problem["service"]),
        (&json!("site2"), &json!("A"))
    );
    assert_eq!(scoped.outcomes(), "site2=not-executed");
    assert_eq!(service.text(), "");
    // Its own users, and the other service of the site, notice nothing.
    assert_eq!(get(mesh.a(2), "/in").await.is(200).text(), "in");
    get(mesh.b(1), "/string").scope("site2").await.is(200);

    site.edit_config(|text| text.replacen("peers = false", "peers = true", 1));
    certificates::reload(&mesh, 2).await;
    assert_eq!(get(mesh.a(1), "/in").scope("site2").await.is(200).text(), "in");
}

#[tokio::test]
async fn a_revoked_certificate_counts_no_more_and_its_site_goes_on_with_another() {
    let services = [Service::saying("one"), Service::saying("two")];
    let mesh = Mesh::of(2)
        .upstream(1, "A", services[0].addr())
        .upstream(2, "A", services[1].addr())
        .start()
        .await;
    let peer_port = mesh.link(1, 2).target();
    let (own, other) = (mesh.site(1), mesh.site(2));
    let certificate = own.dir().join("site1.pem");
    let shown = run_cheops(&["ca", "serial", certificate.to_str().unwrap()]).stdout;
    let serial = String::from_utf8(shown).unwrap().trim().to_owned();
    let mut before = call(peer_port, Some((own.dir(), "site1")));
    before.send(REQUEST);
    assert_eq!(before.answer().text(), "two");
    let count = services[1].text().len();

    other.edit_config(|text| text.replacen("[peer]", &format!("[peer]\nrevoked = [\"{serial}\"]"), 1));
    certificates::reload(&mesh, 2).await;
    // Whoever is in is let out, and nobody comes in.
    let _ = before.try_send(REQUEST);
    assert_eq!(before.rest(), b"");
    let mut again = call(peer_port, Some((own.dir(), "site1")));
    let _ = again.try_send(REQUEST);
    assert_eq!(again.rest(), b"");
    // Nor does the site go there itself.
    let refused = get(mesh.a(2), "/x").scope("site1").await;
    let problem = refused.problem(502, "peer_unreachable");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("Revoked"), "{detail}");
    assert_eq!(refused.outcomes(), "site1=not-executed");
    let refused = get(mesh.a(1), "/x").scope("site2").await;
    assert_eq!(refused.outcomes(), "site2=not-executed");
    assert_eq!(services[0].text(), "");
    assert_eq!(services[1].text().len(), count);

    let ca = own.dir().parent().unwrap().join("ca");
    let (ca, out) = (ca.to_str().unwrap(), own.dir().to_str().unwrap());
    run_cheops(&["ca", "issue", "site1", "--dir", ca, "--out", out, "--force"]);
    certificates::reload(&mesh, 1).await;
    until("the new certificate is believed", || async {
        let there = get(mesh.a(1), "/x").scope("site2").await;
        let back = get(mesh.a(2), "/x").scope("site1").await;
        (there.outcomes(), back.outcomes()) == ("site2=executed".into(), "site1=executed".into())
    })
    .await;
}

fn get_of(service: &str) -> String {
    format!(
        "GET /in HTTP/1.1\r\nHost: app\r\nX-Cheops-Service: {service}\r\nX-Cheops-Scope: A: site2\r\n\r\n"
    )
}

#[tokio::test]
async fn a_header_does_not_say_who_the_caller_is() {
    let service = Service::saying("in");
    let mesh = Mesh::of(2)
        .glue(certificates::GLUE)
        .upstream(2, "A", service.addr())
        .start()
        .await;
    let peer_port = mesh.link(1, 2).target();
    let claim =
        |name: &str, value: &str| REQUEST.replace("\r\n\r\n", &format!("\r\n{name}: {value}\r\n\r\n"));
    for name in ["X-Remote-User", "x-REMOTE-group", "X_Remote_User"] {
        let mut peer = call(peer_port, Some((mesh.site(1).dir(), "site1")));
        peer.send(claim(name, "root"));
        assert_eq!(peer.answer().text(), "in", "{name}");
    }
    let seen = service.text().to_ascii_lowercase().replace('_', "-");
    assert!(!seen.contains("x-remote-"), "{seen}");
    // What an agent may say of a caller counts only where the application can be told.
    let mut peer = call(peer_port, Some((mesh.site(1).dir(), "site1")));
    peer.send(claim("X-Cheops-Caller", r#"{"user":"root","groups":[]}"#));
    let refused = peer.answer();
    assert_eq!(
        (refused.status(), refused.code().as_str()),
        (403, "caller_refused")
    );
    peer.send(claim("X-Cheops-Caller", "root"));
    assert_eq!(peer.answer().code(), "bad_request");
    assert!(!service.text().contains("cheops-caller"));
}

#[tokio::test]
async fn a_forwarded_request_goes_no_further() {
    let (own, other) = (Service::saying("one"), Service::saying("two"));
    let mesh = Mesh::of(2)
        .upstream(1, "A", own.addr())
        .upstream(2, "A", other.addr())
        .start()
        .await;
    // Whatever its scope says, the site that was asked is the site that executes.
    let mut peer = call(mesh.link(1, 2).target(), Some((mesh.site(1).dir(), "site1")));
    peer.send("GET /x HTTP/1.1\r\nHost: app\r\nX-Cheops-Service: A\r\nX-Cheops-Scope: A: site1\r\nX-Scope: site1\r\n\r\n");
    assert_eq!(peer.answer().text(), "two");
    assert_eq!(own.text(), "");
}

#[tokio::test]
async fn an_address_does_not_say_who_answers() {
    let services = [2, 3].map(|_| Service::saying("somebody"));
    let mesh = Mesh::of(3)
        .upstream(2, "A", services[0].addr())
        .upstream(3, "A", services[1].addr())
        .start()
        .await;
    let (right, wrong) = (mesh.link(1, 2).addr(), mesh.link(1, 3).addr());
    let site = mesh.site(1);
    site.edit_config(|text| {
        let (before, after) = text.split_once("[sites.site2]").unwrap();
        format!(
            "{before}[sites.site2]{}",
            after.replacen(&right.to_string(), &wrong.to_string(), 1)
        )
    });
    site.tell("/v1/reload", &json!({})).await;
    let answer = get(mesh.a(1), "/x").scope("site2").await;
    let problem = answer.problem(502, "peer_unreachable");
    assert_eq!(problem["site"], "site2");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("certificate is for site `site3`"), "{detail}");
    assert_eq!(answer.outcomes(), "site2=not-executed");
    assert!(services.iter().all(|service| service.text().is_empty()));
}
