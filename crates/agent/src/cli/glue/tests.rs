use super::*;

#[test]
fn the_example_is_good() {
    let source = Source {
        name: "example".to_owned(),
        text: EXAMPLE.to_owned(),
    };
    if let Err(errors) = source.profile() {
        panic!("{}", errors::render(&source.text, &errors, false));
    }
}

/// Whoever reads the example has met every key that the documentation has.
#[test]
fn the_example_has_every_key() {
    let documentation = include_str!("../../../../../docs/glue.md");
    let keys = documentation
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` |"))
        .map(|(key, _)| key)
        .filter(|key| key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'));
    let mut count = 0;
    for key in keys {
        let is_there = EXAMPLE.lines().any(|line| {
            line.split(|c: char| !c.is_ascii_lowercase() && c != '-')
                .any(|word| word == key)
        });
        assert!(is_there, "`{key}` is not in the example");
        count += 1;
    }
    assert!(count > 20, "{count} keys are documented");
}

#[test]
fn built_in_files_can_be_shown() {
    for built_in in BUILT_IN {
        let source = Source::find(built_in.name).unwrap();
        let shown = show::Description::read(&source.text).unwrap().to_string();
        assert!(
            shown.starts_with(&format!("application  {}\n", built_in.name)),
            "{shown}"
        );
    }
    let error = Source::find("kubernets").err().unwrap();
    assert!(error.0.contains("kubernetes"), "{error}");
}

#[test]
fn what_is_shown() {
    let text = r#"
application = "shop"
correlation = []
[services.A]
context-free = ["/health", { request = "GET /who", workflow = { header = "X-A", credential = "X-B" } }]
[[services.A.resources]]
kind = "order"
collection = "/orders"
marker = { pointer = "/ref" }
patch = { "application/json-patch+json" = "action" }
actions = [{ path = "/ship", commutes = true }]
[[services.A.resources]]
kind = "label"
like = "order"
collection = "/labels"
item = "/labels/{name}"
chosen-by = "client"
name = "/name"
upsert = ["PUT"]
"#;
    let description = show::Description::read(text).unwrap();
    assert_eq!(description.kinds(), 2);
    let expected = "\
application  shop
correlation  nothing: no service calls another

SERVICE  KIND   COLLECTION  ONE             ID CHOSEN BY   KNOWN AGAIN BY
A        order  /orders     /orders/{id}    application    /ref
A        label  /labels     /labels/{name}  caller: /name  /ref

SERVICE  KIND   REQUEST                            IS
A        order  PATCH application/json-patch+json  action
A        order  POST …/ship                        action, commutes
A        label  all                                as for order
A        label  PUT                                also makes what is not there

SERVICE  REQUEST   IS
A        /health   belongs to no workflow
A        GET /who  belongs to no workflow
";
    assert_eq!(description.to_string(), expected);
}
