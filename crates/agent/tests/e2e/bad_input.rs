//! Wrong scopes: a clear answer, and nothing executed.

use http::Method;

use crate::harness::{Answer, Call, Mesh, Scripted, text_answer};

/// Two sites whose services count.
struct Counting {
    mesh: Mesh,
    services: Vec<Scripted>,
}

impl Counting {
    async fn start() -> Self {
        let services: Vec<_> = (0..4)
            .map(|_| Scripted::start(|_| async { text_answer(200, "executed") }))
            .collect();
        let mesh = Mesh::of(2)
            .upstream(1, "A", services[0].addr())
            .upstream(1, "B", services[1].addr())
            .upstream(2, "A", services[2].addr())
            .upstream(2, "B", services[3].addr())
            .start()
            .await;
        Self { mesh, services }
    }

    fn executed(&self) -> usize {
        self.services.iter().map(Scripted::executed).sum()
    }

    /// Sends the scopes with several methods over both versions of HTTP, to both listeners.
    async fn refused(&self, methods: &[Method], scopes: &[&str], status: u16, code: &str) {
        let site = self.mesh.site(1);
        for addr in [site.public("A"), site.internal("A")] {
            for method in methods {
                for is_http2 in [false, true] {
                    let mut call = Call::new(method.clone(), addr, "/orders");
                    if *method == Method::POST {
                        call = call.body("{}");
                    }
                    for scope in scopes {
                        call = call.scope(scope);
                    }
                    let call = if is_http2 { call.http2() } else { call };
                    let answer = call.await;
                    nothing_executed(&answer, method, status, code);
                }
            }
        }
        assert_eq!(self.executed(), 0, "{code}: it executed");
    }
}

#[track_caller]
fn nothing_executed(answer: &Answer, method: &Method, status: u16, code: &str) {
    if *method == Method::HEAD {
        assert_eq!(answer.status, status);
    } else {
        let problem = answer.problem(status, code);
        assert!(
            problem["detail"]
                .as_str()
                .is_some_and(|detail| !detail.is_empty())
        );
    }
    assert_eq!(answer.executed_at(), [""; 0]);
}

const READ_AND_WRITE: [Method; 2] = [Method::GET, Method::POST];

#[tokio::test]
async fn wrong_scopes_are_refused_and_nothing_executes() {
    let counting = Counting::start().await;
    let long = "site1 ; ".repeat(8 * 1024) + "site2";
    assert!(long.len() > 64 * 1024);
    for (scopes, status, code) in [
        (&["A: site1 &"][..], 400, "scope_syntax"),
        (&["A: (site1"], 400, "scope_syntax"),
        (&[""], 400, "scope_syntax"),
        (&["A: site1 site2"], 400, "scope_syntax"),
        (&["A: sit2"], 400, "unknown_site"),
        (&["site1 ; nowhere"], 400, "unknown_site"),
        (&["B: nowhere"], 400, "unknown_site"),
        (&["C: site1"], 400, "unknown_service"),
        (&["arround(site1, 10ms)"], 400, "unknown_function"),
        (&[&long], 431, "scope_too_long"),
        (&["A: site1", "B: site2"], 400, "scope_repeated"),
        (&["A: site1", "A: site1"], 400, "scope_repeated"),
    ] {
        counting.refused(&READ_AND_WRITE, scopes, status, code).await;
    }
    // They can be told apart from good ones.
    let good = Call::new(Method::POST, counting.mesh.a(1), "/orders")
        .scope("site1 ; site2")
        .body("{}")
        .await;
    assert_eq!(good.is(200).text(), "executed");
    assert_eq!(counting.executed(), 1);
}

#[tokio::test]
async fn a_diagnostic_says_where_and_what_was_meant() {
    let counting = Counting::start().await;
    let answer = Call::new(Method::GET, counting.mesh.a(1), "/orders")
        .scope("A: sit2")
        .await;
    let problem = answer.problem(400, "unknown_site");
    assert!(
        problem.to_string().contains("did you mean `site2`?"),
        "{problem:#}"
    );
}

#[tokio::test]
async fn deep_nesting_is_refused_by_length_and_by_depth() {
    let counting = Counting::start().await;
    let nested = |depth| format!("{}site1{}", "(".repeat(depth), ")".repeat(depth));
    let deep = nested(10_000);
    counting
        .refused(&READ_AND_WRITE, &[&deep], 431, "scope_too_long")
        .await;
    counting
        .refused(&READ_AND_WRITE, &[&nested(1_000)], 400, "scope_too_deep")
        .await;
    // Where scopes may be long, depth is what refuses it.
    let site = counting.mesh.site(1);
    site.edit_config(|text| text.replace("[limits]\n", "[limits]\nscope_max_bytes = 100000\n"));
    site.tell("/v1/reload", &serde_json::json!({})).await;
    counting
        .refused(&READ_AND_WRITE, &[&deep], 400, "scope_too_deep")
        .await;
    assert!(site.limit_hits("scope_max_depth").await > 0);
}

#[tokio::test]
async fn what_this_version_cannot_do_is_refused_whole() {
    let counting = Counting::start().await;
    let writes = [Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
    counting
        .refused(&writes, &["strong(site1 % site2)"], 501, "not_available")
        .await;
    // What can neither be divided nor contain others does not span sites.
    counting
        .refused(&[Method::POST], &["site1 % site2"], 409, "set_refused")
        .await;
    counting
        .refused(&writes, &["(site1 & site2) ; site1"], 501, "not_available")
        .await;
}
