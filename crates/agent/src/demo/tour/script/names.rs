//! One name, made at two sites that do not hear of each other.

use cheops_types::PlanKind;
use serde_json::json;

use super::replicate::agree;
use crate::demo::{exchange::Call, tour::stage::Stage};

const BOTH: &str = "site1 & site2";
const LABEL: &str = "/labels/blue";

pub(super) async fn play(stage: &mut Stage<'_>) -> anyhow::Result<()> {
    let sites = [stage.map.sites[0].b(), stage.map.sites[1].b()];
    stage.map.cut("site2");
    stage.event("the links of site2 are cut");
    stage.step(
        "One name, made at both sites of a cut",
        "Two users make the same label. Neither site can ask the other, and both say yes.",
    );
    for (b, tone) in sites.into_iter().zip(["sky", "navy"]) {
        let body = format!(r#"{{"name":"blue","tone":"{tone}"}}"#);
        stage
            .expect(&Call::post(b, "/labels", &body).scope(BOTH), |check| {
                check.status(201).member("/tone", tone).plan(PlanKind::Replicate)
            })
            .await?;
    }
    stage.map.heal("site2");
    stage.event("the links are healed");
    stage.step(
        "Healed: it is one label",
        "Both sites have the one that was made later. The other version is a conflict that can be re-applied.",
    );
    let took = agree(stage, LABEL, "tone", &json!("navy")).await?;
    stage.event(&format!("they agree after {:.1} s", took.as_secs_f64()));
    for b in sites {
        stage
            .expect(&Call::get(b, LABEL), |check| {
                check.status(200).member("/tone", "navy")
            })
            .await?;
    }
    let socket = stage.map.sites[0].admin.display().to_string();
    stage
        .command(
            &["conflicts", "ls", "--admin", &socket],
            "the create that lost",
            |text| text.contains("POST /labels"),
        )
        .await
}
