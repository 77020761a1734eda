//! Where the steps of the tour are played, shown and judged.

use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use cheops_types::{Receipt, Visit};
use serde::Serialize;

use crate::demo::{
    exchange::{Answer, Call, Client},
    screen::{Screen, WIDTH},
    sites::Map,
    tour::{check::Check, json_text},
};

/// What is in front of everything that belongs to a step.
const INDENT: &str = "    ";
/// Most lines of a body that are shown.
const BODY_LINES_MAX: usize = 24;

/// One step, for the report.
#[derive(Debug, Serialize)]
pub(super) struct Step {
    title: String,
    exchanges: Vec<Exchange>,
    /// What was not as it should be.
    wrong: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Exchange {
    command: String,
    status: u16,
    body: String,
    receipt: Option<Receipt>,
    took_us: u64,
}

pub(super) struct Stage<'a> {
    pub(super) map: &'a Map,
    screen: Screen,
    client: Client,
    steps: Vec<Step>,
    start: Instant,
}

impl<'a> Stage<'a> {
    pub(super) fn new(map: &'a Map, screen: Screen) -> Self {
        Self {
            map,
            screen,
            client: Client::new(),
            steps: Vec::new(),
            start: Instant::now(),
        }
    }

    pub(super) fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Begins a step.
    pub(super) fn step(&mut self, title: &str, why: &str) {
        self.steps.push(Step {
            title: title.to_owned(),
            exchanges: Vec::new(),
            wrong: Vec::new(),
        });
        let title = format!("{:>2}  {title}", self.steps.len());
        self.screen.line(&format!("\n{}", self.screen.bold(&title)));
        self.line(why);
    }

    /// Tells what happens to the links.
    pub(super) fn event(&self, what: &str) {
        self.screen
            .line(&format!("\n{}", self.screen.cyan(&format!("--  {what}"))));
    }

