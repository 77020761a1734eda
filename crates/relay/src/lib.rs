//! A link between two TCP addresses that can be slow, cut (both ways or one) or refused, in user space.
//!
//! A [`Relay`] listens at one address and carries every connection to another. Bytes arrive in
//! order, each one the configured delay after it was sent, so that a slow link costs latency and
//! not throughput; what is in flight is bounded, and then the sender waits. A cut link swallows:
//! it accepts and nothing arrives until it heals, when everything that was sent arrives after
//! all, as TCP's retransmissions would have it. The relay never reads what it carries, never
//! reorders and never loses a byte of a connection that it does not also reset.

mod connection;
mod link;
mod pipe;
mod relay;

pub use relay::{Relay, Traffic};
