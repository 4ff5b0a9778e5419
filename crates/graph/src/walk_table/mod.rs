//! Walks tabulated: what the hat functions of every feature average to along them, for some units.
//!
//! `P[i,t,k,q]` = (M^t phi_kq(X_k))(i) for nodes, t = 1..T-1, and the sum of it over the nodes of a graph, t = 0..T-1, for
//! graphs. It depends on graph, features, walk and grid, never on a model: with responses known at the points of the grid,
//! (M^t f_k(X_k))(i) = sum_q `P[i,t,k,q]` f_k(g_kq), exactly where a feature has no values between its points.
//!
//! The hats of a feature sum to 1 (to the nodes of a graph), so the first is left out: what a row holds of feature k is (hop, q = 1, 2, ...). Features
//! that follow each other make a block, an array of its own with a row per unit; a cell c of column j stands for
//! low_j + step_j c, so that every column uses all bits of its cells. Where 1, 2, 4, ... features with equally many hats make a
//! block they are interleaved, (hop, hat, feature): a vector of cells then is of as many features, and sums of a row need no
//! sums within vectors. Others lie side by side, (feature, hop, hat). See [`Columns`].

mod grid;

pub use grid::Grid;

use crate::array::Array;
use crate::dataset::Level;
use crate::error::{Error, Result};
use std::ops::Range;

/// Stored hats of a block, at most; a feature with more has a block of its own.
pub const BLOCK_HATS: usize = 64;

/// Bits of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CellBits {
    /// A byte.
    Eight,
    /// Two.
    Sixteen,
    /// A float: nothing is rounded further.
    Float,
}

impl CellBits {
    /// Bytes of one.
    pub fn bytes(self) -> usize {
        match self {
            CellBits::Eight => 1,
            CellBits::Sixteen => 2,
            CellBits::Float => 4,
        }
    }

    /// Of so many bits: 8, 16 or 32.
    pub fn of(count: usize) -> Option<CellBits> {
        [CellBits::Eight, CellBits::Sixteen, CellBits::Float].into_iter().find(|bits| bits.count() == count)
    }

    /// 8, 16 or 32.
    pub fn count(self) -> usize {
        8 * self.bytes()
    }
}

/// The cells of a block, row by row.
#[derive(Clone, Debug, PartialEq)]
pub enum Cells {
    /// See [`CellBits::Eight`].
    Eight(Array<u8>),
    /// See [`CellBits::Sixteen`].
    Sixteen(Array<u16>),
    /// See [`CellBits::Float`].
    Float(Array<f32>),
}

impl Cells {
    /// How many.
    pub fn len(&self) -> usize {
        match self {
            Cells::Eight(cells) => cells.len(),
            Cells::Sixteen(cells) => cells.len(),
            Cells::Float(cells) => cells.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Their type.
    pub fn bits(&self) -> CellBits {
        match self {
            Cells::Eight(_) => CellBits::Eight,
            Cells::Sixteen(_) => CellBits::Sixteen,
            Cells::Float(_) => CellBits::Float,
        }
    }
}

/// Some features of every row.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// Which features.
    pub features: Range<usize>,
    /// rows x width.
    pub cells: Cells,
    /// (low, step) of each column.
    pub scales: Vec<[f32; 2]>,
}

impl Block {
    /// Cells of a row.
    pub fn width(&self) -> usize {
        self.scales.len()
    }
}

/// Where the cells of a feature are in a row of its block: the j-th (hop, hat) at `first + j * stride`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns {
    /// Of the first.
    pub first: usize,
    /// From one to the next.
    pub stride: usize,
    /// How many.
    pub count: usize,
}

impl Columns {
    /// Those of feature k in a block of features, with so many hops tabulated.
    pub fn of(grid: &Grid, steps: usize, features: &Range<usize>, k: usize) -> Columns {
        let count = steps * grid.stored(k);
        match is_interleaved(grid, features) {
            true => Columns { first: k - features.start, stride: features.len(), count },
            false => Columns { first: steps * grid.stored_of(features.start..k), stride: 1, count },
        }
    }

    /// Place of the j-th.
    pub fn at(self, j: usize) -> usize {
        self.first + j * self.stride
    }

    /// All of them, in order.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..self.count).map(move |j| self.at(j))
    }
}

/// Whether the features of a block are interleaved: a power of two of them, with equally many hats.
pub fn is_interleaved(grid: &Grid, features: &Range<usize>) -> bool {
    features.len().is_power_of_two() && features.clone().all(|k| grid.stored(k) == grid.stored(features.start))
}

