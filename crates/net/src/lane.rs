//! One HTTP/2 connection that all requests of a core share, dialled on demand.

use std::{cell::RefCell, future::Future};

use http::{Request, Response};
use hyper::{body::Incoming, client::conn::http2::SendRequest};
use tokio::sync::Mutex;

use crate::{Body, SendError, SendErrorKind, send_error::describe};

#[derive(Default)]
struct State {
    sender: Option<SendRequest<Body>>,
    /// Counts dials, so that those who waited for one share its failure.
    dials: u64,
    failure: Option<(SendErrorKind, String)>,
}

#[derive(Default)]
pub(crate) struct Lane {
    state: RefCell<State>,
    dialling: Mutex<()>,
}

impl Lane {
    /// The open connection, if there is one.
    fn open(&self) -> Option<SendRequest<Body>> {
        let mut state = self.state.borrow_mut();
        match &state.sender {
            Some(sender) if sender.is_closed() => {
                state.sender = None;
                None
            }
            sender => sender.clone(),
        }
    }

    /// The open connection, or a new one. Of several callers one dials; the others wait for it and
    /// share its result, so that a dead peer costs each of them one time-out, not one per caller.
    pub(crate) async fn get<F>(&self, dial: impl FnOnce() -> F) -> Result<SendRequest<Body>, SendError>
    where
        F: Future<Output = Result<SendRequest<Body>, SendError>>,
    {
        if let Some(sender) = self.open() {
            return Ok(sender);
        }
        let dials_before = self.state.borrow().dials;
        let _dialling = self.dialling.lock().await;
        if let Some(sender) = self.open() {
            return Ok(sender);
        }
        {
            let state = self.state.borrow();
            if let Some((kind, detail)) = &state.failure
                && state.dials != dials_before
            {
                return Err(SendError::not_executed(*kind, detail.clone()));
            }
        }
        let result = dial().await;
        let mut state = self.state.borrow_mut();
        state.dials += 1;
        match result {
            Ok(sender) => {
                state.failure = None;
                state.sender = Some(sender.clone());
                Ok(sender)
            }
            Err(error) => {
                state.failure = Some((error.kind, error.detail.clone()));
                Err(error)
            }
        }
    }

    /// Sends one request. One that was certainly not seen is sent once more, on a fresh connection;
    /// a dial that failed is not repeated.
    pub(crate) async fn send<F>(
        &self,
        request: Request<Body>,
        dial: impl Fn() -> F,
    ) -> Result<Response<Incoming>, SendError>
    where
        F: Future<Output = Result<SendRequest<Body>, SendError>>,
    {
        let mut error = match self.send_once(request, &dial).await {
            Ok(response) => return Ok(response),
            Err(error) => error,
        };
        match error.request.take() {
            Some(unsent) if error.kind == SendErrorKind::Broken => {
                self.close();
                self.send_once(*unsent, &dial).await
            }
            request => {
                error.request = request;
                Err(error)
            }
        }
    }

    async fn send_once<F>(
        &self,
        request: Request<Body>,
        dial: &impl Fn() -> F,
    ) -> Result<Response<Incoming>, SendError>
    where
        F: Future<Output = Result<SendRequest<Body>, SendError>>,
    {
        let mut sender = match self.get(dial).await {
            Ok(sender) => sender,
            Err(error) => return Err(error.with_request(request)),
        };
        sender
            .try_send_request(request)
            .await
            .map_err(|mut error| match error.take_message() {
                Some(unsent) => SendError::not_executed(SendErrorKind::Broken, describe(error.error()))
                    .with_request(unsent),
                None => SendError::from_hyper(error.error()),
            })
    }

    /// Forgets the connection; requests under way on it go on.
    pub(crate) fn close(&self) {
        self.state.borrow_mut().sender = None;
    }
}
