//! `cheops ca`: the mesh's certificate authority as two files, and a pair of files per site.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use cheops_mesh::{Credentials, IdentityError, ListenerName, MeshCa, Validity};
use cheops_net::Serial;
use cheops_types::SiteName;
use rustls_pki_types::{CertificateDer, pem::PemObject as _};

pub(crate) const CA_DAYS: u32 = 3650;
pub(crate) const SITE_DAYS: u32 = 730;

const CA_CERTIFICATE: &str = "ca.pem";
const CA_KEY: &str = "ca.key";

/// Why no files were made. Files that were there are as they were, except with `force`.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CaError {
    #[error("{0} is there already; --force replaces it")]
    Exists(PathBuf),
    #[error(
        "cannot read {path}: {error}; name the CA's directory with --dir, or make one with `cheops ca init`"
    )]
    Read { path: PathBuf, error: io::Error },
    #[error("no certificate can be read from {path}: {reason}; name a site's `.pem` file")]
    NoCertificate { path: PathBuf, reason: String },
    #[error("cannot write {path}: {error}")]
    Write { path: PathBuf, error: io::Error },
    #[error("the CA in {dir} cannot be used: {error}")]
    Unusable { dir: PathBuf, error: IdentityError },
}

/// The files that were made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Made {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// How long a certificate counts, and whether files that are there are replaced.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) days: u32,
    pub(crate) force: bool,
}

/// [`init_with`] the usual terms.
pub(crate) fn init(dir: &Path) -> Result<(), CaError> {
    let terms = Terms {
        days: CA_DAYS,
        force: false,
    };
    init_with(dir, terms).map(drop)
}

/// [`issue_with`] the usual terms.
pub(crate) fn issue(ca_dir: &Path, site: &SiteName, out_dir: &Path) -> Result<(), CaError> {
    let terms = Terms {
        days: SITE_DAYS,
        force: false,
    };
    issue_with(ca_dir, site, out_dir, terms).map(drop)
}

/// Makes a new mesh CA in `dir`: `ca.pem` and `ca.key`.
pub(crate) fn init_with(dir: &Path, terms: Terms) -> Result<Made, CaError> {
    let made = Made {
        certificate: dir.join(CA_CERTIFICATE),
        key: dir.join(CA_KEY),
    };
    refuse_to_replace(&[&made.certificate, &made.key], terms)?;
    let ca = MeshCa::create(Validity::days(now_unix_s(), terms.days)).map_err(|error| CaError::Unusable {
        dir: dir.to_owned(),
        error,
    })?;
    write_pair(&made, &ca.to_pem(), terms)?;
    Ok(made)
}

/// Certifies a new key for `site` with the CA in `ca_dir`: `<site>.pem`, `<site>.key` and a copy of
/// `ca.pem`, all that the site needs.
pub(crate) fn issue_with(
    ca_dir: &Path,
    site: &SiteName,
    out_dir: &Path,
    terms: Terms,
) -> Result<Made, CaError> {
    let unusable = |error| CaError::Unusable {
        dir: ca_dir.to_owned(),
        error,
    };
    let ca_certificate = read(&ca_dir.join(CA_CERTIFICATE))?;
    let ca = MeshCa::from_pem(&ca_certificate, &read(&ca_dir.join(CA_KEY))?).map_err(unusable)?;
    let made = Made {
        certificate: out_dir.join(format!("{site}.pem")),
        key: out_dir.join(format!("{site}.key")),
    };
    let ca_copy = out_dir.join(CA_CERTIFICATE);
    let ca_is_there = fs::read_to_string(&ca_copy).is_ok_and(|there| there == ca_certificate);
    if !ca_is_there {
        refuse_to_replace(&[&ca_copy], terms)?;
    }
    refuse_to_replace(&[&made.certificate, &made.key], terms)?;
    let credentials = ca
        .issue(site, Validity::days(now_unix_s(), terms.days))
        .map_err(unusable)?;
    write_pair(&made, &credentials, terms)?;
    if !ca_is_there {
        write(&ca_copy, &ca_certificate, 0o644, terms)?;
    }
    Ok(made)
}

/// The serial number of the first certificate in a file.
pub(crate) fn serial(path: &Path) -> Result<Serial, CaError> {
    let none = |reason: &dyn std::fmt::Display| CaError::NoCertificate {
        path: path.to_owned(),
        reason: reason.to_string(),
    };
    let text = fs::read(path).map_err(|error| none(&error))?;
    let certificate = CertificateDer::from_pem_slice(&text).map_err(|error| none(&error))?;
    Serial::of(&certificate).ok_or_else(|| none(&"it is not X.509"))
}

/// The names of a site's certificate and key for its listeners.
pub(crate) fn listener_files(site: &str) -> [String; 2] {
    [format!("{site}-tls.pem"), format!("{site}-tls.key")]
}

/// Certifies a new key for the listeners of `site`, which users reach by `names`, with the CA in `ca_dir`:
/// `<site>-tls.pem` and `<site>-tls.key`.
pub(crate) fn issue_listener(
    ca_dir: &Path,
    site: &SiteName,
    names: &[ListenerName],
    out_dir: &Path,
    terms: Terms,
) -> Result<Made, CaError> {
    let unusable = |error| CaError::Unusable {
        dir: ca_dir.to_owned(),
        error,
    };
    let ca = MeshCa::from_pem(&read(&ca_dir.join(CA_CERTIFICATE))?, &read(&ca_dir.join(CA_KEY))?)
        .map_err(unusable)?;
    let [certificate, key] = listener_files(site).map(|name| out_dir.join(name));
    let made = Made { certificate, key };
    refuse_to_replace(&[&made.certificate, &made.key], terms)?;
    let credentials = ca
        .issue_listener(site, names, Validity::days(now_unix_s(), terms.days))
        .map_err(unusable)?;
    write_pair(&made, &credentials, terms)?;
    Ok(made)
}

