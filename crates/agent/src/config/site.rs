//! The whole file: its keys, and what must hold between them.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use cheops_net::{Network, Revoked, Serial};
use cheops_types::{ServiceName, SiteName, nearest};
use toml::de::DeTable;

use super::{
    Config, ConfigError, GlueChoice, Peer, SOCKET_PATH_MAX_BYTES, Site, Vouch, address, limits, service,
    slots::{self, Placed},
    table::{Field, Keys, Table},
    tls::MeshFiles,
    withhold,
};
use crate::builtin::{BUILT_IN, BuiltIn};

const KEYS: Keys = &[
    ("site", "\"site1\""),
    ("slot", "1"),
    ("data_dir", "\"/var/lib/cheops\""),
    ("workers", "0"),
    ("exempt_clients", "[\"192.0.2.0/24\"]"),
    ("glue", "\"plain\""),
    ("peer", "{ … }"),
    ("services", "{ … }"),
    ("sites", "{ … }"),
    ("limits", "{ … }"),
];

const PEER_KEYS: Keys = &[
    ("listen", "\"0.0.0.0:7443\""),
    ("ca", "\"ca.pem\""),
    ("cert", "\"site1.pem\""),
    ("key", "\"site1.key\""),
    ("revoked", "[\"0a1b2c…\"]"),
];

/// Those of [`PEER_KEYS`] that can be left out.
const PEER_OPTIONAL: &[&str] = &["revoked"];

const SITE_KEYS: Keys = &[
    ("address", "\"192.0.2.2:7443\""),
    ("vouch", "\"users\""),
    ("withhold", "[\"cookie\"]"),
    ("hedge_credentials", "false"),
    ("slot", "2"),
];

/// More runtimes than any machine has cores, so that a typing error does not start a million.
const WORKERS_MAX: u64 = 4096;

/// A configuration with the places that later checks report on.
pub(super) struct Located {
    pub(super) config: Config,
    pub(super) peer: Option<PeerFiles>,
    pub(super) services: Vec<service::Located>,
    pub(super) glue: Option<Field<PathBuf>>,
}

pub(super) struct PeerFiles {
    pub(super) ca: Field<PathBuf>,
    pub(super) cert: Field<PathBuf>,
    pub(super) key: Field<PathBuf>,
}

/// Reads and judges the text of the file at `path`.
pub(super) fn read(path: &Path, text: &str) -> Result<Located, Vec<ConfigError>> {
    let (document, syntax_errors) = DeTable::parse_recoverable(text);
    if !syntax_errors.is_empty() {
        // What was recovered would be judged wrongly.
        return Err(syntax_errors.iter().map(syntax_error).collect());
    }
    let mut errors = Vec::new();
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let located = read_root(&path, document.get_ref(), &mut errors);
    match located {
        Some(located) if errors.is_empty() => Ok(located),
        _ => Err(errors),
    }
}

fn syntax_error(error: &toml::de::Error) -> ConfigError {
    ConfigError {
        span: error.span().unwrap_or(0..0),
        key: String::new(),
        message: format!("this is not TOML: {}", error.message()),
        fix: "`cheops config example` shows a whole file".to_owned(),
    }
}

fn read_root<'d>(path: &Path, document: &'d DeTable<'d>, errors: &mut Vec<ConfigError>) -> Option<Located> {
    let dir = path.parent().unwrap_or(Path::new("/"));
    let root = Table::root(document, KEYS, errors);

    let site = read_site(&root, errors);
    let data_dir = read_data_dir(&root, site.as_ref(), dir, errors);
    let workers = root.integer("workers", errors).and_then(|field| {
        if field.value > WORKERS_MAX {
            errors.push(field.error(
                format!("`workers` may be at most {WORKERS_MAX}"),
                "write 0 for one per core",
            ));
        }
        usize::try_from(field.value).ok()
    });
    let exempt_clients = read_exempt(&root, errors);
    let (glue, glue_file) = read_glue(&root, dir, errors);
    let peer = read_peer(&root, dir, errors);
    let mesh_tls = peer
        .as_ref()
        .zip(site.as_ref())
        .map(|((peer, ..), site)| MeshFiles::beside(&peer.cert, &site.value));
    let services = read_services(&root, dir, mesh_tls.as_ref(), errors);
    let slot = site.as_ref().map(|site| slots::read(site, &root, errors));
    let sites = read_sites(&root, site.as_ref(), errors);
    slots::check(
        slot.iter().chain(sites.iter().map(|(_, placed, _)| placed)),
        errors,
    );
    let limits = limits::read(&root, errors);

    check_listeners(peer.as_ref().map(|(_, listen, _)| listen), &services, errors);
    if !root.has("peer")
        && let Some((name, ..)) = sites.first()
    {
        errors.push(name.error(
            format!("site `{}` cannot be reached without [peer]", name.value),
            "add [peer] with `listen`, `ca`, `cert` and `key`; `cheops ca` makes the files",
        ));
    }

    let (peer, peer_files) = match peer {
        Some((peer, _, files)) => (Some(peer), Some(files)),
        None => (None, None),
    };
    Some(Located {
        config: Config {
            path: path.to_owned(),
            site: site?.value,
            slot: slot?.value.1,
            data_dir: data_dir?,
            workers: workers.unwrap_or(0),
            exempt_clients,
            glue,
            peer,
            services: services
                .iter()
                .map(|(name, located)| (name.clone(), located.service.clone()))
                .collect(),
            sites: sites
                .into_iter()
                .map(|(name, _, site)| (name.value, site))
                .collect(),
            limits,
        },
        peer: peer_files,
        services: services.into_values().collect(),
        glue: glue_file,
    })
}

