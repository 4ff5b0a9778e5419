//! Devices of several processes that exchange numbers with each other, past the host.
//!
//! They do where each process has a device of its own and all can be connected; elsewhere numbers go through the host, to the same
//! bits.

use super::Device;
use crate::team::Team;
use harmonia_graph::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// How a device could exchange numbers with those of other processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Link {
    /// It works in the host's memory: there is nothing to go past.
    Host,
    /// It can be connected; what tells it from all other devices.
    Device(String),
    /// It has memory of its own, and something is missing.
    Lacking(String),
}

/// A process as others see it.
#[derive(Serialize, Deserialize)]
struct Peer {
    host: String,
    link: Link,
}

/// Connects the devices of all processes; why not, for people, where some or all of them are GPUs that cannot be connected.
///
/// # Errors
/// Another rank has failed, or devices that could be connected refuse.
pub fn connect<D: Device>(device: &D, team: &dyn Team) -> Result<Option<String>> {
    let garbled = |error: serde_json::Error| Error::Internal(format!("between processes: {error}"));
    let mine = Peer { host: team.host(), link: device.link() };
    let all = team.gather(&serde_json::to_vec(&mine).map_err(garbled)?)?;
    let peers = all.iter().map(|bytes| serde_json::from_slice(bytes).map_err(garbled));
    let all: Vec<Peer> = peers.collect::<Result<_>>()?;
    if all.iter().all(|peer| peer.link == Link::Host) {
        return Ok(None);
    }
    match obstacle(&all) {
        Some(why) => Ok(Some(format!("gradients go from GPU to GPU through the host: {why}"))),
        None => device.connect(team).map(|()| None),
    }
}

/// Why not all can be connected: the first reason by rank, the same on all of them.
fn obstacle(all: &[Peer]) -> Option<String> {
    all.iter().enumerate().find_map(|(rank, Peer { host, link })| match link {
        Link::Host => Some(format!("rank {rank} on {host} does not compute on a GPU")),
        Link::Lacking(what) => Some(format!("rank {rank} on {host}: {what}")),
        Link::Device(_) => {
            let first = all.iter().position(|peer| peer.link == *link).filter(|&first| first < rank)?;
            Some(format!(
                "ranks {first} and {rank} on {host} compute on the same GPU, which NCCL refuses: start one process for each GPU"
            ))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::cpu::Cpu;
    use crate::team::threads::together;

    fn why(links: &[Link]) -> Option<String> {
        let peers: Vec<Peer> = links.iter().map(|link| Peer { host: "here".into(), link: link.clone() }).collect();
        obstacle(&peers)
    }

    #[test]
    fn each_needs_a_device_of_its_own() {
        let gpu = |name: &str| Link::Device(name.into());
        assert_eq!(why(&[gpu("a"), gpu("b"), gpu("c")]), None);
        assert!(
            why(&[gpu("a"), gpu("b"), gpu("a")]).unwrap().starts_with("ranks 0 and 2 on here compute on the same GPU")
        );
        assert_eq!(why(&[gpu("a"), Link::Host]).unwrap(), "rank 1 on here does not compute on a GPU");
        assert_eq!(why(&[gpu("a"), Link::Lacking("no NCCL".into())]).unwrap(), "rank 1 on here: no NCCL");
    }

    #[test]
    fn on_cpus_there_is_nothing_to_say_and_sums_go_through_the_host() {
        let ends = together(2, |team| {
            let device = Cpu::<f32>::new();
            assert_eq!(connect(&device, team)?, None);
            let mut values = vec![1.0 + team.rank() as f32; 3];
            device.join(team, &mut values)?;
            Ok(values)
        });
        assert_eq!(ends.unwrap(), [[3.0; 3]; 2]);
    }
}
