//! Undo and redo: older values of the [`Workspace`].
//!
//! A value that has been still for [`SETTLE_S`] becomes a step. The newest step is where the user is,
//! so undo goes to the one before. Data never changes, so nothing that costs time is ever undone.

use crate::session::workspace::Workspace;

/// How long a value rests before it becomes a step, in seconds.
pub const SETTLE_S: f64 = 0.5;
const STEPS: usize = 200;

/// The steps one can go back to and forward to.
#[derive(Clone, Debug, Default)]
pub struct History {
    past: Vec<Workspace>,
    future: Vec<Workspace>,
    moving: Option<(f64, Workspace)>,
}

impl History {
    /// Tells the value of now; `true` while it still has to settle.
    pub fn feed(&mut self, now_s: f64, workspace: &Workspace) -> bool {
        if self.past.last() == Some(workspace) {
            self.moving = None;
            return false;
        }
        if self.past.is_empty() {
            self.past.push(workspace.clone());
            return false;
        }
        match &self.moving {
            Some((since, value)) if value == workspace => {
                if now_s - since < SETTLE_S {
                    return true;
                }
                self.settle(workspace.clone());
                false
            }
            _ => {
                self.moving = Some((now_s, workspace.clone()));
                true
            }
        }
    }
    /// Starts anew from a value: what was before can no longer be reached (a document was closed).
    pub fn restart(&mut self, workspace: &Workspace) {
        *self = History { past: vec![workspace.clone()], ..History::default() };
    }
    /// Changes all steps alike: what is open has grown, so that they say the same of it as before.
    pub fn carry(&mut self, change: impl Fn(&mut Workspace)) {
        let moving = self.moving.iter_mut().map(|(_, value)| value);
        self.past.iter_mut().chain(&mut self.future).chain(moving).for_each(change);
    }
    /// The step before the value of now.
    pub fn undo(&mut self, workspace: &Workspace) -> Option<Workspace> {
        if self.past.last() != Some(workspace) {
            self.settle(workspace.clone());
        }
        if self.past.len() < 2 {
            return None;
        }
        self.future.extend(self.past.pop());
        self.past.last().cloned()
    }
    /// The step that was undone last.
    pub fn redo(&mut self, workspace: &Workspace) -> Option<Workspace> {
        if self.past.last() != Some(workspace) {
            // Something else was done since: that is the newest step now.
            self.settle(workspace.clone());
            return None;
        }
        let next = self.future.pop()?;
        self.past.push(next.clone());
        Some(next)
    }
    /// Whether there is a step back.
    pub fn can_undo(&self) -> bool {
        1 < self.past.len() || self.moving.is_some()
    }
    /// Whether there is a step forward.
    pub fn can_redo(&self) -> bool {
        !self.future.is_empty() && self.moving.is_none()
    }

    fn settle(&mut self, workspace: Workspace) {
        self.moving = None;
        self.future.clear();
        self.past.push(workspace);
        if STEPS < self.past.len() {
            self.past.remove(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::workspace::EventFilter;

    fn value(n: u8) -> Workspace {
        let filter = EventFilter { text: n.to_string(), ..EventFilter::default() };
        Workspace { filter, ..Workspace::default() }
    }

    #[test]
    fn a_value_becomes_a_step_when_it_rests() {
        let mut history = History::default();
        for (now, n, settling) in
            [(0.0, 0, false), (0.1, 1, true), (0.2, 2, true), (0.6, 2, true), (0.8, 2, false), (5.0, 2, false)]
        {
            assert_eq!(history.feed(now, &value(n)), settling, "at {now}");
        }
        assert_eq!(history.undo(&value(2)), Some(value(0)), "what passed by is no step");
        assert_eq!(history.undo(&value(0)), None);
        assert_eq!(history.redo(&value(0)), Some(value(2)));
        assert_eq!(history.redo(&value(2)), None);
    }

    #[test]
    fn undo_right_after_a_change_takes_it_back_and_a_new_change_drops_the_redo() {
        let mut history = History::default();
        history.feed(0.0, &value(0));
        history.feed(0.1, &value(1));
        assert!(history.can_undo());
        assert_eq!(history.undo(&value(1)), Some(value(0)));
        assert!(history.can_redo());
        history.feed(1.0, &value(3));
        assert!(!history.can_redo());
        assert_eq!(history.redo(&value(3)), None);
        assert_eq!(history.undo(&value(3)), Some(value(0)));
    }
}
