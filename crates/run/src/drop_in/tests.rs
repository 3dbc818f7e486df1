//! Drop-in monitors: what goes out comes back, and damaged streams are refused.

use lineside_host::Stopwatch;
use lineside_time::Random;
use lineside_trace::read::{PartReader, Value};
use lineside_wire::build::FrameBuilder;
use lineside_wire::dissect;

use super::*;

const ETHERNET: u16 = 1;

/// Three heads: TCP, UDP over IPv6, and no IP.
fn heads() -> Rows {
    let mut rows = Rows::default();
    let tcp = FrameBuilder::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let udp = FrameBuilder::new([1, 0, 0, 0, 0, 0, 0, 2].into(), [3; 8].into());
    let frames = [
        (Some(1_700_000_000_000_000_001), udp.udp(53, 9, b"abc")),
        (None, tcp.udp(1, 2, b"")),
        (Some(-5), vec![7; 60]),
    ];
    for (place, (time_ns, frame)) in frames.iter().enumerate() {
        let len = frame.len() as u32;
        let headers = dissect(ETHERNET, frame, frame.len());
        rows.push(
            (*time_ns, place as u16 % 2),
            (len, len),
            &headers,
            &frame[..place],
        );
    }
    rows
}

fn places() -> Vec<(String, &'static str)> {
    vec![
        ("eth0, \"a\"".to_owned(), "came"),
        ("eth1".to_owned(), "left"),
    ]
}

fn arrow() -> Vec<u8> {
    let (mut stream, mut body) = (Vec::new(), Body::default());
    put_arrow_schema(true, &mut stream);
    body.fill(&heads(), true, &places());
    let missed = Missed {
        batches: 2,
        heads: 9,
    };
    body.put(missed, &mut stream);
    put_arrow_end(&mut stream);
    stream
}

/// What a table becomes that a program writes so: names of columns, and rows.
fn answer(form: Form, stream: &[u8]) -> Result<(Vec<String>, Vec<Vec<Value>>), String> {
    let parent = tempfile::tempdir().expect("a folder");
    let folder = RunFolder::create(&parent.path().join("run"), None).expect("created");
    let budget = Budget::new(64 << 20);
    let mut answer = Answer::new("monitor_x", "id", &folder, &budget);
    let since = Stopwatch::start();
    let mut input = stream;
    match form {
        Form::Arrow => read_arrow::read(&mut input, since, &mut answer)?,
        Form::Csv => read_csv::read(&mut input, since, &mut answer)?,
    }
    let summary = answer.finish()?.ok_or("no table")?;
    let path = folder.path().join("monitor_x/part-000000.parquet");
    let part = PartReader::open(std::fs::File::open(path).expect("there")).expect("Parquet");
    assert_eq!(part.row_count(), summary.rows);
    let names: Vec<_> = part.column_names().map(str::to_owned).collect();
    let wanted: Vec<_> = names.iter().map(String::as_str).collect();
    let rows = part.rows(&wanted).expect("columns");
    let rows = rows.map(|row| row.expect("a row")).collect();
    Ok((names, rows))
}

#[test]
fn heads_come_back_as_the_rows_that_they_were() {
    let (names, rows) = answer(Form::Arrow, &arrow()).expect("a table");
    assert_eq!(names.join(","), columns_text());
    let text = |text: &str| Value::Text(text.to_owned());
    let number = Value::Integer;
    assert_eq!(
        rows[0],
        [
            number(1_700_000_000_000_000_001),
            text("eth0, \"a\""),
            text("came"),
            number(65),
            number(65),
            text("1::2"),
            text("3:3:3:3:3:3:3:3"),
            number(53),
            number(9),
            text("udp"),
            Value::Null,
            Value::Null,
            Value::Null,
            Value::Null,
            number(3),
            Value::Bytes(Vec::new()),
        ]
    );
    assert_eq!(rows[1][0], Value::Null);
    assert_eq!(rows[1][5], text("10.0.0.1"));
    assert_eq!(rows[2][0], number(-5));
    assert_eq!(rows[2][5..15], vec![Value::Null; 10]);
    assert_eq!(rows[2][15], Value::Bytes(vec![7, 7]));
    assert_eq!(rows.len(), 3);
}

fn columns_text() -> String {
    let mut names = Vec::new();
    put_csv_names(true, &mut names);
    String::from_utf8(names).expect("text").trim().to_owned()
}

#[test]
fn addresses_read_as_everywhere() {
    for octet in 0..=255 {
        let address = std::net::Ipv4Addr::from([octet, 0, 255 - octet, octet]);
        let mut text = Vec::new();
        heads::Cell::Address(address.into()).put_text(&mut text);
        assert_eq!(String::from_utf8(text).expect("text"), address.to_string());
    }
}

