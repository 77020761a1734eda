//! HTTP/2 connections that all requests of a core share, dialled on demand.

use std::{
    cell::{Cell, RefCell},
    future::Future,
    rc::Rc,
};

use http::{Request, Response};
use hyper::{body::Incoming, client::conn::http2::SendRequest};

use crate::{
    Body, Clock, SendError, SendErrorKind,
    gate::Gate,
    place::{Place, Places},
    send_error::describe,
};

/// A connection that waited longer than this may just be closing on the other side.
const SUSPECT_AFTER_MS: u64 = 1_000;
/// A connection beside the first is dropped when nobody needed it for so long.
const IDLE_MAX_MS: u64 = 60_000;

/// A fresh connection.
pub(crate) struct Dialled {
    pub(crate) sender: SendRequest<Body>,
    /// How many requests it takes at once.
    pub(crate) streams_max: usize,
}

struct Open {
    sender: SendRequest<Body>,
    streams_max: usize,
    under_way: Places,
    used_at_ms: Cell<u64>,
}

/// A connection with a place on it for one request.
pub(crate) struct Seat {
    open: Rc<Open>,
    place: Place,
    /// It waited so long that its other end may be closing it right now.
    pub(crate) is_suspect: bool,
}

/// As many connections as the requests under way need: one that has all the requests that it takes would
/// let a further one wait behind them, and some of them may never end.
pub(crate) struct Lane {
    open: RefCell<Vec<Rc<Open>>>,
    pub(crate) gate: Gate,
    clock: Rc<Clock>,
}

impl Lane {
    pub(crate) fn new(clock: Rc<Clock>) -> Self {
        Self {
            open: RefCell::default(),
            gate: Gate::default(),
            clock,
        }
    }

    /// A place on an open connection, if there is one.
    pub(crate) fn seat(&self) -> Option<Seat> {
        let now_ms = self.clock.now_ms();
        let mut open = self.open.borrow_mut();
        let mut is_first = true;
        open.retain(|open| {
            let is_needed = std::mem::take(&mut is_first)
                || open.under_way.taken() > 0
                || now_ms.saturating_sub(open.used_at_ms.get()) <= IDLE_MAX_MS;
            is_needed && !open.sender.is_closed()
        });
        open.iter().find_map(|open| Self::sit(open, now_ms))
    }

    fn sit(open: &Rc<Open>, now_ms: u64) -> Option<Seat> {
        let is_idle = open.under_way.taken() == 0;
        let place = open.under_way.take(open.streams_max)?;
        let waited_ms = now_ms.saturating_sub(open.used_at_ms.replace(now_ms));
        Some(Seat {
            open: open.clone(),
            place,
            is_suspect: is_idle && waited_ms > SUSPECT_AFTER_MS,
        })
    }

    /// Whether a connection is open, with or without a place on it.
    pub(crate) fn is_open(&self) -> bool {
        self.open.borrow().iter().any(|open| !open.sender.is_closed())
    }

    /// Takes up a fresh connection, with a place on it.
    pub(crate) fn adopt(&self, dialled: Dialled) -> Result<Seat, SendError> {
        let now_ms = self.clock.now_ms();
        let open = Rc::new(Open {
            sender: dialled.sender,
            streams_max: dialled.streams_max,
            under_way: Places::default(),
            used_at_ms: Cell::new(now_ms),
        });
        let seat = Self::sit(&open, now_ms).ok_or_else(|| {
            let detail = "the other side takes no request on a new HTTP/2 connection";
            SendError::not_executed(SendErrorKind::Busy, detail)
        })?;
        self.open.borrow_mut().push(open);
        Ok(seat)
    }

    /// Opens a connection if there is none.
    pub(crate) async fn warm<F>(&self, dial: impl FnOnce() -> F) -> Result<(), SendError>
    where
        F: Future<Output = Result<Dialled, SendError>>,
    {
        let ready = || self.is_open().then_some(());
        self.gate
            .pass(ready, || async { self.adopt(dial().await?).map(drop) })
            .await
    }

    /// Sends one request. One that was certainly not seen is sent once more, on another connection; a
    /// dial that failed is not repeated.
    pub(crate) async fn send<F>(
        &self,
        request: Request<Body>,
        dial: impl Fn() -> F,
    ) -> Result<(Response<Incoming>, Place), SendError>
    where
        F: Future<Output = Result<Dialled, SendError>>,
    {
        let seat = match self.get(&dial).await {
            Ok(seat) => seat,
            Err(error) => return Err(error.with_request(request)),
        };
        let mut error = match self.send_on(seat, request).await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        let Some(unsent) = error.request.take() else {
            return Err(error);
        };
        match self.get(&dial).await {
            Ok(seat) => self.send_on(seat, *unsent).await,
            Err(error) => Err(error.with_request(*unsent)),
        }
    }

    async fn get<F>(&self, dial: &impl Fn() -> F) -> Result<Seat, SendError>
    where
        F: Future<Output = Result<Dialled, SendError>>,
    {
        self.gate
            .pass(|| self.seat(), || async { self.adopt(dial().await?) })
            .await
    }

    /// Sends one request on a connection; one that it did not take comes back with the error, and the
    /// connection is not used again.
    pub(crate) async fn send_on(
        &self,
        seat: Seat,
        request: Request<Body>,
    ) -> Result<(Response<Incoming>, Place), SendError> {
        let Seat { open, place, .. } = seat;
        let mut sender = open.sender.clone();
        match sender.try_send_request(request).await {
            Ok(response) => Ok((response, place)),
            Err(mut error) => match error.take_message() {
                Some(unsent) => {
                    self.open.borrow_mut().retain(|other| !Rc::ptr_eq(other, &open));
                    let detail = describe(error.error());
                    Err(SendError::not_executed(SendErrorKind::Broken, detail).with_request(unsent))
                }
                None => Err(SendError::from_hyper(error.error())),
            },
        }
    }

    /// Forgets the connections; requests under way on them go on.
    pub(crate) fn close(&self) {
        self.open.borrow_mut().clear();
    }
}
