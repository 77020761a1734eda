//! `cheops kubectl` and `cheops curl` with programs that only pretend to be kubectl and curl: what they are given,
//! what becomes of what they ask, and how it ends.

mod curl;
mod fake;
mod forward;
mod kubectl;
mod tls;
mod upstream;
