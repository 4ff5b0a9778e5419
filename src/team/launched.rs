//! Whether this process was started as one of several, and by whom: read off the variables that `mpirun` and `srun` set.

/// A process among others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launched {
    /// What started it, for people.
    pub by: &'static str,
    /// How many there are.
    pub size: usize,
    /// Which one this is.
    pub rank: usize,
    /// How many of them are on this machine.
    pub here: usize,
    /// Which one of those this is.
    pub place: usize,
}

/// (what started it, then names of: number of processes, own number, processes on this machine, own number among those).
const VARIABLES: &[(&str, [&str; 4])] = &[
    (
        "mpirun (Open MPI)",
        ["OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"],
    ),
    // Of a step, not of the allocation: a program that a batch script starts by itself is alone. Before PMI, which srun may speak too
    // without a word on who is where.
    ("srun", ["SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_STEP_TASKS_PER_NODE", "SLURM_LOCALID"]),
    ("mpirun (PMI)", ["PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS", "MPI_LOCALRANKID"]),
];

/// Who started this process as one of several, if anybody did.
pub fn launched() -> Option<Launched> {
    of(|name| std::env::var(name).ok())
}

fn of(variable: impl Fn(&str) -> Option<String>) -> Option<Launched> {
    // Slurm writes 2(x3) for three machines with two each.
    let number = |name: &str| -> Option<usize> {
        let text = variable(name)?;
        let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    };
    VARIABLES.iter().find_map(|&(by, [size, rank, here, place])| {
        let (size, rank) = (number(size)?, number(rank)?);
        let here = number(here).unwrap_or(1).clamp(1, size);
        (size > 1).then(|| Launched { by, size, rank, here, place: number(place).unwrap_or(0) })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &[(&str, &str)]) -> Option<Launched> {
        of(|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_string()))
    }

    #[test]
    fn launchers_are_told_by_their_variables() {
        let open_mpi = [
            ("OMPI_COMM_WORLD_SIZE", "4"),
            ("OMPI_COMM_WORLD_RANK", "3"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "2"),
            ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
        ];
        assert_eq!(with(&open_mpi), Some(Launched { by: "mpirun (Open MPI)", size: 4, rank: 3, here: 2, place: 1 }));
        let slurm = [("SLURM_STEP_NUM_TASKS", "6"), ("SLURM_PROCID", "0"), ("SLURM_STEP_TASKS_PER_NODE", "2(x3)")];
        assert_eq!(with(&slurm), Some(Launched { by: "srun", size: 6, rank: 0, here: 2, place: 0 }));
    }

    #[test]
    fn one_process_is_no_team() {
        assert_eq!(with(&[]), None);
        assert_eq!(with(&[("OMPI_COMM_WORLD_SIZE", "1"), ("OMPI_COMM_WORLD_RANK", "0")]), None);
        // Within an allocation of four tasks, but not started by srun.
        assert_eq!(with(&[("SLURM_NTASKS", "4"), ("SLURM_PROCID", "0")]), None);
    }
}
