//! The CPU painter: egui's tessellated triangles to pixels, with no display, GL or Vulkan.
//!
//! Always: the rules are a GPU's. Positions are taken to 1/256 pixel, a pixel belongs to a triangle if its
//! centre does (edges by the top-left rule in whole numbers, so triangles that share an edge tile without seam
//! or overlap); colours are premultiplied and blend in gamma space; paint callbacks draw nothing.

use egui::epaint::{ClippedPrimitive, ImageData, Mesh, Primitive, Vertex};
use egui::{Color32, Context, RawInput, Rect, TextureFilter, TextureId, TexturesDelta, Ui, Vec2};
use std::collections::HashMap;

/// Pixels of a picture, premultiplied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canvas {
    /// Pixels a row.
    pub width: usize,
    /// Rows, the top one first.
    pub height: usize,
    /// Red, green, blue, alpha of each pixel.
    pub pixels: Vec<[u8; 4]>,
}

impl Canvas {
    /// A canvas of one colour.
    pub fn filled(width: usize, height: usize, colour: Color32) -> Canvas {
        Canvas { width, height, pixels: vec![colour.to_array(); width * height] }
    }
    /// The pixels as bytes, row by row.
    pub fn bytes(&self) -> &[u8] {
        self.pixels.as_flattened()
    }
}

/// Holds the textures egui hands out and paints with them. Serves reports and, as their renderer, tests.
#[derive(Debug, Default)]
pub struct Offscreen {
    textures: HashMap<TextureId, Texture>,
}

#[derive(Debug)]
struct Texture {
    width: usize,
    height: usize,
    pixels: Vec<[u8; 4]>,
    smooth: bool,
}

impl Offscreen {
    /// Takes over new, changed and freed textures.
    pub fn apply(&mut self, delta: &mut TexturesDelta) {
        for (id, changes) in delta.set.drain() {
            for change in changes {
                let ImageData::Color(image) = &change.image;
                let [width, height] = image.size;
                let pixels: Vec<[u8; 4]> = image.pixels.iter().map(|colour| colour.to_array()).collect();
                match change.pos {
                    None => {
                        let smooth = change.options.magnification == TextureFilter::Linear;
                        self.textures.insert(id, Texture { width, height, pixels, smooth });
                    }
                    Some([x, y]) => {
                        let Some(texture) = self.textures.get_mut(&id) else { continue };
                        for (row, line) in pixels.chunks_exact(width.max(1)).enumerate() {
                            let at = (y + row) * texture.width + x;
                            if let Some(place) = texture.pixels.get_mut(at..at + width) {
                                place.copy_from_slice(line);
                            }
                        }
                    }
                }
            }
        }
        for id in delta.free.drain() {
            self.textures.remove(&id);
        }
    }
    /// Paints tessellated shapes over what is on the canvas.
    pub fn paint(&self, canvas: &mut Canvas, primitives: &[ClippedPrimitive], pixels_per_point: f32) {
        for primitive in primitives {
            let Primitive::Mesh(mesh) = &primitive.primitive else { continue };
            let Some(texture) = self.textures.get(&mesh.texture_id) else { continue };
            let clip = Clip::new(primitive.clip_rect, canvas, pixels_per_point);
            if clip.x0 < clip.x1 && clip.y0 < clip.y1 {
                paint_mesh(canvas, mesh, texture, &clip, pixels_per_point);
            }
        }
    }
}

/// Runs an egui interface off-screen and paints it: twice, since the first pass only finds out sizes.
pub fn render(size_pt: Vec2, pixels_per_point: f32, background: Color32, mut ui: impl FnMut(&mut Ui)) -> Canvas {
    let context = Context::default();
    context.set_pixels_per_point(pixels_per_point);
    let mut offscreen = Offscreen::default();
    let mut shapes = Vec::new();
    for pass in 0..2 {
        let mut output = context.run_ui(input(size_pt, pixels_per_point, pass), |root| ui(root));
        offscreen.apply(&mut output.textures_delta);
        shapes = output.shapes;
    }
    let primitives = context.tessellate(shapes, context.pixels_per_point());
    let pixels = |points: f32| (points * pixels_per_point).round().max(1.0) as usize;
    let mut canvas = Canvas::filled(pixels(size_pt.x), pixels(size_pt.y), background);
    offscreen.paint(&mut canvas, &primitives, pixels_per_point);
    canvas
}

