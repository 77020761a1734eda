//! Who a site is: a certificate of the mesh CA with the site's name as its only subject name.

#[cfg(test)]
mod tests;

use std::{fmt, net::IpAddr, str::FromStr, time::Duration};

use cheops_net::SITE_URI_PREFIX;
use cheops_types::SiteName;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PublicKeyData, SanType,
};
use rustls_pki_types::{CertificateDer, DnsName, TrustAnchor, UnixTime, pem::PemObject};
use webpki::{ALL_VERIFICATION_ALGS, EndEntityCert, KeyUsage, anchor_from_trusted_cert};

/// The last second of the year 9999, after which X.509 has no dates.
const LAST_DATE_UNIX_S: u64 = 253_402_300_799;

/// The longest common name that X.520 allows. Longer site names are cut there; the identity is the
/// URI name, never the common name.
const COMMON_NAME_MAX_BYTES: usize = 64;

/// Why a certificate could not be made or is not accepted. Nothing was written anywhere.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    #[error("the {what} is not readable PEM: {reason}")]
    Unreadable { what: &'static str, reason: String },
    #[error("the key does not belong to the certificate; copy both files from the same place")]
    WrongKey,
    #[error("the CA was not made by `cheops ca init`; use the tool that made it to issue certificates")]
    ForeignCa,
    #[error("the CA did not issue the certificate; issue it again with this CA, or copy the CA that did")]
    OtherCa,
    #[error("the certificate is expired or not valid yet; issue a new one, or set the clock")]
    OutOfDate,
    #[error("the certificate is revoked here; issue a new one, or take it out of `peer.revoked`")]
    Revoked,
    #[error(
        "the certificate is not a site's: it needs exactly one URI name, `cheops:site:<name>`, and no other names"
    )]
    NotASite,
    #[error("the validity ends before it begins, or after the year 9999")]
    Validity,
    #[error("the certificate could not be made: {0}")]
    Generation(String),
}

impl From<rcgen::Error> for IdentityError {
    fn from(error: rcgen::Error) -> Self {
        Self::Generation(error.to_string())
    }
}

/// From when until when a certificate counts, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    pub not_before_unix_s: u64,
    pub not_after_unix_s: u64,
}

impl Validity {
    /// `days` from `now_unix_s` on. It begins an hour early, so that sites whose clocks differ a
    /// little accept each other at once.
    pub fn days(now_unix_s: u64, days: u32) -> Self {
        Self {
            not_before_unix_s: now_unix_s.saturating_sub(3600),
            not_after_unix_s: now_unix_s.saturating_add(u64::from(days) * 86_400),
        }
    }

    fn apply(self, params: &mut CertificateParams) -> Result<(), IdentityError> {
        if self.not_after_unix_s <= self.not_before_unix_s || self.not_after_unix_s > LAST_DATE_UNIX_S {
            return Err(IdentityError::Validity);
        }
        let epoch = rcgen::date_time_ymd(1970, 1, 1);
        params.not_before = epoch + Duration::from_secs(self.not_before_unix_s);
        params.not_after = epoch + Duration::from_secs(self.not_after_unix_s);
        Ok(())
    }
}

/// A certificate and its private key as PEM text. `Debug` does not show the key.
#[derive(Clone)]
pub struct Credentials {
    pub certificate: String,
    pub key: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("certificate", &self.certificate)
            .finish_non_exhaustive()
    }
}

/// The certificate authority of one mesh: whoever holds its key decides who is a site.
///
/// Keys are ECDSA P-256 and come from the operating system's generator. A CA's subject is derived
/// from its key, so that the CAs of two meshes are told apart and a CA can be taken up again from
/// its two files alone.
pub struct MeshCa {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl MeshCa {
    pub fn create(validity: Validity) -> Result<Self, IdentityError> {
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
        let mut params = ca_params(&key);
        validity.apply(&mut params)?;
        let certificate = params.self_signed(&key)?.pem();
        Ok(Self {
            certificate,
            issuer: Issuer::new(params, key),
        })
    }

    /// Takes up a CA that [`MeshCa::create`] made.
    pub fn from_pem(certificate: &str, key: &str) -> Result<Self, IdentityError> {
        let der = CertificateDer::from_pem_slice(certificate.as_bytes())
            .map_err(|error| unreadable("CA certificate", &error))?;
        let key = KeyPair::from_pem(key).map_err(|error| unreadable("CA key", &error))?;
        let own_key = parse("CA certificate", &der)?.subject_public_key_info();
        if own_key.as_ref() != key.subject_public_key_info() {
            return Err(IdentityError::WrongKey);
        }
        Ok(Self {
            certificate: certificate.to_owned(),
            issuer: Issuer::new(ca_params(&key), key),
        })
    }

