//! The views as tiles that can be moved, split, closed and brought back.

use crate::ui::theme::UNIT;
use crate::ui::views::{Cx, VIEWS, View, ViewClass, class_of, is_shown, kv};
use crate::ui::widgets::icon::{Icon, icon_button};
use egui::{Rect, Response, Ui, WidgetText};
use egui_tiles::{
    Behavior, Container, EditAction, Linear, LinearDir, SimplificationOptions, Tabs, Tile, TileId, Tiles, Tree, UiResponse,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// A tile: the name of its view.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pane(String);

/// All tiles of the window.
pub struct Layout {
    tree: Tree<Pane>,
    views: BTreeMap<&'static str, Box<dyn View>>,
    rects: BTreeMap<&'static str, Rect>,
    /// The view whose picture was asked for at its tab.
    wanted: Option<&'static str>,
    /// Whether the document in front was a KV cache in the last frame.
    had_kv: bool,
}

impl Layout {
    /// The saved arrangement, or the first one where that cannot be read.
    pub fn of_saved(saved: &str) -> Layout {
        let tree = serde_json::from_str::<Tree<Pane>>(saved).ok().filter(is_sound).unwrap_or_else(first_arrangement);
        Layout { tree, views: BTreeMap::new(), rects: BTreeMap::new(), wanted: None, had_kv: false }
    }
    /// Arranges the tiles as another arrangement says; the views keep what was chosen in them.
    pub fn arrange(&mut self, saved: &str) {
        self.tree = Layout::of_saved(saved).tree;
    }
    /// The view whose picture was asked for at its tab in the last frame.
    pub fn take_wanted_picture(&mut self) -> Option<&'static str> {
        self.wanted.take()
    }
    /// A view once more, with all that was chosen in it.
    pub fn twin(&self, class: &ViewClass) -> Box<dyn View> {
        self.views.get(class.id).map_or_else(|| (class.open)(), |view| view.twin())
    }
    /// The arrangement as text.
    pub fn to_saved(&self) -> String {
        serde_json::to_string(&self.tree).unwrap_or_default()
    }
    /// Back to the first arrangement.
    pub fn reset(&mut self) {
        self.tree = first_arrangement();
    }
    /// Whether a view has a tile.
    pub fn is_open(&self, id: &str) -> bool {
        self.tree.tiles.find_pane(&Pane(id.to_owned())).is_some()
    }
    /// Brings a view to the front; a closed one comes back among the views it stands with, else beside the others.
    pub fn show_view(&mut self, id: &'static str) {
        let pane = Pane(id.to_owned());
        if let Some(tile) = self.tree.tiles.find_pane(&pane) {
            self.tree.make_active(|other, _| other == tile);
            return;
        }
        let tile = self.tree.tiles.insert_pane(pane);
        if let Some(Tile::Container(Container::Tabs(tabs))) = self.tabs_beside(id).and_then(|tabs| self.tree.tiles.get_mut(tabs))
        {
            tabs.add_child(tile);
            tabs.set_active(tile);
            return;
        }
        match self.tree.root().and_then(|root| self.tree.tiles.get_mut(root)) {
            Some(Tile::Container(container)) => container.add_child(tile),
            Some(Tile::Pane(_)) | None => {
                let children = self.tree.root().into_iter().chain([tile]).collect();
                let root = self.tree.tiles.insert_vertical_tile(children);
                self.tree.root = Some(root);
            }
        }
    }
    /// The tabs that hold a view of those that share a tile at first.
    fn tabs_beside(&self, id: &str) -> Option<TileId> {
        let family: Vec<&str> = tabbed().collect();
        let open = |other: &&str| self.tree.tiles.find_pane(&Pane((*other).to_owned()));
        let parent = |tile| self.tree.tiles.parent_of(tile);
        let tabs = |tile: &TileId| matches!(self.tree.tiles.get(*tile), Some(Tile::Container(Container::Tabs(_))));
        family.contains(&id).then_some(family).into_iter().flatten().find_map(|other| open(&other).and_then(parent).filter(tabs))
    }
    /// Hides the tiles of views that have nothing to show of the document in front; that of a KV cache comes to the front
    /// with it.
    fn hide_idle(&mut self, cx: &Cx<'_>) {
        for class in VIEWS {
            let shown = is_shown(class, cx);
            // A tile that is hidden cannot be in front.
            if let Some(tile) = self.tree.tiles.find_pane(&Pane(class.id.to_owned())) {
                self.tree.tiles.set_visible(tile, shown);
            }
        }
        let is_kv = kv::is_for(cx);
        if is_kv && !self.had_kv {
            self.show_view(kv::CLASS.id);
        }
        self.had_kv = is_kv;
    }
    /// Closes a view's tile.
    pub fn close_view(&mut self, id: &str) {
        if let Some(tile) = self.tree.tiles.find_pane(&Pane(id.to_owned())) {
            self.tree.remove_recursively(tile);
        }
    }
    /// Where a view was in the last frame.
    pub fn rect_of(&self, id: &str) -> Option<Rect> {
        self.rects.get(id).copied()
    }
    /// The view under a point, or the first that is open.
    pub fn view_at(&self, at: Option<egui::Pos2>) -> Option<&'static str> {
        let under = at.and_then(|at| self.rects.iter().find(|(_, rect)| rect.contains(at)).map(|(id, _)| *id));
        under.or_else(|| VIEWS.iter().map(|class| class.id).find(|id| self.rects.contains_key(id)))
    }
    /// Shows all tiles; whether the user rearranged them.
    pub fn show(&mut self, ui: &mut Ui, cx: &Cx<'_>) -> bool {
        self.rects.clear();
        self.hide_idle(cx);
        let fronts = fronts(&self.tree.tiles);
        let (views, rects, wanted) = (&mut self.views, &mut self.rects, &mut self.wanted);
        let mut behaviour = Shown { views, rects, wanted, fronts, cx, edited: false };
        self.tree.ui(&mut behaviour, ui);
        let edited = behaviour.edited;
        if self.tree.is_empty() {
            cx.empty(ui, "All views are closed. Open one from the View menu, or reset the layout there.");
        }
        edited
    }
}