/// Whose budgets do not count.
fn read_exempt(root: &Table<'_>, errors: &mut Vec<ConfigError>) -> Vec<Network> {
    let mut networks = Vec::new();
    for field in root.strings("exempt_clients", errors) {
        match field.value.parse() {
            Ok(network) => networks.push(network),
            Err(error) => errors.push(field.error(
                format!("{error}"),
                "write one, e.g. \"192.0.2.1\", or a block, e.g. \"192.0.2.0/24\"",
            )),
        }
    }
    networks
}

fn read_site(root: &Table<'_>, errors: &mut Vec<ConfigError>) -> Option<Field<SiteName>> {
    if !root.has("site") {
        errors.push(root.missing("site"));
    }
    let field = root.string("site", errors)?;
    match SiteName::new(field.value) {
        Ok(name) => Some(field.with(name)),
        Err(error) => {
            errors.push(bad_name(&field, &error));
            None
        }
    }
}

fn bad_name(field: &Field<&str>, error: &cheops_types::InvalidName) -> ConfigError {
    let text = error.to_string();
    let (what, fix) = text.split_once(": ").unwrap_or((&text, "choose another name"));
    field.error(what, fix)
}

fn read_data_dir(
    root: &Table<'_>,
    site: Option<&Field<SiteName>>,
    dir: &Path,
    errors: &mut Vec<ConfigError>,
) -> Option<PathBuf> {
    let field = root.path("data_dir", errors);
    if field.is_none() && root.has("data_dir") {
        return None;
    }
    let data_dir = match (&field, site) {
        (Some(field), _) => dir.join(&field.value),
        (None, Some(site)) => dir.join("data").join(site.value.as_str()),
        (None, None) => return None,
    };
    let length = data_dir.join(super::ADMIN_SOCKET).as_os_str().len();
    if length > SOCKET_PATH_MAX_BYTES {
        let at = field.map_or_else(|| root.name.clone(), |field| field.with(()));
        errors.push(ConfigError {
            key: "data_dir".to_owned(),
            ..at.error(
                format!(
                    "the data directory's path is {} bytes too long for a Unix socket in it",
                    length - SOCKET_PATH_MAX_BYTES
                ),
                "set `data_dir` to a shorter path, e.g. \"/var/lib/cheops\"",
            )
        });
        return None;
    }
    Some(data_dir)
}

fn read_glue(
    root: &Table<'_>,
    dir: &Path,
    errors: &mut Vec<ConfigError>,
) -> (GlueChoice, Option<Field<PathBuf>>) {
    let Some(field) = root.string("glue", errors) else {
        return (GlueChoice::Plain, None);
    };
    if let Some(built_in) = BuiltIn::find(field.value) {
        return (GlueChoice::BuiltIn(built_in.name), None);
    }
    match field.value {
        "plain" => (GlueChoice::Plain, None),
        file if Path::new(file)
            .extension()
            .is_some_and(|extension| extension == "toml") =>
        {
            let path = dir.join(file);
            (GlueChoice::File(path.clone()), Some(field.with(path)))
        }
        other => {
            let names = || std::iter::once("plain").chain(BUILT_IN.iter().map(|built_in| built_in.name));
            let fix = if let Some(meant) = nearest(other, names()) {
                format!("did you mean `{meant}`?")
            } else {
                let names: Vec<String> = names().map(|name| format!("`{name}`")).collect();
                format!("write {}, or the path of a `.toml` file", names.join(", "))
            };
            errors.push(field.error(format!("there is no glue `{other}`"), fix));
            (GlueChoice::Plain, None)
        }
    }
}

fn read_peer(
    root: &Table<'_>,
    dir: &Path,
    errors: &mut Vec<ConfigError>,
) -> Option<(Peer, Field<SocketAddr>, PeerFiles)> {
    let table = root.table("peer", PEER_KEYS, errors)?;
    for (key, _) in PEER_KEYS {
        if !table.has(key) && !PEER_OPTIONAL.contains(key) {
            errors.push(table.missing(key));
        }
    }
    let revoked = read_revoked(&table, errors);
    let listen = table
        .string("listen", errors)
        .and_then(|field| address::listen(&field, errors));
    let mut file = |key| {
        let field = table.path(key, errors)?;
        Some(field.with(dir.join(&field.value)))
    };
    let (ca, cert, key) = (file("ca"), file("cert"), file("key"));
    let (listen, ca, cert, key) = (listen?, ca?, cert?, key?);
    let peer = Peer {
        listen: listen.value,
        ca: ca.value.clone(),
        cert: cert.value.clone(),
        key: key.value.clone(),
        revoked,
    };
    Some((peer, listen, PeerFiles { ca, cert, key }))
}

