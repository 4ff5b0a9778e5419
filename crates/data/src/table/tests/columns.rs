//! Columns as they are: gaps, categories, dates, orders, kinds by file; other data by the columns of a model.

use super::*;
use crate::table::{Loaded, Scoring, SplitBy, load_noted};
use harmonia_graph::dataset::{ColumnKind, Level, Schema, TableColumn};

const EDGES: (&str, &str) = ("edges.csv", "a,b\nb,c\nc,d\n");
const PEOPLE: &str = "id,age,colour,since,member,label\na,31,red,2024-01-31,true,yes\nb,,blue,2024-02-01,false,no\n\
                      c,40,,2024-02-02T12:00:00Z,true,yes\nd,50,red,,true,no\n";

fn schema() -> Schema {
    let people = loaded(&[("nodes.csv", PEOPLE), EDGES]);
    (**people.schema.as_ref().unwrap()).clone()
}

#[test]
fn gaps_categories_dates_and_booleans_become_features() {
    let people = loaded(&[("nodes.csv", PEOPLE), EDGES]);
    let names = [
        "age",
        "age is missing",
        "colour=blue",
        "colour=red",
        "colour is missing",
        "since",
        "since is missing",
        "member",
    ];
    assert_eq!(people.feature_names, names);
    let x = people.features.dense();
    assert_eq!(x[..8], [31.0, 0.0, 0.0, 1.0, 0.0, 19753.0, 0.0, 1.0]);
    assert_eq!(x[8..16], [40.0, 1.0, 1.0, 0.0, 0.0, 19754.0, 0.0, 0.0]);
    assert_eq!(x[16..24], [40.0, 0.0, 0.0, 0.0, 1.0, 19755.5, 0.0, 1.0]);
    assert_eq!(x[24..], [50.0, 0.0, 0.0, 1.0, 0.0, 19754.0, 1.0, 1.0]);
    let kinds: Vec<ColumnKind> = schema().columns.iter().map(|column| column.kind).collect();
    assert_eq!(kinds, [ColumnKind::Number, ColumnKind::Category, ColumnKind::Date, ColumnKind::Boolean]);
    let row = |node: usize, column: usize| {
        let range = schema().ranges()[column].clone();
        schema().columns[column].text(&x[8 * node..][range])
    };
    assert_eq!([row(1, 0), row(2, 1), row(2, 2), row(0, 3)], ["missing", "missing", "2024-02-02 12:00", "true"]);
}

#[test]
fn gaps_among_words_are_gaps_but_none_is_a_word() {
    let nodes = "allergy,label\nnuts,0\nNA,1\nn/a,0\nnone,1\n,0\nnull,1\nNone,0\n";
    let dataset = loaded(&[("nodes.csv", nodes), ("edges.csv", "0,1\n")]);
    assert_eq!(dataset.feature_names, ["allergy=None", "allergy=none", "allergy=nuts", "allergy is missing"]);
    let missing: Vec<f32> = dataset.features.dense().iter().skip(3).step_by(4).copied().collect();
    assert_eq!(missing, [0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 0.0]);
}

#[test]
fn kinds_are_said_in_a_file() {
    let nodes = "zip,size,rank,label\n1,small,low,0\n2,large,high,1\n1,medium,low,0\n";
    let kinds = "zip = \"category\"\nsize = [\"small\", \"medium\", \"large\"]\nrank = \"ordered\"\n";
    let files = [("nodes.csv", nodes), ("edges.csv", "0,1\n"), ("column_kinds.toml", kinds)];
    let dataset = loaded(&files);
    assert_eq!(dataset.feature_names, ["zip=1", "zip=2", "size", "rank"]);
    assert_eq!(*dataset.features.dense(), [1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 1.0, 1.0, 0.0, 1.0, 0.0]);
    assert_eq!(dataset.schema.unwrap().columns[2].values, ["low", "high"]);
    let with = |kinds| refused(&[files[0], files[1], ("column_kinds.toml", kinds)]);
    assert!(with("zip = \"categroy\"").contains("did you mean `category`?"));
    assert!(with("zpi = \"category\"").contains("has no feature `zpi`, of which a kind is given; did you mean `zip`?"));
    assert!(
        with("size = [\"small\", \"large\"]")
            .contains("column `size`: expected small, large, found `medium` in 1 rows")
    );
    assert!(with("zip =").contains("column_kinds.toml: is not valid TOML"));
    assert!(
        with("size = \"number\"")
            .contains("column `size`: line 2: expected a number, found `small` (and 2 more cells)")
    );
}

