//! The page as one HTML file that stands by itself: the same words and pictures, tables that sort, stacks that unfold.
//!
//! Always: it loads nothing and reads well without its script; whatever comes from the file is escaped; it is
//! well-formed as XML too; on paper it is light.

use crate::analysis::diagnosis::Severity;
use crate::base::{Bytes, Progress, grouped};
use crate::chart::{Area, Drawing, Ink, Palette, Shape, Theme};
use crate::raster::Raster;
use crate::report::material::Material;
use crate::report::page_model::{PageModel, Printed, StackRow, StacksInfo, blocks, share_of, value};
use crate::report::pictures;
use crate::report::png;
use crate::report::report::{Report, ReportError, ReportOptions, ReportSubject, Section};
use crate::report::svg::{self, Colours, escaped, svg};
use base64::Engine as _;
use std::fmt::Write as _;

/// Writes HTML.
pub struct Html;

/// Width of the pictures, in points; they shrink with the window.
const WIDTH_PT: f32 = 1080.0;
/// Pixels a point of the raster in the picture over time.
const RASTER_SCALE: f32 = 1.5;

impl Report for Html {
    fn name(&self) -> &'static str {
        "page for browsers"
    }
    fn extension(&self) -> &'static str {
        "html"
    }
    fn files(&self, subject: &ReportSubject<'_>, options: &ReportOptions, progress: &Progress) -> Result<Printed, ReportError> {
        let material = Material::gather(subject, options, progress)?;
        let page = Page { model: PageModel::of(&material, options), material: &material, options, progress };
        progress.stage("drawing the page", 0)?;
        let files = vec![page.write()?.into_bytes()];
        Ok(Printed { model: page.model, files })
    }
}

struct Page<'a> {
    model: PageModel,
    material: &'a Material<'a>,
    options: &'a ReportOptions,
    progress: &'a Progress,
}

