//! The world as the planner and the checker of names see it.

use std::sync::Arc;

use cheops_plan::View;
use cheops_scope::Names;
use cheops_types::{Distances, Health, ServiceName, SiteName};

use crate::World;

/// One generation of the configuration with the distances of this moment.
pub struct WorldView<'a> {
    world: &'a World,
    distances: Arc<Distances>,
}

impl<'a> WorldView<'a> {
    pub fn new(world: &'a World, distances: Arc<Distances>) -> Self {
        Self { world, distances }
    }
}

impl View for WorldView<'_> {
    fn here(&self) -> &SiteName {
        &self.world.site
    }

    fn site(&self, name: &str) -> Option<&SiteName> {
        self.world
            .sites
            .binary_search_by(|site| site.as_str().cmp(name))
            .ok()
            .map(|i| &self.world.sites[i])
    }

    fn sites(&self) -> &[SiteName] {
        &self.world.sites
    }

    fn is_up(&self, site: &SiteName) -> bool {
        *site == self.world.site || self.distances.health(site) != Health::Down
    }

    fn round_trip_us(&self, from: &SiteName, to: &SiteName) -> Option<u32> {
        self.distances.round_trip_us(from, to)
    }
}

impl Names for WorldView<'_> {
    fn has_site(&self, name: &str) -> bool {
        self.site(name).is_some()
    }

    /// A service that only other sites have is one of the application's too.
    fn has_service(&self, name: &str) -> bool {
        self.world.services.contains_key(name)
            || self.world.profile.services().any(|known| known.as_str() == name)
    }

    fn sites(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        Box::new(self.world.sites.iter().map(SiteName::as_str))
    }

    fn services(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        let configured = self.world.services.keys();
        let described = self.world.profile.services();
        let mut names: Vec<&str> = configured.chain(described).map(ServiceName::as_str).collect();
        names.sort_unstable();
        names.dedup();
        Box::new(names.into_iter())
    }
}
