//! scope-lang, the language in which callers say where a request executes.
//!
//! [`parse`] reads a text, [`check_meaning`] refuses combinations that mean nothing, [`check_names`]
//! refuses sites and services that are not known here, and [`read`] does all three. Printing a [`Scope`]
//! and parsing it again gives the same scope. Any text is answered with a scope or a [`Diagnostic`] whose
//! span lies within the text, in bounded time and stack; nothing here panics, performs I/O or writes to a
//! terminal.

mod diagnostic;
mod function;
mod json;
mod lexer;
mod loc;
mod meaning;
mod names;
mod operator;
mod parser;
mod print;
mod radius;
mod read;
mod scope;
mod span;

pub use diagnostic::{Diagnostic, Diagnostics};
pub use loc::{Loc, LocKind};
pub use meaning::check_meaning;
pub use names::{Names, check_names};
pub use operator::Operator;
pub use radius::Radius;
pub use read::{ParseLimits, parse, read};
pub use scope::{Entry, Scope};
pub use span::Span;
