//! Colours, text sizes and spacing of the window: the only place that knows their values.
//!
//! Always: colours come from the [`Palette`] that also paints the pictures, so frame and picture agree;
//! three text sizes; all spacing is a multiple of [`UNIT`].

use crate::chart::{Ink, Palette, TextSize, Theme};
use crate::paint::colour;
use egui::{Color32, CornerRadius, FontId, Margin, Stroke, Style, TextStyle, Visuals, vec2};

/// The one spacing unit, in points.
pub const UNIT: f32 = 4.0;
/// Height of a table row, in points.
pub const ROW: f32 = 20.0;

/// What views use instead of values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tokens {
    /// The palette, for pictures.
    pub palette: Palette,
    /// Normal text.
    pub text: Color32,
    /// Text of second rank.
    pub weak: Color32,
    /// What is active, selected or a link.
    pub accent: Color32,
    /// What failed.
    pub error: Color32,
    /// What needs attention.
    pub caution: Color32,
    /// Under a selected row.
    pub selected_row: Color32,
    /// Under the row the pointer is on.
    pub hovered_row: Color32,
    /// Under a row that holds what was found.
    pub found_row: Color32,
    /// Thin lines.
    pub line: Color32,
    /// Behind pictures and tables.
    pub paper: Color32,
    /// Behind everything else.
    pub panel: Color32,
}

impl Tokens {
    /// The tokens of a theme.
    pub fn of(theme: Theme) -> Tokens {
        let palette = Palette { theme };
        let ink = |ink| colour(palette, ink);
        Tokens {
            palette,
            text: ink(Ink::Text),
            weak: ink(Ink::WeakText),
            accent: ink(Ink::Cursor),
            error: ink(Ink::Oom),
            caution: ink(Ink::Capacity),
            selected_row: ink(Ink::Range),
            hovered_row: ink(Ink::Grid),
            found_row: ink(Ink::Found),
            line: ink(Ink::Annotation(false)),
            paper: ink(Ink::Background),
            panel: ink(Ink::Panel),
        }
    }
}

/// Dresses egui in a theme.
pub fn apply(context: &egui::Context, theme: Theme) {
    let egui_theme = match theme {
        Theme::Light => egui::Theme::Light,
        Theme::Dark => egui::Theme::Dark,
    };
    context.set_theme(egui_theme);
    context.style_mut_of(egui_theme, |style| dress(style, theme));
}

fn dress(style: &mut Style, theme: Theme) {
    let tokens = Tokens::of(theme);
    style.text_styles = [
        (TextStyle::Small, FontId::proportional(TextSize::Small.points())),
        (TextStyle::Body, FontId::proportional(TextSize::Normal.points())),
        (TextStyle::Button, FontId::proportional(TextSize::Normal.points())),
        (TextStyle::Monospace, FontId::monospace(TextSize::Small.points())),
        (TextStyle::Heading, FontId::proportional(TextSize::Large.points())),
    ]
    .into();
    style.spacing.item_spacing = vec2(2.0 * UNIT, UNIT);
    style.spacing.button_padding = vec2(2.0 * UNIT, UNIT / 2.0);
    style.spacing.interact_size = vec2(6.0 * UNIT, 5.5 * UNIT);
    style.spacing.window_margin = Margin::same(3 * UNIT as i8);
    style.spacing.menu_margin = Margin::same(UNIT as i8);
    style.spacing.indent = 4.0 * UNIT;
    style.interaction.tooltip_delay = 0.25;
    style.animation_time = 0.0;
    style.visuals = visuals(&tokens, theme);
}

fn visuals(tokens: &Tokens, theme: Theme) -> Visuals {
    let mut visuals = match theme {
        Theme::Light => Visuals::light(),
        Theme::Dark => Visuals::dark(),
    };
    let radius = CornerRadius::same(UNIT as u8 / 2);
    visuals.panel_fill = tokens.panel;
    visuals.window_fill = tokens.panel;
    visuals.extreme_bg_color = tokens.paper;
    visuals.faint_bg_color = tokens.hovered_row;
    visuals.window_stroke = Stroke::new(1.0, tokens.line);
    visuals.window_corner_radius = radius;
    visuals.menu_corner_radius = radius;
    visuals.weak_text_color = Some(tokens.weak);
    visuals.hyperlink_color = tokens.accent;
    visuals.error_fg_color = tokens.error;
    visuals.warn_fg_color = tokens.caution;
    visuals.selection.bg_fill = tokens.selected_row;
    visuals.selection.stroke = Stroke::new(1.0, tokens.accent);
    visuals.widgets.noninteractive.bg_stroke = Stroke::new(1.0, tokens.line);
    for widget in [
        &mut visuals.widgets.noninteractive,
        &mut visuals.widgets.inactive,
        &mut visuals.widgets.hovered,
        &mut visuals.widgets.active,
        &mut visuals.widgets.open,
    ] {
        widget.corner_radius = radius;
        widget.fg_stroke = Stroke::new(1.0, tokens.text);
        widget.expansion = 0.0;
    }
    visuals
}
