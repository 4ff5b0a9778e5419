//! METIS, opened at run time: which part each node is best in, so that few edges lead from one part to another.
//!
//! Karypis, Kumar: A fast and high quality multilevel scheme for partitioning irregular graphs (1998). Directions are ignored;
//! a node weighs what its row costs. Memory: 4 bytes per entry and 12 per node for us, and several times that for METIS.
//!
//! While METIS is at work it takes the signals SIGTERM and SIGABRT for itself, in the thread that called it, and nothing stops
//! it: a program with other threads calls it in a process of its own.

#![allow(unsafe_code)]

use super::ROW_COST;
use crate::error::{Error, Result, one_line};
use crate::graph::reorder::Neighbours;
use crate::graph::{Csr, Graph};
use libloading::Library;
use std::error::Error as _;
use std::ffi::{OsString, c_int};
use std::ptr::null_mut;
use std::sync::{Mutex, PoisonError};

/// What the library may be called.
#[cfg(target_os = "macos")]
const NAMES: &[&str] = &["libmetis.dylib"];
#[cfg(not(target_os = "macos"))]
const NAMES: &[&str] = &["libmetis.so.5", "libmetis.so"];
/// A file that is taken instead.
const VARIABLE: &str = "HARMONIA_METIS";

/// `METIS_OK`, `METIS_ERROR_MEMORY`.
const OK: c_int = 1;
const ERROR_MEMORY: c_int = -3;
/// Words of `options` (`METIS_NOPTIONS`), and where the seed is among them (`METIS_OPTION_SEED`).
const OPTIONS: usize = 40;
const SEED: usize = 8;

type SetDefaultOptions = unsafe extern "C" fn(options: *mut i32) -> c_int;
/// nvtxs, ncon, xadj, adjncy, vwgt, vsize, adjwgt, nparts, tpwgts, ubvec, options, edgecut, part.
type PartGraphKway = unsafe extern "C" fn(
    *mut i32,
    *mut i32,
    *mut i32,
    *mut i32,
    *mut i32,
    *mut i32,
    *mut i32,
    *mut i32,
    *mut f32,
    *mut f32,
    *mut i32,
    *mut i32,
    *mut i32,
) -> c_int;

/// Held while METIS is at work: it draws from the one generator of the C library, and the same is to come out every time.
static AT_WORK: Mutex<()> = Mutex::new(());

/// The library, which stays open as long as this lives.
pub struct Metis {
    options: [i32; OPTIONS],
    part_graph: PartGraphKway,
    /// Holds the code that `part_graph` is.
    _library: Library,
}

impl Metis {
    /// Opens the library.
    ///
    /// # Errors
    /// It is not there, or was built with 64-bit numbers.
    pub fn open() -> Result<Metis> {
        let named = std::env::var_os(VARIABLE).filter(|name| !name.is_empty());
        let names: Vec<OsString> = named.map_or_else(|| NAMES.iter().map(OsString::from).collect(), |name| vec![name]);
        let mut reason = String::new();
        for name in &names {
            // SAFETY: METIS has no initialisation and no requirements on being loaded; a file that somebody names instead is
            // theirs to answer for, as any program is that they start.
            match unsafe { Library::new(name) } {
                Ok(library) => return Metis::of(library),
                // The linker's own words are below.
                Err(error) if reason.is_empty() => {
                    reason = one_line(error.source().map_or_else(|| error.to_string(), ToString::to_string));
                }
                Err(_) => {}
            }
        }
        Err(Error::Config(format!(
            "METIS cannot be opened ({reason}): install it (Debian, Ubuntu: apt-get install libmetis5), name its library in \
             {VARIABLE}, or set method = ranges, which needs none"
        )))
    }

    fn of(library: Library) -> Result<Metis> {
        let lacks = |error: libloading::Error| Error::Config(format!("this METIS is another one: {}", one_line(error)));
        // SAFETY: the types are those of metis.h 5 for 32-bit numbers. With 64-bit ones the first function is the same but for
        // what it writes, which is looked at below before the second is ever called.
        let (set_defaults, part_graph) = unsafe {
            let set_defaults: SetDefaultOptions = *library.get(b"METIS_SetDefaultOptions\0").map_err(lacks)?;
            let part_graph: PartGraphKway = *library.get(b"METIS_PartGraphKway\0").map_err(lacks)?;
            (set_defaults, part_graph)
        };
        const UNTOUCHED: i32 = 7;
        let mut written = [UNTOUCHED; 4 * OPTIONS];
        // SAFETY: it writes OPTIONS numbers of 4 or 8 bytes; there is room for twice as many.
        unsafe { set_defaults(written.as_mut_ptr()) };
        if written[OPTIONS - 1] == UNTOUCHED || written[OPTIONS..].iter().any(|&word| word != UNTOUCHED) {
            let message = "this METIS was built with 64-bit numbers or other options than METIS 5.1: expected the 32-bit build, as \
                           Debian's libmetis5 is";
            return Err(Error::Config(message.into()));
        }
        let mut options = [0; OPTIONS];
        options.copy_from_slice(&written[..OPTIONS]);
        // Any will do, as long as it is the same every time.
        options[SEED] = 1;
        Ok(Metis { options, part_graph, _library: library })
    }

