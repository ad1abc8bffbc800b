//! The four tables as Parquet, one file each in a folder, packed with zstd: for DuckDB, Polars, Spark and DataFusion,
//! over the files of as many ranks as there are.
//!
//! Written column by column without Arrow. Always: rows come in groups of [`GROUP`], so memory does not grow with the
//! trace.

use crate::base::Progress;
use crate::format::export::exporter::{ExportError, ExportSubject, Exporter};
use crate::format::export::tables::{Cell, Column, Kind, Table};
use crate::model::Snapshot;
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::io::Write;
use std::sync::Arc;

/// Rows of a group.
const GROUP: usize = 1 << 17;
/// How hard zstd packs: its own default.
const LEVEL: i32 = 3;

/// See the head of this file.
pub struct ParquetFolder;

impl Exporter for ParquetFolder {
    fn name(&self) -> &'static str {
        "parquet"
    }
    fn about(&self) -> &'static str {
        "a folder of four tables (events, allocations, segments, stacks) for DuckDB, Polars, Spark, DataFusion"
    }
    fn parts(&self) -> &'static [&'static str] {
        &["events.parquet", "allocations.parquet", "segments.parquet", "stacks.parquet"]
    }
    fn leaves_out(&self, _snapshot: &Snapshot) -> Option<String> {
        Some("settings, annotations and keys unknown to fragscope have no place in the tables".to_owned())
    }
    fn write(
        &self,
        subject: &ExportSubject<'_>,
        part: &str,
        out: &mut (dyn Write + Send),
        progress: &Progress,
    ) -> Result<(), ExportError> {
        let name = part.strip_suffix(".parquet").unwrap_or(part);
        let table = Table::of_name(name).ok_or_else(|| ExportError::NoTable(name.to_owned()))?;
        let schema = Arc::new(parse_message_type(&schema(table))?);
        let packed = Compression::ZSTD(ZstdLevel::try_new(LEVEL)?);
        let properties = WriterProperties::builder()
            .set_compression(packed)
            .set_created_by(concat!("fragscope ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        let mut writer = SerializedFileWriter::new(out, schema, Arc::new(properties))?;
        let mut group = Group::new(table.columns());
        table.rows(subject, progress, &mut |cells| {
            group.push(cells);
            if group.rows == GROUP { group.write(&mut writer) } else { Ok(()) }
        })?;
        group.write(&mut writer)?;
        writer.close()?;
        Ok(())
    }
}

impl From<ParquetError> for ExportError {
    fn from(error: ParquetError) -> Self {
        match error {
            ParquetError::External(inner) => match inner.downcast::<std::io::Error>() {
                Ok(error) => ExportError::Io(*error),
                Err(error) => ExportError::Writer(error.to_string()),
            },
            error => ExportError::Writer(error.to_string()),
        }
    }
}

/// The table's columns in Parquet's own notation.
fn schema(table: Table) -> String {
    let mut text = format!("message {} {{\n", table.name());
    for Column { name, kind, optional } in table.columns() {
        let need = if *optional { "OPTIONAL" } else { "REQUIRED" };
        text.push_str(&match kind {
            Kind::Int | Kind::Stack => format!("{need} INT64 {name};\n"),
            Kind::Address => format!("{need} INT64 {name} (INTEGER(64,false));\n"),
            Kind::Truth => format!("{need} BOOLEAN {name};\n"),
            Kind::Text => format!("{need} BINARY {name} (STRING);\n"),
            Kind::Texts => {
                format!("{need} group {name} (LIST) {{ REPEATED group list {{ REQUIRED BINARY element (STRING); }} }}\n")
            }
        });
    }
    text.push('}');
    text
}

/// The rows of a group, column by column.
struct Group {
    columns: Vec<(Values, Levels)>,
    rows: usize,
}

enum Values {
    Int(Vec<i64>),
    Truth(Vec<bool>),
    Text(Vec<ByteArray>),
}

/// Of each value, whether it is there, and whether it begins a row; empty where a column needs none.
#[derive(Default)]
struct Levels {
    there: Option<Vec<i16>>,
    begins: Option<Vec<i16>>,
}

impl Group {
    fn new(columns: &[Column]) -> Group {
        let columns = columns.iter().map(|column| {
            let values = match column.kind {
                Kind::Int | Kind::Address | Kind::Stack => Values::Int(Vec::new()),
                Kind::Truth => Values::Truth(Vec::new()),
                Kind::Text | Kind::Texts => Values::Text(Vec::new()),
            };
            let list = column.kind == Kind::Texts;
            let levels = Levels { there: (column.optional || list).then(Vec::new), begins: list.then(Vec::new) };
            (values, levels)
        });
        Group { columns: columns.collect(), rows: 0 }
    }
    fn push(&mut self, cells: &[Cell<'_>]) {
        self.rows += 1;
        for ((values, levels), cell) in self.columns.iter_mut().zip(cells) {
            let mut there = |level: i16| {
                if let Some(there) = &mut levels.there {
                    there.push(level);
                }
            };
            match (values, cell) {
                (Values::Int(values), Cell::Int(number)) => {
                    values.push(*number);
                    there(1);
                }
                // The same 64 bits, which the column's annotation calls unsigned.
                (Values::Int(values), Cell::Address(number)) => {
                    values.push(*number as i64);
                    there(1);
                }
                (Values::Int(values), Cell::Stack(stack)) => {
                    values.push(i64::from(stack.0));
                    there(1);
                }
                (Values::Truth(values), Cell::Truth(truth)) => {
                    values.push(*truth);
                    there(1);
                }
                (Values::Text(values), Cell::Text(text)) => {
                    values.push(ByteArray::from(*text));
                    there(1);
                }
                (Values::Text(values), Cell::Texts(texts)) => {
                    for text in texts {
                        values.push(ByteArray::from(text.as_str()));
                        there(1);
                    }
                    if texts.is_empty() {
                        there(0);
                    }
                    if let Some(begins) = &mut levels.begins {
                        let rest = texts.len().saturating_sub(1);
                        begins.push(0);
                        begins.extend(std::iter::repeat_n(1, rest));
                    }
                }
                // Nothing, or what does not fit its column, which the register of columns rules out.
                (Values::Int(_) | Values::Truth(_) | Values::Text(_), _) => there(0),
            }
        }
    }
    fn write<W: Write + Send>(&mut self, writer: &mut SerializedFileWriter<W>) -> Result<(), ExportError> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = writer.next_row_group()?;
        let mut columns = self.columns.iter_mut();
        while let Some(mut column) = group.next_column()? {
            let Some((values, Levels { there, begins })) = columns.next() else { break };
            let (levels, rows) = (there.as_deref(), begins.as_deref());
            match values {
                Values::Int(values) => column.typed::<Int64Type>().write_batch(values, levels, rows)?,
                Values::Truth(values) => column.typed::<BoolType>().write_batch(values, levels, rows)?,
                Values::Text(values) => column.typed::<ByteArrayType>().write_batch(values, levels, rows)?,
            };
            column.close()?;
            match values {
                Values::Int(values) => values.clear(),
                Values::Truth(values) => values.clear(),
                Values::Text(values) => values.clear(),
            }
            there.iter_mut().chain(begins).for_each(Vec::clear);
        }
        group.close()?;
        self.rows = 0;
        Ok(())
    }
}
