//! The scopes of workflows that go on behind their answers, kept in a file so that a restart does not lose them.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use cheops_proxy::{SavedScope, Shared};
use tokio::sync::oneshot;

const FILE: &str = "scopes";
/// What an earlier version kept: its keys mean nothing any more.
const FILE_OF_BEFORE: &str = "workflows";
/// How often it is looked for what is over.
const EXPIRE_EVERY: Duration = Duration::from_secs(5);
/// Lines of forgotten scopes that the file may have before it is written anew.
const WASTE_MIN: usize = 4096;

/// A file with one line per scope. Lines are only added; those of forgotten scopes go when the file is
/// written anew. How long ago a scope was last used is not in it: after a restart that begins again.
struct Journal {
    path: PathBuf,
    file: Option<File>,
    lines: usize,
    /// Whether something could not be written that is to be kept.
    lacks_some: bool,
}

impl Journal {
    fn new(data_dir: &Path) -> Self {
        Self {
            path: data_dir.join(FILE),
            file: None,
            lines: 0,
            lacks_some: false,
        }
    }

    /// What the file tells. A line that was being written when the agent ended is left out.
    fn read(&self) -> io::Result<Vec<SavedScope>> {
        match fs::read_to_string(&self.path) {
            Ok(text) => Ok(text.lines().filter_map(|line| line.parse().ok()).collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    fn add(&mut self, scopes: &[SavedScope]) -> io::Result<()> {
        let file = match self.file.take() {
            Some(file) => file,
            None => open(&self.path, OpenOptions::new().append(true))?,
        };
        // After a failure it is opened again: a line that was cut off ends before the next one begins.
        let file = self.file.insert(file);
        let written = write(file, scopes);
        if written.is_err() {
            self.file = None;
        }
        self.lines += scopes.len();
        written
    }

    /// Written aside and renamed: a crash leaves the old file or the new one.
    fn rewrite(&mut self, scopes: &[SavedScope]) -> io::Result<()> {
        self.lacks_some = true;
        let aside = self.path.with_extension("new");
        let mut file = open(&aside, OpenOptions::new().write(true).truncate(true))?;
        write(&mut file, scopes)?;
        fs::rename(&aside, &self.path)?;
        // It goes on under its new name, at its end.
        self.file = Some(file);
        self.lines = scopes.len();
        self.lacks_some = false;
        Ok(())
    }

    /// Adds scopes, and writes the file anew when too much of it is waste or it lacks some. After a failure it lacks these.
    fn save(&mut self, scopes: &[SavedScope], all: impl FnOnce() -> Vec<SavedScope>) -> io::Result<()> {
        if self.lacks_some {
            return self.rewrite(&all());
        }
        self.lacks_some = true;
        self.add(scopes)?;
        self.lacks_some = false;
        // The table is walked only when the file has become long.
        if self.lines <= WASTE_MIN {
            return Ok(());
        }
        let all = all();
        if self.is_wasteful(all.len()) {
            self.rewrite(&all)?;
        }
        Ok(())
    }

    /// Whether most of the file is about forgotten scopes.
    fn is_wasteful(&self, kept: usize) -> bool {
        self.lines > 2 * kept + WASTE_MIN
    }
}

fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    options.create(true).mode(0o600).open(path)
}

fn write(file: &mut File, scopes: &[SavedScope]) -> io::Result<()> {
    // An empty line first: what was cut off before ends there.
    let mut text = String::from("\n");
    for scope in scopes {
        text.push_str(&scope.to_string());
        text.push('\n');
    }
    file.write_all(text.as_bytes())?;
    file.sync_data()
}

/// Keeps what is known of workflows: forgets what is over, saves the scopes of those that go on.
pub(super) struct Scopes {
    shared: Arc<Shared>,
    journal: Arc<Mutex<Journal>>,
}

impl Scopes {
    /// Gives the table what the last process left. A file that cannot be used costs only the scopes in it: later calls with
    /// their keys are then refused. It does not keep the agent from running.
    pub(super) fn restore(shared: Arc<Shared>, data_dir: &Path) -> Self {
        let mut journal = Journal::new(data_dir);
        // Mostly there is none.
        let _ = fs::remove_file(data_dir.join(FILE_OF_BEFORE));
        match journal.read() {
            Ok(saved) => {
                let limits = &shared.world().limits;
                let restored = saved
                    .iter()
                    .filter(|saved| shared.correlation.restore(saved, limits))
                    .count();
                if restored > 0 {
                    tracing::info!(scopes = restored, "workflows of before the restart go on");
                }
            }
            Err(error) => {
                tracing::warn!(%error, file = %journal.path.display(), "scopes of before the restart are lost");
            }
        }
        if let Err(error) = journal.rewrite(&shared.correlation.to_be_kept()) {
            warn_unsaved(&error, &journal.path);
        }
        let journal = Arc::new(Mutex::new(journal));
        Self { shared, journal }
    }

    /// Runs until it is told to stop, and then saves what is left.
    pub(super) async fn keep(mut self, mut stop: oneshot::Receiver<()>) {
        let mut expire = tokio::time::interval(EXPIRE_EVERY);
        loop {
            tokio::select! {
                scopes = self.shared.correlation.unsaved() => self.save(scopes).await,
                _ = expire.tick() => {
                    self.shared.correlation.expire();
                    self.save(Vec::new()).await;
                }
                _ = &mut stop => break,
            }
        }
        let scopes = self.shared.correlation.take_unsaved();
        self.save(scopes).await;
    }

    /// What comes in the meantime is saved together, next. What was not saved is tried again.
    async fn save(&mut self, scopes: Vec<SavedScope>) {
        let lacks_some = || lock(&self.journal).lacks_some;
        if scopes.is_empty() && !lacks_some() {
            return;
        }
        let (shared, journal) = (self.shared.clone(), self.journal.clone());
        let saved = tokio::task::spawn_blocking(move || {
            let mut journal = lock(&journal);
            if let Err(error) = journal.save(&scopes, || shared.correlation.to_be_kept()) {
                warn_unsaved(&error, &journal.path);
            }
        });
        // It does not panic, and nobody aborts it.
        let _ = saved.await;
    }
}

fn lock(journal: &Mutex<Journal>) -> MutexGuard<'_, Journal> {
    journal.lock().unwrap_or_else(PoisonError::into_inner)
}

fn warn_unsaved(error: &io::Error, path: &Path) {
    tracing::warn!(%error, file = %path.display(), "scopes of workflows that go on are not saved: a restart now would lose them");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved(number: u64) -> SavedScope {
        format!("{number:013x} scope 8 B: site{number}").parse().unwrap()
    }

    #[test]
    fn what_was_added_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::new(dir.path());
        assert_eq!(journal.read().unwrap(), []);
        journal.rewrite(&[]).unwrap();
        journal.add(&[saved(1), saved(2)]).unwrap();
        journal.add(&[saved(3)]).unwrap();
        let all = [saved(1), saved(2), saved(3)];
        assert_eq!(Journal::new(dir.path()).read().unwrap(), all);

        let mut journal = Journal::new(dir.path());
        journal.rewrite(&[saved(2)]).unwrap();
        journal.add(&[saved(4)]).unwrap();
        assert_eq!(journal.read().unwrap(), [saved(2), saved(4)]);
        assert_eq!(journal.lines, 2);
        assert!(!dir.path().join("scopes.new").exists());
    }

