//! The tables of a dataset: what lies in `TABLE/host=…/trace=…`, whoever put it there.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use percent_encoding::percent_decode_str;
use polars::prelude::*;

use super::QueryError;
use crate::leftovers::Temporary;
use crate::tables::Table;
use crate::tables::export::{Format, Key};

/// A dataset: a folder with one in it for each table.
#[derive(Debug)]
pub struct Dataset {
    root: PathBuf,
    /// Holds a link to the folder, where its own name would be misread.
    _link: Option<Temporary>,
}

/// Files of one kind, whose folders are named by the same keys.
type Kind = (Vec<Key>, &'static str);

impl Dataset {
    /// Opens the dataset in a folder.
    ///
    /// # Errors
    /// If no table is there.
    pub fn open(path: &Path) -> Result<Self, QueryError> {
        let failed = |source| QueryError::Read {
            path: path.to_owned(),
            source,
        };
        let whole = fs::canonicalize(path).map_err(failed)?;
        fs::read_dir(&whole).map_err(failed)?;
        let (root, link) = readable(&whole).map_err(failed)?;
        let dataset = Self { root, _link: link };
        match dataset.tables().is_empty() {
            true => Err(QueryError::NoDataset {
                path: path.to_owned(),
            }),
            false => Ok(dataset),
        }
    }

    /// The names of its tables.
    pub fn tables(&self) -> Vec<String> {
        let names = folders(&self.root);
        let mut names: Vec<String> = names
            .filter(|name| is_word(name) && !self.files(name).is_empty())
            .collect();
        names.sort_unstable();
        names
    }

    /// The rows of a table, unread. The last columns are `host` and `trace`.
    ///
    /// # Errors
    /// If its files cannot be read.
    pub fn table(&self, name: &str) -> Result<LazyFrame, QueryError> {
        let folder = self.root.join(name);
        let failed = |source| QueryError::Table {
            path: folder.clone(),
            table: name.to_owned(),
            source,
        };
        let kinds = self.files(name);
        let alone = kinds.len() == 1;
        let frames = kinds
            .into_iter()
            .map(|((keys, extension), files)| scan(name, &keys, extension, files));
        let frames: Vec<LazyFrame> = frames.collect::<PolarsResult<_>>().map_err(failed)?;
        if alone {
            return frames.into_iter().next().ok_or_else(|| failed(no_files()));
        }
        // The keys come last in each, but may differ in their order.
        let ordered = frames.into_iter().map(|frame| {
            let keys = Key::ALL.map(|key| PlSmallStr::from_static(key.as_str()));
            let others = all().exclude_cols(keys.clone()).as_expr();
            frame.select([&[others][..], &keys.map(col)].concat())
        });
        let ordered: Vec<LazyFrame> = ordered.collect();
        concat(ordered, UnionArgs::default()).map_err(failed)
    }

    /// The files of a table, by kind.
    fn files(&self, name: &str) -> BTreeMap<Kind, Vec<PathBuf>> {
        let mut files = BTreeMap::new();
        find(&self.root.join(name), &mut Vec::new(), &mut files);
        files
    }
}

fn no_files() -> PolarsError {
    polars_err!(NoData: "no files")
}

/// The path under which polars can read a folder: `=` in it would be taken for keys, and what is not UTF-8 for nothing.
fn readable(whole: &Path) -> std::io::Result<(PathBuf, Option<Temporary>)> {
    let plain = whole.to_str().is_some_and(|path| !path.contains('='));
    if plain {
        return Ok((whole.to_owned(), None));
    }
    let folder = Temporary::new("ttwu-", &std::env::temp_dir())?;
    let link = folder.path().join("dataset");
    symlink(whole, &link)?;
    Ok((link, Some(folder)))
}

/// The names of the folders in one, without hidden ones.
fn folders(within: &Path) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(within).into_iter().flatten().flatten();
    let names = entries.filter(|entry| entry.path().is_dir());
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| !name.starts_with(['.', '_']))
}

