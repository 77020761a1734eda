//! From a request to what is recorded of it: meta-ids instead of any others, the own id as a hole, the
//! headers that the glue lists, the credential sealed.

mod cross;
mod wording;

use std::collections::BTreeSet;

use bytes::Bytes;
use cheops_glue::{self as glue, Address, Effect, IdRule, Kind, Own, Profile, Touches};
use cheops_plan::{Cross, Target};
use cheops_ports::Write;
use cheops_replica::{Birth, Conditions, Draft, Footprint, MetaId, Need, Recognise, Request, Secret, Verb};
use cheops_store::{Error, ReadSession};
use cheops_types::{Code, Consistency, KeptBody, Problem, Share, SiteName};
use http::{HeaderMap, header::CONTENT_TYPE, uri::PathAndQuery};

use self::wording::Wording;
use crate::{
    core::Core,
    ids::{Finder, ToMeta},
    mint::{self, NewId},
    problems, rows, secret,
    waiting::CallerHeaders,
};

/// A write, ready for the engine.
#[derive(Debug)]
pub(crate) struct Drafted {
    pub(crate) draft: Draft,
    pub(crate) to: To,
    pub(crate) caller: CallerHeaders,
    /// The agent completed the name: where something has it, another one does as well.
    pub(crate) is_name_chosen: bool,
}

#[derive(Debug)]
pub(crate) enum To {
    New(NewId),
    Set(MetaId),
}

/// What a request means, in the words of all sites.
struct Reading<'w> {
    core: &'w Core,
    read: &'w ReadSession,
    profile: &'w Profile,
    write: &'w Write,
}

/// What a request does, and to what.
struct Meaning {
    to: To,
    verb: Verb,
    touches: Footprint,
    recognise: Recognise,
    needs: Vec<Need>,
    shares: Vec<Share>,
}

/// Makes a draft. Nothing has happened yet when it fails.
pub(crate) fn draft(core: &Core, write: &Write) -> Result<Drafted, Problem> {
    let read = core
        .store
        .read()
        .map_err(|error| problems::store(&core.site, &error))?;
    let profile = core.surroundings.profile();
    let reading = Reading {
        core,
        read: &read,
        profile: &profile,
        write,
    };
    match &write.target {
        Target::New { sites, consistency } => reading.create(sites, *consistency, None),
        Target::Cross(cross) => reading.create(&cross.sites, Consistency::Eventual, Some(cross)),
        Target::Set { meta, .. } => reading.change(&MetaId::new(meta)),
    }
}

