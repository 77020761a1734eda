//! How commands speak: results on standard output, errors on standard error, one exit code for each
//! kind of ending.

use std::{
    io::{self, IsTerminal as _, Write as _},
    process::ExitCode,
};

use crate::{admin::client::ClientError, config::ConfigErrors, logging::colours_wanted};

/// The exit code for input that is wrong.
pub(crate) const BAD_INPUT: u8 = 2;

/// The one who typed is at fault; the text says what to type instead.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct BadInput(pub(crate) String);

/// Writes to standard output. Unlike `println!` it returns an error when nobody reads any more.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    out.flush()
}

/// Writes JSON to standard output.
pub(super) fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    Ok(print(&serde_json::to_string_pretty(value)?)?)
}

/// Writes to standard error; there is no one to tell when that fails.
pub(super) fn complain(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Whether errors are shown in colour.
pub(super) fn is_styled() -> bool {
    io::stderr().is_terminal() && colours_wanted()
}

/// Tells the error of a command and gives its exit code.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    let broken_pipe = error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe);
    if broken_pipe {
        // `cheops … | head` has what it wanted.
        return ExitCode::SUCCESS;
    }
    if let Some(errors) = error.downcast_ref::<ConfigErrors>() {
        complain(&errors.render(is_styled()));
        return ExitCode::from(BAD_INPUT);
    }
    complain(&format!("error: {error:#}"));
    let bad_input = error.is::<BadInput>()
        || error
            .downcast_ref::<ClientError>()
            .is_some_and(ClientError::is_bad_input);
    if bad_input {
        ExitCode::from(BAD_INPUT)
    } else {
        ExitCode::FAILURE
    }
}

/// Rows under a heading, columns aligned.
pub(super) fn columns(heading: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .chain([heading[column].len()])
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<_> = (0..heading.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded: Vec<_> = cells
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        format!("{}\n", padded.join("  ").trim_end())
    };
    let mut text = line(&mut heading.iter().copied());
    for row in rows {
        text.push_str(&line(&mut row.iter().map(String::as_str)));
    }
    text
}
