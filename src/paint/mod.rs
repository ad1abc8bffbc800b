//! Floor 6: drawings become egui shapes, and egui shapes become pixels without a GPU.
