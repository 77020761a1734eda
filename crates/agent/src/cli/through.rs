//! `cheops kubectl` and `cheops curl`: the user's own program, with a scope on what it asks.
//!
//! All arguments are the program's but `--scope`, so they are taken as they are, before the command line's own
//! parser could read an option of the program as one of its own.

#[cfg(test)]
mod tests;

use std::{
    env,
    ffi::{OsStr, OsString},
    os::unix::{ffi::OsStrExt as _, process::CommandExt as _},
    path::Path,
    process::{Command, ExitCode},
};

use cheops_scope::ParseLimits;
use cheops_types::Limits;
use http::HeaderValue;

use super::{BAD_INPUT, BadInput, curl, kubectl, output, scope};

/// The scope where no option gives one.
const DEFAULT_VARIABLE: &str = "CHEOPS_SCOPE";
/// As kubectl calls a plugin, and what completes the plugin's arguments.
const PLUGIN: &str = "kubectl-cheops";
const PLUGIN_COMPLETION: &str = "kubectl_complete-cheops";
/// The command with which programs made with cobra answer a shell's completion.
const COMPLETE: &str = "__complete";

/// Which program is to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Program {
    Kubectl,
    Curl,
}

/// A program to be run with the arguments that the user typed, ours among them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Through {
    program: Program,
    args: Vec<OsString>,
}

impl Through {
    pub(super) fn kubectl(args: Vec<OsString>) -> Self {
        Self {
            program: Program::Kubectl,
            args,
        }
    }

    pub(super) fn curl(args: Vec<OsString>) -> Self {
        Self {
            program: Program::Curl,
            args,
        }
    }

    /// What a command line asks for, beginning with the name that this program was called by; none where
    /// it is for the ordinary parser.
    pub(crate) fn called(line: impl IntoIterator<Item = OsString>) -> Option<Self> {
        let mut words = line.into_iter();
        let name = words.next()?;
        let name = Path::new(&name).file_name()?;
        if name == PLUGIN {
            return Some(Self::kubectl(words.collect()));
        }
        if name == PLUGIN_COMPLETION {
            let words = std::iter::once(COMPLETE.into()).chain(words);
            return Some(Self::kubectl(words.collect()));
        }
        let program = words.next()?;
        let args: Vec<_> = words.collect();
        // Our own help; the program's is `cheops kubectl help`, `cheops curl --manual`.
        if args
            .first()
            .is_some_and(|first| first == "--help" || first == "-h")
        {
            return None;
        }
        match program.to_str()? {
            "kubectl" => Some(Self::kubectl(args)),
            "curl" => Some(Self::curl(args)),
            _ => None,
        }
    }

    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        match self.program {
            Program::Kubectl => kubectl::run(self.args),
            Program::Curl => curl::run(self.args),
        }
    }
}

/// A program's arguments, and the scope that stood among them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Taken {
    /// As it was written; none where there is no option, empty where it says that there is no scope.
    pub(super) scope: Option<String>,
    pub(super) args: Vec<OsString>,
    /// `--scope` is the last argument, and has no value.
    pub(super) is_open: bool,
}

impl Taken {
    /// Takes `--scope S`, `--scope=S`, `--scope{S}` and `-scope{S}` out of `args`. What follows a bare `--` is
    /// for yet another program.
    pub(super) fn from(args: Vec<OsString>) -> Result<Self, BadInput> {
        let mut taken = Self {
            scope: None,
            args: Vec::with_capacity(args.len()),
            is_open: false,
        };
        let mut words = args.into_iter();
        while let Some(word) = words.next() {
            if word == "--" {
                taken.args.push(word);
                taken.args.extend(words);
                break;
            }
            if word == "--scope" {
                match words.next() {
                    Some(scope) => taken.set(&scope)?,
                    None => taken.is_open = true,
                }
            } else if let Some(scope) = glued(&word) {
                taken.set(scope)?;
            } else {
                taken.args.push(word);
            }
        }
        Ok(taken)
    }

    fn set(&mut self, scope: &OsStr) -> Result<(), BadInput> {
        let Some(scope) = scope.to_str() else {
            return Err(BadInput("the scope is no text: write it in UTF-8".to_owned()));
        };
        if self.scope.replace(scope.to_owned()).is_some() {
            return Err(BadInput("`--scope` is given twice: keep one".to_owned()));
        }
        Ok(())
    }

    /// The scope to send: the option's, else the environment's; none if it is empty.
    pub(super) fn effective_scope(&mut self) -> Result<Option<String>, BadInput> {
        if self.is_open {
            let example = "write e.g. `--scope 'site1 & site2'`";
            return Err(BadInput(format!("`--scope` has no value: {example}")));
        }
        let scope = match self.scope.take() {
            Some(scope) => Some(scope),
            None => match env::var(DEFAULT_VARIABLE) {
                Ok(scope) => Some(scope),
                Err(env::VarError::NotPresent) => None,
                Err(env::VarError::NotUnicode(_)) => {
                    return Err(BadInput(format!(
                        "{DEFAULT_VARIABLE} is no text: write it in UTF-8"
                    )));
                }
            },
        };
        Ok(scope.filter(|scope| !scope.trim().is_empty()))
    }
}

/// Whether kubectl is asked how a command line may go on; its last word is then not finished.
pub(super) fn is_completion(first: &OsStr) -> bool {
    // There is `__completeNoDesc` too.
    first.as_bytes().starts_with(COMPLETE.as_bytes())
}

/// Whether a word is a scope with the option's name.
pub(super) fn is_scope(word: &OsStr) -> bool {
    glued(word).is_some()
}

/// The scope in a word that has it after the option's name.
fn glued(word: &OsStr) -> Option<&OsStr> {
    let bytes = word.as_bytes();
    let rest = match bytes.strip_prefix(b"--scope=") {
        Some(rest) => rest,
        None => bytes
            .strip_prefix(b"--scope")
            .or_else(|| bytes.strip_prefix(b"-scope"))
            .filter(|rest| rest.starts_with(b"{"))?,
    };
    Some(OsStr::from_bytes(rest))
}

/// A scope as the header's value, or what is wrong with it, to be told.
///
/// Names are not judged: only the agent knows them. How long a scope may be is the agent's to say too.
pub(super) fn header(text: &str) -> Result<HeaderValue, String> {
    let limits = ParseLimits {
        max_bytes: usize::MAX,
        max_depth: Limits::default().scope_max_depth,
    };
    cheops_scope::read(text, &limits, None)
        .map_err(|found| scope::render(text, &found, output::is_styled()))?;
    HeaderValue::from_str(text.trim())
        .map_err(|_| "error: the scope has signs that no header can carry: write it in one line".to_owned())
}

/// Tells what is wrong with a scope; gives the exit code.
pub(super) fn refuse(told: &str) -> ExitCode {
    output::complain(told);
    ExitCode::from(BAD_INPUT)
}

/// Becomes `program`; comes back only if that fails.
pub(super) fn become_program(program: &OsStr, args: &[OsString], hint: &str) -> anyhow::Error {
    let error = Command::new(program).args(args).exec();
    cannot_run(program, &error, hint)
}

pub(super) fn cannot_run(program: &OsStr, error: &std::io::Error, hint: &str) -> anyhow::Error {
    let program = program.display();
    if error.kind() == std::io::ErrorKind::NotFound {
        anyhow::anyhow!("`{program}` is not there: {hint}")
    } else {
        anyhow::anyhow!("`{program}` cannot be run: {error}")
    }
}