/// Which walks are tabulated, for which units.
#[derive(Clone, Debug, PartialEq)]
pub struct Contents {
    /// T: walk lengths below it.
    pub hops: usize,
    /// Whether units are nodes or graphs.
    pub level: Level,
    /// Units with a row, increasing.
    pub units: Vec<u32>,
    /// Of graphs, what the hats of a row sum to: their nodes. Those of a node sum to 1.
    pub sizes: Option<Vec<f32>>,
}

impl Contents {
    /// The shortest walk that is tabulated: a node knows itself.
    pub fn first_hop(&self) -> usize {
        match self.level {
            Level::Node => 1,
            Level::Graph => 0,
        }
    }

    /// What the hats of a row sum to.
    pub fn size(&self, row: usize) -> f32 {
        self.sizes.as_ref().map_or(1.0, |sizes| sizes[row])
    }

    /// Walk lengths that are tabulated.
    pub fn steps(&self) -> usize {
        self.hops - self.first_hop().min(self.hops)
    }
}

/// The table.
#[derive(Clone, Debug, PartialEq)]
pub struct WalkTable {
    /// Points of every feature.
    pub grid: Grid,
    /// What it is about.
    pub contents: Contents,
    /// Features in order.
    blocks: Vec<Block>,
}

impl WalkTable {
    /// Puts blocks together.
    ///
    /// # Errors
    /// They do not fit the grid or each other.
    pub fn new(grid: Grid, contents: Contents, blocks: Vec<Block>) -> Result<WalkTable> {
        let expected = blocks_of(&grid);
        let fits = |(block, features): (&Block, &Range<usize>)| {
            let width = contents.steps() * grid.stored_of(features.clone());
            block.features == *features && block.width() == width && block.cells.len() == contents.units.len() * width
        };
        let sized = contents.sizes.as_ref().is_none_or(|sizes| sizes.len() == contents.units.len());
        let sorted = contents.units.windows(2).all(|pair| pair[0] < pair[1]);
        let same_bits = blocks.windows(2).all(|pair| pair[0].cells.bits() == pair[1].cells.bits());
        if blocks.len() == expected.len() && blocks.iter().zip(&expected).all(fits) && sorted && sized && same_bits {
            return Ok(WalkTable { grid, contents, blocks });
        }
        Err(Error::Data("the blocks of a table do not fit its grid and units".into()))
    }

    /// Blocks, features in order.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Cells of a row over all blocks.
    pub fn width(&self) -> usize {
        self.blocks.iter().map(Block::width).sum()
    }

    /// The row of a unit.
    pub fn row_of(&self, unit: u32) -> Option<u32> {
        self.contents.units.binary_search(&unit).ok().map(|row| row as u32)
    }

    /// Bytes of the cells.
    pub fn bytes(&self) -> usize {
        self.blocks.iter().map(|block| block.cells.len() * block.cells.bits().bytes()).sum()
    }

    /// Cells of feature k within a row of its block.
    pub fn columns(&self, block: &Block, k: usize) -> Columns {
        Columns::of(&self.grid, self.contents.steps(), &block.features, k)
    }

    /// `P[unit,t,k,q]` of a row, as it is stored; t counts from the first hop that is tabulated. For tests and small uses.
    pub fn value(&self, row: usize, t: usize, k: usize, q: usize) -> f64 {
        let Some(block) = self.blocks.iter().find(|block| block.features.contains(&k)) else { return 0.0 };
        let stored = self.grid.stored(k);
        let columns = self.columns(block, k);
        let at = |q: usize| {
            let column = columns.at(t * stored + q - 1);
            let place = row * block.width() + column;
            let cell = match &block.cells {
                Cells::Eight(cells) => f64::from(cells[place]),
                Cells::Sixteen(cells) => f64::from(cells[place]),
                Cells::Float(cells) => f64::from(cells[place]),
            };
            let [low, step] = block.scales[column].map(f64::from);
            low + step * cell
        };
        match q {
            0 => f64::from(self.contents.size(row)) - (1..=stored).map(at).sum::<f64>(),
            q => at(q),
        }
    }
}

/// Which features share a block.
pub fn blocks_of(grid: &Grid) -> Vec<Range<usize>> {
    let mut blocks: Vec<Range<usize>> = Vec::new();
    for k in 0..grid.features() {
        match blocks.last_mut() {
            Some(block) if grid.stored_of(block.start..k + 1) <= BLOCK_HATS => block.end = k + 1,
            _ => blocks.push(k..k + 1),
        }
    }
    blocks
}
