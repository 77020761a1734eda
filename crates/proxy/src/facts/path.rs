//! Paths that the agent and an application may read in different ways.

use cheops_glue::{Doing, has_one_reading};
use cheops_types::{Code, Problem};
use http::header::CONTENT_TYPE;

use super::{Asking, concerns};

/// Refuses a path that means different things in different readings, if one of them concerns replication or the
/// glue describes it: such a write would change one replica and leave the others, unseen. All else passes as it is.
pub(crate) fn check_path(asking: &Asking<'_>) -> Result<(), Problem> {
    if has_one_reading(asking.path) {
        return Ok(());
    }
    check(asking, false)
}

/// Refuses every path with different readings, for a request that begins a replica set: nobody could say of what.
pub(super) fn check_path_of_set(asking: &Asking<'_>) -> Result<(), Problem> {
    check(asking, true)
}

fn check(asking: &Asking<'_>, is_strict: bool) -> Result<(), Problem> {
    let Asking {
        world,
        shared,
        service,
        path,
        ..
    } = *asking;
    let profile = &world.profile;
    let content_type = asking.headers.get(CONTENT_TYPE);
    let doing = Doing {
        method: asking.method.as_str(),
        content_type: content_type.and_then(|value| value.to_str().ok()),
    };
    let mine = profile.reading(service, path, doing);
    for other_path in profile.other_readings(service, path) {
        let other = profile.reading(service, &other_path, doing);
        if mine == other {
            continue;
        }
        let matters = is_strict
            || mine.is_described()
            || other.is_described()
            || concerns(world, shared, service, path)
            || concerns(world, shared, service, &other_path);
        if matters {
            return Err(ambiguous(service, path, &other_path));
        }
    }
    Ok(())
}

fn ambiguous(service: &str, path: &str, other: &str) -> Problem {
    let detail = format!(
        "service `{service}` may read the path `{path}` as `{other}`, which means something else: send the path that \
         is meant, without escaped slashes, dots or parameters; or say with `reads-paths` in the glue how the \
         service reads paths"
    );
    Problem::new(Code::PathAmbiguous, detail)
}
