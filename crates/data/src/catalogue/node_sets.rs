//! Node tasks of the catalogue: Planetoid, heterophilous graphs, Open Graph Benchmark, Illinois Graph Benchmark.
//!
//! Checksums of Planetoid and Tolokers are those of the files in the repositories that publish them.

use super::{Checks, Entry, FileLayout, Format, KnownSizes, RemoteFile};
use harmonia_graph::dataset::Level;

const PLANETOID_LICENCE: &str = "not stated (the repository that publishes it: MIT)";

pub(super) const CORA: Entry = Entry {
    name: "cora",
    folder: "Cora",
    other_folders: &[],
    format: Format::Planetoid,
    task: Level::Node,
    licence: PLANETOID_LICENCE,
    home: "https://github.com/kimiyoung/planetoid",
    files: &[
        planetoid(
            "raw/ind.cora.x",
            "https://github.com/kimiyoung/planetoid/raw/master/data/ind.cora.x",
            22_119,
            "23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab",
        ),
        planetoid(
            "raw/ind.cora.tx",
            "https://github.com/kimiyoung/planetoid/raw/master/data/ind.cora.tx",
            148_025,
            "b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a",
        ),
        planetoid(
            "raw/ind.cora.allx",
            "https://github.com/kimiyoung/planetoid/raw/master/data/ind.cora.allx",
            257_305,
            "9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543",
        ),
        planetoid(
            "raw/ind.cora.y",
            "https://github.com/kimiyoung/planetoid/raw/master/data/ind.cora.y",
            4_054,
            "94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1",
        ),
        planetoid(
            "raw/ind.cora.ty",
            "https://github.com/kimiyoung/planetoid/raw/master/data/ind.cora.ty",
            28_135,
            "41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad",
        ),
        planetoid(
            "raw/ind.cora.ally",
            "https://github.com/kimiyoung/planetoid/raw/master/data/ind.cora.ally",
            47_959,
            "2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71",
        ),
        planetoid(
            "raw/ind.cora.graph",
            "https://github.com/kimiyoung/planetoid/raw/master/data/ind.cora.graph",
            59_847,
            "58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d",
        ),
        planetoid(
            "raw/ind.cora.test.index",
            "https://github.com/kimiyoung/planetoid/raw/master/data/ind.cora.test.index",
            5_000,
            "297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875",
        ),
    ],
    layouts: &[],
    shape: KnownSizes { nodes: 2_708, edge_rows: 10_556, features: 1_433, classes: 7, graphs: 1 },
    notes: "citations between papers; public split; edge rows count both directions",
};

pub(super) const CITESEER: Entry = Entry {
    name: "citeseer",
    folder: "CiteSeer",
    other_folders: &[],
    format: Format::Planetoid,
    task: Level::Node,
    licence: PLANETOID_LICENCE,
    home: "https://github.com/kimiyoung/planetoid",
    files: &[
        planetoid(
            "raw/ind.citeseer.x",
            "https://github.com/kimiyoung/planetoid/raw/master/data/ind.citeseer.x",
            31_087,
            "d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6",
        ),
        planetoid(
            "raw/ind.citeseer.tx",
            "https://github.com/kimiyoung/planetoid/raw/master/data/ind.citeseer.tx",
            260_321,
            "539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21",
        ),
        planetoid(
            "raw/ind.citeseer.allx",
            "https://github.com/kimiyoung/planetoid/raw/master/data/ind.citeseer.allx",
            595_021,
            "2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668",
        ),
        planetoid(
            "raw/ind.citeseer.y",
            "https://github.com/kimiyoung/planetoid/raw/master/data/ind.citeseer.y",
            3_014,
            "8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924",
        ),
        planetoid(
            "raw/ind.citeseer.ty",
            "https://github.com/kimiyoung/planetoid/raw/master/data/ind.citeseer.ty",
            24_135,
            "55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce",
        ),
        planetoid(
            "raw/ind.citeseer.ally",
            "https://github.com/kimiyoung/planetoid/raw/master/data/ind.citeseer.ally",
            55_623,
            "f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95",
        ),
        planetoid(
            "raw/ind.citeseer.graph",
            "https://github.com/kimiyoung/planetoid/raw/master/data/ind.citeseer.graph",
            61_987,
            "d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7",
        ),
        planetoid(
            "raw/ind.citeseer.test.index",
            "https://github.com/kimiyoung/planetoid/raw/master/data/ind.citeseer.test.index",
            5_000,
            "2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4",
        ),
    ],
    layouts: &[],
    shape: KnownSizes { nodes: 3_327, edge_rows: 9_104, features: 3_703, classes: 6, graphs: 1 },
    notes: "citations between papers; public split; edge rows count both directions; 15 nodes without features",
};

