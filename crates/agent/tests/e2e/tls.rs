//! TLS on the way in and on the way out.

use std::{net::TcpStream, sync::Arc};

use rustls::{ServerConfig, ServerConnection, StreamOwned};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use serde_json::json;

use crate::{
    harness::{Mesh, ServiceTls, get, run_cheops},
    wire::{Service, Wire, ok},
};

/// A service behind TLS that says `sealed`.
fn sealed(tls: &ServiceTls) -> Service {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from_pem_slice(tls.cert_pem.as_bytes()).unwrap()],
            PrivateKeyDer::from_pem_slice(tls.key_pem.as_bytes()).unwrap(),
        )
        .unwrap();
    let config = Arc::new(config);
    Service::start_over(
        move |stream: TcpStream| {
            let connection = ServerConnection::new(config.clone()).unwrap();
            StreamOwned::new(connection, stream)
        },
        |wire| {
            while wire.request().is_some() {
                wire.send(ok("sealed"));
            }
        },
    )
}

#[tokio::test]
async fn clients_of_a_listener_with_tls() {
    let mesh = Mesh::of(2).tls("B").start().await;
    for scope in ["site1", "site2"] {
        let call = get(mesh.b(1), "/string").scope(scope).tls(mesh.tls());
        let number = &scope[4..];
        assert_eq!(call.clone().await.is(200).text(), format!("from site {number}"));
        assert_eq!(call.http2().await.is(200).text(), format!("from site {number}"));
    }
    let mut plain = Wire::connect(mesh.b(1));
    plain.send("GET /string HTTP/1.1\r\nHost: app\r\n\r\n");
    let answer = plain.rest();
    assert!(!answer.starts_with(b"HTTP/"), "{answer:?}");

    let stranger = ServiceTls::make();
    let refused = get(mesh.b(1), "/string").tls(&stranger).try_send().await;
    assert!(refused.is_err(), "{refused:?}");
}

#[tokio::test]
async fn a_service_behind_https() {
    let (trusted, stranger) = (ServiceTls::make(), ServiceTls::make());
    let (good, bad) = (sealed(&trusted), sealed(&stranger));
    let mesh = Mesh::of(1).start().await;
    let site = mesh.site(1);
    std::fs::write(site.dir().join("upstream.pem"), &trusted.cert_pem).unwrap();
    let before = std::fs::read_to_string(site.config_path()).unwrap();
    let plain = upstream_of_a(&before);
    let behind = |service: &Service| {
        format!(
            "upstream = \"https://{}\"\nupstream_ca = \"upstream.pem\"",
            service.addr()
        )
    };

    site.edit_config(|text| text.replacen(&plain, &behind(&good), 1));
    site.tell("/v1/reload", &json!({})).await;
    let answer = get(mesh.a(1), "/").await.is(200);
    assert_eq!(answer.text(), "sealed");

    site.edit_config(|_| before.replacen(&plain, &behind(&bad), 1));
    site.tell("/v1/reload", &json!({})).await;
    let answer = get(mesh.a(1), "/").await;
    let problem = answer.problem(502, "upstream_unreachable");
    assert!(
        problem["detail"].as_str().unwrap().contains("certificate"),
        "{problem}"
    );
    assert_eq!(answer.outcomes(), "site1=not-executed");
    assert!(!bad.text().contains("GET"), "{}", bad.text());
}

/// The line of the configuration that says where A is.
fn upstream_of_a(config: &str) -> String {
    let (_, a) = config.split_once("[services.A]").unwrap();
    let line = a.lines().find(|line| line.starts_with("upstream")).unwrap();
    line.to_owned()
}

#[tokio::test]
async fn listeners_with_the_meshs_certificate() {
    let mut mesh = Mesh::of(1).start().await;
    let site = mesh.site_mut(1);
    site.edit_config(|text| text.replacen("[services.A]", "[services.A]\ntls = \"mesh\"", 1));
    let refused = site.tell("/v1/reload", &json!({})).await;
    let detail = refused["detail"].as_str().unwrap();
    assert!(detail.contains("cheops ca listener site1"), "{detail}");

    let ca = site.dir().parent().unwrap().join("ca");
    let (ca, out) = (ca.to_str().unwrap(), site.dir().to_str().unwrap());
    run_cheops(&[
        "ca",
        "listener",
        "site1",
        "localhost",
        "::1",
        "--dir",
        ca,
        "--out",
        out,
    ]);
    site.restart().await;
    let ca_pem = std::fs::read_to_string(site.dir().join("ca.pem")).unwrap();
    let call = get(mesh.a(1), "/").tls(&ServiceTls::trusting(&ca_pem));
    call.clone().http2().try_send().await.unwrap();
    call.try_send().await.unwrap();
}