    #[test]
    fn a_line_that_was_cut_off_costs_only_itself() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::new(dir.path());
        journal.add(&[saved(1)]).unwrap();
        let text = fs::read_to_string(&journal.path).unwrap();
        let line = saved(2).to_string();
        for length in 0..line.len() {
            fs::write(&journal.path, format!("{text}{}", &line[..length])).unwrap();
            let mut journal = Journal::new(dir.path());
            journal.add(&[saved(3)]).unwrap();
            assert_eq!(
                journal.read().unwrap(),
                [saved(1), saved(3)],
                "cut after {length}"
            );
        }
    }

    #[test]
    fn what_could_not_be_written_is_written_next() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let mut journal = Journal::new(&data);
        let all = || vec![saved(1), saved(2)];
        // There is no such directory yet.
        assert!(journal.save(&[saved(1)], all).is_err());
        assert!(journal.save(&[], all).is_err());
        fs::create_dir(&data).unwrap();
        journal.save(&[saved(2)], all).unwrap();
        assert_eq!(journal.read().unwrap(), all());
        assert!(!journal.lacks_some);
        journal.save(&[saved(3)], || panic!("it lacks nothing")).unwrap();
        assert_eq!(journal.read().unwrap().len(), 3);
    }

    #[test]
    fn the_file_does_not_grow_with_what_is_over() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::new(dir.path());
        journal.lines = WASTE_MIN + 20;
        assert!(!journal.is_wasteful(10));
        assert!(journal.is_wasteful(9));
        journal.save(&[saved(1)], || vec![saved(7)]).unwrap();
        assert_eq!(journal.read().unwrap(), [saved(7)]);
        assert!(!journal.is_wasteful(1));
    }
}