/// The serial numbers of certificates that are not believed.
fn read_revoked(table: &Table<'_>, errors: &mut Vec<ConfigError>) -> Revoked {
    let mut serials = Vec::new();
    for field in table.strings("revoked", errors) {
        match field.value.parse::<Serial>() {
            Ok(serial) => serials.push(serial),
            Err(error) => {
                let text = error.to_string();
                let (what, fix) = text.split_once(": ").unwrap_or((&text, "remove it"));
                errors.push(field.error(what, fix));
            }
        }
    }
    serials.into_iter().collect()
}

fn read_services(
    root: &Table<'_>,
    dir: &Path,
    mesh_tls: Option<&MeshFiles>,
    errors: &mut Vec<ConfigError>,
) -> BTreeMap<ServiceName, service::Located> {
    let tables = root.tables("services", service::KEYS, errors);
    if !root.has_members("services") {
        errors.push(ConfigError {
            key: "services".to_owned(),
            ..root.name.error(
                "the site has no services",
                "add a table for each, e.g. `[services.A]` with `public` and `upstream`",
            )
        });
    }
    let mut services = BTreeMap::new();
    for (name, table) in tables {
        let located = service::read(&table, dir, mesh_tls, errors);
        match (ServiceName::new(name.value), located) {
            (Ok(name), Some(located)) => {
                services.insert(name, located);
            }
            (Err(error), _) => errors.push(bad_name(&name, &error)),
            (Ok(_), None) => {}
        }
    }
    services
}

fn read_sites(
    root: &Table<'_>,
    here: Option<&Field<SiteName>>,
    errors: &mut Vec<ConfigError>,
) -> Vec<(Field<SiteName>, Placed, Site)> {
    let mut sites = Vec::new();
    for (name, table) in root.tables("sites", SITE_KEYS, errors) {
        if !table.has("address") {
            errors.push(table.missing("address"));
        }
        let address = table.string("address", errors);
        if let Some(address) = &address
            && !address::is_host_and_port(address.value)
        {
            errors.push(address.error(
                format!("`{}` is not where a site is reached", address.value),
                "write host and port of its [peer] listen address, e.g. `192.0.2.2:7443`",
            ));
        }
        match SiteName::new(name.value) {
            Ok(site) if here.is_some_and(|here| here.value == site) => errors.push(name.error(
                format!("`{site}` is this site itself"),
                "list only the other sites; this one is `site` and [peer]",
            )),
            Ok(site) => {
                let address = address.map(|field| field.value).unwrap_or_default().to_owned();
                let site_rules = Site {
                    address,
                    vouch: read_vouch(&table, errors),
                    withhold: withhold::read(&table, errors),
                    hedge_credentials: table.boolean("hedge_credentials", errors).unwrap_or(false),
                };
                let name = name.with(site);
                let placed = slots::read(&name, &table, errors);
                sites.push((name, placed, site_rules));
            }
            Err(error) => errors.push(bad_name(&name, &error)),
        }
    }
    sites
}

/// Whom a site may vouch for.
fn read_vouch(table: &Table<'_>, errors: &mut Vec<ConfigError>) -> Vouch {
    let Some(field) = table.string("vouch", errors) else {
        return Vouch::default();
    };
    match field.value {
        "users" => Vouch::Users,
        "none" => Vouch::None,
        other => {
            errors.push(field.error(
                format!("`{other}` is nobody whom a site can vouch for"),
                "write `\"users\"`, or `\"none\"` if its word about callers counts nothing here",
            ));
            Vouch::default()
        }
    }
}

/// No address twice, and no service that is its own upstream.
fn check_listeners(
    peer: Option<&Field<SocketAddr>>,
    services: &BTreeMap<ServiceName, service::Located>,
    errors: &mut Vec<ConfigError>,
) {
    let mut listeners: Vec<_> = services
        .values()
        .flat_map(|service| &service.listeners)
        .chain(peer)
        .collect();
    listeners.sort_by_key(|listener| listener.span.start);
    for (index, later) in listeners.iter().enumerate() {
        if let Some(earlier) = listeners[..index]
            .iter()
            .find(|earlier| address::overlap(earlier.value, later.value))
        {
            errors.push(later.error(
                format!(
                    "`{}` cannot be used beside `{}`, which is `{}`",
                    later.value, earlier.value, earlier.key
                ),
                "give one of them another port",
            ));
        }
    }
    for service in services.values() {
        let upstream = &service.service.upstream;
        if let Some(own) = listeners
            .iter()
            .find(|own| address::arrives_at(&upstream.host, upstream.port, own.value))
        {
            errors.push(service.upstream.error(
                format!("the upstream is the agent itself: `{}` listens there", own.key),
                "write the address where the application's service listens",
            ));
        }
    }
}