/// Only views that exist, each at most once, and a root.
fn is_sound(tree: &Tree<Pane>) -> bool {
    let mut seen = Vec::new();
    tree.root().is_some_and(|root| tree.tiles.get(root).is_some())
        && tree.tiles.tiles().all(|tile| match tile {
            Tile::Pane(Pane(id)) => {
                let fresh = class_of(id).is_some() && !seen.contains(id);
                seen.push(id.clone());
                fresh
            }
            Tile::Container(container) => container.children().all(|child| tree.tiles.get(*child).is_some()),
        })
}

/// The views that share one tile as tabs at first: all but those a first look needs.
fn tabbed() -> impl Iterator<Item = &'static str> {
    VIEWS.iter().map(|class| class.id).filter(|id| !["usage", "layout", "why", "details"].contains(id))
}

fn first_arrangement() -> Tree<Pane> {
    let mut tiles = Tiles::default();
    let pane = |tiles: &mut Tiles<Pane>, id: &str| tiles.insert_pane(Pane(id.to_owned()));
    let usage = pane(&mut tiles, "usage");
    let layout = pane(&mut tiles, "layout");
    let tabs = tabbed().map(|id| pane(&mut tiles, id)).collect();
    let tabs = tiles.insert_tab_tile(tabs);
    let why = pane(&mut tiles, "why");
    let details = pane(&mut tiles, "details");
    let mut right = Linear::new(LinearDir::Vertical, vec![why, details]);
    right.shares.set_share(why, 1.3);
    right.shares.set_share(details, 1.0);
    let right = tiles.insert_container(Container::Linear(right));
    let mut left = Linear::new(LinearDir::Vertical, vec![usage, layout, tabs]);
    left.shares.set_share(usage, 1.25);
    left.shares.set_share(layout, 1.05);
    left.shares.set_share(tabs, 0.8);
    let left = tiles.insert_container(Container::Linear(left));
    let mut whole = Linear::new(LinearDir::Horizontal, vec![left, right]);
    whole.shares.set_share(left, 2.9);
    whole.shares.set_share(right, 1.0);
    let root = tiles.insert_container(Container::Linear(whole));
    Tree::new(egui::Id::unique("views"), root, tiles)
}

