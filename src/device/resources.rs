//! What a kernel takes of a multiprocessor: ptxas' report, and the occupancy that follows from it.
//!
//! Computed from NVIDIA's published limits, so that no GPU is needed; a profiler shows what is reached.

/// Registers and memory of one kernel on one GPU generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resources {
    /// Name of the kernel.
    pub kernel: String,
    /// Generation, as in "sm_89".
    pub arch: String,
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of local memory of a thread.
    pub stack: u32,
    /// Bytes a thread writes to local memory for want of registers.
    pub spill_stores: u32,
    /// Bytes it reads back.
    pub spill_loads: u32,
    /// Bytes of static shared memory of a block.
    pub static_shared: u32,
}

/// Reads what `ptxas -v` printed, for one generation or several, in the order it was printed. Lines that say something else
/// are passed over, and so is a kernel whose lines are not complete.
pub fn parse(report: &str) -> Vec<Resources> {
    let mut all = Vec::new();
    let mut open: Option<Resources> = None;
    for line in report.lines() {
        if let Some(rest) = after(line, "Compiling entry function '") {
            open = entry(rest);
        } else if line.contains("bytes stack frame") {
            if let Some(kernel) = &mut open {
                kernel.stack = number_before(line, " bytes stack frame").unwrap_or(0);
                kernel.spill_stores = number_before(line, " bytes spill stores").unwrap_or(0);
                kernel.spill_loads = number_before(line, " bytes spill loads").unwrap_or(0);
            }
        } else if let Some(registers) = number_before(line, " registers")
            && let Some(mut kernel) = open.take()
        {
            kernel.registers = registers;
            kernel.static_shared = number_before(line, " bytes smem").unwrap_or(0);
            all.push(kernel);
        }
    }
    all
}

/// `NAME' for 'sm_89'`.
fn entry(text: &str) -> Option<Resources> {
    let (kernel, rest) = text.split_once('\'')?;
    let arch = after(rest, "for '")?.split('\'').next()?;
    let (kernel, arch) = (kernel.to_string(), arch.to_string());
    Some(Resources { kernel, arch, registers: 0, stack: 0, spill_stores: 0, spill_loads: 0, static_shared: 0 })
}

fn after<'a>(line: &'a str, marker: &str) -> Option<&'a str> {
    line.split_once(marker).map(|(_, rest)| rest)
}

/// The number that stands right before `marker`.
fn number_before(line: &str, marker: &str) -> Option<u32> {
    let before = line.split_once(marker)?.0;
    before.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// What limits how many blocks share a multiprocessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Warps: the multiprocessor is full.
    Warps,
    /// Its slots for blocks.
    Blocks,
    /// Its registers.
    Registers,
    /// Its shared memory.
    Shared,
}

impl Limit {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Limit::Warps => "warps",
            Limit::Blocks => "blocks",
            Limit::Registers => "registers",
            Limit::Shared => "shared",
        }
    }
}

/// How many blocks of a kernel share a multiprocessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occupancy {
    /// Blocks at a time.
    pub blocks: u32,
    /// Their warps.
    pub warps: u32,
    /// Warps a multiprocessor can hold.
    pub most_warps: u32,
    /// What there would have to be more of.
    pub limit: Limit,
}

/// A multiprocessor of one compute capability (CUDA C++ Programming Guide, "Technical Specifications per Compute
/// Capability").
struct Multiprocessor {
    arch: &'static str,
    warps: u32,
    blocks: u32,
    /// Bytes of shared memory.
    shared: u32,
}

const MULTIPROCESSORS: [Multiprocessor; 6] = [
    Multiprocessor { arch: "sm_80", warps: 64, blocks: 32, shared: 164 << 10 },
    Multiprocessor { arch: "sm_86", warps: 48, blocks: 16, shared: 100 << 10 },
    Multiprocessor { arch: "sm_89", warps: 48, blocks: 24, shared: 100 << 10 },
    Multiprocessor { arch: "sm_90", warps: 64, blocks: 32, shared: 228 << 10 },
    Multiprocessor { arch: "sm_100", warps: 64, blocks: 32, shared: 228 << 10 },
    Multiprocessor { arch: "sm_120", warps: 48, blocks: 24, shared: 100 << 10 },
];

// The same on all of them.
const LANES: u32 = 32;
/// Each partition of a multiprocessor has its own registers and warps.
const PARTITIONS: u32 = 4;
const PARTITION_REGISTERS: u32 = 65536 / PARTITIONS;
/// Registers are handed to a warp in pieces of this many.
const REGISTER_PIECE: u32 = 256;
/// Shared memory in pieces of this many bytes.
const SHARED_PIECE: u32 = 128;
/// And the system keeps this many bytes of every block's.
const SHARED_RESERVED: u32 = 1024;

/// Bytes of shared memory that a block can have.
pub fn shared_limit(arch: &str) -> Option<u32> {
    let arch = arch.trim_end_matches(['a', 'f']);
    MULTIPROCESSORS.iter().find(|sm| sm.arch == arch).map(|sm| sm.shared - SHARED_RESERVED)
}

