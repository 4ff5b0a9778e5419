//! The test kernels of `tests/detectors` from Rust: how each is launched and what must come out.

// A helper may stop at the first surprise, as a test may.
#![allow(clippy::unwrap_used)]

use harmonia::device::host::{Host, Memory};
use harmonia::device::launcher::{Driver, Launch};

/// Plain numbers.
pub trait Number: Copy {
    const ZERO: Self;
}
macro_rules! numbers {
    ($($name:ty),*) => { $(impl Number for $name { const ZERO: Self = 0 as $name; })* };
}
numbers!(f32, f64, i32, u16, u32);

pub fn upload<T: Number>(host: &Host, values: &[T]) -> Memory {
    // SAFETY: numbers are plain bytes.
    let bytes = unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) };
    let mut memory = host.allocate(bytes.len()).unwrap();
    host.write(&mut memory, bytes).unwrap();
    memory
}

pub fn download<T: Number>(host: &Host, memory: &Memory) -> Vec<T> {
    let mut values = vec![T::ZERO; host.size(memory) / size_of::<T>()];
    // SAFETY: numbers are plain bytes, and all bytes are numbers.
    let bytes = unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), size_of_val(&values[..])) };
    host.read(bytes, memory).unwrap();
    values
}

/// Arguments of a kernel: addresses, then sizes in the two halves of a word each.
fn launch(
    host: &Host,
    kernel: &'static str,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    arguments: &[u64],
) -> Result<(), String> {
    let launch = Launch { kernel, grid, block, shared_bytes: shared, arguments: arguments.as_ptr().cast() };
    // SAFETY: callers pass what the kernel takes; where it goes beyond, that is the test.
    unsafe { host.launch(&launch) }.map_err(|error| error.to_string())
}

/// Why a launch is refused, before any argument is looked at.
pub fn launch_error(host: &Host, kernel: &'static str, grid: [u32; 3], block: [u32; 3], shared: u32) -> String {
    launch(host, kernel, grid, block, shared, &[]).unwrap_err()
}

/// Two 32-bit arguments beside each other.
fn pair(first: u32, second: u32) -> u64 {
    u64::from(first) | u64::from(second) << 32
}

/// Runs all kernels of `sound.cu` and compares with the definition, exactly.
pub fn check_sound_kernels(host: &Host) {
    block_sum(host);
    transpose(host);
    histogram(host);
    prefix_sums(host);
    places(host);
    votes(host);
    warp_exchange(host);
    narrow_and_wide(host);
}

fn block_sum(host: &Host) {
    let values: Vec<f32> = (0..3 * 256).map(|i| (i * 37 % 101) as f32).collect();
    let (sums, input) = (upload(host, &[0.0f32; 3]), upload(host, &values));
    launch(host, "block_sum", [3, 1, 1], [256, 1, 1], 0, &[host.address(&sums), host.address(&input)]).unwrap();
    let expected: Vec<f32> = values.chunks(256).map(|block| block.iter().sum()).collect();
    assert_eq!(download::<f32>(host, &sums), expected);
}

fn transpose(host: &Host) {
    let (rows, columns) = (50, 37);
    let values: Vec<u32> = (0..rows * columns).collect();
    let (out, input) = (host.allocate(values.len() * 4).unwrap(), upload(host, &values));
    let arguments = [host.address(&out), host.address(&input), pair(rows, columns)];
    launch(host, "transpose", [2, 1, 1], [16, 16, 1], 0, &arguments).unwrap();
    let expected: Vec<u32> = (0..columns).flat_map(|c| (0..rows).map(move |r| r * columns + c)).collect();
    assert_eq!(download::<u32>(host, &out), expected);
}

