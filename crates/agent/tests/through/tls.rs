//! TLS on both sides: the agent sees the caller's certificate, and nobody else can use it.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    sync::Arc,
    thread,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use rcgen::{CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned, crypto::ring,
    server::WebPkiClientVerifier,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _};
use serde_json::json;

use crate::{
    fake::Fake,
    upstream::{Upstream, read},
};

struct Pair {
    certificate: String,
    key: String,
}

impl Pair {
    fn chain(&self) -> Vec<CertificateDer<'static>> {
        vec![CertificateDer::from_pem_slice(self.certificate.as_bytes()).unwrap()]
    }

    fn key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::from_pem_slice(self.key.as_bytes()).unwrap()
    }
}

/// An authority and somebody whom it knows.
fn issue(name: &str) -> (String, Pair) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new([name.to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &authority).unwrap();
    let pair = Pair {
        certificate: certificate.pem(),
        key: key.serialize_pem(),
    };
    (authority.pem(), pair)
}

/// A certificate that signed itself, and calls itself an authority, as `openssl req -x509` makes it.
fn self_signed() -> Pair {
    let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    Pair {
        certificate: params.self_signed(&key).unwrap().pem(),
        key: key.serialize_pem(),
    }
}

fn roots(pem: &str) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap())
        .unwrap();
    roots
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// kubectl, with this certificate of its own or with none.
fn client(address: &str, authority: &str, own: Option<&Pair>) -> StreamOwned<ClientConnection, TcpStream> {
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots(authority));
    let config = match own {
        Some(own) => config.with_client_auth_cert(own.chain(), own.key()).unwrap(),
        None => config.with_no_client_auth(),
    };
    let name = ServerName::try_from("127.0.0.1").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    StreamOwned::new(connection, TcpStream::connect(address).unwrap())
}

const REQUEST: &[u8] = b"GET /api HTTP/1.1\r\nHost: f\r\n\r\n";
const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";

#[test]
fn a_certificate_reaches_the_agent_and_only_its_owner_uses_it() {
    let (client_authority, own) = issue("bob");
    let agent = self_signed();
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots(&client_authority)), provider())
            .build()
            .unwrap();
    let config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(agent.chain(), agent.key())
        .unwrap();
    let upstream = Upstream::bind();
    let served = upstream.once(move |stream| {
        let connection = ServerConnection::new(Arc::new(config)).unwrap();
        let stream = stream.get_ref().try_clone().unwrap();
        let mut stream = std::io::BufReader::new(StreamOwned::new(connection, stream));
        let request = read(&mut stream);
        stream.get_mut().write_all(OK).unwrap();
        let shown = stream.get_ref().conn.peer_certificates().map(<[_]>::to_vec);
        (request, shown)
    });
    let encoded = |text: &str| BASE64_STANDARD.encode(text);
    let fake = Fake::new(
        &format!("https://{}", upstream.address()),
        json!({ "certificate-authority-data": encoded(&agent.certificate) }),
        &json!({
            "client-certificate-data": encoded(&own.certificate),
            "client-key-data": encoded(&own.key),
        }),
    );
    let running = fake.start(&["kubectl", "get", "--scope", "site1"]);
    let layer = running.layer();
    let authority = layer["clusters"][0]["cluster"]["certificate-authority-data"]
        .as_str()
        .unwrap();
    let authority = String::from_utf8(BASE64_STANDARD.decode(authority).unwrap()).unwrap();
    assert!(!layer.to_string().contains(&encoded(&own.key)));

    // Somebody else, and somebody with another certificate: neither gets an answer.
    let (_, other) = issue("bob");
    for stranger in [None, Some(&other)] {
        let mut stream = client(&running.address(), &authority, stranger);
        let mut answer = Vec::new();
        let _ = stream.write_all(REQUEST);
        let _ = stream.read_to_end(&mut answer);
        assert_eq!(answer, b"");
    }
    let mut stream = client(&running.address(), &authority, Some(&own));
    stream.write_all(REQUEST).unwrap();
    let answer = read(&mut std::io::BufReader::new(stream));
    assert_eq!(answer.body, "{}");
    let (request, shown) = served.join().unwrap();
    assert!(request.head.contains("x-scope: site1\n"), "{}", request.head);
    assert_eq!(shown, Some(own.chain()));
    assert!(running.end("").status.success());
}

#[test]
fn an_agent_that_nobody_vouches_for_is_not_asked() {
    let agent = self_signed();
    let (authority, _) = issue("somebody.else");
    let config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(agent.chain(), agent.key())
        .unwrap();
    let upstream = Upstream::bind();
    let served = upstream.once(move |stream| {
        let mut connection = ServerConnection::new(Arc::new(config)).unwrap();
        connection.complete_io(stream.get_mut()).is_err()
    });
    let fake = Fake::new(
        &format!("https://{}", upstream.address()),
        json!({ "certificate-authority-data": BASE64_STANDARD.encode(&authority) }),
        &json!({ "token": "secret" }),
    );
    let running = fake.start(&["kubectl", "get", "--scope", "site1"]);
    let layer = running.layer();
    let trusted = layer["clusters"][0]["cluster"]["certificate-authority-data"]
        .as_str()
        .unwrap();
    let trusted = String::from_utf8(BASE64_STANDARD.decode(trusted).unwrap()).unwrap();
    let address = running.address();
    let asking = thread::spawn(move || {
        let mut stream = client(&address, &trusted, None);
        stream.write_all(REQUEST).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
    });
    let output = running.wait();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("certificate"), "{told}");
    assert!(served.join().unwrap(), "the handshake was broken off");
    asking.join().unwrap();
}
