//! The files that a configuration names: they exist, can be read and belong together.

use std::{
    fs,
    path::PathBuf,
    time::{SystemTime, UNIX_EPOCH},
};

use cheops_glue::Profile;
use cheops_mesh::IdentityError;
use cheops_net::Revoked;
use rustls::{RootCertStore, crypto::ring::sign::any_supported_type, sign::CertifiedKey};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};

use super::{
    ConfigError, GlueChoice, service,
    site::{Located, PeerFiles},
    table::Field,
};
use crate::builtin::BuiltIn;

type File = Field<PathBuf>;

/// Every error in the files of a configuration that is good by itself.
pub(super) fn check(site: &Located) -> Vec<ConfigError> {
    let mut errors = Vec::new();
    if let Some(files) = &site.peer {
        let revoked = site.config.peer.as_ref().map(|peer| &peer.revoked);
        check_peer(files, &site.config.site, revoked, &mut errors);
    }
    for service in &site.services {
        check_service(service, &site.config.site, &mut errors);
    }
    if let Some(profile) = read_glue(site, &mut errors) {
        for (name, service) in site.config.services.keys().zip(&site.services) {
            check_identity(name, service, &profile, &mut errors);
        }
    }
    errors
}

fn check_service(service: &service::Located, here: &str, errors: &mut Vec<ConfigError>) {
    if let Some(tls) = &service.tls {
        let fix = if tls.is_mesh {
            format!("`cheops ca listener {here} <names>` makes it; copy it beside `peer.cert`")
        } else {
            "a PEM certificate chain and its key".to_owned()
        };
        check_pair(&tls.cert, &tls.key, &fix, errors);
        if let Some(ca) = &tls.client_ca {
            check_trust(ca, "clients'", errors);
        }
    }
    if let Some(ca) = &service.upstream_ca {
        check_trust(ca, "service's", errors);
    }
    if let Some(credential) = &service.credential {
        check_credential(credential, errors);
    }
    if let Some((cert, key)) = &service.upstream_pair {
        check_pair(cert, key, "a PEM certificate chain and its key", errors);
    }
}

/// What a certificate of a client becomes is the glue's to say.
fn check_identity(name: &str, service: &service::Located, profile: &Profile, errors: &mut Vec<ConfigError>) {
    let is_told = profile
        .caller(name)
        .is_some_and(|caller| caller.certificate.is_some());
    let client_ca = service.tls.as_ref().and_then(|tls| tls.client_ca.as_ref());
    let upstream_cert = service.upstream_pair.as_ref().map(|(cert, _)| cert);
    if let Some(field) = client_ca.or(upstream_cert)
        && !is_told
    {
        errors.push(field.error(
            format!("the glue does not say what a client's certificate becomes at service `{name}`"),
            format!(
                "remove `{}`, or add `certificate` to [services.{name}.caller] in the glue",
                field.key
            ),
        ));
    }
}

fn read_glue(site: &Located, errors: &mut Vec<ConfigError>) -> Option<Profile> {
    let glue = match &site.config.glue {
        GlueChoice::Plain => return Some(Profile::plain()),
        GlueChoice::BuiltIn(name) => return BuiltIn::find(name).map(BuiltIn::profile),
        GlueChoice::File(_) => site.glue.as_ref()?,
    };
    let text = open(glue, "correct the path, or write `plain`", errors)?;
    match Profile::parse(&glue.value.display().to_string(), &text) {
        Ok(profile) => Some(profile),
        Err(error) => {
            let place = format!("{}:{}:{}", error.file, error.line, error.column);
            let fix = error.fix.unwrap_or_else(|| "correct the glue file".to_owned());
            errors.push(glue.error(format!("{place}: {}", error.message), fix));
            None
        }
    }
}

