//! TLS on both sides of the forwarder: whom it believes, and who may use it.

use std::{fs, sync::Arc};

use anyhow::{Context as _, anyhow};
use cheops_net::{Signatures, signatures_by};
use rustls::{
    ClientConfig, DistinguishedName, RootCertStore, ServerConfig,
    client::{
        WebPkiServerVerifier,
        danger::{ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::{CryptoProvider, ring},
    server::{
        ParsedCertificate,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
};
use rustls_pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime, pem::PemObject as _,
};

use super::kubeconfig::Server;

/// Where systems keep the authorities that they trust.
const SYSTEM_FILES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
/// Names another file than those, for this program as for kubectl.
const SYSTEM_VARIABLE: &str = "SSL_CERT_FILE";

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// TLS towards the server, as kubectl would speak it.
pub(super) fn client(server: &Server) -> anyhow::Result<Arc<ClientConfig>> {
    let verifier: Arc<dyn ServerCertVerifier> = if server.is_verified {
        let given = match &server.authorities {
            Some(pem) => certificates(pem).context("the certificate authority cannot be read")?,
            None => certificates(&system_authorities()?).unwrap_or_default(),
        };
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(given.iter().cloned());
        let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider())
            .build()
            .map_err(|error| anyhow!("the certificate authority cannot be used: {error}"))?;
        Arc::new(Authorities { given, inner })
    } else {
        Arc::new(Anyone {
            signatures: Signatures::default(),
        })
    };
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let mut config = match &server.identity {
        Some((certificate, key)) => {
            let chain = certificates(certificate).context("the client certificate cannot be read")?;
            let key = PrivateKeyDer::from_pem_slice(key)
                .map_err(|error| anyhow!("the client key cannot be read: {error}"))?;
            config
                .with_client_auth_cert(chain, key)
                .context("the client certificate cannot be used")?
        }
        None => config.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// TLS towards kubectl, and the certificate that kubectl is to trust.
///
/// The forwarder proves to the server that it is the owner of the caller's certificate. So that nobody else on
/// this machine can use that proof, it only serves who has the same certificate, and its key.
pub(super) fn server(server: &Server) -> anyhow::Result<(Arc<ServerConfig>, String)> {
    let made = rcgen::generate_simple_self_signed([super::forwarder::HOST.to_string()])?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let config = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let config = match &server.identity {
        Some((certificate, _)) => {
            let chain = certificates(certificate).context("the client certificate cannot be read")?;
            config.with_client_cert_verifier(Arc::new(Owner {
                certificate: chain[0].clone(),
                signatures: Signatures::default(),
            }))
        }
        None => config.with_no_client_auth(),
    };
    let mut config = config.with_single_cert(vec![made.cert.der().clone()], key.into())?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok((Arc::new(config), made.cert.pem()))
}

/// At least one.
fn certificates(pem: &[u8]) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let found = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(anyhow!("it holds no certificate in PEM form")),
        Err(error) => Err(anyhow!("{error}")),
    }
}

fn system_authorities() -> anyhow::Result<Vec<u8>> {
    if let Some(file) = std::env::var_os(SYSTEM_VARIABLE).filter(|file| !file.is_empty()) {
        return fs::read(&file).with_context(|| format!("cannot read {}", file.display()));
    }
    SYSTEM_FILES
        .iter()
        .find_map(|file| fs::read(file).ok())
        .ok_or_else(|| {
            anyhow!("the kubeconfig names no certificate authority, and this system has none: name one with `--certificate-authority`")
        })
}

/// Believes what the authorities signed, and a server that shows one of their own certificates: a certificate
/// that signed itself is both, and kubectl takes it.
#[derive(Debug)]
struct Authorities {
    given: Vec<CertificateDer<'static>>,
    inner: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for Authorities {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified =
            self.inner
                .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        match verified {
            // "It is an authority's": said after its dates were found good.
            Err(rustls::Error::InvalidCertificate(rustls::CertificateError::Other(_)))
                if self.given.contains(end_entity) =>
            {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            other => other,
        }
    }

    signatures_by!(inner);
}

/// `insecure-skip-tls-verify`.
#[derive(Debug)]
struct Anyone {
    signatures: Signatures,
}

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    signatures_by!(signatures);
}

/// Accepts one certificate and no other. Whether the caller's server trusts it is that server's to say.
#[derive(Debug)]
struct Owner {
    certificate: CertificateDer<'static>,
    signatures: Signatures,
}

impl ClientCertVerifier for Owner {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        if *end_entity == self.certificate {
            Ok(ClientCertVerified::assertion())
        } else {
            Err(rustls::CertificateError::ApplicationVerificationFailure.into())
        }
    }

    signatures_by!(signatures);
}
