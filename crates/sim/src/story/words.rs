//! What happens, in a few words each.

use cheops_replica::{
    Answer, Attempt, Content, Draft, Form, Message, OpId, Operation, Outcome, Request, State, Vector, Verb,
    Why,
};

use crate::{Change, Resource};

/// `s1:3`, with life and stay where they are not the first.
pub(crate) fn id(id: &OpId) -> String {
    format!("{}:{}", author(&id.author), id.seq)
}

fn author(author: &cheops_replica::Author) -> String {
    match (author.incarnation, author.stay) {
        (1, 0) => author.site.to_string(),
        (incarnation, stay) => format!("{}/{incarnation}.{stay}", author.site),
    }
}

pub(crate) fn vector(vector: &Vector) -> String {
    let parts: Vec<_> = vector
        .iter()
        .map(|(of, seq)| format!("{}:{seq}", author(of)))
        .collect();
    if parts.is_empty() {
        "nothing".to_owned()
    } else {
        parts.join(" ")
    }
}

pub(crate) fn resource(resource: &Resource) -> String {
    let mut parts: Vec<_> = resource
        .fields
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    parts.push(format!("count={}", resource.count));
    if resource.part > 0 {
        parts.push(format!("part={}", resource.part));
    }
    parts.join(" ")
}

fn body(request: &Request) -> String {
    match Change::of(&request.body) {
        Change::Whole(whole) => resource(&whole),
        Change::Fields(fields) => {
            let parts = fields.iter().map(|(name, value)| format!("{name}={value}"));
            parts.collect::<Vec<_>>().join(" ")
        }
        Change::Add(n) => format!("add {n}"),
        Change::Double(n) => format!("double, add {n}"),
    }
}

fn verb(verb: &Verb, request: &Request) -> String {
    match verb {
        Verb::Create(birth) => {
            let sites: Vec<_> = birth.sites.iter().map(ToString::to_string).collect();
            // The create of an adopted resource says nothing.
            let has_body =
                !matches!(&request.body, cheops_types::KeptBody::Inline(bytes) if bytes.is_empty());
            let with = if has_body {
                body(request)
            } else {
                "what is there".to_owned()
            };
            format!("create at {} with {with}", sites.join(" "))
        }
        Verb::Replace => format!("replace by {}", body(request)),
        Verb::Merge => format!("merge {}", body(request)),
        Verb::Action { .. } => body(request),
        Verb::Delete => "delete".to_owned(),
        Verb::Join { site, .. } => format!("let {site} in"),
        Verb::Leave { site } => format!("let {site} go"),
        Verb::Expel { site } => format!("remove {site} by force"),
        Verb::Forgo { lost } => {
            let lost: Vec<_> = lost.iter().map(|op| id(&op.id)).collect();
            format!("go on without {}", lost.join(" "))
        }
        Verb::Dismiss { loser } => format!("dismiss the conflict {}", id(loser)),
    }
}

pub(crate) fn draft(draft: &Draft) -> String {
    verb(&draft.verb, &draft.request)
}

pub(crate) fn operation(op: &Operation) -> String {
    format!("{} ({})", id(&op.id), verb(&op.verb, &op.request))
}

pub(crate) fn form(form: &Form) -> String {
    let state = |state: &[u8]| {
        serde_json::from_slice::<Resource>(state).map_or("a state".to_owned(), |state| resource(&state))
    };
    match form {
        Form::Create { request } => format!("create {}", body(request)),
        Form::Remake { request, .. } => format!("set it to what a create makes: {}", body(request)),
        Form::Repeat { request, .. } => body(request),
        Form::CreateFrom { state: from } => {
            format!("create from another replica's state: {}", state(from))
        }
        Form::Overwrite { state: by, .. } => {
            format!("overwrite by another replica's state: {}", state(by))
        }
        Form::Delete { .. } => "delete".to_owned(),
    }
}

pub(crate) fn attempt(attempt: &Attempt) -> String {
    match attempt {
        Attempt::Answered { status, .. } => status.to_string(),
        Attempt::NotSent => "that it could not be sent".to_owned(),
        Attempt::Unknown => "nothing".to_owned(),
    }
}

