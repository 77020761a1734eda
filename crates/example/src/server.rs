//! Serving one service.

use std::{io, sync::Arc};

use axum::{Router, extract::DefaultBodyLimit, middleware, serve::ListenerExt};
use http::{Method, StatusCode, Uri};
use tokio::net::TcpListener;

use crate::{
    a, b,
    config::{Config, Service},
    failure::Failure,
    request::JSON_MAX_BYTES,
    token::{self, TokenFile},
};

/// Serves until `shutdown` is ready and the requests under way then are answered.
pub async fn serve(
    config: Config,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    // Streamed answers are not to wait for acknowledgements.
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    axum::serve(listener, router(config)?)
        .with_graceful_shutdown(shutdown)
        .await
}

fn router(config: Config) -> io::Result<Router> {
    let Config {
        service,
        id_base,
        data_dir,
        token_file,
    } = config;
    let service = match service {
        Service::A { b_addr, carry } => a::router(b_addr, carry, &data_dir, id_base)?,
        Service::B { string } => b::router(string, &data_dir, id_base)?,
    };
    let router = service
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_method)
        .layer(DefaultBodyLimit::max(JSON_MAX_BYTES));
    Ok(match token_file {
        None => router,
        Some(path) => {
            let tokens = Arc::new(TokenFile(path));
            router.layer(middleware::from_fn_with_state(tokens, token::demand))
        }
    })
}

async fn no_such_path(uri: Uri) -> Failure {
    Failure::not_found(format!("nothing is at {}", uri.path()))
}

async fn no_such_method(method: Method, uri: Uri) -> Failure {
    Failure::new(
        StatusCode::METHOD_NOT_ALLOWED,
        format!("{method} cannot be used on {}", uri.path()),
    )
}
