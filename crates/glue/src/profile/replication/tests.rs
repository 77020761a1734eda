use crate::{Effect, IdRule, MetaFormat, Profile, Recognise, Touches};

#[test]
fn the_example_application() {
    let profile = Profile::example();
    let order = profile.kind("A", "order");
    let item = profile.kind("B", "item");
    let label = profile.kind("B", "label");
    let file = profile.kind("B", "file");
    for kind in [&order, &item] {
        assert_eq!(kind.id_rule(), IdRule::Server);
        assert!(matches!(kind.meta_format(), MetaFormat::Integer { .. }));
    }
    assert_eq!(order.recognise(false), Recognise::Marker);
    assert_eq!(
        order.recognise_in(false, br#"{"ref":"mine"}"#),
        Recognise::Nothing
    );
    let header = "idempotency-key";
    assert_eq!(item.recognise(false), Recognise::Key { header });
    assert_eq!(label.id_rule(), IdRule::Client);
    assert_eq!(label.recognise(true), Recognise::Nothing);
    assert_eq!(label.name_in_request(br#"{"name":"x"}"#).as_deref(), Some("x"));
    assert_eq!(file.id_rule(), IdRule::Settable);
    assert_eq!(file.recognise(false), Recognise::ChosenId);
    let references = order.references(br#"{"item":7,"quantity":1}"#);
    assert_eq!(
        (&*references[0].service, &*references[0].kind, &*references[0].id),
        ("B", "item", "7")
    );
    let ship = order.effect("POST", Some("/ship"), None);
    assert_eq!(
        ship,
        Effect::Action {
            commutes: true,
            idempotent: false
        }
    );
    let cancel = order.effect("POST", Some("/cancel"), None);
    assert_eq!(
        cancel,
        Effect::Action {
            commutes: false,
            idempotent: true
        }
    );
    assert_eq!(file.effect("PUT", Some("/data"), None), Effect::Replace);
    let data = file.touches(&Effect::Replace, "/data", b"");
    assert_eq!(data, Touches::Parts(["@/data".to_owned()].into()));
    let curl = Some("application/x-www-form-urlencoded");
    assert_eq!(label.effect("PATCH", Some(""), curl), Effect::Merge);
}

/// Checks the first mistake of a file whose fifth line is `rest`.
fn check_error(rest: &str, expect: &str) {
    let file =
        format!("application = \"x\"\n[[services.A.resources]]\nkind = \"k\"\ncollection = \"/c\"\n{rest}");
    let error = Profile::parse("x.toml", &file).unwrap_err();
    assert_eq!(error.to_string(), format!("x.toml:{expect}"), "{rest}");
}

#[test]
fn mistakes_about_ids() {
    check_error(
        "chosen-by = \"clients\"",
        "5:13: unknown word `clients` in `chosen-by`; did you mean `client`?",
    );
    check_error(
        "chosen-by = \"client\"",
        "5:13: nothing says where a caller tells the id; add `name = \"/name\"`",
    );
    check_error(
        "name = \"/name\"",
        "5:8: `name` is where a caller tells the id, and the server chooses it; add `chosen-by = \"client\"` or `chosen-by = \"settable\"`, or remove `name`",
    );
    check_error(
        "id = \"\"",
        "5:6: `id` must name one member; write a pointer such as `/id`, without `*`",
    );
    check_error(
        "id = \"/a/*\"",
        "5:6: `id` must name one member; write a pointer such as `/id`, without `*`",
    );
    check_error(
        "id = \"id\"",
        "5:6: `id` is not a JSON pointer: write `/member`, `/outer/inner`, or nothing for the whole (`~` is `~0`, `/` is `~1`)",
    );
    check_error(
        "meta-id = \"uid\"",
        "5:11: unknown word `uid` in `meta-id`; did you mean `uuid`?",
    );
    check_error(
        "meta-id = 3",
        "5:11: `meta-id` in services.A.resources must be a word or a range, not a number; write `\"uuid\"`, `\"hex\"`, or `{ integer = [first, last] }` with numbers that the application never reaches",
    );
    check_error(
        "meta-id = { integer = [1, -2] }",
        "5:11: a range of integers has a first and a last number; write `\"uuid\"`, `\"hex\"`, or `{ integer = [first, last] }` with numbers that the application never reaches",
    );
    check_error(
        "meta-id = { integer = [9, 1] }",
        "5:11: a range of integers has at least 1048576 numbers; every site gets a part of it: choose a wider one",
    );
    check_error(
        "meta-id = { integer = [0, 9_999_999] }\n[[services.A.resources]]\nkind = \"line\"\ncollection = \"/lines\"\nmeta-id = { integer = [9_999_999, 99_999_999] }",
        "9:11: the range overlaps with [0, 9999999] of another kind; use the very same range, or ranges that share nothing",
    );
    check_error(
        "chosen-by = \"client\"\nname = \"/n\"\nmeta-id = \"integer\"",
        "7:11: callers see the names that they chose, not meta-ids; remove `meta-id`",
    );
    check_error(
        "marker = { query = \"q\" }",
        "5:10: `marker` has no `pointer`; add `pointer = …`",
    );
    check_error(
        "marker = { pointer = \"/id\" }",
        "5:22: the id cannot be the marker too; name a member that the application keeps and does not read",
    );
    check_error(
        "marker = \"/m\"",
        "5:10: `marker` in services.A.resources must be a table, not text; write `{ pointer = \"/…\", query = \"…\" }`",
    );
}

#[test]
fn mistakes_about_bodies() {
    check_error(
        "idempotency-key = \"a b\"",
        "5:19: `a b` is not the name of a header",
    );
    check_error(
        "record-headers = [\"Authorization\"]",
        "5:19: `Authorization` carries a credential; remove it here: credentials are kept sealed, beside the operation",
    );
    check_error(
        "record-headers = [\"X-Scope\"]",
        "5:19: `X-Scope` is written by agents only; name a header that the application passes on",
    );
    check_error(
        "credentials = [3]",
        "5:16: `credentials` in services.A.resources must be a list of texts, not a number",
    );
    check_error(
        "ignore = [\"\"]",
        "5:11: `ignore` must name members, not the whole; write a pointer such as `/status` or `/ports/*/number`",
    );
    check_error(
        "references = [{ pointer = \"/x\" }]",
        "5:15: `references` has no `kind`; add `kind = …`",
    );
    check_error(
        "references = [{ kind = \"k\" }]",
        "5:15: a reference stands at a pointer or in a query parameter; write `pointer = \"/…\"` or `query = \"…\"`, and two entries for both",
    );
    check_error(
        "references = [{ pointer = \"/x\", kind = \"kk\" }]",
        "5:40: services.A has no kind `kk`; did you mean `k`?",
    );
    check_error(
        "references = [{ pointer = \"/x\", kind = \"k\", service = \"B\" }]",
        "5:40: no service `B` is described; did you mean `A`?",
    );
    check_error(
        "[[services.A.resources]]\nkind = \"s\"\nsingleton = \"/s\"\nignore = []",
        "8:1: `ignore` is about replicas, and what exists once has none; remove `ignore`",
    );
    check_error(
        "ignore = []\n[[services.A.resources]]\nkind = \"k\"\nitem = \"/d/{id}\"\nlinks = []",
        "9:1: another entry already describes replicas of `k`; keep these keys in one entry",
    );
}

#[test]
fn mistakes_about_verbs() {
    check_error(
        "patch = { \"json\" = \"merge\" }",
        "5:11: `json` is not a content type; write it without parameters, as in `\"application/merge-patch+json\"`",
    );
    check_error(
        "patch = { \"a/b\" = \"merges\" }",
        "5:19: unknown word `merges` in `patch`; did you mean `merge`?",
    );
    check_error(
        "parts = [\"data\"]",
        "5:10: `data` is not a path: a path starts with `/`",
    );
    check_error("actions = [{}]", "5:12: `actions` has no `path`; add `path = …`");
    check_error(
        "actions = [{ path = \"/x\", method = \"post\" }]",
        "5:36: `post` is not a method; write it in capitals, as in `\"POST\"`",
    );
    check_error(
        "actions = [{ path = \"/x\", effect-free = true, commutes = true }]",
        "5:12: what has no effect always commutes and can be repeated; keep `effect-free` alone",
    );
    check_error(
        "actions = [{ path = \"/x\", commutes = 1 }]",
        "5:38: `commutes` in `actions` must be true or false, not a number",
    );
    check_error(
        "effect-free = [\"a/b\"]",
        "5:16: `a/b` is not a query parameter; write `\"dryRun\"` or `\"dryRun=All\"`, or a pointer into the body; a path without effect belongs to `actions`",
    );
    check_error(
        "answers = { \"4x\" = \"retry\" }",
        "5:13: `4x` is not a status; write `\"409\"`, `\"5xx\"`, or a verb with a table of those",
    );
    check_error(
        "answers = { \"409\" = \"again\" }",
        "5:21: unknown word `again` in `answers`; use `done`, `refused`, `needs-credentials`, `blocked`, `retry` or `unknown`",
    );
    check_error(
        "answers = { creates = { \"409\" = \"retry\" } }",
        "5:13: unknown word `creates` in `answers`; did you mean `create`?",
    );
}

#[test]
fn mistakes_about_writes() {
    check_error(
        "document = \"\"",
        "5:12: `document` must name one member; write a pointer such as `/id`, without `*`",
    );
    check_error(
        "generate = \"/generateName\"",
        "5:12: `generate` completes names, and no caller chooses one; add `chosen-by = \"client\"`, or remove `generate`",
    );
    check_error(
        "upsert = [\"DELETE\"]",
        "5:11: `DELETE` does not make a resource; write `\"PUT\"`, or a method and a content type, as in `\"PATCH application/json\"`",
    );
    check_error(
        "upsert = [\"PATCH yaml\"]",
        "5:11: `yaml` is not a content type; write it without parameters, as in `\"application/merge-patch+json\"`",
    );
    check_error(
        "put = \"partial\"",
        "5:7: unknown word `partial` in `put`; use `merge`, `replace`, `difference` or `action`",
    );
    check_error(
        "put = \"merge\"",
        "2:1: `PUT` is no replace, and nothing says how a state is written; add `update = { method = \"PUT\", form = \"merge\" }`, or what the application takes",
    );
    check_error(
        "update = { form = \"jsonpatch\" }",
        "5:19: unknown word `jsonpatch` in `form`; did you mean `json-patch`?",
    );
    check_error(
        "update = { metod = \"PUT\" }",
        "5:12: unknown key `metod` in `update`; did you mean `method`?",
    );
    check_error(
        "state = { pointer = \"/status\" }",
        "5:9: `state` has no `done`; add `done = [\"ACTIVE\"]`, with the words of the application",
    );
    check_error(
        "state = { pointer = \"/s\", done = [\"A\", \"B\"], failed = [\"B\"] }",
        "5:9: `B` cannot be both done and failed; keep it in one list",
    );
    check_error(
        "site-owned = [{ pointer = \"/a\", except = [] }]",
        "5:33: unknown key `except` in `site-owned`; use `pointer`, `where` or `unless`",
    );
    check_error(
        "ignore = [{ pointer = \"/a/*\", where = { name = \"x\" } }]",
        "5:41: `name` is not a JSON pointer: write `/member`, `/outer/inner`, or nothing for the whole (`~` is `~0`, `/` is `~1`)",
    );
    check_error(
        "site-owned = [{ pointer = \"/a/*\", where = { \"/b/*\" = \"x\" } }]",
        "5:45: `where` looks at one member, not at many; write a pointer such as `/name`, without `*`; the whole is `\"\"`",
    );
    check_error(
        "ignore = [{ pointer = \"/a/*\", where = { \"/b\" = 3 } }]",
        "5:48: `where` in `ignore` must be a table of texts, not a number; write `{ \"/name\" = \"cache-*\" }`: `*` stands for any characters, `?` for one",
    );
    check_error(
        "actions = [{ path = \"/scale\", as = \"diff\" }]",
        "5:36: unknown word `diff` in `as`; use `action`, `difference` or `local`",
    );
    check_error(
        "actions = [{ path = \"/scale\", as = \"difference\", commutes = true }]",
        "5:12: a difference is merged: `commutes` says nothing about it; remove `commutes`",
    );
}
