//! Events to standard error, one line each.

mod quota;

use std::{
    fmt,
    io::{IsTerminal as _, stderr},
};

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::{
    EnvFilter,
    fmt::{FmtContext, FormatEvent, FormatFields, format, format::Writer},
    registry::LookupSpan,
};

use quota::Quotas;

/// Names a filter such as `info` or `cheops_net=debug,info`; it has precedence over `-v`.
const FILTER_VARIABLE: &str = "CHEOPS_LOG";

static QUOTAS: Quotas = Quotas::new();

/// Begins logging, once per process. `verbosity` counts the `-v`: info, debug, trace.
pub(crate) fn init(verbosity: u8) -> anyhow::Result<()> {
    let default = match verbosity {
        // What a library tells of itself is for those who ask for details.
        0 => "info,openraft=warn",
        1 => "debug,openraft=info",
        _ => "trace",
    };
    let filter = match std::env::var(FILTER_VARIABLE) {
        Ok(text) if !text.is_empty() => EnvFilter::try_new(&text).map_err(|error| {
            anyhow::anyhow!("{FILTER_VARIABLE} is not a filter: {error}; write e.g. `debug`")
        })?,
        _ => EnvFilter::new(default),
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(stderr)
        .with_ansi(stderr().is_terminal() && colours_wanted())
        .event_format(Limited(format().with_target(verbosity > 0)))
        .try_init()
        .map_err(|error| anyhow::anyhow!("logging cannot begin: {error}"))
}

/// Whether colours may be used where a terminal is.
pub(crate) fn colours_wanted() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// How many lines one place in the code may write in ten seconds.
pub(crate) fn set_kind_max_lines(max: u64) {
    QUOTAS.set_max(max);
}

/// Leaves out lines of a kind that comes too often, so that nobody fills the disk by causing them, and says how
/// many. What is only there because somebody asked for details is never left out.
struct Limited<F>(F);

impl<S, N, F> FormatEvent<S, N> for Limited<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        ctx: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        if *event.metadata().level() > Level::INFO {
            return self.0.format_event(ctx, writer, event);
        }
        let Some(left_out) = QUOTAS.take(event.metadata().callsite()) else {
            return Ok(());
        };
        self.0.format_event(ctx, writer.by_ref(), event)?;
        if left_out > 0 {
            writeln!(writer, "  {left_out} lines of this kind were left out before it")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{self, Write},
        sync::{Arc, Mutex},
    };

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_flood_of_one_kind_leaves_the_others_their_lines() {
        let lines = Lines::default();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(Level::DEBUG)
            .with_writer({
                let lines = lines.clone();
                move || lines.clone()
            })
            .event_format(Limited(format()))
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            for number in 0..1000 {
                tracing::warn!(number, "flood");
                tracing::debug!(number, "detail");
            }
            tracing::warn!("something else");
        });
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        let count = |what: &str| text.matches(what).count();
        let max = cheops_types::Limits::default().log_kind_max_lines as usize;
        assert_eq!(
            (count("flood"), count("detail"), count("something else")),
            (max, 1000, 1)
        );
        assert_eq!(text.lines().count(), max + 1001);
    }
}
