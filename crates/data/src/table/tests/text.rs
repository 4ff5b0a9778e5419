//! Text tables: what is read, and what is said of what is not.

use super::*;

/// What is said of every bad row of edges.
const ADVICE: &str = " (to leave such rows out, set drop_bad_rows = true)";

#[test]
fn names_words_labels_and_splits_in_one_table() {
    let nodes = "\u{feff}id;Size;colour;ok;Label;split\r\n\
                 \"b;1\";1.5;red;True;cat;train\r\n\
                 a;-2e-1;blue;False;dog;Validation\r\n\
                 \r\n\
                 c;0;red;False;;\r\n\
                 007;3;\"dark red\";True;cat;test\r\n";
    let dataset = loaded(&[("nodes.csv", nodes), ("edges.tsv", "a\tb;1\nb;1\tc\n007\t007\na\tb;1\n")]);
    assert_eq!(dataset.node_names, ["b;1", "a", "c", "007"]);
    assert_eq!(dataset.feature_names, ["Size", "colour=blue", "colour=dark red", "colour=red", "ok"]);
    assert_eq!(
        *dataset.features.dense(),
        [1.5, 0.0, 0.0, 1.0, 1.0, -0.2, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 3.0, 0.0, 1.0, 0.0, 1.0]
    );
    assert_eq!((dataset.labels.clone(), dataset.level), (classes(&[0, 1, UNLABELLED, 0], 2), Level::Node));
    assert_eq!(dataset.class_names, ["cat", "dog"]);
    assert_eq!((&dataset.split, dataset.own_splits.len()), (&split(&[0], &[1], &[3]), 1));
    assert_eq!(neighbours(&dataset, 0), [(1, 1.0), (2, 1.0)]);
    assert_eq!(neighbours(&dataset, 3), [(3, 1.0)]);
}

#[test]
fn a_matrix_without_header_and_separate_files() {
    let dataset = loaded(&[
        ("features.csv", "1,0\n0,1\n1,1\n0,0\n"),
        ("edges.txt", "# from a crawl\n# FromNodeId ToNodeId\n0  1\n2 3\n"),
        ("labels.csv", "2\n0\n1\n1\n"),
        ("train.txt", "3\n0\n"),
        ("val.csv", "id\n1\n"),
        ("feature_names.txt", "left\nright\n"),
        ("class_names.txt", "x\ny\nz\nnever\n"),
        ("node_names.txt", "p\nq\nr\ns\n"),
    ]);
    assert_eq!(*dataset.features.dense(), [1.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0]);
    assert_eq!((dataset.labels.clone(), &dataset.split), (classes(&[2, 0, 1, 1], 4), &split(&[3, 0], &[1], &[])));
    assert_eq!((&dataset.feature_names[..], dataset.class_names.len()), (&["left", "right"].map(String::from)[..], 4));
    assert_eq!(dataset.node_names, ["p", "q", "r", "s"]);
    assert_eq!(dataset.graph.directed_edges(), 4);
}

#[test]
fn files_with_ids_may_be_in_any_order() {
    let dataset = loaded(&[
        ("nodes.csv", "id\nx\ny\nz\n"),
        ("features.csv", "f,id\n3,z\n1,x\n2,y\n"),
        ("labels.csv", "z,1\nx,0\n"),
        ("splits.csv", "id,split\nz,train\nx,test\n"),
        ("edges.csv", "x,y\ny,z\n"),
    ]);
    assert_eq!(*dataset.features.dense(), [1.0, 2.0, 3.0]);
    assert_eq!((dataset.labels.clone(), &dataset.split), (classes(&[0, UNLABELLED, 1], 2), &split(&[2], &[], &[0])));
    // The first row holds known ids, so it is no header.
    assert_eq!(dataset.graph.directed_edges(), 4);
}

#[test]
fn integer_ids_need_not_be_row_numbers() {
    let dataset = loaded(&[("nodes.csv", "id,f,label\n30,1,0\n10,2,1\n"), ("edges.csv", "10,30\n")]);
    assert_eq!((&dataset.node_names[..], neighbours(&dataset, 0)), (&["30".into(), "10".into()][..], vec![(1, 1.0)]));
    // Where they are, the nodes have no other names.
    let dataset = loaded(&[("nodes.csv", "id,f,label\n0,1,0\n1,2,1\n"), ("edges.csv", "0,1\n")]);
    assert!(dataset.node_names.is_empty());
}

