//! What a path lies in, wherever the container's own path stands.

use crate::{Address, Profile, trail::Trail};

/// A resource that others may lie in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    pub kind: String,
    pub id: String,
    pub key: String,
}

impl Container {
    fn of(address: &Address<'_>) -> Option<Self> {
        Some(Self {
            kind: address.kind.to_string(),
            id: address.id.as_ref()?.to_string(),
            key: address.key.as_ref()?.to_string(),
        })
    }
}

impl Profile {
    /// The resources that a path lies in and that may span sites, innermost first. What the path itself addresses is
    /// none of them.
    pub fn containers(&self, service: &str, path: &str) -> Vec<Container> {
        let own = self
            .address(service, path)
            .and_then(|address| Container::of(&address));
        let trail = Trail::of(self, service, path);
        let inside = trail.inside.map(|inside| inside.path(|place| trail.value(place)));
        let elsewhere = inside.as_deref().and_then(|path| self.address(service, path));
        let mut containers = Vec::new();
        for address in self.within(service, path).iter().chain(&elsewhere) {
            let container = Container::of(address).filter(|container| Some(container) != own.as_ref());
            if let Some(container) = container.filter(|_| address.rules().is_container())
                && !containers.contains(&container)
            {
                containers.push(container);
            }
        }
        containers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GLUE: &str = r#"
application = "shop"

[services.A]
prefixes = ["/v1", "/{tenant}/v1"]
per-site = ["/v1/rooms/{room}/doors/main-?"]

[[services.A.resources]]
kind = "room"
collection = "/rooms"
spans = true

[[services.A.resources]]
kind = "door"
collection = "/rooms/{room}/doors"

[[services.A.resources]]
kind = "key"
collection = "/keys/{house}/{room}/all"
item = "/keys/{house}/{room}/all/{id}"
inside = "/rooms/{room}"

[[services.A.resources]]
kind = "order"
collection = "/orders"

[[services.A.resources]]
kind = "line"
collection = "/orders/{order}/lines"
"#;

    #[test]
    fn containers_of_paths() {
        let profile = Profile::parse("shop.toml", GLUE).unwrap();
        let of = |path: &str| {
            let containers = profile.containers("A", path);
            containers
                .iter()
                .map(|it| format!("{} {}", it.kind, it.key))
                .collect::<Vec<_>>()
        };
        assert_eq!(of("/v1/rooms"), [""; 0]);
        assert_eq!(of("/v1/rooms/a"), [""; 0]);
        assert_eq!(of("/v1/rooms/a/doors"), ["room a"]);
        assert_eq!(of("/v1/rooms/a/doors/7"), ["room a"]);
        assert_eq!(of("/v1/rooms/a%2fb/doors/7/lock"), ["room a/b"]);
        assert_eq!(of("/v1/keys/h/r/all"), ["room r"]);
        assert_eq!(of("/v1/keys/h/a%2fb/all/9"), ["room a/b"]);
        // Orders do not span sites.
        assert_eq!(of("/v1/orders/1/lines"), [""; 0]);
        for (path, expect) in [
            ("/v1/rooms/a/doors/main-1", true),
            ("/v1/rooms/a/doors/main-1/lock", true),
            ("/v1/rooms/a/doors/main-12", false),
            ("/v1/rooms/a/doors", false),
        ] {
            assert_eq!(profile.is_per_site("A", path), expect, "{path}");
        }
    }

    #[test]
    fn a_container_that_nothing_tells_is_a_mistake() {
        let wrong = GLUE.replace("inside = \"/rooms/{room}\"", "inside = \"/rooms/{hall}\"");
        let error = Profile::parse("shop.toml", &wrong).unwrap_err();
        assert!(error.to_string().contains("{hall}"), "{error}");
    }
}
