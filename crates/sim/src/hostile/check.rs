//! What has to hold.

use cheops_replica::{Author, Content, Message, Set, Site, Vector};

use super::{Arena, BYTES_FACTOR, BYTES_MIN};

impl Arena {
    pub(super) fn check_size(&self) -> Result<(), String> {
        for (at, player) in self.players.iter().enumerate().skip(1) {
            for (meta, set) in &player.sets {
                let bytes = serde_json::to_vec(set).map_or(0, |bytes| bytes.len());
                check_numbers(set).map_err(|what| format!("ends: {meta} of s{at} has {what}"))?;
                let came = player.came.get(meta).copied().unwrap_or(0);
                if bytes > BYTES_MIN + BYTES_FACTOR * came {
                    return Err(format!("size: {meta} of s{at} has {bytes} bytes, {came} came"));
                }
            }
        }
        Ok(())
    }
}

/// Whether a message knows of more numbers of this start of the agent than the site has given, in the stay that it has
/// or in one to come.
pub(super) fn claims_numbers(site: &Site, set: &Set, message: &Message) -> bool {
    let stay = set.members().get(site.name()).map_or(0, |me| me.stay);
    let is_own = |author: &Author| {
        author.site == *site.name() && author.incarnation == site.start() && author.stay >= stay
    };
    let at = match &message.content {
        Content::Snapshot(snapshot) => Some(&snapshot.at),
        Content::Digest { at, .. } | Content::State { at, .. } => Some(at),
        _ => None,
    };
    let claims = [&message.report.held, &message.report.done].into_iter().chain(at);
    let mut numbers = claims.flat_map(Vector::iter);
    numbers.any(|(author, last)| is_own(author) && last > set.held().last(author))
}

/// Whether all numbers are far from where they end: one that is not would wrap, or stand still, one day.
fn check_numbers(set: &Set) -> Result<(), String> {
    const FAR: u64 = 1 << 60;
    let vectors = [set.held(), set.done(), set.pruned()];
    let last = vectors
        .iter()
        .flat_map(|vector| vector.iter())
        .map(|(_, last)| last);
    let stays = set.members().values().map(|member| u64::from(member.stay) << 32);
    let times = set.log().map(|entry| entry.op.time.millis);
    match last
        .chain(stays)
        .chain(times)
        .chain([set.epoch()])
        .find(|it| *it >= FAR)
    {
        Some(number) => Err(number.to_string()),
        None => Ok(()),
    }
}

/// A message in a few words.
pub(super) fn summary(to: usize, message: &Message) -> String {
    let content = format!("{:?}", message.content);
    let content: String = content.chars().take(12).collect();
    let Message {
        set, from, report, ..
    } = message;
    format!("{from} to s{to}, {set}: {content}, ask {}", report.ask)
}