    /// Sends a call, shows it with its answer and checks that.
    pub(super) async fn expect(
        &mut self,
        call: &Call,
        check: impl FnOnce(Check<'_>) -> Check<'_>,
    ) -> anyhow::Result<Answer> {
        self.line("");
        self.line(
            &self
                .screen
                .cyan(&format!("$ {}", call.curl(WIDTH - INDENT.len() - 2))),
        );
        let answer = self.client.send(call).await?;
        self.show(&answer);
        let wrong = check(Check::of(&answer)).wrong();
        self.judge(&wrong);
        if let Some(step) = self.steps.last_mut() {
            step.exchanges.push(Exchange {
                command: call.curl(usize::MAX),
                status: answer.status.as_u16(),
                body: answer.text(),
                receipt: answer.receipt().and_then(Result::ok),
                took_us: answer.took.as_micros() as u64,
            });
            step.wrong.extend(wrong);
        }
        Ok(answer)
    }

    /// Runs a command of this program, shows what it prints and checks that.
    pub(super) async fn command(
        &mut self,
        args: &[&str],
        expected: &str,
        is_right: impl FnOnce(&str) -> bool,
    ) -> anyhow::Result<()> {
        self.line("");
        let command = format!("cheops {}", args.join(" "));
        self.line(&self.screen.cyan(&format!("$ {command}")));
        let program = std::env::current_exe().context("this program cannot find itself")?;
        let start = Instant::now();
        let mut process = Command::new(program);
        process.args(args).stdin(Stdio::null());
        let output = tokio::task::spawn_blocking(move || process.output())
            .await?
            .with_context(|| format!("`{command}` cannot be run"))?;
        let text =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        self.line(text.trim_end());
        let wrong = if output.status.success() && is_right(&text) {
            Vec::new()
        } else {
            vec![format!(
                "expected {expected}, saw {} and `{}`",
                output.status,
                text.trim_end()
            )]
        };
        self.judge(&wrong);
        if let Some(step) = self.steps.last_mut() {
            step.exchanges.push(Exchange {
                command,
                status: 0,
                body: text,
                receipt: None,
                took_us: start.elapsed().as_micros() as u64,
            });
            step.wrong.extend(wrong);
        }
        Ok(())
    }

    /// Something that must hold of all the answers of a step together, in words.
    pub(super) fn require(&mut self, holds: bool, expected: &str) {
        if holds {
            return;
        }
        let wrong = vec![format!("expected {expected}")];
        self.judge(&wrong);
        if let Some(step) = self.steps.last_mut() {
            step.wrong.extend(wrong);
        }
    }

    /// Sends a call that only prepares what is shown.
    pub(super) async fn prepare(&self, call: &Call) -> anyhow::Result<Answer> {
        self.client.send(call).await
    }

    /// Shows the sum of it all; false when something was wrong.
    pub(super) fn finish(&self) -> bool {
        let wrong: Vec<_> = self.steps.iter().filter(|step| !step.wrong.is_empty()).collect();
        let took = seconds(self.start.elapsed());
        let count = self.steps.len();
        if wrong.is_empty() {
            let text = format!("all {count} steps were as they should be, in {took}");
            self.screen.line(&format!("\n{}\n", self.screen.green(&text)));
            return true;
        }
        let text = format!(
            "{} of {count} steps were not as they should be, in {took}",
            wrong.len()
        );
        self.screen.line(&format!("\n{}", self.screen.red(&text)));
        for step in wrong {
            self.screen.line(&format!("  {}", step.title));
            for wrong in &step.wrong {
                self.screen.line(&format!("    {wrong}"));
            }
        }
        self.screen.line("");
        false
    }

    fn show(&self, answer: &Answer) {
        let status = format!("{} in {}", answer.status, millis(answer.took));
        self.line(&self.screen.bold(&status));
        for line in body_lines(answer) {
            self.line(&line);
        }
        if let Some(Ok(receipt)) = answer.receipt() {
            for line in receipt_lines(&receipt) {
                self.line(&line);
            }
        }
    }

    fn judge(&self, wrong: &[String]) {
        if wrong.is_empty() {
            self.line(&self.screen.green("✓ as it should be"));
        }
        for wrong in wrong {
            self.line(&self.screen.red(&format!("✗ {wrong}")));
        }
    }

    fn line(&self, text: &str) {
        for line in text.split('\n') {
            self.screen.line(format!("{INDENT}{line}").trim_end());
        }
    }
}

fn body_lines(answer: &Answer) -> Vec<String> {
    let width = WIDTH - INDENT.len();
    let mut lines = match serde_json::from_slice(&answer.body) {
        Ok(value) => json_text::lines(&value, width),
        Err(_) => answer.text().lines().map(str::to_owned).collect(),
    };
    if lines.len() > BODY_LINES_MAX {
        let left = lines.len() - BODY_LINES_MAX;
        lines.truncate(BODY_LINES_MAX);
        lines.push(format!("… {left} more lines"));
    }
    lines
}

/// The receipt as people read it.
fn receipt_lines(receipt: &Receipt) -> Vec<String> {
    let part = if receipt.complete {
        ""
    } else {
        ", something is missing"
    };
    let mut lines = vec![format!("receipt: {}{part}", receipt.plan)];
    lines.extend(receipt.sites.iter().map(|visit| visit_line(visit, "")));
    let later = receipt.workflow.iter();
    lines.extend(later.map(|visit| visit_line(visit, "later in the workflow")));
    if let Some(operation) = &receipt.operation {
        let held = match receipt.held {
            Some(1) => ", held by this site alone so far".to_owned(),
            Some(held) => format!(", held by {held} sites"),
            None => String::new(),
        };
        lines.push(format!("  operation {operation}{held}"));
    }
    lines
}

fn visit_line(visit: &Visit, note: &str) -> String {
    let mut words = vec![visit.outcome.to_string()];
    words.extend(visit.status.map(|status| status.to_string()));
    words.extend(visit.error.clone());
    words.extend(visit.items.map(|items| format!("{items} items")));
    let place = match &visit.service {
        Some(service) => format!("{service} at {}", visit.site),
        None => visit.site.to_string(),
    };
    let text = format!("  {place:<12} {}", words.join(", "));
    if note.is_empty() {
        text
    } else {
        format!("{text}  ({note})")
    }
}

fn millis(duration: Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1000.0)
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receipts_read_well() {
        let receipt = Receipt::parse(
            r#"plan=fallback, complete=?0, sites=("site2";outcome=not-executed;error="peer_timeout" "site3";outcome=executed;status=200;items=2), workflow=("site1";service="B";outcome=executed;status=404)"#,
        )
        .unwrap();
        assert_eq!(
            receipt_lines(&receipt),
            [
                "receipt: fallback, something is missing",
                "  site2        not-executed, peer_timeout",
                "  site3        executed, 200, 2 items",
                "  B at site1   executed, 404  (later in the workflow)",
            ]
        );
    }
}
