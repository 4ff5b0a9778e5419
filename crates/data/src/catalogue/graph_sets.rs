//! Graph tasks of the catalogue: TUDataset and hERG-Karim.
//!
//! The archives of TUDataset have no published checksum and may be packed anew; the tables inside them do not change, so
//! the checksums are those of the tables. Read-me files are left out: a corrected one is no reason to refuse the data.

use super::{Checks, Entry, FileLayout, Format, KnownSizes, RemoteFile};
use harmonia_graph::dataset::Level;

const TU_HOME: &str = "https://chrsmrrs.github.io/datasets/";

pub(super) const MUTAG: Entry = Entry {
    name: "mutag",
    folder: "MUTAG",
    other_folders: &[],
    format: Format::TuDataset,
    task: Level::Graph,
    licence: "not stated",
    home: TU_HOME,
    files: &[RemoteFile {
        path: "raw/MUTAG.zip",
        url: "https://www.chrsmrrs.com/graphkerneldatasets/MUTAG.zip",
        bytes: 23_985,
        approximate: true,
        checks: Checks::members(&[
            ("MUTAG_A.txt", "d9656ca7493f3445d737c711710bb36fd432dddd1c0ea32e1d4713c86ebd28e2"),
            ("MUTAG_edge_labels.txt", "4669ce755075ff86c3240709345745886400908fa637a49310459b9c267b3e56"),
            ("MUTAG_graph_indicator.txt", "7d520a4d6c7961c0cdeabe076d8fe27e795b6d373485c9a2b744987e560a2056"),
            ("MUTAG_graph_labels.txt", "a1518ea39ba3426bd42f57396b9c4baffe68e9adc718caeeab0119c6591a5f2c"),
            ("MUTAG_node_labels.txt", "678f429965490e84dd27713017538c995fc05d1621beac910848b600015ee863"),
        ]),
    }],
    layouts: &[
        FileLayout::directory(
            "",
            &["MUTAG_A.txt", "MUTAG_graph_indicator.txt", "MUTAG_graph_labels.txt", "MUTAG_node_labels.txt"],
        ),
        FileLayout::directory(
            "MUTAG",
            &["MUTAG_A.txt", "MUTAG_graph_indicator.txt", "MUTAG_graph_labels.txt", "MUTAG_node_labels.txt"],
        ),
    ],
    shape: KnownSizes { nodes: 3_371, edge_rows: 3_721, features: 7, classes: 2, graphs: 188 },
    notes: "nitroaromatic compounds, mutagenic or not",
};

pub(super) const PROTEINS: Entry = Entry {
    name: "proteins",
    folder: "PROTEINS",
    other_folders: &[],
    format: Format::TuDataset,
    task: Level::Graph,
    licence: "not stated",
    home: TU_HOME,
    files: &[RemoteFile {
        path: "raw/PROTEINS.zip",
        url: "https://www.chrsmrrs.com/graphkerneldatasets/PROTEINS.zip",
        bytes: 452_155,
        approximate: true,
        checks: Checks::members(&[
            ("PROTEINS_A.txt", "4c4b33e272fc95cac6d27ed6d5d12b9a852c8610e91fff59f8f0dbdd5a20df67"),
            ("PROTEINS_graph_indicator.txt", "8d4ff1e852a5c28561e9bffb44cf9490bc552b13a3b6156dd12dc7f44e9afc4a"),
            ("PROTEINS_graph_labels.txt", "c0ef9810c440775252872318d0c8adc385588e14bc4c47a2c34aa96ee3c7cdcd"),
            ("PROTEINS_node_attributes.txt", "54eef829abb37e458a5fbf3a3c581e48e5810e220463c2cd951856b9ceb08f07"),
            ("PROTEINS_node_labels.txt", "f758e8ad3d6e3c026b50833d75f6f90735b94eb3345e4243707f495ca8afea8d"),
        ]),
    }],
    layouts: &[
        FileLayout::directory(
            "",
            &[
                "PROTEINS_A.txt",
                "PROTEINS_graph_indicator.txt",
                "PROTEINS_graph_labels.txt",
                "PROTEINS_node_labels.txt",
            ],
        ),
        FileLayout::directory(
            "PROTEINS",
            &[
                "PROTEINS_A.txt",
                "PROTEINS_graph_indicator.txt",
                "PROTEINS_graph_labels.txt",
                "PROTEINS_node_labels.txt",
            ],
        ),
    ],
    shape: KnownSizes { nodes: 43_471, edge_rows: 81_044, features: 3, classes: 2, graphs: 1_113 },
    notes: "proteins, enzyme or not; nodes are secondary structure elements",
};

