//! The running sites: a control plane each, an agent each, and kubectl for both.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::clients::Clients;
use crate::{
    real::{AgentConfig, Interrupt, Mesh, Ports, Run, Testbed, suite::World, until},
    repo::Repo,
};

const SCRIPT: &str = "testbed/kubernetes-sites.sh";
/// A build on a slow machine.
const BUILD_TIMEOUT: Duration = Duration::from_secs(3600);
const START_TIMEOUT: Duration = Duration::from_secs(180);
/// For what agents and control planes do by themselves within a moment, on a machine that is busy.
pub(super) const SOON: Duration = Duration::from_secs(30);

/// Offsets in the block of ports; the script adds the number of the site, from 1, to the first and has etcd's
/// 100 above.
pub(super) const API: u16 = 0;
const ETCD: u16 = 100;
const AGENT: u16 = 20;
const PEER: u16 = 40;
/// For the agents of the documentation's page.
pub(super) const PAGE_AGENT: u16 = 60;
pub(super) const PAGE_PEER: u16 = 80;

/// Sites `Site1`, `Site2`, … as the papers call them, numbered from 1.
pub(crate) struct Sites {
    // In this order: agents first, then what they speak to.
    pub(super) mesh: Mesh,
    _testbed: Testbed,
    pub(super) interrupt: Interrupt,
    pub(super) program: PathBuf,
    pub(super) dir: PathBuf,
    script: PathBuf,
    pub(super) ports: Ports,
    pub(super) clients: Clients,
    count: usize,
}

/// Builds the control plane where it is missing.
pub(super) fn build(repo: &Repo, interrupt: &Interrupt) -> Result<()> {
    let built = Run::new(interrupt, repo.root.join(SCRIPT))
        .args(["build"])
        .timeout(BUILD_TIMEOUT)
        .ok()?;
    eprint!("{}", built.stdout);
    Ok(())
}

