//! Stable codes for everything a user can see go wrong. Each has a page in `docs/errors/`.

use std::fmt;

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $text:literal, $status:literal, $title:literal;)*) => {
        /// A stable error code with its HTTP status and its title.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code { $($(#[$doc])* $variant,)* }

        impl Code {
            pub const ALL: &[Code] = &[$(Code::$variant,)*];

            pub fn as_str(self) -> &'static str {
                match self { $(Code::$variant => $text,)* }
            }

            pub fn status(self) -> u16 {
                match self { $(Code::$variant => $status,)* }
            }

            pub fn title(self) -> &'static str {
                match self { $(Code::$variant => $title,)* }
            }
        }
    };
}

codes! {
    // The scope is wrong: the caller's fault, nothing executed.
    ScopeSyntax = "scope_syntax", 400, "the scope cannot be read";
    ScopeMeaning = "scope_meaning", 400, "the scope means nothing";
    ScopeTooLong = "scope_too_long", 431, "the scope is too long";
    ScopeTooDeep = "scope_too_deep", 400, "the scope is nested too deeply";
    ScopeRepeated = "scope_repeated", 400, "the request has more than one scope";
    UnknownSite = "unknown_site", 400, "the scope names a site that is not known here";
    UnknownService = "unknown_service", 400, "the scope names a service that is not known here";
    UnknownFunction = "unknown_function", 400, "the scope calls a function that does not exist";
    NoSiteLeft = "no_site_left", 503, "no reachable site is left for the scope";

    // The request is wrong or cannot be carried out here: nothing executed.
    BadRequest = "bad_request", 400, "the request cannot be forwarded";
    MethodRefused = "method_refused", 405, "the method is not passed on";
    PathAmbiguous = "path_ambiguous", 400, "the path can be read in several ways";
    LoopDetected = "loop_detected", 508, "the request came back to where it was";
    NotAvailable = "not_available", 501, "this version cannot do that yet";
    PageToken = "page_token", 400, "the page token cannot be used";
    NotAcceptable = "not_acceptable", 406, "the answer cannot be given in a form that the caller accepts";
    BodyTooLarge = "body_too_large", 413, "the body is too large to be read";
    BodyUnreadable = "body_unreadable", 502, "an answer could not be read as a list";
    UpgradeNotPossible = "upgrade_not_possible", 400, "the upgrade cannot be carried out under this scope";

    // Replication.
    UnknownReplicaSet = "unknown_replica_set", 404, "no such replica set is known here";
    ResourceDeleted = "resource_deleted", 410, "the resource was deleted";
    ReplicaUnavailable = "replica_unavailable", 503, "no site of the replica set can take the write now";
    NoMajority = "no_majority", 503, "no majority of the sites that decide together can be reached";
    ReplicaRefused = "replica_refused", 409, "a site refused what the others accepted";
    InDoubt = "in_doubt", 503, "an earlier write to the resource is in doubt";
    BodyUnsupported = "body_unsupported", 415, "the body cannot be read where it must be";
    GlueIncomplete = "glue_incomplete", 501, "the glue does not say enough to replicate that";
    SetFenced = "set_fenced", 503, "the replica set is fenced off at this site";
    SetRefused = "set_refused", 409, "the replica set cannot be changed like that";
    NameTaken = "name_taken", 409, "the name is taken in a container that spans sites";
    NameUnreserved = "name_unreserved", 503, "the name cannot be reserved in a container that spans sites";
    OwnerUnknown = "owner_unknown", 503, "the site that has the resource cannot be found";
    UnknownOperation = "unknown_operation", 404, "no such operation is known here";
    UnknownConflict = "unknown_conflict", 404, "no such conflict is known here";
    StoreBusy = "store_busy", 503, "too many writes wait for this site's store";
    StoreFull = "store_full", 507, "this site's store cannot be written";

    // Correlation.
    CorrelationLost = "correlation_lost", 503, "the workflow's scope is no longer known";
    CorrelationFull = "correlation_full", 503, "all scopes that the caller may have at once are in use";
    CorrelationAmbiguous = "correlation_ambiguous", 409, "the call fits several workflows with different scopes";

    // Upstream and peers.
    UpstreamUnreachable = "upstream_unreachable", 502, "the service did not accept the request";
    UpstreamFailed = "upstream_failed", 502, "the service broke off before it answered";
    UpstreamTimeout = "upstream_timeout", 504, "the service did not answer in time";
    PeerDown = "peer_down", 502, "the site does not answer heartbeats";
    PeerUnreachable = "peer_unreachable", 502, "the site cannot be reached";
    PeerFailed = "peer_failed", 502, "the link to the site broke before the answer";
    PeerTimeout = "peer_timeout", 504, "the site did not answer in time";
    PeerBusy = "peer_busy", 503, "too many requests to the site are under way";
    PeerRefused = "peer_refused", 403, "the site does not accept this peer";
    CallerRefused = "caller_refused", 403, "the site does not take a peer's word for this caller";
    UnknownOutcome = "unknown_outcome", 504, "the answer was lost; the request may have executed";
    GatherBusy = "gather_busy", 503, "too many lists are being merged";
    IncompleteList = "incomplete_list", 503, "a site's part of the list is missing";
    ShuttingDown = "shutting_down", 503, "the agent is shutting down";
    ConfigRefused = "config_refused", 422, "the configuration cannot be used";
    Internal = "internal", 500, "a defect in Cheops";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique() {
        let mut seen: Vec<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), Code::ALL.len());
    }
}