/// The height an interface takes up if it is as wide as `size_pt` and has that much height to itself, in points.
pub fn measure(size_pt: Vec2, pixels_per_point: f32, mut ui: impl FnMut(&mut Ui)) -> f32 {
    let context = Context::default();
    context.set_pixels_per_point(pixels_per_point);
    let mut height = 0.0;
    for pass in 0..2 {
        let mut output = context.run_ui(input(size_pt, pixels_per_point, pass), |root| {
            ui(root);
            height = root.min_rect().height();
        });
        // Nothing is painted, so textures are dropped on purpose; epaint asks to be told.
        output.textures_delta.clear();
    }
    height
}

fn input(size_pt: Vec2, pixels_per_point: f32, pass: u8) -> RawInput {
    let mut input = RawInput {
        screen_rect: Some(Rect::from_min_size(egui::Pos2::ZERO, size_pt)),
        time: Some(f64::from(pass) * 0.25),
        max_texture_side: Some(16_384),
        ..RawInput::default()
    };
    input.viewports.entry(egui::ViewportId::ROOT).or_default().native_pixels_per_point = Some(pixels_per_point);
    input
}

/// A clip rectangle in whole pixels, inside the canvas.
struct Clip {
    x0: i64,
    y0: i64,
    x1: i64,
    y1: i64,
}

impl Clip {
    fn new(rect: Rect, canvas: &Canvas, pixels_per_point: f32) -> Clip {
        let pixel = |points: f32, most: usize| ((points * pixels_per_point).round() as i64).clamp(0, most as i64);
        Clip {
            x0: pixel(rect.min.x, canvas.width),
            y0: pixel(rect.min.y, canvas.height),
            x1: pixel(rect.max.x, canvas.width),
            y1: pixel(rect.max.y, canvas.height),
        }
    }
}

impl Texture {
    fn at(&self, x: i64, y: i64) -> [u8; 4] {
        let x = x.clamp(0, self.width as i64 - 1) as usize;
        let y = y.clamp(0, self.height as i64 - 1) as usize;
        self.pixels.get(y * self.width + x).copied().unwrap_or_default()
    }
    /// The texel at a place given in fractions, 0 to 255 a channel.
    fn sample(&self, u: f32, v: f32) -> [f32; 4] {
        let (x, y) = (u * self.width as f32, v * self.height as f32);
        if !self.smooth {
            return self.at(x.floor() as i64, y.floor() as i64).map(f32::from);
        }
        let (x, y) = (x - 0.5, y - 0.5);
        let (left, top) = (x.floor(), y.floor());
        let (right_share, low_share) = (x - left, y - top);
        let (left, top) = (left as i64, top as i64);
        let [a, b, c, d] = [(0, 0), (1, 0), (0, 1), (1, 1)].map(|(dx, dy)| self.at(left + dx, top + dy));
        std::array::from_fn(|i| {
            let upper = f32::from(a[i]) * (1.0 - right_share) + f32::from(b[i]) * right_share;
            let lower = f32::from(c[i]) * (1.0 - right_share) + f32::from(d[i]) * right_share;
            upper * (1.0 - low_share) + lower * low_share
        })
    }
}

fn paint_mesh(canvas: &mut Canvas, mesh: &Mesh, texture: &Texture, clip: &Clip, pixels_per_point: f32) {
    for corners in mesh.indices.as_chunks::<3>().0 {
        let [Some(a), Some(b), Some(c)] = corners.map(|i| mesh.vertices.get(i as usize)) else { continue };
        paint_triangle(canvas, [a, b, c], texture, clip, pixels_per_point);
    }
}

/// One edge as a function that is not negative inside: its value at the first pixel, its steps to the right and down.
struct Edge {
    value: i64,
    right: i64,
    down: i64,
}

