//! Fills a directory with the store of a site that has many settled replica sets, for measurements.
//!
//! ```text
//! cargo run --release -p cheops-node --example fill -- <directory> <sets>
//! ```
//!
//! The site is `bench`; the sets are `/orders` of service `web`, each with a replica at `other`.

use std::{env, error::Error, fs, path::PathBuf, time::Instant};

use cheops_node::Fill;
use cheops_types::{ServiceName, SiteName};

/// A wall clock of the past: whoever opens the store later is later.
const NOW_MS: u64 = 1_700_000_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = env::args_os().skip(1);
    let (Some(data), Some(sets), None) = (args.next(), args.next(), args.next()) else {
        return Err("usage: fill <directory> <sets>".into());
    };
    let data = PathBuf::from(data);
    let sets = sets.to_str().ok_or("the number of sets is no text")?.parse()?;
    fs::create_dir_all(&data)?;
    if data.join("store.redb").exists() {
        return Err(format!("{} has a store already: take another directory", data.display()).into());
    }
    let fill = Fill {
        here: SiteName::new("bench")?,
        other: SiteName::new("other")?,
        service: ServiceName::new("web")?,
        kind: "/orders".into(),
        sets,
        now_ms: NOW_MS,
    };
    let start = Instant::now();
    fill.write(&data)?;
    let bytes = fs::metadata(data.join("store.redb"))?.len();
    eprintln!(
        "{sets} sets in {:.1} s, {} MiB; the first is {}, the last {}",
        start.elapsed().as_secs_f64(),
        bytes >> 20,
        fill.meta_id(1),
        fill.meta_id(sets)
    );
    Ok(())
}
