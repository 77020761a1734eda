//! Tokens to a scope, by recursive descent with a bounded depth.

mod call;

use cheops_types::{Code, ServiceName, SiteName};

use crate::{
    Diagnostic, Entry, Loc, Operator, Scope, Span,
    diagnostic::quoted,
    lexer::{Kind, Lexer, Token},
};

/// A parser calls itself this deep at most, so that no configuration can exhaust the stack.
pub(crate) const DEPTH_CEILING: usize = 128;

const NAME_CHARACTERS: &str = "names have the letters a to z and A to Z, digits, `_`, `.` and `-`";

pub(crate) type Result<T> = std::result::Result<T, Diagnostic>;

pub(crate) struct Parser<'a> {
    lexer: Lexer<'a>,
    /// The next token, not yet taken.
    next: Token<'a>,
    depth: usize,
    max_depth: usize,
}

// === impl Parser ===

impl<'a> Parser<'a> {
    pub(crate) fn new(mut lexer: Lexer<'a>, max_depth: usize) -> Self {
        let next = lexer.token();
        Self {
            lexer,
            next,
            depth: 0,
            max_depth: max_depth.min(DEPTH_CEILING),
        }
    }

    pub(crate) fn scope(mut self) -> Result<Scope> {
        let brace = self.take_if(Kind::BraceOpen);
        let scope = if self.at_entry() {
            Scope::Full(self.entries()?)
        } else {
            Scope::Bare(self.bare()?)
        };
        if let Some(brace) = brace {
            match self.next.kind {
                Kind::BraceClose => _ = self.take(),
                Kind::End => return Err(never_closed(brace, '{')),
                _ => return Err(self.trailing(&scope)),
            }
        }
        if self.next.kind == Kind::End {
            Ok(scope)
        } else {
            Err(self.trailing(&scope))
        }
    }

    /// A location and nothing after it: a value of the JSON form.
    pub(crate) fn value(mut self) -> Result<Loc> {
        let loc = self.loc()?;
        if self.next.kind == Kind::End {
            Ok(loc)
        } else {
            Err(self.after_loc())
        }
    }

    fn at_entry(&self) -> bool {
        matches!(self.next.kind, Kind::Name(_)) && self.lexer.clone().token().kind == Kind::Colon
    }

