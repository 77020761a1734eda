//! What another site's operation may ask of this site's application.
//!
//! An operation carries a method and a path, and its origin may be hostile: a `DELETE /admin/users/42` that is recorded as
//! a change of an item would be executed with the rights of this site. So the request must be one that the glue gives
//! for the set: about its resource, or the collection that this is made in, and what a write to that is.

use cheops_glue::{Address, Doing, Effect, Profile};
use cheops_replica::{Form, Record};

use super::render::{AppRequest, header};

/// A request that is to be sent for a set, and what tells the resource here.
pub(super) struct Asked<'a> {
    pub(super) profile: &'a Profile,
    pub(super) set: &'a Record,
    pub(super) form: &'a Form,
    /// The key of the set's resource here; of a create, its parents' with an empty id.
    pub(super) key: &'a str,
}

impl Asked<'_> {
    /// Says what is wrong with a request; nothing, if it may be sent.
    pub(super) fn check(&self, order: &AppRequest) -> Result<(), String> {
        let path = order.path.split(['?', '#']).next().unwrap_or_default();
        let is_create = matches!(self.form, Form::Create { .. } | Form::CreateFrom { .. });
        let is_about_it = if is_create {
            self.makes(path)
        } else {
            self.is_part(path)
        };
        if !is_about_it {
            return Err(format!(
                "{} {path} is no request about {} `{}`",
                order.method, self.set.kind, self.set.meta
            ));
        }
        let doing = Doing {
            method: &order.method,
            content_type: header(&order.headers, "content-type"),
        };
        self.check_effect(path, doing)?;
        self.check_readings(path, doing)
    }

    /// Whether a path is the collection that the resource is made in, or the resource itself, where that makes it.
    fn makes(&self, path: &str) -> bool {
        let service = &self.set.service;
        let Some(address) = self.profile.address(service, path) else {
            return false;
        };
        let is_kind = address.kinds().any(|kind| kind == self.set.kind);
        match &address.id {
            None => is_kind && address.key_of("") == self.key,
            Some(id) => is_kind && address.below.is_empty() && self.set.name.as_deref() == Some(&**id),
        }
    }

    /// Whether a path is the resource's own or lies within it, and is no other resource's of the glue.
    fn is_part(&self, path: &str) -> bool {
        let service = &self.set.service;
        let is_own = |address: &Address<'_>| {
            address.kind == self.set.kind.as_str() && address.key.as_deref() == Some(self.key)
        };
        let is_of_another_kind = self
            .profile
            .address(service, path)
            .is_some_and(|address| address.kind != self.set.kind.as_str() && !address.kind.starts_with('/'));
        !is_of_another_kind && self.profile.within(service, path).iter().any(is_own)
    }

    /// A recorded request does what a write of its form does. All others were made here, by the glue.
    fn check_effect(&self, path: &str, doing: Doing<'_>) -> Result<(), String> {
        let service = &self.set.service;
        let mut within = self.profile.within(service, path).into_iter();
        let own = within.find(|address| address.kind == self.set.kind.as_str());
        let Some(address) = own.or_else(|| self.profile.address(service, path)) else {
            return Ok(());
        };
        let effect = address.effect(doing.method, doing.content_type);
        let is_meant = match self.form {
            Form::Create { .. } => {
                effect == Effect::Create || address.rules().is_upsert(doing.method, doing.content_type)
            }
            Form::Delete { .. } => effect == Effect::Delete,
            Form::Repeat { .. } => !matches!(
                effect,
                Effect::Read | Effect::Free | Effect::Create | Effect::Delete
            ),
            Form::Remake { .. } | Form::CreateFrom { .. } | Form::Overwrite { .. } => true,
        };
        if is_meant {
            return Ok(());
        }
        Err(format!(
            "{} {path} is not what a recorded write does to a {}",
            doing.method, self.set.kind
        ))
    }

    /// The application reads the path as this agent does.
    fn check_readings(&self, path: &str, doing: Doing<'_>) -> Result<(), String> {
        let service = &self.set.service;
        let mine = || self.profile.reading(service, path, doing);
        let mut others = self.profile.other_readings(service, path).into_iter();
        match others.find(|other| self.profile.reading(service, other, doing) != mine()) {
            Some(other) => Err(format!("the application may read the path {path} as {other}")),
            None => Ok(()),
        }
    }
}
