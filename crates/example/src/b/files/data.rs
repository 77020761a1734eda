//! What is in files: on disk, never in memory as a whole.

use std::{
    fmt::Write as _,
    fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream::{self, Stream};
use http_body_util::BodyExt;
use ring::digest::{Context, SHA256};
use tokio::{
    fs::File,
    io::{AsyncReadExt, AsyncWriteExt},
};

use crate::failure::Failure;

const CHUNK_BYTES: usize = 64 * 1024;

/// One directory with the data of each file under its id.
pub(super) struct Data {
    dir: PathBuf,
    uploads: AtomicU64,
}

/// Data that arrived as a whole. It is deleted unless it is kept.
pub(super) struct Upload {
    pub(super) bytes: u64,
    pub(super) sha256: String,
    path: PathBuf,
}

impl Data {
    /// Uploads that an end of the process cut short are deleted.
    pub(super) fn open(dir: &Path) -> io::Result<Self> {
        fs::create_dir_all(dir)?;
        for entry in fs::read_dir(dir)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "part") {
                fs::remove_file(path)?;
            }
        }
        Ok(Self {
            dir: dir.to_owned(),
            uploads: AtomicU64::new(0),
        })
    }

    pub(super) async fn receive(&self, mut body: Body) -> Result<Upload, Failure> {
        let number = self.uploads.fetch_add(1, Ordering::Relaxed);
        let mut upload = Upload {
            bytes: 0,
            sha256: String::new(),
            path: self.dir.join(format!("{number}.part")),
        };
        let mut file = File::create(&upload.path).await?;
        let mut hash = Context::new(&SHA256);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| Failure::malformed(format!("the body broke off: {error}")))?;
            if let Ok(data) = frame.into_data() {
                hash.update(&data);
                upload.bytes += data.len() as u64;
                file.write_all(&data).await?;
            }
        }
        file.flush().await?;
        for byte in hash.finish().as_ref() {
            let _ = write!(upload.sha256, "{byte:02x}");
        }
        Ok(upload)
    }

    /// The length of a file's data, and the data; none before the first upload.
    pub(super) async fn send(
        &self,
        id: &str,
    ) -> io::Result<Option<(u64, impl Stream<Item = io::Result<Bytes>> + use<>)>> {
        let file = match File::open(self.dir.join(id)).await {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let bytes = file.metadata().await?.len();
        let data = stream::try_unfold(file, async |mut file| {
            let mut chunk = vec![0; CHUNK_BYTES];
            let length = file.read(&mut chunk).await?;
            chunk.truncate(length);
            Ok((length > 0).then(|| (Bytes::from(chunk), file)))
        });
        Ok(Some((bytes, data)))
    }

    pub(super) fn remove(&self, id: &str) -> io::Result<()> {
        match fs::remove_file(self.dir.join(id)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

impl Upload {
    /// Puts it in the place of the file's data.
    pub(super) fn keep(&self, id: &str) -> io::Result<()> {
        fs::rename(&self.path, self.path.with_file_name(id))
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}
