//! Operations of other callers, asked for by what can be counted up or guessed.

use anyhow::{Context as _, Result};
use serde_json::json;

use super::{Scene, Verdict};
use crate::hostile::{client, own};

pub(super) fn play(scene: &Scene<'_>) -> Result<Verdict> {
    let victim = scene.victim();
    let number = own::some_operation(victim)?;
    let headers = [("X-Scope", "B: site1 & gone"), ("Prefer", "respond-async")];
    let body = json!({"name": "kept too"});
    let made = client::call(victim.b.addr, ("POST", "/items"), &headers, Some(&body))?;
    let place = made
        .header("location")
        .with_context(|| format!("{} has no place to ask at", made.status))?;
    // What the caller got leads there; so that a refusal of the others means something.
    let own = client::call(victim.b.addr, ("GET", place), &[], None)?.status;

    let (start, last) = place.split_at(place.len() - 1);
    let neighbour = format!("{start}{}", if last == "0" { "1" } else { "0" });
    let (prefix, _) = number
        .rsplit_once('.')
        .context("numbers end in one of an author")?;
    let mut guesses = vec![format!("/.cheops/operations/{number}"), neighbour];
    guesses.extend((1..50).map(|seq| format!("/.cheops/operations/{prefix}.{seq}")));
    let mut shown = Vec::new();
    for guess in &guesses {
        for to in [victim.b.addr, victim.c.addr] {
            let request = client::request(("GET", guess), &[], None);
            let mut stream = client::connect(client::STRANGER, to)?;
            if client::exchange(&mut stream, request.as_bytes())?.status == 200 {
                shown.push(guess.as_str());
            }
        }
    }
    let what = match shown.first() {
        None => format!("{} guesses at two ports show nothing", guesses.len()),
        Some(first) => format!(
            "{} guesses show an operation to a stranger, e.g. {first}",
            shown.len()
        ),
    };
    Ok(Verdict::of(
        shown.is_empty() && own == 200,
        format!("{what}; its caller is answered {own}"),
    ))
}
