//! Apache Parquet: a table with a row an edge, ids from 0.
//!
//! Columns of source, target and weight are found by their names, as in text tables, or by
//! [`LoadOptions::columns`]. Ids are integers of 32 or 64 bits, weights these or floats; no value may be missing, and
//! columns of lists are refused. Row groups are read on all threads.
//!
//! Source: the Apache Parquet format specification, by the crate `parquet`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use gpuvm_engine::graph::MAX_VERTICES;
use parquet::basic::{ConvertedType, Type};
use parquet::column::reader::ColumnReader;
use parquet::file::reader::{FileReader, SerializedFileReader};
use rayon::prelude::*;

use super::edge_list::{asked_columns, columns_by_names};
use super::id_map::IdMap;
use crate::builder::Batch;
use crate::error::{LoadError, Place};
use crate::options::LoadOptions;
use crate::progress::Progress;
use crate::source::{EdgeSource, Facts, Field, Pass, Shape, Symmetry};

const FORMAT: &str = "Parquet";
/// Rows that are read at a time.
const ROWS: usize = 1 << 13;

/// A table, and which of its columns matter.
pub(crate) struct Table {
    reader: SerializedFileReader<Bytes>,
    facts: Facts,
    source: Column,
    target: Column,
    weight: Option<Column>,
    ids: Option<IdMap>,
    bytes: u64,
}

/// A column of numbers.
#[derive(Clone, Debug)]
struct Column {
    index: usize,
    name: String,
    kind: Type,
    unsigned: bool,
}

/// Values of a column.
enum Values {
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Float(Vec<f32>),
    Double(Vec<f64>),
}

impl Values {
    fn id(&self, at: usize, unsigned: bool) -> Option<u64> {
        match self {
            Self::Int32(values) if unsigned => values.get(at).map(|&value| u64::from(value as u32)),
            Self::Int64(values) if unsigned => values.get(at).map(|&value| value as u64),
            Self::Int32(values) => values.get(at).and_then(|&value| value.try_into().ok()),
            Self::Int64(values) => values.get(at).and_then(|&value| value.try_into().ok()),
            Self::Float(_) | Self::Double(_) => None,
        }
    }

    /// A weight; `None` if a double does not hold it exactly.
    fn number(&self, at: usize, unsigned: bool) -> Option<f64> {
        match self {
            Self::Int32(values) if unsigned => values.get(at).map(|&value| f64::from(value as u32)),
            Self::Int64(values) if unsigned => values.get(at).map(|&value| value as u64).and_then(|value| {
                let number = value as f64;
                (number as u64 == value).then_some(number)
            }),
            Self::Int32(values) => values.get(at).map(|&value| value.into()),
            Self::Int64(values) => values.get(at).and_then(|&value| {
                let number = value as f64;
                (number as i64 == value).then_some(number)
            }),
            Self::Float(values) => values.get(at).map(|&value| value.into()),
            Self::Double(values) => values.get(at).copied(),
        }
    }
}

impl Table {
    pub(crate) fn open(
        bytes: &[u8],
        path: &Path,
        options: &LoadOptions,
        progress: &dyn Progress,
    ) -> Result<Self, LoadError> {
        guarded(path, || Self::read_head(bytes, path, options, progress))
    }

