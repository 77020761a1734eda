//! What the planner knows about the sites.

use cheops_types::SiteName;

/// A snapshot of membership, health and distance, as this site sees them.
///
/// `here` is one of `sites`, is found by `site` and is up. `sites` has each site once and keeps its order
/// while membership stays the same, so that equal requests get equal plans.
pub trait View {
    fn here(&self) -> &SiteName;

    /// The known site of that name.
    fn site(&self, name: &str) -> Option<&SiteName>;

    /// All known sites.
    fn sites(&self) -> &[SiteName];

    /// Whether the site answers heartbeats.
    fn is_up(&self, site: &SiteName) -> bool;

    /// The measured or estimated round trip in microseconds, `None` where neither exists.
    fn round_trip_us(&self, from: &SiteName, to: &SiteName) -> Option<u32>;
}