// Writing into a text cannot fail, so results of `write!` are dropped in this file.
impl Page<'_> {
    fn write(&self) -> Result<String, ReportError> {
        let mut colours = Colours::default();
        let mut body = String::new();
        self.header(&mut body);
        self.accounting(&mut body, &mut colours);
        self.over_time(&mut body, &mut colours)?;
        self.layout(&mut body, &mut colours);
        self.findings(&mut body);
        self.stacks(&mut body, &mut colours);
        self.pinned(&mut body, &mut colours);
        self.flame(&mut body, &mut colours);
        self.states(&mut body);
        self.rest(&mut body);
        let patterns = colours.patterns();
        let body = format!("{patterns}<main>{body}<footer>{}</footer></main>", escaped(&self.model.imprint()));
        Ok(document(self.model.title(), &body, &colours, self.options))
    }

    fn header(&self, out: &mut String) {
        let model = &self.model;
        let _ = write!(out, "<header><h1>{}</h1><dl>", escaped(model.title()));
        for (name, text) in model.origin() {
            let _ = write!(out, "<div><dt>{name}</dt><dd>{}</dd></div>", escaped(&text));
        }
        out.push_str("</dl></header>");
        let (headline, more) = model.headline();
        let words = match headline.split_once(": ") {
            Some((cause, rest)) if model.failed() => {
                format!("<strong class=\"failed\">{}:</strong> {}", escaped(cause), escaped(rest))
            }
            _ => escaped(&headline),
        };
        let _ = write!(out, "<p class=\"headline\">{words}</p>");
        for sentence in more {
            let _ = write!(out, "<p>{}</p>", escaped(&sentence));
        }
        if let Some(note) = &model.note {
            let _ = write!(out, "<blockquote>{}</blockquote>", escaped(note));
        }
    }

    fn accounting(&self, out: &mut String, colours: &mut Colours) {
        let Some(account) = &self.model.accounting else { return };
        let aside = format!("{}, in shares of {}", self.model.moment.words, account.whole());
        head(out, Section::Accounting, Section::Accounting.title(), &aside);
        out.push_str(&svg(&pictures::bar(account, WIDTH_PT), "account of all bytes as a bar", colours, None));
        out.push_str("<table class=\"sort\"><thead><tr><th></th><th>part</th><th class=\"n\">size</th><th class=\"n\">share</th><th class=\"n\">bytes</th><th>what it is</th></tr></thead><tbody>");
        for part in account.shown() {
            let mut patch = Drawing::new(12.0, 12.0);
            part.look.patch(Area::new(0.0, 0.0, 12.0, 12.0), &mut patch);
            let (size, share, bytes, order) = match part.bytes {
                Some(bytes) => (Bytes(bytes).to_string(), account.share(bytes), grouped(bytes), bytes.to_string()),
                None => ("unknown".to_owned(), String::new(), String::new(), "-1".to_owned()),
            };
            let _ = write!(
                out,
                "<tr><td class=\"patch\">{}</td><td>{}</td><td class=\"n\" data-v=\"{order}\">{size}</td><td class=\"n weak\" data-v=\"{order}\">{share}</td><td class=\"n weak\" data-v=\"{order}\">{bytes}</td><td class=\"weak\">{}</td></tr>",
                svg(&patch, part.label, colours, None),
                escaped(part.label),
                escaped(part.meaning)
            );
        }
        out.push_str("</tbody></table>");
        if account.lacks_card() {
            out.push_str("<p class=\"aside\">The card's size is not in the snapshot: a log of the failure or the size itself would tell what others held.</p>");
        }
        out.push_str("</section>");
    }

    fn over_time(&self, out: &mut String, colours: &mut Colours) -> Result<(), ReportError> {
        if self.options.sections.has(Section::Timeline) {
            let draw = |palette| pictures::timeline(self.material, WIDTH_PT, 300.0, RASTER_SCALE, palette, self.progress);
            if let Some((drawing, light)) = draw(Palette::LIGHT)? {
                let dark = draw(Palette::DARK)?.map(|(_, raster)| raster).unwrap_or_default();
                let addresses = [address(light)?, address(dark)?];
                let aside = "live allocations stacked by age, the oldest at the bottom; one colour a stack, the same in every picture and file; the blue line is the moment";
                head(out, Section::Timeline, Section::Timeline.title(), aside);
                out.push_str(&svg(&drawing, "memory over time", colours, Some([&addresses[0], &addresses[1]])));
                let markers = &self.model.window.markers;
                if !markers.is_empty() {
                    let _ = write!(
                        out,
                        "<details class=\"aside\"><summary>marked events: {}</summary><ul>",
                        grouped(markers.len() as u64)
                    );
                    for marker in markers {
                        let event = grouped(u64::try_from(marker.event).unwrap_or(0));
                        let _ = write!(out, "<li>event {event}: {}</li>", escaped(&marker.what));
                    }
                    out.push_str("</ul></details>");
                }
                out.push_str("</section>");
            }
        }
        if self.options.sections.has(Section::Charts)
            && let Some(drawing) = pictures::charts(self.material, WIDTH_PT, 270.0)
        {
            let aside = "counters over the same stretch, with their values at the moment; a request above the largest free block needs memory from the driver";
            head(out, Section::Charts, Section::Charts.title(), aside);
            out.push_str(&svg(&drawing, "counters over time", colours, None));
            out.push_str("</section>");
        }
        Ok(())
    }

    fn layout(&self, out: &mut String, colours: &mut Colours) {
        if !self.options.sections.has(Section::Layout) {
            return;
        }
        let Some(layout) = pictures::layout(self.material, WIDTH_PT, 340.0, 4000.0) else { return };
        let small = if self.model.failed() { ", hatched where too small for the request" } else { "" };
        let aside = format!(
            "every segment to scale, a full row is {}; blocks in colour, rounding paler, pending frees hatched; free memory is blank{small}",
            Bytes(layout.bytes_per_row)
        );
        head(out, Section::Layout, &format!("{} {}", Section::Layout.title(), self.model.moment.words), &aside);
        out.push_str(&svg(&layout.drawing, "layout of all segments", colours, None));
        if layout.is_cut {
            out.push_str("<p class=\"aside\">Not all pools and streams have room on this page; the window shows them all.</p>");
        }
        out.push_str("</section>");
    }

    fn findings(&self, out: &mut String) {
        let Some(findings) = self.model.findings.as_ref().filter(|findings| !findings.rows.is_empty()) else { return };
        head(out, Section::Findings, Section::Findings.title(), &findings.aside);
        for finding in &findings.rows {
            let failed = finding.severity == Severity::Cause && self.model.failed();
            let class = if failed { "failed" } else { "weak" };
            let _ = write!(
                out,
                "<article><p><b class=\"{class}\">{}</b> {}</p>",
                finding.severity.name(),
                escaped(&finding.sentence)
            );
            if !finding.suggestion.is_empty() {
                let _ = write!(out, "<p class=\"in\"><span class=\"weak\">Try:</span> {}</p>", escaped(&finding.suggestion));
            }
            let _ = write!(
                out,
                "<p class=\"in aside\">{} ({}): {}</p>",
                escaped(finding.certainty),
                finding.rule,
                escaped(finding.because)
            );
            if !finding.stacks.is_empty() || !finding.evidence.is_empty() {
                out.push_str("<details class=\"in\"><summary>evidence</summary>");
                if !finding.stacks.is_empty() {
                    out.push_str("<table class=\"sort\"><thead><tr><th class=\"n\">bytes</th><th class=\"n\">blocks</th><th>stack</th></tr></thead><tbody>");
                    for row in &finding.stacks {
                        let _ = write!(out, "<tr>{}{}</tr>", bytes_and_count(row), stack_cell(row));
                    }
                    out.push_str("</tbody></table>");
                }
                if !finding.evidence.is_empty() {
                    let items: Vec<String> = finding.evidence.iter().map(|item| escaped(item)).collect();
                    let _ = write!(out, "<p class=\"aside\">{}</p>", items.join(", "));
                }
                out.push_str("</details>");
            }
            out.push_str("</article>");
        }
        out.push_str("</section>");
    }

    fn stacks(&self, out: &mut String, colours: &mut Colours) {
        let Some(stacks) = self.model.stacks.as_ref().filter(|stacks| !stacks.rows.is_empty()) else { return };
        let StacksInfo { allocated, .. } = *stacks;
        let aside =
            format!("allocated bytes by allocating stack, {}; frames of PyTorch and Python are folded", self.model.moment.words);
        head(out, Section::Stacks, Section::Stacks.title(), &aside);
        self.stack_table(out, &stacks.rows, allocated, colours);
        if 0 < stacks.further_stacks {
            let _ = write!(
                out,
                "<p class=\"aside\">{} further stacks hold {} in {}.</p>",
                grouped(stacks.further_stacks),
                Bytes(stacks.further_bytes),
                blocks(stacks.further_count)
            );
        }
        out.push_str("</section>");
    }

    fn pinned(&self, out: &mut String, colours: &mut Colours) {
        let Some(pinned) = self.model.pinned.as_ref().filter(|pinned| !pinned.rows.is_empty()) else { return };
        let aside = "free memory of half-used segments, charged to the live blocks that keep it there";
        head(out, Section::Pinned, Section::Pinned.title(), aside);
        let _ = write!(out, "<p>{}</p>", escaped(&pinned.sentence));
        self.stack_table(out, &pinned.rows, pinned.bytes, colours);
        out.push_str("</section>");
    }

    fn stack_table(&self, out: &mut String, rows: &[StackRow], whole: u64, colours: &mut Colours) {
        out.push_str("<table class=\"sort\"><thead><tr><th></th><th class=\"n\">bytes</th><th class=\"n\">share</th><th class=\"n\">blocks</th><th>stack</th></tr></thead><tbody>");
        let is_by_stack = self.material.inks.by() == crate::chart::ColourBy::Stack;
        for row in rows {
            let mut patch = Drawing::new(12.0, 12.0);
            if is_by_stack {
                patch.push(Shape::Box(Area::new(0.0, 0.0, 12.0, 12.0)), Ink::Block(row.colour));
            }
            let _ = write!(
                out,
                "<tr><td class=\"patch\">{}</td><td class=\"n\" data-v=\"{}\" title=\"{} bytes\">{}</td><td class=\"n weak\" data-v=\"{}\">{}</td><td class=\"n weak\" data-v=\"{}\">{}</td>{}</tr>",
                svg(&patch, "", colours, None),
                row.bytes,
                grouped(row.bytes),
                Bytes(row.bytes),
                row.bytes,
                share_of(row.bytes, whole),
                row.count,
                grouped(row.count),
                stack_cell(row)
            );
        }
        out.push_str("</tbody></table>");
    }

    fn flame(&self, out: &mut String, colours: &mut Colours) {
        if !self.options.sections.has(Section::Flame) {
            return;
        }
        let Some((drawing, cut)) = pictures::flame(self.material, WIDTH_PT, 900.0) else { return };
        let aside = format!(
            "allocated bytes {} by stack, outermost frame on top; as wide as what is live; one colour a stack, grey where several only pass through",
            self.model.moment.words
        );
        head(out, Section::Flame, Section::Flame.title(), &aside);
        out.push_str(&svg(&drawing, "flame graph of live bytes", colours, None));
        if 0 < cut {
            let _ = write!(out, "<p class=\"aside\">Deeper levels that have no room on this page: {cut}.</p>");
        }
        out.push_str("</section>");
    }

    fn states(&self, out: &mut String) {
        let Some(states) = &self.model.states else { return };
        let same = states.moment.event == states.dump.event;
        let (aside, here) = match (same, self.model.failed()) {
            (true, _) => ("the file was written at this moment", "at the moment"),
            (false, true) => (
                "once an exception is caught, Python frees what its frames held: the dump tells little about the failure",
                "at the failure",
            ),
            (false, false) => ("the moment of this page, and when the file was written", "at the moment"),
        };
        head(out, Section::States, Section::States.title(), aside);
        let there = if same { "" } else { "<th class=\"n\">at the dump</th><th class=\"n\">bytes</th>" };
        let _ = write!(
            out,
            "<table><thead><tr><th>counter</th><th class=\"n\">{here}</th><th class=\"n\">bytes</th>{there}</tr></thead><tbody>"
        );
        let cells = |number: u64, is_bytes: bool| {
            let exact = if is_bytes { grouped(number) } else { String::new() };
            format!("<td class=\"n\">{}</td><td class=\"n weak\">{exact}</td>", value(number, is_bytes))
        };
        for ((name, here, is_bytes), (_, there, _)) in states.moment.rows().into_iter().zip(states.dump.rows()) {
            let there = if same { String::new() } else { cells(there, is_bytes) };
            let _ = write!(out, "<tr><td>{name}</td>{}{there}</tr>", cells(here, is_bytes));
        }
        out.push_str("</tbody></table></section>");
    }

    fn rest(&self, out: &mut String) {
        if let Some(summary) = &self.model.memory_summary {
            head(out, Section::Summary, Section::Summary.title(), &self.model.moment.words);
            let _ = write!(out, "<pre>{}</pre></section>", escaped(summary));
        }
        let gaps: Vec<&String> = self.model.coverage.iter().flatten().map(|gap| &gap.sentence).collect();
        let warnings: Vec<&String> = self.model.warnings.iter().flatten().map(|warning| &warning.message).collect();
        for (title, sentences) in [(Section::Coverage.title(), gaps), ("What was mended or left out", warnings)] {
            if sentences.is_empty() {
                continue;
            }
            head(out, Section::Coverage, title, "");
            out.push_str("<ul>");
            for sentence in sentences {
                let _ = write!(out, "<li>{}</li>", escaped(sentence));
            }
            out.push_str("</ul></section>");
        }
    }
}