/// Whether it can stand in SQL as it is.
fn is_word(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic())
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Goes through folders named by keys, each key at most once.
fn find(folder: &Path, keys: &mut Vec<Key>, files: &mut BTreeMap<Kind, Vec<PathBuf>>) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut entries: Vec<(String, PathBuf)> = entries
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
        .filter(|(name, _)| !name.starts_with(['.', '_']))
        .collect();
    entries.sort_unstable();
    for (name, path) in entries {
        let key = name.split_once('=').map(|(key, _)| key);
        let key = Key::ALL.into_iter().find(|of| Some(of.as_str()) == key);
        match key.filter(|key| !keys.contains(key)) {
            Some(key) => {
                keys.push(key);
                find(&path, keys, files);
                keys.pop();
            }
            None => {
                let mut formats = Format::ALL.iter().map(|format| format.extension());
                let ends = |end: &&str| path.extension().is_some_and(|of| of == *end);
                if let Some(extension) = formats.find(ends).filter(|_| path.is_file()) {
                    files
                        .entry((keys.clone(), extension))
                        .or_default()
                        .push(path);
                }
            }
        }
    }
}

fn scan(
    table: &str,
    keys: &[Key],
    extension: &str,
    files: Vec<PathBuf>,
) -> PolarsResult<LazyFrame> {
    if extension == Format::Csv.extension() {
        let files = files.iter().map(|file| scan_csv(table, keys, file));
        return concat(
            files.collect::<PolarsResult<Vec<_>>>()?,
            UnionArgs::default(),
        );
    }
    let paths = files.iter().map(|file| PlRefPath::try_from_path(file));
    let paths: Vec<PlRefPath> = paths.collect::<PolarsResult<_>>()?;
    let sources = ScanSources::Paths(paths.into());
    // Values are text, whatever they look like.
    let fields = keys
        .iter()
        .map(|key| Field::new(key.as_str().into(), DataType::String));
    let hive_options = match keys.is_empty() {
        true => HiveOptions::new_disabled(),
        false => HiveOptions {
            enabled: Some(true),
            hive_start_idx: 0,
            schema: Some(Arc::new(fields.collect())),
            try_parse_dates: false,
        },
    };
    if extension == Format::Ipc.extension() {
        let args = UnifiedScanArgs {
            glob: false,
            hive_options,
            ..UnifiedScanArgs::default()
        };
        return LazyFrame::scan_ipc_sources(sources, IpcScanOptions::default(), args);
    }
    let args = ScanArgsParquet {
        glob: false,
        hive_options,
        ..ScanArgsParquet::default()
    };
    LazyFrame::scan_parquet_sources(sources, args)
}

/// Text says nothing of types: they are those of the table of that name.
fn scan_csv(table: &str, keys: &[Key], file: &Path) -> PolarsResult<LazyFrame> {
    let table = Table::ALL.iter().find(|of| of.as_str() == table);
    let columns = table.map_or(&[][..], |table| table.columns());
    let known = columns
        .iter()
        .map(|of| Field::new(of.name.into(), of.exported().data_type()));
    let known: Schema = known.collect();
    let reader = LazyCsvReader::new(PlRefPath::try_from_path(file)?)
        .with_glob(false)
        .with_dtype_overwrite(Some(Arc::new(known)))
        .with_infer_schema_length(table.map_or(Some(1000), |_| Some(0)));
    let values = keys.iter().map(|key| {
        let value = value_in(file, *key).unwrap_or_default();
        lit(value).alias(key.as_str())
    });
    Ok(reader.finish()?.with_columns(values.collect::<Vec<_>>()))
}

/// What the path of a file says of a key.
fn value_in(file: &Path, key: Key) -> Option<String> {
    let names = file.components().rev().filter_map(|part| {
        let (of, value) = part.as_os_str().to_str()?.split_once('=')?;
        (of == key.as_str()).then_some(value)
    });
    let value = names.take(1).next()?;
    Some(percent_decode_str(value).decode_utf8_lossy().into_owned())
}