#[test]
fn columns_may_have_other_names() {
    let root = directory(&texts(&[
        ("nodes.csv", "name,age,kind,note\nx,1,0,a\ny,2,1,b\n"),
        ("links.csv", "a,b,strength,when\nx,y,2.5,1999\n"),
    ]));
    let mut options = options(&root);
    options.edges = Some(root.path().join("links.csv"));
    options.columns = Columns {
        source: Some("a".into()),
        target: Some("b".into()),
        weight: Some("strength".into()),
        id: Some("name".into()),
        label: Some("kind".into()),
        ignore: vec!["when".into(), "note".into()],
        ..Columns::default()
    };
    options.directed = true;
    let dataset = load("own", &options).unwrap();
    assert_eq!((&dataset.feature_names[..], &dataset.node_names[1][..]), (&["age".to_string()][..], "y"));
    assert_eq!((neighbours(&dataset, 0), neighbours(&dataset, 1)), (vec![(1, 2.5)], vec![]));
}

#[test]
fn weights_listed_both_ways_are_not_doubled() {
    let weights = |edges: &str| {
        let dataset = loaded(&[NODES, ("edges.csv", edges)]);
        assert!(dataset.graph.is_symmetric());
        (neighbours(&dataset, 0), neighbours(&dataset, 1))
    };
    let expected = (vec![(1, 0.5)], vec![(0, 0.5), (2, 2.0)]);
    assert_eq!(weights("0,1,0.5\n1,2,2\n"), expected);
    assert_eq!(weights("Source,Target,Weight\n0,1,0.5\n1,0,0.5\n1,2,2\n2,1,2\n"), expected);
}

#[test]
fn several_labels_a_node() {
    let nodes = "f,label:red,label:green,label:blue\n1,1,0,1\n2,0,0,0\n3,0,1.0,false\n";
    let dataset = loaded(&[("nodes.csv", nodes), EDGES]);
    assert_eq!(dataset.labels, Labels::Multi { bits: vec![1, 0, 1, 0, 0, 0, 0, 1, 0], width: 3 });
    assert_eq!(dataset.class_names, ["red", "green", "blue"]);
    let message = refused(&[("nodes.csv", "f,label:a,label:b\n1,1,0\n2,2,0\n3,,1\n"), EDGES]);
    assert_eq!(message, "nodes.csv: line 3: column `label:a`: expected 0 or 1, found `2` (and 1 more bad row)");
}

#[test]
fn graph_tasks_sort_the_nodes_by_graph() {
    let files = [
        ("nodes.csv", "id,f,graph\na,1,g2\nb,2,g1\nc,3,g2\nd,4,g1\n"),
        ("graphs.csv", "graph,label,split\ng1,toxic,train\ng2,safe,test\n"),
        ("edges.csv", "a,c\nb,d\n"),
    ];
    let dataset = loaded(&files);
    assert_eq!((&dataset.graph_ptr[..], dataset.level), (&[0, 2, 4][..], Level::Graph));
    assert_eq!(
        (&dataset.features.dense()[..], dataset.node_names.concat()),
        (&[2.0, 4.0, 1.0, 3.0][..], "bdac".into())
    );
    assert_eq!((dataset.labels.clone(), &dataset.split), (classes(&[1, 0], 2), &split(&[0], &[], &[1])));
    assert_eq!((neighbours(&dataset, 0), neighbours(&dataset, 3)), (vec![(1, 1.0)], vec![(2, 1.0)]));

    let with = |at: usize, text: &'static str| {
        let mut files = files;
        files[at].1 = text;
        refused(&files)
    };
    let message = with(2, "a,c\nb,d\na,b\n");
    assert_eq!(
        message,
        "edges.csv: line 3: expected an edge inside one graph, found a and b of two graphs".to_string() + ADVICE
    );
    let message = with(1, "graph,label\ng1,0\ng22,1\n");
    assert!(
        message.starts_with("nodes.csv: line 2: node names graph `g2`, which graphs.csv does not have"),
        "{message}"
    );
    assert!(message.contains("(and 1 more bad row)"), "{message}");
    let message = with(1, "graph,label\ng1,0\ng2,1\ng3,1\n");
    assert_eq!(message, "graphs.csv: line 4: this graph has no node in nodes.csv; drop it");
    let message = with(0, "id,f,graph,label\na,1,g2,0\nb,2,g1,1\nc,3,g2,0\nd,4,g1,1\n");
    assert!(message.starts_with("graphs.csv: has labels, and so has nodes.csv"), "{message}");
}