#[test]
fn all_columns_with_problems_are_named_at_once() {
    let message = refused(&[("nodes.csv", "a,b,label\ninf,1,0\n2,1e99,1\n3,inf,1\n"), ("edges.csv", "0,1\n")]);
    let expected = "nodes.csv: column `a`: line 2: expected a finite 32-bit number, found `inf`; column `b`: line 3: expected \
                    a finite 32-bit number, found `1e99` (and 1 more cell)";
    assert_eq!(message, expected);
    assert!(
        refused(&[("nodes.csv", "a,b,label\n1,,0\n2,,1\n"), ("edges.csv", "0,1\n")]).contains("every value is missing")
    );
}

fn scored(nodes: &str) -> harmonia_graph::error::Result<Loaded> {
    let root = directory(&texts(&[("nodes.csv", nodes), ("edges.csv", "0,1\n")]));
    let class_names = vec!["no".into(), "yes".into()];
    let model = Some(Scoring { schema: schema().into(), level: Level::Node, class_names });
    load_noted("new", &Options { model, ..options(&root) })
}

#[test]
fn other_data_are_read_by_the_columns_of_a_model() {
    // Another order, an extra column, an unseen category, no labels.
    let nodes = "colour,shoe,member,age,since\nmars,44,false,,2024-01-31\nblue,41,true,20,\n";
    let Loaded { dataset, notes } = scored(nodes).unwrap();
    assert_eq!(dataset.feature_names, schema().names());
    let x = dataset.features.dense();
    assert_eq!(x[..8], [40.0, 1.0, 0.0, 0.0, 1.0, 19753.0, 0.0, 0.0]);
    assert_eq!(x[8..], [20.0, 0.0, 1.0, 0.0, 0.0, 19754.0, 1.0, 1.0]);
    assert!(!dataset.labels.is_labelled(0) && dataset.class_names == ["no", "yes"]);
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(
        notes[0].contains("left aside: `shoe`") && notes[1].contains("1 values that the model has not seen (`mars`)")
    );
    // Labels that are there are those of the model, whatever their order.
    let labelled = scored("age,colour,since,member,label\n1,red,,true,yes\n2,red,,,\n").unwrap();
    assert_eq!(labelled.dataset.labels, Labels::Classes { ids: vec![1, UNLABELLED], classes: 2 });
    assert!(
        labelled.notes[0].contains("`member`: 1 missing values, of which the model has seen none: the median, true")
    );

    let message = scored("colour,age\nred,1\nred,2\n").unwrap_err().to_string();
    assert!(message.contains("found no columns `since`, `member` (2 missing)"), "{message}");
    let message = scored("colour,age,since,member\nred,old,,true\nred,2,,true\n").unwrap_err().to_string();
    assert!(message.contains("column `age`: line 2: expected a number, found `old`"), "{message}");
}

#[test]
fn a_split_by_time_and_a_positive_class() {
    let nodes = "day,x,label\n2024-01-01,1,churn\n2024-02-01,2,stay\n2024-03-01,3,churn\n,4,churn\n2024-04-01,5,stay\n";
    let files = [("nodes.csv", nodes), ("edges.csv", "0,1\n")];
    let by = |valid: &str, test: &str| {
        let (valid, test) = (valid.to_string(), test.to_string());
        move |options: &mut Options| {
            options.split_by = Some(SplitBy { column: "day".into(), valid_from: valid, test_from: test });
            options.positive = Some("churn".into());
        }
    };
    let root = directory(&texts(&files));
    let mut with = options(&root);
    by("2024-02-01", "2024-03-01")(&mut with);
    let dataset = load("own", &with).unwrap();
    assert_eq!(dataset.split, split(&[0], &[1], &[2, 4]));
    assert_eq!(dataset.feature_names, ["x"]);
    assert_eq!(
        (&dataset.class_names[..], dataset.labels),
        (&["stay", "churn"].map(String::from)[..], classes(&[1, 0, 1, 1, 0], 2))
    );
    assert!(refused_with(&files, by("2024-03-01", "2024-02-01")).contains("expected validation to begin before test"));
    assert!(refused_with(&files, by("soon", "later")).contains("expected such limits, found `soon` and `later`"));
    assert!(refused_with(&files, by("2030-01-01", "2031-01-01")).contains("no labelled node is left for validation"));
    assert!(refused_with(&files, |options| options.positive = Some("curn".into())).contains("did you mean `churn`?"));
}