fn head(out: &mut String, section: Section, title: &str, aside: &str) {
    let _ = write!(out, "<section class=\"{}\"><h2>{}</h2>", section.name(), escaped(title));
    if !aside.is_empty() {
        let _ = write!(out, "<p class=\"aside\">{}</p>", escaped(aside));
    }
}

fn bytes_and_count(row: &StackRow) -> String {
    format!(
        "<td class=\"n\" data-v=\"{}\" title=\"{} bytes\">{}</td><td class=\"n weak\" data-v=\"{}\">{}</td>",
        row.bytes,
        grouped(row.bytes),
        Bytes(row.bytes),
        row.count,
        grouped(row.count)
    )
}

/// The name of a stack; all its frames unfold.
fn stack_cell(row: &StackRow) -> String {
    let name = format!("{} <span class=\"weak\">{}</span>", escaped(&row.place), escaped(&row.callers));
    if row.frames.is_empty() {
        return format!("<td class=\"stack\">{name}</td>");
    }
    let frames: Vec<String> = row.frames.iter().map(|frame| escaped(frame)).collect();
    format!("<td class=\"stack\"><details><summary>{name}</summary><pre>{}</pre></details></td>", frames.join("\n"))
}

/// A raster as an address that holds it.
fn address(raster: Raster) -> Result<String, ReportError> {
    let mut bytes = Vec::new();
    png::encode_rgba(raster.width as u32, &raster.rgba, &mut bytes)?;
    Ok(format!("data:image/png;base64,{}", base64::engine::general_purpose::STANDARD.encode(bytes)))
}

