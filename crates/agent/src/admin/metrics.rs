//! `GET /metrics` in Prometheus' text form.

use std::fmt::Write as _;

use cheops_types::Limit;

pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The limits' counters, then what the parts of the agent count.
pub(super) fn render(parts: &[&str]) -> String {
    let mut text = String::from(
        "# HELP cheops_limit_hits_total Times a limit was hit.\n# TYPE cheops_limit_hits_total counter\n",
    );
    for limit in Limit::ALL {
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "cheops_limit_hits_total{{limit=\"{}\"}} {}",
            limit.name(),
            limit.hits()
        );
    }
    for part in parts {
        text.push_str(part);
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    text
}
