//! Who counts as one client, and who is not counted.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

/// Addresses that share one budget: one of IPv4, or the 2⁶⁴ of IPv6 that a single host may use as it likes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Client(IpAddr);

impl Client {
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self(address.into()),
            IpAddr::V6(address) => {
                let network = u128::from(address) >> 64 << 64;
                Self(Ipv6Addr::from(network).into())
            }
        }
    }

    /// A number that no other one has.
    pub fn number(self) -> u64 {
        match self.0 {
            // No network of IPv6 begins with 31 zeros and goes on.
            IpAddr::V4(address) => 1 << 32 | u64::from(u32::from(address)),
            IpAddr::V6(network) => (u128::from(network) >> 64) as u64,
        }
    }
}

/// A block of addresses, as `192.0.2.0/24`; a single one without the `/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    first: IpAddr,
    prefix_bits: u32,
}

impl Network {
    /// All addresses.
    pub const ALL: [Self; 2] = [
        Self {
            first: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            prefix_bits: 0,
        },
        Self {
            first: IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            prefix_bits: 0,
        },
    ];

    pub fn contains(&self, address: IpAddr) -> bool {
        let (first, address) = match (self.first, address.to_canonical()) {
            (IpAddr::V4(first), IpAddr::V4(address)) => {
                (u128::from(first.to_bits()), u128::from(address.to_bits()))
            }
            (IpAddr::V6(first), IpAddr::V6(address)) => (first.to_bits(), address.to_bits()),
            _ => return false,
        };
        let host_bits = width(self.first) - self.prefix_bits;
        // All 128 bits cannot be shifted out at once.
        (first ^ address).checked_shr(host_bits).unwrap_or(0) == 0
    }
}

fn width(address: IpAddr) -> u32 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// Not an address or a block of addresses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is neither an address nor a block of addresses")]
pub struct InvalidNetwork(String);

impl FromStr for Network {
    type Err = InvalidNetwork;

    fn from_str(text: &str) -> Result<Self, InvalidNetwork> {
        let invalid = || InvalidNetwork(text.to_owned());
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let first: IpAddr = address.parse().map_err(|_| invalid())?;
        let prefix_bits = match bits {
            Some(bits) => bits.parse().map_err(|_| invalid())?,
            None => width(first),
        };
        if prefix_bits > width(first) {
            return Err(invalid());
        }
        Ok(Self { first, prefix_bits })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.prefix_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_one_client() {
        let client = |text: &str| Client::of(text.parse().unwrap());
        assert_ne!(client("192.0.2.1"), client("192.0.2.2"));
        assert_eq!(client("192.0.2.1"), client("::ffff:192.0.2.1"));
        assert_eq!(client("2001:db8::1"), client("2001:db8::ffff:0:0:2"));
        assert_ne!(client("2001:db8::1"), client("2001:db8:0:1::1"));
    }

    #[test]
    fn a_network_has_its_addresses() {
        let has = |network: &str, address: &str| {
            let network: Network = network.parse().unwrap();
            network.contains(address.parse().unwrap())
        };
        assert!(has("192.0.2.0/24", "192.0.2.255"));
        assert!(has("192.0.2.7/24", "::ffff:192.0.2.1"));
        assert!(!has("192.0.2.0/24", "192.0.3.0"));
        assert!(has("192.0.2.1", "192.0.2.1"));
        assert!(!has("192.0.2.1", "192.0.2.2"));
        assert!(has("0.0.0.0/0", "203.0.113.9"));
        assert!(!has("0.0.0.0/0", "::1"));
        assert!(has("::/0", "2001:db8::1"));
        assert!(has("2001:db8::/32", "2001:db8:ffff::1"));
        assert!(!has("2001:db8::/32", "2001:db9::"));
        for any in ["192.0.2.1", "2001:db8::1"] {
            let any = any.parse().unwrap();
            assert!(Network::ALL.iter().any(|all| all.contains(any)));
        }
        for wrong in [
            "",
            "192.0.2",
            "192.0.2.0/33",
            "::/129",
            "192.0.2.0/",
            "host",
            "1.2.3.4/-1",
        ] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }
}
