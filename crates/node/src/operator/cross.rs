//! Resources that span sites.

use cheops_glue::{Own, join_key};
use cheops_replica::{Answer, Draft, Footprint, MetaId, Recognise, Request, Set, Verb};
use cheops_store::{Read as _, ReadSession, Span};
use cheops_types::{Code, KeptBody, Problem, Share, SiteName, SpanForm};

use super::{Operator, find, view::View};
use crate::{
    core::Core,
    executor::Same,
    inbox::Input,
    model::{AddSite, CrossDetail, CrossList, CrossSummary, FlaggedName, Rebalance, SetFilter, SetHint},
    names, problems,
    rows::{self, Names},
};

impl Operator {
    /// A page of the resources that span sites, in the order of their meta-ids.
    pub async fn crosses(&self, filter: SetFilter) -> Result<CrossList, Problem> {
        let filter = SetFilter {
            cross: true,
            ..filter
        };
        self.read(move |core, read| {
            let sets = super::lists::sets(core, read, &filter)?;
            let mut resources = Vec::new();
            for summary in sets.sets {
                let set = rows::set(read, &MetaId::new(&summary.meta_id));
                let set = set.map_err(|error| problems::store(&core.site, &error))?;
                if let Some(set) = set.filter(|set| set.record().span.is_some()) {
                    resources.extend(self::summary(core, read, &set));
                }
            }
            Ok(CrossList {
                resources,
                next: sets.next,
            })
        })
        .await
    }

    pub async fn cross(&self, id: &str, hint: &SetHint) -> Result<CrossDetail, Problem> {
        let (id, hint) = (id.to_owned(), hint.clone());
        self.read(move |core, read| {
            let set = find::set(core, read, &id, &hint)?;
            detail(core, read, &set).ok_or_else(|| not_cross(core, &set))
        })
        .await
    }

    /// Lets the resource reach another site. What is divided there is nothing, until it is divided anew.
    pub async fn add_extent(&self, id: &str, hint: &SetHint, add: &AddSite) -> Result<CrossDetail, Problem> {
        let set = self.load_cross(id, hint).await?;
        self.add_site(set.record().meta.as_str(), &SetHint::default(), add)
            .await?;
        self.cross(set.record().meta.as_str(), &SetHint::default()).await
    }

    /// Takes a site out; its part can be handed to the others at once.
    pub async fn remove_extent(
        &self,
        id: &str,
        hint: &SetHint,
        site: &SiteName,
        force: bool,
        rebalance: Option<&Rebalance>,
    ) -> Result<CrossDetail, Problem> {
        let set = self.load_cross(id, hint).await?;
        let meta = set.record().meta.as_str();
        self.remove_site(meta, &SetHint::default(), site, force).await?;
        if let Some(rebalance) = rebalance.filter(|_| is_divided(&set)) {
            return self.rebalance(meta, &SetHint::default(), rebalance).await;
        }
        self.cross(meta, &SetHint::default()).await
    }

    /// Divides the counts anew among the sites that are there and stay.
    pub async fn rebalance(
        &self,
        id: &str,
        hint: &SetHint,
        asked: &Rebalance,
    ) -> Result<CrossDetail, Problem> {
        let set = self.load_cross(id, hint).await?;
        let shares = self.new_shares(&set, asked)?;
        let record = set.record();
        let credential = self.seal(record.service.as_str(), &record.kind, &asked.credential)?;
        let caller = self.sponsor(&record.meta, credential.as_ref()).await?;
        let request = Request {
            caller,
            ..self.recount(&set, &shares)?
        };
        let (token, waiter) = self.register();
        let draft = Draft {
            token,
            verb: Verb::Merge,
            touches: Footprint::parts(shares.iter().map(|share| share.pointer.as_str())),
            recognise: Recognise::Nothing,
            needs: Vec::new(),
            request: Request { shares, ..request },
            conditions: None,
            credential,
            promised: false,
            remakes: false,
        };
        let input = Input::Request {
            set: record.meta.clone(),
            draft: Box::new(draft),
        };
        let posted = self.core.engine.post(input);
        posted.map_err(|busy| busy.problem(&self.core.site))?;
        let stage = self.answered(&record.meta, waiter).await?;
        match stage.answer {
            Some(Answer::Accepted { .. }) => self.cross(record.meta.as_str(), &SetHint::default()).await,
            answer => Err(self.refusal(&record.meta, answer.as_ref())),
        }
    }

