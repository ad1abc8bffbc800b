//! Floor 5: millions of boxes become one picture, with exact coverage, on a thread pool of its own.
