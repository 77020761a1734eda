//! Places: a counter of what is under way, one less when each ends.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    rc::Rc,
};

use crate::Client;

/// How many are under way.
#[derive(Clone, Default)]
pub(crate) struct Places(Rc<Cell<usize>>);

impl Places {
    pub(crate) fn taken(&self) -> usize {
        self.0.get()
    }

    /// None when `max` are taken.
    pub(crate) fn take(&self, max: usize) -> Option<Place> {
        let taken = self.taken();
        (taken < max).then(|| {
            self.0.set(taken + 1);
            Place(self.clone())
        })
    }
}

/// One of the places, free again when this is dropped.
pub(crate) struct Place(Places);

impl Drop for Place {
    fn drop(&mut self) {
        let Places(taken) = &self.0;
        taken.set(taken.get() - 1);
    }
}

/// How many are under way for each client.
#[derive(Clone, Default)]
pub(crate) struct ClientPlaces(Rc<RefCell<HashMap<Client, usize>>>);

impl ClientPlaces {
    /// None when the client has `max`.
    pub(crate) fn take(&self, client: Client, max: usize) -> Option<ClientPlace> {
        let mut taken = self.0.borrow_mut();
        let of_client = taken.entry(client).or_default();
        (*of_client < max).then(|| {
            *of_client += 1;
            ClientPlace {
                places: self.clone(),
                client,
            }
        })
    }
}

/// One of a client's places, free again when this is dropped.
pub(crate) struct ClientPlace {
    places: ClientPlaces,
    client: Client,
}

impl Drop for ClientPlace {
    fn drop(&mut self) {
        let mut taken = self.places.0.borrow_mut();
        if let Some(of_client) = taken.get_mut(&self.client) {
            *of_client -= 1;
            if *of_client == 0 {
                taken.remove(&self.client);
            }
        }
    }
}

/// A request under way, to the end of its answer's body.
pub struct InFlight {
    /// Among the requests of its connection.
    pub(crate) _connection: Place,
    /// Among the requests to its peer.
    pub(crate) _peer: Option<Place>,
    /// Among those of its client to its peer.
    pub(crate) _client: Option<ClientPlace>,
}
