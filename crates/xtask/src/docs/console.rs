//! A `console` block as commands and what they print.

use crate::verify::markdown::Block;

/// What is done with the commands of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// They must exist.
    Shown,
    /// They run, and print what the page shows.
    Check,
    /// The same, while a demo runs.
    Demo,
    /// The same, within a suite that has started what they need.
    Real,
}

/// The commands of one block.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Session {
    pub(super) mode: Mode,
    pub(super) exit_code: i32,
    pub(super) steps: Vec<Step>,
}

/// One command and the lines shown below it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) line: usize,
    pub(super) command: String,
    pub(super) output: Vec<String>,
}

impl Session {
    pub(super) fn read(block: &Block) -> Option<Self> {
        let mut info = block.info.split_whitespace();
        if info.next() != Some("console") {
            return None;
        }
        let mut session = Self {
            mode: Mode::Shown,
            exit_code: 0,
            steps: Vec::new(),
        };
        for word in info {
            match word.split_once('=') {
                None if word == "check" => session.mode = Mode::Check,
                None if word == "demo" => session.mode = Mode::Demo,
                None if word == "real" => session.mode = Mode::Real,
                Some(("exit", code)) => session.exit_code = code.parse().ok()?,
                _ => {}
            }
        }
        for (at, line) in block.lines.iter().enumerate() {
            if let Some(command) = line.strip_prefix("$ ") {
                session.steps.push(Step {
                    line: block.line + 1 + at,
                    command: command.to_owned(),
                    output: Vec::new(),
                });
            } else if let Some(step) = session.steps.last_mut() {
                step.output.push(line.clone());
            }
        }
        Some(session)
    }
}

/// The path of a block whose info says `file=<path>`: the commands below it find it there.
pub(super) fn file(block: &Block) -> Option<&str> {
    block
        .info
        .split_whitespace()
        .find_map(|word| word.strip_prefix("file="))
}

/// Whether the output is what the page shows. Space at the end of lines and empty lines at the end do not count.
pub(super) fn matches(shown: &[String], output: &str) -> bool {
    let trim = |lines: &mut Vec<&str>| {
        while lines.last().is_some_and(|line| line.is_empty()) {
            lines.pop();
        }
    };
    let mut shown: Vec<&str> = shown.iter().map(|line| line.trim_end()).collect();
    let mut printed: Vec<&str> = output.lines().map(str::trim_end).collect();
    trim(&mut shown);
    trim(&mut printed);
    matches_lines(&shown, &printed)
}

fn matches_lines(shown: &[&str], printed: &[&str]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((&"...", rest)) => (0..=printed.len()).any(|skip| matches_lines(rest, &printed[skip..])),
        Some((line, rest)) => printed
            .split_first()
            .is_some_and(|(first, others)| matches_line(line, first) && matches_lines(rest, others)),
    }
}

/// `...` within a line stands for any text.
fn matches_line(shown: &str, printed: &str) -> bool {
    let Some((start, mut shown)) = shown.split_once("...") else {
        return shown == printed;
    };
    let Some(mut printed) = printed.strip_prefix(start) else {
        return false;
    };
    while let Some((piece, rest)) = shown.split_once("...") {
        let Some(at) = printed.find(piece) else {
            return false;
        };
        printed = &printed[at + piece.len()..];
        shown = rest;
    }
    printed.ends_with(shown)
}

/// The words of a simple command; nothing when it needs a shell.
pub(crate) fn words(command: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in command.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (_, c) if needs_shell(quote, c) => return None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    quote.is_none().then_some(words)
}

fn needs_shell(quote: Option<char>, c: char) -> bool {
    match quote {
        None => "|&;<>#$`\\()*".contains(c),
        Some('"') => "$`\\".contains(c),
        Some(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(info: &str, lines: &[&str]) -> Block {
        Block {
            line: 7,
            info: info.into(),
            lines: lines.iter().map(|&line| line.to_owned()).collect(),
        }
    }

    #[test]
    fn reads_commands_and_output() {
        let session = Session::read(&block(
            "console check exit=2",
            &["$ cheops a", "one", "$ cheops b"],
        ))
        .unwrap();
        assert_eq!(session.mode, Mode::Check);
        assert_eq!(session.exit_code, 2);
        let steps: Vec<_> = session
            .steps
            .iter()
            .map(|s| (s.line, s.command.as_str(), s.output.len()))
            .collect();
        assert_eq!(steps, [(8, "cheops a", 1), (10, "cheops b", 0)]);
        let mode = |info| Session::read(&block(info, &[])).map(|session| session.mode);
        assert_eq!(mode("console"), Some(Mode::Shown));
        assert_eq!(mode("console demo"), Some(Mode::Demo));
        assert_eq!(mode("console real"), Some(Mode::Real));
        assert_eq!(mode("toml"), None);
    }

    #[test]
    fn reads_the_path_of_a_file() {
        assert_eq!(file(&block("toml file=a/b.toml", &[])), Some("a/b.toml"));
        assert_eq!(file(&block("toml", &[])), None);
    }

    #[test]
    fn compares_output() {
        let shown = |lines: &[&str]| lines.iter().map(|&line| line.to_owned()).collect::<Vec<_>>();
        assert!(matches(&shown(&["a", "...", "z"]), "a\nb\nc\nz\n"));
        assert!(matches(&shown(&["a  ", ""]), "a\n"));
        assert!(!matches(&shown(&["a"]), "a\nb\n"));
        assert!(!matches(&shown(&["a", "...", "z"]), "a\n"));
        assert!(!matches(&[], "a\n"));
        assert!(matches(
            &shown(&["site2 ... ms ...!"]),
            "site2  up 20.1 ms (a) b!\n"
        ));
        assert!(matches(&shown(&["up..."]), "up\n"));
        for other in ["site3 1 ms !", "site2 1 s !", "site2 1 ms ?"] {
            assert!(!matches(&shown(&["site2 ... ms ...!"]), other), "{other}");
        }
    }

    #[test]
    fn splits_simple_commands_only() {
        let split = words("cheops scope check 'A: site2 ; site3' \"x y\" ''").unwrap();
        assert_eq!(split, ["cheops", "scope", "check", "A: site2 ; site3", "x y", ""]);
        for needs_shell in ["a | b", "a &", "a > b", "a $B", "a 'open", "a \"$B\""] {
            assert_eq!(words(needs_shell), None, "{needs_shell}");
        }
    }
}
