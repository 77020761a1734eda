//! A tour through every collaboration between the sites. Each step shows a command, the answer
//! and its receipt, and checks that they are as they should be.

mod check;
mod json_text;
mod script;
mod stage;

use serde_json::json;

use crate::demo::{overview, screen::Screen, sites::Map, tour::stage::Stage};

/// Plays the tour; false when a step was not as it should be.
pub(super) async fn play(map: &Map, screen: Screen) -> anyhow::Result<bool> {
    screen.line(&overview::table(map, screen));
    let mut stage = Stage::new(map, screen);
    script::play(&mut stage).await?;
    let right = stage.finish();
    if screen.is_json() {
        let mut report = map.to_json();
        report["steps"] = json!(stage.steps());
        report["right"] = json!(right);
        screen.json(&report);
    }
    Ok(right)
}
