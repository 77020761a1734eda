//! Signatures of sites: what one has signed every other can check, whoever passed it on.

mod bundle;
#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::{Mutex, PoisonError},
};

use cheops_net::Revoked;
use cheops_types::{Limit, SiteName};
use rcgen::{KeyPair, PublicKeyData as _, SigningKey as _};
use rustls_pki_types::{CertificateDer, TrustAnchor};
use webpki::ALL_VERIFICATION_ALGS;

use self::bundle::{Bundle, Hash};
use crate::identity::{self, IdentityError, Unbelieved};

/// A text that is signed by itself.
const ALONE: u8 = 1;
/// One of a bundle that is signed as a whole.
const BUNDLED: u8 = 2;

/// How long a certificate that was checked is not checked again, in seconds.
const BELIEVED_S: u64 = 3600;

/// Certificates that are remembered as checked; beyond that all are checked anew. As many signatures of bundles are.
const BELIEVED_MAX: usize = 1024;

/// Why a signature is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    #[error("it is not signed")]
    Missing,
    #[error("the signature cannot be read")]
    Malformed,
    #[error("the signer is not believed: {0}")]
    Signer(#[from] IdentityError),
    #[error("site `{0}` did not sign that")]
    Forged(SiteName),
}

/// Who this site is in the mesh, as far as signing goes: its key, its certificate, and the CA that all
/// sites share.
///
/// A signature brings the certificate of its signer along, so that whoever trusts the CA can check it without
/// knowing the signer. `Debug` does not show the key.
pub struct Identity {
    site: SiteName,
    key: KeyPair,
    /// Version and certificates, as every signature begins.
    prefix: Vec<u8>,
    anchors: Vec<TrustAnchor<'static>>,
    revoked: Revoked,
    /// Certificates with the hour at which they were found valid.
    believed: Mutex<HashMap<(Vec<u8>, u64), SiteName>>,
    /// Signatures of bundles that are right, as a hash of key, text and signature: the other texts of a bundle come soon.
    right: Mutex<HashSet<Hash>>,
}

impl Identity {
    /// From the PEM texts of `cheops ca`. That the CA issued the certificate is checked by whoever
    /// receives a signature.
    pub fn new(ca: &str, certificate: &str, key: &str) -> Result<Self, IdentityError> {
        let anchors = identity::anchors(ca)?;
        let chain = identity::certificates("certificate", certificate)?;
        let key = KeyPair::from_pem(key).map_err(|error| identity::unreadable("key", &error))?;
        let end_entity = identity::parse("certificate", &chain[0])?;
        if end_entity.subject_public_key_info().as_ref() != key.subject_public_key_info() {
            return Err(IdentityError::WrongKey);
        }
        Ok(Self {
            site: identity::site_of(&end_entity)?,
            key,
            prefix: encode(&chain)?,
            anchors,
            revoked: Revoked::default(),
            believed: Mutex::default(),
            right: Mutex::default(),
        })
    }

    /// The same, not believing these certificates, whenever they signed.
    pub fn revoking(mut self, revoked: Revoked) -> Self {
        self.revoked = revoked;
        self.believed = Mutex::default();
        self
    }

    pub fn site(&self) -> &SiteName {
        &self.site
    }

    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, IdentityError> {
        let mut signature = self.prefix.clone();
        signature.extend(self.key.sign(message)?);
        Ok(signature)
    }