/// Height of the line under the tab in front, in points.
const MARK_PT: f32 = 2.0;

/// How a tab stands in front.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Front {
    Alone,
    OfSeveral,
}

/// The tabs in front. Looked up before a frame: while it is shown, tiles do not know their parents.
fn fronts(tiles: &Tiles<Pane>) -> HashMap<TileId, Front> {
    let front = |tile: &Tile<Pane>| match tile {
        Tile::Container(Container::Tabs(tabs)) => {
            tabs.active.map(|tile| (tile, if tabs.children.len() == 1 { Front::Alone } else { Front::OfSeveral }))
        }
        Tile::Container(_) | Tile::Pane(_) => None,
    };
    tiles.tiles().filter_map(front).collect()
}

struct Shown<'a, 'b> {
    views: &'a mut BTreeMap<&'static str, Box<dyn View>>,
    rects: &'a mut BTreeMap<&'static str, Rect>,
    wanted: &'a mut Option<&'static str>,
    fronts: HashMap<TileId, Front>,
    cx: &'a Cx<'b>,
    edited: bool,
}

impl Behavior<Pane> for Shown<'_, '_> {
    fn pane_ui(&mut self, ui: &mut Ui, _tile: TileId, Pane(id): &mut Pane) -> UiResponse {
        if let Some(class) = class_of(id) {
            self.rects.insert(class.id, ui.max_rect());
            ui.painter().rect_filled(ui.max_rect(), 0.0, self.cx.tokens.panel);
            let began = std::time::Instant::now();
            self.views.entry(class.id).or_insert_with(class.open).ui(ui, self.cx);
            crate::ui::frame_times::note(class.id, began.elapsed());
        }
        UiResponse::None
    }
    fn tab_title_for_pane(&mut self, Pane(id): &Pane) -> WidgetText {
        class_of(id).map_or_else(|| id.clone(), |class| class.title.to_owned()).into()
    }
    /// Only the tab in front has the sign to close it, so that all tabs stand in a narrow window; the others close by
    /// their menu or the middle button.
    fn is_tab_closable(&self, _tiles: &Tiles<Pane>, tile: TileId) -> bool {
        self.fronts.contains_key(&tile)
    }
    fn on_tab_button(&mut self, tiles: &mut Tiles<Pane>, tile: TileId, tab: Response) -> Response {
        let class = tiles.get_pane(&tile).and_then(|Pane(id)| class_of(id));
        let Some(class) = class else { return tab };
        let front = self.fronts.get(&tile);
        if front == Some(&Front::OfSeveral) {
            let line = Rect::from_x_y_ranges(tab.interact_rect.x_range(), tab.rect.max.y - MARK_PT..=tab.rect.max.y);
            tab.ctx.layer_painter(tab.layer_id).rect_filled(line, 0.0, self.cx.tokens.accent);
        }
        let mut close = front.is_none() && tab.clicked_by(egui::PointerButton::Middle);
        tab.context_menu(|ui| {
            if ui.button("Save picture…").clicked() {
                *self.wanted = Some(class.id);
                ui.close();
            }
            if ui.button("Close").clicked() {
                close = true;
                ui.close();
            }
        });
        if close {
            tiles.remove(tile);
            self.edited = true;
        }
        tab.on_hover_text(class.help)
    }
    fn top_bar_right_ui(&mut self, tiles: &Tiles<Pane>, ui: &mut Ui, _tile: TileId, tabs: &Tabs, _scroll: &mut f32) {
        let active = tabs.active.and_then(|tile| tiles.get_pane(&tile)).and_then(|Pane(id)| class_of(id));
        let Some(class) = active.filter(|_| self.cx.session.front().is_some()) else { return };
        ui.add_space(UNIT);
        let name = format!("Save a picture of {}", class.title);
        if icon_button(ui, Icon::Save, &name, false).on_hover_text("Saves a picture of this view, at any size").clicked() {
            *self.wanted = Some(class.id);
        }
    }
    fn on_tab_close(&mut self, _tiles: &mut Tiles<Pane>, _tile: TileId) -> bool {
        self.edited = true;
        true
    }
    fn simplification_options(&self) -> SimplificationOptions {
        SimplificationOptions { all_panes_must_have_tabs: true, ..SimplificationOptions::default() }
    }
    fn gap_width(&self, _style: &egui::Style) -> f32 {
        crate::ui::theme::UNIT
    }
    fn min_size(&self) -> f32 {
        20.0 * crate::ui::theme::UNIT
    }
    fn tab_bar_height(&self, _style: &egui::Style) -> f32 {
        6.0 * crate::ui::theme::UNIT
    }
    fn tab_outline_stroke(
        &self,
        _visuals: &egui::Visuals,
        _tiles: &Tiles<Pane>,
        _tile: TileId,
        _state: &egui_tiles::TabState,
    ) -> egui::Stroke {
        egui::Stroke::NONE
    }
    fn tab_text_color(
        &self,
        _visuals: &egui::Visuals,
        _tiles: &Tiles<Pane>,
        _tile: TileId,
        state: &egui_tiles::TabState,
    ) -> egui::Color32 {
        if state.active { self.cx.tokens.text } else { self.cx.tokens.weak }
    }
    fn tab_bg_color(
        &self,
        _visuals: &egui::Visuals,
        _tiles: &Tiles<Pane>,
        _tile: TileId,
        _state: &egui_tiles::TabState,
    ) -> egui::Color32 {
        self.cx.tokens.panel
    }
    fn tab_bar_hline_stroke(&self, _visuals: &egui::Visuals) -> egui::Stroke {
        egui::Stroke::new(1.0, self.cx.tokens.line)
    }
    fn tab_bar_color(&self, _visuals: &egui::Visuals) -> egui::Color32 {
        self.cx.tokens.panel
    }
    fn on_edit(&mut self, _action: EditAction) {
        self.edited = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrangements_are_saved_and_broken_ones_are_replaced() {
        let mut layout = Layout::of_saved("");
        layout.close_view("events");
        let kept = Layout::of_saved(&layout.to_saved());
        assert!(!kept.is_open("events") && kept.is_open("usage"));
        for broken in [
            "",
            "{}",
            "null",
            "[1]",
            &layout.to_saved().replace("usage", "nonsense"),
            &layout.to_saved().replace("usage", "layout"),
        ] {
            let layout = Layout::of_saved(broken);
            assert!(VIEWS.iter().all(|class| layout.is_open(class.id)), "{broken}");
        }
    }

    #[test]
    fn an_arrangement_of_before_a_view_was_there_still_loads() {
        let mut older = Layout::of_saved("");
        let newer: Vec<&str> = tabbed().filter(|id| *id != "events").collect();
        for id in &newer {
            older.close_view(id);
        }
        let mut layout = Layout::of_saved(&older.to_saved());
        let tabs_of = |layout: &Layout, id: &str| {
            let tile = layout.tree.tiles.find_pane(&Pane(id.to_owned()));
            tile.and_then(|tile| layout.tree.tiles.parent_of(tile))
        };
        for id in newer {
            assert!(!layout.is_open(id));
            layout.show_view(id);
            assert!(layout.is_open(id));
            assert_eq!(tabs_of(&layout, id), tabs_of(&layout, "events"), "{id} comes as a tab beside the events");
        }
    }

    #[test]
    fn closed_views_come_back() {
        let mut layout = Layout::of_saved("");
        for class in VIEWS {
            layout.close_view(class.id);
            assert!(!layout.is_open(class.id));
        }
        for class in VIEWS {
            layout.show_view(class.id);
            assert!(layout.is_open(class.id));
        }
        layout.reset();
        assert!(VIEWS.iter().all(|class| layout.is_open(class.id)));
    }
}
