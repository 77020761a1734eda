//! A resource that was there before its set.

use std::collections::BTreeSet;

use super::Step;
use crate::{
    Answer, Birth, Context, Draft, Effect, Footprint, LocalId, MetaId, OpId, Outcome, Recognise, Request,
    Set, Site, Token, Verb,
};

/// Begins a set with a resource that this site's application already has. The set has this site alone,
/// whatever `birth` says; others come by [`Verb::Join`] and get its state. `recognise` says how their
/// creates are recognised. The answer is [`Answer::Noted`].
pub fn adopt(
    site: &mut Site,
    meta: &MetaId,
    mut birth: Birth,
    local: LocalId,
    token: Token,
    recognise: Recognise,
    context: &Context<'_>,
) -> (Set, Vec<Effect>) {
    birth.sites = BTreeSet::from([site.name().clone()]);
    let mut set = Set::born(meta, &birth);
    set.begun = site.start();
    let mut step = Step::new(site, &mut set, context);
    // Its create is a record only: it is stable at once, so no other site ever gets to see it.
    let id = OpId {
        author: step.set.author(step.site),
        seq: 1,
    };
    let (op, _) = step.record(
        id.clone(),
        Draft {
            token,
            verb: Verb::Create(Box::new(birth)),
            touches: Footprint::Whole,
            recognise,
            needs: Vec::new(),
            request: Request::nothing(),
            conditions: None,
            credential: None,
            promised: false,
            remakes: false,
        },
    );
    step.insert(op, None);
    step.set.local = Some(local);
    step.conclude(&id, Outcome::Installed);
    step.moved();
    step.answer(token, Answer::Noted { operation: id });
    let effects = step.finish();
    (set, effects)
}
