//! Why a write, a read or a request came to nothing.

use cheops_types::SiteName;

/// Why a write has no verdict. Each says whether it may still execute.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// Nothing executed: the write belongs to the leader's site.
    #[error("this site does not lead the group{}", leads(leader.as_ref()))]
    NotLeader { leader: Option<SiteName> },
    /// Nothing executed and nothing will.
    #[error(
        "{} of {members} members are needed and cannot be reached: {}",
        needed,
        listed(missing)
    )]
    NoMajority {
        /// The members that are not reached, as far as it is known.
        missing: Vec<SiteName>,
        needed: usize,
        members: usize,
    },
    /// It may have executed, or may yet: it goes on in the background.
    #[error("what becomes of the write is not known yet")]
    Unknown,
    /// The same token was decided before.
    #[error("the write was decided before")]
    Decided,
    /// Nothing executed: too many writes wait, or those before it in its set take too long.
    #[error("too many writes wait for this group, or for this set")]
    Full,
    /// Nothing executed: this site is no member.
    #[error("this site is no member of the group")]
    NotMember,
    /// Nothing executed: the group or its disk has ended.
    #[error("the group has stopped")]
    Stopped,
}

/// Why a read is not allowed. Nothing happened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    #[error("a majority of the members cannot be reached: {}", listed(missing))]
    NoMajority { missing: Vec<SiteName> },
    #[error("no member is known to lead the group")]
    UnknownLeader,
    #[error("this site did not get as far as the group in time")]
    Timeout,
    #[error("this site is no member of the group")]
    NotMember,
    #[error("the group has stopped")]
    Stopped,
}

/// Why what a peer sent is not answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("the message is no message: {0}")]
    Unreadable(String),
    #[error("site `{0}` speaks for somebody else")]
    Foreign(SiteName),
    #[error("the message is for `{0}`, who is not here")]
    Misdirected(String),
    #[error("site `{0}` is no member of the group")]
    NotMember(SiteName),
    #[error("the message makes no sense: {0}")]
    Insane(&'static str),
    #[error("site `{0}` has brought too many groups")]
    TooManyGroups(SiteName),
    #[error("the group has stopped")]
    Stopped,
}

/// Why a change of leader or members did not happen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    #[error("this site does not lead the group{}", leads(leader.as_ref()))]
    NotLeader { leader: Option<SiteName> },
    #[error("site `{0}` is no member of the group")]
    NotMember(SiteName),
    #[error("the incarnation of site `{0}` is not known: it was never reached")]
    NeverSeen(SiteName),
    #[error("the members did not agree: {0}")]
    Failed(String),
    #[error("it is not known yet whether the members agree")]
    Unknown,
    #[error("the group has stopped")]
    Stopped,
}

fn leads(leader: Option<&SiteName>) -> String {
    leader.map_or_else(String::new, |site| format!(", `{site}` does"))
}

fn listed(sites: &[SiteName]) -> String {
    let names: Vec<&str> = sites.iter().map(|site| &**site).collect();
    names.join(", ")
}