    pub fn to_pem(&self) -> Credentials {
        Credentials {
            certificate: self.certificate.clone(),
            key: self.issuer.key().serialize_pem(),
        }
    }

    /// Makes a new key for `site` and certifies it for both ends of a peer link.
    pub fn issue(&self, site: &SiteName, validity: Validity) -> Result<Credentials, IdentityError> {
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
        let mut params = CertificateParams::default();
        validity.apply(&mut params)?;
        params.distinguished_name = common_name(&site[..site.len().min(COMMON_NAME_MAX_BYTES)]);
        params.subject_alt_names = vec![SanType::URI(format!("{SITE_URI_PREFIX}{site}").try_into()?)];
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        params.use_authority_key_identifier_extension = true;
        let issued = Credentials {
            certificate: params.signed_by(&key, &self.issuer)?.pem(),
            key: key.serialize_pem(),
        };
        // The subject is derived, not read: a CA certificate with another subject would only be
        // noticed by the first peer that refuses the site.
        verify(&self.certificate, &issued.certificate, validity.not_before_unix_s).map_err(|error| {
            match error {
                IdentityError::OtherCa => IdentityError::ForeignCa,
                other => other,
            }
        })?;
        Ok(issued)
    }
}

/// A name by which users reach a listener: a DNS name, which may begin with `*.`, or an IP address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenerName(SanType);

impl FromStr for ListenerName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self(SanType::IpAddress(address)));
        }
        let wrong = || format!("`{text}` is neither a DNS name nor an IP address");
        DnsName::try_from(text.strip_prefix("*.").unwrap_or(text)).map_err(|_| wrong())?;
        let name = text.try_into().map_err(|_| wrong())?;
        Ok(Self(SanType::DnsName(name)))
    }
}

impl MeshCa {
    /// Makes a new key and certifies it for connections of users to `names`. It is no site's: no peer
    /// believes it, neither as server nor as client.
    pub fn issue_listener(
        &self,
        site: &SiteName,
        names: &[ListenerName],
        validity: Validity,
    ) -> Result<Credentials, IdentityError> {
        let key = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256)?;
        let mut params = CertificateParams::default();
        validity.apply(&mut params)?;
        params.distinguished_name = common_name(&site[..site.len().min(COMMON_NAME_MAX_BYTES)]);
        params.subject_alt_names = names.iter().map(|name| name.0.clone()).collect();
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let issued = params.signed_by(&key, &self.issuer)?;
        let end_entity = parse("certificate", issued.der())?;
        let (anchors, at_unix_s) = (anchors(&self.certificate)?, validity.not_before_unix_s);
        check_usage(&end_entity, &anchors, &[], at_unix_s, KeyUsage::server_auth()).map_err(|error| {
            match error.into() {
                IdentityError::OtherCa => IdentityError::ForeignCa,
                other => other,
            }
        })?;
        Ok(Credentials {
            certificate: issued.pem(),
            key: key.serialize_pem(),
        })
    }
}

impl fmt::Debug for MeshCa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MeshCa")
            .field("certificate", &self.certificate)
            .finish_non_exhaustive()
    }
}

/// The site that a certificate speaks for, if a peer that trusts `ca` would believe it at
/// `at_unix_s`, as server and as client. Both are PEM texts.
pub fn verify(ca: &str, certificate: &str, at_unix_s: u64) -> Result<SiteName, IdentityError> {
    let (anchors, chain) = (anchors(ca)?, certificates("certificate", certificate)?);
    Ok(believe(&anchors, &chain, at_unix_s)?)
}

/// Why a certificate is not believed at a time.
pub(crate) enum Unbelieved {
    /// One of the chain has ended before, at the time given.
    Ended {
        at_unix_s: u64,
    },
    Otherwise(IdentityError),
}

impl From<IdentityError> for Unbelieved {
    fn from(error: IdentityError) -> Self {
        Self::Otherwise(error)
    }
}

impl From<Unbelieved> for IdentityError {
    fn from(unbelieved: Unbelieved) -> Self {
        match unbelieved {
            Unbelieved::Ended { .. } => Self::OutOfDate,
            Unbelieved::Otherwise(error) => error,
        }
    }
}

