//! Writes to a replicated resource under other spellings of its path: at all sites, or at none.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::{Scene, Verdict, counted, until};
use crate::hostile::client;

pub(super) fn play(scene: &Scene<'_>) -> Result<Verdict> {
    let victim = scene.victim();
    let body = json!({"name": "spelled", "price": 0});
    let scope = [("X-Scope", "B: site1 & site2"), ("Prefer", "wait=10")];
    let made = client::call(victim.b.addr, ("POST", "/items"), &scope, Some(&body))?;
    let id = made.json()?["id"].as_u64().with_context(|| made.text())?;
    let body = json!({"name": "alone", "price": 0});
    let alone = client::call(victim.b.addr, ("POST", "/items"), &[], Some(&body))?;
    let alone = alone.json()?["id"].as_u64().with_context(|| alone.text())?;
    let paths = [
        format!("/items%2F{id}"),
        format!("/items/./{id}"),
        format!("/./items/{id}"),
        format!("/x/../items/{id}"),
        format!("/items/x/../{id}"),
        format!("/items/{alone}/../{id}"),
        format!("/items/{id}/../{alone}"),
        format!("/items/{id}%2F..%2F{alone}"),
        format!("/items/{id}/%2e%2e/{alone}"),
        format!("/items/%2e/{id}"),
        format!("//items/{id}"),
        format!("/items//{id}"),
        format!("/items/{id}/"),
        format!("/items/{id};v=1"),
        format!("/items;v=1/{id}"),
        format!("/%69tems/{id}"),
        format!("/items/%3{}{}", &id.to_string()[..1], &id.to_string()[1..]),
        format!("/items\\{id}"),
        format!("/items/{id}%00"),
        format!("http://cheops/items/{id}"),
    ];
    let mut answers = Vec::new();
    let mut wrong = Vec::new();
    for (price, path) in (1_000..).zip(&paths) {
        let request = client::request(("PATCH", path), &[], Some(&json!({"price": price})));
        let mut stream = client::connect(client::STRANGER, victim.b.addr)?;
        let answer = client::exchange(&mut stream, request.as_bytes());
        answers.push(answer.map_or(0, |answer| answer.status));
        if !until(|| Ok(price_of(scene, 0, "spelled")? == price_of(scene, 1, "spelled")?))? {
            wrong.push(path.clone());
        }
    }
    let untouched = price_of(scene, 0, "alone")? == json!(0);
    let what = if wrong.is_empty() {
        "the two sites have the same".to_owned()
    } else {
        format!("ONE SITE ONLY was changed by {}", wrong.join(" "))
    };
    Ok(Verdict::of(
        wrong.is_empty() && untouched,
        format!("{} spellings answered {}; {what}", paths.len(), counted(&answers)),
    ))
}

/// As the application has it.
fn price_of(scene: &Scene<'_>, site: usize, name: &str) -> Result<Value> {
    let list = client::call(
        scene.stage.applications[site].port.addr,
        ("GET", "/items?limit=1000"),
        &[],
        None,
    )?;
    let list = list.json()?;
    let found = list["items"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|row| row["name"] == name);
    Ok(found.map_or(Value::Null, |row| row["price"].clone()))
}