fn check_peer(files: &PeerFiles, here: &str, revoked: Option<&Revoked>, errors: &mut Vec<ConfigError>) {
    let fix = format!("`cheops ca issue {here}` makes it; copy it here, or correct the path");
    let ca = open(
        &files.ca,
        "copy the mesh's `ca.pem` here, or correct the path",
        errors,
    );
    let pair = check_pair(&files.cert, &files.key, &fix, errors);
    let (Some(ca), Some(certificate)) = (ca, pair) else {
        return;
    };
    let chain: Vec<_> = CertificateDer::pem_slice_iter(certificate.as_bytes())
        .filter_map(Result::ok)
        .collect();
    if revoked.is_some_and(|revoked| revoked.has_any(&chain)) {
        errors.push(files.cert.error(
            "`peer.revoked` lists this site's own certificate",
            format!("`cheops ca issue {here} --force` makes a new one; copy it here"),
        ));
    }
    let now_unix_s = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |now| now.as_secs());
    match cheops_mesh::verify(&ca, &certificate, now_unix_s) {
        Ok(site) if *site == *here => {}
        Ok(site) => errors.push(files.cert.error(
            format!("the certificate is of site `{site}`, but this is `{here}`"),
            format!("use the files that `cheops ca issue {here}` made, or correct `site`"),
        )),
        Err(error) => {
            let text = error.to_string();
            let at = match error {
                IdentityError::Unreadable {
                    what: "CA certificate",
                    ..
                } => &files.ca,
                _ => &files.cert,
            };
            let (what, fix) = text
                .split_once("; ")
                .unwrap_or((&text, "use the files that `cheops ca` made"));
            errors.push(at.error(what, fix));
        }
    }
}

/// Reads a certificate chain and its key; gives the chain's text if both are good.
fn check_pair(cert: &File, key: &File, fix: &str, errors: &mut Vec<ConfigError>) -> Option<String> {
    let (cert_text, key_text) = (open(cert, fix, errors), open(key, fix, errors));
    let chain = cert_text.as_deref().and_then(|text| {
        let chain = CertificateDer::pem_slice_iter(text.as_bytes()).collect::<Result<Vec<_>, _>>();
        let chain = chain.ok().filter(|chain| !chain.is_empty());
        if chain.is_none() {
            errors.push(not_pem(cert, "certificate"));
        }
        chain
    });
    let signer = key_text.as_deref().and_then(|text| {
        let signer = PrivateKeyDer::from_pem_slice(text.as_bytes())
            .ok()
            .and_then(|key| any_supported_type(&key).ok());
        if signer.is_none() {
            errors.push(not_pem(key, "private key"));
        }
        signer
    });
    match CertifiedKey::new(chain?, signer?).keys_match() {
        // "Unknown" is said when the library cannot tell; then whoever connects will.
        Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => cert_text,
        Err(_) => {
            errors.push(key.error(
                format!("the key does not belong to the certificate in `{}`", cert.key),
                "copy both files from the same place",
            ));
            None
        }
    }
}

fn not_pem(file: &File, what: &str) -> ConfigError {
    file.error(
        format!("{} holds no {what} in PEM form", file.value.display()),
        format!("name a PEM file; it begins with `-----BEGIN` and holds a {what}"),
    )
}

fn open(file: &File, fix: &str, errors: &mut Vec<ConfigError>) -> Option<String> {
    match fs::read_to_string(&file.value) {
        Ok(text) => Some(text),
        Err(error) => {
            errors.push(file.error(format!("cannot read {}: {error}", file.value.display()), fix));
            None
        }
    }
}

fn check_credential(credential: &File, errors: &mut Vec<ConfigError>) {
    let fix = "`cheops glue setup` shows how it is made; copy it there, or correct the path";
    if let Some(text) = open(credential, fix, errors)
        && text.trim().is_empty()
    {
        errors.push(credential.error(format!("{} is empty", credential.value.display()), fix));
    }
}

fn check_trust(ca: &File, whose: &str, errors: &mut Vec<ConfigError>) {
    let fix = "copy the CA's certificate there, or correct the path";
    if let Some(text) = open(ca, fix, errors)
        && !holds_trust(&text)
    {
        errors.push(ca.error(
            format!("{} has no certificate that can be trusted", ca.value.display()),
            format!("name a PEM file with the certificate of the CA that issued the {whose}"),
        ));
    }
}

fn holds_trust(text: &str) -> bool {
    let mut store = RootCertStore::empty();
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(text.as_bytes())
        .filter_map(Result::ok)
        .collect();
    let (added, _) = store.add_parsable_certificates(certificates);
    added > 0
}
