//! What an agent is configured to know, swapped as a whole when the configuration changes.

use std::{collections::HashMap, sync::Arc};

use cheops_glue::Profile;
use cheops_net::{MeshTls, UpstreamTarget};
use cheops_types::{Limits, ServiceName, SiteName};

/// One service of this site.
pub struct ServiceEntry {
    pub name: ServiceName,
    pub target: UpstreamTarget,
}

/// One generation of the configuration.
pub struct World {
    pub site: SiteName,
    /// All known sites, this one included, sorted by name.
    pub sites: Vec<SiteName>,
    pub services: HashMap<ServiceName, Arc<ServiceEntry>>,
    /// Where the other sites' peer ports are.
    pub peers: HashMap<SiteName, String>,
    pub mesh: Option<MeshTls>,
    pub profile: Arc<Profile>,
    pub limits: Limits,
    /// Connections to peers are kept open although nothing is sent.
    pub keep_peers_warm: bool,
}
