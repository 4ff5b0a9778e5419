//! A table that several processes make together: each of P makes every P-th block, which needs nothing of the others, and deals
//! out its rows. Nobody has more than the rows that are its own, and a block or two.

use super::{Builder, TablePlan};
use crate::team::{Team, any, numbers, part};
use bytemuck::cast_slice;
use harmonia_graph::dataset::Dataset;
use harmonia_graph::error::{Error, Result};
use harmonia_graph::graph::Walk;
use harmonia_graph::walk_table::{Block, CellBits, Cells, Contents, WalkTable};
use harmonia_graph::watch::Watch;

/// The rows of this process of a table.
///
/// # Errors
/// A stop was asked for, or another rank has failed.
pub(super) fn table(
    dataset: &Dataset,
    walk: Walk,
    plan: &TablePlan,
    team: &dyn Team,
    watch: &Watch<'_>,
) -> Result<WalkTable> {
    let builder = Builder::new(dataset, walk, plan);
    let (rank, ranks, count) = (team.rank(), team.size(), builder.blocks());
    let units = plan.contents.units.len();
    let own = part(units, ranks, rank);
    let mut blocks = Vec::with_capacity(count);
    for first in (0..count).step_by(ranks) {
        // All stop, or none.
        if any(team, watch.stop().asked())? {
            return Err(Error::Cancelled);
        }
        watch.progress("tabulating walks", first as u64, count as u64);
        let made = (first + rank < count).then(|| builder.block(first + rank, &Watch::silent())).transpose()?;
        let pieces =
            (0..ranks).map(|to| made.as_ref().map_or_else(Vec::new, |block| packed(block, part(units, ranks, to))));
        let came = team.exchange(pieces.collect())?;
        for (at, bytes) in (first..count).zip(&came) {
            blocks.push(unpacked(builder.features(at), bytes, own.len(), plan)?);
        }
    }
    watch.progress("tabulating walks", count as u64, count as u64);
    let contents = Contents {
        units: plan.contents.units[own.clone()].to_vec(),
        sizes: plan.contents.sizes.as_ref().map(|sizes| sizes[own].to_vec()),
        ..plan.contents.clone()
    };
    WalkTable::new(plan.grid.clone(), contents, blocks)
}

/// Scales of all columns, then the cells of some rows.
fn packed(block: &Block, rows: std::ops::Range<usize>) -> Vec<u8> {
    let span = rows.start * block.width()..rows.end * block.width();
    let cells: &[u8] = match &block.cells {
        Cells::Eight(cells) => &cells[span],
        Cells::Sixteen(cells) => cast_slice(&cells[span]),
        Cells::Float(cells) => cast_slice(&cells[span]),
    };
    [cast_slice(&block.scales), cells].concat()
}

fn unpacked(features: std::ops::Range<usize>, bytes: &[u8], rows: usize, plan: &TablePlan) -> Result<Block> {
    let width = plan.contents.steps() * plan.grid.stored_of(features.clone());
    let (scales, cells) = bytes.split_at((width * size_of::<[f32; 2]>()).min(bytes.len()));
    let scales: Vec<[f32; 2]> = numbers(scales)?;
    let cells = match plan.bits {
        CellBits::Eight => Cells::Eight(cells.to_vec().into()),
        CellBits::Sixteen => Cells::Sixteen(numbers::<u16>(cells)?.into()),
        CellBits::Float => Cells::Float(numbers::<f32>(cells)?.into()),
    };
    debug_assert_eq!(cells.len(), rows * width);
    Ok(Block { features, cells, scales })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::team::threads::together;
    use harmonia_graph::dataset::{Features, Labels};
    use harmonia_graph::graph::{Direction, Graph, Split};

    #[test]
    fn rows_of_all_are_those_of_a_table_made_alone() {
        let edges: Vec<(u32, u32)> = (0..40).map(|i| (i, (i * 7 + 3) % 40)).collect();
        let graph = Graph::from_edges(40, &edges, None, Direction::Undirected).unwrap();
        let values = (0..40 * 70).map(|at| ((at * 31) % 17) as f32 / 8.0).collect();
        let labels = Labels::Classes { ids: (0..40).map(|i| i % 3).collect(), classes: 3 };
        let split = Split { train: (0..20).collect(), valid: (20..30).collect(), test: (30..40).collect() };
        let dataset = Dataset::nodes("t", graph, Features::new(40, 70, values).unwrap(), labels, split).unwrap();
        let plan = TablePlan::with(&dataset, 3, 4, CellBits::Sixteen);
        let alone = Builder::new(&dataset, Walk::default(), &plan).table(&Watch::silent()).unwrap();
        let parts = together(3, |team| table(&dataset, Walk::default(), &plan, team, &Watch::silent())).unwrap();
        let mut row = 0;
        for part in &parts {
            for at in 0..part.contents.units.len() {
                assert_eq!(part.contents.units[at], alone.contents.units[row]);
                for (k, t, q) in
                    (0..plan.grid.features()).flat_map(|k| (0..2).flat_map(move |t| (0..3).map(move |q| (k, t, q))))
                {
                    assert_eq!(part.value(at, t, k, q), alone.value(row, t, k, q));
                }
                row += 1;
            }
        }
        assert_eq!(row, alone.contents.units.len());
    }
}