fn paint_triangle(canvas: &mut Canvas, mut corners: [&Vertex; 3], texture: &Texture, clip: &Clip, pixels_per_point: f32) {
    let fixed = |vertex: &Vertex| {
        let part = |points: f32| (f64::from(points * pixels_per_point) * 256.0).round().clamp(-1e9, 1e9) as i64;
        (part(vertex.pos.x), part(vertex.pos.y))
    };
    let mut at = corners.map(fixed);
    let area = (at[1].0 - at[0].0) * (at[2].1 - at[0].1) - (at[1].1 - at[0].1) * (at[2].0 - at[0].0);
    if area == 0 {
        return;
    }
    if area < 0 {
        corners.swap(1, 2);
        at.swap(1, 2);
    }
    let bounds = |low: i64, high: i64, from: i64, to: i64| (((low - 128) >> 8).max(from), (((high + 128) >> 8) + 1).min(to));
    let (xs, ys) = (at.map(|p| p.0), at.map(|p| p.1));
    let ends = |v: [i64; 3]| (v[0].min(v[1]).min(v[2]), v[0].max(v[1]).max(v[2]));
    let (x0, x1) = bounds(ends(xs).0, ends(xs).1, clip.x0, clip.x1);
    let (y0, y1) = bounds(ends(ys).0, ends(ys).1, clip.y0, clip.y1);
    if x1 <= x0 || y1 <= y0 {
        return;
    }
    // Edge i lies opposite corner i, so its value is that corner's weight.
    let mut edges: [Edge; 3] = std::array::from_fn(|i| {
        let (a, b) = (at[(i + 1) % 3], at[(i + 2) % 3]);
        let (dx, dy) = (b.0 - a.0, b.1 - a.1);
        let owns_its_pixels = (dy == 0 && 0 < dx) || dy < 0;
        let (x, y) = (x0 * 256 + 128, y0 * 256 + 128);
        let value = dx * (y - a.1) - dy * (x - a.0) - i64::from(!owns_its_pixels);
        Edge { value, right: -dy * 256, down: dx * 256 }
    });
    let fill = Fill::new(corners, texture, area.abs());
    for y in y0..y1 {
        if let Some((from, to)) = span(&edges, x1 - x0) {
            let start = y as usize * canvas.width + x0 as usize;
            let row = &mut canvas.pixels[start + from as usize..start + to as usize];
            fill.row(row, [&edges[0], &edges[1]].map(|edge| edge.value + edge.right * from), [edges[0].right, edges[1].right]);
        }
        for edge in &mut edges {
            edge.value += edge.down;
        }
    }
}

/// The pixels of a row that lie inside all edges, found from the edges instead of by trying.
fn span(edges: &[Edge; 3], width: i64) -> Option<(i64, i64)> {
    let (mut from, mut to) = (0, width);
    for Edge { value, right, .. } in edges {
        match right {
            0 if *value < 0 => return None,
            0 => {}
            right if 0 < *right => {
                if *value < 0 {
                    from = from.max((-value + right - 1) / right);
                }
            }
            _ if *value < 0 => return None,
            right => to = to.min(value / -right + 1),
        }
    }
    (from < to).then_some((from, to))
}

/// What a triangle is filled with.
struct Fill<'a> {
    corners: [&'a Vertex; 3],
    colours: [[f32; 4]; 3],
    texture: &'a Texture,
    per_area: f32,
    /// The texel where all corners name the same one.
    texel: Option<[f32; 4]>,
    /// The one colour where corners and texel agree throughout.
    solid: Option<[u8; 4]>,
}

