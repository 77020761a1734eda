//! Calls of functions: `all()`, `around(loc, radius)`, `strong(loc)`, `eventual(loc)`.

use cheops_types::{Code, Consistency, nearest};

use super::{Parser, Result, never_closed};
use crate::{
    Diagnostic, Loc, LocKind, Radius, Span,
    diagnostic::quoted,
    function::{Function, wrapper},
    lexer::{Kind, Token},
    radius::InvalidRadius,
};

impl Parser<'_> {
    /// The rest of a call whose name was taken; the next token is its `(`.
    pub(super) fn call(&mut self, name: &str, name_span: Span) -> Result<Loc> {
        let function = Function::named(name).ok_or_else(|| unknown_function(name, name_span))?;
        let open = self.take().span;
        let loc = self.deeper(open, |parser| match function {
            Function::All => parser.no_arguments(),
            Function::Wrap(consistency) => parser.wrapped(consistency, name_span),
            Function::Around => parser.around(name_span, open),
        })?;
        let close = self.close(open)?;
        Ok(loc.at(name_span.to(close)))
    }

    fn no_arguments(&mut self) -> Result<Loc> {
        match self.next.kind {
            Kind::ParenClose | Kind::End => Ok(Loc::all()),
            found => Err(Diagnostic::syntax(
                self.next.span,
                format!("`all` takes no argument, found {found}"),
                "nothing belongs here",
            )
            .help("write `all()`")),
        }
    }

    fn wrapped(&mut self, consistency: Consistency, name: Span) -> Result<Loc> {
        let function = wrapper(consistency);
        let example = format!("write `{function}(paris & nantes)`");
        if self.next.kind == Kind::ParenClose {
            let message = format!("`{function}` needs a location");
            return Err(Diagnostic::syntax(name.to(self.next.span), message, "no argument").help(example));
        }
        let inner = self.loc()?;
        if self.next.kind == Kind::Comma {
            let message = format!("`{function}` takes one argument");
            return Err(
                Diagnostic::syntax(self.next.span, message, "a second one starts here").help(example),
            );
        }
        Ok(Loc::wrapped(consistency, inner))
    }

    fn around(&mut self, name: Span, open: Span) -> Result<Loc> {
        const EXAMPLE: &str = "write a site and a round trip, as in `around(paris, 10ms)`";
        if self.next.kind == Kind::ParenClose {
            let span = name.to(self.next.span);
            return Err(
                Diagnostic::syntax(span, "`around` needs a site and a round trip", "no arguments")
                    .help(EXAMPLE),
            );
        }
        let center = self.loc()?;
        match self.next.kind {
            Kind::Comma => self.take(),
            Kind::ParenClose => {
                let span = name.to(self.next.span);
                return Err(
                    Diagnostic::syntax(span, "`around` needs a round trip", "one argument").help(EXAMPLE),
                );
            }
            Kind::End => return Err(never_closed(open, '(')),
            _ => return Err(self.after_loc()),
        };
        let radius = self.radius(&center)?;
        if self.next.kind == Kind::Comma {
            let message = "`around` takes one site and one round trip";
            return Err(
                Diagnostic::syntax(self.next.span, message, "a third argument starts here").help(EXAMPLE),
            );
        }
        Ok(Loc::around(center, radius))
    }

    fn radius(&mut self, center: &Loc) -> Result<Radius> {
        let Token { kind, span } = self.take();
        let Kind::Name(text) = kind else {
            return Err(not_a_radius(span, &kind, center));
        };
        Radius::parse(text).map_err(|error| match error {
            InvalidRadius::NotANumber => not_a_radius(span, &kind, center),
            InvalidRadius::NoUnit => Diagnostic::syntax(span, format!("{kind} has no unit"), "no unit")
                .help("write `us`, `ms` or `s` right after the number, as in `10ms`"),
            InvalidRadius::UnknownUnit => {
                Diagnostic::syntax(span, format!("{kind} has no known unit"), "unknown unit")
                    .help("write `us`, `ms` or `s` right after the number, as in `10ms`")
            }
            InvalidRadius::Fraction => {
                Diagnostic::syntax(span, format!("{kind} is not a whole number"), "a fraction")
                    .help("use a smaller unit, as in `1500us` for one millisecond and a half")
            }
            InvalidRadius::Zero => Diagnostic::meaning(span, "a round trip is never zero", "zero")
                .help("write the longest round trip that is near enough, as in `10ms`")
                .note("only the site itself is at no distance: name it without `around`"),
            InvalidRadius::TooLong => {
                Diagnostic::meaning(span, format!("{kind} is longer than {}", Radius::MAX), "too long")
                    .help("use `all()` or `!` when distance does not matter")
            }
        })
    }
}

fn not_a_radius(span: Span, found: &Kind<'_>, center: &Loc) -> Diagnostic {
    let error = Diagnostic::syntax(
        span,
        format!("expected a round trip, found {found}"),
        "not a round trip",
    );
    match (center.kind(), found) {
        (LocKind::Site(first), Kind::Name(second)) if Radius::parse(first).is_ok() => {
            error.help(format!("did you mean `around({second}, {first})`?"))
        }
        _ => error.help("write a number and `us`, `ms` or `s`, as in `10ms`"),
    }
}

fn unknown_function(name: &str, span: Span) -> Diagnostic {
    let message = format!("there is no function {}", quoted(name));
    let error = Diagnostic::new(Code::UnknownFunction, span, message, "not a function");
    match nearest(name, Function::NAMES) {
        Some(meant) => error.help(format!("did you mean `{meant}`?")),
        None => error.note("the functions are `all`, `around`, `eventual` and `strong`"),
    }
}
