//! Many units at once, as CSV, JSONL and Parquet: the same words and numbers as of one unit at a time.

use crate::program::Scratch;
use crate::{AS_IS, CUSTOMERS, customers, json, predictions, tables, trained};
use serde_json::Value;

#[test]
fn many_predictions_are_written_and_explained_as_one_by_one() {
    let scratch = Scratch::new();
    trained(&scratch);
    tables(&scratch, "new", &customers(false, str::to_string, &AS_IS));
    // Parquet says what CSV says.
    scratch.harmonia_ok(&["predict", "run", "new", "--out", "p.csv"]);
    scratch.harmonia_ok(&["predict", "run", "new", "--out", "p.parquet"]);
    let known = predictions(&scratch, "p.csv");
    let rows = parquet_rows(&scratch, "p.parquet");
    assert_eq!(rows.len(), known.len());
    for (row, (prediction, leaves)) in rows.iter().zip(&known) {
        assert_eq!((&row["prediction"], row["label"].is_null()), (&prediction.as_str().into(), true));
        assert!((row["p(leaves)"].as_f64().unwrap() - leaves).abs() < 1e-6);
    }

    scratch.write("ids.txt", "C7\n\nC3\n  C119\n");
    let explain = |more: &[&'static str]| [&["explain", "run", "--data", "new"][..], more].concat();
    for file in ["e.csv", "e.jsonl", "e.parquet"] {
        let said = json(&scratch, &explain(&["--node", "@ids.txt", "--node", "0", "--top", "3", "--out", file]));
        assert_eq!((said["units"].as_u64(), said["terms"].as_u64()), (Some(4), Some(12)));
        assert!(said["largest_residual"].as_f64().unwrap() < 1e-4);
    }
    let lines = std::fs::read_to_string(scratch.path("e.jsonl")).unwrap();
    let objects: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let near = |a: &Value, b: &Value| (a.as_f64().unwrap() - b.as_f64().unwrap()).abs() < 1e-4;
    let rows = parquet_rows(&scratch, "e.parquet");
    for (at, (object, name)) in objects.iter().zip(["C7", "C3", "C119", "C0"]).enumerate() {
        let one = json(&scratch, &explain(&["--node", name, "--top", "3"]));
        assert_eq!(
            (&object["name"], &object["predicted"], &object["class"]),
            (&name.into(), &one["predicted"], &one["class"])
        );
        for key in ["logit", "intercept", "rest"] {
            assert!(near(&object[key], &one[key]), "{key}: {object} {one}");
        }
        let terms = one["contributions"].as_array().unwrap();
        for (place, term) in terms.iter().enumerate() {
            let (found, row) = (&object["contributions"][place], &rows[3 * at + place]);
            assert_eq!((&found["feature"], &found["x"]), (&term["feature"], &term["x"]));
            assert!(near(&found["value"], &term["value"]) && near(&row["adds"], &term["value"]));
            // In its own units, as a text: columns hold numbers, dates and categories alike.
            let x = term["x"].as_str().map_or_else(|| term["x"].to_string(), String::from);
            assert_eq!((&row["feature"], &row["name"], &row["x"]), (&term["feature"], &name.into(), &x.into()));
        }
    }
    let csv = std::fs::read_to_string(scratch.path("e.csv")).unwrap();
    assert!(csv.starts_with("node,name,prediction,class,logit,intercept,rest,residual,feature,x,adds\n7,C7,"), "{csv}");
    assert_eq!(csv.lines().count(), 13);
    // All of them, by other keys, against a class; and to standard output.
    let all = json(&scratch, &explain(&["--by", "node,hop", "--class", "stays", "--top", "1", "--out", "all.parquet"]));
    assert_eq!(all["units"], CUSTOMERS);
    let rows = parquet_rows(&scratch, "all.parquet");
    assert!(
        rows.len() == CUSTOMERS
            && rows[5]["source"].is_string()
            && rows[5]["hop"].is_i64()
            && rows[5]["class"] == "stays"
    );
    let printed = scratch.harmonia_ok(&explain(&["--node", "C1", "--out", "-"]));
    assert!(printed.starts_with("node,name,") && printed.lines().count() == 6, "{printed}");
    let several = json(&scratch, &explain(&["--node", "C1", "--node", "C2"]));
    assert_eq!((&several[0]["name"], &several[1]["name"]), (&"C1".into(), &"C2".into()));
    scratch.write("none.txt", "\n");
    scratch.write("wrong.txt", "C1\nC1190\n");
    for (node, part) in
        [("@none.txt", "found none"), ("@wrong.txt", "no node `C1190`"), ("@nowhere.txt", "nowhere.txt")]
    {
        scratch.refused("harmonia", &explain(&["--node", node, "--out", "x.csv"]), &[part]);
    }
}

/// The rows of a Parquet file, as objects.
fn parquet_rows(scratch: &Scratch, file: &str) -> Vec<Value> {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;
    let reader = SerializedFileReader::new(std::fs::File::open(scratch.path(file)).unwrap()).unwrap();
    let value = |field: &Field| match field {
        Field::Long(number) => (*number).into(),
        Field::Double(number) => (*number).into(),
        Field::Str(text) => text.as_str().into(),
        Field::Null => Value::Null,
        other => panic!("{other:?}"),
    };
    let row = |row: parquet::record::Row| {
        let cells = row.get_column_iter().map(|(name, field)| (name.clone(), value(field)));
        Value::Object(cells.collect())
    };
    reader.get_row_iter(None).unwrap().map(|one| row(one.unwrap())).collect()
}
