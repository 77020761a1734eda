//! Addresses: what they look like and which of them cannot be used together.

use std::net::{IpAddr, SocketAddr};

use super::{ConfigError, table::Field};

/// Reads an address to listen on.
pub(super) fn listen(field: &Field<&str>, errors: &mut Vec<ConfigError>) -> Option<Field<SocketAddr>> {
    if let Ok(address) = field.value.parse() {
        return Some(field.with(address));
    }
    errors.push(field.error(
        format!("`{}` is not an address to listen on", field.value),
        "write IP address and port, e.g. `127.0.0.1:8001`, `0.0.0.0:8001` for all, or `[::1]:8001`",
    ));
    None
}

/// Whether `text` is `host:port` with a name or an address as host.
pub(super) fn is_host_and_port(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else {
        return false;
    };
    let host_is_good = match host.strip_prefix('[') {
        Some(rest) => rest
            .strip_suffix(']')
            .is_some_and(|address| address.parse::<std::net::Ipv6Addr>().is_ok()),
        None => is_host_name(host),
    };
    host_is_good && port.parse::<u16>().is_ok_and(|port| port != 0)
}

/// Two listeners of one process cannot both have these addresses.
pub(super) fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let covers = |wide: IpAddr, narrow: IpAddr| match wide {
        // An IPv6 listener on all addresses takes the IPv4 ones as well.
        IpAddr::V6(wide) => wide.is_unspecified(),
        IpAddr::V4(wide) => wide.is_unspecified() && narrow.is_ipv4(),
    };
    // Port 0 is any free port.
    one.port() != 0
        && one.port() == other.port()
        && (one.ip() == other.ip() || covers(one.ip(), other.ip()) || covers(other.ip(), one.ip()))
}

/// Whether a connection to `host:port` certainly arrives at the listener `at`.
pub(super) fn arrives_at(host: &str, port: u16, at: SocketAddr) -> bool {
    if at.port() != port {
        return false;
    }
    if host.eq_ignore_ascii_case("localhost") {
        return at.ip().is_loopback() || at.ip().is_unspecified();
    }
    host.parse::<IpAddr>()
        .is_ok_and(|ip| ip == at.ip() || (ip.is_loopback() && at.ip().is_unspecified()))
}

fn is_host_name(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlaps() {
        let check = |one: &str, other: &str, expected| {
            let (a, b) = (one.parse().unwrap(), other.parse().unwrap());
            assert_eq!(overlap(a, b), expected, "{one} {other}");
            assert_eq!(overlap(b, a), expected, "{other} {one}");
        };
        check("127.0.0.1:1", "127.0.0.1:1", true);
        check("127.0.0.1:1", "127.0.0.1:2", false);
        check("127.0.0.1:1", "127.0.0.2:1", false);
        check("127.0.0.1:1", "0.0.0.0:1", true);
        check("127.0.0.1:1", "[::]:1", true);
        check("[::1]:1", "0.0.0.0:1", false);
        check("0.0.0.0:1", "[::]:1", true);
        check("127.0.0.1:0", "127.0.0.1:0", false);
    }

    #[test]
    fn hosts_and_ports() {
        for good in ["192.0.2.2:7443", "site2.example:1", "[2001:db8::1]:7443"] {
            assert!(is_host_and_port(good), "{good}");
        }
        for bad in [
            "",
            "a",
            ":1",
            "a:",
            "a:0",
            "a:70000",
            "http://a:1",
            "2001:db8::1:7443",
            "[a]:1",
            "a b:1",
        ] {
            assert!(!is_host_and_port(bad), "{bad}");
        }
    }
}
