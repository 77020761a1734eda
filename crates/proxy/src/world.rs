//! What an agent is configured to know, swapped as a whole when the configuration changes.

use std::{collections::HashMap, sync::Arc};

use cheops_glue::Profile;
use cheops_net::{MeshTls, UpstreamTarget};
use cheops_types::{Limits, ServiceName, SiteName};

/// One service of this site.
pub struct ServiceEntry {
    pub name: ServiceName,
    pub target: UpstreamTarget,
    /// The same, with the certificate by which the service believes this agent about its callers.
    pub vouched: Option<UpstreamTarget>,
    /// Privileged callers that a peer may speak for here.
    pub vouch: Vec<String>,
}

/// One generation of the configuration.
pub struct World {
    pub site: SiteName,
    /// All known sites, this one included, sorted by name.
    pub sites: Vec<SiteName>,
    pub services: HashMap<ServiceName, Arc<ServiceEntry>>,
    /// Where the other sites' peer ports are.
    pub peers: HashMap<SiteName, String>,
    /// Sites whose word about who a caller is does not count here.
    pub unbelieved: Vec<SiteName>,
    pub mesh: Option<MeshTls>,
    pub profile: Arc<Profile>,
    pub limits: Limits,
    /// Connections to peers are kept open although nothing is sent.
    pub keep_peers_warm: bool,
}
