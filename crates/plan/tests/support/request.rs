//! Requests made by hand.

use cheops_plan::{Party, Request, Wish};
use cheops_scope::Scope;
use cheops_types::{ServiceName, VerbClass};

/// An ordinary request of a user.
pub(crate) fn of_user<'a>(
    service: &'a ServiceName,
    verb: VerbClass,
    scope: Option<&'a Scope>,
) -> Request<'a> {
    Request {
        service,
        verb,
        caller: Party::User,
        wish: Wish::Scope(scope),
        is_placed: scope.is_some_and(|scope| scope.loc_of(service).is_some()),
        one_site: None,
        is_get: verb.is_read(),
        is_stream: false,
        is_watchable: false,
        switches: false,
        is_inside_replica: false,
    }
}
