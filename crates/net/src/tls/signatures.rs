//! Who checks signatures, for verifiers that judge certificates in a way of their own.

use rustls::{
    DigitallySignedStruct, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::{self, WebPkiSupportedAlgorithms},
};
use rustls_pki_types::CertificateDer;

/// The algorithms of this program, with the methods that [`signatures_by`](crate::signatures_by) hands on to.
#[derive(Debug, Clone, Copy)]
pub struct Signatures(pub(super) WebPkiSupportedAlgorithms);

impl Default for Signatures {
    fn default() -> Self {
        Self(super::provider().signature_verification_algorithms)
    }
}

impl Signatures {
    pub fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        crypto::verify_tls12_signature(message, cert, dss, &self.0)
    }

    pub fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        crypto::verify_tls13_signature(message, cert, dss, &self.0)
    }

    pub fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

/// In an `impl` of one of rustls's verifiers: a field checks the signatures, [`Signatures`] or another verifier.
#[macro_export]
macro_rules! signatures_by {
    ($field:ident) => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            cert: &::rustls::pki_types::CertificateDer<'_>,
            dss: &::rustls::DigitallySignedStruct,
        ) -> Result<::rustls::client::danger::HandshakeSignatureValid, ::rustls::Error> {
            self.$field.verify_tls12_signature(message, cert, dss)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            cert: &::rustls::pki_types::CertificateDer<'_>,
            dss: &::rustls::DigitallySignedStruct,
        ) -> Result<::rustls::client::danger::HandshakeSignatureValid, ::rustls::Error> {
            self.$field.verify_tls13_signature(message, cert, dss)
        }

        fn supported_verify_schemes(&self) -> Vec<::rustls::SignatureScheme> {
            self.$field.supported_verify_schemes()
        }
    };
}