// DD_A.txt has no checksum: no copy with the publisher's order of lines was at hand.
pub(super) const DD: Entry = Entry {
    name: "dd",
    folder: "DD",
    other_folders: &[],
    format: Format::TuDataset,
    task: Level::Graph,
    licence: "not stated",
    home: TU_HOME,
    files: &[RemoteFile {
        path: "raw/DD.zip",
        url: "https://www.chrsmrrs.com/graphkerneldatasets/DD.zip",
        bytes: 4_701_420,
        approximate: true,
        checks: Checks::members(&[
            ("DD_graph_indicator.txt", "95aabe75f6537326a14e4efc0d006854c20769f3cfc4877b862803d21c51aff2"),
            ("DD_graph_labels.txt", "b9df6495feb673f79dea357cca30e08f8602e52d978c77b53ec2552d1cb2ab4e"),
            ("DD_node_labels.txt", "b0d10b05702c2d655d691b5a6f5585081993860013eeab801572202df1c5c108"),
        ]),
    }],
    layouts: &[
        FileLayout::directory("", &["DD_A.txt", "DD_graph_indicator.txt", "DD_graph_labels.txt", "DD_node_labels.txt"]),
        FileLayout::directory(
            "DD",
            &["DD_A.txt", "DD_graph_indicator.txt", "DD_graph_labels.txt", "DD_node_labels.txt"],
        ),
    ],
    shape: KnownSizes { nodes: 334_925, edge_rows: 843_046, features: 89, classes: 2, graphs: 1_178 },
    notes: "proteins, enzyme or not; nodes are amino acids",
};

pub(super) const AIDS: Entry = Entry {
    name: "aids",
    folder: "AIDS",
    other_folders: &[],
    format: Format::TuDataset,
    task: Level::Graph,
    licence: "not stated",
    home: TU_HOME,
    files: &[RemoteFile {
        path: "raw/AIDS.zip",
        url: "https://www.chrsmrrs.com/graphkerneldatasets/AIDS.zip",
        bytes: 437_890,
        approximate: true,
        checks: Checks::members(&[
            ("AIDS_A.txt", "9da8e3f787d1dbdc80a35f205707bd0bec0778261fb7e54355c061912f8d8380"),
            ("AIDS_edge_labels.txt", "47e3eac0bf8c6196af7d5532fba3d2c9b29014740d471bd4696149a5ef2bf7d7"),
            ("AIDS_graph_indicator.txt", "8a1ede4f84bcba1f5a7f49fe7e89cdc74466645b62175603710b80300fb68be4"),
            ("AIDS_graph_labels.txt", "da9c413b24b0a808b497a4567f57dce975d0eb9dc69c5db82aec6a172c88e28f"),
            ("AIDS_node_attributes.txt", "e47595d48fa329d84183fd68f8b4a6b327fd05690e3d335ffcdc6b7c110f081c"),
            ("AIDS_node_labels.txt", "d90cda6258c58f4c3facaa2e6a71e1b589da13f0162af59881400a3c8f0c514a"),
        ]),
    }],
    layouts: &[
        FileLayout::directory(
            "",
            &["AIDS_A.txt", "AIDS_graph_indicator.txt", "AIDS_graph_labels.txt", "AIDS_node_labels.txt"],
        ),
        FileLayout::directory(
            "AIDS",
            &["AIDS_A.txt", "AIDS_graph_indicator.txt", "AIDS_graph_labels.txt", "AIDS_node_labels.txt"],
        ),
    ],
    shape: KnownSizes { nodes: 31_385, edge_rows: 32_390, features: 23, classes: 2, graphs: 2_000 },
    notes: "compounds, active against HIV or not; some graphs are disconnected",
};

