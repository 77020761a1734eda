//! As much Markdown as the checks need: links, the anchors of headings, and fenced blocks.

/// A link's target as written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) line: usize,
    pub(crate) target: String,
}

/// A fenced block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// The line of the opening fence, counted from 1.
    pub(crate) line: usize,
    /// What stands behind the opening fence: `console check`.
    pub(crate) info: String,
    pub(crate) lines: Vec<String>,
}

pub(crate) fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<(Block, &str)> = None;
    for (at, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        let fence_len = trimmed.len() - trimmed.trim_start_matches('`').len();
        let (fence, info) = trimmed.split_at(fence_len);
        match open.take() {
            Some((block, opened)) if fence_len >= opened.len() && info.trim().is_empty() => {
                blocks.push(block);
            }
            Some((mut block, opened)) => {
                block.lines.push(line.to_owned());
                open = Some((block, opened));
            }
            None if fence_len >= 3 => {
                let block = Block {
                    line: at + 1,
                    info: info.trim().to_owned(),
                    lines: Vec::new(),
                };
                open = Some((block, fence));
            }
            None => {}
        }
    }
    blocks
}

pub(crate) fn links(text: &str) -> Vec<Link> {
    let mut links = Vec::new();
    for (line, prose) in prose(text) {
        let prose = without_code(prose);
        let mut rest = prose.as_str();
        while let Some(start) = rest.find("](") {
            rest = &rest[start + 2..];
            let Some(end) = rest.find(')') else { break };
            // A title may follow the target.
            let target = rest[..end].split_whitespace().next().unwrap_or_default();
            links.push(Link {
                line,
                target: target.trim_matches(['<', '>']).to_owned(),
            });
            rest = &rest[end..];
        }
    }
    links
}

/// The anchors that headings give: lower case, punctuation dropped, spaces as `-`.
pub(crate) fn anchors(text: &str) -> Vec<String> {
    let headings = prose(text).filter_map(|(_, line)| {
        let title = line.trim_start_matches('#');
        (title.len() < line.len() && title.starts_with(' ')).then(|| title.trim())
    });
    headings
        .map(|title| {
            title
                .chars()
                .filter_map(|c| match c {
                    ' ' => Some('-'),
                    '-' | '_' => Some(c),
                    c if c.is_alphanumeric() => Some(c.to_ascii_lowercase()),
                    _ => None,
                })
                .collect()
        })
        .collect()
}

/// The lines outside of fenced blocks, numbered from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let blocks = blocks(text);
    text.lines()
        .enumerate()
        .map(|(at, line)| (at + 1, line))
        .filter(move |(line, _)| {
            !blocks
                .iter()
                .any(|block| (block.line..=block.line + block.lines.len() + 1).contains(line))
        })
}

fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("code")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
# The `scope` header, again!
[a](b.md) and `[not](this.md)` and [c](d.md#e \"title\")
```console check
$ cheops [x](y.md)
```
[last](z.md)
";

    #[test]
    fn reads_links_outside_of_code() {
        let targets: Vec<_> = links(PAGE)
            .into_iter()
            .map(|link| (link.line, link.target))
            .collect();
        let expected = [(2, "b.md"), (2, "d.md#e"), (6, "z.md")];
        assert_eq!(targets, expected.map(|(line, target)| (line, target.to_owned())));
    }

    #[test]
    fn reads_anchors() {
        assert_eq!(anchors(PAGE), ["the-scope-header-again"]);
    }

    #[test]
    fn reads_blocks() {
        let block = Block {
            line: 3,
            info: "console check".into(),
            lines: vec!["$ cheops [x](y.md)".into()],
        };
        assert_eq!(blocks(PAGE), [block]);
    }
}
