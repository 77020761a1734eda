//! `tls` of a service: the certificate that its listeners show, and whose certificates clients may show.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{
    ConfigError,
    table::{Field, Keys, Table},
};

pub(super) const EXAMPLE: &str = "{ cert = \"tls.pem\", key = \"tls.key\" }";

const KEYS: Keys = &[
    ("cert", "\"tls.pem\""),
    ("key", "\"tls.key\""),
    ("client_ca", "\"client-ca.pem\""),
];

/// The word for a certificate of the mesh's CA.
const MESH: &str = "mesh";

/// A listener's certificate chain and key, and the CA of its clients' certificates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct TlsFiles {
    pub(crate) cert: PathBuf,
    pub(crate) key: PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) client_ca: Option<PathBuf>,
}

/// The files where `cheops ca listener` puts a site's certificate for its listeners: beside the one for
/// its peers.
pub(super) struct MeshFiles {
    cert: PathBuf,
    key: PathBuf,
}

impl MeshFiles {
    pub(super) fn beside(peer_cert: &Path, site: &str) -> Self {
        let [cert, key] = crate::ca::listener_files(site);
        Self {
            cert: peer_cert.with_file_name(cert),
            key: peer_cert.with_file_name(key),
        }
    }
}

pub(super) struct Located {
    pub(super) cert: Field<PathBuf>,
    pub(super) key: Field<PathBuf>,
    pub(super) client_ca: Option<Field<PathBuf>>,
    /// They are the mesh's, made by `cheops ca`.
    pub(super) is_mesh: bool,
}

impl Located {
    pub(super) fn files(&self) -> TlsFiles {
        TlsFiles {
            cert: self.cert.value.clone(),
            key: self.key.value.clone(),
            client_ca: self.client_ca.as_ref().map(|ca| ca.value.clone()),
        }
    }
}

/// Reads the key `tls` of a service; `"mesh"`, or a table without `cert` and `key`, stands for the mesh's.
pub(super) fn read(
    service: &Table<'_>,
    dir: &Path,
    mesh: Option<&MeshFiles>,
    errors: &mut Vec<ConfigError>,
) -> Option<Located> {
    if service.is_string("tls") {
        let word = service.string("tls", errors)?;
        if word.value != MESH {
            errors.push(word.error(
                format!("`{}` is not a certificate", word.value),
                format!("write `\"{MESH}\"`, or `tls = {EXAMPLE}`"),
            ));
            return None;
        }
        return of_mesh(&word.with(()), None, mesh, errors);
    }
    let tls = service.table("tls", KEYS, errors)?;
    let resolve = |field: Field<PathBuf>| field.with(dir.join(&field.value));
    let client_ca = tls.path("client_ca", errors).map(resolve);
    if !tls.has("cert") && !tls.has("key") && tls.has("client_ca") {
        return of_mesh(&tls.name, client_ca, mesh, errors);
    }
    let (cert, key) = (tls.path("cert", errors), tls.path("key", errors));
    for key in ["cert", "key"] {
        if !tls.has(key) {
            errors.push(tls.missing(key));
        }
    }
    Some(Located {
        cert: resolve(cert?),
        key: resolve(key?),
        client_ca,
        is_mesh: false,
    })
}