fn histogram(host: &Host) {
    let values: Vec<i32> = (0..300).map(|i| i * i % 97 - 20).collect();
    let counts = upload(host, &[0u32; 8]);
    let (total, largest, smallest) = (upload(host, &[0.0f32]), upload(host, &[i32::MIN]), upload(host, &[i32::MAX]));
    let input = upload(host, &values);
    let mut arguments: Vec<u64> =
        [&counts, &total, &largest, &smallest, &input].map(|memory| host.address(memory)).into();
    arguments.push(pair(300, 0));
    launch(host, "histogram", [3, 1, 1], [128, 1, 1], 0, &arguments).unwrap();
    let mut expected = [0; 8];
    values.iter().for_each(|value| expected[(value & 7) as usize] += 1);
    assert_eq!(download::<u32>(host, &counts), expected);
    assert_eq!(download::<f32>(host, &total), [150.0]);
    assert_eq!(download::<i32>(host, &largest), [*values.iter().max().unwrap()]);
    assert_eq!(download::<i32>(host, &smallest), [*values.iter().min().unwrap()]);
}

fn prefix_sums(host: &Host) {
    let values: Vec<i32> = (0..256).map(|i| i * 7 % 23 - 9).collect();
    let (out, input) = (upload(host, &[0i32; 256]), upload(host, &values));
    let arguments = [host.address(&out), host.address(&input)];
    launch(host, "prefix_sums", [2, 1, 1], [128, 1, 1], 2 * 128 * 4, &arguments).unwrap();
    let sums = |block: &[i32]| {
        let mut sum = 0;
        block
            .iter()
            .map(|value| {
                sum += value;
                sum
            })
            .collect::<Vec<i32>>()
    };
    assert_eq!(download::<i32>(host, &out), values.chunks(128).flat_map(sums).collect::<Vec<i32>>());
}

fn places(host: &Host) {
    let (grid, block) = ([2u32, 3, 4], [5u32, 2, 3]);
    let (blocks, threads): (u32, u32) = (grid.iter().product(), block.iter().product());
    let out = upload(host, &vec![0u32; (blocks * threads) as usize]);
    launch(host, "places", grid, block, 0, &[host.address(&out)]).unwrap();
    let place = |number: u32, sizes: [u32; 3]| {
        number % sizes[0] + 10 * (number / sizes[0] % sizes[1]) + 100 * (number / sizes[0] / sizes[1])
    };
    let expected: Vec<u32> =
        (0..blocks).flat_map(|b| (0..threads).map(move |t| place(b, grid) + 1000 * place(t, block))).collect();
    assert_eq!(download::<u32>(host, &out), expected);
}

fn votes(host: &Host) {
    let (out, rotated) = (upload(host, &[0u32; 64 * 6]), upload(host, &[0.0f64; 64]));
    launch(host, "votes", [1, 1, 1], [64, 1, 1], 0, &[host.address(&out), host.address(&rotated)]).unwrap();
    let thirds = (0..32).filter(|lane| lane % 3 == 0).fold(0, |bits, lane| bits | 1 << lane);
    let expected = (0..64u32).flat_map(|thread| {
        let lane = thread % 32;
        let odd_lanes = if lane < 16 { 0x0000_aaaa } else { 0xaaaa_0000 };
        let three_back = if lane % 16 >= 3 { lane - 3 } else { lane };
        let fifth_of_eight = lane / 8 * 8 + 5;
        [
            thirds,
            if thread < 32 { 2 } else { 1 },
            odd_lanes,
            three_back,
            fifth_of_eight,
            if thread < 32 { lane ^ 1 } else { 7 },
        ]
    });
    assert_eq!(download::<u32>(host, &out), expected.collect::<Vec<u32>>());
    let expected: Vec<f64> = (0..64).map(|thread| 0.25 * f64::from((thread + 1) % 32)).collect();
    assert_eq!(download::<f64>(host, &rotated), expected);
}

fn warp_exchange(host: &Host) {
    let values: Vec<f32> = (0..128).map(|i| i as f32).collect();
    let (out, input) = (upload(host, &[0.0f32; 128]), upload(host, &values));
    launch(host, "warp_exchange", [1, 1, 1], [128, 1, 1], 0, &[host.address(&out), host.address(&input)]).unwrap();
    // Each lane gets the mirror image of its eighth neighbour plus 1, and 1 + 1 from the second exchange.
    let expected: Vec<f32> = (0..128).map(|i| (i / 32 * 32 + 31 - ((i % 32) ^ 8)) as f32 + 3.0).collect();
    assert_eq!(download::<f32>(host, &out), expected);
}

