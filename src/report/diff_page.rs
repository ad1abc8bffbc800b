//! A comparison as a picture: words, tables and charts one below the other on one tall page.

use crate::analysis::SnapshotDiff;
use crate::analysis::diff_words::{signed, signed_count};
use crate::base::{Bytes, Progress, grouped};
use crate::chart::overlay::{INK_A, INK_B};
use crate::chart::text::short_path;
use crate::chart::{Ink, Palette};
use crate::report::diff::DiffReport;
use crate::report::diff_model::{Compared, DiffModel, RowInfo, SideInfo, difference};
use crate::report::diff_pictures::{bars, flame, timelines};
use crate::report::flow::{Flow, LARGE, NORMAL, Patch, SMALL, What, left, middle, right};
use crate::report::png;
use crate::report::report::{ReportError, ReportOptions};
use crate::report::sheet::{LEAST_WIDTH_PT, Sheet, in_pixels};

/// Writes PNG.
pub(super) struct DiffPng;

/// Rows of each list.
const ROWS: usize = 12;
const TIMELINES_PT: f32 = 320.0;
const BARS_PT: f32 = 190.0;
const FLAME_PT: f32 = 306.0;

impl DiffReport for DiffPng {
    fn name(&self) -> &'static str {
        "picture"
    }
    fn extension(&self) -> &'static str {
        "png"
    }
    fn file(&self, compared: &Compared<'_>, options: &ReportOptions, progress: &Progress) -> Result<Vec<u8>, ReportError> {
        let scale = if options.scale.is_finite() { options.scale.clamp(0.25, 8.0) } else { 1.0 };
        let width = (options.width_pt as f32).max(LEAST_WIDTH_PT);
        // Asked before anything is laid out: to measure a page takes as long as it is large.
        in_pixels(width, options.height_pt as f32, scale)?;
        let sheet = Sheet { palette: Palette { theme: options.theme }, scale, width };
        let model = DiffModel::of(compared, options);
        progress.stage("drawing the page", 0)?;
        let mut flow = Flow::default();
        header(&mut flow, &model);
        states(&mut flow, &model, &compared.diff);
        pictures(&mut flow, compared, &model, sheet.inner());
        let whole = model.only_a.len() + model.only_b.len() + model.changed.len();
        for (name, rows) in model.lists() {
            list(&mut flow, name, rows);
        }
        if whole == 0 {
            flow.head("Stacks", "");
            flow.words("No stack holds anything else on the other side.", NORMAL, Ink::Text);
        }
        if let Some(same) = model.same() {
            flow.put(What::Space(8.0));
            flow.words(same, NORMAL, Ink::WeakText);
        }
        settings(&mut flow, &model);
        flow.put(What::Space(14.0));
        let height = sheet.height(&flow).max(options.height_pt as f32);
        in_pixels(width, height, scale)?;
        let page = sheet.paint(&flow, 0..flow.blocks.len(), height, &[model.imprint(), String::new()])?;
        progress.stage("compressing the picture", 0)?;
        let rgb: Vec<u8> = page.pixels().flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect();
        let mut bytes = Vec::new();
        png::encode_rgb(page.width(), &rgb, &mut bytes)?;
        Ok(bytes)
    }
}

fn header(flow: &mut Flow, model: &DiffModel) {
    let row = |name: &str, side: &SideInfo, ink: Ink| {
        let words = short_path(&side.words, 110);
        vec![(format!("{name}   "), LARGE, ink), (words, LARGE, Ink::Text)]
    };
    for (name, side, ink) in [("A", &model.a, INK_A), ("B", &model.b, INK_B)] {
        flow.keep(What::Words { runs: row(name, side, ink), indent: 0.0, stroke: false });
        flow.keep(What::Space(4.0));
    }
    flow.keep(What::Space(8.0));
    flow.keep(What::Rule);
    flow.keep(What::Space(14.0));
    for sentence in &model.verdict {
        flow.words(sentence.clone(), NORMAL + 2.0, Ink::Text);
        flow.put(What::Space(6.0));
    }
    if let Some(hint) = model.hint {
        flow.words(hint, SMALL, Ink::WeakText);
    }
    if let Some(note) = &model.note {
        flow.put(What::Space(6.0));
        flow.put(What::Words { runs: vec![(note.clone(), NORMAL, Ink::Text)], indent: 12.0, stroke: true });
    }
}

