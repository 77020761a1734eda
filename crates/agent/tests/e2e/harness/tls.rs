//! TLS for a service's listeners.

use std::{fs, path::Path, sync::Arc};

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};

use super::Issued;

/// A certificate for `localhost` and 127.0.0.1 that signed itself, and a caller's trust in it.
#[derive(Debug, Clone)]
pub(crate) struct ServiceTls {
    pub(crate) cert_pem: String,
    pub(crate) key_pem: String,
    /// What a caller shows.
    caller: Option<Issued>,
}

impl ServiceTls {
    pub(crate) fn make() -> Self {
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        Self {
            cert_pem: made.cert.pem(),
            key_pem: made.signing_key.serialize_pem(),
            caller: None,
        }
    }

    /// The trust in the certificates of a CA.
    pub(crate) fn trusting(ca_pem: &str) -> Self {
        Self {
            cert_pem: ca_pem.to_owned(),
            key_pem: String::new(),
            caller: None,
        }
    }

    /// The same for a caller who shows a certificate.
    pub(crate) fn showing(&self, caller: &Issued) -> Self {
        Self {
            caller: Some(caller.clone()),
            ..self.clone()
        }
    }

    /// Writes `tls.pem` and `tls.key`.
    pub(crate) fn write(&self, dir: &Path) {
        fs::write(dir.join("tls.pem"), &self.cert_pem).unwrap();
        fs::write(dir.join("tls.key"), &self.key_pem).unwrap();
    }

    pub(crate) fn client(&self, alpn: &[&[u8]]) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(self.cert_pem.as_bytes()).unwrap())
            .unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match &self.caller {
            None => builder.with_no_client_auth(),
            Some(Issued { cert_pem, key_pem }) => builder
                .with_client_auth_cert(
                    vec![CertificateDer::from_pem_slice(cert_pem.as_bytes()).unwrap()],
                    PrivateKeyDer::from_pem_slice(key_pem.as_bytes()).unwrap(),
                )
                .unwrap(),
        };
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        Arc::new(config)
    }
}
