//! Drop-in monitors: what goes out comes back, and damaged streams are refused.

use lineside_time::Random;
use lineside_trace::read::{PartReader, Value};
use lineside_trace::{GivenCell, GivenColumn};
use lineside_wire::build::FrameBuilder;
use lineside_wire::dissect;

use super::flat::{Builder, Field};

use super::write::{arrow, put_message};
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

/// Names of columns, and rows.
type Columns = (Vec<String>, Vec<Vec<Value>>);

/// What a table becomes that a program writes so: names of columns, and rows.
fn answer(form: Form, stream: &[u8]) -> Result<Columns, String> {
    let (table, read) = answer_and_error(form, stream);
    read.and_then(|()| table.ok_or_else(|| "no table".to_owned()))
}

/// The same, and why the output is refused after it, if it is.
fn answer_and_error(form: Form, stream: &[u8]) -> (Option<Columns>, Result<(), String>) {
    let parent = tempfile::tempdir().expect("a folder");
    let folder = RunFolder::create(&parent.path().join("run"), None).expect("created");
    let budget = Budget::new(64 << 20);
    let mut answer = Answer::new("monitor_x", "id", &folder, &budget);
    let mut input = stream;
    let read = read_rows(form, &mut input, &mut answer);
    let Some(summary) = answer.finish().expect("encoded") else {
        return (None, read);
    };
    let path = folder.path().join("monitor_x/part-000000.parquet");
    let part = PartReader::open(std::fs::File::open(path).expect("there")).expect("Parquet");
    assert_eq!(part.row_count(), summary.rows);
    let names: Vec<_> = part.column_names().map(str::to_owned).collect();
    let wanted: Vec<_> = names.iter().map(String::as_str).collect();
    let rows = part.rows(&wanted).expect("columns");
    let rows = rows.map(|row| row.expect("a row")).collect();
    (Some((names, rows)), read)
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

/// Counts the values of each column, and rows.
#[derive(Default)]
struct Counted(Vec<usize>, usize);

impl GivenRows for Counted {
    fn begin(&mut self, columns: Vec<GivenColumn>) -> Result<(), String> {
        self.0 = vec![0; columns.len()];
        Ok(())
    }

    fn push(&mut self, column: usize, _: GivenCell<'_>) -> Result<(), String> {
        self.0[column] += 1;
        Ok(())
    }

    fn advance(&mut self, rows: usize) -> Result<(), String> {
        self.1 += rows;
        Ok(())
    }
}

#[test]
fn rows_before_a_refused_one_are_kept_whole() {
    let counted = |form, mut stream: &[u8]| {
        let mut counted = Counted::default();
        let read = read_rows(form, &mut stream, &mut counted);
        assert!(read.is_err());
        (counted.0, counted.1)
    };
    let lines = b"a,b:integer\nx,1\ny,2\nz,no\n";
    let (table, read) = answer_and_error(Form::Csv, lines);
    assert!(read.expect_err("no number").contains("line 4"));
    let text = |text: &str| Value::Text(text.to_owned());
    let row = |name: &str, number| vec![text(name), Value::Integer(number)];
    assert_eq!(table.expect("a table").1, [row("x", 1), row("y", 2)]);
    assert_eq!(counted(Form::Csv, lines), (vec![2, 2], 2));
    // Of the second batch the first column is as it should be.
    let texts = |last: u8| {
        let body = [
            &[0, 0, 0, 0, 1, 0, 0, 0, b'a', 0, 0, 0],
            &[0, 0, 0, 0, 1, 0, 0, 0, last][..],
        ];
        (
            body.concat(),
            [(0, 0), (0, 8), (8, 1), (0, 0), (12, 8), (20, 1)],
        )
    };
    let (whole, buffers) = texts(b'b');
    let (damaged, _) = texts(0xff);
    let mut stream = Vec::new();
    put_schema(&["a", "b"], arrow::UTF8, &[], &mut stream);
    put_batch(&[(1, 0); 2], &buffers, &whole, &mut stream);
    put_batch(&[(1, 0); 2], &buffers, &damaged, &mut stream);
    assert_eq!(counted(Form::Arrow, &stream), (vec![1, 1], 1));
    let (table, read) = answer_and_error(Form::Arrow, &stream);
    assert!(read.expect_err("no text").contains("not UTF-8"));
    assert_eq!(table.expect("a table").1, [[text("a"), text("b")]]);
}

/// A schema with columns of one type.
fn put_schema(names: &[&str], number: u8, of: &[Field], out: &mut Vec<u8>) {
    let mut builder = Builder::default();
    let name = |name| (name, builder.text(name));
    let mut places = std::collections::BTreeMap::new();
    places.extend({ names.iter().copied() }.map(name));
    let mut field = |name| {
        let of = builder.table(of);
        let children = builder.places(&[]);
        builder.table(&[
            Field::At(places[name]),
            Field::Byte(1),
            Field::Byte(number),
            Field::At(of),
            Field::Absent,
            Field::At(children),
        ])
    };
    let fields: Vec<_> = names.iter().map(|name| field(*name)).collect();
    let fields = builder.places(&fields);
    let schema = builder.table(&[Field::Short(0), Field::At(fields)]);
    put_message(builder, arrow::SCHEMA, schema, 0, Missed::default(), out);
}

fn put_batch(nodes: &[(i64, i64)], buffers: &[(i64, i64)], body: &[u8], out: &mut Vec<u8>) {
    let mut builder = Builder::default();
    let rows = nodes[0].0;
    let (nodes, buffers) = (builder.pairs(nodes), builder.pairs(buffers));
    let batch = builder.table(&[Field::Long(rows), Field::At(nodes), Field::At(buffers)]);
    let len = body.len();
    put_message(
        builder,
        arrow::RECORD_BATCH,
        batch,
        len,
        Missed::default(),
        out,
    );
    out.extend_from_slice(body);
}

/// What is small as it is written is small as it is read: nothing in it counts many times.
#[test]
fn nothing_is_read_that_is_larger_than_what_was_written() {
    let refused = |stream: &[u8], why: &str| {
        let error = answer(Form::Arrow, stream).expect_err(why);
        assert!(error.contains(why), "{error}");
    };
    // Two columns whose values lie in the same place.
    let mut stream = Vec::new();
    put_schema(
        &["a", "b"],
        arrow::INT,
        &[Field::Int(64), Field::Byte(1)],
        &mut stream,
    );
    let buffers = [(0, 0), (0, 800), (0, 0), (0, 800)];
    put_batch(&[(100, 0); 2], &buffers, &[7; 800], &mut stream);
    refused(&stream, "contradicts its schema or itself");
    // Each second text is null, and the others are all of the same bytes.
    let mut stream = Vec::new();
    put_schema(&["a"], arrow::UTF8, &[], &mut stream);
    let offsets: Vec<u8> = (0..17_u32)
        .flat_map(|row| (row % 2 * 500).to_le_bytes())
        .collect();
    let body = [&[0x55, 0x55, 0, 0][..], &offsets, &[b'x'; 500]].concat();
    put_batch(
        &[(16, 8)],
        &[(0, 2), (4, 68), (72, 500)],
        &body,
        &mut stream,
    );
    refused(&stream, "contradicts its schema or itself");
    // A bit for each of many values.
    let mut stream = Vec::new();
    let names: Vec<_> = (0..1_000).map(|number| format!("c{number}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    put_schema(&names, 6, &[], &mut stream);
    put_batch(&[(100_000, 0); 1_000], &[], &[0; 12_500], &mut stream);
    refused(&stream, "with 1000 columns 67108 are the most");
    // Names that are long, and fields that are many and all the same.
    let mut stream = Vec::new();
    put_schema(&["n".repeat(1_001).as_str()], 6, &[], &mut stream);
    refused(&stream, "has 1001 bytes");
    let mut stream = Vec::new();
    put_schema(&["a"; 1_001], 6, &[], &mut stream);
    refused(&stream, "it names 1001 columns");
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