#[test]
fn labels_of_a_row_a_graph_or_of_the_nodes_of_many_graphs() {
    let nodes = ("nodes.csv", "f,graph\n1,1\n2,0\n3,1\n4,0\n");
    let dataset = loaded(&[nodes, ("labels.csv", "label\n1\n0\n"), ("edges.csv", "0,2\n1,3\n"), ("train.csv", "1\n")]);
    assert_eq!((dataset.labels.clone(), dataset.level), (classes(&[1, 0], 2), Level::Graph));
    assert_eq!((dataset.split.train.clone(), dataset.features.dense()[0]), (vec![1], 2.0));
    // One label per node: nodes are still sorted, and their labels and splits with them.
    let labels = ("labels.csv", "0\n1\n2\n1\n");
    let dataset = loaded(&[nodes, labels, ("edges.csv", "0,2\n1,3\n"), ("train.csv", "2\n")]);
    assert_eq!((dataset.labels.clone(), dataset.level), (classes(&[1, 1, 0, 2], 3), Level::Node));
    assert_eq!((&dataset.graph_ptr[..], &dataset.split.train[..]), (&[0, 2, 4][..], &[3][..]));
}

#[test]
fn bad_edges_are_named_by_file_line_and_reason() {
    let edges = |text| refused(&[NODES, ("edges.csv", text)]);
    let expected = "edges.csv: line 3: edge expected a node id from 0 to 2 (nodes.csv has 3 rows), found `3`; ids start \
                    at 0 (and 1 more bad row)";
    assert_eq!(edges("source,target\n0,1\n1,3\n-1,0\n"), expected.to_string() + ADVICE);
    assert_eq!(edges("0,1\n1,2,3\n"), "edges.csv: line 2: expected 2 fields (source, target), found 3");
    let weight = edges("0,1,1\n1,2,-2\n2,0,0\n");
    assert_eq!(
        weight,
        "edges.csv: line 2: expected a weight > 0, found -2; 1 more row has no weight > 0 (line 3)".to_string()
            + ADVICE
    );
    // Of all kinds, each is counted, and each may be left out.
    let mixed = edges("0,1,1\n1,2,-2\n2,0,0\n0,7,1\n");
    assert!(mixed.contains("line 4: edge") && mixed.ends_with(&format!(" (and 2 more bad rows){ADVICE}")), "{mixed}");
    assert_eq!(edges("0,1,1\n1,2,heavy\n"), "edges.csv: line 2: expected a weight > 0, found `heavy`");
    assert!(edges("0,1,1\n1,2,\n").contains("line 2: expected a weight > 0, found none (to leave such rows out"));
    let extra = edges("source,target,wieght\n0,1,1\n");
    assert!(extra.contains("column `wieght`") && extra.contains("did you mean `weight`?"), "{extra}");
    let lost = edges("sorce,target\n0,1\n");
    assert_eq!(
        lost,
        "edges.csv: expected a column `source`, found sorce, target; rename `sorce`, or set column.source = `sorce`"
    );
    assert!(edges("0,1,2,3\n").contains("line 1: expected source, target and perhaps weight, found 4 columns"));
    assert!(edges("source,target,src\n0,1,1\n").contains("`source` and `src` both mean source"));
    assert!(edges("").contains("is empty"));
    assert!(edges("0,1\n\"2,1\n").contains("line 2: expected a closing quote"));

    let nodes = ("nodes.csv", "id,f,label\nx71,1,0\ny,2,1\n");
    let message = refused(&[nodes, ("edges.csv", "source,target\ny,x71\nx17,y\n")]);
    let expected = "edges.csv: line 3: edge names node `x17`, which nodes.csv does not have; did you mean `x71`?";
    assert_eq!(message, expected.to_string() + ADVICE);
    // Nothing is lost where the first row is neither a header nor known ids.
    assert!(refused(&[nodes, ("edges.csv", "x17,y\ny,x71\n")]).contains("expected a column `source`"));
}

#[test]
fn many_bad_rows_are_counted_up_to_a_bound() {
    let edges = "7,7\n".repeat(5000);
    assert!(refused(&[NODES, ("edges.csv", &edges)]).ends_with(&format!("(and at least 999 more bad rows){ADVICE}")));
}

