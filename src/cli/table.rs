//! Text tables with aligned columns.

/// How a column's cells stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// Rows of cells, printed with two spaces between columns and none at the end of a line.
#[derive(Clone, Debug)]
pub struct Table {
    aligns: Vec<Align>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table of these columns, without rows.
    pub fn new(aligns: &[Align]) -> Table {
        Table { aligns: aligns.to_vec(), rows: Vec::new() }
    }
    /// Appends a row; missing cells are empty, cells beyond the columns are dropped.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        let mut row: Vec<String> = cells.into_iter().take(self.aligns.len()).map(Into::into).collect();
        row.resize(self.aligns.len(), String::new());
        self.rows.push(row);
    }
    /// The rows as lines, each behind `indent` spaces.
    pub fn lines(&self, indent: usize) -> String {
        let width = |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.aligns.len()).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = " ".repeat(indent);
            for (column, (cell, (width, align))) in row.iter().zip(widths.iter().zip(&self.aligns)).enumerate() {
                if 0 < column {
                    line.push_str("  ");
                }
                let padding = " ".repeat(width - cell.chars().count());
                match align {
                    Align::Left => line.extend([cell.as_str(), &padding]),
                    Align::Right => line.extend([padding.as_str(), cell]),
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_under_each_other() {
        let mut table = Table::new(&[Align::Left, Align::Right, Align::Left]);
        table.row(["reserved", "7.50 GiB", "peak"]);
        table.row(["β", "0 bytes"]);
        assert_eq!(table.lines(2), "  reserved  7.50 GiB  peak\n  β          0 bytes\n");
    }
}