fn narrow_and_wide(host: &Host) {
    let values: Vec<f32> = (0..4 * 100).map(|i| i as f32).collect();
    let (halves, vectors) = (upload(host, &[0u16; 100]), upload(host, &[0.0f32; 400]));
    let input = upload(host, &values);
    let arguments = [&halves, &vectors, &input].map(|memory| host.address(memory));
    launch(host, "narrow_and_wide", [2, 1, 1], [50, 1, 1], 0, &arguments).unwrap();
    assert_eq!(download::<u16>(host, &halves), (0..100).map(|i| 4 * i).collect::<Vec<u16>>());
    let expected = values.chunks(4).flat_map(|v| [v[3], v[2], v[1], 2.0 * v[0] + 0.5]);
    assert_eq!(download::<f32>(host, &vectors), expected.collect::<Vec<f32>>());
}

/// A broken kernel, how to launch it, and who must report it.
pub struct Broken {
    pub kernel: &'static str,
    pub file: &'static str,
    pub report: &'static str,
    blocks: u32,
    threads: u32,
    shared_bytes: u32,
    length: u32,
}

impl Broken {
    /// The bits of what the kernel computed, or the report.
    pub fn run(&self, host: &Host) -> Result<Vec<u32>, String> {
        let values: Vec<f32> = (0..self.length).map(|i| 1.0 + i as f32).collect();
        let (out, input) = (upload(host, &vec![0.0f32; values.len()]), upload(host, &values));
        let arguments = [host.address(&out), host.address(&input), pair(self.length, 0)];
        launch(host, self.kernel, [self.blocks, 1, 1], [self.threads, 1, 1], self.shared_bytes, &arguments)?;
        Ok(download(host, &out))
    }
}

