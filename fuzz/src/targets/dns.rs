//! DNS: any message. What is lent after a check is all there, and a zone's answer can be read.

use lineside_dns::{Data, Message, NameBuf, Zone};

pub(crate) fn run(data: &[u8]) {
    if let Ok(message) = Message::parse(data) {
        let counts = message.header().counts.map(usize::from);
        let [questions, answers, authorities, additionals] = counts;
        assert_eq!(message.questions().count(), questions);
        let records = answers + authorities + additionals;
        assert_eq!(message.records().count(), records);
        for record in message.records() {
            assert!(record.name.labels().count() <= 127);
            assert!(record.name.is(record.name));
            if let Data::Name(name) = record.data {
                // Each byte of a label is at most four when it is escaped.
                assert!(name.to_string().len() <= 4 * 255);
            }
        }
        let again = Message::parse(message.bytes());
        assert!(again.is_ok_and(|again| again.bytes() == message.bytes()));
    }
    for origin in [".", "example.org"] {
        let zone = Zone {
            origin: NameBuf::parse(origin).expect("a name"),
            a: Some([192, 0, 2, 1].into()),
            aaaa: None,
            ttl_s: 60,
        };
        let mut answer = Vec::new();
        if zone.answer(data, &mut answer) {
            assert!(answer.len() < 512);
            let read = Message::parse(&answer).expect("what we write can be read");
            assert!(read.header().is_response());
            assert_eq!(answer[..2], data[..2]);
            let query = Message::parse(data);
            if read.header().counts[0] == 1 {
                assert!(query.is_ok_and(|query| read.answers(&query)));
            }
        } else {
            assert!(answer.is_empty());
        }
    }
}