    fn read_head(
        bytes: &[u8],
        path: &Path,
        options: &LoadOptions,
        progress: &dyn Progress,
    ) -> Result<Self, LoadError> {
        let reader = SerializedFileReader::new(Bytes::copy_from_slice(bytes))
            .map_err(|error| damaged(path, error.to_string()))?;
        let columns = reader.metadata().file_metadata().schema_descr().columns();
        let names: Vec<String> = columns.iter().map(|column| column.name().to_owned()).collect();
        let names: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
        let shown = || names.iter().map(|name| crate::text::quote(name)).collect::<Vec<_>>().join(", ");
        let (source, target, weight) = match options.columns.as_deref() {
            Some(asked) => asked_columns(asked, Some(&names), names.len(), path)?,
            None => columns_by_names(&names).ok_or_else(|| LoadError::ManyColumns {
                path: path.to_owned(),
                line: 1,
                found: shown(),
            })?,
        };
        let column = |index: usize| -> Result<Column, LoadError> {
            let column = &columns[index];
            let unsigned = matches!(column.converted_type(), ConvertedType::UINT_32 | ConvertedType::UINT_64)
                || column
                    .logical_type_ref()
                    .is_some_and(|kind| format!("{kind:?}").contains("is_signed: false"));
            let name = column.name().to_owned();
            let kind = column.physical_type();
            let numbers = matches!(kind, Type::INT32 | Type::INT64 | Type::FLOAT | Type::DOUBLE);
            if !numbers || column.max_rep_level() > 0 {
                let reason = format!("column {name} is of type {kind}, edges need plain numbers");
                return Err(damaged(path, reason));
            }
            Ok(Column { index, name, kind, unsigned })
        };
        let (source, target) = (column(source)?, column(target)?);
        let weight = weight.map(column).transpose()?;
        for end in [&source, &target] {
            if !matches!(end.kind, Type::INT32 | Type::INT64) {
                return Err(damaged(path, format!("column {} has ids that are no integers", end.name)));
            }
        }
        let rows = reader.metadata().file_metadata().num_rows();
        let field = match &weight {
            None => Field::Pattern,
            Some(column) if matches!(column.kind, Type::INT32 | Type::INT64) => Field::Integer,
            Some(_) => Field::Number,
        };
        let facts = Facts {
            path: path.to_owned(),
            format: FORMAT.to_owned(),
            field,
            symmetry: Symmetry::General,
            shape: None,
            place: Place::default(),
            // Nothing is allocated for rows that only the head promises.
            entries: 0,
            dense: None,
        };
        let bytes = u64::try_from(rows).unwrap_or(0);
        let mut table = Self { reader, facts, source, target, weight, ids: None, bytes };
        if options.relabel {
            let ids = table.collect_ids(progress)?;
            table.facts.shape = Some(Shape::square(ids.ids().len() as u64));
            table.ids = Some(ids);
        }
        Ok(table)
    }

    fn path(&self) -> PathBuf {
        self.facts.path.clone()
    }

    /// All ids that occur, in order.
    fn collect_ids(&self, progress: &dyn Progress) -> Result<IdMap, LoadError> {
        let parts = (0..self.reader.num_row_groups())
            .into_par_iter()
            .map(|group| {
                let mut ids = Vec::new();
                self.group(group, false, progress, &mut |source, target, _| {
                    ids.extend([source, target]);
                    Ok(())
                })?;
                ids.sort_unstable();
                ids.dedup();
                Ok(ids)
            })
            .collect::<Result<Vec<_>, LoadError>>()?;
        IdMap::new(parts, &self.facts.path)
    }

    fn column(&self, group: usize, column: &Column) -> Result<ColumnReader, LoadError> {
        let read = || self.reader.get_row_group(group)?.get_column_reader(column.index);
        read().map_err(|error| damaged(&self.facts.path, error.to_string()))
    }

    /// The next values of a column, none at its end.
    fn values(&self, reader: &mut ColumnReader, column: &Column) -> Result<(Values, usize), LoadError> {
        macro_rules! read {
            ($reader:ident, $variant:ident) => {{
                let (mut levels, mut values) = (Vec::new(), Vec::new());
                let read = $reader.read_records(ROWS, Some(&mut levels), None, &mut values);
                let (records, found, _) =
                    read.map_err(|error| damaged(&self.facts.path, error.to_string()))?;
                if found != records || values.len() != records {
                    let reason = format!("column {} has rows without a value", column.name);
                    return Err(damaged(&self.facts.path, reason));
                }
                Ok((Values::$variant(values), records))
            }};
        }
        match reader {
            ColumnReader::Int32ColumnReader(reader) => read!(reader, Int32),
            ColumnReader::Int64ColumnReader(reader) => read!(reader, Int64),
            ColumnReader::FloatColumnReader(reader) => read!(reader, Float),
            ColumnReader::DoubleColumnReader(reader) => read!(reader, Double),
            _ => Err(damaged(&self.facts.path, format!("column {} has no numbers", column.name))),
        }
    }