/// Looks before anything is written, so that a refusal leaves no half of a pair behind.
fn refuse_to_replace(paths: &[&Path], terms: Terms) -> Result<(), CaError> {
    match paths.iter().find(|path| path.exists()) {
        Some(there) if !terms.force => Err(CaError::Exists(there.to_path_buf())),
        _ => Ok(()),
    }
}

fn write_pair(made: &Made, credentials: &Credentials, terms: Terms) -> Result<(), CaError> {
    if let Some(dir) = made.key.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .map_err(|error| CaError::Write {
                path: dir.to_owned(),
                error,
            })?;
    }
    write(&made.key, &credentials.key, 0o600, terms)?;
    write(&made.certificate, &credentials.certificate, 0o644, terms)
}

fn write(path: &Path, text: &str, mode: u32, terms: Terms) -> Result<(), CaError> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => CaError::Exists(path.to_owned()),
        _ => CaError::Write {
            path: path.to_owned(),
            error,
        },
    };
    if terms.force
        && let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(failed(error));
    }
    // A new file has its mode from the first byte on; an old one would keep its own.
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)
        .map_err(failed)?;
    file.write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        .map_err(failed)
}

fn read(path: &Path) -> Result<String, CaError> {
    fs::read_to_string(path).map_err(|error| CaError::Read {
        path: path.to_owned(),
        error,
    })
}

fn now_unix_s() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |now| now.as_secs())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn site() -> SiteName {
        SiteName::new("site1").unwrap()
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_mesh_and_a_site() {
        let dir = tempfile::tempdir().unwrap();
        let (ca, out) = (dir.path().join("mesh"), dir.path().join("out"));
        init(&ca).unwrap();
        issue(&ca, &site(), &out).unwrap();
        assert_eq!(mode(&ca.join("ca.key")), 0o600);
        assert_eq!(mode(&out.join("site1.key")), 0o600);
        let verified = cheops_mesh::verify(
            &fs::read_to_string(out.join("ca.pem")).unwrap(),
            &fs::read_to_string(out.join("site1.pem")).unwrap(),
            now_unix_s(),
        );
        assert_eq!(verified, Ok(site()));
        assert!(!out.join("ca.key").exists());
    }

    #[test]
    fn nothing_is_replaced_unless_forced() {
        let dir = tempfile::tempdir().unwrap();
        init(dir.path()).unwrap();
        let key = dir.path().join("ca.key");
        let before = fs::read(&key).unwrap();
        let error = init(dir.path()).unwrap_err();
        assert!(matches!(error, CaError::Exists(_)), "{error}");
        assert_eq!(fs::read(&key).unwrap(), before);

        fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
        let forced = Terms { days: 1, force: true };
        init_with(dir.path(), forced).unwrap();
        assert_ne!(fs::read(&key).unwrap(), before);
        assert_eq!(mode(&key), 0o600);
    }

    #[test]
    fn a_refusal_leaves_everything_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let (ca, out) = (dir.path().join("mesh"), dir.path().join("out"));
        init(&ca).unwrap();
        fs::create_dir(&out).unwrap();
        for name in ["site1.pem", "site1.key", "ca.pem"] {
            fs::write(out.join(name), "mine").unwrap();
            let error = issue(&ca, &site(), &out).unwrap_err();
            assert!(matches!(error, CaError::Exists(_)), "{name}: {error}");
            assert_eq!(fs::read_dir(&out).unwrap().count(), 1, "{name}");
            assert_eq!(fs::read(out.join(name)).unwrap(), b"mine");
            fs::remove_file(out.join(name)).unwrap();
        }
    }

    #[test]
    fn sites_share_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        init(dir.path()).unwrap();
        issue(dir.path(), &site(), dir.path()).unwrap();
        issue(dir.path(), &SiteName::new("site2").unwrap(), dir.path()).unwrap();
        let error = issue(dir.path(), &SiteName::new("ca").unwrap(), dir.path()).unwrap_err();
        assert!(matches!(error, CaError::Exists(_)), "{error}");
    }

    #[test]
    fn a_listener_is_no_site() {
        let dir = tempfile::tempdir().unwrap();
        init(dir.path()).unwrap();
        let names = ["agent.example", "*.agents.example", "::1"].map(|name| name.parse().unwrap());
        let terms = Terms {
            days: 1,
            force: false,
        };
        let made = issue_listener(dir.path(), &site(), &names, dir.path(), terms).unwrap();
        assert_eq!(mode(&made.key), 0o600);
        let read = |path: &Path| fs::read_to_string(path).unwrap();
        let believed = cheops_mesh::verify(
            &read(&dir.path().join("ca.pem")),
            &read(&made.certificate),
            now_unix_s(),
        );
        assert_eq!(believed, Err(IdentityError::NotASite));
        for wrong in ["", "a b", "https://agent", "agent:6443", "*"] {
            assert!(wrong.parse::<ListenerName>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn without_a_ca() {
        let dir = tempfile::tempdir().unwrap();
        let error = issue(dir.path(), &site(), dir.path()).unwrap_err();
        assert!(error.to_string().contains("cheops ca init"), "{error}");
    }
}
