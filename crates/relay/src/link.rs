//! The state of a link, as its connections see it.

use std::{future, time::Duration};

use tokio::sync::watch;

/// What passes through a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum State {
    /// Everything, after the delay.
    #[default]
    Up,
    /// Nothing arrives; what is sent waits.
    Cut,
    /// What the near end sends waits; what the target sends arrives.
    CutToTarget,
    /// The other way round.
    CutFromTarget,
    /// Connections are reset.
    Refused,
}

/// One direction of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    ToTarget,
    FromTarget,
}

impl Way {
    pub(crate) fn back(self) -> Self {
        match self {
            Self::ToTarget => Self::FromTarget,
            Self::FromTarget => Self::ToTarget,
        }
    }
}

impl State {
    /// Whether bytes arrive that go this way.
    fn passes(self, way: Way) -> bool {
        match self {
            Self::Up => true,
            Self::Cut | Self::Refused => false,
            Self::CutToTarget => way == Way::FromTarget,
            Self::CutFromTarget => way == Way::ToTarget,
        }
    }
}

/// The settings that a handle writes and connections follow.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Settings {
    pub(crate) state: State,
    /// The time from one end to the other.
    pub(crate) delay: Duration,
    /// How often connections were refused: a refusal that healed at once still resets the
    /// connections it found.
    pub(crate) refusals: u64,
}

/// A connection's view of its link.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    settings: watch::Receiver<Settings>,
}

impl Link {
    pub(crate) fn new(settings: watch::Receiver<Settings>) -> Self {
        Self { settings }
    }

    pub(crate) fn delay(&self) -> Duration {
        self.settings.borrow().delay
    }

    pub(crate) fn state(&self) -> State {
        self.settings.borrow().state
    }

    pub(crate) fn refusals(&self) -> u64 {
        self.settings.borrow().refusals
    }

    pub(crate) fn passes(&self, way: Way) -> bool {
        self.state().passes(way)
    }

    /// Waits until bytes pass both ways, as a handshake needs it.
    pub(crate) async fn up(&mut self) {
        self.until(|settings| settings.state == State::Up).await;
    }

    /// Waits until bytes pass one way.
    pub(crate) async fn open(&mut self, way: Way) {
        self.until(|settings| settings.state.passes(way)).await;
    }

    /// Waits until connections are refused once more than `seen` times.
    pub(crate) async fn refused(&mut self, seen: u64) {
        self.until(|settings| settings.refusals != seen).await;
    }

    /// Waits until the last handle is gone.
    pub(crate) async fn closed(&mut self) {
        while self.settings.changed().await.is_ok() {}
    }

    /// Waits for settings that satisfy `condition`; for ever once no handle can write them.
    async fn until(&mut self, condition: impl FnMut(&Settings) -> bool) {
        if self.settings.wait_for(condition).await.is_err() {
            future::pending::<()>().await;
        }
    }
}
