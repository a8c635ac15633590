//! A straight line through samples, by ordinary least squares, and how sure its slope is.

use serde::Serialize;

/// Blocks into which samples are gathered for the cautious interval.
const BLOCKS: usize = 10;

/// A slope and how sure it is.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Slope {
    /// Units of y for one of x.
    pub slope: f64,
    /// Half of the 95 % confidence interval, if the samples' errors were independent. Samples of
    /// memory are not: where `autocorrelation` is well above 0, this is too small.
    pub half_width: f64,
    /// The same from the means of ten blocks of neighbouring samples, whose errors depend less on
    /// each other. Absent if there are fewer than two samples for each.
    pub block_half_width: Option<f64>,
    /// Correlation of each residual with the one before it.
    pub autocorrelation: f64,
}

impl Slope {
    /// Absent with fewer than three samples, or if all have the same x.
    pub fn of(points: &[(f64, f64)]) -> Option<Self> {
        let Line { slope, half_width, residuals } = Line::through(points)?;
        let products = residuals.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>();
        let squares = residuals.iter().map(|residual| residual * residual).sum::<f64>();
        let autocorrelation = if squares > 0.0 { products / squares } else { 0.0 };
        let block_half_width = Line::through(&blocks(points)).map(|line| line.half_width);
        Some(Self { slope, half_width, block_half_width, autocorrelation })
    }
}

struct Line {
    slope: f64,
    half_width: f64,
    residuals: Vec<f64>,
}

impl Line {
    fn through(points: &[(f64, f64)]) -> Option<Self> {
        let count = points.len() as f64;
        if points.len() < 3 {
            return None;
        }
        let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / count;
        let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / count;
        let xx: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
        let xy: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
        if xx <= 0.0 {
            return None;
        }
        let slope = xy / xx;
        let residuals: Vec<f64> =
            points.iter().map(|(x, y)| y - mean_y - slope * (x - mean_x)).collect();
        let freedom = count - 2.0;
        let variance = residuals.iter().map(|residual| residual.powi(2)).sum::<f64>() / freedom;
        let half_width = t_quantile(freedom) * (variance / xx).sqrt();
        Some(Self { slope, half_width, residuals })
    }
}

/// The means of neighbouring samples. Empty if there are too few.
fn blocks(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let size = points.len() / BLOCKS;
    if size < 2 {
        return Vec::new();
    }
    let mean = |block: &[(f64, f64)]| {
        let (x, y) = block.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
        (x / size as f64, y / size as f64)
    };
    points.chunks_exact(size).take(BLOCKS).map(mean).collect()
}

/// Beyond this lie 2.5 % of Student's t with this many degrees of freedom. For one and two it is
/// exact; from three on the expansion around the normal distribution errs by less than 1 %.
fn t_quantile(freedom: f64) -> f64 {
    const Z: f64 = 1.959_964;
    if freedom < 1.5 {
        return 12.706;
    }
    if freedom < 2.5 {
        return 4.303;
    }
    let powers = [3, 5, 7].map(|power| Z.powi(power));
    let [z3, z5, z7] = powers;
    Z + (z3 + Z) / (4.0 * freedom)
        + (5.0 * z5 + 16.0 * z3 + 3.0 * Z) / (96.0 * freedom.powi(2))
        + (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * Z) / (384.0 * freedom.powi(3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (freedom, t) in
            [(1.0, 12.706), (2.0, 4.303), (3.0, 3.182), (8.0, 2.306), (100.0, 1.984)]
        {
            assert!((t_quantile(freedom) - t).abs() < 0.01 * t, "{freedom}");
        }
    }

    #[test]
    fn a_straight_line_has_its_slope_and_no_doubt() {
        let points: Vec<_> = (0..100).map(|x| (f64::from(x), 7.0 + 3.0 * f64::from(x))).collect();
        let slope = Slope::of(&points).unwrap();
        assert!((slope.slope - 3.0).abs() < 1e-9 && slope.half_width < 1e-6);
    }

    #[test]
    fn the_interval_of_a_known_example() {
        // By hand: slope 0.6, residual squares 2.4, freedom 3, xx 10: se 0.2828, t 3.182.
        let points = [(1.0, 2.0), (2.0, 4.0), (3.0, 5.0), (4.0, 4.0), (5.0, 5.0)];
        let slope = Slope::of(&points).unwrap();
        assert!((slope.slope - 0.6).abs() < 1e-9);
        assert!((slope.half_width - 0.9).abs() < 0.01, "{}", slope.half_width);
        assert_eq!(slope.block_half_width, None);
    }

    #[test]
    fn samples_that_hang_together_widen_the_interval() {
        // Plateaus of ten: each residual resembles its neighbour.
        let plateau = |x: u32| f64::from((x / 10 * 7) % 5);
        let points: Vec<_> = (0..200).map(|x| (f64::from(x), plateau(x))).collect();
        let slope = Slope::of(&points).unwrap();
        assert!(slope.autocorrelation > 0.5, "{}", slope.autocorrelation);
        assert!(slope.block_half_width > Some(slope.half_width), "{slope:?}");
    }

    #[test]
    fn nothing_is_said_of_too_little() {
        assert_eq!(Slope::of(&[(1.0, 1.0), (2.0, 2.0)]), None);
        assert_eq!(Slope::of(&[(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)]), None);
    }
}