pub(super) const MUTAGENICITY: Entry = Entry {
    name: "mutagenicity",
    folder: "Mutagenicity",
    other_folders: &[],
    format: Format::TuDataset,
    task: Level::Graph,
    licence: "not stated",
    home: TU_HOME,
    files: &[RemoteFile {
        path: "raw/Mutagenicity.zip",
        url: "https://www.chrsmrrs.com/graphkerneldatasets/Mutagenicity.zip",
        bytes: 913_824,
        approximate: true,
        checks: Checks::members(&[
            ("Mutagenicity_A.txt", "ae85e22b4b898ebd819d2ed3adc8f06a7bf1cda746b333086472d19b36711145"),
            ("Mutagenicity_edge_labels.txt", "bf8e783386ac22e6033bbce56d765c0a4336649bd590a6f1e467b27b549f2114"),
            ("Mutagenicity_graph_indicator.txt", "88b2d83ff10fad75b3280654061e965976f74e75620058c371ed23567236b4bc"),
            ("Mutagenicity_graph_labels.txt", "b604c7dcbfdf89193901e32abdcbf9b5b92137414ce22231f00ed65d48ec48f9"),
            ("Mutagenicity_node_labels.txt", "b429ec418c831d02dc3088b2fe08d11214627850d2bbdacfa9797c0510e70ae7"),
        ]),
    }],
    layouts: &[
        FileLayout::directory(
            "",
            &[
                "Mutagenicity_A.txt",
                "Mutagenicity_graph_indicator.txt",
                "Mutagenicity_graph_labels.txt",
                "Mutagenicity_node_labels.txt",
            ],
        ),
        FileLayout::directory(
            "Mutagenicity",
            &[
                "Mutagenicity_A.txt",
                "Mutagenicity_graph_indicator.txt",
                "Mutagenicity_graph_labels.txt",
                "Mutagenicity_node_labels.txt",
            ],
        ),
    ],
    shape: KnownSizes { nodes: 131_488, edge_rows: 133_447, features: 14, classes: 2, graphs: 4_337 },
    notes: "compounds, mutagen or not; some graphs are disconnected",
};

// Heavy atoms and the bonds between them, counted in this very file: 30.89 and 34.07 per molecule. The paper's table says
// 30.42 and 32.56, which neither of two ways of counting gives.
pub(super) const HERG_KARIM: Entry = Entry {
    name: "herg-karim",
    folder: "hERG-Karim",
    other_folders: &["herg_karim"],
    format: Format::Smiles,
    task: Level::Graph,
    licence: "CC BY 4.0 (as Therapeutics Data Commons lists it)",
    home: "https://tdcommons.ai/single_pred_tasks/tox/#herg-blockers-karim",
    files: &[RemoteFile {
        path: "raw/herg_karim.tab",
        url: "https://dataverse.harvard.edu/api/access/datafile/6822246",
        bytes: 885_072,
        approximate: false,
        checks: Checks {
            sha256: Some("b47cbff0d65bbb5c6ade5ecd4c5bab20158c6cbf631a68f355efbe7e5fafc099"),
            md5: Some("cf699546d80721c9a160f4a6ac9b368b"),
            members: &[],
        },
    }],
    layouts: &[FileLayout::file("herg_karim.csv")],
    shape: KnownSizes { nodes: 415_286, edge_rows: 458_063, features: 65, classes: 2, graphs: 13_445 },
    notes: "molecules as SMILES strings, hERG channel blocker or not",
};
