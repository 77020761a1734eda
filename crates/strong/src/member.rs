//! Who takes part in a group.

use std::fmt;

use cheops_types::SiteName;
use serde::{Deserialize, Serialize};

/// A site with the store that it has now.
///
/// A vote and an acknowledgement are promises of a store. A site whose store was lost would break
/// them without knowing: it comes back under another incarnation, as somebody whom nobody counted on.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Member {
    pub site: SiteName,
    /// Of the site's store.
    pub incarnation: u64,
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.site, self.incarnation)
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// For the suite of tests that comes with openraft.
#[cfg(test)]
impl From<u64> for Member {
    fn from(number: u64) -> Self {
        Self {
            site: SiteName::new(&format!("s{number}")).unwrap(),
            incarnation: 1,
        }
    }
}