    /// Whether METIS can count so far: its numbers have 32 bits, and all weights of nodes are added up.
    ///
    /// # Errors
    /// They are too many.
    pub fn check_size(nodes: usize, entries: usize) -> Result<()> {
        let total = entries as u64 + ROW_COST * nodes as u64;
        match total <= i32::MAX as u64 {
            true => Ok(()),
            false => Err(Error::Config(format!(
                "the graph is too large for METIS: {entries} entries and {ROW_COST} for each of {nodes} nodes are {total}, it counts \
                 to {}; set method = ranges",
                i32::MAX
            ))),
        }
    }

    /// The part of each node, the same every time. Takes as long as it takes, see above.
    ///
    /// # Errors
    /// More parts than nodes, a graph that is too large, or METIS fails.
    pub fn k_way(&self, graph: &Graph, parts: usize) -> Result<Vec<u32>> {
        let nodes = graph.nodes();
        if !(1..=nodes).contains(&parts) {
            return Err(Error::Config(format!("{parts} parts of {nodes} nodes: expected 1 to {nodes}")));
        }
        // METIS divides by the logarithm of the number of parts; and without edges there is nothing to weigh.
        if parts == 1 || graph.directed_edges() == 0 {
            let bounds = super::ranges(&graph.adjacency().row_ptr, parts);
            let of = |part: usize| std::iter::repeat_n(part as u32, bounds[part + 1] - bounds[part]);
            return Ok((0..parts).flat_map(of).collect());
        }
        let neighbours = Neighbours::of(graph)?;
        let rows = neighbours.rows();
        Metis::check_size(nodes, rows.entries())?;
        let weight = |i: usize| (graph.adjacency().row(i).len() as u64 + ROW_COST) as i32;
        let mut weights: Vec<i32> = (0..nodes).map(weight).collect();
        let (mut starts, mut columns) = without_loops(rows);
        drop(neighbours);
        let mut part_of = vec![0i32; nodes];
        let (mut nodes, mut constraints, mut count, mut cut) = (nodes as i32, 1, parts as i32, 0);
        let mut options = self.options;
        let _alone = AT_WORK.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the numbers have 32 bits (see `of`). `starts` has nodes + 1 offsets that rise from 0 to the length of `columns`,
        // whose ids are below `nodes` (a checked graph) without self-loops, every edge both ways; `weights` and `part_of` have
        // a place for each node, `options` has OPTIONS. All outlive the call, which keeps no pointer. Null stands for a default.
        let status = unsafe {
            (self.part_graph)(
                &mut nodes,
                &mut constraints,
                starts.as_mut_ptr(),
                columns.as_mut_ptr(),
                weights.as_mut_ptr(),
                null_mut(),
                null_mut(),
                &mut count,
                null_mut(),
                null_mut(),
                options.as_mut_ptr(),
                &mut cut,
                part_of.as_mut_ptr(),
            )
        };
        match status {
            OK => {}
            ERROR_MEMORY => return Err(Error::Device("METIS has run out of memory: set method = ranges".into())),
            other => return Err(Error::Device(format!("METIS failed with status {other}: set method = ranges"))),
        }
        part_of.into_iter().map(|part| u32::try_from(part).map_err(|_| strange(part))).collect()
    }
}

fn strange(part: i32) -> Error {
    Error::Device(format!("METIS put a node into part {part}"))
}

/// Offsets and columns as METIS takes them.
fn without_loops(rows: &Csr) -> (Vec<i32>, Vec<i32>) {
    let (mut starts, mut columns) = (Vec::with_capacity(rows.rows() + 1), Vec::with_capacity(rows.entries()));
    starts.push(0);
    for i in 0..rows.rows() {
        columns.extend(rows.col_idx[rows.row(i)].iter().filter(|&&j| j as usize != i).map(|&j| j as i32));
        starts.push(columns.len() as i32);
    }
    (starts, columns)
}
