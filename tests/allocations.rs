//! The epoch loop allocates nothing that grows with the data: buffers of the first epochs serve all later ones.
//!
//! What may still be allocated is small: lists of a validation's scores, and the panels the GEMM crate packs.

#![allow(clippy::unwrap_used, missing_docs, unsafe_code)]

mod common;

use common::as_sparse;
use common::problems::{Recipe, Task, Values};
use harmonia::config::{Config, Propagate};
use harmonia::dataset::Dataset;
use harmonia::device::cpu::Cpu;
use harmonia::graph::Split;
use harmonia::train::{Prepared, RunName, Trainer};
use std::alloc::{GlobalAlloc, Layout as Block, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

struct Largest;

#[global_allocator]
static ALLOCATOR: Largest = Largest;
static LARGEST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system's allocator with the same arguments.
unsafe impl GlobalAlloc for Largest {
    unsafe fn alloc(&self, block: Block) -> *mut u8 {
        LARGEST.fetch_max(block.size(), Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(block) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, block: Block) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, block) }
    }
}

const NODES: usize = 60_000;
/// A matrix of the smallest thing there is one of a node takes 240 kB; GEMM packs at most 512 rows of 16 features here.
const MOST: usize = 128 << 10;

/// The largest block that was asked for in some epochs after the first two.
fn largest_later(dataset: &Dataset, config: &Config) -> usize {
    let device = Cpu::<f32>::new();
    let run = Prepared::of(dataset.clone(), None, config, RunName { seed: 1, fold: None }).unwrap();
    let mut trainer = Trainer::new(&device, &run, config, None).unwrap();
    let mut epochs = |count: usize| {
        for _ in 0..count {
            trainer.epoch().unwrap();
        }
    };
    epochs(2);
    LARGEST.store(0, Relaxed);
    epochs(3);
    LARGEST.load(Relaxed)
}

#[test]
fn later_epochs_allocate_nothing_that_grows_with_nodes() {
    let recipe = Recipe {
        seed: 3,
        nodes: NODES,
        features: 16,
        task: Task::Classes(5),
        values: Values::Few(3),
        ..Recipe::default()
    };
    let problem = recipe.problem();
    let units: Vec<u32> = (0..NODES as u32).collect();
    let split = Split { train: units[..40_000].to_vec(), valid: units[40_000..42_000].to_vec(), test: Vec::new() };
    let dense = Dataset { split, ..problem.dataset };
    let sparse = Dataset { features: Arc::new(as_sparse(&dense.features)), ..dense.clone() };
    for (name, dataset) in [("dense", &dense), ("sparse", &sparse)] {
        for propagate in [Propagate::Classes, Propagate::Features] {
            let mut config = Config::default();
            config.engine.propagate = propagate;
            (config.train.dropout, config.train.epochs) = (0.2, 100);
            let largest = largest_later(dataset, &config);
            assert!(largest <= MOST, "{name}, {propagate:?}: a block of {largest} bytes");
            assert!(largest > 0, "the allocator counts");
        }
    }
}
