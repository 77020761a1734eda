//! The application over real sockets.

mod files;
mod labels;
mod orders;
mod requests;
mod resources;
mod support;
mod tokens;
mod versions;
