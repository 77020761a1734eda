//! The secrets behind correlation keys.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use anyhow::Context as _;
use cheops_proxy::KeyMaker;

const FILE: &str = "correlation.key";
const BYTES: usize = 16;

/// The MAC secret is kept in the data directory, so that keys of before a restart are recognised;
/// the nonce secret is new at each start, so that none is minted twice.
pub(super) fn key_maker(data_dir: &Path) -> anyhow::Result<KeyMaker> {
    let path = data_dir.join(FILE);
    let mac = match fs::read(&path) {
        Ok(bytes) => <[u8; BYTES]>::try_from(bytes)
            .map_err(|_| anyhow::anyhow!("{} is damaged: remove it and start again", path.display()))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let secret = random()?;
            write(&path, &secret).with_context(|| format!("cannot write {}", path.display()))?;
            secret
        }
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    Ok(KeyMaker::new(&mac, &random()?))
}

fn random() -> anyhow::Result<[u8; BYTES]> {
    let mut secret = [0; BYTES];
    getrandom::fill(&mut secret)
        .map_err(|error| anyhow::anyhow!("no random numbers from the system: {error}"))?;
    Ok(secret)
}

/// Written aside and renamed: a crash leaves a whole secret or none.
fn write(path: &Path, secret: &[u8; BYTES]) -> io::Result<()> {
    let aside = path.with_extension("new");
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(&aside)?;
    file.write_all(secret)?;
    file.sync_all()?;
    fs::rename(aside, path)
}