    /// The same for many texts at once, in their order: one signature for all of them takes the time of one, and each
    /// can be checked by itself.
    pub fn sign_all(&self, messages: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, IdentityError> {
        let mut signatures = Vec::with_capacity(messages.len());
        for texts in messages.chunks(bundle::TEXTS_MAX) {
            if let [text] = texts {
                signatures.push(self.sign(text)?);
                continue;
            }
            let bundle = Bundle::of(texts.iter().map(Vec::as_slice));
            let own = self.key.sign(&bundle.signed())?;
            signatures.extend((0..texts.len()).map(|at| {
                let mut signature = [&self.prefix, &bundle.path(at)[..], &own].concat();
                signature[0] = BUNDLED;
                signature
            }));
        }
        Ok(signatures)
    }

    /// The site that has signed `message`, if its certificate is valid now or was until `grace_s` ago at most, and is not
    /// revoked.
    pub fn signer(
        &self,
        message: &[u8],
        signature: &[u8],
        now_unix_s: u64,
        grace_s: u64,
    ) -> Result<SiteName, SignatureError> {
        if signature.is_empty() {
            return Err(SignatureError::Missing);
        }
        let (version, chain, rest) = decode(signature).ok_or(SignatureError::Malformed)?;
        // After the version: it is the same certificate whichever way it signs.
        let head = &signature[1..signature.len() - rest.len()];
        let site = self.believe(head, &chain, now_unix_s, grace_s)?;
        let is_signed = match version {
            BUNDLED => {
                let (signed, rest) = bundle::follow(message, rest).ok_or(SignatureError::Malformed)?;
                self.has_signed_bundle(&chain[0], &signed, rest)?
            }
            _ => has_signed(&chain[0], message, rest)?,
        };
        if is_signed {
            Ok(site)
        } else {
            Err(SignatureError::Forged(site))
        }
    }

    fn has_signed_bundle(
        &self,
        certificate: &CertificateDer<'_>,
        signed: &[u8],
        signature: &[u8],
    ) -> Result<bool, IdentityError> {
        let lock = || self.right.lock().unwrap_or_else(PoisonError::into_inner);
        // Each part but the last has a fixed length, so that none can pass for another's end.
        let hash = bundle::hash(&[&bundle::hash(&[certificate]), signed, signature]);
        if lock().contains(&hash) {
            return Ok(true);
        }
        let is_right = has_signed(certificate, signed, signature)?;
        if is_right {
            let mut right = lock();
            if right.len() >= BELIEVED_MAX {
                right.clear();
            }
            right.insert(hash);
        }
        Ok(is_right)
    }

    fn believe(
        &self,
        head: &[u8],
        chain: &[CertificateDer<'_>],
        now_unix_s: u64,
        grace_s: u64,
    ) -> Result<SiteName, IdentityError> {
        let key = (head.to_vec(), now_unix_s / BELIEVED_S);
        let lock = || self.believed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(site) = lock().get(&key) {
            return Ok(site.clone());
        }
        if self.revoked.has_any(chain) {
            return Err(IdentityError::Revoked);
        }
        let believed = identity::believe_lately(&self.anchors, chain, now_unix_s, grace_s);
        let site = believed.map_err(|unbelieved| {
            if let Unbelieved::Ended { .. } = unbelieved {
                Limit::CertificateGrace.hit();
            }
            unbelieved
        })?;
        let mut believed = lock();
        if believed.len() >= BELIEVED_MAX {
            believed.clear();
        }
        believed.insert(key, site.clone());
        Ok(site)
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("site", &self.site)
            .finish_non_exhaustive()
    }
}

fn has_signed(
    certificate: &CertificateDer<'_>,
    message: &[u8],
    signature: &[u8],
) -> Result<bool, IdentityError> {
    let end_entity = identity::parse("certificate", certificate)?;
    // The certificate says which kind of key it is, so at most a few of these are tried.
    let mut algorithms = ALL_VERIFICATION_ALGS.iter();
    Ok(algorithms.any(|algorithm| {
        let verified = end_entity.verify_signature(*algorithm, message, signature);
        verified.is_ok()
    }))
}

/// Version, number of certificates, each with its length in front.
fn encode(chain: &[CertificateDer<'_>]) -> Result<Vec<u8>, IdentityError> {
    let too_long = |_| IdentityError::Unreadable {
        what: "certificate",
        reason: "it is too long to go with every signature".to_owned(),
    };
    let mut out = vec![ALONE, u8::try_from(chain.len()).map_err(too_long)?];
    for certificate in chain {
        out.extend(u16::try_from(certificate.len()).map_err(too_long)?.to_be_bytes());
        out.extend(certificate.as_ref());
    }
    Ok(out)
}

/// The version, the certificates, at least one, and what follows them.
fn decode(signature: &[u8]) -> Option<(u8, Vec<CertificateDer<'_>>, &[u8])> {
    let [version @ (ALONE | BUNDLED), count, rest @ ..] = signature else {
        return None;
    };
    let mut rest = rest;
    let mut chain = Vec::new();
    for _ in 0..*count {
        let (length, tail) = rest.split_first_chunk()?;
        let (certificate, tail) = tail.split_at_checked(u16::from_be_bytes(*length).into())?;
        chain.push(CertificateDer::from(certificate));
        rest = tail;
    }
    (!chain.is_empty()).then_some((*version, chain, rest))
}