impl<'a> Fill<'a> {
    fn new(corners: [&'a Vertex; 3], texture: &'a Texture, area: i64) -> Self {
        let same = |equal: fn(&Vertex, &Vertex) -> bool| equal(corners[0], corners[1]) && equal(corners[1], corners[2]);
        let colours = corners.map(|vertex| vertex.color.to_array().map(f32::from));
        let texel = same(|a, b| a.uv == b.uv).then(|| texture.sample(corners[0].uv.x, corners[0].uv.y));
        let solid = texel.filter(|_| same(|a, b| a.color == b.color)).map(|texel| product(texel, colours[0]));
        Self { corners, colours, texture, per_area: 1.0 / area as f32, texel, solid }
    }
    /// Fills a row; `weights` are those of the first two corners at its first pixel, `steps` how they change.
    fn row(&self, row: &mut [[u8; 4]], mut weights: [i64; 2], steps: [i64; 2]) {
        match self.solid {
            Some(colour) if colour[3] == 255 => row.fill(colour),
            Some(colour) => row.iter_mut().for_each(|pixel| over(pixel, colour)),
            None => {
                for pixel in row {
                    let [a, b] = weights.map(|weight| weight as f32 * self.per_area);
                    let mix = |values: [f32; 3]| values[0] * a + values[1] * b + values[2] * (1.0 - a - b);
                    let texel = self.texel.unwrap_or_else(|| {
                        let uv = self.corners.map(|corner| corner.uv);
                        self.texture.sample(mix(uv.map(|uv| uv.x)), mix(uv.map(|uv| uv.y)))
                    });
                    let colour = std::array::from_fn(|i| mix(self.colours.map(|colour| colour[i])));
                    over(pixel, product(texel, colour));
                    weights = [weights[0] + steps[0], weights[1] + steps[1]];
                }
            }
        }
    }
}

fn product(texel: [f32; 4], colour: [f32; 4]) -> [u8; 4] {
    std::array::from_fn(|i| (texel[i] * colour[i] / 255.0 + 0.5) as u8)
}

/// Blends a premultiplied colour over a pixel.
fn over(pixel: &mut [u8; 4], colour: [u8; 4]) {
    if colour[3] == 255 {
        *pixel = colour;
        return;
    }
    let rest = u32::from(255 - colour[3]);
    for (below, above) in pixel.iter_mut().zip(colour) {
        // Exactly round(below * rest / 255).
        let product = u32::from(*below) * rest + 128;
        *below = above.saturating_add(((product + (product >> 8)) >> 8) as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use egui::{Pos2, pos2};

    fn white() -> Offscreen {
        let texture = Texture { width: 1, height: 1, pixels: vec![[255; 4]], smooth: true };
        Offscreen { textures: HashMap::from([(TextureId::default(), texture)]) }
    }
    fn mesh(points: &[Pos2], indices: &[u32], color: Color32) -> ClippedPrimitive {
        let vertices = points.iter().map(|pos| Vertex { pos: *pos, uv: Pos2::ZERO, color }).collect();
        let mesh = Mesh { indices: indices.to_vec(), vertices, texture_id: TextureId::default() };
        ClippedPrimitive { clip_rect: Rect::EVERYTHING, primitive: Primitive::Mesh(mesh) }
    }

    /// Half-transparent white, so that a pixel painted twice differs from one painted once.
    const VEIL: Color32 = Color32::from_rgba_premultiplied(128, 128, 128, 128);

    #[test]
    fn triangles_tile_without_seam_or_overlap() {
        let corners = [pos2(3.3, 2.7), pos2(17.1, 4.2), pos2(2.2, 16.9), pos2(15.6, 18.4)];
        for centre in [pos2(9.0, 9.0), pos2(9.5, 10.5), pos2(7.3, 12.8)] {
            let points = [corners[0], corners[1], corners[2], corners[3], centre];
            // A fan around a point, in mixed winding.
            let fan = mesh(&points, &[0, 1, 4, 4, 3, 1, 3, 4, 2, 2, 4, 0], VEIL);
            let halves = mesh(&points, &[0, 1, 2, 1, 2, 3], VEIL);
            for shape in [fan, halves] {
                let mut canvas = Canvas::filled(20, 20, Color32::TRANSPARENT);
                white().paint(&mut canvas, &[shape], 1.0);
                let once = canvas.pixels.iter().filter(|p| p[3] == 128).count();
                let never = canvas.pixels.iter().filter(|p| p[3] == 0).count();
                assert_eq!(once + never, 400, "pixels painted twice");
                assert_eq!(once, 195, "pixels missing inside");
            }
        }
    }

    #[test]
    fn a_square_covers_the_pixels_whose_centres_it_holds() {
        for (from, to, scale, expected) in [
            (2.0, 5.0, 1.0, 9),
            (2.5, 5.5, 1.0, 9),
            (2.6, 5.4, 1.0, 4),
            (2.0, 5.0, 2.0, 36),
            (-50.0, 99.0, 1.0, 100),
            (2.6, 3.4, 1.0, 0),
        ] {
            let mut canvas = Canvas::filled(10, 10, Color32::BLACK);
            let points = [pos2(from, from), pos2(to, from), pos2(from, to), pos2(to, to)];
            white().paint(&mut canvas, &[mesh(&points, &[0, 1, 2, 2, 1, 3], Color32::WHITE)], scale);
            assert_eq!(canvas.pixels.iter().filter(|p| p[0] == 255).count(), expected, "{from}..{to}");
        }
    }

    #[test]
    fn nothing_is_painted_outside_the_clip() {
        let points = [pos2(0.0, 0.0), pos2(10.0, 0.0), pos2(0.0, 10.0), pos2(10.0, 10.0)];
        let mut square = mesh(&points, &[0, 1, 2, 2, 1, 3], Color32::WHITE);
        square.clip_rect = Rect::from_min_max(pos2(2.4, 3.0), pos2(6.6, 5.0));
        let mut canvas = Canvas::filled(10, 10, Color32::BLACK);
        white().paint(&mut canvas, &[square], 1.0);
        for (i, pixel) in canvas.pixels.iter().enumerate() {
            let inside = (2..7).contains(&(i % 10)) && (3..5).contains(&(i / 10));
            assert_eq!(pixel[0] == 255, inside, "pixel {i}");
        }
    }

    #[test]
    fn an_interface_shows_its_text() {
        let canvas = render(egui::vec2(200.0, 40.0), 1.0, Color32::WHITE, |ui| {
            ui.painter().text(
                pos2(4.0, 4.0),
                egui::Align2::LEFT_TOP,
                "reserved",
                egui::FontId::proportional(16.0),
                Color32::BLACK,
            );
        });
        let ink = canvas.pixels.iter().filter(|p| p[0] < 128).count();
        assert!((100..1000).contains(&ink), "{ink} dark pixels");
        assert!(canvas.pixels.iter().all(|p| p[3] == 255));
    }
}