impl Reading<'_> {
    fn create(
        &self,
        sites: &[SiteName],
        consistency: Consistency,
        cross: Option<&Cross>,
    ) -> Result<Drafted, Problem> {
        let write = self.write;
        let here = &self.core.site;
        let sites: BTreeSet<_> = sites.iter().cloned().collect();
        if !sites.contains(here) || sites.len() < 2 {
            let detail = format!("a replica set needs two sites at least, `{here}` among them");
            return Err(Problem::new(Code::SetRefused, detail).at(here));
        }
        let address = self
            .profile
            .address(&write.service, self.path())
            .ok_or_else(|| self.unaddressed())?;
        let rules = address.rules();
        let span = cross.map(|cross| self.span(&rules, cross)).transpose()?;
        let mut body = self.readable(&address, Effect::Create)?;
        let chosen = self.complete_name(&address, &rules, body.as_deref())?;
        let is_name_chosen = chosen.is_some();
        body = chosen.or(body);
        let name = match (&address.id, rules.id_rule()) {
            // A resource that is put under a name of the caller's choice.
            (Some(id), _) => Some(id.clone().into_owned()),
            (None, IdRule::Server) => None,
            (None, IdRule::Client | IdRule::Settable) => {
                body.as_deref().and_then(|body| rules.name_in_request(body))
            }
        };
        let sent = body.as_deref().unwrap_or_default();
        let recognise = recognise(rules.recognise_in(name.is_some(), sent));
        let shares = match (&span, cross) {
            (Some(span), Some(cross)) => self.first_shares(&rules, span, sent, cross)?,
            _ => Vec::new(),
        };
        let ids = ToMeta::new(Finder::new(self.read, self.profile));
        let path = self
            .profile
            .map_path(&write.service, self.target(), Own::Keep, &ids);
        let parents = self.parents(&path)?;
        let mut wording = self.wording(&address, &rules, Effect::Create, body.clone(), Own::Keep, &ids)?;
        if let Some(body) = body.filter(|_| is_name_chosen && wording.is_as_sent) {
            wording.recorded = KeptBody::Inline(body);
        }
        let id = match &name {
            Some(_) => NewId::Named,
            None => mint::new_id(&*self.core.surroundings, here, &write.service, &write.kind)?,
        };
        let birth = Birth {
            service: write.service.clone(),
            kind: write.kind.clone(),
            parents,
            name,
            sites,
            span,
            generation: 0,
            consistency,
        };
        let meaning = Meaning {
            to: To::New(id),
            recognise,
            verb: Verb::Create(Box::new(birth)),
            touches: Footprint::Whole,
            needs: self.needs(ids, None)?,
            shares,
        };
        let drafted = self.finish(&rules, meaning, path, wording)?;
        Ok(Drafted {
            is_name_chosen,
            ..drafted
        })
    }

    /// The body of a create that tells only the beginning of a name, with a whole one.
    fn complete_name(
        &self,
        address: &Address<'_>,
        rules: &Kind,
        body: Option<&[u8]>,
    ) -> Result<Option<Bytes>, Problem> {
        let beginning = body
            .filter(|_| address.id.is_none())
            .and_then(|body| Some((body, rules.name_to_complete(body)?)));
        let Some((body, beginning)) = beginning else {
            return Ok(None);
        };
        let name = mint::name(&*self.core.surroundings, &beginning);
        let named = rules.with_id(body, &name);
        named
            .map(|body| Some(body.into()))
            .map_err(|error| self.unreadable(&error))
    }

    fn change(&self, meta: &MetaId) -> Result<Drafted, Problem> {
        let write = self.write;
        let within = self.profile.within(&write.service, self.path());
        let address = within
            .into_iter()
            .find(|address| address.kind == write.kind)
            .ok_or_else(|| self.unaddressed())?;
        let rules = address.rules();
        let effect = address.effect(write.request.method().as_str(), self.content_type());
        let verb = verb(effect).ok_or_else(|| {
            let detail = format!(
                "`{} {}` changes nothing, so it cannot be replicated",
                write.request.method(),
                write.request.uri()
            );
            Problem::new(Code::SetRefused, detail).at(&self.core.site)
        })?;
        let body = self.readable(&address, effect)?;
        let sent = body.as_deref().unwrap_or_default();
        let shares = self.next_shares(&rules, meta, effect, address.below, sent)?;
        let touches = rules.touches(&effect, address.below, body.as_deref().unwrap_or_default());
        let ids = ToMeta::new(Finder::new(self.read, self.profile));
        let path = self
            .profile
            .map_path(&write.service, self.target(), self.own(&address), &ids);
        let wording = self.wording(&address, &rules, effect, body, Own::Hole, &ids)?;
        let mut needs = self.needs(ids, Some(meta))?;
        if matches!(verb, Verb::Delete) {
            // Its parents are there as long as it is; what it contains has to go first.
            needs = self.leavers(meta)?;
        }
        let meaning = Meaning {
            to: To::Set(meta.clone()),
            verb,
            touches: footprint(touches),
            // What the glue says about creates says nothing about actions.
            recognise: Recognise::Nothing,
            needs,
            shares,
        };
        self.finish(&rules, meaning, path, wording)
    }

    fn finish(
        &self,
        rules: &Kind,
        meaning: Meaning,
        path: String,
        wording: Wording,
    ) -> Result<Drafted, Problem> {
        let write = self.write;
        let draft = Draft {
            token: mint::token(&*self.core.surroundings),
            verb: meaning.verb,
            touches: meaning.touches,
            recognise: meaning.recognise,
            needs: meaning.needs,
            request: Request {
                method: write.request.method().to_string(),
                path,
                headers: self.recorded_headers(rules, meaning.recognise),
                body: wording.recorded,
                scope: write.scope.clone(),
                caller: None,
                shares: meaning.shares,
            },
            conditions: self.conditions(rules, wording.first),
            credential: self.credential(rules)?,
            promised: write.prefer.respond_async,
            remakes: false,
        };
        let caller = CallerHeaders {
            headers: write.request.headers().clone(),
        };
        let to = meaning.to;
        Ok(Drafted {
            draft,
            to,
            caller,
            is_name_chosen: false,
        })
    }

    /// The path without its query.
    fn path(&self) -> &str {
        self.write.request.uri().path()
    }

    /// The path with its query.
    fn target(&self) -> &str {
        let target = self.write.request.uri().path_and_query();
        target.map_or("/", PathAndQuery::as_str)
    }

    /// The hole is where the request addresses the resource itself; in a path below it, it has its meta-id.
    fn own(&self, address: &Address<'_>) -> Own<'static> {
        let addressed = self.profile.address(&self.write.service, self.path());
        match addressed {
            Some(addressed) if addressed.kind == address.kind && addressed.id == address.id => Own::Hole,
            _ => Own::Map,
        }
    }

    /// The ids of the parents of what a path addresses, as they stand in it.
    fn parents(&self, path: &str) -> Result<Vec<String>, Problem> {
        let path = path.split(['?', '#']).next().unwrap_or(path);
        let address = self
            .profile
            .address(&self.write.service, path)
            .ok_or_else(|| self.unaddressed())?;
        let key = address.key_of("");
        if key.is_empty() {
            return Ok(Vec::new());
        }
        let count = key.matches('/').count() + 1;
        let mut ids: Vec<_> = glue::split_key(&key, count)
            .into_iter()
            .map(String::from)
            .collect();
        ids.pop();
        Ok(ids)
    }

    /// The sets that the request refers to: their replicas have to be at a site before it executes there.
    fn needs(&self, ids: ToMeta<'_>, own: Option<&MetaId>) -> Result<Vec<Need>, Problem> {
        let met = ids.met().map_err(|error| self.failed(&error))?;
        Ok(met
            .into_iter()
            .filter(|set| Some(set) != own)
            .map(|set| Need { set, gone: false })
            .collect())
    }

    /// What depends on a set and is gone here, but perhaps not everywhere.
    fn leavers(&self, meta: &MetaId) -> Result<Vec<Need>, Problem> {
        let leavers = || -> Result<Vec<Need>, Error> {
            let mut leavers = Vec::new();
            for set in rows::dependents(self.read, meta)? {
                let is_deleted = rows::head(self.read, &set)?
                    .is_some_and(|head| head.standing == rows::HeadStanding::Deleted);
                if is_deleted && rows::is_unsettled(self.read, &set)? {
                    leavers.push(Need { set, gone: true });
                }
            }
            Ok(leavers)
        };
        leavers().map_err(|error| self.failed(&error))
    }

    /// What the glue lists. A key that the caller brought is used at every site, instead of one of our own.
    fn recorded_headers(&self, rules: &Kind, recognise: Recognise) -> Vec<(String, String)> {
        let key = match rules.recognise(true) {
            glue::Recognise::Key { header } if recognise == Recognise::Key => Some(header),
            _ => None,
        };
        let is_recorded = |name: &str| {
            let listed = rules.recorded_headers().iter().map(String::as_str);
            listed.chain(key).any(|listed| listed.eq_ignore_ascii_case(name))
        };
        let headers = self.write.request.headers().iter();
        headers
            .filter(|(name, _)| is_recorded(name.as_str()))
            .filter_map(|(name, value)| {
                let value = std::str::from_utf8(value.as_bytes()).ok()?;
                Some((name.to_string(), value.to_owned()))
            })
            .collect()
    }

    /// What only this site's application is to check. `body` has those that stood in the recorded one.
    fn conditions(&self, rules: &Kind, body: Option<Bytes>) -> Option<Conditions> {
        let is_condition = |name: &str| {
            let mut listed = rules.precondition_headers().iter();
            listed.any(|listed| listed.eq_ignore_ascii_case(name))
        };
        let headers = self.write.request.headers().iter();
        let headers: Vec<_> = headers
            .filter(|(name, _)| is_condition(name.as_str()))
            .map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()))
            .collect();
        let body = body.map(Vec::from);
        (!headers.is_empty() || body.is_some()).then_some(Conditions { headers, body })
    }

    fn credential(&self, rules: &Kind) -> Result<Option<Secret>, Problem> {
        let is_credential = |name: &str| {
            let listed = rules.credential_headers().iter();
            let is_listed = listed.into_iter().any(|listed| listed.eq_ignore_ascii_case(name));
            // A credential with which its holder spoke for somebody else is none for the holder's own words.
            let speaks_for = self.profile.caller(&self.write.service);
            let speaks_for = speaks_for.and_then(|rules| rules.impersonate.as_ref());
            is_listed || speaks_for.is_some_and(|names| names.has(name))
        };
        let headers = self.write.request.headers().iter();
        let headers: HeaderMap = headers
            .filter(|(name, _)| is_credential(name.as_str()))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        if headers.is_empty() {
            return Ok(None);
        }
        secret::seal(&self.core.key, &*self.core.surroundings, &headers)
            .map(Some)
            .map_err(|error| {
                let detail = format!("the credential cannot be kept at `{}`: {error}", self.core.site);
                Problem::new(Code::Internal, detail).at(&self.core.site)
            })
    }

    fn content_type(&self) -> Option<&str> {
        let value = self.write.request.headers().get(CONTENT_TYPE)?;
        std::str::from_utf8(value.as_bytes()).ok()
    }

    fn unaddressed(&self) -> Problem {
        let detail = format!(
            "`{}` is no resource that the glue knows to replicate: describe it in the glue",
            self.write.request.uri()
        );
        Problem::new(Code::GlueIncomplete, detail).at(&self.core.site)
    }

    fn failed(&self, error: &Error) -> Problem {
        problems::store(&self.core.site, error)
    }
}

