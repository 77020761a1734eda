//! Speaking in another's name.

use cheops_types::Caller;

/// The headers by which somebody who may do so speaks in another's name. In lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Impersonate {
    pub user: String,
    /// One group; repeated for several.
    pub group: String,
    /// Groups that every caller has: nobody needs to be trusted about them.
    pub implied_groups: Vec<String>,
}

/// In whose name a request is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Named {
    /// In its sender's own.
    Sender,
    Other(Caller),
    /// An application may read it in more than one way: several names, or none.
    Unclear,
}

impl Impersonate {
    /// Whether a header, in lower case, says in whose name a request is made.
    pub fn has(&self, header: &str) -> bool {
        header == self.user || header == self.group
    }

    /// In whose name a request is made. Header names are compared without case.
    pub fn named<'h>(&self, headers: impl IntoIterator<Item = (&'h str, &'h [u8])>) -> Named {
        let (mut users, mut groups) = (Vec::new(), Vec::new());
        for (name, value) in headers {
            let names = match name {
                name if name.eq_ignore_ascii_case(&self.user) => &mut users,
                name if name.eq_ignore_ascii_case(&self.group) => &mut groups,
                _ => continue,
            };
            match std::str::from_utf8(value) {
                Ok(text) => names.push(text.to_owned()),
                Err(_) => return Named::Unclear,
            }
        }
        let caller = match (users.pop(), users.is_empty()) {
            (None, _) if groups.is_empty() => return Named::Sender,
            (Some(user), true) => Caller { user, groups },
            _ => return Named::Unclear,
        };
        match caller.unsayable() {
            None => Named::Other(caller),
            Some(_) => Named::Unclear,
        }
    }

    /// The headers of a request in a caller's name. The implied groups are among them: some applications add
    /// those only where no group is named.
    pub fn headers(&self, caller: &Caller) -> Vec<(String, String)> {
        let user = (self.user.clone(), caller.user.clone());
        let groups = caller
            .groups
            .iter()
            .map(|group| (self.group.clone(), group.clone()));
        std::iter::once(user).chain(groups).collect()
    }
}
