//! The engine that runs CUDA kernels on the CPU: sound kernels give exact results under every build and order, and
//! every kind of broken kernel is reported by the detector meant for it.

// Launching a kernel is unsafe.
#![allow(unsafe_code)]
// A helper may stop at the first surprise, as a test may.
#![allow(clippy::unwrap_used)]

mod common;
mod detectors;

use common::host_library::{Build, checked_kernels, library, run_sanitized, sanitizer};
use detectors::{PLANTED, broken, check_sound_kernels, launch_error, seen_by_sanitizers, write_rows};
use harmonia::device::host::Host;
use harmonia::device::launcher::{Driver, Gemm};
use std::path::Path;

const SOUND: &str = "tests/detectors/sound.cu";
const BROKEN: &str = "tests/detectors/broken.cu";

/// Orders of threads that every sound kernel is run in, beside the natural one.
const SEEDS: std::ops::Range<u64> = 0..8;

fn load(kernels: &str, build: Build) -> Option<Host> {
    library(Path::new(kernels), build).map(|path| Host::load(&path).unwrap())
}

#[test]
fn sound_kernels_are_exact_in_any_order() {
    for build in [Build::Plain, Build::Checked] {
        let Some(host) = load(SOUND, build) else { return };
        check_sound_kernels(&host);
        for seed in SEEDS {
            check_sound_kernels(&load(SOUND, build).unwrap().in_random_order(seed));
        }
    }
}

#[test]
fn broken_kernels_are_reported_by_the_right_detector() {
    let Some(natural) = load(BROKEN, Build::Checked) else { return };
    let random = load(BROKEN, Build::Checked).unwrap().in_random_order(3);
    for host in [natural, random] {
        for case in broken() {
            let message = case.run(&host).expect_err(case.kernel);
            let beginning = format!("kernel `{}`, block (", case.kernel);
            assert!(message.starts_with(&beginning), "{message}");
            assert!(message.contains(", thread ("), "{message}");
            assert!(message.contains(case.report), "expected `{}`: {message}", case.report);
            assert!(message.contains(case.file), "expected a line of {}: {message}", case.file);
        }
    }
}

#[test]
fn all_thirteen_planted_bugs_are_found() {
    let Some(host) = load(BROKEN, Build::Checked) else { return };
    for (bug, kernel) in PLANTED {
        let message = match kernel {
            "beyond_launch_bounds" => launch_error(&host, kernel, [1, 1, 1], [128, 1, 1], 0),
            "index_in_32_bits" => {
                let far = load(BROKEN, Build::Checked).unwrap().at_the_far_end();
                write_rows(&far, "index_in_64_bits").unwrap();
                write_rows(&far, kernel).expect_err(bug)
            }
            _ => broken().into_iter().find(|case| case.kernel == kernel).unwrap().run(&host).expect_err(bug),
        };
        assert!(message.starts_with(&format!("kernel `{kernel}`")), "{bug}: {message}");
        let expected = match kernel {
            "beyond_launch_bounds" => "__launch_bounds__",
            "index_in_32_bits" => "out of bounds: writes 4 bytes",
            _ => "",
        };
        assert!(message.contains(expected), "{bug}: {message}");
    }
}

#[test]
fn no_build_hangs_in_a_divergent_barrier() {
    let Some(host) = load(BROKEN, Build::Plain) else { return };
    for case in broken().into_iter().filter(|case| case.report.contains("divergence")) {
        let message = case.run(&host).expect_err(case.kernel);
        assert!(message.contains(case.report), "{message}");
    }
}

#[test]
fn a_missing_barrier_changes_results_with_the_order() {
    let Some(_) = load(BROKEN, Build::Plain) else { return };
    let outcomes: Vec<Vec<u32>> = SEEDS
        .map(|seed| {
            let host = load(BROKEN, Build::Plain).unwrap().in_random_order(seed);
            let case = broken().into_iter().find(|case| case.kernel == "missing_second_barrier").unwrap();
            case.run(&host).unwrap()
        })
        .collect();
    assert!(outcomes.iter().any(|outcome| *outcome != outcomes[0]));
}

#[test]
fn launches_a_gpu_would_refuse_are_refused() {
    let Some(host) = load(SOUND, Build::Plain) else { return };
    let refused = |kernel, grid, block, shared| launch_error(&host, kernel, grid, block, shared);
    assert!(refused("nothing", [1, 1, 1], [1, 1, 1], 0).contains("no such kernel"));
    assert!(refused("places", [1, 1, 1], [0, 1, 1], 0).contains("at least 1"));
    assert!(refused("places", [1, 0, 1], [1, 1, 1], 0).contains("at least 1"));
    assert!(refused("places", [1, 1, 1], [1025, 1, 1], 0).contains("at most 1024 threads"));
    assert!(refused("places", [1, 1, 1], [u32::MAX, u32::MAX, 64], 0).contains("at most 1024 threads"));
    assert!(refused("places", [1, 1, 1], [1, 1, 65], 0).contains("at most 64 threads in z"));
    assert!(refused("places", [1 << 31, 1, 1], [1, 1, 1], 0).contains("blocks"));
    assert!(refused("places", [1, 65536, 1], [1, 1, 1], 0).contains("blocks"));
    assert!(refused("places", [1, 1, 65536], [1, 1, 1], 0).contains("blocks"));
    assert!(refused("places", [1, 1, 1], [1, 1, 1], 99 * 1024 + 1).contains("at most 101376"));
}