#[test]
fn bad_nodes_are_named_by_file_line_and_reason() {
    let nodes = |text: &str| refused(&[("nodes.csv", text), EDGES]);
    let message = nodes("age,label\n1,0\ninf,1\n1e60,1\n");
    let expected = "nodes.csv: column `age`: line 3: expected a finite 32-bit number, found `inf` (and 1 more cell)";
    assert_eq!(message, expected);
    let many: String = (0..70).map(|i| if i < 3 { format!("{i},0\n") } else { format!("w{i},1\n") }).collect();
    let message = nodes(&format!("age,label\n{many}"));
    assert!(message.starts_with("nodes.csv: column `age`: line 5: expected a number, found `w3`"), "{message}");
    assert!(message.contains("more than 64 distinct values"), "{message}");
    let commas: String = (0..70).map(|i| format!("{i},5;0\n")).collect();
    assert!(nodes(&format!("age;label\n{commas}")).contains("found `0,5`; save it with decimal points"));
    assert!(
        nodes(&format!("a,label\n{}", "1,0,0\n".repeat(2))).contains("line 2: expected 2 fields (a, label), found 3")
    );
    let message = nodes("id,f,label\nx,1,0\ny,2,1\nx,3,0\n");
    assert_eq!(message, "nodes.csv: line 4: node id `x` is already on line 2; ids must differ");
    assert!(nodes("id,f,label\nx,1,0\n,2,1\n").contains("line 3: expected a node id, found nothing"));
    assert!(nodes(",a,label\n0,1,0\n").contains("the first column has no name"));
    assert!(nodes("n1,0.5,0.25\nn2,1,1\n").contains("line 1: expected a header of names or a row of numbers"));
    assert!(nodes("f,f,label\n1,2,0\n").contains("column `f` is there twice"));
    assert!(nodes("id,label\n0,0\n1,1\n2,0\n").contains("expected columns of features"));
    assert!(nodes("f,label\n").contains("expected at least one node"));
    let message = refused(&[("nodes.csv", "f,label\n1,0\n"), ("features.csv", "1\n"), EDGES]);
    assert!(message.starts_with("features.csv: nodes.csv has features too"), "{message}");
    let message = refused(&[("nodes.csv", "id,label\na,0\nb,1\n"), ("features.csv", "1\n"), EDGES]);
    assert_eq!(message, "features.csv: expected one row for each of the 2 nodes, found 1");
}

#[test]
fn bad_labels_and_splits_are_named_by_file_line_and_reason() {
    let labels = |text: &str| refused(&[("features.csv", "1\n2\n3\n"), EDGES, ("labels.csv", text)]);
    assert!(labels("0\n0.25\n1\n").starts_with("labels.csv: line 2: expected a class, found the number 0.25"));
    assert!(labels("0\n-1\n1\n").starts_with("labels.csv: line 2: expected a class from 0, found -1"));
    assert!(labels("0\n1\n700\n").starts_with("labels.csv: line 3: expected classes from 0 to k-1, found 700"));
    assert!(labels("0\n0\n0\n").contains("expected at least two classes, found 1"));
    assert_eq!(labels("0\n1\n"), "labels.csv: expected one row for each of the 3 nodes, found 2");
    assert!(labels("id,label\n0,0\n1,1\n0,1\n").contains("line 4: node `0` is already on line 2"));
    assert!(labels("id,label\n0,0\n9,1\n").contains("line 3: expected a node id from 0 to 2"));
    let words =
        [("features.csv", "1\n2\n3\n"), EDGES, ("labels.csv", "cat\ndgo\ncat\n"), ("class_names.txt", "cat\ndog")];
    assert_eq!(refused(&words), "labels.csv: line 2: label `dgo` is not in class_names; did you mean `dog`?");

    let twice = [words[0], words[1], words[2], ("class_names.txt", "cat\ncat\n")];
    assert_eq!(refused(&twice), "class_names.txt: line 2: this class is there already; name it once");

    let splits = |text: &str| refused(&[NODES, EDGES, ("splits.csv", text)]);
    let expected = "splits.csv: line 3: expected train, valid, test or nothing, found `tset`; did you mean `test`?";
    assert_eq!(splits("id,split\n0,train\n1,tset\n"), expected);
    assert!(splits("id,split\n1,test\n").contains("train split is empty"));
    let twice = refused(&[NODES, EDGES, ("splits.csv", "id,split\n0,train\n"), ("test.txt", "1\n")]);
    assert!(twice.contains("the split is given more than once"), "{twice}");
    let overlap = refused(&[NODES, EDGES, ("train.txt", "0\n1\n"), ("test.txt", "1\n")]);
    assert!(overlap.contains("train split and in the test"), "{overlap}");
    let nodes = ("nodes.csv", "f,label,split\n1,0,train\n2,1,train\n3,,test\n");
    let message = refused(&[nodes, EDGES]);
    assert!(message.starts_with("nodes.csv: `2` is in a split but has no label (1 such in all)"), "{message}");
}

