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

impl Impersonate {
    /// Whether a header, in lower case, says in whose name a request is made.
    pub fn has(&self, header: &str) -> bool {
        header == self.user || header == self.group
    }

    /// In whose name a request is made, if not in its sender's own. Header names are compared without case.
    pub fn named<'h>(&self, headers: impl IntoIterator<Item = (&'h str, &'h [u8])>) -> Option<Caller> {
        let mut user = None;
        let mut groups = Vec::new();
        for (name, value) in headers {
            let Ok(text) = std::str::from_utf8(value) else {
                continue;
            };
            if name.eq_ignore_ascii_case(&self.user) {
                user = Some(text.to_owned());
            } else if name.eq_ignore_ascii_case(&self.group) {
                groups.push(text.to_owned());
            }
        }
        Some(Caller { user: user?, groups })
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
