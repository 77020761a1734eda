//! The files that a configuration names: they exist, can be read and belong together.

use std::{
    fs,
    path::PathBuf,
    time::{SystemTime, UNIX_EPOCH},
};

use cheops_glue::Profile;
use cheops_mesh::IdentityError;
use rustls::{RootCertStore, crypto::ring::sign::any_supported_type, sign::CertifiedKey};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};

use super::{
    ConfigError,
    site::{Located, PeerFiles},
    table::Field,
};

type File = Field<PathBuf>;

/// Every error in the files of a configuration that is good by itself.
pub(super) fn check(site: &Located) -> Vec<ConfigError> {
    let mut errors = Vec::new();
    if let Some(files) = &site.peer {
        check_peer(files, &site.config.site, &mut errors);
    }
    for service in &site.services {
        if let Some((cert, key)) = &service.tls {
            check_pair(cert, key, "a PEM certificate chain and its key", &mut errors);
        }
        if let Some(ca) = &service.upstream_ca
            && let Some(text) = open(
                ca,
                "copy the CA's certificate there, or correct the path",
                &mut errors,
            )
            && !holds_trust(&text)
        {
            errors.push(ca.error(
                format!("{} has no certificate that can be trusted", ca.value.display()),
                "name a PEM file with the certificate of the CA that issued the service's",
            ));
        }
    }
    if let Some(glue) = &site.glue
        && let Some(text) = open(glue, "correct the path, or write `plain`", &mut errors)
        && let Err(error) = Profile::parse(&glue.value.display().to_string(), &text)
    {
        let place = format!("{}:{}:{}", error.file, error.line, error.column);
        let fix = error.fix.unwrap_or_else(|| "correct the glue file".to_owned());
        errors.push(glue.error(format!("{place}: {}", error.message), fix));
    }
    errors
}

fn check_peer(files: &PeerFiles, here: &str, errors: &mut Vec<ConfigError>) {
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

fn holds_trust(text: &str) -> bool {
    let mut store = RootCertStore::empty();
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(text.as_bytes())
        .filter_map(Result::ok)
        .collect();
    let (added, _) = store.add_parsable_certificates(certificates);
    added > 0
}