#[test]
fn missing_double_and_misspelt_files_are_named() {
    assert!(refused(&[NODES]).contains("expected a file edges.csv"));
    assert!(refused(&[EDGES]).contains("expected nodes.* with feature columns, or features.*"));
    assert!(refused(&[EDGES, ("features.csv", "1\n2\n3\n")]).contains("expected a column label in nodes.*"));
    let message = refused(&[NODES, EDGES, ("edges.tsv", "0\t1\n")]);
    assert_eq!(message, "edges.csv: edges.tsv is there too, for the same part; keep one of them");
    let message = refused(&[NODES, EDGES, ("split.csv", "0,train\n")]);
    assert_eq!(message, "split.csv: is no part of a table dataset; did you mean `splits`?");
    let message = refused_with(&[NODES, EDGES], |options| options.edges = Some(options.directory.join("other.csv")));
    assert!(message.starts_with("cannot read other.csv"), "{message}");
    let message = refused_with(&[NODES, EDGES], |options| options.nodes = Some(options.directory.join("nodes.xlsx")));
    assert!(message.starts_with("nodes.xlsx: expected a file that ends in .csv"), "{message}");
    let names = refused(&[NODES, EDGES, ("node_names.txt", "a\nb\n")]);
    assert_eq!(names, "node_names.txt: expected a name for each of the 3 nodes, found 2");
    let names = refused(&[NODES, EDGES, ("feature_names.txt", "a\n")]);
    assert!(names.starts_with("feature_names.txt: the features have names in their table already"), "{names}");
}

#[test]
fn other_encodings_are_refused_with_the_line() {
    let refused = |bytes: &[u8]| {
        let root = directory(&[("nodes.csv", bytes), ("edges.csv", b"0,1\n")]);
        load("own", &options(&root)).unwrap_err().to_string()
    };
    let message = refused(b"f,label\n1,0\n2,caf\xe9\n");
    assert!(message.contains("nodes.csv: line 3: expected UTF-8 text"), "{message}");
    assert!(refused(b"\xff\xfef\0").contains("found UTF-16"));
}

#[test]
fn a_slip_among_numbers_is_refused_and_none_is_a_class() {
    let rows: String =
        (0..20).map(|i| format!("{},{}\n", if i == 7 { "1O.5".into() } else { i.to_string() }, i % 2)).collect();
    let nodes = format!("score,label\n{rows}");
    let message = refused(&[("nodes.csv", &nodes), ("edges.csv", "0,1\n")]);
    assert!(
        message.contains("nodes.csv: column `score`: line 9: expected a number, found `1O.5`; 19 of 20"),
        "{message}"
    );

    let nodes = "x,label\n1,none\n2,mild\n3,NA\n4,\n";
    let dataset = loaded(&[("nodes.csv", nodes), ("edges.csv", "0,1\n")]);
    assert_eq!(dataset.class_names, ["NA", "mild", "none"]);
    assert_eq!(dataset.labels, Labels::Classes { ids: vec![2, 1, 0, UNLABELLED], classes: 3 });
}

#[test]
fn classes_from_one_and_half_mirrored_weights_are_not_guessed() {
    let message = refused(&[("nodes.csv", "x,label\n1,1\n2,2\n3,1\n"), ("edges.csv", "0,1\n")]);
    assert!(message.contains("found none of class 0"), "{message}");
    let edges = "source,target,weight\n0,1,2\n1,0,2\n1,2,3\n2,1,3\n0,2,5\n";
    let refusal = refused(&[("nodes.csv", "x,label\n1,0\n2,1\n3,1\n"), ("edges.csv", edges)]);
    assert!(refusal.contains("4 of 5 weighted edges are listed both ways"), "{refusal}");
}
