//! People who come with a certificate.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Result;

use crate::real::{Interrupt, Run};

/// A CA for the agents' clients and one of them: `alice`, of the group `painters`.
pub(super) struct Clients {
    dir: PathBuf,
}

impl Clients {
    pub(super) fn make(interrupt: &Interrupt, dir: &Path) -> Result<Self> {
        fs::create_dir_all(dir)?;
        let request = |name: &str, subject: &str, more: &[&str]| {
            Run::new(interrupt, "openssl")
                .args([
                    "req",
                    "-x509",
                    "-newkey",
                    "ec",
                    "-pkeyopt",
                    "ec_paramgen_curve:prime256v1",
                ])
                .args(["-nodes", "-days", "3", "-subj", subject])
                .args(["-keyout", &format!("{name}.key"), "-out", &format!("{name}.crt")])
                .args(more)
                .dir(dir)
                .ok()
        };
        request(
            "ca",
            "/CN=clients",
            &["-addext", "basicConstraints=critical,CA:TRUE"],
        )?;
        let signed = [
            "-CA",
            "ca.crt",
            "-CAkey",
            "ca.key",
            "-addext",
            "extendedKeyUsage=clientAuth",
        ];
        let leaf = ["-addext", "basicConstraints=critical,CA:FALSE"];
        request("alice", "/O=painters/CN=alice", &[&signed[..], &leaf].concat())?;
        Ok(Self { dir: dir.to_owned() })
    }

    /// Whom the agents' listeners trust.
    pub(super) fn ca(&self) -> PathBuf {
        self.dir.join("ca.crt")
    }

    /// Options by which kubectl is `alice`.
    pub(super) fn alice(&self) -> [String; 2] {
        ["certificate", "key"].map(|what| {
            let extension = if what == "key" { "key" } else { "crt" };
            let file = self.dir.join(format!("alice.{extension}"));
            format!("--client-{what}={}", file.display())
        })
    }
}