impl Sites {
    pub(super) fn start(
        repo: &Repo,
        interrupt: &Interrupt,
        program: &Path,
        dir: &Path,
        count: usize,
    ) -> Result<Self> {
        let number = |n: usize| n as u16;
        let offsets = (1..=count).map(number).flat_map(|n| {
            let etcd = ETCD + 2 * n;
            [
                API + n,
                etcd,
                etcd + 1,
                AGENT + n,
                PEER + n,
                PAGE_AGENT + n,
                PAGE_PEER + n,
            ]
        });
        let ports = Ports::find(&offsets)?;
        let testbed = Testbed::run(
            interrupt,
            Command::new(repo.root.join(SCRIPT))
                .args(["run", &count.to_string()])
                .env("CHEOPS_TESTBED_RUN", dir.join("testbed"))
                .env("CHEOPS_TESTBED_PORT", ports.base.to_string()),
            &dir.join("testbed.log"),
            START_TIMEOUT,
        )?;
        let clients = Clients::make(interrupt, &dir.join("clients"))?;
        let mut configs = Vec::new();
        for n in 1..=count {
            let listen = ports.at(AGENT + number(n));
            let agent_dir = dir.join("agents").join(format!("Site{n}"));
            fs::create_dir_all(&agent_dir)?;
            fs::write(agent_dir.join("kubeconfig"), kubeconfig(n, listen, dir))?;
            let site = dir.join(format!("testbed/site{n}"));
            credential(interrupt, program, &site.join("kubeconfig"), &agent_dir)?;
            configs.push(AgentConfig {
                name: format!("Site{n}"),
                peer: ports.at(PEER + number(n)),
                root: "glue = \"kubernetes\"\n".to_owned(),
                limits: &[],
                listener: &["127.0.0.1"],
                tables: format!(
                    "[services.kubernetes]
listen = \"{listen}\"
tls = {{ cert = \"Site{n}-tls.pem\", key = \"Site{n}-tls.key\", client_ca = \"{client_ca}\" }}
upstream = \"https://{api}\"
upstream_ca = \"{ca}\"
upstream_cert = \"{cert}\"
upstream_key = \"{key}\"
credential = \"kubernetes.token\"
vouch = [\"system:masters\"]
",
                    client_ca = clients.ca().display(),
                    api = ports.at(API + number(n)),
                    ca = site.join("pki/ca.crt").display(),
                    cert = site.join("pki/front-proxy-client.crt").display(),
                    key = site.join("pki/front-proxy-client.key").display(),
                ),
            });
        }
        let mut mesh = Mesh::start(interrupt, program, &dir.join("agents"), &configs)?;
        mesh.ready()?;
        Ok(Self {
            mesh,
            _testbed: testbed,
            interrupt: interrupt.clone(),
            program: program.to_owned(),
            dir: dir.to_owned(),
            script: repo.root.join(SCRIPT),
            ports,
            clients,
            count,
        })
    }

    /// The URL of a site's agent, or of its API server.
    pub(super) fn server(&self, number: usize, agent: bool) -> String {
        let offset = if agent { AGENT } else { API };
        format!("https://{}", self.ports.at(offset + number as u16))
    }

    /// Stops a site's API server and starts it again with its files as they are now.
    pub(super) fn restart_api_server(&self, number: usize) -> Result<()> {
        Run::new(&self.interrupt, &self.script)
            .args(["restart", &number.to_string()])
            .env("CHEOPS_TESTBED_RUN", self.dir.join("testbed"))
            .env("CHEOPS_TESTBED_PORT", self.ports.base.to_string())
            .ok()?;
        Ok(())
    }

    /// All numbers of sites.
    pub(super) fn all(&self) -> impl Iterator<Item = usize> + use<> {
        1..=self.count
    }

    /// kubectl to a site's API server, without Cheops.
    pub(super) fn direct<I>(&self, number: usize, args: I) -> Run
    where
        I: IntoIterator,
        I::Item: AsRef<OsStr>,
    {
        self.client("kubectl", &self.direct_kubeconfig(number)).args(args)
    }

    /// kubectl to a site's agent, as somebody uses it who has never heard of Cheops.
    pub(super) fn kubectl<I>(&self, number: usize, args: I) -> Run
    where
        I: IntoIterator,
        I::Item: AsRef<OsStr>,
    {
        self.client("kubectl", &self.kubeconfig(number)).args(args)
    }

    /// `cheops kubectl …` to a site's agent: what takes a scope.
    pub(super) fn cheops_kubectl<I>(&self, number: usize, args: I) -> Run
    where
        I: IntoIterator,
        I::Item: AsRef<OsStr>,
    {
        self.client(&self.program, &self.kubeconfig(number))
            .args(["kubectl"])
            .args(args)
    }

    /// curl to a site's agent, without any credential.
    pub(super) fn curl(&self, number: usize, path: &str) -> Run {
        Run::new(&self.interrupt, "curl")
            .args(["--silent", "--show-error", "--max-time", "20", "--cacert"])
            .args([self.mesh_ca()])
            .args([format!("{}{path}", self.server(number, true))])
    }

    /// curl to a site's API server itself, whoever that is.
    pub(super) fn curl_direct(&self, number: usize, path: &str) -> Run {
        Run::new(&self.interrupt, "curl")
            .args(["--silent", "--show-error", "--max-time", "20", "--insecure"])
            .args([format!("{}{path}", self.server(number, false))])
    }

    /// Whom the agents' users trust.
    pub(super) fn mesh_ca(&self) -> PathBuf {
        self.dir.join("agents/ca/ca.pem")
    }

    fn client(&self, program: impl AsRef<OsStr>, kubeconfig: &Path) -> Run {
        Run::new(&self.interrupt, program)
            .env("KUBECONFIG", kubeconfig)
            .env("KUBECACHEDIR", self.dir.join("kubectl-cache"))
    }

    /// Of the API server itself.
    pub(super) fn direct_kubeconfig(&self, number: usize) -> PathBuf {
        self.dir.join(format!("testbed/site{number}/kubeconfig"))
    }

    /// Of the agent.
    pub(super) fn kubeconfig(&self, number: usize) -> PathBuf {
        self.mesh.site(number).dir().join("kubeconfig")
    }

    /// One resource as a site's API server has it; nothing if it is not there.
    pub(super) fn read(&self, number: usize, namespace: &str, what: &str) -> Result<Option<Value>> {
        let args = ["get", what, "-n", namespace, "-o", "json", "--ignore-not-found"];
        let output = self.direct(number, args).ok()?;
        if output.stdout.trim().is_empty() {
            return Ok(None);
        }
        let value = serde_json::from_str(&output.stdout).with_context(|| format!("no JSON: {output}"))?;
        Ok(Some(value))
    }

    /// Waits until a resource at a site is as it should be.
    pub(super) fn until_is(
        &self,
        number: usize,
        namespace: &str,
        what: &str,
        is: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        self.until(&format!("{what} at Site{number}"), || {
            let value = self.read(number, namespace, what)?;
            let value = value.context("it is not there")?;
            anyhow::ensure!(is(&value), "it is {value:#}");
            Ok(Some(value))
        })
    }

    /// Waits until a resource is at none of the sites.
    pub(super) fn until_gone(&self, numbers: &[usize], namespace: &str, what: &str) -> Result<()> {
        for number in numbers {
            self.until(&format!("{what} is gone from Site{number}"), || {
                Ok(self.read(*number, namespace, what)?.is_none().then_some(()))
            })?;
        }
        Ok(())
    }

    pub(super) fn until<T>(&self, what: &str, ask: impl FnMut() -> Result<Option<T>>) -> Result<T> {
        until(&self.interrupt, what, SOON, ask)
    }

    /// A namespace of its own for a scenario, made at every site behind the agents' backs.
    pub(super) fn namespace(&self, name: &str) -> Result<()> {
        for number in self.all() {
            self.direct(number, ["create", "namespace", name]).ok()?;
        }
        Ok(())
    }

    /// The same, ready for pods: they are refused until a controller has made the account that they run as.
    pub(super) fn namespace_for_pods(&self, name: &str) -> Result<()> {
        self.namespace(name)?;
        for number in self.all() {
            self.until_is(number, name, "serviceaccount/default", |account| {
                account["secrets"]
                    .as_array()
                    .is_some_and(|secrets| !secrets.is_empty())
            })?;
        }
        Ok(())
    }
}

impl World for Sites {
    fn restore(&mut self) -> Result<()> {
        self.mesh.heal()
    }

    fn describe(&self) -> String {
        let lines = self.all().map(|n| {
            format!(
                "Site{n}: API server KUBECONFIG={}\n       agent      KUBECONFIG={} CHEOPS_ADMIN={}",
                self.direct_kubeconfig(n).display(),
                self.kubeconfig(n).display(),
                self.mesh.site(n).admin().display()
            )
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// Lets an agent speak in its callers' names at its site, as an administrator does it: by the commands that
/// `cheops glue setup` prints.
fn credential(interrupt: &Interrupt, program: &Path, kubeconfig: &Path, dir: &Path) -> Result<()> {
    let setup = Run::new(interrupt, program)
        .args(["glue", "setup", "kubernetes"])
        .ok()?;
    Run::new(interrupt, "sh")
        .env("KUBECONFIG", kubeconfig)
        .dir(dir)
        .input(setup.stdout)
        .ok()?;
    Ok(())
}

fn kubeconfig(number: usize, listen: std::net::SocketAddr, dir: &Path) -> String {
    let ca = dir.join("agents/ca/ca.pem");
    format!(
        "apiVersion: v1
kind: Config
clusters: [{{name: site{number}, cluster: {{server: \"https://{listen}\", certificate-authority: \"{}\"}}}}]
users: [{{name: admin, user: {{token: admin-token}}}}]
contexts: [{{name: site{number}, context: {{cluster: site{number}, user: admin}}}}]
current-context: site{number}
",
        ca.display()
    )
}
