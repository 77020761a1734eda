//! Rust source as tokens, without comments, documentation and tests, so that a rule looks at what
//! the crate does and not at what it says.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::repo::Repo;

/// A name as written, with the groups of `use` written out: `std::time::Instant`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) line: usize,
    pub(super) segments: Vec<String>,
}

/// A literal as written, quotes included.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Literal {
    pub(super) line: usize,
    pub(super) text: String,
}

/// What a file names and says.
#[derive(Default)]
pub(super) struct Source {
    pub(super) names: Vec<Name>,
    pub(super) literals: Vec<Literal>,
}

/// The source files of a crate that are part of what it builds.
pub(super) fn files(repo: &Repo, crate_name: &str) -> Result<Vec<PathBuf>> {
    let mut files = repo.files(&format!("crates/{crate_name}/src"), "rs")?;
    files.retain(|file| {
        file.file_stem().is_none_or(|stem| stem != "tests") && !file.iter().any(|part| part == "tests")
    });
    Ok(files)
}

pub(super) fn read(repo: &Repo, file: &Path) -> Result<Source> {
    parse(&repo.read(file)?).map_err(|error| anyhow!("{} is not Rust: {error}", file.display()))
}

fn parse(text: &str) -> Result<Source, proc_macro2::LexError> {
    let mut source = Source::default();
    source.scan(text.parse()?, &[]);
    Ok(source)
}

impl Source {
    /// `prefix` is the path in front of a group, as in `std::{fs, io}`.
    fn scan(&mut self, stream: TokenStream, prefix: &[String]) {
        let tokens: Vec<TokenTree> = stream.into_iter().collect();
        let mut path = prefix.to_vec();
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == '#' => {
                    if let Some(after) = attribute_end(&tokens, at) {
                        let text = tokens[after - 1].to_string();
                        at = if text.replace(' ', "") == "[cfg(test)]" {
                            item_end(&tokens, after)
                        } else if text.starts_with("[doc") {
                            after
                        } else {
                            at + 1
                        };
                        continue;
                    }
                }
                TokenTree::Ident(ident) => {
                    path.push(ident.to_string());
                    if is_path_separator(&tokens, at + 1) {
                        at += 3;
                        continue;
                    }
                    self.names.push(Name {
                        line: ident.span().start().line,
                        segments: path.clone(),
                    });
                }
                TokenTree::Group(group) => {
                    let inside: &[String] = if group.delimiter() == Delimiter::Brace {
                        &path
                    } else {
                        &[]
                    };
                    self.scan(group.stream(), inside);
                }
                TokenTree::Literal(literal) => self.literals.push(Literal {
                    line: literal.span().start().line,
                    text: literal.to_string(),
                }),
                TokenTree::Punct(_) => {}
            }
            path.truncate(0);
            path.extend_from_slice(prefix);
            at += 1;
        }
    }
}

fn is_path_separator(tokens: &[TokenTree], at: usize) -> bool {
    let colon = |i: usize| matches!(tokens.get(i), Some(TokenTree::Punct(punct)) if punct.as_char() == ':');
    colon(at) && colon(at + 1)
}

/// Where an attribute that begins at `at` is over, if one does.
fn attribute_end(tokens: &[TokenTree], at: usize) -> Option<usize> {
    let bang = matches!(tokens.get(at + 1), Some(TokenTree::Punct(punct)) if punct.as_char() == '!');
    let group = at + 1 + usize::from(bang);
    match tokens.get(group) {
        Some(TokenTree::Group(inside)) if inside.delimiter() == Delimiter::Bracket => Some(group + 1),
        _ => None,
    }
}

/// Where an item that begins at `at` is over: after its `;` or its braces.
fn item_end(tokens: &[TokenTree], at: usize) -> usize {
    let end = tokens[at..].iter().position(|token| match token {
        TokenTree::Punct(punct) => punct.as_char() == ';',
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        _ => false,
    });
    end.map_or(tokens.len(), |end| at + end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let source = parse(text).unwrap();
        source.names.iter().map(|name| name.segments.join("::")).collect()
    }

    #[test]
    fn groups_of_use_are_written_out() {
        assert_eq!(
            names("use std::{fmt, time::{Duration, Instant}, env};"),
            [
                "use",
                "std::fmt",
                "std::time::Duration",
                "std::time::Instant",
                "std::env"
            ]
        );
    }

    #[test]
    fn bodies_start_anew() {
        assert_eq!(names("fn f() { x::y(z::w) }"), ["fn", "f", "x::y", "z::w"]);
    }

    #[test]
    fn comments_documentation_and_tests_are_left_out() {
        let text = "
            //! std::env
            /// std::fs
            // SystemTime
            struct A;
            #[cfg(test)]
            mod tests { use std::env; }
            #[cfg(test)]
            mod more;
            struct B;
        ";
        assert_eq!(names(text), ["struct", "A", "struct", "B"]);
    }

    #[test]
    fn literals_have_their_line() {
        let source = parse("fn f() {\n  g(\"nova\")\n}").unwrap();
        assert_eq!(
            source.literals,
            [Literal {
                line: 2,
                text: "\"nova\"".into()
            }]
        );
    }
}
