//! TLS: client ports, services behind https, and the mutual TLS of the mesh.

mod revoked;
mod signatures;
mod subject;

use std::{fmt, sync::Arc};

use cheops_types::SiteName;
pub use revoked::{InvalidSerial, Revoked, Serial};
use rustls::{
    CertificateError, ClientConfig, DistinguishedName, RootCertStore, ServerConfig,
    client::{
        danger::{ServerCertVerified, ServerCertVerifier},
        verify_server_cert_signed_by_trust_anchor,
    },
    crypto::{CryptoProvider, ring},
    server::{ParsedCertificate, WebPkiClientVerifier, danger::ClientCertVerifier},
};
use rustls_pki_types::{
    CertificateDer, PrivateKeyDer, ServerName, UnixTime,
    pem::{self, PemObject as _},
};
pub use signatures::Signatures;
pub use subject::Subject;

/// What a site's certificate says it is: `cheops:site:<name>` as its only URI name.
pub const SITE_URI_PREFIX: &str = "cheops:site:";

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("no certificate or key can be read: {0}")]
    Pem(#[from] pem::Error),
    #[error("the certificate or key cannot be used: {0}")]
    Rustls(#[from] rustls::Error),
    #[error("the CA cannot be used: {0}")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
    #[error("the PEM text holds no certificate")]
    NoCertificate,
    #[error("the certificate names no site: issue one with `cheops ca issue <site>`")]
    NoSite,
    #[error("the certificate is for site `{found}`, not for `{expected}`")]
    OtherSite { found: SiteName, expected: SiteName },
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let chain = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>()?;
    if chain.is_empty() {
        Err(TlsError::NoCertificate)
    } else {
        Ok(chain)
    }
}

fn roots(pem: &[u8]) -> Result<Arc<RootCertStore>, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem)? {
        roots.add(certificate)?;
    }
    Ok(Arc::new(roots))
}

/// TLS for a client port, offering HTTP/2 and HTTP/1.1. With a CA a client may show a certificate; one
/// that the CA did not issue, or that names no [`Subject`], ends the handshake.
pub fn server_tls(
    cert_pem: &[u8],
    key_pem: &[u8],
    client_ca_pem: Option<&[u8]>,
) -> Result<Arc<ServerConfig>, TlsError> {
    let builder = ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let builder = match client_ca_pem {
        None => builder.with_no_client_auth(),
        Some(pem) => {
            let issued = WebPkiClientVerifier::builder_with_provider(roots(pem)?, provider())
                .allow_unauthenticated()
                .build()?;
            builder.with_client_cert_verifier(Arc::new(Judged {
                issued,
                revoked: Arc::default(),
                is_somebody: |certificate| Subject::of(certificate).is_some(),
            }))
        }
    };
    let mut config =
        builder.with_single_cert(certificates(cert_pem)?, PrivateKeyDer::from_pem_slice(key_pem)?)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// A certificate chain and its key, in PEM form.
#[derive(Debug, Clone, Copy)]
pub struct Pair<'a> {
    pub cert_pem: &'a [u8],
    pub key_pem: &'a [u8],
}

/// TLS towards a service behind https, trusting the given CA; with a pair it shows that certificate.
pub fn client_tls(ca_pem: &[u8], pair: Option<Pair<'_>>) -> Result<Arc<ClientConfig>, TlsError> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots(ca_pem)?);
    let config = match pair {
        None => builder.with_no_client_auth(),
        Some(Pair { cert_pem, key_pem }) => {
            builder.with_client_auth_cert(certificates(cert_pem)?, PrivateKeyDer::from_pem_slice(key_pem)?)?
        }
    };
    Ok(Arc::new(config))
}

/// This site's identity in the mesh and the CA that all sites share.
#[derive(Clone)]
pub struct MeshTls {
    roots: Arc<RootCertStore>,
    chain: Vec<CertificateDer<'static>>,
    key: Arc<PrivateKeyDer<'static>>,
    revoked: Arc<Revoked>,
}