#[test]
fn csv_has_the_same_heads() {
    let mut lines = Vec::new();
    put_csv_names(true, &mut lines);
    let missed = Missed {
        batches: 2,
        heads: 9,
    };
    put_csv(&heads(), true, &places(), missed, &mut lines);
    let text = String::from_utf8(lines.clone()).expect("text");
    assert!(
        text.contains("\n# dropped_batches=2 dropped_heads=9\n"),
        "{text}"
    );
    let (_, rows) = answer(Form::Csv, &lines).expect("a table");
    let (_, expected) = answer(Form::Arrow, &arrow()).expect("a table");
    for (row, expected) in rows.iter().zip(&expected) {
        // Numbers are text here, and bytes are in hexadecimal.
        for (cell, expected) in row.iter().zip(expected).take(15) {
            let expected = match expected {
                Value::Integer(number) => Value::Text(number.to_string()),
                other => other.clone(),
            };
            assert_eq!(*cell, expected);
        }
    }
    assert_eq!(rows[2][15], Value::Text("0707".to_owned()));
}

#[test]
fn columns_of_csv_have_the_types_that_they_name() {
    let text = b"a:integer,c:boolean,d,e:text\n1,true,,x\n";
    let (names, rows) = answer(Form::Csv, text).expect("a table");
    assert_eq!(names, ["a", "c", "d", "e"]);
    assert_eq!(rows[0][0], Value::Integer(1));
    assert_eq!(rows[0][1..3], [Value::Boolean(true), Value::Null]);
    for (text, why) in [
        (&b"a:int\n"[..], "type 'int'"),
        (b"a,a\n", "a column 'a' twice"),
        (
            b"a:integer\n1\nx\n",
            "line 3: 'x' is no value of the column 'a'",
        ),
        (b"a,b\n1\n", "line 2 has 1 fields"),
        (b"\xff\n", "line 1 is not UTF-8"),
        (b"a\n\"x\n", "line 2 has a quote that does not end"),
    ] {
        let error = answer(Form::Csv, text).expect_err(why);
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn output_that_is_no_arrow_is_refused_by_name() {
    let whole = arrow();
    let error = answer(Form::Arrow, b"hello, world\n").expect_err("no stream");
    assert!(error.contains("begins with 'hello, w'"), "{error}");
    let error = answer(Form::Arrow, &whole[..whole.len() - 100]).expect_err("cut");
    assert!(error.contains("ends in the middle of a batch"), "{error}");
    let error = answer(Form::Arrow, &whole[..100]).expect_err("cut");
    assert!(error.contains("ends in the middle of a message"), "{error}");
}

#[test]
fn damaged_streams_are_refused_and_never_panic() {
    let whole = arrow();
    let mut refused = 0;
    for seed in 0..500 {
        let mut random = Random::new(seed);
        let mut damaged = whole.clone();
        for _ in 0..=random.below(3) {
            let at = random.below(damaged.len() as u64) as usize;
            damaged[at] = random.bits() as u8;
        }
        damaged.truncate(damaged.len() - random.below(2) as usize * random.below(64) as usize);
        refused += u64::from(answer(Form::Arrow, &damaged).is_err());
    }
    assert!(refused > 50, "{refused} of 500");
}

#[test]
fn drop_ins_are_named_once_and_not_as_tables_of_ours() {
    let parse = |words: &[&str]| {
        let words: Vec<_> = words.iter().map(|&words| words.to_owned()).collect();
        DropIn::parse_all(&words)
    };
    let both = parse(&["a=csv:awk 'x=1'", "b_2= python3 x.py"]).expect("two");
    assert_eq!(
        (both[0].form, both[0].command.as_str()),
        (Form::Csv, "awk 'x=1'")
    );
    assert_eq!(
        (both[1].form, both[1].table().as_str()),
        (Form::Arrow, "monitor_b_2")
    );
    assert_eq!(both[0].to_string(), "a=csv:awk 'x=1'");
    for (words, error) in [
        (&["a"][..], DropInError::Form("a".to_owned())),
        (&["A=x"], DropInError::Name("A".to_owned())),
        (&["=x"], DropInError::Name(String::new())),
        (&["a="], DropInError::Empty("a".to_owned())),
        (&["flows=x"], DropInError::Own("flows".to_owned())),
        (&["a=x", "a=y"], DropInError::Twice("a".to_owned())),
    ] {
        assert_eq!(parse(words), Err(error), "{words:?}");
    }
}
