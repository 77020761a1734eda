//! Certificates that are not believed any more, although their time has not come.

use std::{collections::BTreeSet, fmt, str::FromStr};

use rustls_pki_types::CertificateDer;

/// The longest serial number that X.509 allows, in bytes.
const SERIAL_MAX_BYTES: usize = 20;

/// A certificate's serial number, by which its CA tells it from all others that it has issued.
///
/// A hash of the certificate would not do: its signature is outside of what is signed, and an ECDSA signature can be
/// written in two ways. So whoever has a certificate can make another one of it that is as good, with another hash.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Serial(Vec<u8>);

/// Why a text is not a serial number.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not a serial number: write its hexadecimal digits, as `cheops ca serial <certificate>` shows them"
)]
pub struct InvalidSerial(String);

impl Serial {
    /// None for what is no certificate.
    pub fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let certificate = webpki::EndEntityCert::try_from(certificate).ok()?;
        Some(Self::new(certificate.serial()))
    }

    /// Without the zeros in front, which DER has for the sign and people leave out.
    fn new(bytes: &[u8]) -> Self {
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        Self(bytes[zeros..].to_vec())
    }
}

impl FromStr for Serial {
    type Err = InvalidSerial;

    /// Hexadecimal, in upper or lower case, with or without colons.
    fn from_str(text: &str) -> Result<Self, InvalidSerial> {
        let invalid = || InvalidSerial(text.to_owned());
        let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b':').collect();
        // A zero may be missing in front: the last digits are a byte.
        let bytes: Option<Vec<u8>> = digits.rchunks(2).rev().map(byte).collect();
        let serial = Self::new(&bytes.ok_or_else(invalid)?);
        if serial.0.is_empty() || serial.0.len() > SERIAL_MAX_BYTES {
            return Err(invalid());
        }
        Ok(serial)
    }
}

/// One or two hexadecimal digits.
fn byte(digits: &[u8]) -> Option<u8> {
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

impl fmt::Display for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Certificates that a site does not believe, whatever they say.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Revoked(BTreeSet<Serial>);

impl Revoked {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn serials(&self) -> impl Iterator<Item = &Serial> {
        self.0.iter()
    }

    /// Whether one of the certificates is revoked. Of what cannot be read none is, and nobody believes it either.
    pub fn has_any<'c, 'd: 'c>(&self, chain: impl IntoIterator<Item = &'c CertificateDer<'d>>) -> bool {
        !self.is_empty()
            && chain
                .into_iter()
                .filter_map(Serial::of)
                .any(|serial| self.0.contains(&serial))
    }
}

impl FromIterator<Serial> for Revoked {
    fn from_iter<I: IntoIterator<Item = Serial>>(serials: I) -> Self {
        Self(serials.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_serial_number_is_written_in_several_ways() {
        let shown = |text: &str| text.parse::<Serial>().map(|serial| serial.to_string());
        for same in ["0a1b2c", "0A:1B:2C", "a1b2c", "A1B2C", "000a1b2c"] {
            assert_eq!(shown(same).as_deref(), Ok("0a1b2c"), "{same}");
        }
        for wrong in ["", "0", ":", "0x12", "+1", "site1", "12 34", &"ab".repeat(21)] {
            assert!(shown(wrong).is_err(), "{wrong}");
        }
        assert!(shown(&"ab".repeat(20)).is_ok());
        // The sign byte of DER.
        assert_eq!(Serial::new(&[0, 0x9f]), "9F".parse().unwrap());
    }
}
