//! One pixel column at a time: boxes add the exact share of every pixel they cover.
//!
//! Always: the coverage of a column's pixels sums to the heights added (clipped to the column), so what is
//! smaller than a pixel is averaged by its true share. Rows count from the bottom here; a strip is turned
//! over when it becomes pixels.

/// Sums of one pixel: red, green, blue (0 to 255) weighted by coverage, and coverage itself.
pub type Cell = [f32; 4];

/// Boxes of at least this height get a darker upper edge, so that equal neighbours can be told apart.
pub const BORDER_FROM_PX: f64 = 4.0;
/// What the edge's colour is multiplied by.
pub const BORDER_SHADE: f32 = 0.72;

/// Adds a box from `low` to `high` pixels above the bottom of a column.
#[inline]
pub fn add_box(cells: &mut [Cell], low: f64, high: f64, colour: [u8; 3]) {
    if BORDER_FROM_PX <= high - low {
        add_plain(cells, low, high - 1.0, colour, 1.0);
        add_plain(cells, high - 1.0, high, colour, BORDER_SHADE);
    } else {
        add_plain(cells, low, high, colour, 1.0);
    }
}

/// Adds a stretch of one colour, multiplied by `shade`.
#[inline]
pub fn add_plain(cells: &mut [Cell], low: f64, high: f64, colour: [u8; 3], shade: f32) {
    let (low, high) = (low.max(0.0), high.min(cells.len() as f64));
    if high <= low {
        return;
    }
    let [r, g, b] = colour.map(|c| f32::from(c) * shade);
    let mut add = |row: usize, share: f32| {
        if let Some(cell) = cells.get_mut(row) {
            cell[0] += r * share;
            cell[1] += g * share;
            cell[2] += b * share;
            cell[3] += share;
        }
    };
    let (first, last) = (low as usize, (high.ceil() as usize).saturating_sub(1));
    if first == last {
        add(first, (high - low) as f32);
        return;
    }
    add(first, (first as f64 + 1.0 - low) as f32);
    for row in first + 1..last {
        add(row, 1.0);
    }
    add(last, (high - last as f64) as f32);
}

/// The least share of a pixel that what stands out gets, where it covers any of it.
pub const LEAST_LIT: f32 = 0.75;
/// What covers less of a pixel than this is rounding.
const LEAST_SHARE: f32 = 1e-4;

/// A cell in which what stands out, summed in `lit` as well, has at least [`LEAST_LIT`] of the pixel.
#[inline]
pub fn lift(cell: Cell, lit: Cell) -> Cell {
    let share = lit[3];
    if !(LEAST_SHARE..LEAST_LIT).contains(&share) {
        return cell;
    }
    // It has `share` of the cell already.
    let more = (LEAST_LIT - share) / (1.0 - share);
    [0, 1, 2, 3].map(|i| cell[i] * (1.0 - more) + lit[i] / share * more)
}

/// A cell as premultiplied pixel. Rounding may bring the coverage a hair over one: it is divided by.
#[inline]
pub fn pixel(cell: Cell) -> [u8; 4] {
    let [r, g, b, share] = cell;
    if share <= 0.0 {
        return [0; 4];
    }
    let over = share.max(1.0);
    [r, g, b, share * 255.0].map(|value| (value / over + 0.5) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coverage_is_exact() {
        for (low, high, expected) in [
            (0.0, 1.0, [1.0, 0.0, 0.0, 0.0]),
            (0.25, 0.5, [0.25, 0.0, 0.0, 0.0]),
            (0.5, 2.25, [0.5, 1.0, 0.25, 0.0]),
            (-3.0, 9.0, [1.0, 1.0, 1.0, 1.0]),
            (3.5, 2.0, [0.0; 4]),
            (7.0, 9.0, [0.0; 4]),
            (1.0, 3.0, [0.0, 1.0, 1.0, 0.0]),
        ] {
            let mut cells = [[0.0; 4]; 4];
            add_plain(&mut cells, low, high, [100, 0, 0], 1.0);
            assert_eq!(cells.map(|cell| cell[3]), expected, "{low}..{high}");
            assert_eq!(cells.map(|cell| cell[0]), expected.map(|share| share * 100.0));
        }
    }

    #[test]
    fn a_border_takes_no_coverage_away() {
        let mut cells = [[0.0; 4]; 8];
        add_box(&mut cells, 1.5, 6.25, [200, 200, 200]);
        assert!((cells.iter().map(|cell| cell[3]).sum::<f32>() - 4.75).abs() < 1e-6);
        assert!(cells[5][0] < cells[3][0]);
    }

    #[test]
    fn what_stands_out_wins_its_pixel() {
        let pale = [200.0 * 0.9, 200.0 * 0.9, 200.0 * 0.9, 0.9];
        for (share, least) in [(0.0, 0.0), (0.001, LEAST_LIT), (0.5, LEAST_LIT), (0.75, 0.75), (1.0, 1.0)] {
            let lit = [100.0 * share, 0.0, 0.0, share];
            let rest = 1.0 - share;
            let cell = [pale[0] * rest + lit[0], pale[1] * rest, pale[2] * rest, 0.9 * rest + share];
            let lifted = lift(cell, lit);
            // Green comes from the rest alone.
            assert!((lifted[1] - 180.0 * (1.0 - least)).abs() < 1e-2, "{share}: {lifted:?}");
            assert!((lifted[3] - (0.9 * (1.0 - least) + least)).abs() < 1e-4, "{share}: {lifted:?}");
        }
    }

    #[test]
    fn pixels_are_premultiplied_and_never_overflow() {
        for (cell, expected) in [
            ([0.0; 4], [0, 0, 0, 0]),
            ([100.0, 50.0, 0.0, 0.5], [100, 50, 0, 128]),
            ([255.0, 255.0, 255.0, 1.0], [255, 255, 255, 255]),
            ([510.0, 255.0, 255.0, 2.0], [255, 128, 128, 255]),
        ] {
            assert_eq!(pixel(cell), expected);
        }
    }
}
