//! Relative links between the pages of the repository.

use std::{
    collections::BTreeMap,
    path::{Component, Path, PathBuf},
};

use anyhow::Result;

use super::markdown::{self, Link};
use crate::repo::{Finding, Repo};

pub(super) fn check(repo: &Repo) -> Result<Vec<Finding>> {
    let mut pages = BTreeMap::new();
    for file in repo.files(".", "md")? {
        let file = normal(&file);
        let text = repo.read(&file)?;
        pages.insert(file, text);
    }
    let exists = |file: &Path| repo.root.join(file).exists();
    Ok(broken(&pages, &exists))
}

fn broken(pages: &BTreeMap<PathBuf, String>, exists: &dyn Fn(&Path) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, text) in pages {
        for Link { line, target } in markdown::links(text) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let leads_to = if path.is_empty() {
                file.clone()
            } else {
                normal(&file.parent().unwrap_or(Path::new("")).join(path))
            };
            if !exists(&leads_to) {
                let what = format!(
                    "the link `{target}` leads nowhere: {} does not exist",
                    leads_to.display()
                );
                findings.push(Finding::new(file, line, what));
            } else if let (Some(page), false) = (pages.get(&leads_to), anchor.is_empty())
                && !markdown::anchors(page).iter().any(|known| known == anchor)
            {
                let what = format!("the link `{target}` leads nowhere: no heading gives `#{anchor}`");
                findings.push(Finding::new(file, line, what));
            }
        }
    }
    findings
}

/// The path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            part => normal.push(part),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_missing_files_and_headings() {
        let pages = BTreeMap::from([
            (
                PathBuf::from("docs/a.md"),
                "# A page\n[ok](../b.md#the-end) [self](#a-page) [web](https://x.invalid/)\n[no](c.md)\n[no](../b.md#x)\n"
                    .to_owned(),
            ),
            (PathBuf::from("b.md"), "## The end\n".to_owned()),
        ]);
        let findings = broken(&pages, &|file| pages.contains_key(file));
        let lines: Vec<_> = findings.iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [3, 4], "{findings:?}");
    }
}
