//! Who asked for something, as an application knows them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A caller whose credential was verified: the application's name for it, and for its groups.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Caller {
    pub user: String,
    pub groups: Vec<String>,
}

impl Caller {
    /// The first of its names that a header does not carry as it is: HTTP takes the blanks around a value off,
    /// and what is left may be another's name. An empty name is nobody's.
    pub fn unsayable(&self) -> Option<&str> {
        let has_blanks = |name: &&str| name.trim().len() != name.len();
        let user = Some(self.user.as_str()).filter(|user| user.is_empty() || has_blanks(user));
        user.or_else(|| self.groups.iter().map(String::as_str).find(has_blanks))
    }
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
