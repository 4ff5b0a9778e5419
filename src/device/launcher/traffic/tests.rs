//! Small problems counted by hand.

use super::*;
use crate::architecture::HopWeights;
use crate::config::Monb;
use crate::plan::Space;

fn architecture(hidden: Vec<usize>) -> Architecture {
    Architecture {
        features: 4,
        outputs: 3,
        experts: 2,
        active: 1,
        bases: 2,
        hidden,
        embedding: 2,
        hops: 3,
        hop_weights: HopWeights::Simplex,
        family: Default::default(),
    }
}

fn problem(states: States) -> Problem {
    let layout = Layout::new(architecture(vec![16, 8])).unwrap();
    Problem {
        nodes: 10,
        entries: 24,
        weighted: false,
        targets: 6,
        states,
        plan: Plan::DIRECT,
        pieces: 6,
        layout,
        table: None,
    }
}

fn planned(states: States) -> Problem {
    let plan = Plan { monb: Monb::Knots, space: Space::Classes, sparse: false };
    Problem { plan, ..problem(states) }
}

fn work(problem: &Problem, kernel: &str) -> Work {
    step(problem).into_iter().find(|work| work.kernel == kernel).unwrap()
}

#[test]
fn a_hop_forward() {
    let hop = work(&problem(States::F32), "propagate_forward_narrow_f32");
    assert_eq!((hop.launches, hop.elements), (2, 80.0));
    // A hop: state 160, accumulator in and out 320, columns 96, offsets 80, degrees 40; the first writes the next state, 160.
    assert_eq!(hop.bytes.minimum, 2.0 * (160.0 + 320.0 + 96.0 + 80.0 + 40.0) + 160.0);
    assert_eq!(hop.bytes.perfect_reuse, hop.bytes.minimum);
    // 24 gathers of a sector each for 16 bytes; rows of the others take a sector each too.
    assert_eq!(hop.bytes.no_reuse, 2.0 * (24.0 * 32.0 + 2.0 * 320.0 + 216.0) + 320.0);
    // 24 x 4 additions; a product and an FMA for each of 40 elements.
    assert_eq!(hop.flops, 2.0 * (96.0 + 3.0 * 40.0));
}

#[test]
fn a_hop_backward_also_reads_f_and_writes_a_partial_sum_a_block() {
    let hop = work(&problem(States::F32), "propagate_backward_narrow_f32");
    let minimum = 2.0 * (160.0 + 320.0 + 160.0 + 216.0) + 160.0;
    // 10 rows, of which a block of narrow rows takes 32: one block of four sums.
    assert_eq!((hop.bytes.minimum, hop.bytes.perfect_reuse), (minimum, minimum + 2.0 * 16.0));
    assert_eq!(hop.flops, 2.0 * (96.0 + 6.0 * 40.0));
    let start = work(&problem(States::F32), "propagate_start_backward_f32");
    // F, dH in, theta dH out, the first state, degrees; partial sums.
    assert_eq!((start.bytes.minimum, start.bytes.perfect_reuse), (4.0 * 160.0 + 40.0, 4.0 * 160.0 + 40.0 + 16.0));
}

#[test]
fn half_states_halve_what_is_gathered_and_nothing_else() {
    let (single, half) = (problem(States::F32), problem(States::F16));
    let [single, half] = [work(&single, "propagate_forward_narrow_f32"), work(&half, "propagate_forward_narrow_f16")];
    // Two states read and one written, 160 bytes each.
    assert_eq!(single.bytes.perfect_reuse - half.bytes.perfect_reuse, 3.0 * 80.0);
    assert_eq!(single.flops, half.flops);
    let names: Vec<&str> = step(&problem(States::F16)).iter().map(|work| work.kernel).collect();
    assert!(names.contains(&"largest"));
}

#[test]
fn monb_moves_two_matrices_and_does_the_folded_arithmetic() {
    let problem = problem(States::F32);
    let forward = work(&problem, "monb_forward_16_8");
    // 16 + 16 x 8 + 8 FMAs an element and slot.
    assert_eq!(forward.flops, 40.0 * 2.0 * 152.0);
    // X and F; hidden layers of two experts (168 each), heads 4 x 9, gates and choices 2 x 4.
    assert_eq!(forward.bytes.minimum, 320.0 + 4.0 * (2.0 * 168.0 + 36.0 + 8.0));
    let backward = work(&problem, "monb_backward_16_8");
    // Forward again 144, S 8, dw1 and dw2 144, the layer below 128, its activations again 16; 33 more.
    assert_eq!(backward.flops, 40.0 * (2.0 * 440.0 + 33.0));
    // 64 -> 32 in four slices: each evaluates the first layer.
    let large = architecture(vec![64, 32]);
    let (forward, backward) = monb_flops(&large.hidden, Variant::of(&large, None));
    assert_eq!(forward, 2.0 * (4.0 * 64.0 + 64.0 * 32.0 + 32.0));
    assert_eq!(backward, 2.0 * (4.0 * 64.0 + 2048.0 + 32.0 + 64.0 + 64.0 + 2048.0 + 2048.0) + 32.0 + 96.0 + 1.0);
}

