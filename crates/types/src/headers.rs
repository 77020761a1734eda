//! Header names. Everything that starts with [`INTERNAL_PREFIX`] travels between agents only:
//! client ports remove it from requests, and it never reaches an application.

/// The scope of a request, written by its caller.
pub const SCOPE: &str = "x-scope";
/// What the answer says about execution.
pub const RECEIPT: &str = "cheops-receipt";
/// Prefix of the headers that only agents may write.
pub const INTERNAL_PREFIX: &str = "x-cheops-";
/// Agent to agent: the service that the request addresses.
pub const PEER_SERVICE: &str = "x-cheops-service";
/// Agent to agent: the scope of the workflow, in its full form.
pub const PEER_SCOPE: &str = "x-cheops-scope";
/// Agent to agent: where heartbeats are answered.
pub const PEER_HEARTBEAT_PATH: &str = "/.cheops/heartbeat";