    fn entries(&mut self) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        loop {
            entries.push(self.entry()?);
            let more = self.take_if(Kind::Comma).is_some();
            if !more || matches!(self.next.kind, Kind::End | Kind::BraceClose) {
                return Ok(entries);
            }
        }
    }

    fn entry(&mut self) -> Result<Entry> {
        let Token { kind, span } = self.next;
        let (Kind::Name(text), true) = (kind, self.at_entry()) else {
            let message = format!("expected `service: location`, found {kind}");
            return Err(Diagnostic::syntax(span, message, "a service belongs here")
                .help("name the service of each location, as in `image: paris, compute: nantes`"));
        };
        let service = service_name(text, span)?;
        self.take();
        self.take();
        Ok(Entry {
            service,
            service_span: span,
            loc: self.loc()?,
        })
    }

    fn bare(&mut self) -> Result<Loc> {
        if matches!(self.next.kind, Kind::End | Kind::BraceClose) {
            return Err(
                Diagnostic::syntax(self.next.span, "the scope is empty", "a location belongs here")
                    .help("name a site, as in `paris`, or send no scope to stay at this site"),
            );
        }
        self.loc()
    }

    pub(crate) fn loc(&mut self) -> Result<Loc> {
        self.joined(Operator::Otherwise)
    }

    /// Locations joined by `operator`, or one that binds tighter.
    fn joined(&mut self, operator: Operator) -> Result<Loc> {
        let mut loc = self.operand(operator)?;
        while self.take_if(Kind::Operator(operator)).is_some() {
            let right = self.operand(operator)?;
            loc = loc.join(operator, right);
        }
        Ok(loc)
    }

    fn operand(&mut self, operator: Operator) -> Result<Loc> {
        match operator.tighter() {
            Some(tighter) => self.joined(tighter),
            None => self.unary(),
        }
    }

    fn unary(&mut self) -> Result<Loc> {
        let token = self.next;
        match token.kind {
            Kind::Name(text) => {
                self.take();
                if self.next.kind == Kind::ParenOpen {
                    return self.call(text, token.span);
                }
                Ok(Loc::site(site_name(text, token.span)?).at(token.span))
            }
            Kind::Bang => {
                self.take();
                let excluded = self.deeper(token.span, Self::unary)?;
                let span = token.span.to(excluded.span());
                Ok(Loc::except(excluded).at(span))
            }
            Kind::ParenOpen => {
                self.take();
                let inner = self.deeper(token.span, Self::loc)?;
                let close = self.close(token.span)?;
                Ok(inner.at(token.span.to(close)))
            }
            _ => Err(self.no_site()),
        }
    }

    /// Runs `rule` one level deeper, which `opened` made necessary.
    fn deeper<T>(&mut self, opened: Span, rule: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == self.max_depth {
            return Err(Diagnostic::new(
                Code::ScopeTooDeep,
                opened,
                format!("the scope is nested more than {} levels deep", self.max_depth),
                "one level too many",
            )
            .help("remove parentheses that are not needed"));
        }
        self.depth += 1;
        let result = rule(self);
        self.depth -= 1;
        result
    }

    /// Takes the `)` that belongs to `open`.
    fn close(&mut self, open: Span) -> Result<Span> {
        match self.take_if(Kind::ParenClose) {
            Some(close) => Ok(close),
            None if matches!(self.next.kind, Kind::End | Kind::BraceClose) => Err(never_closed(open, '(')),
            None => Err(self.after_loc()),
        }
    }

    fn take(&mut self) -> Token<'a> {
        std::mem::replace(&mut self.next, self.lexer.token())
    }

    fn take_if(&mut self, kind: Kind<'_>) -> Option<Span> {
        (self.next.kind == kind).then(|| self.take().span)
    }

    /// There is no site where one must be.
    fn no_site(&self) -> Diagnostic {
        let Token { kind, span } = self.next;
        let error = Diagnostic::syntax(
            span,
            format!("expected a site, found {kind}"),
            "a site belongs here",
        );
        match kind {
            Kind::Operator(operator @ (Operator::Both | Operator::First)) => error.help(format!(
                "`{operator}` stands once between two sites, as in `paris {operator} nantes`"
            )),
            Kind::Operator(operator) => error.help(format!(
                "`{operator}` stands between two sites, as in `paris {operator} nantes`"
            )),
            Kind::Colon => error.help("write the service's name before `:`, as in `image: paris`"),
            Kind::Other('_' | '.' | '-') => error.help("names start with a letter or a digit"),
            Kind::Other('"' | '\'') => error.help("write names without quotes"),
            Kind::Other(_) => error.note(NAME_CHARACTERS),
            _ => error,
        }
    }

    /// Something follows a location that cannot.
    fn after_loc(&self) -> Diagnostic {
        let Token { kind, span } = self.next;
        let error = Diagnostic::syntax(
            span,
            format!("expected an operator, found {kind}"),
            "not expected here",
        );
        match kind {
            Kind::ParenClose => Diagnostic::syntax(span, "`)` closes nothing", "no `(` before it"),
            Kind::BraceClose => Diagnostic::syntax(span, "`}` closes nothing", "no `{` before it"),
            Kind::Name(_) | Kind::Bang | Kind::ParenOpen => {
                error.help("join locations with `;`, `|`, `%` or `&`")
            }
            Kind::Other('=') => error.help("write `:` between a service and its location"),
            Kind::Other(_) => error.note(NAME_CHARACTERS),
            _ => error,
        }
    }

    /// Something follows the whole scope.
    fn trailing(&self, scope: &Scope) -> Diagnostic {
        let Token { kind, span } = self.next;
        match (scope, kind) {
            (Scope::Bare(_), Kind::Comma) => Diagnostic::syntax(
                span,
                "expected an operator, found `,`",
                "separates services, but none is named",
            )
            .help("name the services, as in `image: paris, compute: nantes`, or use an operator"),
            (Scope::Full(_), Kind::Colon | Kind::Name(_)) => {
                let message = format!("expected `,` or an operator, found {kind}");
                Diagnostic::syntax(span, message, "not expected here")
                    .help("separate services with `,`, as in `image: paris, compute: nantes`")
            }
            _ => self.after_loc(),
        }
    }
}

pub(crate) fn service_name(text: &str, span: Span) -> Result<ServiceName> {
    ServiceName::new(text).map_err(|_| not_a_name(text, span))
}

fn site_name(text: &str, span: Span) -> Result<SiteName> {
    SiteName::new(text).map_err(|_| not_a_name(text, span))
}

fn not_a_name(text: &str, span: Span) -> Diagnostic {
    Diagnostic::syntax(span, format!("{} is not a name", quoted(text)), "not a name")
        .help("use 1 to 128 letters, digits, `_`, `.` or `-`, starting with a letter or digit")
}

fn never_closed(open: Span, bracket: char) -> Diagnostic {
    let closing = if bracket == '(' { ')' } else { '}' };
    Diagnostic::syntax(open, format!("`{bracket}` is never closed"), "opened here")
        .help(format!("add `{closing}`"))
}
