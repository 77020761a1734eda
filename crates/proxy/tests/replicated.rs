//! Requests that concern replica sets, through real ports; replication itself is played by a fake.

mod replicated {
    mod client;
    mod coordinator;
    mod explained;
    mod long_bodies;
    mod own_requests;
    mod paths;
    mod reads;
    mod references;
    mod service;
    mod sites;
    mod writes;
}