#[test]
fn bad_edges_are_left_out_and_one_relation_is_picked() {
    let nodes = ("nodes.csv", "id,f,label\na,1,0\nb,2,1\nc,3,0\n");
    let edges = "source,target,weight,kind\na,b,1,knows\nb,c,0,knows\na,x,1,knows\nb,c,2,likes\nb,c,,knows\n";
    let message = refused(&[nodes, ("edges.csv", edges)]);
    assert!(
        message.contains("one relation between nodes is supported") && message.contains("set relation = kind=VALUE"),
        "{message}"
    );
    let root = directory(&texts(&[nodes, ("edges.csv", edges)]));
    let relation = Some(("kind".to_string(), "knows".to_string()));
    let Loaded { dataset, notes } =
        load_noted("own", &Options { relation, drop_bad_rows: true, ..options(&root) }).unwrap();
    assert_eq!(neighbours(&dataset, 1), [(0, 1.0)]);
    assert_eq!(
        notes,
        [
            "3 rows of edges left out because they are wrong",
            "1 row of edges left out because their `kind` is not `knows`"
        ]
    );
}

#[test]
fn a_schema_survives_a_store() {
    let root = directory(&texts(&[("nodes.csv", PEOPLE), EDGES]));
    let store = root.path().join("store");
    let common = crate::conversion::Common { name: "people".into(), undirected: true, ..Default::default() };
    let watch = harmonia_graph::watch::Watch::silent();
    crate::table::convert(root.path(), &store, &common, &Options::default(), &watch).unwrap();
    let dataset = harmonia_graph::store::Store::open(&store).unwrap().dataset().unwrap();
    assert_eq!(*dataset.schema.unwrap(), schema());
    let path = store.join("meta.json");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("\"name\": \"colour\"", "\"name\": \"age\"")).unwrap();
    let message = harmonia_graph::store::Store::open(&store).unwrap().dataset().unwrap_err().to_string();
    assert!(message.contains("`age` is there twice"), "{message}");
    assert_eq!(TableColumn::number("n").width(), 1);
}

#[test]
fn weights_stand_beside_the_labels_and_follow_their_units() {
    // Of nodes, which are sorted by graph; what has no label needs no weight.
    let nodes = ("nodes.csv", "graph,x,w,label\nb,1,0.5,0\na,2,3,1\nb,3,,\na,4,2,0\n");
    let files = [nodes, ("edges.csv", "0,2\n")];
    let root = directory(&texts(&files));
    let named = |column: &str| Columns { unit_weight: Some(column.into()), ..Columns::default() };
    let dataset = load("own", &Options { columns: named("w"), ..options(&root) }).unwrap();
    assert_eq!(dataset.feature_names, ["x"]);
    assert_eq!(*dataset.features.dense(), [1.0, 3.0, 2.0, 4.0]);
    let weights = dataset.weights.unwrap();
    assert_eq!((&weights.column[..], &weights.values[..]), ("w", &[0.5, 1.0, 3.0, 2.0][..]));
    // Nobody asked: then it is a feature like others, with a gap.
    assert_eq!(loaded(&files).feature_names, ["x", "w", "w is missing"]);

    let graphs = ("graphs.csv", "graph,label,times\na,1,2\nb,0,7\n");
    let files = [("nodes.csv", "graph,x\na,1\nb,2\nb,3\n"), ("edges.csv", "1,2\n"), graphs];
    let root = directory(&texts(&files));
    let dataset = load("own", &Options { columns: named("times"), ..options(&root) }).unwrap();
    assert_eq!((dataset.level, &dataset.weights.unwrap().values[..]), (Level::Graph, &[2.0, 7.0][..]));
    let message = refused_with(&files, |options| options.columns = named("tmes"));
    assert!(message.contains("graphs.csv: column `times`: expected graph, label, split"), "{message}");
}

#[test]
fn a_hundred_thousand_columns_with_problems_are_one_message() {
    const COLUMNS: usize = 100_000;
    let names: String = (0..COLUMNS).map(|k| format!("c{k},")).collect();
    let row = "inf,".repeat(COLUMNS);
    let nodes = format!("{names}label\n{row}0\n{row}1\n{row}0\n");
    let message = refused(&[("nodes.csv", &nodes), ("edges.csv", "0,1\n")]);
    assert!(message.contains("column `c0`: line 2: expected a finite 32-bit number, found `inf` (and 2 more cells)"));
    assert!(message.ends_with("and 99992 more columns") && message.len() < 2000, "{message}");
}

#[test]
fn a_column_of_true_and_false_takes_no_other_number() {
    let message = scored("age,colour,since,member\n1,red,,7\n2,red,,1\n").unwrap_err().to_string();
    assert!(message.contains("column `member`: line 2: expected true or false, or 1 or 0, found `7`"), "{message}");
    assert!(scored("age,colour,since,member\n1,red,,0\n2,red,,1\n").is_ok());
}