/// Theoretical occupancy of blocks of `threads` threads with `registers` registers each and `shared` bytes of shared memory,
/// static and dynamic. `None` for a generation whose limits are not known here, or a block that cannot run at all.
pub fn occupancy(arch: &str, threads: u32, registers: u32, shared: u32) -> Option<Occupancy> {
    let arch = arch.trim_end_matches(['a', 'f']);
    let sm = MULTIPROCESSORS.iter().find(|sm| sm.arch == arch)?;
    let block_warps = threads.div_ceil(LANES).max(1);
    let warp_registers = (registers.max(1) * LANES).next_multiple_of(REGISTER_PIECE);
    let register_warps = PARTITION_REGISTERS / warp_registers * PARTITIONS;
    let block_shared = (shared + SHARED_RESERVED).next_multiple_of(SHARED_PIECE);
    // Of equal limits the first is named: a full multiprocessor before what else is used up.
    let limits = [
        (sm.warps / block_warps, Limit::Warps),
        (register_warps / block_warps, Limit::Registers),
        (sm.shared / block_shared, Limit::Shared),
        (sm.blocks, Limit::Blocks),
    ];
    let (blocks, limit) = limits.into_iter().min_by_key(|(blocks, _)| *blocks).filter(|(blocks, _)| *blocks > 0)?;
    Some(Occupancy { blocks, warps: blocks * block_warps, most_warps: sm.warps, limit })
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'adam' for 'sm_80'
ptxas info    : Function properties for adam
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 20 registers, used 0 barriers, 424 bytes cmem[0]
ptxas info    : Compiling entry function 'greedy' for 'sm_90a'
ptxas info    : Function properties for greedy
    136 bytes stack frame, 28 bytes spill stores, 32 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 136 bytes cumulative stack size, 2048 bytes smem, 472 bytes cmem[0]
ptxas info    : Compiling entry function 'cut off' for 'sm_90'
";

    #[test]
    fn a_report_of_several_generations_is_read_line_by_line() {
        let adam = Resources {
            kernel: "adam".into(),
            arch: "sm_80".into(),
            registers: 20,
            stack: 0,
            spill_stores: 0,
            spill_loads: 0,
            static_shared: 0,
        };
        let greedy = Resources {
            kernel: "greedy".into(),
            arch: "sm_90a".into(),
            registers: 255,
            stack: 136,
            spill_stores: 28,
            spill_loads: 32,
            static_shared: 2048,
        };
        assert_eq!(parse(REPORT), [adam, greedy]);
        assert_eq!(parse(""), []);
    }

    #[test]
    fn occupancy_is_what_the_published_limits_give() {
        let resident = |arch, threads, registers, shared| {
            let resident = occupancy(arch, threads, registers, shared).unwrap();
            (resident.blocks, resident.warps, resident.most_warps, resident.limit)
        };
        // 64 x 32 = 2048 registers per warp: 8 warps in each quarter of 16384, 32 in all, 4 blocks of 8.
        assert_eq!(resident("sm_89", 256, 64, 0), (4, 32, 48, Limit::Registers));
        // 65 registers: 2080 rounded up to 2304 per warp, 7 in each quarter, 28 in all, 3 blocks of 8.
        assert_eq!(resident("sm_89", 256, 65, 0), (3, 24, 48, Limit::Registers));
        // 40 x 32 = 1280: 12 in each quarter, 48 of the A100's 64.
        assert_eq!(resident("sm_80", 256, 40, 0), (6, 48, 64, Limit::Registers));
        // 32 registers: 64 warps would fit, the RTX 30 holds 48.
        assert_eq!(resident("sm_86", 128, 32, 0), (12, 48, 48, Limit::Warps));
        // 40 KiB and the 1 KiB kept for the system: two in 100 KiB, five in 228.
        assert_eq!(resident("sm_89", 256, 32, 40 << 10), (2, 16, 48, Limit::Shared));
        assert_eq!(resident("sm_90", 256, 32, 40 << 10), (5, 40, 64, Limit::Shared));
        // Single warps run out of slots: 16 on the RTX 30, 24 on the RTX 40.
        assert_eq!(resident("sm_86", 32, 16, 0), (16, 16, 48, Limit::Blocks));
        assert_eq!(resident("sm_120", 32, 16, 0), (24, 24, 48, Limit::Blocks));
    }

    #[test]
    fn what_cannot_run_or_is_not_known_has_no_occupancy() {
        assert_eq!(occupancy("sm_89", 256, 32, 200 << 10), None);
        assert_eq!(occupancy("sm_89", 1024, 255, 0), None);
        assert_eq!((occupancy("sm_75", 256, 32, 0), shared_limit("sm_75")), (None, None));
        assert_eq!([shared_limit("sm_80"), shared_limit("sm_89")], [Some(163 << 10), Some(99 << 10)]);
        assert_eq!(occupancy("sm_90a", 256, 32, 0), occupancy("sm_90", 256, 32, 0));
    }
}
