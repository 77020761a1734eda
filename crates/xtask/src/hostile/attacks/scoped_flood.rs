//! Scopes that name a site that is down, again and again.

use anyhow::Result;
use cheops_types::Limits;

use super::{Scene, Verdict, flood, told};
use crate::hostile::{
    client,
    stage::{ALL_GONE, GONE},
};

const CALLERS: usize = 64;

pub(super) fn play(scene: &Scene<'_>) -> Result<Verdict> {
    let to = scene.victim().c.addr;
    let long = format!("C: {}", parts().join(" ; "));
    scene.stage.recorder.take();
    let once = client::request(("GET", "/notes?q=/fail"), &[("X-Scope", &long)], None);
    let mut stream = client::connect(client::STRANGER, to)?;
    let status = client::exchange(&mut stream, once.as_bytes()).map_or(0, |answer| answer.status);
    let asked = scene.stage.recorder.take().len();

    let request = client::request(
        ("GET", "/notes"),
        &[("X-Scope", &format!("C: {GONE} ; site1"))],
        None,
    );
    let counts = flood(CALLERS, scene.flood, move || {
        let mut stream = client::connect(client::STRANGER, to)?;
        Ok(client::exchange(&mut stream, request.as_bytes())?.status)
    });
    scene.stage.recorder.take();
    Ok(Verdict::of(
        asked <= Limits::default().site_asks_max,
        format!(
            "one scope of {} bytes became {asked} requests here (answered {status}); {CALLERS} callers at once: {}",
            long.len(),
            told(&counts)
        ),
    ))
}

/// Each part is another one, and each is this site's affair too. Its service fails, so that the next is tried.
fn parts() -> Vec<String> {
    let part = |which: usize| {
        let named = ALL_GONE.iter().enumerate().filter(|(at, _)| which >> at & 1 == 1);
        let named: Vec<_> = named.map(|(_, site)| *site).collect();
        format!("(site1 & {})", named.join(" & "))
    };
    (1..1 << ALL_GONE.len()).map(part).collect()
}