    async fn load_cross(&self, id: &str, hint: &SetHint) -> Result<Set, Problem> {
        let set = self.load(id, hint).await?;
        if set.record().span.is_none() {
            return Err(not_cross(&self.core, &set));
        }
        Ok(set)
    }

    fn new_shares(&self, set: &Set, asked: &Rebalance) -> Result<Vec<Share>, Problem> {
        let refused = |detail: String| Problem::new(Code::SetRefused, detail).at(&self.core.site);
        let meta = &set.record().meta;
        let span = set
            .record()
            .span
            .as_ref()
            .filter(|_| is_divided(set) && !set.shares().is_empty());
        let Some(span) = span else {
            return Err(refused(format!(
                "nothing in `{meta}` is divided: only counts are"
            )));
        };
        if asked.total.is_some() && set.shares().len() > 1 {
            return Err(refused(format!(
                "`{meta}` has several counts: change each by its own request"
            )));
        }
        let members = set.members().iter();
        let staying: Vec<&SiteName> = members
            .filter(|(_, member)| member.leaving.is_none())
            .map(|(site, _)| site)
            .collect();
        let divide = |share: &Share| {
            let weights = asked.weights.as_deref().unwrap_or(&share.weights);
            let total = asked.total.unwrap_or_else(|| share.total());
            span.divide(share.pointer.clone(), total, staying.iter().copied(), weights)
        };
        Ok(set.shares().iter().map(divide).collect())
    }

    /// The request that sets counts, as a caller would make it.
    fn recount(&self, set: &Set, shares: &[Share]) -> Result<Request, Problem> {
        let record = set.record();
        let profile = self.core.surroundings.profile();
        let kind = profile.kind(&record.service, &record.kind);
        let content_type = kind.merge_type().ok_or_else(|| {
            let detail = format!(
                "the glue names no merge patch for a `{}`: change the count by a request of your own",
                record.kind
            );
            Problem::new(Code::GlueIncomplete, detail).at(&self.core.site)
        })?;
        let wholes = shares.iter().map(|share| (share.pointer.as_str(), share.total()));
        let body = kind
            .with_counts(&kind.empty_document(), "", wholes)
            .map_err(|error| Problem::new(Code::Internal, error.to_string()).at(&self.core.site))?;
        let path = kind.item_path(&join_key(&record.parents, "x"));
        Ok(Request {
            method: "PATCH".to_owned(),
            path: profile.map_path(&record.service, &path, Own::Hole, &Same),
            headers: vec![("content-type".to_owned(), content_type.to_owned())],
            body: KeptBody::Inline(body.into()),
            ..super::no_request()
        })
    }
}

fn is_divided(set: &Set) -> bool {
    let span = set.record().span.as_ref();
    span.is_some_and(|span| span.form == SpanForm::Divided)
}

fn not_cross(core: &Core, set: &Set) -> Problem {
    let detail = format!(
        "`{}` has a replica at each site and spans none: see `cheops replicas show`",
        set.record().meta
    );
    Problem::new(Code::SetRefused, detail).at(&core.site)
}

fn summary(core: &Core, read: &ReadSession, set: &Set) -> Option<CrossSummary> {
    let record = set.record();
    let span = record.span.as_ref()?;
    let mut summary = View::new(&core.site, set).summary();
    find::complete(read, set, &mut summary);
    let key = record.meta.as_str().to_owned();
    let names = read
        .scan::<Names>(&Span::under(&key), usize::MAX)
        .unwrap_or_default();
    Some(CrossSummary {
        form: span.form,
        prime: span.prime(set.members().keys()),
        shares: set.shares().to_vec(),
        names: names.iter().filter(|((_, name), _)| !name.is_empty()).count(),
        flagged: names::flagged(core, &record.meta).len(),
        set: summary,
    })
}

fn detail(core: &Core, read: &ReadSession, set: &Set) -> Option<CrossDetail> {
    let detail = View::new(&core.site, set).detail();
    let flagged = names::flagged(core, &set.record().meta).into_iter();
    let flagged_names = flagged.map(|(name, holding)| FlaggedName {
        name,
        owner: holding.owner,
        since_ms: holding.since_ms,
        rivals: holding.rivals.into_iter().map(|rival| rival.owner).collect(),
    });
    Some(CrossDetail {
        cross: summary(core, read, set)?,
        unreserved: set.record().span.as_ref()?.unreserved,
        extents: detail.replicas,
        removed: detail.removed,
        flagged_names: flagged_names.collect(),
    })
}
