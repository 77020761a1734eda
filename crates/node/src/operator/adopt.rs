//! Resources that were there before their set.

use std::collections::BTreeSet;

use cheops_glue::{IdRule, Profile, split_key};
use cheops_replica::{Answer, Birth, Event, LocalId, MetaId, Set};
use cheops_types::{Code, Consistency, Problem, ServiceName, SiteName};

use super::{Operator, find};
use crate::{
    draft,
    ids::Finder,
    inbox::Input,
    mint::{self, NewId},
    model::{Adopt, SetDetail, SetHint},
    problems,
};

/// A resource of this site's application.
struct Resource {
    service: ServiceName,
    kind: String,
    id: String,
    key: String,
    path: String,
}

impl Operator {
    /// Takes a resource of this site into a replica set and lets other sites make one like it. A set that
    /// could not make its replica here because the resource was in its place takes it over.
    pub async fn adopt(&self, asked: Adopt) -> Result<SetDetail, Problem> {
        let sites = self.others(&asked.sites)?;
        let resource = self.resource(&asked)?;
        // Before a set begins that no site could follow.
        let what = format!("`{}` cannot be adopted", resource.path);
        self.has_no_parts(&resource.service, &resource.kind, &what)?;
        self.must_be_there(&resource, &asked).await?;
        let meta = match self.set_of(&resource).await? {
            Some(set) => self.claim(&resource, &set).await?,
            None if sites.is_empty() => {
                let detail = format!(
                    "a set of `{}` alone replicates nothing: name other sites",
                    self.core.site
                );
                return Err(Problem::new(Code::SetRefused, detail).at(&self.core.site));
            }
            None => self.begin(&resource).await?,
        };
        let credential = self.seal(resource.service.as_str(), &resource.kind, &asked.credential)?;
        for site in sites {
            let set = self.load_meta(&meta).await?;
            let set = set.ok_or_else(|| problems::unknown_set(&self.core.site, &meta))?;
            if !set.members().contains_key(&site) {
                self.join(&set, &site, credential.clone()).await?;
            }
        }
        self.detail(&meta).await
    }

    /// The sites that are to follow, each once.
    fn others(&self, sites: &[SiteName]) -> Result<BTreeSet<SiteName>, Problem> {
        let mut others = BTreeSet::new();
        for site in sites {
            self.known_site(site)?;
            if *site != self.core.site {
                others.insert(site.clone());
            }
        }
        Ok(others)
    }

    fn resource(&self, asked: &Adopt) -> Result<Resource, Problem> {
        let wrong = |detail: String| Problem::new(Code::BadRequest, detail).at(&self.core.site);
        let service = ServiceName::new(&asked.service)
            .map_err(|error| Problem::new(Code::UnknownService, error.to_string()).at(&self.core.site))?;
        let profile = self.core.surroundings.profile();
        let path = match (&asked.path, &asked.kind, &asked.id) {
            (Some(path), None, None) => path.split('?').next().unwrap_or_default().to_owned(),
            (None, Some(kind), Some(id)) => profile.kind(&service, kind).item_path(id),
            _ => {
                return Err(wrong(
                    "a resource is named by its path, or by kind and id".to_owned(),
                ));
            }
        };
        let address = profile
            .address(&service, &path)
            .filter(|address| address.below.is_empty());
        let parts = address.and_then(|address| {
            let kind = address.kind.into_owned();
            Some((kind, address.id?.into_owned(), address.key?.into_owned()))
        });
        let Some((kind, id, key)) = parts else {
            return Err(wrong(format!(
                "`{path}` is no resource of `{service}`: give the path of one"
            )));
        };
        Ok(Resource {
            service,
            kind,
            id,
            key,
            path,
        })
    }

    async fn must_be_there(&self, resource: &Resource, asked: &Adopt) -> Result<(), Problem> {
        let headers = self.headers(resource.service.as_str(), &resource.kind, &asked.credential)?;
        let answer = self
            .core
            .asks
            .get(&resource.service, &resource.path, headers)
            .await?;
        let Resource { service, path, .. } = resource;
        let here = &self.core.site;
        let detail = match answer.status {
            200..=299 => return Ok(()),
            401 | 403 => format!(
                "`{service}` at `{here}` does not show `{path}` ({}): give a credential that may read it",
                answer.status
            ),
            404 | 410 => format!("`{service}` at `{here}` has no `{path}`: check the path"),
            status => format!("`{service}` at `{here}` answered {status} for `{path}`: try again later"),
        };
        Err(Problem::new(Code::SetRefused, detail).at(here).of(service))
    }

