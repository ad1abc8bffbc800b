//! The page put together: which blocks, pictures and tables stand on it, in what words.
//!
//! Always: the order is that of the sections; what the model does not hold leaves no trace.

use crate::analysis::diagnosis::Severity;
use crate::base::{Bytes, grouped};
use crate::chart::{ColourBy, Ink};
use crate::report::flow::{Flow, HANG_PT, LARGE, NORMAL, Patch, SMALL, What, capitalised, left, middle, right};
use crate::report::kv;
use crate::report::page::{Heights, Page};
use crate::report::page_model::{StackRow, StacksInfo, blocks, share_of, value};
use crate::report::pictures;
use crate::report::report::{ReportError, Section};
use crate::simulator::contiguous::KvCompared;

/// Most names in the legend: hundreds of streams would fill the page.
const MOST_LEGEND: usize = 24;
/// Rows of the table of stacks, and of those of a finding.
const STACK_ROWS: usize = 12;
const FINDING_STACKS: usize = 2;

impl Page<'_> {
    pub(super) fn shows(&self, section: Section) -> bool {
        self.options.sections.has(section)
    }

    /// All blocks of the page, from top to bottom.
    pub(super) fn flow(&self, heights: Heights) -> Result<Flow, ReportError> {
        let mut flow = Flow::default();
        self.header(&mut flow);
        self.accounting(&mut flow);
        self.timeline(&mut flow, heights)?;
        self.charts(&mut flow, heights);
        self.layout(&mut flow, heights);
        self.findings(&mut flow);
        self.stacks(&mut flow);
        self.pinned(&mut flow);
        self.flame(&mut flow, heights);
        self.states(&mut flow);
        self.summary(&mut flow);
        self.coverage(&mut flow);
        flow.put(What::Space(14.0));
        Ok(flow)
    }

    fn header(&self, flow: &mut Flow) {
        let model = &self.model;
        let title = crate::chart::text::short_path(model.title(), 90);
        flow.keep(What::Words { runs: vec![(title, LARGE, Ink::Text)], indent: 0.0, stroke: false });
        flow.keep(What::Space(4.0));
        let short = |name: &str, text: String| match name {
            "file" => crate::chart::text::short_path(&text, 110),
            "allocator settings" => middle(&text, 160),
            _ => text,
        };
        let pair = |(name, text): (&'static str, String)| {
            vec![(format!("{name} "), SMALL, Ink::WeakText), (short(name, text), SMALL, Ink::Text)]
        };
        flow.keep(What::Pairs(model.origin().into_iter().map(pair).collect()));
        flow.keep(What::Space(14.0));
        flow.keep(What::Rule);
        flow.keep(What::Space(14.0));
        let (headline, more) = model.headline();
        // Only the cause is red: what was wanted and what was there are plain figures.
        let runs = match headline.split_once(": ") {
            Some((cause, rest)) if model.failed() => {
                vec![(format!("{cause}: "), LARGE, Ink::Oom), (rest.to_owned(), LARGE, Ink::Text)]
            }
            _ => vec![(headline, LARGE, Ink::Text)],
        };
        flow.put(What::Words { runs, indent: 0.0, stroke: false });
        for sentence in more {
            flow.put(What::Space(6.0));
            flow.words(sentence, NORMAL, Ink::Text);
        }
        if let Some(note) = &model.note {
            flow.put(What::Space(12.0));
            let runs = vec![(note.clone(), NORMAL, Ink::Text)];
            flow.put(What::Words { runs, indent: 12.0, stroke: true });
        }
    }

    fn accounting(&self, flow: &mut Flow) {
        let Some(account) = &self.model.accounting else { return };
        flow.head(Section::Accounting.title(), &format!("{}, in shares of {}", self.model.moment.words, account.whole()));
        flow.keep(What::Picture { drawing: pictures::bar(account, self.inner()), raster: None });
        flow.keep(What::Space(8.0));
        for part in account.shown() {
            let (bytes, share) = match part.bytes {
                Some(bytes) => (Bytes(bytes).to_string(), account.share(bytes)),
                None => ("unknown".to_owned(), String::new()),
            };
            let exact = part.bytes.filter(|bytes| 1024 <= *bytes).map_or(String::new(), |b| format!("{} bytes", grouped(b)));
            flow.put(What::Row {
                patch: Some(Patch::Part(part.look)),
                cells: vec![
                    left(124.0, part.label, Ink::Text),
                    right(86.0, bytes, Ink::Text),
                    right(58.0, share, Ink::WeakText),
                    right(150.0, exact, Ink::WeakText),
                ],
                rest: vec![(part.meaning.to_owned(), NORMAL, Ink::WeakText)],
            });
        }
        if account.lacks_card() {
            flow.put(What::Space(4.0));
            let words =
                "The card's size is not in the snapshot: a log of the failure or the size itself would tell what others held.";
            flow.words(words, SMALL, Ink::WeakText);
        }
    }

    fn timeline(&self, flow: &mut Flow, heights: Heights) -> Result<(), ReportError> {
        if !self.shows(Section::Timeline) {
            return Ok(());
        }
        let drawn = pictures::timeline(self.material, self.inner(), heights.timeline, self.scale, self.palette, self.progress)?;
        let Some((drawing, raster)) = drawn else { return Ok(()) };
        let colours = match self.material.inks.by() {
            ColourBy::Stack => "one colour a stack, the same in every picture and file".to_owned(),
            by => format!("coloured by {}", by.name()),
        };
        let aside = format!("live allocations stacked by age, the oldest at the bottom; {colours}; the blue line is the moment");
        flow.head(Section::Timeline.title(), &aside);
        let mut legend = self.material.inks.legend(self.material.snapshot);
        if !legend.is_empty() {
            let left_out = legend.len().saturating_sub(MOST_LEGEND);
            legend.truncate(MOST_LEGEND);
            flow.keep(What::Legend(legend));
            if 0 < left_out {
                let runs = vec![(format!("and {left_out} more"), SMALL, Ink::WeakText)];
                flow.keep(What::Words { runs, indent: 0.0, stroke: false });
            }
        }
        let has_raster = 0 < raster.width * raster.height;
        flow.rasters.extend(has_raster.then_some(raster));
        flow.put(What::Picture { drawing, raster: has_raster.then(|| flow.rasters.len() - 1) });
        Ok(())
    }

    fn charts(&self, flow: &mut Flow, heights: Heights) {
        if !self.shows(Section::Charts) {
            return;
        }
        if let Some(compared) = &self.material.kv {
            return self.kv(flow, heights, compared);
        }
        if !self.material.memory.tells_segments() {
            return;
        }
        let Some(drawing) = pictures::charts(self.material, self.inner(), heights.charts) else { return };
        let aside = "counters over the same stretch, with their values at the moment; a request above the largest free block needs memory from the driver";
        flow.head(Section::Charts.title(), aside);
        flow.put(What::Picture { drawing, raster: None });
    }

    /// The paged KV cache: figures, lines, block table.
    fn kv(&self, flow: &mut Flow, heights: Heights, compared: &KvCompared) {
        let aside = "what the pages held, beside what buffers in one piece would have taken for the same sequences";
        flow.head("KV cache", aside);
        for row in kv::rows(compared, self.material.position()) {
            let cells = vec![left(190.0, row.name, Ink::WeakText)];
            flow.put(What::Row { patch: None, cells, rest: vec![(row.text, NORMAL, Ink::Text)] });
        }
        for drawing in pictures::kv(self.material, compared, self.inner(), heights.charts) {
            flow.put(What::Space(10.0));
            flow.put(What::Picture { drawing, raster: None });
        }
    }

    fn layout(&self, flow: &mut Flow, heights: Heights) {
        // Without segments there are only blocks, and no free memory between them.
        if !self.material.memory.tells_segments() || !self.shows(Section::Layout) {
            return;
        }
        let Some(layout) = pictures::layout(self.material, self.inner(), heights.layout, heights.most_layout) else { return };
        let small = if self.model.failed() { ", hatched where too small for the request" } else { "" };
        let aside = format!(
            "every segment to scale, a full row is {}; blocks in colour, rounding paler, pending frees hatched; free memory is blank{small}",
            Bytes(layout.bytes_per_row)
        );
        flow.head(&format!("{} {}", Section::Layout.title(), self.model.moment.words), &aside);
        flow.put(What::Picture { drawing: layout.drawing, raster: None });
        if layout.is_cut {
            flow.words("Not all pools and streams have room on this page; the window shows them all.", SMALL, Ink::WeakText);
        }
    }

    fn findings(&self, flow: &mut Flow) {
        let Some(findings) = self.model.findings.as_ref().filter(|findings| !findings.rows.is_empty()) else { return };
        flow.head(Section::Findings.title(), &findings.aside);
        for (place, finding) in findings.rows.iter().enumerate() {
            if 0 < place {
                flow.put(What::Space(9.0));
            }
            let ink = match finding.severity {
                Severity::Cause if self.model.failed() => Ink::Oom,
                _ => Ink::WeakText,
            };
            let first = flow.blocks.len();
            let lead = (finding.severity.name().to_owned(), NORMAL, ink);
            flow.put(What::Hanging { lead, runs: vec![(finding.sentence.clone(), NORMAL, Ink::Text)] });
            for row in finding.stacks.iter().take(FINDING_STACKS).filter(|_| finding.rule != "pinned") {
                flow.put(self.stack_row(row, None, HANG_PT));
            }
            if !finding.suggestion.is_empty() {
                let runs = vec![("Try: ".to_owned(), NORMAL, Ink::WeakText), (finding.suggestion.clone(), NORMAL, Ink::Text)];
                flow.put(What::Space(2.0));
                flow.put(What::Words { runs, indent: HANG_PT, stroke: false });
            }
            if finding.certainty != "certain" {
                let words = format!("{}: {}", capitalised(finding.certainty), finding.because);
                flow.put(What::Space(2.0));
                flow.put(What::Words { runs: vec![(words, SMALL, Ink::WeakText)], indent: HANG_PT, stroke: false });
            }
            // What belongs to one finding stays on one page.
            let last = flow.blocks.len().saturating_sub(1);
            flow.blocks[first..last].iter_mut().for_each(|block| block.keep = true);
        }
    }

    fn stacks(&self, flow: &mut Flow) {
        let Some(stacks) = self.model.stacks.as_ref().filter(|stacks| !stacks.rows.is_empty()) else { return };
        let aside =
            format!("allocated bytes by allocating stack, {}; frames of PyTorch and Python are folded", self.model.moment.words);
        flow.head(Section::Stacks.title(), &aside);
        let StacksInfo { allocated, .. } = *stacks;
        let (rows, (further, bytes, count)) = stacks.top(STACK_ROWS);
        for row in rows {
            flow.put(self.stack_row(row, Some(allocated), 0.0));
        }
        if 0 < further {
            let mut cells = vec![
                right(86.0, Bytes(bytes).to_string(), Ink::Text),
                right(58.0, share_of(bytes, allocated), Ink::WeakText),
                right(96.0, blocks(count), Ink::WeakText),
            ];
            cells.push(left(8.0, "", Ink::Text));
            let words = format!("{} further stacks", grouped(further));
            flow.put(What::Row { patch: Some(Patch::None), cells, rest: vec![(words, NORMAL, Ink::WeakText)] });
        }
    }

    fn pinned(&self, flow: &mut Flow) {
        let Some(pinned) = self.model.pinned.as_ref().filter(|pinned| !pinned.rows.is_empty()) else { return };
        flow.head(Section::Pinned.title(), "free memory of half-used segments, charged to the live blocks that keep it there");
        flow.keep(What::Words { runs: vec![(pinned.sentence.clone(), NORMAL, Ink::Text)], indent: 0.0, stroke: false });
        flow.keep(What::Space(6.0));
        for row in &pinned.rows {
            flow.put(self.stack_row(row, Some(pinned.bytes), 0.0));
        }
    }

    /// A stack's bytes, share, blocks and name; `of` is what it is a share of.
    fn stack_row(&self, row: &StackRow, of: Option<u64>, indent: f32) -> What {
        let patch = if self.material.inks.by() == ColourBy::Stack { Patch::Block(row.colour) } else { Patch::None };
        let mut cells = vec![right(86.0, Bytes(row.bytes).to_string(), Ink::Text)];
        cells.extend(of.map(|whole| right(58.0, share_of(row.bytes, whole), Ink::WeakText)));
        cells.push(right(96.0, blocks(row.count), Ink::WeakText));
        cells.push(left(8.0, "", Ink::Text));
        if 0.0 < indent {
            cells[0].width = 72.0;
            cells.insert(0, left(indent, "", Ink::Text));
        }
        let rest = vec![(format!("{}   ", row.place), NORMAL, Ink::Text), (row.callers.clone(), NORMAL, Ink::WeakText)];
        What::Row { patch: Some(patch).filter(|_| indent == 0.0), cells, rest }
    }

    fn flame(&self, flow: &mut Flow, heights: Heights) {
        if !self.shows(Section::Flame) {
            return;
        }
        let Some((drawing, cut)) = pictures::flame(self.material, self.inner(), heights.flame) else { return };
        let aside = format!(
            "allocated bytes {} by stack, outermost frame on top; as wide as what is live; one colour a stack, grey where several only pass through",
            self.model.moment.words
        );
        flow.head(Section::Flame.title(), &aside);
        flow.put(What::Picture { drawing, raster: None });
        if 0 < cut {
            let levels = if cut == 1 { "One deeper level has".to_owned() } else { format!("{cut} deeper levels have") };
            flow.words(format!("{levels} no room on this page."), SMALL, Ink::WeakText);
        }
    }

    fn states(&self, flow: &mut Flow) {
        let Some(states) = &self.model.states else { return };
        let same = states.moment.event == states.dump.event;
        let aside = match (same, self.model.failed()) {
            (true, _) => "the file was written at this moment".to_owned(),
            (false, true) => {
                "once an exception is caught, Python frees what its frames held: the dump tells little about the failure"
                    .to_owned()
            }
            (false, false) => format!("{} and when the file was written", self.model.moment.words),
        };
        flow.head(Section::States.title(), &aside);
        let column = |words: String, ink| right(130.0, words, ink);
        if !same {
            let moment = if self.model.failed() { "at the failure" } else { "at the moment" };
            let cells = vec![
                left(220.0, "", Ink::WeakText),
                column(moment.to_owned(), Ink::WeakText),
                column("at the dump".to_owned(), Ink::WeakText),
            ];
            flow.keep(What::Row { patch: None, cells, rest: Vec::new() });
        }
        let of_segments = ["reserved", "free inside segments", "inactive split", "largest free block", "segments"];
        let known = |name: &str| self.material.memory.tells_segments() || !of_segments.contains(&name);
        let rows = states.moment.rows().into_iter().zip(states.dump.rows());
        for ((name, here, is_bytes), (_, there, _)) in rows.filter(|((name, ..), _)| known(name)) {
            let mut cells = vec![left(220.0, name, Ink::Text), column(value(here, is_bytes), Ink::Text)];
            if !same {
                cells.push(column(value(there, is_bytes), Ink::Text));
            }
            let exact = if is_bytes && 1024 <= here { format!("      {} bytes", grouped(here)) } else { String::new() };
            flow.put(What::Row { patch: None, cells, rest: vec![(exact, NORMAL, Ink::WeakText)] });
        }
    }

    fn summary(&self, flow: &mut Flow) {
        let Some(summary) = &self.model.memory_summary else { return };
        flow.head(Section::Summary.title(), &self.model.moment.words);
        for line in summary.lines() {
            flow.put(What::Words { runs: vec![(line.to_owned(), -SMALL, Ink::Text)], indent: 0.0, stroke: false });
        }
    }

    fn coverage(&self, flow: &mut Flow) {
        let gaps = self.model.coverage.iter().flatten().map(|gap| &gap.sentence).collect::<Vec<_>>();
        let warnings = self.model.warnings.iter().flatten().map(|warning| &warning.message).collect::<Vec<_>>();
        for (title, sentences) in [(Section::Coverage.title(), gaps), ("What was mended or left out", warnings)] {
            for (place, sentence) in sentences.into_iter().enumerate() {
                if place == 0 {
                    flow.head(title, "");
                }
                flow.words(format!("•  {sentence}"), NORMAL, Ink::Text);
                flow.put(What::Space(3.0));
            }
        }
    }
}
