//! Where everything listens: ports that are easy to remember, or others when they are taken.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
};

use serde::Serialize;

/// The first ports that are tried, and the last; above are the ones the kernel gives to clients.
const BASE_FIRST: u16 = 18_000;
const BASE_LAST: u16 = 31_000;
const BASE_STEP: u16 = 1_000;

/// One service's addresses at one site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct ServiceAddresses {
    /// The agent's listener for users.
    pub(super) public: SocketAddr,
    /// The agent's listener for the other services of the site.
    pub(super) internal: SocketAddr,
    /// The service itself.
    pub(super) upstream: SocketAddr,
}

/// One site's addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SiteAddresses {
    pub(super) a: ServiceAddresses,
    pub(super) b: ServiceAddresses,
    pub(super) peer: SocketAddr,
}

/// The beginning of a link, already listening. Sites are counted from 0.
#[derive(Debug)]
pub(super) struct LinkStart {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) listener: TcpListener,
}

/// Addresses that nobody else had when they were chosen.
///
/// The ports of processes yet to be started are held until [`Layout::release`]; the links' are
/// held for good, so that two demos at one time never choose the same ports.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) sites: Vec<SiteAddresses>,
    pub(super) links: Vec<LinkStart>,
    held: Vec<TcpListener>,
}

impl Layout {
    /// Chooses the addresses of `sites` sites: the usual ports, else the same a thousand higher
    /// and so on, else any.
    pub(super) fn choose(sites: u8) -> io::Result<Self> {
        let bases = (BASE_FIRST..=BASE_LAST).step_by(BASE_STEP.into());
        Self::choose_among(bases, sites)
    }

    fn choose_among(bases: impl IntoIterator<Item = u16>, sites: u8) -> io::Result<Self> {
        for base in bases {
            match Self::bind(sites, |offset| base + offset) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                layout => return layout,
            }
        }
        Self::bind(sites, |_| 0)
    }

    /// Lets go of the ports that processes are about to take.
    pub(super) fn release(&mut self) {
        self.held.clear();
    }

    /// `port` makes a port of an offset: hundreds count the site, the last two digits say what
    /// listens there.
    fn bind(sites: u8, port: impl Fn(u16) -> u16) -> io::Result<Self> {
        let mut held = Vec::new();
        let mut hold = |offset| {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port(offset)))?;
            let addr = listener.local_addr()?;
            held.push(listener);
            io::Result::Ok(addr)
        };
        let mut chosen = Vec::new();
        for site in 1..=u16::from(sites) {
            let mut service = |last| {
                io::Result::Ok(ServiceAddresses {
                    public: hold(100 * site + last)?,
                    internal: hold(100 * site + 10 + last)?,
                    upstream: hold(100 * site + 20 + last)?,
                })
            };
            chosen.push(SiteAddresses {
                a: service(1)?,
                b: service(2)?,
                peer: hold(100 * site + 43)?,
            });
        }
        let mut links = Vec::new();
        for from in 0..usize::from(sites) {
            for to in (0..usize::from(sites)).filter(|to| *to != from) {
                let offset = 100 * (from as u16 + 1) + 60 + to as u16 + 1;
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port(offset)))?;
                links.push(LinkStart { from, to, listener });
            }
        }
        Ok(Self {
            sites: chosen,
            links,
            held,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn ports(layout: &Layout) -> BTreeSet<u16> {
        let services = layout.sites.iter().flat_map(|site| [site.a, site.b]);
        services
            .flat_map(|service| [service.public, service.internal, service.upstream])
            .chain(layout.sites.iter().map(|site| site.peer))
            .chain(
                layout
                    .links
                    .iter()
                    .map(|link| link.listener.local_addr().unwrap()),
            )
            .map(|addr| addr.port())
            .collect()
    }

    #[test]
    fn no_port_is_given_twice() {
        let layout = Layout::choose(9).unwrap();
        assert_eq!(layout.links.len(), 9 * 8);
        assert_eq!(ports(&layout).len(), 9 * 7 + 9 * 8);
    }

    #[test]
    fn a_second_layout_never_shares_a_port_with_the_first() {
        let mut first = Layout::choose(3).unwrap();
        let while_held = Layout::choose(3).unwrap();
        assert!(ports(&first).is_disjoint(&ports(&while_held)));
        first.release();
        let after = Layout::choose(3).unwrap();
        assert!(ports(&first).is_disjoint(&ports(&after)));
    }

    #[test]
    fn any_port_is_better_than_none() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        // The first port that is asked for is the one of the first site's A.
        let base = taken.local_addr().unwrap().port() - 101;
        let layout = Layout::choose_among([base], 2).unwrap();
        assert_eq!(ports(&layout).len(), 2 * 7 + 2);
        assert!(!ports(&layout).contains(&(base + 101)));
    }
}
