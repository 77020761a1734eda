use super::*;

fn parse(value: &Value) -> Kubeconfig {
    Kubeconfig::parse(value.to_string().as_bytes()).unwrap()
}

fn files() -> Value {
    json!({
        "kind": "Config",
        "clusters": [
            { "name": "one", "cluster": {
                "server": "https://one.example:6443/",
                "certificate-authority-data": BASE64_STANDARD.encode("AUTHORITY"),
                "tls-server-name": "other",
                "disable-compression": true,
            } },
            { "name": "two", "cluster": {
                "server": "https://[::1]/clusters/7",
                "insecure-skip-tls-verify": true,
                "proxy-url": "http://proxy:3128",
            } },
        ],
        "users": [
            { "name": "token", "user": { "token": "secret" } },
            { "name": "certificate", "user": {
                "client-certificate-data": BASE64_STANDARD.encode("CERTIFICATE"),
                "client-key-data": BASE64_STANDARD.encode("KEY"),
            } },
        ],
        "contexts": [
            { "name": "a", "context": { "cluster": "one", "user": "token", "namespace": "shop" } },
            { "name": "b", "context": { "cluster": "two", "user": "certificate" } },
        ],
        "current-context": "a",
    })
}

fn resolve(options: &Options) -> Resolved {
    parse(&files()).resolve(options).unwrap()
}

#[test]
fn the_current_context_counts() {
    let resolved = resolve(&Options::default());
    let expected = Server {
        url: "https://one.example:6443".to_owned(),
        tls: true,
        host: "one.example".to_owned(),
        port: 6443,
        prefix: String::new(),
        authorities: Some(b"AUTHORITY".to_vec()),
        is_verified: true,
        tls_name: Some("other".to_owned()),
        proxy: None,
        identity: None,
    };
    assert_eq!(resolved.server, expected);
}

#[test]
fn options_count_more() {
    let b = resolve(&Options {
        context: Some("b".to_owned()),
        ..Options::default()
    });
    assert_eq!((b.server.host.as_str(), b.server.port), ("::1", 443));
    assert_eq!(b.server.prefix, "/clusters/7");
    assert!(!b.server.is_verified);
    assert_eq!(b.server.proxy.as_deref(), Some("http://proxy:3128"));
    let identity = (b"CERTIFICATE".to_vec(), b"KEY".to_vec());
    assert_eq!(b.server.identity, Some(identity));

    let mixed = resolve(&Options {
        cluster: Some("two".to_owned()),
        insecure: Some(false),
        ..Options::default()
    });
    assert_eq!(mixed.server.host, "::1");
    assert!(mixed.server.is_verified);
    assert_eq!(mixed.server.identity, None);

    let other = resolve(&Options {
        server: Some("http://127.0.0.1:8080".to_owned()),
        user: Some("certificate".to_owned()),
        ..Options::default()
    });
    assert!(!other.server.tls);
    assert_eq!(other.server.tls_name, None, "it is another server's name");
    assert_eq!(other.server.identity, None, "there is no TLS to use it in");
}

#[test]
fn the_layer_changes_the_server_alone() {
    let resolved = resolve(&Options::default());
    let layer = resolved.layer("x", "https://127.0.0.1:20000", Some("PEM"));
    let expected = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "x", "cluster": {
            "server": "https://127.0.0.1:20000",
            "disable-compression": true,
            "certificate-authority-data": BASE64_STANDARD.encode("PEM"),
        } }],
        "contexts": [{ "name": "x", "context": { "cluster": "x", "user": "token", "namespace": "shop" } }],
        "current-context": "x",
    });
    assert_eq!(layer, expected);
    assert!(!layer.to_string().contains("secret"));
}

#[test]
fn without_files_a_server_is_enough() {
    let none = json!({ "clusters": null, "users": null, "contexts": null, "current-context": "" });
    let options = Options {
        server: Some("127.0.0.1:8080".to_owned()),
        ..Options::default()
    };
    let resolved = parse(&none).resolve(&options).unwrap();
    assert_eq!(resolved.server.url, "http://127.0.0.1:8080");
    let error = parse(&none).resolve(&Options::default()).unwrap_err();
    assert!(error.to_string().contains("--server"), "{error}");
}

#[test]
fn what_is_not_there_is_told() {
    let check = |options: Options, expected: &str| {
        let error = parse(&files()).resolve(&options).unwrap_err();
        assert!(error.is::<BadInput>());
        assert!(error.to_string().contains(expected), "{error}");
    };
    let none = Options::default;
    check(
        Options {
            context: Some("c".to_owned()),
            ..none()
        },
        "no context `c`",
    );
    check(
        Options {
            cluster: Some("three".to_owned()),
            ..none()
        },
        "no cluster `three`",
    );
    check(
        Options {
            server: Some("ftp://a".to_owned()),
            ..none()
        },
        "no server's URL",
    );
    check(
        Options {
            certificate_authority: Some("/there/is/none".into()),
            ..none()
        },
        "cannot read /there/is/none",
    );
}
