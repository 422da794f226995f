//! Where a report goes: standard output, or a file that appears whole or not at all.

use std::fs::{self, File, Permissions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::{Common, Failure};

/// The destination of a report.
#[derive(Debug)]
pub enum Output {
    Stdout,
    /// A regular file, written beside it and renamed.
    File(PathBuf),
    /// A device or pipe, written in place.
    Special(PathBuf),
}

impl Output {
    /// Checks a destination before the work begins; `-` is standard output.
    pub fn new(wanted: Option<&Path>, input: &Path) -> Result<Self, Failure> {
        let Some(path) = wanted.filter(|path| *path != Path::new("-")) else {
            return Ok(Output::Stdout);
        };
        let Ok(there) = fs::metadata(path) else {
            // Where the file cannot be put is told before the work, not after it.
            fs::metadata(folder_of(path)).map_err(failed(path))?;
            return Ok(Output::File(path.to_owned()));
        };
        if there.is_dir() {
            return Err(Failure::OutputFolder(path.to_owned()));
        }
        if fs::metadata(input).is_ok_and(|trace| same_file(&trace, &there)) {
            return Err(Failure::OutputIsInput(path.to_owned()));
        }
        match there.is_file() {
            // Renaming over a symbolic link would replace the link.
            true => Ok(Output::File(
                fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()),
            )),
            false => Ok(Output::Special(path.to_owned())),
        }
    }

    /// Writes a report; its styles are kept only on a terminal.
    pub fn write(&self, text: &str, common: Common) -> Result<(), Failure> {
        let plain = || anstream::adapter::strip_str(text).to_string();
        match self {
            Output::Stdout => to_stdout(text, common),
            Output::File(_) | Output::Special(_) => {
                self.stream(|out| out.write_all(plain().as_bytes()))
            }
        }
    }
}

impl Output {
    /// Writes what is large, or no text: piece by piece.
    pub fn stream(
        &self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), Failure> {
        let through = |to: &mut dyn Write| {
            let mut buffer = BufWriter::with_capacity(1 << 16, to);
            write(&mut buffer)?;
            buffer.flush()
        };
        match self {
            Output::Stdout => {
                unless_closed(through(&mut io::stdout().lock())).map_err(Failure::Stdout)
            }
            Output::File(path) => replace(path, through).map_err(failed(path)),
            Output::Special(path) => {
                let opened = File::options().write(true).open(path);
                let written = opened.and_then(|mut file| through(&mut file));
                unless_closed(written).map_err(failed(path))
            }
        }
    }
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> Failure {
    let path = path.to_owned();
    move |error| Failure::Write { path, error }
}

fn same_file(a: &fs::Metadata, b: &fs::Metadata) -> bool {
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

/// Writes to standard output; a reader that went away has read what it wanted.
pub fn to_stdout(text: &str, common: Common) -> Result<(), Failure> {
    let mut stdout = anstream::AutoStream::new(io::stdout(), common.color.choice()).lock();
    let written = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
    unless_closed(written).map_err(Failure::Stdout)
}

fn unless_closed(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

/// Puts a file in place in one step, so that no reader ever sees half of it.
fn replace(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mode = fs::metadata(path).map_or(0o666, |there| there.mode() & 0o777);
    let mut file = tempfile::Builder::new()
        .prefix(".ttwu-")
        .permissions(Permissions::from_mode(mode))
        .tempfile_in(folder_of(path))
        .map_err(without_path)?;
    write(&mut file)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

fn folder_of(path: &Path) -> &Path {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// An error without the name of the temporary file, which says nothing to the user.
fn without_path(error: io::Error) -> io::Error {
    let inner = error.get_ref().and_then(|inner| inner.source());
    let inner = inner.and_then(|inner| inner.downcast_ref::<io::Error>());
    match inner.and_then(io::Error::raw_os_error) {
        Some(code) => io::Error::from_raw_os_error(code),
        None => error,
    }
}