#[test]
fn launches_from_several_threads_take_turns() {
    let Some(host) = load(SOUND, Build::Checked) else { return };
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| check_sound_kernels(&host));
        }
    });
}

#[test]
fn kernels_are_listed_by_name() {
    let Some(host) = load(SOUND, Build::Plain) else { return };
    let names = host.kernels();
    assert!(names.is_sorted());
    assert!(names.iter().any(|name| name == "block_sum"));
}

#[test]
fn linked_kernels_are_found() {
    if !cfg!(harmonia_host) {
        let error = Host::new().err().unwrap().to_string();
        assert!(error.contains("C++ compiler"), "{error}");
        return;
    }
    let host = Host::new().unwrap();
    assert_eq!(host.shared_limit(), 99 * 1024);
    assert!(launch_error(&host, "nothing", [1, 1, 1], [1, 1, 1], 0).contains("no such kernel"));
}

#[test]
fn the_checked_build_has_the_same_kernels() {
    let Some(path) = checked_kernels() else { return };
    assert_eq!(Host::load(&path).unwrap().kernels(), Host::new().unwrap().kernels());
}

#[test]
fn memory_is_poisoned_copied_and_checked() {
    let Some(host) = load(SOUND, Build::Checked) else { return };
    let mut memory = host.allocate(10).unwrap();
    assert_eq!((host.size(&memory), host.address(&memory) % 256), (10, 0));
    let mut bytes = [0; 10];
    host.read(&mut bytes, &memory).unwrap();
    assert_eq!(bytes, [0xff; 10]);
    host.write(&mut memory, &[1, 2, 3]).unwrap();
    host.read(&mut bytes[..4], &memory).unwrap();
    assert_eq!(bytes[..4], [1, 2, 3, 0xff]);
    host.clear(&mut memory).unwrap();
    host.read(&mut bytes, &memory).unwrap();
    assert_eq!(bytes, [0; 10]);
    assert!(host.write(&mut memory, &[0; 11]).unwrap_err().to_string().contains("11 bytes"));
    assert!(host.read(&mut [0; 11], &memory).is_err());
    let mut nothing = host.allocate(0).unwrap();
    host.write(&mut nothing, &[]).unwrap();
    host.clear(&mut nothing).unwrap();
    assert!(host.allocate(usize::MAX / 2).is_err());
}

#[test]
fn products_follow_the_transposes() {
    let Some(host) = load(SOUND, Build::Plain) else { return };
    let a = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]; // 2 x 3
    let b = [1.0f32, 0.0, 2.0, 1.0, 0.0, 3.0]; // 3 x 2
    let a_transposed = [1.0f32, 4.0, 2.0, 5.0, 3.0, 6.0];
    let b_transposed = [1.0f32, 2.0, 0.0, 0.0, 1.0, 3.0];
    let upload = |values: &[f32]| detectors::upload(&host, values);
    for (transpose_a, transpose_b) in [(false, false), (true, false), (false, true), (true, true)] {
        let (a, b) = (
            upload(if transpose_a { &a_transposed } else { &a }),
            upload(if transpose_b { &b_transposed } else { &b }),
        );
        let c = host.allocate(16).unwrap(); // NaN, which beta = 0 must not read
        for (beta, expected) in [(0.0, [5.0, 11.0, 14.0, 23.0]), (1.0, [10.0, 22.0, 28.0, 46.0])] {
            let (a, b, c_address) = (host.address(&a), host.address(&b), host.address(&c));
            let product = Gemm { m: 2, n: 2, k: 3, a, transpose_a, b, transpose_b, beta, c: c_address };
            // SAFETY: the matrices were made above, with these shapes.
            unsafe { host.gemm(&product) }.unwrap();
            assert_eq!(detectors::download::<f32>(&host, &c), expected);
        }
    }
}

/// The kernel to run in the child process; empty: all sound ones.
const KERNEL_VARIABLE: &str = "HARMONIA_TEST_KERNEL";

#[test]
fn the_address_sanitizer_agrees() {
    if sanitizer().is_none() {
        println!("skipped: no address sanitizer");
        return;
    }
    let Some(sound) = library(Path::new(SOUND), Build::AddressSanitized) else { return };
    let child = "child_of_the_address_sanitizer";
    let run = |library: &Path, kernel: &str| {
        let library = library.to_str().unwrap();
        run_sanitized(child, &[("HARMONIA_TEST_LIBRARY", library), (KERNEL_VARIABLE, kernel)]).unwrap()
    };
    let (success, text) = run(&sound, "");
    assert!(success, "{text}");
    let broken = library(Path::new(BROKEN), Build::AddressSanitized).unwrap();
    for (kernel, report) in seen_by_sanitizers() {
        let (success, text) = run(&broken, kernel);
        assert!(!success && text.contains(report), "{kernel}, expected `{report}`:\n{text}");
    }
}

/// Run by the test above in a process that the address sanitizer may end.
#[test]
#[ignore = "the parent runs it"]
fn child_of_the_address_sanitizer() {
    let (Ok(path), Ok(kernel)) = (std::env::var("HARMONIA_TEST_LIBRARY"), std::env::var(KERNEL_VARIABLE)) else {
        return;
    };
    let host = Host::load(Path::new(&path)).unwrap();
    match broken().into_iter().find(|case| case.kernel == kernel) {
        Some(case) => drop(case.run(&host)),
        None => check_sound_kernels(&host),
    }
}
