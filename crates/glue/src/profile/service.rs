//! One service of the glue file.

use std::collections::BTreeMap;

use cheops_types::ServiceName;
use toml::de::DeTable;

use super::{
    Service, caller, calls, replication,
    resources::{Draft, Mention},
    section::{At, Mistakes, Section, Source},
};
use crate::{GlueError, Kind};

/// Reads a service. None: something is wrong, and noted.
pub(super) fn read<'t>(
    source: Source<'t>,
    service: &ServiceName,
    name: &At<&'t str>,
    table: &'t DeTable<'t>,
    mentions: &mut Vec<Mention>,
    mistakes: &mut Mistakes,
) -> Result<Option<Service>, GlueError> {
    let title = format!("services.{}", name.value);
    let known: Vec<_> = ["resources", "prefixes"]
        .into_iter()
        .chain(calls::KEYS)
        .chain(caller::KEYS)
        .collect();
    let section = Section::open(source, &*title, table, name.span.clone(), &known)?;
    let access = mistakes.note(caller::read(&section));
    let draft = Draft::read(service, &section, mentions, mistakes)?;
    let context_free = mistakes.note(calls::read_context_free(&section, &draft));
    let effect_free = mistakes.note(calls::read_effect_free(&section));
    let streams = mistakes.note(calls::read_streams(&section));
    let per_site = mistakes.note(calls::read_per_site(&section));
    let reads = mistakes.note(calls::read_reads(&section));
    // Half of the paths are no ground to judge the others.
    let (
        Some(access),
        Some(context_free),
        Some(effect_free),
        Some(streams),
        Some(per_site),
        Some(reads),
        true,
    ) = (
        access,
        context_free,
        effect_free,
        streams,
        per_site,
        reads,
        mistakes.is_empty(),
    )
    else {
        return Ok(None);
    };
    let (routes, kinds) = draft.finish(source)?;
    Ok(Some(Service {
        routes,
        kinds,
        access,
        context_free,
        effect_free,
        streams,
        per_site,
        reads,
    }))
}

/// Complains about the first reference to a kind that is not there.
pub(super) fn check_mentions(
    source: Source<'_>,
    services: &BTreeMap<ServiceName, Service>,
    mentions: &[Mention],
) -> Result<(), GlueError> {
    for At { value, span } in mentions {
        let kinds = services.get(&value.service).map(|service| &*service.kinds);
        let Some(kinds) = kinds else {
            let names: Vec<&str> = services.keys().map(|name| &**name).collect();
            let message = format!("no service `{}` is described", value.service);
            return Err(source.unknown(span, message, &value.service, &names));
        };
        // Kinds that are not described go by their collection's path.
        let is_known = kinds.iter().any(|kind| *kind.name() == *value.kind);
        if !is_known && !value.kind.starts_with('/') {
            let names: Vec<&str> = kinds.iter().map(Kind::name).collect();
            let message = format!("services.{} has no kind `{}`", value.service, value.kind);
            return Err(source.unknown(span, message, &value.kind, &names));
        }
    }
    Ok(())
}

/// Complains about ranges of integers that share a part: two kinds would draw the same meta-ids. The same range
/// for several kinds is one range, drawn from once.
pub(super) fn check_ranges(source: Source<'_>, root: &Section<'_>) -> Result<(), GlueError> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for (_, service) in root.tables("services")? {
        let resources = service
            .get("resources")
            .and_then(|resources| resources.get_ref().as_array());
        let tables = resources.into_iter().flatten();
        for value in tables.filter_map(|resource| resource.get_ref().as_table()?.get("meta-id")) {
            let Some(range) = replication::range(value) else {
                continue;
            };
            let overlaps = |other: &&(u64, u64)| **other != range && other.0 <= range.1 && range.0 <= other.1;
            if let Some((first, last)) = ranges.iter().find(overlaps) {
                return Err(source
                    .error(
                        &value.span(),
                        format!("the range overlaps with [{first}, {last}] of another kind"),
                    )
                    .fix("use the very same range, or ranges that share nothing"));
            }
            ranges.push(range);
        }
    }
    Ok(())
}
