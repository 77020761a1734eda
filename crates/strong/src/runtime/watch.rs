//! A watch channel on one thread, which wakes its receivers in the order in which they wait.

use std::{
    cell::{Cell, Ref, RefCell},
    rc::Rc,
};

use openraft_rt::{
    OptionalSend, OptionalSync,
    watch::{RecvError, SendError, Watch, WatchReceiver, WatchSender},
};
use tokio::sync::Notify;

pub(crate) struct LocalWatch;

struct Shared<T> {
    value: RefCell<T>,
    version: Cell<u64>,
    senders: Cell<usize>,
    receivers: Cell<usize>,
    changed: Notify,
}

impl<T> Shared<T> {
    fn tell(&self) {
        self.version.set(self.version.get() + 1);
        self.changed.notify_waiters();
    }
}

pub(crate) struct Sender<T>(Rc<Shared<T>>);

pub(crate) struct Receiver<T> {
    shared: Rc<Shared<T>>,
    seen: u64,
}

impl<T> Receiver<T> {
    fn new(shared: &Rc<Shared<T>>, seen: u64) -> Self {
        shared.receivers.set(shared.receivers.get() + 1);
        Self {
            shared: Rc::clone(shared),
            seen,
        }
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.senders.set(self.0.senders.get() + 1);
        Self(Rc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.senders.set(self.0.senders.get() - 1);
        if self.0.senders.get() == 0 {
            self.0.changed.notify_waiters();
        }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Self::new(&self.shared, self.seen)
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.shared.receivers.set(self.shared.receivers.get() - 1);
    }
}

impl Watch for LocalWatch {
    type Sender<T: OptionalSend + OptionalSync> = Sender<T>;
    type Receiver<T: OptionalSend + OptionalSync> = Receiver<T>;
    type Ref<'a, T: OptionalSend + 'a> = Ref<'a, T>;

    fn channel<T: OptionalSend + OptionalSync>(init: T) -> (Sender<T>, Receiver<T>) {
        let shared = Rc::new(Shared {
            value: RefCell::new(init),
            version: Cell::new(0),
            senders: Cell::new(1),
            receivers: Cell::new(0),
            changed: Notify::new(),
        });
        let receiver = Receiver::new(&shared, 0);
        (Sender(shared), receiver)
    }
}

impl<T: OptionalSend + OptionalSync> WatchSender<LocalWatch, T> for Sender<T> {
    fn send(&self, value: T) -> Result<(), SendError<T>> {
        if self.0.receivers.get() == 0 {
            return Err(SendError(value));
        }
        self.0.value.replace(value);
        self.0.tell();
        Ok(())
    }

    fn send_if_modified<F>(&self, modify: F) -> bool
    where
        F: FnOnce(&mut T) -> bool,
    {
        let is_modified = modify(&mut self.0.value.borrow_mut());
        if is_modified {
            self.0.tell();
        }
        is_modified
    }

    fn borrow_watched(&self) -> Ref<'_, T> {
        self.0.value.borrow()
    }

    fn subscribe(&self) -> Receiver<T> {
        Receiver::new(&self.0, self.0.version.get())
    }
}

impl<T: OptionalSend + OptionalSync> WatchReceiver<LocalWatch, T> for Receiver<T> {
    async fn changed(&mut self) -> Result<(), RecvError> {
        loop {
            // Before looking, so that nothing is missed between the two.
            let changed = self.shared.changed.notified();
            if self.shared.version.get() != self.seen {
                self.seen = self.shared.version.get();
                return Ok(());
            }
            if self.shared.senders.get() == 0 {
                return Err(RecvError(()));
            }
            changed.await;
        }
    }

    fn borrow_watched(&self) -> Ref<'_, T> {
        self.shared.value.borrow()
    }

    fn borrow_and_update(&mut self) -> Ref<'_, T> {
        self.seen = self.shared.version.get();
        self.shared.value.borrow()
    }
}
