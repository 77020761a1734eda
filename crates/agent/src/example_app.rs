//! `cheops example-app`: one service of the example application in a process of its own.

use std::{net::SocketAddr, path::PathBuf, process::ExitCode, time::Duration};

use anyhow::Context as _;
use cheops_example::{Carry, Config, Service};
use tokio::{net::TcpListener, sync::oneshot, time};

use crate::stop::Stop;

/// How long requests under way may take once the service is asked to stop.
const GRACE: Duration = Duration::from_secs(2);

#[derive(Debug, clap::Args)]
pub(crate) struct ExampleArgs {
    #[command(subcommand)]
    service: ServiceArgs,
}

#[derive(Debug, clap::Subcommand)]
enum ServiceArgs {
    /// Takes orders and says hello, with B's help
    #[command(name = "A")]
    A {
        /// Where this instance's B answers
        #[arg(long, value_name = "ADDRESS")]
        b: SocketAddr,
        /// What calls to B pass on: `none`, `all` or header names separated by commas
        #[arg(long, value_name = "HEADERS", default_value = "traceparent")]
        carry: Carry,
        #[command(flatten)]
        common: CommonArgs,
    },
    /// Keeps items, labels and files, and has a string
    #[command(name = "B")]
    B {
        /// What `GET /string` answers
        #[arg(long)]
        string: String,
        #[command(flatten)]
        common: CommonArgs,
    },
}

#[derive(Debug, clap::Args)]
struct CommonArgs {
    /// Where the service listens
    #[arg(long, value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Where the service keeps its data
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// The first id that the service gives
    #[arg(long, value_name = "ID", default_value_t = 1)]
    id_base: u64,
    /// Callers need one of the tokens in this file, one per line, as `Authorization: Bearer`
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Ends when standard input does
    #[arg(long)]
    exit_with_stdin: bool,
}

pub(crate) fn run(args: ExampleArgs) -> anyhow::Result<ExitCode> {
    let (service, common) = match args.service {
        ServiceArgs::A { b, carry, common } => (Service::A { b_addr: b, carry }, common),
        ServiceArgs::B { string, common } => (Service::B { string }, common),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(serve(service, common))?;
    Ok(ExitCode::SUCCESS)
}

async fn serve(service: Service, common: CommonArgs) -> anyhow::Result<()> {
    let mut stop = Stop::listen(common.exit_with_stdin)?;
    let listener = TcpListener::bind(common.listen)
        .await
        .with_context(|| format!("the example application cannot listen at {}", common.listen))?;
    let config = Config {
        service,
        id_base: common.id_base,
        data_dir: common.data_dir,
        token_file: common.token_file,
    };
    let (drain, draining) = oneshot::channel::<()>();
    let served = cheops_example::serve(config, listener, async {
        let _ = draining.await;
    });
    let stopped = async {
        stop.asked().await;
        let _ = drain.send(());
        time::sleep(GRACE).await;
    };
    tokio::select! {
        served = served => served.context("the example application cannot go on"),
        () = stopped => Ok(()),
    }
}