/// The site that a chain of certificates speaks for; its own is the first.
pub(crate) fn believe(
    anchors: &[TrustAnchor<'_>],
    chain: &[CertificateDer<'_>],
    at_unix_s: u64,
) -> Result<SiteName, Unbelieved> {
    let (first, intermediates) = chain.split_first().ok_or(IdentityError::NotASite)?;
    let end_entity = parse("certificate", first)?;
    for usage in [KeyUsage::server_auth(), KeyUsage::client_auth()] {
        check_usage(&end_entity, anchors, intermediates, at_unix_s, usage)?;
    }
    Ok(site_of(&end_entity)?)
}

/// Like [`believe`] now, or at the end of the chain's time if that was `grace_s` ago at most. Only this site's clock
/// counts: a time that comes with what was signed is chosen by whoever has the key.
pub(crate) fn believe_lately(
    anchors: &[TrustAnchor<'_>],
    chain: &[CertificateDer<'_>],
    now_unix_s: u64,
    grace_s: u64,
) -> Result<SiteName, Unbelieved> {
    let mut at_unix_s = now_unix_s;
    loop {
        match believe(anchors, chain, at_unix_s) {
            // The next may have ended earlier still; each end is before the last, so this comes to an end.
            Err(Unbelieved::Ended { at_unix_s: end })
                if end < at_unix_s && now_unix_s.saturating_sub(end) <= grace_s =>
            {
                at_unix_s = end;
            }
            result => return result,
        }
    }
}

fn check_usage(
    end_entity: &EndEntityCert<'_>,
    anchors: &[TrustAnchor<'_>],
    intermediates: &[CertificateDer<'_>],
    at_unix_s: u64,
    usage: KeyUsage,
) -> Result<(), Unbelieved> {
    let at = UnixTime::since_unix_epoch(Duration::from_secs(at_unix_s));
    end_entity
        .verify_for_usage(
            ALL_VERIFICATION_ALGS,
            anchors,
            intermediates,
            at,
            usage,
            None,
            None,
        )
        .map(drop)
        .map_err(|error| match error {
            webpki::Error::CertExpired { not_after, .. } => Unbelieved::Ended {
                at_unix_s: not_after.as_secs(),
            },
            webpki::Error::CertNotValidYet { .. } => IdentityError::OutOfDate.into(),
            webpki::Error::RequiredEkuNotFoundContext(_) => IdentityError::NotASite.into(),
            _ => IdentityError::OtherCa.into(),
        })
}

/// What a mesh trusts: the CA certificates of a PEM text.
pub(crate) fn anchors(ca: &str) -> Result<Vec<TrustAnchor<'static>>, IdentityError> {
    certificates("CA certificate", ca)?
        .iter()
        .map(|der| {
            anchor_from_trusted_cert(der)
                .map(|anchor| anchor.to_owned())
                .map_err(|error| unreadable("CA certificate", &error))
        })
        .collect()
}

/// The certificates of a PEM text, at least one.
pub(crate) fn certificates(
    what: &'static str,
    pem: &str,
) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    let found = CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| unreadable(what, &error))?;
    if found.is_empty() {
        return Err(unreadable(what, &"no certificate in it"));
    }
    Ok(found)
}

/// The one name of a site's certificate. More names would let one key speak for several sites.
pub(crate) fn site_of(certificate: &EndEntityCert<'_>) -> Result<SiteName, IdentityError> {
    let mut names = certificate.valid_uri_names();
    let (Some(uri), None, None) = (names.next(), names.next(), certificate.valid_dns_names().next()) else {
        return Err(IdentityError::NotASite);
    };
    uri.strip_prefix(SITE_URI_PREFIX)
        .and_then(|name| SiteName::new(name).ok())
        .ok_or(IdentityError::NotASite)
}

fn ca_params(key: &KeyPair) -> CertificateParams {
    let mut params = CertificateParams::default();
    let fingerprint = params
        .key_identifier(key)
        .iter()
        .take(4)
        .fold(0_u32, |sum, byte| sum << 8 | u32::from(*byte));
    params.distinguished_name = common_name(&format!("Cheops mesh CA {fingerprint:08x}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn common_name(text: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, text);
    name
}

pub(crate) fn parse<'a>(
    what: &'static str,
    der: &'a CertificateDer<'_>,
) -> Result<EndEntityCert<'a>, IdentityError> {
    EndEntityCert::try_from(der).map_err(|error| unreadable(what, &error))
}

pub(crate) fn unreadable(what: &'static str, reason: &dyn fmt::Display) -> IdentityError {
    IdentityError::Unreadable {
        what,
        reason: reason.to_string(),
    }
}
