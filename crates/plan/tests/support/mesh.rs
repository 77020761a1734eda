//! A view made by hand.

use std::collections::{HashMap, HashSet};

use cheops_plan::View;
use cheops_types::SiteName;

#[derive(Debug, Clone)]
pub(crate) struct Mesh {
    here: SiteName,
    sites: Vec<SiteName>,
    down: HashSet<SiteName>,
    distances_us: HashMap<(SiteName, SiteName), u32>,
}

pub(crate) fn site(name: &str) -> SiteName {
    SiteName::new(name).unwrap()
}

impl Mesh {
    pub(crate) fn new(here: &str, sites: &[&str]) -> Self {
        Self {
            here: site(here),
            sites: sites.iter().map(|name| site(name)).collect(),
            down: HashSet::new(),
            distances_us: HashMap::new(),
        }
    }

    pub(crate) fn distance(mut self, a: &str, b: &str, us: u32) -> Self {
        self.distances_us.insert((site(a), site(b)), us);
        self.distances_us.insert((site(b), site(a)), us);
        self
    }

    #[allow(dead_code)] // not every table has sites that are down
    pub(crate) fn down(mut self, name: &str) -> Self {
        self.down.insert(site(name));
        self
    }
}

impl View for Mesh {
    fn here(&self) -> &SiteName {
        &self.here
    }
    fn site(&self, name: &str) -> Option<&SiteName> {
        self.sites.iter().find(|site| site.as_str() == name)
    }
    fn sites(&self) -> &[SiteName] {
        &self.sites
    }
    fn is_up(&self, site: &SiteName) -> bool {
        !self.down.contains(site)
    }
    fn round_trip_us(&self, from: &SiteName, to: &SiteName) -> Option<u32> {
        self.distances_us.get(&(from.clone(), to.clone())).copied()
    }
}
