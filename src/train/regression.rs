//! Regressions: logits that are linear in their columns. Warm starts fit them to two classes, baselines to any labels.
//!
//! Newton's method with conjugate gradients on the mean negative log-likelihood and a ridge, which a cross-validation within
//! the training graphs chooses: a few validation graphs would choose it badly, and stay fresh for what else they are asked.
//! All in f64, sums in one order.

/// Ridges that are tried, from strong to weak, on columns of unit mean square, until graphs left out have had enough.
pub const RIDGES: [f64; 11] = [1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 3e-6, 1e-6];
/// Parts of the training graphs, each of which is left out once.
const PARTS: usize = 10;
/// Newton steps at most, and conjugate gradients for each.
const NEWTON_STEPS: usize = 20;
const CONJUGATE_STEPS: usize = 40;
/// A step that lowers the loss by less than this is the last.
const SETTLED: f64 = 1e-7;
/// Conjugate gradients stop when what is left is this share of where they began.
const SOLVED: f64 = 1e-2;

/// z of every graph.
pub struct Columns {
    /// Of each, the columns k T + u that are not zero.
    pub rows: Vec<Vec<(usize, f64)>>,
    /// How many columns there are, d T.
    pub count: usize,
}

impl Columns {
    /// Root mean square of each column over some rows; one where it is zero there.
    pub fn scales(&self, units: &[u32]) -> Vec<f64> {
        let mut sums = vec![0.0; self.count];
        for &unit in units {
            self.rows[unit as usize].iter().for_each(|&(column, z)| sums[column] += z * z);
        }
        let mean = |sum: f64| (sum / units.len() as f64).sqrt();
        sums.into_iter().map(|sum| if sum > 0.0 { mean(sum) } else { 1.0 }).collect()
    }

    /// Each column divided by its scale.
    fn scaled(&self, scales: &[f64]) -> Columns {
        let row = |row: &Vec<(usize, f64)>| row.iter().map(|&(column, z)| (column, z / scales[column])).collect();
        Columns { rows: self.rows.iter().map(row).collect(), count: self.count }
    }
}

/// Some graphs and their labels.
pub struct Rows<'a> {
    pub columns: &'a Columns,
    pub units: Vec<u32>,
    pub labels: &'a [u32],
    /// How much each unit counts, where they do not count alike.
    pub weights: Option<&'a [f32]>,
}

impl Rows<'_> {
    /// Logit of each, from weights of columns and, last, the intercept.
    pub fn logits(&self, weights: &[f64]) -> Vec<f64> {
        let logit = |&unit: &u32| {
            let row = &self.columns.rows[unit as usize];
            weights[self.columns.count] + row.iter().map(|&(column, z)| weights[column] * z).sum::<f64>()
        };
        self.units.iter().map(logit).collect()
    }

    /// sum_i of value_i times row i, over the number of rows.
    fn transposed(&self, values: &[f64]) -> Vec<f64> {
        let mut sums = vec![0.0; self.columns.count + 1];
        for (&unit, &value) in self.units.iter().zip(values) {
            self.columns.rows[unit as usize].iter().for_each(|&(column, z)| sums[column] += value * z);
            sums[self.columns.count] += value;
        }
        sums.iter_mut().for_each(|sum| *sum /= self.units.len() as f64);
        sums
    }

    fn weight(&self, unit: u32) -> f64 {
        self.weights.map_or(1.0, |weights| f64::from(weights[unit as usize]))
    }

    fn signs(&self) -> impl Iterator<Item = f64> + '_ {
        self.units.iter().map(|&unit| if self.labels[unit as usize] == 1 { 1.0 } else { -1.0 })
    }

    /// Mean negative log-likelihood, weighted where units are.
    pub fn loss(&self, logits: &[f64]) -> f64 {
        let each = self.signs().zip(&self.units).zip(logits).map(|((sign, &unit), logit)| {
            let margin = sign * logit;
            // log(1 + exp(-margin)) without overflow.
            self.weight(unit) * ((-margin).max(0.0) + (-margin.abs()).exp().ln_1p())
        });
        each.sum::<f64>() / self.units.len().max(1) as f64
    }
}

/// Weights of columns and, last, the intercept, with the ridge that serves best the graphs that are left out. Columns are solved for
/// at unit mean square: counts of carbon and of a rare atom differ by so much that conjugate gradients would not arrive otherwise.
pub fn fit(train: &Rows<'_>) -> Vec<f64> {
    let scales = train.columns.scales(&train.units);
    let columns = train.columns.scaled(&scales);
    let mut weights = fit_scaled(&Rows { columns: &columns, units: train.units.clone(), ..*train });
    weights.iter_mut().zip(&scales).for_each(|(weight, scale)| *weight /= scale);
    weights
}

/// [`fit`] of columns of unit mean square.
fn fit_scaled(train: &Rows<'_>) -> Vec<f64> {
    let ones = vec![1.0; train.columns.count];
    let parts = parts(train);
    let mut each = vec![vec![0.0; train.columns.count + 1]; parts.len()];
    let (mut best, mut lowest) = (RIDGES[0], f64::INFINITY);
    for ridge in RIDGES {
        let penalty = penalty(ridge, &ones);
        let mut loss = 0.0;
        for ((rest, left_out), weights) in parts.iter().zip(&mut each) {
            newton(weights, rest, &penalty);
            loss += left_out.loss(&left_out.logits(weights)) * left_out.units.len() as f64;
        }
        if loss > lowest {
            break;
        }
        (best, lowest) = (ridge, loss);
    }
    let mut weights = vec![0.0; train.columns.count + 1];
    newton(&mut weights, train, &penalty(best, &ones));
    weights
}

