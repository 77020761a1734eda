//! What a user can run into is written down: a page per error code, a line per limit.

use std::path::Path;

use anyhow::Result;
use cheops_types::{Code, Limit, Limits};

use crate::repo::{Finding, Repo};

const ERRORS: &str = "docs/errors";
const LIMITS: &str = "docs/limits.md";

pub(super) fn check(repo: &Repo) -> Result<Vec<Finding>> {
    let mut findings = error_pages(repo)?;
    findings.extend(limit_lines(&repo.read(LIMITS)?));
    Ok(findings)
}

fn error_pages(repo: &Repo) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let index_file = Path::new(ERRORS).join("README.md");
    let index = repo.read(&index_file)?;
    for code in Code::ALL {
        let file = Path::new(ERRORS).join(format!("{code}.md"));
        let head = error_head(*code);
        match repo.read(&file) {
            Err(_) => findings.push(Finding::new(&file, 0, format!("the page of `{code}` is missing"))),
            Ok(page) if !page.starts_with(&head) => {
                findings.push(Finding::new(
                    &file,
                    1,
                    format!("the page must begin with {head:?}"),
                ));
            }
            Ok(_) => {}
        }
        if !index.contains(&format!("({code}.md)")) {
            findings.push(Finding::new(
                &index_file,
                0,
                format!("the page of `{code}` is not listed"),
            ));
        }
    }
    for file in repo.files(ERRORS, "md")? {
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        if stem != "README" && !Code::ALL.iter().any(|code| code.as_str() == stem) {
            findings.push(Finding::new(&file, 0, "no such error code"));
        }
    }
    Ok(findings)
}

/// The lines that say what the code says, so that a page cannot tell another status.
fn error_head(code: Code) -> String {
    format!("# `{code}`\n\n**{}** · {}\n", code.status(), code.title())
}

fn limit_lines(page: &str) -> Vec<Finding> {
    let file = Path::new(LIMITS);
    let mut findings = Vec::new();
    for limit in Limit::ALL {
        let expected = limit_row(*limit);
        if !page.lines().any(|line| line.starts_with(&expected)) {
            findings.push(Finding::new(
                file,
                0,
                format!("a line must begin with `{expected}`"),
            ));
        }
    }
    for (at, line) in page.lines().enumerate() {
        let name = line.strip_prefix("| `").and_then(|rest| rest.split('`').next());
        if name.is_some_and(|name| !Limit::ALL.iter().any(|limit| limit.name() == name)) {
            findings.push(Finding::new(file, at + 1, "no such limit"));
        }
    }
    findings
}

fn limit_row(limit: Limit) -> String {
    format!(
        "| `{}` | {} | {} |",
        limit.name(),
        limit.value(&Limits::default()),
        limit.answer().replace('|', "\\|")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_default_a_missing_and_an_unknown_limit_are_found() {
        let mut rows: Vec<_> = Limit::ALL.iter().map(|limit| limit_row(*limit)).collect();
        assert_eq!(limit_lines(&rows.join("\n")), []);
        rows[0] = rows[0].replace(" | ", " | 1");
        rows.pop();
        rows.push("| `no_such_limit` | 1 | none |".into());
        assert_eq!(limit_lines(&rows.join("\n")).len(), 3);
    }
}
