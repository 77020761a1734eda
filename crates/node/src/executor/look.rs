//! The search for the replica that carries a marker.

use cheops_glue::Sighting;
use cheops_replica::{Found, LocalId, Record, Token};
use tracing::debug;

use super::{Executor, render::AppRequest};
use crate::caller::OnBehalf;

/// Pages that one search reads; beyond that it has failed.
const PAGES_MAX: usize = 1000;

impl Executor {
    pub(crate) async fn look(&self, set: &Record, on_behalf: &OnBehalf, token: Token) -> Found {
        let Some(key) = self.local_key(set, "") else {
            return Found::Unknown;
        };
        let profile = self.core.surroundings.profile();
        let kind = profile.kind(&set.service, &set.kind);
        let Some(mut search) = kind.marker_search(&key, &token.to_string()) else {
            return Found::Unknown;
        };
        let _place = self.slots.acquire().await;
        for _ in 0..PAGES_MAX {
            let mut order = AppRequest::get(search.path.clone());
            if let Err(why) = self.speak(&mut order.headers, set, on_behalf).await {
                debug!(set = %set.meta, why, "a replica cannot be searched for");
                return Found::Unknown;
            }
            let Ok(answer) = self.call(&set.service, order, "").await else {
                return Found::Unknown;
            };
            if answer.status != 200 {
                debug!(set = %set.meta, path = search.path, status = answer.status, "a search was refused");
                return Found::Unknown;
            }
            match search.read(answer.body) {
                Ok(Sighting::Found(id)) => return Found::Here(LocalId::new(&id)),
                Ok(Sighting::Next(next)) => search = next,
                Ok(Sighting::Nowhere) => return Found::Nowhere,
                Err(_) => return Found::Unknown,
            }
        }
        Found::Unknown
    }
}
