//! TLS for a service's listeners.

use std::{fs, path::Path, sync::Arc};

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::{CertificateDer, pem::PemObject as _};

/// A certificate for `localhost` and 127.0.0.1 that signed itself, and a caller's trust in it.
#[derive(Debug, Clone)]
pub(crate) struct ServiceTls {
    pub(crate) cert_pem: String,
    pub(crate) key_pem: String,
}

impl ServiceTls {
    pub(crate) fn make() -> Self {
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        Self {
            cert_pem: made.cert.pem(),
            key_pem: made.signing_key.serialize_pem(),
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
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        Arc::new(config)
    }
}