fn states(flow: &mut Flow, model: &DiffModel, diff: &SnapshotDiff) {
    flow.head("The two states", "");
    let cells = |[name, a, b, more]: [String; 4], ink| {
        vec![left(220.0, name, ink), right(130.0, a, ink), right(130.0, b, ink), right(130.0, more, ink)]
    };
    let head = ["", "A", "B", "B − A"].map(str::to_owned);
    flow.keep(What::Row { patch: None, cells: cells(head, Ink::WeakText), rest: Vec::new() });
    for row in DiffModel::figure_rows(diff) {
        flow.put(What::Row { patch: None, cells: cells(row, Ink::Text), rest: Vec::new() });
    }
    if model.pools.len() < 2 {
        return;
    }
    flow.head("Reserved by pool, half and stream", "streams are counted as they appear in each recording");
    for row in &model.pools {
        let [a, b] = [row.a, row.b].map(|of| of.unwrap_or_default().reserved);
        let size = |bytes: u64| Bytes(bytes).to_string();
        let cells = cells([row.name(), size(a), size(b), difference(a, b, true)], Ink::Text);
        flow.put(What::Row { patch: None, cells, rest: Vec::new() });
    }
}

fn pictures(flow: &mut Flow, compared: &Compared<'_>, model: &DiffModel, width: f32) {
    if let Some(drawing) = timelines(compared, width, TIMELINES_PT) {
        let aside = "both recordings from their beginnings; dashed lines are the two moments";
        flow.head("Memory over time", aside);
        flow.put(What::Picture { drawing, raster: None });
    }
    if let Some(drawing) = bars(&model.gaps, &model.segments, width, BARS_PT) {
        flow.head("Gaps and segments", "blue is A, orange is B");
        flow.put(What::Picture { drawing, raster: None });
    }
    if let Some((drawing, cut)) = flame(compared, width, FLAME_PT) {
        flow.head("What moved", "allocated bytes by stack, as wide as what moved; orange grew, blue shrank");
        flow.put(What::Picture { drawing, raster: None });
        if 0 < cut {
            let levels = if cut == 1 { "One deeper level has".to_owned() } else { format!("{cut} deeper levels have") };
            flow.words(format!("{levels} no room on this page."), SMALL, Ink::WeakText);
        }
    }
}

fn list(flow: &mut Flow, name: &str, rows: &[RowInfo]) {
    if rows.is_empty() {
        return;
    }
    let sum: i128 = rows.iter().map(RowInfo::delta).sum();
    let stacks = crate::base::counted(rows.len() as u64, "stack");
    flow.head(&format!("Stacks {name}"), &format!("{stacks}, {}; B less A, in A, in B, blocks", signed(sum)));
    // One row more is shown instead of a rest of one.
    let shown = if rows.len() <= ROWS + 1 { rows.len() } else { ROWS };
    for row in &rows[..shown] {
        let cells = vec![
            right(90.0, signed(row.delta()), Ink::Text),
            right(80.0, Bytes(row.bytes_a).to_string(), Ink::WeakText),
            right(80.0, Bytes(row.bytes_b).to_string(), Ink::WeakText),
            right(60.0, signed_count(row.count_delta()), Ink::WeakText),
            left(8.0, "", Ink::Text),
        ];
        let rest = vec![(format!("{}   ", row.place), NORMAL, Ink::Text), (row.callers.clone(), NORMAL, Ink::WeakText)];
        flow.put(What::Row { patch: Some(Patch::Block(row.colour)), cells, rest });
    }
    let further = &rows[shown..];
    if !further.is_empty() {
        let sum: i128 = further.iter().map(RowInfo::delta).sum();
        let words = format!("{} further stacks, {}", grouped(further.len() as u64), signed(sum));
        flow.words(words, NORMAL, Ink::WeakText);
    }
}

fn settings(flow: &mut Flow, model: &DiffModel) {
    if model.settings.is_empty() {
        return;
    }
    flow.head("Settings that differ", "");
    for row in &model.settings {
        let cells = vec![left(240.0, row.name.clone(), Ink::Text), left(220.0, middle(&row.a, 34), Ink::Text)];
        let rest = vec![(row.b.clone(), NORMAL, Ink::Text)];
        flow.put(What::Row { patch: None, cells, rest });
    }
}