fn verb(effect: Effect) -> Option<Verb> {
    match effect {
        Effect::Replace => Some(Verb::Replace),
        Effect::Merge => Some(Verb::Merge),
        Effect::Action { commutes, idempotent } => Some(Verb::Action { commutes, idempotent }),
        // What is made within a resource changes that resource.
        Effect::Create => Some(Verb::Action {
            commutes: false,
            idempotent: false,
        }),
        // Until it is known what it changes it counts as an action.
        Effect::Difference { idempotent } => Some(Verb::Action {
            commutes: false,
            idempotent,
        }),
        Effect::Delete => Some(Verb::Delete),
        Effect::Read | Effect::Free => None,
    }
}

fn footprint(touches: Touches) -> Footprint {
    match touches {
        Touches::Whole => Footprint::Whole,
        Touches::Parts(parts) => Footprint::Parts(parts),
    }
}

/// How a create is recognised after a crash.
pub(crate) fn recognise(by: glue::Recognise<'_>) -> Recognise {
    match by {
        glue::Recognise::Nothing => Recognise::Nothing,
        glue::Recognise::Key { .. } => Recognise::Key,
        glue::Recognise::Marker => Recognise::Marker,
        glue::Recognise::ChosenId => Recognise::ChosenId,
    }
}

#[cfg(test)]
mod tests;
