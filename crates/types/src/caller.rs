//! Who asked for something, as an application knows them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A caller whose credential was verified: the application's name for it, and for its groups.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Caller {
    pub user: String,
    pub groups: Vec<String>,
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.user)?;
        if !self.groups.is_empty() {
            write!(f, " ({})", self.groups.join(", "))?;
        }
        Ok(())
    }
}
