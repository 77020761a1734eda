//! Rust source as tokens, without comments, documentation and tests, so that a rule looks at what
//! the crate does and not at what it says.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use anyhow::{Result, anyhow};
use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};

use crate::repo::Repo;

/// A name as written, with the groups of `use` written out: `std::time::Instant`. A `*` is a segment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) line: usize,
    pub(crate) segments: Vec<String>,
    /// The name stands in a `use`.
    pub(crate) imported: bool,
    /// How many `mod name { }` of its file are around it.
    pub(crate) depth: usize,
}

/// A literal as written, quotes included.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Literal {
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// What a file names and says.
#[derive(Default)]
pub(crate) struct Source {
    pub(crate) names: Vec<Name>,
    pub(crate) literals: Vec<Literal>,
    /// The lines with code on them.
    pub(crate) lines: BTreeSet<usize>,
    /// Child modules that only tests have: `#[cfg(test)] mod lab;`.
    test_modules: Vec<String>,
    importing: bool,
    depth: usize,
}

/// The source files of a crate that are part of what it builds, read.
pub(crate) fn read_crate(repo: &Repo, crate_name: &str) -> Result<Vec<(PathBuf, Source)>> {
    let mut files = Vec::new();
    for file in repo.files(&format!("crates/{crate_name}/src"), "rs")? {
        let source =
            parse(&repo.read(&file)?).map_err(|error| anyhow!("{} is not Rust: {error}", file.display()))?;
        files.push((file, source));
    }
    let tests: Vec<PathBuf> = files
        .iter()
        .flat_map(|(file, source)| source.test_modules.iter().map(|name| children(file).join(name)))
        .collect();
    files.retain(|(file, _)| !tests.iter().any(|test| file.with_extension("").starts_with(test)));
    Ok(files)
}

/// Where the child modules of a file are.
fn children(file: &Path) -> PathBuf {
    if is_root(file) {
        file.parent().unwrap_or(file).to_owned()
    } else {
        file.with_extension("")
    }
}

/// Whether the file is `lib.rs` or `main.rs`.
pub(crate) fn is_root(file: &Path) -> bool {
    file.file_name()
        .is_some_and(|name| name == "lib.rs" || name == "main.rs")
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
            if is_punct(token, '#')
                && let Some(after) = attribute_end(&tokens, at)
            {
                let text = tokens[after - 1].to_string();
                if text.replace(' ', "") == "[cfg(test)]" {
                    let end = item_end(&tokens, after);
                    self.test_modules.extend(declared_module(&tokens[after..end]));
                    at = end;
                    continue;
                } else if text.starts_with("[doc") {
                    at = after;
                    continue;
                }
            }
            self.lines.extend(lines(token));
            match token {
                TokenTree::Ident(ident) => {
                    self.importing |= ident == "use";
                    path.push(ident.to_string());
                    if is_path_separator(&tokens, at + 1) {
                        at += 3;
                        continue;
                    }
                    self.name(ident.span(), &path);
                }
                TokenTree::Group(group) => {
                    let is_block = group.delimiter() == Delimiter::Brace;
                    let module = is_block && declared_module(&tokens[at.saturating_sub(2)..at]).is_some();
                    self.depth += usize::from(module);
                    self.scan(group.stream(), if is_block { &path } else { &[] });
                    self.depth -= usize::from(module);
                }
                TokenTree::Literal(literal) => self.literals.push(Literal {
                    line: literal.span().start().line,
                    text: literal.to_string(),
                }),
                TokenTree::Punct(punct) if self.importing && punct.as_char() == '*' => {
                    path.push("*".to_owned());
                    self.name(punct.span(), &path);
                }
                TokenTree::Punct(punct) => self.importing &= punct.as_char() != ';',
            }
            path.truncate(0);
            path.extend_from_slice(prefix);
            at += 1;
        }
    }

    fn name(&mut self, span: Span, path: &[String]) {
        self.names.push(Name {
            line: span.start().line,
            segments: path.to_vec(),
            imported: self.importing,
            depth: self.depth,
        });
    }
}

/// The lines that a token stands on; of a group, its delimiters'.
fn lines(token: &TokenTree) -> Vec<usize> {
    match token {
        TokenTree::Group(group) => vec![group.span_open().start().line, group.span_close().end().line],
        token => (token.span().start().line..=token.span().end().line).collect(),
    }
}

/// The name behind `mod`, where the tokens end with one or with its `;` or body.
fn declared_module(tokens: &[TokenTree]) -> Option<String> {
    let at = tokens
        .iter()
        .position(|token| matches!(token, TokenTree::Ident(ident) if ident == "mod"))?;
    tokens.get(at + 1).map(ToString::to_string)
}

fn is_punct(token: &TokenTree, character: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == character)
}

fn is_path_separator(tokens: &[TokenTree], at: usize) -> bool {
    let colon = |i: usize| tokens.get(i).is_some_and(|token| is_punct(token, ':'));
    colon(at) && colon(at + 1)
}

/// Where an attribute that begins at `at` is over, if one does.
fn attribute_end(tokens: &[TokenTree], at: usize) -> Option<usize> {
    let bang = tokens.get(at + 1).is_some_and(|token| is_punct(token, '!'));
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

    #[test]
    fn lines_are_those_with_code() {
        let source =
            parse("/// what\nfn f() {\n\n    // why\n    g(\n        1)\n}\n#[cfg(test)]\nmod lab;\n")
                .unwrap();
        assert_eq!(source.lines.into_iter().collect::<Vec<_>>(), [2, 5, 6, 7]);
        assert_eq!(source.test_modules, ["lab"]);
    }

    #[test]
    fn modules_within_a_file_are_counted() {
        let source = parse("mod a { use super::b; } use c::d;").unwrap();
        let depth = |name: &str| {
            source
                .names
                .iter()
                .find(|n| n.segments.join("::") == name)
                .unwrap()
        };
        assert_eq!((depth("super::b").depth, depth("c::d").depth), (1, 0));
    }
}