#[test]
fn the_rest_of_a_step() {
    let problem = problem(States::F32);
    let parameters = problem.layout.len() as f64;
    assert_eq!(work(&problem, "adam").bytes.minimum, 28.0 * parameters);
    assert_eq!(work(&problem, "gemm dH = dlogits Wo'").flops, 2.0 * 10.0 * 4.0 * 3.0);
    // The intercept, three hops, experts and heads.
    assert_eq!(work(&problem, "column_sums").launches, 1 + 3 + 2);
    // Codes, six rows of logits, ten rows of gradients, a double for each of two blocks of eight rows.
    assert_eq!(work(&problem, "loss_softmax").bytes.minimum, 4.0 * (10.0 + 18.0 + 30.0) + 16.0);
}

#[test]
fn pieces_move_two_matrices_and_their_tables() {
    let forward = work(&planned(States::F32), "knots_forward");
    // X and F; seven thresholds and six lines for each of four features.
    assert_eq!(forward.bytes.minimum, 320.0 + 4.0 * 4.0 * (7.0 + 12.0));
    assert_eq!((forward.launches, forward.flops), (1, 3.0 * 40.0));
    let backward = work(&planned(States::F32), "knots_backward");
    // X and dF, thresholds, two sums per piece; those of the only chunk once more.
    let sums = 4.0 * 48.0;
    assert_eq!(backward.bytes.minimum, 320.0 + 4.0 * 28.0 + sums);
    assert_eq!(backward.bytes.perfect_reuse, backward.bytes.minimum + sums);
    assert_eq!(backward.flops, 4.0 * 40.0);
}

#[test]
fn a_step_in_class_space() {
    // Three classes are padded to four columns, three hops to twelve.
    let rows = work(&planned(States::F32), "walk_rows4_f32");
    assert_eq!((rows.launches, rows.elements), (4, 4.0 * 40.0));
    // A step: gathered 160, columns 96, offsets 80, degrees 40. Forward once a state in and out, once a state in and ten
    // logits and their intercepts out; backward twice a state out.
    let hop = 160.0 + 96.0 + 80.0 + 40.0;
    assert_eq!(rows.bytes.minimum, 4.0 * hop + (320.0 + 160.0 + 120.0 + 12.0) + 2.0 * 160.0);
    // Rows of 48 bytes, 16 of them per hop: a gather is one sector.
    assert_eq!(rows.bytes.no_reuse - rows.bytes.minimum, 4.0 * (24.0 * 32.0 - 160.0) + 5.0 * (320.0 - 160.0));
    // An FMA per entry and column, one per element, a sum per logit.
    assert_eq!(rows.flops, 4.0 * (2.0 * 96.0 + 2.0 * 40.0) + 30.0);
    let product = work(&planned(States::F32), "gemm G = F W");
    assert_eq!((product.launches, product.flops), (1, 2.0 * 10.0 * 4.0 * 12.0));
    assert_eq!(product.bytes.minimum, 4.0 * (40.0 + 48.0 + 120.0));
}

#[test]
fn sums_over_rows_are_taken_in_parts() {
    let many = |plan: Plan| Problem { nodes: 1000, plan, ..problem(States::F32) };
    // Three parts of 333 rows, and a row that is left over; sums are 4 x 12, those of parts written once.
    let product = work(&many(planned(States::F32).plan), "gemm S += F' Y");
    assert_eq!((product.launches, product.flops), (2, 2.0 * 1000.0 * 4.0 * 12.0));
    assert_eq!(product.bytes.minimum, 4.0 * 4000.0);
    assert_eq!(product.bytes.perfect_reuse - product.bytes.minimum, 3.0 * 192.0);
    // The intercept in two stages, and the parts.
    assert_eq!(work(&many(planned(States::F32).plan), "column_sums").launches, 3);
    // In feature space they are added to the gradient, 4 x 3.
    let product = work(&many(Plan::DIRECT), "gemm dWo += H' dlogits");
    assert_eq!((product.launches, product.bytes.minimum), (2, 4.0 * (7000.0 + 12.0)));
    let product = work(&problem(States::F32), "gemm dWo += H' dlogits");
    assert_eq!((product.launches, product.bytes.minimum), (1, 4.0 * (70.0 + 24.0)));
}