fn of_mesh(
    at: &Field<()>,
    client_ca: Option<Field<PathBuf>>,
    mesh: Option<&MeshFiles>,
    errors: &mut Vec<ConfigError>,
) -> Option<Located> {
    let Some(mesh) = mesh else {
        errors.push(at.error(
            "the mesh's certificate stands beside the one of [peer], which is missing",
            format!("add [peer], or name the files: `tls = {EXAMPLE}`"),
        ));
        return None;
    };
    Some(Located {
        cert: at.with(mesh.cert.clone()),
        key: at.with(mesh.key.clone()),
        client_ca,
        is_mesh: true,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use cheops_types::SiteName;

    use crate::{
        ca::{self, Terms},
        config::Config,
    };

    const GLUE: &str = "application = \"a\"\n[services.A.caller]\n\
                        certificate = { user = \"x-user\", group = \"x-group\", strip = [\"x-\"] }\n";

    /// A directory with a mesh, the certificate of its listeners, and a glue.
    fn files() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let site = SiteName::new("site1").unwrap();
        ca::init(dir.path()).unwrap();
        ca::issue(dir.path(), &site, dir.path()).unwrap();
        let terms = Terms {
            days: 1,
            force: false,
        };
        let names = ["localhost".parse().unwrap()];
        ca::issue_listener(dir.path(), &site, &names, dir.path(), terms).unwrap();
        fs::write(dir.path().join("glue.toml"), GLUE).unwrap();
        dir
    }

    fn load(dir: &tempfile::TempDir, peer: bool, service: &str) -> Result<Config, String> {
        let peer = if peer {
            "[peer]\nlisten = \"127.0.0.1:7443\"\nca = \"ca.pem\"\ncert = \"site1.pem\"\nkey = \"site1.key\"\n"
        } else {
            ""
        };
        let text = format!(
            "site = \"site1\"\nglue = \"glue.toml\"\n{peer}[services.A]\npublic = \"127.0.0.1:8001\"\n\
             upstream = \"https://127.0.0.1:5001\"\nupstream_ca = \"ca.pem\"\n{service}\n"
        );
        let path = dir.path().join("cheops.toml");
        fs::write(&path, text).unwrap();
        Config::load(&path).map_err(|errors| errors.to_json().to_string())
    }

    const PAIR: &str = "upstream_cert = \"site1.pem\"\nupstream_key = \"site1.key\"\n";

    #[test]
    fn the_meshs_certificate_is_beside_the_peers() {
        let dir = files();
        let config = load(&dir, true, "tls = \"mesh\"").unwrap();
        let tls = config.services["A"].tls.clone().unwrap();
        assert_eq!(tls.cert, dir.path().join("site1-tls.pem"));
        assert_eq!(tls.key, dir.path().join("site1-tls.key"));
        let with_clients = format!("{PAIR}tls = {{ client_ca = \"ca.pem\" }}");
        let config = load(&dir, true, &with_clients).unwrap();
        let with_clients = config.services["A"].tls.clone().unwrap();
        assert_eq!(with_clients.cert, tls.cert);
        assert_eq!(with_clients.client_ca, Some(dir.path().join("ca.pem")));
    }

    #[test]
    fn what_cannot_work_is_said() {
        let dir = files();
        let check = |peer, service: &str, key: &str, parts: &[&str]| {
            let errors = load(&dir, peer, service).unwrap_err();
            let told: serde_json::Value = serde_json::from_str(&errors).unwrap();
            let told = told["errors"].as_array().unwrap();
            assert_eq!(told.len(), 1, "{errors}");
            assert_eq!(told[0]["key"], key, "{errors}");
            for part in parts {
                assert!(errors.contains(part), "{part}: {errors}");
            }
        };
        let key = "services.A.tls";
        check(
            true,
            "tls = \"mash\"",
            key,
            &["`mash` is not a certificate", "`\\\"mesh\\\"`"],
        );
        check(false, "tls = \"mesh\"", key, &["[peer], which is missing"]);
        check(true, "tls = true", key, &["must be a table"]);
        check(
            true,
            "tls = { key = \"site1.key\" }",
            "services.A.tls.cert",
            &["is missing"],
        );
        let pair = "cert = \"site1-tls.pem\", key = \"site1-tls.key\"";
        let with_clients = format!("tls = {{ {pair}, client_ca = \"ca.pem\" }}");
        let key = "services.A.tls.client_ca";
        check(
            true,
            &with_clients,
            key,
            &["cannot be told who a client is", "upstream_cert"],
        );
        let no_trust = format!("{PAIR}tls = {{ {pair}, client_ca = \"site1.key\" }}");
        check(true, &no_trust, key, &["can be trusted", "clients'"]);
        let half = "upstream_cert = \"site1.pem\"";
        check(true, half, "services.A.upstream_key", &["is missing"]);
        let other = "upstream_cert = \"site1.pem\"\nupstream_key = \"site1-tls.key\"";
        check(true, other, "services.A.upstream_key", &["does not belong"]);

        fs::write(dir.path().join("glue.toml"), "application = \"a\"\n").unwrap();
        let with_clients = format!("{PAIR}{with_clients}");
        check(true, &with_clients, key, &["the glue does not say what"]);
        check(
            true,
            PAIR,
            "services.A.upstream_cert",
            &["the glue does not say what"],
        );
    }

    #[test]
    fn a_lost_listener_certificate_is_made_again() {
        let dir = files();
        fs::remove_file(dir.path().join("site1-tls.pem")).unwrap();
        let errors = load(&dir, true, "tls = \"mesh\"").unwrap_err();
        assert!(errors.contains("cheops ca listener site1"), "{errors}");
    }
}