/// A whole document around a body.
pub fn document(title: &str, body: &str, colours: &Colours, options: &ReportOptions) -> String {
    let vars = |palette: Palette| {
        let named = [
            ("paper", Ink::Background),
            ("text", Ink::Text),
            ("weak", Ink::WeakText),
            ("line", Ink::Annotation(false)),
            ("failed", Ink::Oom),
            ("link", Ink::Cursor),
        ];
        let mut css = String::new();
        for (name, ink) in named {
            let _ = write!(css, "--{name}:{};", svg::value(ink, palette));
        }
        css + &colours.css(palette)
    };
    let (light, dark) = (vars(Palette::LIGHT), vars(Palette::DARK));
    let hide = |class: &str| format!("image.{class}{{display:none}}");
    let themes = match (options.follow_reader, options.theme) {
        (true, _) => format!(
            ":root{{color-scheme:light dark;{light}}}{}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}image.dark{{display:inline}}{}}}",
            hide("dark"),
            hide("light")
        ),
        (false, Theme::Light) => format!(":root{{color-scheme:light;{light}}}{}", hide("dark")),
        (false, Theme::Dark) => format!(
            ":root{{color-scheme:dark;{dark}}}{}@media print{{:root{{color-scheme:light;{light}}}image.light{{display:inline}}{}}}",
            hide("light"),
            hide("dark")
        ),
    };
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/><title>{}</title><style>{themes}{STYLE}</style></head>\n<body>{body}<script>{SCRIPT}</script></body></html>\n",
        escaped(title)
    )
}

