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
/// Between agents: who the caller is, where its certificate said so.
pub const PEER_CALLER: &str = "x-cheops-caller";
/// Agent to agent: where heartbeats are answered.
pub const PEER_HEARTBEAT_PATH: &str = "/.cheops/heartbeat";
/// Agent to agent: the sites of the replica set that the request is to make or to change.
pub const PEER_REPLICATE: &str = "x-cheops-replicate";
/// Agent to agent, in an answer: which items of the list are replicas, as ranges of places for each list
/// of sites that have them.
pub const PEER_REPLICAS: &str = "x-cheops-replicas";
/// Agent to agent: the prefix of everything that replication asks.
pub const PEER_REPLICATION_PATH: &str = "/.cheops/replication/";
/// Agent to agent, below [`PEER_REPLICATION_PATH`]: names in containers that span sites.
pub const NAMES: &str = "names";
/// Agent to agent: the request is to make a resource that spans the sites of [`PEER_REPLICATE`].
pub const PEER_CROSS: &str = "x-cheops-cross";
/// Agent to agent: the name of what the request makes is reserved in the container that it lies in.
pub const PEER_NAMED: &str = "x-cheops-named";
/// Agent to agent: the prefix of payloads, by hash.
pub const PEER_PAYLOAD_PATH: &str = "/.cheops/payload/";
/// For callers: the prefix of the operations whose state can be asked for.
pub const OPERATION_PATH: &str = "/.cheops/operations/";