impl MeshTls {
    /// Reads the files of `cheops ca` and checks that the certificate is `site`'s.
    pub fn new(site: &SiteName, ca_pem: &[u8], cert_pem: &[u8], key_pem: &[u8]) -> Result<Self, TlsError> {
        let tls = Self {
            roots: roots(ca_pem)?,
            chain: certificates(cert_pem)?,
            key: Arc::new(PrivateKeyDer::from_pem_slice(key_pem)?),
            revoked: Arc::default(),
        };
        let found = site_of(&tls.chain[0]).ok_or(TlsError::NoSite)?;
        if found != *site {
            return Err(TlsError::OtherSite {
                found,
                expected: site.clone(),
            });
        }
        // A key that does not belong to the certificate shows here instead of at the first peer.
        tls.server()?;
        Ok(tls)
    }

    /// The same, not believing these certificates.
    pub fn revoking(mut self, revoked: Revoked) -> Self {
        self.revoked = Arc::new(revoked);
        self
    }

    /// Whether both are the same identity under the same CA, and believe the same certificates.
    pub fn is_same(&self, other: &Self) -> bool {
        self.chain == other.chain
            && self.roots.roots == other.roots.roots
            && self.key == other.key
            && self.revoked == other.revoked
    }

    /// TLS of the peer port: nobody without a certificate of the mesh gets in.
    pub fn server(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let verifier = WebPkiClientVerifier::builder_with_provider(self.roots.clone(), provider()).build()?;
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(Arc::new(Judged {
                issued: verifier,
                revoked: self.revoked.clone(),
                is_somebody: |certificate| site_of(certificate).is_some(),
            }))
            .with_single_cert(self.chain.clone(), self.key.clone_key())?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    /// TLS towards `site`: a certificate of the mesh for another site is refused.
    pub(crate) fn client(&self, site: &SiteName, alpn: &[u8]) -> Result<Arc<ClientConfig>, TlsError> {
        let verifier = Arc::new(SiteVerifier {
            site: site.clone(),
            roots: self.roots.clone(),
            revoked: self.revoked.clone(),
            signatures: Signatures::default(),
        });
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_client_auth_cert(self.chain.clone(), self.key.clone_key())?;
        config.alpn_protocols = vec![alpn.to_vec()];
        config.enable_sni = false;
        Ok(Arc::new(config))
    }
}

/// The site that a certificate is for.
pub(crate) fn site_of(certificate: &CertificateDer<'_>) -> Option<SiteName> {
    let certificate = webpki::EndEntityCert::try_from(certificate).ok()?;
    let mut names = certificate.valid_uri_names();
    let site = names.next()?.strip_prefix(SITE_URI_PREFIX)?;
    if names.next().is_some() {
        return None;
    }
    SiteName::new(site).ok()
}

impl Revoked {
    fn check(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
    ) -> Result<(), rustls::Error> {
        if self.has_any(std::iter::once(end_entity).chain(intermediates)) {
            return Err(CertificateError::Revoked.into());
        }
        Ok(())
    }
}

/// Accepts certificates of a CA that name somebody.
#[derive(Debug)]
struct Judged {
    issued: Arc<dyn ClientCertVerifier>,
    revoked: Arc<Revoked>,
    is_somebody: fn(&CertificateDer<'_>) -> bool,
}

impl ClientCertVerifier for Judged {
    fn client_auth_mandatory(&self) -> bool {
        self.issued.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.issued.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<rustls::server::danger::ClientCertVerified, rustls::Error> {
        let verified = self.issued.verify_client_cert(end_entity, intermediates, now)?;
        self.revoked.check(end_entity, intermediates)?;
        if (self.is_somebody)(end_entity) {
            Ok(verified)
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }

    crate::signatures_by!(issued);
}

/// Checks that the other side is one certain site; its address proves nothing.
struct SiteVerifier {
    site: SiteName,
    roots: Arc<RootCertStore>,
    revoked: Arc<Revoked>,
    signatures: Signatures,
}

impl fmt::Debug for SiteVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SiteVerifier({})", self.site)
    }
}

impl ServerCertVerifier for SiteVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let parsed = ParsedCertificate::try_from(end_entity)?;
        let algorithms = self.signatures.0.all;
        verify_server_cert_signed_by_trust_anchor(&parsed, &self.roots, intermediates, now, algorithms)?;
        self.revoked.check(end_entity, intermediates)?;
        match site_of(end_entity) {
            Some(site) if site == self.site => Ok(ServerCertVerified::assertion()),
            Some(site) => Err(rustls::Error::General(format!(
                "the certificate is for site `{site}`"
            ))),
            None => Err(rustls::Error::General("the certificate names no site".into())),
        }
    }

    crate::signatures_by!(signatures);
}
