//! One table as CSV (RFC 4180): `events` unless another is named.
//!
//! Always: numbers are bare digits, what is not known is an empty cell, and a stack stands in full, its frames parted by
//! semicolons, the innermost first.

use crate::base::Progress;
use crate::format::export::exporter::{ExportError, ExportSubject, Exporter};
use crate::format::export::tables::{Cell, Table};
use crate::model::Snapshot;
use std::io::Write;

/// See the head of this file.
pub struct CsvFile;

impl Exporter for CsvFile {
    fn name(&self) -> &'static str {
        "csv"
    }
    fn about(&self) -> &'static str {
        "one table for spreadsheets: events, or the one named by --table"
    }
    fn has_tables(&self) -> bool {
        true
    }
    fn leaves_out(&self, _snapshot: &Snapshot) -> Option<String> {
        Some("settings, annotations and keys unknown to fragscope have no place in a table".to_owned())
    }
    fn write(
        &self,
        subject: &ExportSubject<'_>,
        _part: &str,
        out: &mut (dyn Write + Send),
        progress: &Progress,
    ) -> Result<(), ExportError> {
        let table = match subject.table {
            None => Table::Events,
            Some(name) => Table::of_name(name).ok_or_else(|| ExportError::NoTable(name.to_owned()))?,
        };
        let names: Vec<&str> = table.columns().iter().map(|column| column.name).collect();
        writeln!(out, "{}", names.join(","))?;
        let stacks = &subject.snapshot.stacks;
        let mut line = String::new();
        table.rows(subject, progress, &mut |cells| {
            line.clear();
            for (place, cell) in cells.iter().enumerate() {
                if 0 < place {
                    line.push(',');
                }
                match cell {
                    Cell::Null => {}
                    Cell::Int(number) => line.push_str(&number.to_string()),
                    Cell::Address(number) => line.push_str(&number.to_string()),
                    Cell::Truth(truth) => line.push_str(if *truth { "true" } else { "false" }),
                    Cell::Text(text) => quote(text, &mut line),
                    Cell::Stack(stack) => {
                        let frames: Vec<String> = stacks.frames(*stack).iter().map(|frame| stacks.line(*frame)).collect();
                        quote(&frames.join("; "), &mut line);
                    }
                    Cell::Texts(texts) => quote(&texts.join("; "), &mut line),
                }
            }
            line.push('\n');
            out.write_all(line.as_bytes())?;
            Ok(())
        })?;
        out.flush()?;
        Ok(())
    }
}

fn quote(text: &str, line: &mut String) {
    if text.contains([',', '"', '\n', '\r']) {
        line.push('"');
        line.push_str(&text.replace('"', "\"\""));
        line.push('"');
    } else {
        line.push_str(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_where_they_would_break_a_line() {
        for (text, cell) in
            [("a b", "a b"), ("a,b", "\"a,b\""), ("say \"hi\"", "\"say \"\"hi\"\"\""), ("a\nb", "\"a\nb\""), ("", "")]
        {
            let mut line = String::new();
            quote(text, &mut line);
            assert_eq!(line, cell);
        }
    }
}
