//! Asking for somebody else than the window: a view that is drawn once more, off-screen, for a saved picture.
//!
//! Always: while [`Session::aside`] runs, nothing in the session changes: commands are dropped and nothing is hovered.
//! What is asked aside never cancels what the window asked, and the other way round.

use crate::session::Session;

impl Session {
    /// Runs something that asks and looks, but changes nothing; and whether an answer or picture it asked for is still
    /// on its way.
    pub fn aside<R>(&self, run: impl FnOnce() -> R) -> (R, bool) {
        let before = self.aside.replace(Some(false));
        let result = run();
        (result, self.aside.replace(before) == Some(true))
    }
    /// Gives back the pictures that were painted aside.
    pub fn forget_aside(&self) {
        self.pictures.borrow_mut().forget_aside();
    }
    /// Whether [`Session::aside`] is running.
    pub fn is_aside(&self) -> bool {
        self.aside.get().is_some()
    }
    /// Tells that something that was asked for is not there yet.
    pub(super) fn note_pending(&self) {
        if self.is_aside() {
            self.aside.set(Some(true));
        }
    }
}
