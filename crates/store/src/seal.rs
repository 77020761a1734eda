//! Secrets at rest: AES-256-GCM under a key of their own each, derived from the site's key.

use std::{
    fmt,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use ring::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    digest,
    hkdf::{HKDF_SHA256, KeyType, Salt},
};
use serde::{Deserialize, Serialize};

const MAGIC: &[u8] = b"cheops site key 1\n";
const KEY_BYTES: usize = 32;
const KEY_ID_BYTES: usize = 4;
const SALT_BYTES: usize = 32;
const VERSION: u8 = 1;
const INFO: &[u8] = b"cheops sealed 1";

/// Randomness, handed in: fills the bytes with ones that nobody can guess, or fails.
pub trait Entropy {
    fn fill(&self, bytes: &mut [u8]) -> io::Result<()>;
}

impl<F: Fn(&mut [u8]) -> io::Result<()>> Entropy for F {
    fn fill(&self, bytes: &mut [u8]) -> io::Result<()> {
        self(bytes)
    }
}

/// A secret that only its site can read: version, key id, salt, ciphertext with tag.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sealed(#[serde(with = "crate::value::bytes")] Vec<u8>);

impl Sealed {
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealed({} bytes)", self.0.len())
    }
}

/// Why a secret could not be sealed or opened, or the key not be used. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    #[error("the site key {} cannot be used: {reason}", path.display())]
    KeyFile { path: PathBuf, reason: String },
    #[error("the site key {} can be read by others: `chmod 600` it, or make a new one if it may be known", path.display())]
    KeyExposed { path: PathBuf },
    #[error("no randomness: {0}")]
    Entropy(String),
    #[error("the secret was sealed with another site key")]
    OtherKey,
    #[error("the secret is damaged or belongs to another record")]
    Damaged,
}

/// The key of a site. It never leaves the process, nor the file it was read from.
pub struct SiteKey {
    key: [u8; KEY_BYTES],
    id: [u8; KEY_ID_BYTES],
}

impl SiteKey {
    /// Reads the key file, or makes one that only its owner may read.
    pub fn open(path: &Path, entropy: &impl Entropy) -> Result<Self, SealError> {
        let failed = |error: io::Error| SealError::KeyFile {
            path: path.to_owned(),
            reason: error.to_string(),
        };
        match File::open(path) {
            Ok(_) => Self::read(path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let mut key = [0; KEY_BYTES];
                entropy
                    .fill(&mut key)
                    .map_err(|error| SealError::Entropy(error.to_string()))?;
                create(path, &key).map_err(failed)?;
                Ok(Self::new(key))
            }
            Err(error) => Err(failed(error)),
        }
    }

    fn read(path: &Path) -> Result<Self, SealError> {
        let failed = |reason: String| SealError::KeyFile {
            path: path.to_owned(),
            reason,
        };
        let mode = fs::metadata(path)
            .map_err(|error| failed(error.to_string()))?
            .permissions()
            .mode();
        if mode & 0o077 != 0 {
            return Err(SealError::KeyExposed {
                path: path.to_owned(),
            });
        }
        let bytes = fs::read(path).map_err(|error| failed(error.to_string()))?;
        bytes
            .strip_prefix(MAGIC)
            .and_then(|key| key.try_into().ok())
            .map(Self::new)
            .ok_or_else(|| failed("it is no site key".into()))
    }

    fn new(key: [u8; KEY_BYTES]) -> Self {
        let digest = digest::digest(&digest::SHA256, &key);
        let mut id = [0; KEY_ID_BYTES];
        id.copy_from_slice(&digest.as_ref()[..KEY_ID_BYTES]);
        Self { key, id }
    }

    /// Seals a secret for one place: it opens only with the same `place`, the name of its table and
    /// its key for instance, so that it cannot be moved to another record.
    pub fn seal(&self, place: &[u8], secret: &[u8], entropy: &impl Entropy) -> Result<Sealed, SealError> {
        let mut salt = [0; SALT_BYTES];
        entropy
            .fill(&mut salt)
            .map_err(|error| SealError::Entropy(error.to_string()))?;
        let mut sealed =
            Vec::with_capacity(1 + KEY_ID_BYTES + SALT_BYTES + secret.len() + AES_256_GCM.tag_len());
        sealed.push(VERSION);
        sealed.extend(self.id);
        sealed.extend(salt);
        let mut text = secret.to_vec();
        let (key, nonce) = self.derive(&salt)?;
        key.seal_in_place_append_tag(nonce, Aad::from(place), &mut text)
            .map_err(|_| SealError::Damaged)?;
        sealed.append(&mut text);
        Ok(Sealed(sealed))
    }

    pub fn open_sealed(&self, place: &[u8], sealed: &Sealed) -> Result<Vec<u8>, SealError> {
        let (version, rest) = sealed.0.split_first().ok_or(SealError::Damaged)?;
        let (id, rest) = rest.split_first_chunk().ok_or(SealError::Damaged)?;
        let (salt, text) = rest.split_first_chunk().ok_or(SealError::Damaged)?;
        if *version != VERSION {
            return Err(SealError::Damaged);
        }
        if *id != self.id {
            return Err(SealError::OtherKey);
        }
        let (key, nonce) = self.derive(salt)?;
        let mut text = text.to_vec();
        let secret = key
            .open_in_place(nonce, Aad::from(place), &mut text)
            .map_err(|_| SealError::Damaged)?;
        Ok(secret.to_vec())
    }

    /// A key and a nonce for one message. The salt is as long as the key: no counter has to survive
    /// a crash or a restored disk, and no number of messages makes a repetition likely.
    fn derive(&self, salt: &[u8; SALT_BYTES]) -> Result<(LessSafeKey, Nonce), SealError> {
        let mut material = [0; KEY_BYTES + NONCE_LEN];
        Salt::new(HKDF_SHA256, salt)
            .extract(&self.key)
            .expand(&[INFO], Material)
            .and_then(|okm| okm.fill(&mut material))
            .map_err(|_| SealError::Damaged)?;
        let (key, nonce) = material.split_at(KEY_BYTES);
        let key = UnboundKey::new(&AES_256_GCM, key).map_err(|_| SealError::Damaged)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| SealError::Damaged)?;
        Ok((LessSafeKey::new(key), nonce))
    }
}

impl fmt::Debug for SiteKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SiteKey")
    }
}

/// How much `derive` asks for.
struct Material;

impl KeyType for Material {
    fn len(&self) -> usize {
        KEY_BYTES + NONCE_LEN
    }
}

/// Under another name first: a crash must not leave half a key behind.
fn create(path: &Path, key: &[u8]) -> io::Result<()> {
    let unfinished = path.with_extension("new");
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&unfinished)?;
    // An older file of that name keeps its mode.
    file.set_permissions(fs::Permissions::from_mode(0o600))?;
    file.write_all(MAGIC)?;
    file.write_all(key)?;
    file.sync_all()?;
    fs::rename(&unfinished, path)?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests;
