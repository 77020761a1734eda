//! A service that wants a token.

use std::fs;

use cheops_example::Config;

use crate::support::{Running, b_service};

#[tokio::test]
async fn only_good_tokens_are_let_in() {
    let dir = tempfile::tempdir().unwrap();
    let token_file = dir.path().join("tokens");
    fs::write(&token_file, "first\nsecond\n").unwrap();
    let b = Running::start_with(Config {
        service: b_service(),
        id_base: 1,
        data_dir: dir.path().join("b"),
        token_file: Some(token_file.clone()),
    })
    .await;
    let with = async |value: &str| b.ask_with("GET", "/string", ("authorization", value), "").await;
    assert_eq!(with("Bearer first").await.text(), "from site 2");
    assert_eq!(with("Bearer second").await.status, 200);
    for bad in [
        "Bearer third",
        "Bearer ",
        "Bearer first\tsecond",
        "first",
        "Basic first",
    ] {
        let refused = with(bad).await;
        refused.failed(401, "token");
        assert_eq!(refused.header("www-authenticate"), "Bearer");
    }
    b.get("/string").await.failed(401, "token");
    b.get("/nowhere").await.failed(401, "token");

    fs::write(&token_file, "third").unwrap();
    with("Bearer first").await.failed(401, "token");
    assert_eq!(with("Bearer third").await.status, 200);
    fs::remove_file(&token_file).unwrap();
    with("Bearer third").await.failed(503, "tokens cannot be read");
}