pub(crate) fn answer(answer: &Answer) -> String {
    match answer {
        Answer::Accepted { operation, status } => format!("{status}, accepted as {}", id(operation)),
        Answer::Noted { operation } => format!("accepted as {}", id(operation)),
        Answer::Refused { status } => format!("refused, {status}"),
        Answer::NotHere(reason) => format!("not here: {reason:?}"),
        Answer::Unknown { status: Some(status) } => format!("{status}, in doubt"),
        Answer::Unknown { status: None } => "in doubt".to_owned(),
        Answer::Gone => "gone".to_owned(),
    }
}

/// What a message brings that its receiver, who holds `known`, does not have; none where that is nothing but a
/// report.
pub(crate) fn content(message: &Message, known: Option<&Vector>) -> Option<String> {
    Some(match &message.content {
        // A digest is told again until it is answered; what it leads to is told by itself.
        Content::Report | Content::Digest { .. } => return None,
        Content::Operations(carried) => {
            let ids = carried.iter().map(|carried| &carried.op.id);
            let news = ids.filter(|id| !known.is_some_and(|known| known.includes(id)));
            let news: Vec<_> = news.map(id).collect();
            return (!news.is_empty()).then(|| news.join(" "));
        }
        Content::Snapshot(snapshot) => format!("a snapshot at {}", vector(&snapshot.at)),
        Content::State { at, .. } => format!("the state at {} as a repair", vector(at)),
        Content::Expelled => "that it is out of the set".to_owned(),
    })
}

pub(crate) fn state(state: State) -> String {
    match state {
        State::Waiting(why) => format!("waits: {}", why_words(why)),
        State::Done(outcome) => outcome_words(outcome),
    }
}

fn why_words(why: Why) -> String {
    match why {
        Why::Turn => "for its turn".to_owned(),
        Why::Retry { status: Some(status) } => format!("to be tried again after {status}"),
        Why::Retry { status: None } => "to be tried again".to_owned(),
        Why::Blocked { status } => format!("blocked by {status}"),
        Why::NeedsCredentials => "for a credential".to_owned(),
        Why::Quarantined => "quarantined, its time is too far ahead".to_owned(),
        Why::InDoubt => "in doubt".to_owned(),
    }
}

fn outcome_words(outcome: Outcome) -> String {
    match outcome {
        Outcome::Executed => "has executed".to_owned(),
        Outcome::Covered => "is covered by later ones".to_owned(),
        Outcome::Superseded => "is superseded by a delete".to_owned(),
        Outcome::Lost => "came too late to be put in order".to_owned(),
        Outcome::Refused { status } => format!("is refused with {status}"),
        Outcome::Abandoned => "is given up".to_owned(),
        Outcome::NoReplica => "has no replica to apply to".to_owned(),
        Outcome::Installed => "came with another replica's state".to_owned(),
        Outcome::Noted => "is noted".to_owned(),
    }
}

/// What an invariant wants.
pub(crate) fn wanted(invariant: &str) -> &'static str {
    match invariant {
        "calm" => "the members of a set agree on who they are and on what has executed",
        "rest" => "some time after everything works again, all sets are at rest",
        "end" => "a schedule comes to an end",
        "clock" => "an operation comes after everything that its origin had executed, also in time",
        "conflicts" => "every concurrent loser, and nothing else, is a conflict at every member",
        "doubt" => "an execution in doubt is never repeated",
        "durable" => "no acknowledged operation is lost while a holder's disk survives",
        "equal" => "all replicas of a set are equal, and applications hold nothing else",
        "involved" => "no message goes to a site that is not involved",
        "needs" => "nothing executes before the resources that it refers to",
        "once" => "no operation takes effect twice at a site, harmless ones aside",
        "order" => "the replicas are what the operations make, one after the other, in the order of the set",
        "parts" => "each site has its part of a count that is divided, and the parts add up",
        "pruned" => "nothing is dropped that a site still needs",
        "panic" => "the engine's own assertions hold",
        _ => "it holds",
    }
}