/// A kernel with blocks, threads, bytes of shared memory and length.
type Case = (&'static str, [u32; 4]);

/// All kernels of `broken.cu`: file, detector, kernels.
pub fn broken() -> Vec<Broken> {
    let files: &[(&str, &str, &[Case])] = &[
        (
            "out_of_bounds_global.cu",
            "out of bounds: ",
            &[
                ("out_of_bounds_write", [3, 128, 0, 256]),
                ("out_of_bounds_read", [1, 256, 0, 256]),
                ("out_of_bounds_vector", [1, 32, 0, 254]),
                ("out_of_bounds_atomic", [1, 32, 0, 64]),
            ],
        ),
        (
            "out_of_bounds_global.cu",
            "undefined behaviour: access through a null pointer",
            &[("null_pointer", [1, 32, 0, 32])],
        ),
        ("out_of_bounds_shared.cu", "dynamic shared memory", &[("out_of_bounds_dynamic", [1, 64, 256, 64])]),
        (
            "out_of_bounds_shared.cu",
            "undefined behaviour: index outside of an array",
            &[("out_of_bounds_static", [1, 32, 0, 32])],
        ),
        (
            "missing_barrier.cu",
            "race: ",
            &[
                ("missing_barrier", [1, 256, 0, 256]),
                ("missing_second_barrier", [1, 256, 0, 256]),
                ("write_after_many_reads", [1, 256, 0, 256]),
                ("missing_barrier_global", [1, 64, 0, 64]),
                ("race_on_halves", [1, 128, 0, 64]),
                ("plain_and_atomic", [1, 64, 0, 64]),
            ],
        ),
        (
            "race_between_blocks.cu",
            "race: ",
            &[
                ("race_between_blocks", [2, 32, 0, 64]),
                ("read_from_neighbour", [2, 64, 0, 256]),
                ("write_to_neighbour", [2, 64, 0, 128]),
                ("cleared_by_one_block", [2, 64, 0, 64]),
            ],
        ),
        ("planted.cu", "race: ", &[("blocks_write_one_place", [2, 32, 0, 64])]),
        (
            "race_in_warp.cu",
            "race: ",
            &[
                ("race_in_warp", [1, 32, 0, 32]),
                ("race_between_halves", [1, 32, 0, 32]),
                ("shuffle_is_no_barrier", [1, 32, 0, 32]),
            ],
        ),
        (
            "unwritten_shared.cu",
            "unwritten shared memory: ",
            &[
                ("unwritten_static", [1, 64, 0, 64]),
                ("unwritten_dynamic", [1, 64, 256, 64]),
                ("unwritten_by_second_block", [2, 64, 0, 128]),
            ],
        ),
        (
            "divergent_barrier.cu",
            "barrier divergence: ",
            &[("divergent_barrier", [1, 64, 0, 50]), ("divergent_loop", [1, 64, 0, 64])],
        ),
        ("divergent_barrier_branches.cu", "barrier divergence: ", &[("divergent_barrier_branches", [1, 64, 0, 64])]),
        (
            "divergent_shuffle.cu",
            "warp divergence: ",
            &[
                ("shuffle_with_returned_lane", [1, 32, 0, 32]),
                ("shuffle_against_barrier", [1, 32, 0, 32]),
                ("shuffles_in_branches", [1, 32, 0, 32]),
                ("shuffle_without_itself", [1, 32, 0, 32]),
                ("shuffle_from_inactive_lane", [1, 32, 0, 32]),
            ],
        ),
        ("undefined.cu", "undefined behaviour: misaligned access", &[("misaligned_vector", [1, 32, 0, 32])]),
        ("undefined.cu", "undefined behaviour: shift", &[("shift_too_far", [1, 32, 0, 32])]),
        ("undefined.cu", "undefined behaviour: signed overflow", &[("signed_overflow", [1, 32, 0, 32])]),
    ];
    let cases = files.iter().flat_map(|&(file, report, kernels)| {
        kernels.iter().map(move |&(kernel, [blocks, threads, shared_bytes, length])| Broken {
            kernel,
            file,
            report,
            blocks,
            threads,
            shared_bytes,
            length,
        })
    });
    cases.collect()
}

/// The thirteen kinds of bugs that were planted into real kernels, and a kernel of `broken.cu` with each. All but the last two
/// are among [`broken`]: these are refused before they run, and seen at large sizes only.
pub const PLANTED: [(&str, &str); 13] = [
    ("a write behind the end of an array", "out_of_bounds_write"),
    ("a read behind the end of a row", "out_of_bounds_read"),
    ("an index beyond shared memory", "out_of_bounds_dynamic"),
    ("a missing barrier between writing and reading", "missing_barrier"),
    ("a missing barrier before a tile is used again", "missing_second_barrier"),
    ("a missing barrier of a warp", "race_in_warp"),
    ("a barrier that some threads skip", "divergent_barrier"),
    ("a shuffle without all its lanes", "shuffle_with_returned_lane"),
    ("shared memory that nobody wrote", "unwritten_static"),
    ("a vector that is not aligned", "misaligned_vector"),
    ("blocks that write one place", "blocks_write_one_place"),
    ("a launch beyond __launch_bounds__", "beyond_launch_bounds"),
    ("an index product of 32 bits", "index_in_32_bits"),
];

/// A matrix of more than 2^32 elements, a row of which is written by each block: what became of it.
pub fn write_rows(host: &Host, kernel: &'static str) -> Result<(), String> {
    let (rows, columns) = ((1u64 << 16) - 1, (1u32 << 16) + 32);
    let memory = host.allocate(rows as usize * columns as usize * 4).map_err(|error| error.to_string())?;
    let arguments = [host.address(&memory), rows, u64::from(columns)];
    launch(host, kernel, [columns / 32, rows as u32, 1], [32, 1, 1], 0, &arguments)
}

/// Broken kernels that the address and undefined-behaviour sanitizers see too, and what they say.
pub fn seen_by_sanitizers() -> [(&'static str, &'static str); 6] {
    [
        ("out_of_bounds_write", "heap-buffer-overflow"),
        ("out_of_bounds_read", "heap-buffer-overflow"),
        ("out_of_bounds_dynamic", "heap-buffer-overflow"),
        ("out_of_bounds_static", "out of bounds"),
        ("misaligned_vector", "misaligned address"),
        ("signed_overflow", "signed integer overflow"),
    ]
}
