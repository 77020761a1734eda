//! Text to tokens. Never fails: what is no token becomes [`Kind::Other`].

use std::fmt;

use crate::{
    Operator, Span,
    diagnostic::{quoted, shown},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind<'a> {
    Name(&'a str),
    Operator(Operator),
    Bang,
    Colon,
    Comma,
    ParenOpen,
    ParenClose,
    BraceOpen,
    BraceClose,
    Other(char),
    End,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind<'a>,
    pub(crate) span: Span,
}

/// How positions in the text that is read become positions in the text that the caller wrote.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Origin<'a> {
    /// The text is a part of the original that starts here.
    Offset(usize),
    /// The text was decoded: the original position of each of its bytes, and of its end.
    Decoded(&'a [usize]),
}

#[derive(Debug, Clone)]
pub(crate) struct Lexer<'a> {
    text: &'a str,
    at: usize,
    origin: Origin<'a>,
}

// === impl Lexer ===

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a str, origin: Origin<'a>) -> Self {
        Self { text, at: 0, origin }
    }

    /// The next token; [`Kind::End`] for ever at the end.
    pub(crate) fn token(&mut self) -> Token<'a> {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let start = self.at;
        let kind = self.kind();
        Token {
            kind,
            span: self.origin.span(start, self.at),
        }
    }

    fn kind(&mut self) -> Kind<'a> {
        let rest = &self.text[self.at..];
        let Some(&first) = rest.as_bytes().first() else {
            return Kind::End;
        };
        if first.is_ascii_alphanumeric() {
            let length = rest.bytes().take_while(|byte| is_name_byte(*byte)).count();
            self.at += length;
            return Kind::Name(&rest[..length]);
        }
        let kind = match first {
            b';' => Kind::Operator(Operator::Otherwise),
            b'|' => Kind::Operator(Operator::First),
            b'%' => Kind::Operator(Operator::Cross),
            b'&' => Kind::Operator(Operator::Both),
            b'!' => Kind::Bang,
            b':' => Kind::Colon,
            b',' => Kind::Comma,
            b'(' => Kind::ParenOpen,
            b')' => Kind::ParenClose,
            b'{' => Kind::BraceOpen,
            b'}' => Kind::BraceClose,
            _ => {
                let other = rest.chars().next().unwrap_or(char::REPLACEMENT_CHARACTER);
                self.at += other.len_utf8();
                return Kind::Other(other);
            }
        };
        self.at += 1;
        kind
    }
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-')
}

// === impl Origin ===

impl Origin<'_> {
    fn span(self, start: usize, end: usize) -> Span {
        match self {
            Self::Offset(offset) => Span::new(offset + start, offset + end),
            Self::Decoded(positions) => Span::new(positions[start], positions[end]),
        }
    }
}

// === impl Kind ===

impl fmt::Display for Kind<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(&quoted(name)),
            Self::Operator(operator) => write!(f, "`{operator}`"),
            Self::Bang => f.write_str("`!`"),
            Self::Colon => f.write_str("`:`"),
            Self::Comma => f.write_str("`,`"),
            Self::ParenOpen => f.write_str("`(`"),
            Self::ParenClose => f.write_str("`)`"),
            Self::BraceOpen => f.write_str("`{`"),
            Self::BraceClose => f.write_str("`}`"),
            Self::Other(other) => write!(f, "`{}`", shown(*other)),
            Self::End => f.write_str("the end"),
        }
    }
}
