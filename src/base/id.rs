//! Ids are types: a `Column<AllocationId, u64>` cannot be indexed by a segment's id.
//!
//! An id is a row number in 32 bits. Ids are handed out in order and never reused.

use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// What a [`Column`] can be indexed with.
pub trait Id: Copy {
    /// The row this id names.
    fn row(self) -> usize;
    /// The id of a row. Rows beyond 32 bits do not exist: readers refuse such files earlier.
    fn of_row(row: usize) -> Self;
}

/// Defines an id type: a row number that only its own columns take.
#[macro_export]
macro_rules! define_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);
        impl $crate::base::id::Id for $name {
            #[inline]
            fn row(self) -> usize { self.0 as usize }
            #[inline]
            fn of_row(row: usize) -> Self { Self(row as u32) }
        }
    };
}

/// A growing vector that only its own id can index.
#[derive(Clone, Debug, PartialEq)]
pub struct Column<I, T> {
    items: Vec<T>,
    id: PhantomData<fn(I)>,
}

impl<I: Id, T> Column<I, T> {
    /// An empty column.
    pub const fn new() -> Self {
        Self { items: Vec::new(), id: PhantomData }
    }
    /// Appends a value and names it.
    pub fn push(&mut self, item: T) -> I {
        self.items.push(item);
        I::of_row(self.items.len() - 1)
    }
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.items.len()
    }
    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
    /// The rows in id order.
    pub fn as_slice(&self) -> &[T] {
        &self.items
    }
    /// The rows in id order, to change.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        &mut self.items
    }
    /// The row, if there is one.
    pub fn get(&self, id: I) -> Option<&T> {
        self.items.get(id.row())
    }
    /// All ids, in order.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = I> + ExactSizeIterator + use<I, T> {
        (0..self.items.len()).map(I::of_row)
    }
    /// Ids with their rows, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (I, &T)> + ExactSizeIterator {
        self.items.iter().enumerate().map(|(row, item)| (I::of_row(row), item))
    }
    /// Gives back unused capacity.
    pub fn shrink_to_fit(&mut self) {
        self.items.shrink_to_fit();
    }
    /// Bytes on the heap, not counting what the rows own themselves.
    pub fn heap_bytes(&self) -> usize {
        self.items.capacity() * size_of::<T>()
    }
}

impl<I: Id, T> Default for Column<I, T> {
    fn default() -> Self {
        Self::new()
    }
}
impl<I: Id, T> From<Vec<T>> for Column<I, T> {
    fn from(items: Vec<T>) -> Self {
        Self { items, id: PhantomData }
    }
}
impl<I: Id, T> Index<I> for Column<I, T> {
    type Output = T;
    #[inline]
    fn index(&self, id: I) -> &T {
        &self.items[id.row()]
    }
}
impl<I: Id, T> IndexMut<I> for Column<I, T> {
    #[inline]
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.items[id.row()]
    }
}
