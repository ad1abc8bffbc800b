//! What surrounds the tiles: documents and coverage above, the scrubber and jobs below, the start page.

pub mod banner;
pub mod capture;
pub mod documents;
pub mod export;
pub mod find;
pub mod help;
pub mod jobs;
pub mod live;
pub mod palette;
pub mod ranks;
pub mod report_dialog;
pub mod save_picture;
pub mod scrubber;
pub mod welcome;