const STYLE: &str = "\
body{margin:0;background:var(--paper);color:var(--text);font:15px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',sans-serif}\
main{max-width:1080px;margin:0 auto;padding:32px 24px 48px}\
h1{font-size:22px;font-weight:600;margin:0 0 6px;overflow-wrap:anywhere}\
h2{font-size:18px;font-weight:600;margin:40px 0 2px}\
p{margin:6px 0}\
dl{display:flex;flex-wrap:wrap;gap:2px 20px;margin:0 0 20px;padding-bottom:18px;border-bottom:1px solid var(--line);font-size:13px}\
dl div{display:flex;gap:6px;min-width:0}dt{color:var(--weak);white-space:nowrap}dd{margin:0;overflow-wrap:anywhere}\
.headline{font-size:20px;line-height:1.4}.failed{color:var(--failed);font-weight:600}.weak{color:var(--weak)}b.weak{font-weight:400}\
.aside{color:var(--weak);font-size:13px;margin:0 0 10px}\
blockquote{margin:16px 0;padding:2px 0 2px 14px;border-left:2px solid var(--weak);white-space:pre-wrap}\
article{margin:14px 0}.in{margin-left:22px}\
svg text{white-space:pre}section svg{display:block;width:100%;height:auto;font-family:system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}\
td.patch{width:14px;padding-top:7px}td.patch svg{width:12px;height:12px}\
table{border-collapse:collapse;width:100%;margin:10px 0;font-size:13.5px}\
th{font-weight:400;text-align:left;color:var(--weak);padding:3px 14px 3px 0;border-bottom:1px solid var(--line);white-space:nowrap}\
td{padding:3px 14px 3px 0;vertical-align:top}.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}\
.states table{width:auto}.states td,.states th{padding-right:24px}\
td.stack{overflow-wrap:anywhere}td.thumb{width:180px}td.thumb img{width:180px;height:120px;object-fit:cover;object-position:top;display:block}\
summary{cursor:pointer}pre{font:12.5px/1.5 ui-monospace,Menlo,Consolas,monospace;margin:4px 0 8px 14px;white-space:pre-wrap;overflow-wrap:anywhere}\
.summary pre{margin-left:0;white-space:pre;overflow-x:auto}\
ul{margin:6px 0;padding-left:20px}a{color:var(--link)}\
th.by{cursor:pointer}th.by:hover,th[aria-sort]{color:var(--text)}\
footer{margin-top:48px;padding-top:12px;border-top:1px solid var(--line);color:var(--weak);font-size:13px}\
@media print{main{max-width:none;padding:0}h2{break-after:avoid}svg,tr,article{break-inside:avoid}}\
";

/// Sorts a table by the column whose heading is clicked; without it tables stand as they are.
const SCRIPT: &str = "\
document.querySelectorAll('table.sort').forEach(function(table){\
var body=table.tBodies[0];\
Array.prototype.forEach.call(table.tHead.rows[0].cells,function(head,column){\
if(!head.textContent){return}\
head.classList.add('by');head.tabIndex=0;\
function value(row){var cell=row.cells[column];return cell.dataset.v===undefined?cell.textContent.toLowerCase():Number(cell.dataset.v)}\
function sort(){\
var down=head.getAttribute('aria-sort')!=='descending';\
Array.prototype.forEach.call(table.tHead.rows[0].cells,function(other){other.removeAttribute('aria-sort')});\
head.setAttribute('aria-sort',down?'descending':'ascending');\
Array.prototype.slice.call(body.rows).map(function(row){return[value(row),row]})\
.sort(function(a,b){var order=a[0]>b[0]?1:b[0]>a[0]?-1:0;return down?-order:order})\
.forEach(function(pair){body.appendChild(pair[1])})}\
head.addEventListener('click',sort);\
head.addEventListener('keydown',function(event){if(event.key==='Enter'){sort()}})})});\
";
