//! The running sites: an OpenStack each, an agent each.

use std::{
    cell::OnceCell,
    fs,
    io::{Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::{
    client::Client,
    curl::Curl,
    service::{Addresses, Door, Service},
};
use crate::{
    real::{AgentConfig, Interrupt, Mesh, Ports, Run, Testbed, suite::World, until},
    repo::Repo,
};

const SCRIPT: &str = "testbed/openstack-sites.sh";
/// Packages on a slow line.
const INSTALL_TIMEOUT: Duration = Duration::from_secs(1800);
/// With databases made from nothing.
const START_TIMEOUT: Duration = Duration::from_secs(600);
/// For what services do by themselves within a moment, on a machine that is busy.
pub(super) const SOON: Duration = Duration::from_secs(60);
/// OpenStack's answers take their time, all the more on a busy machine.
const LIMITS: &[(&str, u64)] = &[("peer_timeout_ms", 30_000)];
/// Complete sites that share users, projects and keys.
pub(super) const COMPLETE: [usize; 2] = [1, 2];
/// A site with a keystone of its own and nothing else: its users and its keys are nobody else's.
pub(super) const FOREIGN: usize = 3;

/// Sites `Site1`, `Site2`, … as the papers call them, numbered from 1.
pub(crate) struct Sites {
    // In this order: agents first, then what they speak to.
    pub(super) mesh: Mesh,
    _testbed: Testbed,
    pub(super) client: Client,
    pub(super) interrupt: Interrupt,
    pub(super) addresses: Addresses,
    pub(super) dir: PathBuf,
    /// The agent's.
    pub(super) program: PathBuf,
    script: PathBuf,
    environment: Vec<(String, String)>,
    /// Of admin; good at all complete sites.
    token: OnceCell<String>,
}

/// A place in the log of a site's glance.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    site: usize,
    offset: u64,
}

/// Installs what is missing.
pub(super) fn install(repo: &Repo, interrupt: &Interrupt) -> Result<()> {
    let installed = Run::new(interrupt, repo.root.join(SCRIPT))
        .args(["install"])
        .timeout(INSTALL_TIMEOUT)
        .ok()?;
    eprint!("{}", installed.stderr);
    Ok(())
}

impl Sites {
    pub(super) fn start(
        repo: &Repo,
        interrupt: &Interrupt,
        program: &Path,
        glue: &str,
        dir: &Path,
    ) -> Result<Self> {
        let addresses = Addresses::find(FOREIGN)?;
        let script = repo.root.join(SCRIPT);
        let environment = environment(addresses, &dir.join("testbed"))?;
        // First: services look for each other, behind the agents, while they start.
        let configs: Vec<_> = (1..=FOREIGN).map(|site| config(addresses, site, glue)).collect();
        let mut mesh = Mesh::start(interrupt, program, &dir.join("agents"), &configs)?;
        mesh.ready()?;
        let testbed = Testbed::run(
            interrupt,
            Command::new(&script)
                .args(["run"])
                .envs(environment.iter().map(|(name, value)| (name, value))),
            &dir.join("testbed.log"),
            START_TIMEOUT,
        )?;
        Ok(Self {
            mesh,
            _testbed: testbed,
            client: Client::install(repo, interrupt, dir)?,
            interrupt: interrupt.clone(),
            addresses,
            dir: dir.to_owned(),
            program: program.to_owned(),
            script,
            environment,
            token: OnceCell::new(),
        })
    }

    /// A request to a site.
    pub(super) fn curl(&self, site: usize, service: Service, door: Door, method: &str, path: &str) -> Curl {
        let url = format!("http://{}{path}", self.addresses.of(site, service, door));
        Curl::new(&self.interrupt, method, &url)
    }

    /// A request of admin to a site's own service, behind the agents' backs.
    pub(super) fn direct(&self, site: usize, service: Service, method: &str, path: &str) -> Result<Curl> {
        Ok(self
            .curl(site, service, Door::Itself, method, path)
            .token(&self.token()?))
    }

    /// A request of admin through a site's agent.
    pub(super) fn through(&self, site: usize, service: Service, method: &str, path: &str) -> Result<Curl> {
        Ok(self
            .curl(site, service, Door::Public, method, path)
            .token(&self.token()?))
    }

    /// A token of admin, good at all complete sites.
    pub(super) fn token(&self) -> Result<String> {
        if let Some(token) = self.token.get() {
            return Ok(token.clone());
        }
        let token = sign_in(self.curl(1, Service::Identity, Door::Itself, "POST", "/v3/auth/tokens"))?;
        Ok(self.token.get_or_init(|| token).clone())
    }

    /// A token of admin at a site that lives for so many seconds from now.
    pub(super) fn short_token(&self, site: usize, seconds: i64) -> Result<String> {
        let output = self
            .script(["token", &site.to_string(), &seconds.to_string()])
            .ok()?;
        Ok(output.said().to_owned())
    }

    /// Stops a service of a site.
    pub(super) fn stop(&self, site: usize, service: Service) -> Result<()> {
        self.script(["down", &site.to_string(), service.project()]).ok()?;
        Ok(())
    }

    /// Starts it again and waits until it answers.
    pub(super) fn resume(&self, site: usize, service: Service) -> Result<()> {
        self.script(["up", &site.to_string(), service.project()]).ok()?;
        Ok(())
    }

    fn script<const N: usize>(&self, args: [&str; N]) -> Run {
        let run = Run::new(&self.interrupt, &self.script).args(args).timeout(SOON);
        self.environment
            .iter()
            .fold(run, |run, (name, value)| run.env(name, value))
    }

    /// An active image with some data, the only one of its name at the site, made behind the agents' backs; its id.
    pub(super) fn image(&self, site: usize, name: &str, id: Option<&str>) -> Result<String> {
        self.remove_images(site, name)?;
        let mut body =
            json!({ "name": name, "disk_format": "raw", "container_format": "bare", "visibility": "public" });
        if let Some(id) = id {
            body["id"] = id.into();
        }
        let begun = self.mark(site)?;
        let made = self
            .direct(site, Service::Image, "POST", "/v2/images")?
            .json(&body)
            .expect(201)?;
        let id = made.json()?["id"]
            .as_str()
            .context("an image has an id")?
            .to_owned();
        let file = format!("/v2/images/{id}/file");
        self.direct(site, Service::Image, "PUT", &file)?
            .data(name.as_bytes())
            .expect(204)?;
        // Glance logs after it has answered; what is marked from here on is none of this.
        let logged = format!("PUT {file}");
        self.until("glance has logged the upload", || {
            Ok(self.asked(begun)?.contains(&logged).then_some(()))
        })?;
        Ok(id)
    }

    pub(super) fn remove_images(&self, site: usize, name: &str) -> Result<()> {
        let listed = self
            .direct(site, Service::Image, "GET", &format!("/v2/images?name={name}"))?
            .expect(200)?;
        for image in listed.json()?["images"].as_array().into_iter().flatten() {
            let id = image["id"].as_str().context("an image has an id")?;
            self.direct(site, Service::Image, "DELETE", &format!("/v2/images/{id}"))?
                .expect(204)?;
        }
        Ok(())
    }

    /// One server as a site's nova has it; nothing if it is not there.
    pub(super) fn server(&self, site: usize, id: &str) -> Result<Option<Value>> {
        let answer = self
            .direct(site, Service::Compute, "GET", &format!("/v2.1/servers/{id}"))?
            .send()?;
        match answer.status {
            404 => Ok(None),
            200 => Ok(Some(answer.json()?["server"].take())),
            _ => Err(answer.unexpected(200)),
        }
    }

    /// Waits until a site's nova has the server, active.
    pub(super) fn until_active(&self, site: usize, id: &str) -> Result<Value> {
        // A server that failed stays so: no reason to wait.
        self.until(&format!("server {id} is active at Site{site}"), || {
            let server = self.server(site, id)?.context("it is not there")?;
            match server["status"].as_str() {
                Some("ACTIVE") => Ok(Some(Ok(server))),
                Some("ERROR") => Ok(Some(Err(anyhow::anyhow!(
                    "server {id} failed: {}",
                    server["fault"]
                )))),
                status => anyhow::bail!("it is {status:?}"),
            }
        })?
    }

    pub(super) fn until<T>(&self, what: &str, ask: impl FnMut() -> Result<Option<T>>) -> Result<T> {
        until(&self.interrupt, what, SOON, ask)
    }

    /// Where the log of a site's glance ends now.
    pub(super) fn mark(&self, site: usize) -> Result<Mark> {
        let offset = fs::metadata(self.glance_log(site))?.len();
        Ok(Mark { site, offset })
    }

    /// The requests about images that a glance answered after the mark, as its own log has them:
    /// `GET /v2/images/…`. Who asks for versions only has not asked for images.
    pub(super) fn asked(&self, since: Mark) -> Result<Vec<String>> {
        let mut log = fs::File::open(self.glance_log(since.site))?;
        log.seek(SeekFrom::Start(since.offset))?;
        let mut text = String::new();
        log.read_to_string(&mut text)?;
        let request = |line: &str| {
            let request = line.split_once("] \"")?.1.split_once(" HTTP/")?.0;
            request.contains(" /v2/images").then(|| request.to_owned())
        };
        Ok(text.lines().filter_map(request).collect())
    }

    fn glance_log(&self, site: usize) -> PathBuf {
        self.dir.join(format!("testbed/site{site}/log/glance-api.log"))
    }
}

impl World for Sites {
    fn restore(&mut self) -> Result<()> {
        self.mesh.heal()?;
        for site in COMPLETE {
            self.resume(site, Service::Image)?;
        }
        Ok(())
    }

    fn describe(&self) -> String {
        let lines = (1..=FOREIGN).map(|site| {
            format!(
                "Site{site}: . {}; CHEOPS_ADMIN={}",
                self.dir.join(format!("testbed/site{site}.openrc")).display(),
                self.mesh.site(site).admin().display()
            )
        });
        lines.collect::<Vec<_>>().join("\n") + &format!("\n`openstack` with --scope: {}", self.client)
    }
}

/// What keystone issues to admin's password.
pub(super) fn sign_in(request: Curl) -> Result<String> {
    let default = json!({ "id": "default" });
    let user = json!({ "name": "admin", "domain": default, "password": "secret" });
    let body = json!({ "auth": {
        "identity": { "methods": ["password"], "password": { "user": user } },
        "scope": { "project": { "name": "admin", "domain": default } },
    } });
    let answer = request.json(&body).expect(201)?;
    Ok(answer
        .header("x-subject-token")
        .context("keystone gave no token")?
        .to_owned())
}

/// What the script is told.
fn environment(addresses: Addresses, dir: &Path) -> Result<Vec<(String, String)>> {
    // The port mapper has the port before, Erlang's distribution the one after.
    let rabbit = Ports::find(&(0..3))?.base + 1;
    let mut environment = vec![
        ("OS_RUN".to_owned(), dir.display().to_string()),
        ("OS_SITES".to_owned(), "1 2 3".to_owned()),
        ("OS_IP_PREFIX".to_owned(), addresses.prefix()),
        ("OS_RABBIT_PORT".to_owned(), rabbit.to_string()),
        ("OS_SERVICE_TOKEN".to_owned(), "1".to_owned()),
        (format!("SITE{FOREIGN}_SERVICES"), "keystone".to_owned()),
        (format!("SITE{FOREIGN}_SHARED_IDENTITY"), "0".to_owned()),
    ];
    for site in 1..=FOREIGN {
        for service in Service::ALL {
            let variable = format!("SITE{site}_{}", service.project().to_uppercase());
            let url = |door| format!("http://{}", addresses.of(site, service, door));
            environment.push((format!("{variable}_URL"), url(Door::Public)));
            environment.push((format!("{variable}_INTERNAL_URL"), url(Door::Internal)));
        }
    }
    Ok(environment)
}

fn config(addresses: Addresses, site: usize, glue: &str) -> AgentConfig {
    let services = Service::ALL.map(|service| {
        format!(
            "[services.{}]\npublic = \"{}\"\ninternal = \"{}\"\nupstream = \"http://{}\"\n",
            service.name(),
            addresses.of(site, service, Door::Public),
            addresses.of(site, service, Door::Internal),
            addresses.of(site, service, Door::Itself),
        )
    });
    AgentConfig {
        name: format!("Site{site}"),
        peer: addresses.peer(site),
        root: format!("glue = {glue:?}\n"),
        limits: LIMITS,
        listener: &[],
        tables: services.join("\n"),
    }
}
