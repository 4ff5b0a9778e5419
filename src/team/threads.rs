//! A team of threads of one process: the same calls as between processes, for tests and for looking at them in a debugger.
//!
//! A round of a team: everybody puts down a piece for everybody, and takes what is there for it once all have put theirs. A rank
//! that ends without the others takes them with it: they get an error instead of waiting.

use super::Team;
use harmonia_graph::error::{Error, Result};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// What all ranks see.
#[derive(Debug, Default)]
struct Table {
    /// `pieces[to][from]` of the round under way.
    pieces: Vec<Vec<Option<Vec<u8>>>>,
    /// Pieces put down in this round, and taken.
    put: usize,
    taken: usize,
    /// Why nothing goes on.
    ended: Option<String>,
}

#[derive(Debug)]
struct Shared {
    size: usize,
    table: Mutex<Table>,
    changed: Condvar,
}

/// One rank.
#[derive(Debug)]
pub struct Threads {
    rank: usize,
    shared: Arc<Shared>,
    sent: Mutex<u64>,
}

impl Threads {
    /// All ranks of a team.
    pub fn team(size: usize) -> Vec<Arc<Threads>> {
        let pieces = vec![vec![None; size]; size];
        let table = Mutex::new(Table { pieces, ..Table::default() });
        let shared = Arc::new(Shared { size, table, changed: Condvar::new() });
        (0..size).map(|rank| Arc::new(Threads { rank, shared: Arc::clone(&shared), sent: Mutex::new(0) })).collect()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.shared.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something is so.
    fn until<'t>(
        &self,
        mut table: MutexGuard<'t, Table>,
        so: impl Fn(&Table) -> bool,
    ) -> Result<MutexGuard<'t, Table>> {
        loop {
            if let Some(why) = &table.ended {
                return Err(Error::Device(format!("the team has ended: {why}")));
            }
            if so(&table) {
                return Ok(table);
            }
            table = self.shared.changed.wait(table).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn ended(&self, why: String) {
        self.table().ended.get_or_insert(why);
        self.shared.changed.notify_all();
    }
}

impl Team for Threads {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.shared.size
    }

    fn name(&self) -> &'static str {
        "threads"
    }

    fn host(&self) -> String {
        "this process".into()
    }

    fn gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.exchange(vec![mine.to_vec(); self.size()])
    }

    fn exchange(&self, pieces: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
        let size = self.size();
        let others = pieces.iter().enumerate().filter(|(to, _)| *to != self.rank);
        *self.sent.lock().unwrap_or_else(PoisonError::into_inner) +=
            others.map(|(_, piece)| piece.len() as u64).sum::<u64>();
        // Everybody has taken what the round before had for it.
        let mut table = self.until(self.table(), |table| table.put < size)?;
        for (to, piece) in pieces.into_iter().enumerate() {
            table.pieces[to][self.rank] = Some(piece);
        }
        table.put += 1;
        self.shared.changed.notify_all();
        let mut table = self.until(table, |table| table.put == size)?;
        let came = table.pieces[self.rank].iter_mut().map(|piece| piece.take().unwrap_or_default()).collect();
        table.taken += 1;
        if table.taken == size {
            (table.put, table.taken) = (0, 0);
        }
        self.shared.changed.notify_all();
        // Nobody puts into a round that others have not left.
        drop(self.until(table, |table| table.put < size)?);
        Ok(came)
    }

    fn sent(&self) -> u64 {
        *self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, code: i32) {
        self.ended(format!("rank {} ended it with code {code}", self.rank));
    }
}

/// Runs the same work as every rank of a team, each on a thread of its own; what came of each, or the first error, in the order of
/// ranks, that is not that another rank has failed.
///
/// # Errors
/// That of the work.
pub fn together<R: Send>(size: usize, work: impl Fn(&dyn Team) -> Result<R> + Sync) -> Result<Vec<R>> {
    each(size, |team| work(&*team))
}

/// The same for work that keeps its team.
///
/// # Errors
/// That of the work.
pub fn each<R: Send>(size: usize, work: impl Fn(Arc<dyn Team>) -> Result<R> + Sync) -> Result<Vec<R>> {
    let team = Threads::team(size);
    let one = |member: &Arc<Threads>| {
        let done = work(Arc::clone(member) as Arc<dyn Team>);
        if let Err(error) = &done {
            member.ended(format!("rank {}: {error}", member.rank));
        }
        done
    };
    let one = &one;
    let mut done: Vec<Result<R>> = std::thread::scope(|scope| {
        let ranks: Vec<_> = team.iter().map(|member| scope.spawn(move || one(member))).collect();
        let join = |rank: std::thread::ScopedJoinHandle<'_, _>| {
            rank.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        ranks.into_iter().map(join).collect()
    });
    let of_its_own = |end: &Result<R>| matches!(end, Err(error) if !error.to_string().contains("the team has ended"));
    if let Some(at) = done.iter().position(of_its_own) {
        done.swap(0, at);
    }
    done.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_come_from_whom_they_are_of_round_after_round() {
        let ends = together(4, |team| {
            for round in 0..50u8 {
                let pieces = (0..4).map(|to| vec![round, team.rank() as u8, to]).collect();
                let came = team.exchange(pieces)?;
                let expected: Vec<Vec<u8>> = (0..4).map(|from| vec![round, from, team.rank() as u8]).collect();
                assert_eq!(came, expected);
            }
            Ok(team.sent())
        });
        assert_eq!(ends.unwrap(), [50 * 9; 4]);
    }

    #[test]
    fn nobody_waits_for_a_rank_that_has_failed() {
        let ends = together(3, |team| match team.rank() {
            1 => Err(Error::Data("no rows".into())),
            _ => team.gather(&[0]).map(|_| ()),
        });
        assert_eq!(ends.unwrap_err().to_string(), "no rows");
    }
}
