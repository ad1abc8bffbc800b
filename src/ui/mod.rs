//! Floor 9: the window. With `paint` the only folder that knows egui.
