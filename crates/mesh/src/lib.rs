//! The sites around this one: who they are, whether they are up and how far away.
//!
//! Identity is a certificate of the mesh CA; health and distance come from heartbeats over the peer
//! link. It reads no file and no wall clock, and speaks to configured peers only.

mod heartbeat;
mod identity;
mod sign;
mod table;

pub use heartbeat::{Pulses, beat};
pub use identity::{Credentials, IdentityError, ListenerName, MeshCa, Validity, verify};
pub use sign::{Identity, SignatureError};
pub use table::Table;
