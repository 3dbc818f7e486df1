//! `--csv`: what pandas and DuckDB read from it is what `--json` says.

use std::fs;
use std::process::Command;

use crate::python::python;
use crate::report::{printed, run, traced};
use crate::slow::PER;
use crate::support::{example, talk};

/// Reads FILE.csv, and FILE.json flattened by pandas, and compares column by column.
const COMPARE: &str = "
import json, sys
import duckdb, pandas
for name in sys.argv[1:]:
    text = open(name + '.json').read()
    if name == 'report':
        rows = json.loads(text)['operations']
    elif name == 'interval':
        rows = json.loads(text)['intervals']
    elif name == 'compare':
        both = json.loads(text)
        rows = [row for change in both['changes'] for row in change['figures']]
        rows += both['unchanged']
    else:
        rows = [json.loads(line) for line in text.splitlines()]
    flat = pandas.json_normalize(rows, sep='_')
    csv = pandas.read_csv(name + '.csv', dtype=str, keep_default_na=False)
    duck = duckdb.sql(f\"select count(*) from read_csv('{name}.csv')\").fetchall()[0][0]
    assert len(csv) == len(rows) == duck, (name, len(csv), len(rows), duck)
    assert set(flat.columns) <= set(csv.columns) | {'subject', 'divided'}, \
        (name, set(flat.columns) - set(csv.columns))
    for column in csv.columns:
        for at, row in enumerate(rows):
            value, path = row, column
            while isinstance(value, dict) and path not in value:
                keys = [key for key in value if path.startswith(key + '_')]
                if not keys:
                    value = None
                    break
                key = max(keys, key=len)
                value, path = value[key], path[len(key) + 1:]
            if isinstance(value, dict):
                value = value[path]
            text = csv[column][at]
            if isinstance(value, bool) or value is None:
                assert text == {True: 'true', False: 'false', None: ''}[value], (name, column)
            elif isinstance(value, list):
                assert text == ','.join(str(each) for each in value), (name, column, text)
            elif isinstance(value, float):
                assert float(text) == value, (name, column, text)
            else:
                assert text == str(value), (name, column, text, value)
print('compared', len(sys.argv) - 1)
";

#[test]
fn csv_says_what_json_says() {
    let folder = traced(&example());
    let mut forms: Vec<(String, Vec<&str>)> = vec![
        ("report".to_owned(), vec!["report", "trace"]),
        (
            "interval".to_owned(),
            vec!["report", "trace", "--interval", "0.1"],
        ),
        ("slow".to_owned(), vec!["slow", "trace", "0"]),
    ];
    for per in PER {
        forms.push((
            format!("per-{per}"),
            vec!["slow", "trace", "0", "--per", per],
        ));
    }
    let full = vec!["compare", "trace", "--at", "1s", "--full"];
    forms.push(("compare".to_owned(), full));
    let Some(python) = python() else {
        println!("SKIP: no Python with duckdb and pandas (LINESIDE_PYTHON): ./test makes one");
        return;
    };
    for (name, words) in &forms {
        for form in ["json", "csv"] {
            let flag = format!("--{form}");
            let text = printed(&run(&folder, &[&words[..], &[&flag]].concat()));
            fs::write(folder.path().join(format!("{name}.{form}")), text).expect("written");
        }
    }
    let output = Command::new(python)
        .args(["-c", COMPARE])
        .args(forms.iter().map(|(name, _)| name))
        .current_dir(folder.path())
        .output()
        .expect("Python runs");
    assert!(output.status.success(), "{}", talk(&output));
}
