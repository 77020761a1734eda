//! Certificates of people and of servers, by a CA of the test's own.

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair,
};

/// A CA.
pub(crate) struct Authority {
    pub(crate) cert_pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key.
#[derive(Debug, Clone)]
pub(crate) struct Issued {
    pub(crate) cert_pem: String,
    pub(crate) key_pem: String,
}

impl Authority {
    pub(crate) fn make(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let cert_pem = params.self_signed(&key).unwrap().pem();
        Self {
            cert_pem,
            issuer: Issuer::new(params, key),
        }
    }

    /// Somebody's certificate, with at most two organisations.
    pub(crate) fn person(&self, name: &str, groups: &[&str]) -> Issued {
        let mut params = CertificateParams::default();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        // A name keeps one of each type: the second has the same type by another name.
        let types = [DnType::OrganizationName, DnType::CustomDnType(vec![2, 5, 4, 10])];
        assert!(groups.len() <= types.len());
        for (kind, group) in types.into_iter().zip(groups) {
            params.distinguished_name.push(kind, *group);
        }
        self.issue(&params)
    }

    /// A certificate for 127.0.0.1 and `localhost`.
    pub(crate) fn server(&self) -> Issued {
        let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
        self.issue(&CertificateParams::new(names).unwrap())
    }

    fn issue(&self, params: &CertificateParams) -> Issued {
        let key = KeyPair::generate().unwrap();
        Issued {
            cert_pem: params.signed_by(&key, &self.issuer).unwrap().pem(),
            key_pem: key.serialize_pem(),
        }
    }
}