#[test]
fn hops_near_few_targets() {
    // A tenth of the rows, too many to look for their neighbours: the last hop forward and the first backward.
    let few = |plan: Plan| Problem { targets: 1, plan, ..problem(States::F32) };
    let classes = few(planned(States::F32).plan);
    let (rows, all) = (work(&classes, "walk_rows4_f32"), work(&planned(States::F32), "walk_rows4_f32"));
    // Backward nothing but the states that are gathered is less.
    let hop = 160.0 + 96.0 + 80.0 + 40.0;
    let last_forward = hop - 160.0 + (160.0 + 120.0 + 12.0);
    assert!((all.bytes.minimum - rows.bytes.minimum - 0.9 * (last_forward + 160.0)).abs() < 1e-9);
    assert!((all.flops - rows.flops - 0.9 * (2.0 * 2.0 * 96.0 + 2.0 * 40.0 + 30.0)).abs() < 1e-9);
    assert_eq!(rows.launches, all.launches);
    let hop = |targets: usize| {
        let problem = Problem { targets, ..problem(States::F32) };
        ["propagate_forward_narrow_f32", "propagate_backward_narrow_f32"].map(|kernel| work(&problem, kernel).flops)
    };
    let ([few_forward, few_backward], [forward, backward]) = (hop(1), hop(6));
    assert!((forward - few_forward - 0.9 * (96.0 + 3.0 * 40.0)).abs() < 1e-9);
    assert!((backward - few_backward - 0.9 * 96.0).abs() < 1e-9);
}

#[test]
fn half_states_of_classes_are_half_as_large() {
    let [single, half] = [(States::F32, "walk_rows4_f32"), (States::F16, "walk_rows4_f16")]
        .map(|(states, kernel)| work(&planned(states), kernel));
    // Four states gathered, two read, three written.
    assert_eq!(single.bytes.minimum - half.bytes.minimum, 9.0 * 80.0);
    let stored = work(&planned(States::F16), "project_store_f16");
    assert_eq!((stored.bytes.minimum, stored.bytes.no_reuse), (240.0, 240.0 + 480.0));
}

#[test]
fn a_step_from_a_table_reads_its_cells_twice() {
    let plan = Plan { monb: Monb::Knots, space: Space::Table, sparse: false };
    // Two hops of four hats for each of four features.
    let table = Some(TableCells { columns: 32, blocks: 2, bits: CellBits::Sixteen });
    let problem = Problem { plan, table, ..problem(States::F32) };
    let forward = work(&problem, "table_forward_u16");
    // Ten rows of cells of two bytes, F and H of 160 bytes each, the number of a row twice, weights.
    assert_eq!((forward.launches, forward.bytes.minimum), (2, 640.0 + 320.0 + 80.0 + 128.0));
    let sums = work(&problem, "table_sums_u16");
    // Cells, dH, row numbers, sums; those of the only stretch once more.
    assert_eq!((sums.bytes.minimum, sums.bytes.perfect_reuse), (640.0 + 160.0 + 80.0 + 128.0, 1008.0 + 128.0));
    assert_eq!(work(&problem, "table_own").bytes.minimum, 320.0);
    assert_eq!(step(&problem).iter().filter(|work| work.kernel.starts_with("table")).count(), 6);
}

#[test]
fn long_sums_take_stages() {
    let mut step = StepTraffic { problem: &problem(States::F32), work: Vec::new() };
    // 600 rows: three parts of 256, then once over the parts.
    step.column_sums(600, 2);
    assert_eq!((step.work[0].launches, step.work[0].bytes.minimum), (2, 4.0 * (1200.0 + 6.0 + 6.0 + 2.0)));
}

#[test]
fn sectors_are_whole() {
    assert_eq!(sectors(128, 128, 4), 512.0);
    // 400 bytes from an offset of 0 or 16: 13 sectors; 200 bytes: always 7.
    assert_eq!((sectors(100, 128, 4), sectors(100, 128, 2)), (416.0, 224.0));
    // Tiles of 32 bytes: 13 sectors in even rows; in odd ones twelve tiles straddle two, 25 in all.
    assert_eq!(sectors(100, 8, 4), 19.0 * 32.0);
    assert_eq!(sectors(1, 4, 2), 32.0);
}
