//! What an agent is configured to know, swapped as a whole when the configuration changes.

use std::{collections::HashMap, sync::Arc};

use cheops_glue::Profile;
use cheops_net::{MeshTls, UpstreamTarget};
use cheops_types::{Limits, ServiceName, SiteName};
use http::HeaderName;

/// One service of this site.
pub struct ServiceEntry {
    pub name: ServiceName,
    pub target: UpstreamTarget,
    /// The same, with the certificate by which the service believes this agent about its callers.
    pub vouched: Option<UpstreamTarget>,
    /// Whether other sites may use it.
    pub is_offered: bool,
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
    /// Headers of callers that do not leave for a site; sites without any are absent.
    pub withheld: HashMap<SiteName, Vec<HeaderName>>,
    /// Sites that may see a caller's credential because another one is late, although the scope does not name them.
    pub hedged_freely: Vec<SiteName>,
    pub mesh: Option<MeshTls>,
    pub profile: Arc<Profile>,
    pub limits: Limits,
    /// Connections to peers are kept open although nothing is sent.
    pub keep_peers_warm: bool,
}

impl World {
    pub(crate) fn withheld_from(&self, site: &SiteName) -> &[HeaderName] {
        self.withheld.get(site).map_or(&[], Vec::as_slice)
    }
}
