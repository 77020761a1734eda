//! The application over real sockets.

mod orders;
mod requests;
mod resources;
mod support;