    /// Gives the rows of a group to `take`.
    fn group(
        &self,
        group: usize,
        with_weights: bool,
        progress: &dyn Progress,
        take: &mut dyn FnMut(u64, u64, f64) -> Result<(), LoadError>,
    ) -> Result<(), LoadError> {
        let mut sources = self.column(group, &self.source)?;
        let mut targets = self.column(group, &self.target)?;
        let weight = self.weight.as_ref().filter(|_| with_weights);
        let mut weights = weight.map(|column| Ok((column, self.column(group, column)?))).transpose()?;
        loop {
            if progress.is_cancelled() {
                return Err(LoadError::Interrupted);
            }
            let (source_values, rows) = self.values(&mut sources, &self.source)?;
            let (target_values, target_rows) = self.values(&mut targets, &self.target)?;
            let weight_values = match &mut weights {
                Some((column, reader)) => Some((*column, self.values(reader, column)?)),
                None => None,
            };
            if target_rows != rows || weight_values.as_ref().is_some_and(|(_, (_, found))| *found != rows) {
                return Err(damaged(&self.facts.path, "its columns have different lengths".to_owned()));
            }
            if rows == 0 {
                return Ok(());
            }
            for row in 0..rows {
                let id = |values: &Values, column: &Column| {
                    values.id(row, column.unsigned).ok_or_else(|| {
                        damaged(&self.facts.path, format!("column {} has a negative id", column.name))
                    })
                };
                let (source, target) = (id(&source_values, &self.source)?, id(&target_values, &self.target)?);
                let value = match &weight_values {
                    None => 1.0,
                    Some((column, (values, _))) => values.number(row, column.unsigned).ok_or_else(|| {
                        let reason = format!("column {} has integers beyond 2^53", column.name);
                        damaged(&self.facts.path, reason)
                    })?,
                };
                take(source, target, value)?;
            }
            progress.advance(rows as u64);
        }
    }
}

/// The crate panics on some damaged files (a column chunk of negative length, for one); here that is an error like others.
fn guarded<T>(path: &Path, read: impl FnOnce() -> Result<T, LoadError>) -> Result<T, LoadError> {
    // What a panic leaves half done is dropped with the table.
    let caught = catch_unwind(AssertUnwindSafe(read));
    caught.unwrap_or_else(|_| Err(damaged(path, "it breaks the rules of the format".to_owned())))
}

fn damaged(path: &Path, reason: String) -> LoadError {
    LoadError::Damaged { path: path.to_owned(), reason, format: FORMAT }
}

impl EdgeSource for Table {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn pass(
        &self,
        pass: Pass,
        progress: &dyn Progress,
        take: &(dyn Fn(&mut Batch) + Sync),
    ) -> Result<(), LoadError> {
        let with_weights = pass.first || pass.keeps_values;
        let groups = (0..self.reader.num_row_groups()).into_par_iter();
        let read_group = |group| {
            let mut batch = Batch::new();
            self.group(group, with_weights, progress, &mut |source, target, value| {
                let vertex = |id: u64| match &self.ids {
                    Some(ids) => ids.get(id),
                    None => u32::try_from(id).ok().filter(|&id| u64::from(id) < MAX_VERTICES),
                };
                let (Some(source), Some(target)) = (vertex(source), vertex(target)) else {
                    let id = source.max(target).to_string();
                    return Err(LoadError::IdTooLarge { path: self.path(), line: 1, what: "id", id });
                };
                if pass.keeps_values && !value.is_finite() {
                    return Err(LoadError::BadValue { path: self.path(), entry: 0, value });
                }
                if batch.push(source, target, value) {
                    take(&mut batch);
                    batch.clear();
                }
                Ok(())
            })?;
            take(&mut batch);
            Ok(())
        };
        guarded(&self.facts.path, || groups.try_for_each(read_group))
    }

    fn original_ids(&self) -> Option<&[u64]> {
        self.ids.as_ref().map(IdMap::ids)
    }
}
