//! The scope follows the workflow.

use crate::harness::{Mesh, get};

#[tokio::test]
async fn a_scope_names_the_site_of_b() {
    let mesh = Mesh::of(2).start().await;
    let there = get(mesh.a(1), "/hello").scope("B: site2").await.is(200);
    assert_eq!(there.text(), "A says hello, B answers: from site 2");
    let here = get(mesh.a(1), "/hello").await.is(200);
    assert_eq!(here.text(), "A says hello, B answers: from site 1");
}