    /// The set that the resource's name or id belongs to already.
    async fn set_of(&self, resource: &Resource) -> Result<Option<Set>, Problem> {
        let hint = SetHint {
            service: Some(resource.service.to_string()),
            kind: Some(resource.kind.clone()),
        };
        let key = resource.key.clone();
        let found = self
            .read(move |core, read| find::set(core, read, &key, &hint))
            .await;
        match found {
            Ok(set) if set.is_deleted() => Ok(None),
            Ok(set) => Ok(Some(set)),
            Err(problem) if problem.code == Code::UnknownReplicaSet => Ok(None),
            Err(problem) => Err(problem),
        }
    }

    /// Makes the resource the replica that a set lacks here.
    async fn claim(&self, resource: &Resource, set: &Set) -> Result<MetaId, Problem> {
        let meta = &set.record().meta;
        let is_member = set
            .members()
            .get(&self.core.site)
            .is_some_and(|me| me.leaving.is_none());
        if set.local().is_some() || !is_member {
            let detail = format!(
                "`{}` of `{}` belongs to the replica set `{meta}`: add sites to that",
                resource.path, resource.service
            );
            return Err(Problem::new(Code::SetRefused, detail).at(&self.core.site));
        }
        let local = LocalId::new(&resource.id);
        self.tell(meta, Event::Claim { local }).await?;
        Ok(meta.clone())
    }

    /// Begins a set of this site alone.
    async fn begin(&self, resource: &Resource) -> Result<MetaId, Problem> {
        let Resource {
            service, kind, id, ..
        } = resource;
        let surroundings = &*self.core.surroundings;
        let profile = surroundings.profile();
        let rules = profile.kind(service, kind);
        // Other sites make theirs under the same id where the application lets them.
        let name = (rules.id_rule() != IdRule::Server).then(|| id.clone());
        let recognise = draft::recognise(rules.recognise(name.is_some()));
        let new_id = match &name {
            Some(_) => NewId::Given(mint::uuid(surroundings)),
            None => mint::new_id(surroundings, &self.core.site, service.as_str(), kind)?,
        };
        let birth = Birth {
            service: service.clone(),
            kind: kind.clone(),
            parents: self.parents(&profile, resource)?,
            name,
            sites: BTreeSet::from([self.core.site.clone()]),
            span: None,
            generation: 0,
            consistency: Consistency::Eventual,
        };
        let (token, waiter) = self.register();
        let input = Input::Adopt {
            id: new_id,
            birth: Box::new(birth),
            local: LocalId::new(id),
            token,
            recognise,
        };
        self.core
            .engine
            .post(input)
            .map_err(|busy| busy.problem(&self.core.site))?;
        let stage = self.answered(&MetaId::new(&resource.key), waiter).await?;
        match (stage.answer, stage.told) {
            (Some(Answer::Noted { .. }), Some(told)) => Ok(MetaId::new(&told.set)),
            (answer, _) => Err(self.refusal(&MetaId::new(&resource.key), answer.as_ref())),
        }
    }

    /// The ids of the parents in the path, as meta-ids where they are replicated.
    fn parents(&self, profile: &Profile, resource: &Resource) -> Result<Vec<String>, Problem> {
        let Resource {
            service, key, path, ..
        } = resource;
        let failed = |error: cheops_store::Error| problems::store(&self.core.site, &error);
        let mut parents: Vec<String> = split_key(key, key.matches('/').count() + 1)
            .into_iter()
            .map(String::from)
            .collect();
        parents.pop();
        let read = self.core.store.read().map_err(failed)?;
        let finder = Finder::new(&read, profile);
        // Innermost first, the resource itself in front.
        let within = profile.within(service, path);
        for (parent, address) in parents.iter_mut().rev().zip(within.iter().skip(1)) {
            if let (Some(id), Some(key)) = (&address.id, &address.key)
                && let Some((meta, _)) = finder.find(service, &address.kind, id, key).map_err(failed)?
            {
                meta.as_str().clone_into(parent);
            }
        }
        Ok(parents)
    }
}
