//! The JSON form: `{"image": "paris", "compute": "nantes & lyon"}`.
//!
//! Read by hand, since a diagnostic must point into the text as it was written: through escapes, which
//! some encoders write for `&`.

use crate::{
    Diagnostic, Entry, Scope, Span,
    diagnostic::shown,
    lexer::{Lexer, Origin},
    parser::{Parser, Result, service_name},
};

/// Whether the text is meant to be JSON: `{` and then `"`.
pub(crate) fn is_json(text: &str) -> bool {
    let inner = text.trim_ascii_start().strip_prefix('{');
    inner.is_some_and(|inner| inner.trim_ascii_start().starts_with('"'))
}

/// Reads a text for which [`is_json`] holds.
pub(crate) fn parse(text: &str, max_depth: usize) -> Result<Scope> {
    let mut reader = Reader { text, at: 0 };
    let open = reader.symbol('{')?;
    let mut entries = Vec::new();
    loop {
        entries.push(reader.entry(max_depth)?);
        match reader.peek() {
            Some(',') => {
                reader.at += 1;
                if reader.peek() == Some('}') {
                    break;
                }
            }
            Some('}') => break,
            Some(_) => return Err(reader.unexpected("`,` or `}`")),
            None => {
                return Err(Diagnostic::syntax(open, "`{` is never closed", "opened here").help("add `}`"));
            }
        }
    }
    reader.symbol('}')?;
    match reader.peek() {
        None => Ok(Scope::Full(entries)),
        Some(_) => Err(reader.unexpected("the end")),
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

/// A string without its quotes.
struct Literal<'a> {
    raw: &'a str,
    /// Where `raw` starts.
    start: usize,
    /// What `raw` means where that differs, and the position of each byte of it and of its end.
    decoded: Option<(String, Vec<usize>)>,
}

// === impl Reader ===

impl<'a> Reader<'a> {
    fn entry(&mut self, max_depth: usize) -> Result<Entry> {
        let key = self.string("a service in quotes")?;
        let service_span = key.span();
        let service = service_name(key.text(), service_span)?;
        self.symbol(':')?;
        let value = self.string("a location in quotes")?;
        let loc = Parser::new(Lexer::new(value.text(), value.origin()), max_depth).value()?;
        Ok(Entry {
            service,
            service_span,
            loc,
        })
    }

    /// The next character that is not white space.
    fn peek(&mut self) -> Option<char> {
        let rest = &self.text[self.at..];
        self.at += rest.bytes().take_while(u8::is_ascii_whitespace).count();
        self.text[self.at..].chars().next()
    }

    fn symbol(&mut self, symbol: char) -> Result<Span> {
        if self.peek() != Some(symbol) {
            return Err(self.unexpected(&format!("`{symbol}`")));
        }
        self.at += symbol.len_utf8();
        Ok(Span::new(self.at - symbol.len_utf8(), self.at))
    }

    fn string(&mut self, expected: &str) -> Result<Literal<'a>> {
        if self.peek() != Some('"') {
            return Err(self.unexpected(expected));
        }
        let quote = Span::new(self.at, self.at + 1);
        self.at += 1;
        let start = self.at;
        let rest = &self.text[start..];
        let plain = rest.find(['"', '\\']).filter(|at| rest.as_bytes()[*at] == b'"');
        if let Some(length) = plain {
            self.at += length + 1;
            return Ok(Literal {
                raw: &rest[..length],
                start,
                decoded: None,
            });
        }
        let mut text = String::new();
        let mut positions = Vec::new();
        while let Some(found) = self.text[self.at..].chars().next() {
            let at = self.at;
            self.at += found.len_utf8();
            let meant = match found {
                '"' => {
                    positions.push(at);
                    let raw = &self.text[start..at];
                    return Ok(Literal {
                        raw,
                        start,
                        decoded: Some((text, positions)),
                    });
                }
                '\\' => self.escape(at)?,
                plain => plain,
            };
            text.push(meant);
            positions.resize(text.len(), at);
        }
        Err(Diagnostic::syntax(quote, "`\"` is never closed", "opened here").help("add `\"`"))
    }

    /// The character that an escape means; its backslash, at `at`, was taken.
    fn escape(&mut self, at: usize) -> Result<char> {
        let letter = self.text[self.at..].chars().next();
        self.at += letter.map_or(0, char::len_utf8);
        let meant = match letter {
            Some(same @ ('"' | '\\' | '/')) => Some(same),
            Some('t') => Some('\t'),
            Some('n') => Some('\n'),
            Some('r') => Some('\r'),
            Some('b') => Some('\u{8}'),
            Some('f') => Some('\u{c}'),
            Some('u') => self.hex(),
            _ => None,
        };
        meant.ok_or_else(|| {
            Diagnostic::syntax(
                Span::new(at, self.at),
                "this escape means no character of a scope",
                "bad escape",
            )
            .help("write the character itself")
        })
    }

    /// Four hexadecimal digits. Surrogates are refused: no scope has a character that needs them.
    fn hex(&mut self) -> Option<char> {
        let digits = self.text.get(self.at..self.at + 4)?;
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        self.at += 4;
        char::from_u32(u32::from_str_radix(digits, 16).ok()?)
    }

    fn unexpected(&mut self, expected: &str) -> Diagnostic {
        let found = self.peek();
        let span = Span::new(self.at, self.at + found.map_or(0, char::len_utf8));
        let found = found.map_or("the end".to_owned(), |found| format!("`{}`", shown(found)));
        Diagnostic::syntax(
            span,
            format!("expected {expected}, found {found}"),
            "not expected here",
        )
        .help("the JSON form is one object of strings, as in `{\"image\": \"paris\"}`")
    }
}

// === impl Literal ===

impl Literal<'_> {
    fn text(&self) -> &str {
        self.decoded.as_ref().map_or(self.raw, |(text, _)| text)
    }

    fn span(&self) -> Span {
        Span::new(self.start, self.start + self.raw.len())
    }

    fn origin(&self) -> Origin<'_> {
        match &self.decoded {
            Some((_, positions)) => Origin::Decoded(positions),
            None => Origin::Offset(self.start),
        }
    }
}
