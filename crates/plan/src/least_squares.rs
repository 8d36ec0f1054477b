//! Finds positive numbers for which a model comes closest to measurements: Levenberg-Marquardt on their logarithms.
//! Errors are relative, and single measurements that are far off pull no harder than those at the edge. Pure, and the
//! same result in every run.

/// From this relative error on, a measurement counts as far off.
const FAR_OFF: f64 = 0.05;
const MOST_ROUNDS: usize = 200;
const SMALL_STEP: f64 = 1e-5;
/// Holds a number that nothing depends on where it began.
const ANCHOR: f64 = 1e-7;

/// A number to be found: where the search begins, and between which bounds it stays.
#[derive(Clone, Copy)]
pub(crate) struct Unknown {
    pub(crate) start: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

pub(crate) struct Found<const N: usize> {
    pub(crate) values: [f64; N],
    /// What was made small; comparable between searches over the same measurements.
    pub(crate) cost: f64,
}

/// `residuals` gives ln(predicted / measured) of every measurement.
pub(crate) fn search<const N: usize>(
    unknowns: &[Unknown; N],
    residuals: &dyn Fn(&[f64; N]) -> Vec<f64>,
) -> Found<N> {
    let from = |factor: f64| {
        let start = std::array::from_fn(|at| {
            let Unknown { start, least, most } = unknowns[at];
            (start * factor).clamp(least, most).ln()
        });
        descend(start, unknowns, residuals)
    };
    let starts = [1.0, 0.1, 10.0].map(from);
    let [first, second, third] = starts;
    let better = |one: Found<N>, other: Found<N>| if other.cost < one.cost { other } else { one };
    better(better(first, second), third)
}

/// One search from where the unknowns begin: for measurements that are nearly those of an earlier search.
pub(crate) fn refine<const N: usize>(
    unknowns: &[Unknown; N],
    residuals: &dyn Fn(&[f64; N]) -> Vec<f64>,
) -> Found<N> {
    let start = unknowns.map(|Unknown { start, least, most }| start.clamp(least, most).ln());
    descend(start, unknowns, residuals)
}

fn descend<const N: usize>(
    mut at: [f64; N],
    unknowns: &[Unknown; N],
    residuals: &dyn Fn(&[f64; N]) -> Vec<f64>,
) -> Found<N> {
    let origin = at;
    let evaluate = |logs: &[f64; N]| residuals(&logs.map(f64::exp));
    let bounded = |logs: [f64; N]| -> [f64; N] {
        std::array::from_fn(|i| logs[i].clamp(unknowns[i].least.ln(), unknowns[i].most.ln()))
    };
    let (mut damping, mut now) = (1e-2, evaluate(&at));
    for _ in 0..MOST_ROUNDS {
        let (matrix, gradient) = normal_equations(&at, &origin, &now, &evaluate);
        let mut advanced = false;
        while damping < 1e8 {
            let next = bounded(stepped(&at, &matrix, &gradient, damping));
            let then = evaluate(&next);
            if cost(&then) < cost(&now) {
                advanced = cost(&now) - cost(&then) > 1e-6 * cost(&now);
                (at, now, damping) = (next, then, (damping * 0.3).max(1e-9));
                break;
            }
            damping *= 4.0;
        }
        if !advanced {
            break;
        }
    }
    Found { values: at.map(f64::exp), cost: cost(&now) }
}

/// Squares near zero, linear far off.
fn cost(residuals: &[f64]) -> f64 {
    let one = |r: &f64| {
        let size = r.abs();
        if size <= FAR_OFF { size * size } else { FAR_OFF * (2.0 * size - FAR_OFF) }
    };
    let total: f64 = residuals.iter().map(one).sum();
    if total.is_finite() { total } else { f64::INFINITY }
}

fn normal_equations<const N: usize>(
    at: &[f64; N],
    origin: &[f64; N],
    now: &[f64],
    evaluate: &dyn Fn(&[f64; N]) -> Vec<f64>,
) -> ([[f64; N]; N], [f64; N]) {
    let slopes: [Vec<f64>; N] = std::array::from_fn(|i| {
        let mut moved = *at;
        moved[i] += SMALL_STEP;
        evaluate(&moved).iter().zip(now).map(|(then, now)| (then - now) / SMALL_STEP).collect()
    });
    let weight = |r: f64| if r.abs() <= FAR_OFF { 1.0 } else { FAR_OFF / r.abs() };
    let dot = |one: &[f64], other: &[f64]| -> f64 {
        one.iter().zip(other).zip(now).map(|((a, b), r)| weight(*r) * a * b).sum()
    };
    let mut matrix = [[0.0; N]; N];
    let mut gradient = [0.0; N];
    for i in 0..N {
        for j in 0..N {
            matrix[i][j] = dot(&slopes[i], &slopes[j]);
        }
        matrix[i][i] += ANCHOR;
        gradient[i] = dot(&slopes[i], now) + ANCHOR * (at[i] - origin[i]);
    }
    (matrix, gradient)
}

fn stepped<const N: usize>(
    at: &[f64; N],
    matrix: &[[f64; N]; N],
    gradient: &[f64; N],
    damping: f64,
) -> [f64; N] {
    let mut damped = *matrix;
    for (i, row) in damped.iter_mut().enumerate() {
        row[i] += damping * (row[i] + 1e-9);
    }
    let mut step = *gradient;
    solve(&mut damped, &mut step);
    // A factor of e at most: the model is not linear.
    std::array::from_fn(|i| at[i] - step[i].clamp(-1.0, 1.0))
}

/// Gauss, with the largest pivot first; what was right becomes the solution.
pub(crate) fn solve(matrix: &mut [impl AsMut<[f64]> + AsRef<[f64]>], right: &mut [f64]) {
    let size = right.len();
    for column in 0..size {
        let large = |row: &usize| matrix[*row].as_ref()[column].abs();
        let pivot = (column..size).max_by(|a, b| large(a).total_cmp(&large(b))).unwrap_or(column);
        matrix.swap(column, pivot);
        right.swap(column, pivot);
        let (above, below) = matrix.split_at_mut(column + 1);
        let above = above[column].as_ref();
        if above[column] == 0.0 {
            continue;
        }
        for (row, at) in below.iter_mut().map(AsMut::as_mut).zip(column + 1..) {
            let factor = row[column] / above[column];
            row.iter_mut().zip(above).skip(column).for_each(|(cell, above)| *cell -= factor * above);
            right[at] -= factor * right[column];
        }
    }
    for row in (0..size).rev() {
        let cells = matrix[row].as_ref();
        let rest: f64 = (row + 1..size).map(|k| cells[k] * right[k]).sum();
        right[row] = if cells[row] == 0.0 { 0.0 } else { (right[row] - rest) / cells[row] };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNKNOWNS: [Unknown; 2] = [Unknown { start: 1.0, least: 1e-9, most: 1e9 }; 2];

    fn line(noise: impl Fn(usize) -> f64) -> Found<2> {
        let measured: Vec<(f64, f64)> = (0..40)
            .map(|i| {
                let x = 1.5_f64.powi(i);
                (x, (30.0 + 0.002 * x) * noise(i as usize))
            })
            .collect();
        search(&UNKNOWNS, &|values: &[f64; 2]| {
            measured.iter().map(|(x, y)| ((values[0] + values[1] * x) / y).ln()).collect()
        })
    }

    #[test]
    fn planted_numbers_come_back() {
        let [alpha, beta] = line(|_| 1.0).values;
        assert!((alpha / 30.0 - 1.0).abs() < 1e-4 && (beta / 0.002 - 1.0).abs() < 1e-4, "{alpha} {beta}");
    }

    #[test]
    fn measurements_that_are_far_off_move_them_little() {
        let [alpha, beta] = line(|i| if i % 9 == 4 { 3.0 } else { 1.0 }).values;
        assert!((alpha / 30.0 - 1.0).abs() < 0.05 && (beta / 0.002 - 1.0).abs() < 0.05, "{alpha} {beta}");
    }
}
