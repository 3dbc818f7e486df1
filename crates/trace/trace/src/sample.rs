//! Random cells and rows for tests, and what must be read back of them.

use std::net::IpAddr;

use lineside_rows::{Address, Blob, Label, Row, Text, Word};
use lineside_time::Random;

use crate::read::Value;

pub(crate) trait Sample {
    fn sample(random: &mut Random) -> Self;
    fn value(&self) -> Value;
}

pub(crate) trait SampleRow: Row {
    fn sample(random: &mut Random) -> Self;
    fn values(&self) -> Vec<Value>;
}

/// Few, many or extreme: what repeats and what does not.
fn integer(random: &mut Random) -> i64 {
    match random.below(8) {
        0 => i64::MIN,
        1 => i64::MAX,
        2 => -1,
        3 => random.bits().cast_signed(),
        _ => random.below(5) as i64,
    }
}

fn bytes(random: &mut Random) -> Vec<u8> {
    let mut bytes = vec![0; random.below(12) as usize];
    random.fill(&mut bytes);
    if random.chance(0.5) {
        bytes.iter_mut().for_each(|byte| *byte = b'\\' + *byte % 8);
    }
    bytes
}

fn null_or(value: Option<Value>) -> Value {
    value.unwrap_or(Value::Null)
}

impl Sample for i64 {
    fn sample(random: &mut Random) -> Self {
        integer(random)
    }
    fn value(&self) -> Value {
        Value::Integer(*self)
    }
}

impl Sample for i32 {
    fn sample(random: &mut Random) -> Self {
        integer(random) as Self
    }
    fn value(&self) -> Value {
        Value::Integer((*self).into())
    }
}

impl Sample for bool {
    fn sample(random: &mut Random) -> Self {
        random.chance(0.2)
    }
    fn value(&self) -> Value {
        Value::Boolean(*self)
    }
}

macro_rules! optional {
    ($($type:ty),*) => {$(
        impl Sample for Option<$type> {
            fn sample(random: &mut Random) -> Self {
                random.chance(0.4).then(|| Sample::sample(random))
            }
            fn value(&self) -> Value {
                null_or(self.map(|value| value.value()))
            }
        }
    )*};
}

optional!(i64, i32, bool);

impl Sample for Label {
    fn sample(random: &mut Random) -> Self {
        [None, Some("tcp"), Some("udp"), Some("")][random.below(4) as usize]
    }
    fn value(&self) -> Value {
        null_or(self.map(|text| Value::Text(text.to_owned())))
    }
}

impl Sample for Address {
    fn sample(random: &mut Random) -> Self {
        match random.below(4) {
            0 => None,
            1 => Some(IpAddr::from((random.bits() as u32).to_be_bytes())),
            2 => Some(IpAddr::from((random.bits() as u128).to_be_bytes())),
            _ => Some(IpAddr::from([10, 0, 0, random.below(3) as u8])),
        }
    }
    fn value(&self) -> Value {
        null_or(self.map(|address| Value::Text(address.to_string())))
    }
}

impl Sample for Word {
    fn sample(random: &mut Random) -> Self {
        match random.below(4) {
            0 => Self::None,
            1 => Self::Number(integer(random)),
            _ => Self::Known("NFS3_OK"),
        }
    }
    fn value(&self) -> Value {
        match *self {
            Self::None => Value::Null,
            Self::Known(text) => Value::Text(text.to_owned()),
            Self::Number(number) => Value::Text(number.to_string()),
        }
    }
}

impl Sample for Text {
    fn sample(random: &mut Random) -> Self {
        let mut text = Self::default();
        if random.chance(0.5) {
            text.set(&bytes(random));
        }
        text
    }
    fn value(&self) -> Value {
        null_or(self.escaped().map(Value::Text))
    }
}

impl Sample for Blob {
    fn sample(random: &mut Random) -> Self {
        let mut blob = Self::default();
        if random.chance(0.5) {
            blob.set(&bytes(random));
        }
        blob
    }
    fn value(&self) -> Value {
        null_or(self.bytes().map(|bytes| Value::Bytes(bytes.to_vec())))
    }
}