pub(super) const TOLOKERS: Entry = Entry {
    name: "tolokers",
    folder: "Tolokers",
    other_folders: &[],
    format: Format::Heterophilous,
    task: Level::Node,
    licence: "not stated (the repository that publishes it: MIT)",
    home: "https://github.com/yandex-research/heterophilous-graphs",
    files: &[RemoteFile {
        path: "raw/tolokers.npz",
        url: "https://github.com/yandex-research/heterophilous-graphs/raw/main/data/tolokers.npz",
        bytes: 1_329_769,
        approximate: false,
        checks: Checks::sha256("dacf3ac94cec53d03cd2adb5255c08b33dee1656c33ca8164a464bd9450a1667"),
    }],
    layouts: &[],
    shape: KnownSizes { nodes: 11_758, edge_rows: 519_000, features: 10, classes: 2, graphs: 1 },
    notes: "workers of a crowdsourcing platform; 10 splits of its own",
};

pub(super) const OGBN_ARXIV: Entry = Entry {
    name: "ogbn-arxiv",
    folder: "ogbn-arxiv",
    other_folders: &["ogbn_arxiv", "arxiv"],
    format: Format::Ogb,
    task: Level::Node,
    licence: "ODC-BY",
    home: "https://ogb.stanford.edu/docs/nodeprop/#ogbn-arxiv",
    files: &[RemoteFile {
        path: "raw/arxiv.zip",
        url: "https://snap.stanford.edu/ogb/data/nodeproppred/arxiv.zip",
        bytes: 81_000_000,
        approximate: true,
        checks: Checks::NONE,
    }],
    layouts: &[FileLayout::directory(
        "",
        &[
            "raw/edge.csv.gz",
            "raw/node-feat.csv.gz",
            "raw/node-label.csv.gz",
            "raw/num-node-list.csv.gz",
            "raw/num-edge-list.csv.gz",
            "split/time/train.csv.gz",
            "split/time/valid.csv.gz",
            "split/time/test.csv.gz",
        ],
    )],
    shape: KnownSizes { nodes: 169_343, edge_rows: 1_166_243, features: 128, classes: 40, graphs: 1 },
    notes: "citations between arXiv papers, directed; split by year",
};

const IGB_FILES: &[&str] = &[
    "processed/paper/node_feat.npy",
    "processed/paper/node_label_19.npy",
    "processed/paper__cites__paper/edge_index.npy",
];

// The size is that of the features, a million rows of 1024 floats, which hardly compress.
pub(super) const IGB_SMALL: Entry = Entry {
    name: "igb-small",
    folder: "IGB-Small",
    other_folders: &["igb_small", "small"],
    format: Format::Igb,
    task: Level::Node,
    licence: "ODC-BY",
    home: "https://github.com/IllinoisGraphBenchmark/IGB-Datasets",
    files: &[RemoteFile {
        path: "raw/igb_homogeneous_small.tar.gz",
        url: "https://igb-public-awsopen.s3.amazonaws.com/igb-homogeneous/igb_homogeneous_small.tar.gz",
        bytes: 4_000_000_000,
        approximate: true,
        checks: Checks::md5("6781c699723529902ace0a95cafe6fe4"),
    }],
    layouts: &[FileLayout::directory("", IGB_FILES), FileLayout::directory("small", IGB_FILES)],
    shape: KnownSizes { nodes: 1_000_000, edge_rows: 12_070_502, features: 1_024, classes: 19, graphs: 1 },
    notes: "citations between papers, directed; features are embeddings of the text",
};

// 1.38 GiB is what its publisher's own loader announces.
pub(super) const OGBN_PRODUCTS: Entry = Entry {
    name: "ogbn-products",
    folder: "ogbn-products",
    other_folders: &["ogbn_products", "products"],
    format: Format::Ogb,
    task: Level::Node,
    licence: "Amazon licence",
    home: "https://ogb.stanford.edu/docs/nodeprop/#ogbn-products",
    files: &[RemoteFile {
        path: "raw/products.zip",
        url: "https://snap.stanford.edu/ogb/data/nodeproppred/products.zip",
        bytes: 1_480_000_000,
        approximate: true,
        checks: Checks::NONE,
    }],
    layouts: &[FileLayout::directory(
        "",
        &[
            "raw/edge.csv.gz",
            "raw/node-feat.csv.gz",
            "raw/node-label.csv.gz",
            "raw/num-node-list.csv.gz",
            "raw/num-edge-list.csv.gz",
            "split/sales_ranking/train.csv.gz",
            "split/sales_ranking/valid.csv.gz",
            "split/sales_ranking/test.csv.gz",
        ],
    )],
    shape: KnownSizes { nodes: 2_449_029, edge_rows: 61_859_140, features: 100, classes: 47, graphs: 1 },
    notes: "products bought together; split by sales rank; one row per edge",
};

const fn planetoid(path: &'static str, url: &'static str, bytes: u64, sha256: &'static str) -> RemoteFile {
    RemoteFile { path, url, bytes, approximate: false, checks: Checks::sha256(sha256) }
}