/// A ridge on columns of unit mean square is one on weights times their scale; the intercept has none.
pub fn penalty(ridge: f64, scales: &[f64]) -> Vec<f64> {
    scales.iter().map(|scale| ridge * scale * scale).chain([0.0]).collect()
}

/// The rest and what is left out, ten times: graphs of each class are dealt to the parts in turn.
pub fn parts<'a>(train: &Rows<'a>) -> Vec<(Rows<'a>, Rows<'a>)> {
    let mut dealt = [0; 2];
    let part: Vec<usize> = train
        .units
        .iter()
        .map(|&unit| {
            let next = &mut dealt[usize::from(train.labels[unit as usize] == 1)];
            *next += 1;
            (*next - 1) % PARTS
        })
        .collect();
    let pick = |chosen: &dyn Fn(usize) -> bool| Rows {
        columns: train.columns,
        units: train.units.iter().zip(&part).filter(|(_, part)| chosen(**part)).map(|(&unit, _)| unit).collect(),
        labels: train.labels,
        weights: train.weights,
    };
    (0..PARTS.min(train.units.len())).map(|out| (pick(&|part| part != out), pick(&|part| part == out))).collect()
}

/// What the second derivative by the weights takes a direction to, given where it points in logits.
pub type Bent<'a> = Box<dyn Fn(&[f64]) -> Vec<f64> + 'a>;

/// A loss that is convex in weights through logits that are linear in them.
pub trait Linear {
    /// Logits of all rows.
    fn logits(&self, weights: &[f64]) -> Vec<f64>;

    /// Mean loss.
    fn loss(&self, logits: &[f64]) -> f64;

    /// Its gradient by the weights, and its second derivative.
    fn bend<'a>(&'a self, logits: &[f64]) -> (Vec<f64>, Bent<'a>);
}

impl Linear for Rows<'_> {
    fn logits(&self, weights: &[f64]) -> Vec<f64> {
        Rows::logits(self, weights)
    }

    fn loss(&self, logits: &[f64]) -> f64 {
        Rows::loss(self, logits)
    }

    fn bend<'a>(&'a self, logits: &[f64]) -> (Vec<f64>, Bent<'a>) {
        let chance: Vec<f64> = logits.iter().map(|logit| 1.0 / (1.0 + (-logit).exp())).collect();
        let mut errors: Vec<f64> = chance.iter().zip(self.signs()).map(|(p, s)| p - f64::from(s > 0.0)).collect();
        let mut curvature: Vec<f64> = chance.iter().map(|p| p * (1.0 - p)).collect();
        for ((error, bend), &unit) in errors.iter_mut().zip(&mut curvature).zip(&self.units) {
            (*error, *bend) = (*error * self.weight(unit), *bend * self.weight(unit));
        }
        let hessian = move |ahead: &[f64]| {
            let along: Vec<f64> = ahead.iter().zip(&curvature).map(|(a, c)| a * c).collect();
            self.transposed(&along)
        };
        (self.transposed(&errors), Box::new(hessian))
    }
}

/// Minimises loss + 1/2 sum penalty weight^2 from where `weights` are.
pub fn newton<P: Linear>(weights: &mut Vec<f64>, rows: &P, penalty: &[f64]) {
    let value = |weights: &[f64], logits: &[f64]| {
        rows.loss(logits) + 0.5 * weights.iter().zip(penalty).map(|(w, p)| p * w * w).sum::<f64>()
    };
    let mut logits = rows.logits(weights);
    let mut current = value(weights, &logits);
    for _ in 0..NEWTON_STEPS {
        let (mut gradient, bent) = rows.bend(&logits);
        gradient.iter_mut().zip(weights.iter().zip(penalty)).for_each(|(g, (w, p))| *g += p * w);
        let hessian = |direction: &[f64]| {
            let mut out = bent(&rows.logits(direction));
            out.iter_mut().zip(direction.iter().zip(penalty)).for_each(|(o, (d, p))| *o += p * d);
            out
        };
        let step = conjugate_gradients(&hessian, &gradient);
        let ahead = rows.logits(&step);
        let mut length = 1.0;
        loop {
            let next: Vec<f64> = weights.iter().zip(&step).map(|(w, s)| w - length * s).collect();
            let next_logits: Vec<f64> = logits.iter().zip(&ahead).map(|(logit, a)| logit - length * a).collect();
            let reached = value(&next, &next_logits);
            if reached < current {
                let settled = current - reached < SETTLED;
                (*weights, logits, current) = (next, next_logits, reached);
                if settled {
                    return;
                }
                break;
            }
            length *= 0.5;
            if length < 1e-6 {
                return;
            }
        }
    }
}

/// Solves H s = g roughly.
fn conjugate_gradients(hessian: &dyn Fn(&[f64]) -> Vec<f64>, gradient: &[f64]) -> Vec<f64> {
    let mut step = vec![0.0; gradient.len()];
    let mut rest = gradient.to_vec();
    let mut direction = rest.clone();
    let (mut size, start) = (dot(&rest, &rest), dot(gradient, gradient));
    for _ in 0..CONJUGATE_STEPS {
        let ahead = hessian(&direction);
        let bend = dot(&direction, &ahead);
        if bend <= 0.0 {
            break;
        }
        let length = size / bend;
        step.iter_mut().zip(&direction).for_each(|(s, d)| *s += length * d);
        rest.iter_mut().zip(&ahead).for_each(|(r, a)| *r -= length * a);
        let next = dot(&rest, &rest);
        if next <= SOLVED * SOLVED * start {
            break;
        }
        let turn = next / size;
        direction.iter_mut().zip(&rest).for_each(|(d, r)| *d = r + turn * *d);
        size = next;
    }
    step
}

pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
