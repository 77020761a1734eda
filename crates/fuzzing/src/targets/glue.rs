use std::str;

use cheops_glue::{Doing, Profile};

pub(super) const TOKENS: &[&[u8]] = &[
    b"[[services.A.resources]]\n",
    b"[services.A.resources.list]\n",
    b"kind = \"",
    b"collection = \"/",
    b"item = \"/",
    b"singleton = \"/",
    b"{id}",
    b"{id:hex}",
    b"/",
    b"\"\n",
    b" = ",
    b"{ ",
    b" }",
    b"[",
    b"]",
    b"items = \"/items\"\n",
    b"meta-id = { integer = [1, 9] }\n",
    b"references = [{ pointer = \"/a\", kind = \"b\" }]\n",
    b"actions = [",
    b"chosen-by = \"client\"\n",
    b"name = \"/name\"\n",
    b"spans = true\n",
    b"divide = [{ pointer = \"/n\" }]\n",
    b"paging = { style = \"token\", token = \"t\", next = \"/n\" }",
    b"correlation = [\"traceparent\"]\n",
    b"\n",
    b"'",
    b"application = \"x\"\n",
    b"~1",
    b"/-",
    b"*",
    b"1979-05-27T07:32:00Z",
    b"0x",
    b"inf",
    "é".as_bytes(),
    b"\\u0000",
];

/// Every mistake has a place in the file, and a file without one can be used.
pub(super) fn run(input: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(input) else {
        return false;
    };
    let errors = Profile::check("glue.toml", text);
    // Behind the last line is where something is missing.
    let lines = text.split('\n').count() + 1;
    for error in &errors {
        assert!((1..=lines).contains(&error.line) && error.column > 0, "{error}");
    }
    let profile = Profile::parse("glue.toml", text);
    assert_eq!(profile.is_ok(), errors.is_empty(), "{errors:?}");
    let Ok(profile) = profile else {
        return false;
    };
    for service in profile.services() {
        for path in ["/", "/a", "/items", "/items/7", "/a/b/c/d", "/orders/7/ship"] {
            let doing = Doing {
                method: "POST",
                content_type: None,
            };
            profile.identify(service, "GET", path);
            profile.reading(service, path, doing);
            profile.containers(service, path);
            if let Some(address) = profile.address(service, path) {
                address
                    .rules()
                    .comparable(br#"{"id":1,"items":[{"name":"a"}]}"#)
                    .ok();
            }
        }
    }
    true
}
