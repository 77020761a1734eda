//! Header names. Everything that starts with [`INTERNAL_PREFIX`] travels between agents only:
//! client ports remove it from requests, and it never reaches an application.

/// The scope of a request, written by its caller.
pub const SCOPE: &str = "x-scope";
/// Of a request whose caller wants to know what it would do: `plan`. Nothing of it runs.
pub const EXPLAIN: &str = "cheops-explain";
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
/// Agent to agent: what is left of the plan for the agent that gets the request.
pub const PEER_PLAN: &str = "x-cheops-plan";
/// Agent to agent, in an answer: which items of the list are replicas, as ranges of places for each list
/// of sites that have them.
pub const PEER_REPLICAS: &str = "x-cheops-replicas";
/// Agent to agent: the prefix of everything that replication asks.
pub const PEER_REPLICATION_PATH: &str = "/.cheops/replication/";
/// Agent to agent, below [`PEER_REPLICATION_PATH`]: names in containers that span sites.
pub const NAMES: &str = "names";
/// Agent to agent: the prefix of payloads, by hash.
pub const PEER_PAYLOAD_PATH: &str = "/.cheops/payload/";
/// For callers: the prefix of the operations whose state can be asked for.
pub const OPERATION_PATH: &str = "/.cheops/operations/";
