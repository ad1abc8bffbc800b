//! Floor 8: what is open, what is asked, what the user chose. No toolkit.
