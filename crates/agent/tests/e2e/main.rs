//! Sites as users run them: agent processes, real sockets, links that fail.

mod framing;
mod harness;
mod heads;
mod wire;
mod workflow;
