//! The model that the workloads stand for: a transformer whose sizes follow from the memory there is.
//!
//! Sizes are those of the usual arrangement: 12 h² parameters a layer (attention 4 h², feed-forward 8 h²), two bytes a
//! value; a training step keeps 34 bytes a token and unit of width in each layer ("Reducing Activation Recomputation in
//! Large Transformer Models", equation 1 without the part of the attention matrix, which fused kernels do not keep).

/// Layers.
pub(super) const LAYERS: u64 = 8;
/// Bytes of a value.
pub(super) const VALUE: u64 = 2;
/// Words it knows.
pub(super) const WORDS: u64 = 8192;

/// Its width, for so many bytes of memory at so many bytes a parameter: a multiple of 64.
pub(super) fn width(bytes: u64, per_parameter: u64) -> u64 {
    let parameters = bytes / per_parameter;
    let of_width = |width: u64| LAYERS * 12 * width * width + WORDS * width;
    let mut width = 64;
    while of_width(width + 64) <= parameters {
        width += 64;
    }
    width
}

/// The matrices of a layer, in values: attention's two, the feed-forward part's two.
pub(super) fn matrices(width: u64) -> [(&'static str, u64); 4] {
    [
        ("qkv", 3 * width * width),
        ("attention out", width * width),
        ("feed-forward in", 4 * width * width),
        ("feed-forward out", 4 * width * width),
    ]
}

/// Numbers that look like chance and are the same in every run.
#[derive(Debug)]
pub(super) struct Chance(pub(super) u64);

impl Chance {
    /// A number from a range, its end left out.
    pub(super) fn between(&mut self, from: u64, to: u64) -> u64 {
        // A multiplicative generator (MMIX's constants); the upper bits are the good ones.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        from + (self.0 >> 33) % (to - from).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_width_follows_from_the_memory() {
        for bytes in [64 << 20, 1 << 30, 40 << 30] {
            let width = width(bytes, 16);
            assert!(width.is_multiple_of(64));
            let parameters = |width: u64| 16 * (LAYERS * 12 * width * width + WORDS * width);
            assert!(parameters(width) <= bytes || width == 64);
            assert!(bytes < parameters(width + 64));
        }
        let mut chance = Chance(1);
        assert!((0..1000).all(|_| (5..9).contains(&chance.between(5, 9))));
    }
}
