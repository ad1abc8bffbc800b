//! One value of MessagePack or JSON, of any shape: logs are looked into before they are believed.

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Nothing,
    Truth(bool),
    Int(i128),
    Float(f64),
    Text(String),
    Bytes(Vec<u8>),
    List(Vec<Value>),
    Map(Vec<(Value, Value)>),
}

/// Why there is no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fault {
    /// The bytes end inside it.
    #[error("it ends early")]
    Ends,
    /// It is no MessagePack.
    #[error("no MessagePack: {0}")]
    Broken(String),
}

/// The value in MessagePack at the start of some bytes, and how many it takes.
pub(super) fn packed(bytes: &[u8]) -> Result<(Value, usize), Fault> {
    let mut rest = std::io::Cursor::new(bytes);
    let mut decoder = rmp_serde::Deserializer::new(&mut rest);
    let value = Value::deserialize(&mut decoder);
    let len = usize::try_from(rest.position()).unwrap_or(bytes.len()).min(bytes.len());
    match value {
        Ok(value) => Ok((value, len)),
        Err(rmp_serde::decode::Error::InvalidMarkerRead(error) | rmp_serde::decode::Error::InvalidDataRead(error))
            if error.kind() == std::io::ErrorKind::UnexpectedEof =>
        {
            Err(Fault::Ends)
        }
        Err(error) => Err(Fault::Broken(error.to_string())),
    }
}

impl Value {
    /// What it is, in a word.
    pub(super) fn what(&self) -> &'static str {
        match self {
            Value::Nothing => "nothing",
            Value::Truth(_) => "true or false",
            Value::Int(_) => "a whole number",
            Value::Float(_) => "a number",
            Value::Text(_) => "text",
            Value::Bytes(_) => "bytes",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
        }
    }
    /// The value of a key of a map.
    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        let Value::Map(pairs) = self else { return None };
        pairs.iter().find(|(name, _)| matches!(name, Value::Text(name) if name == key)).map(|(_, value)| value)
    }
    /// As a number.
    pub(super) fn number(&self) -> Option<f64> {
        match self {
            Value::Int(number) => Some(*number as f64),
            Value::Float(number) => Some(*number),
            Value::Nothing | Value::Truth(_) | Value::Text(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_) => None,
        }
    }
    /// As a whole number.
    pub(super) fn int(&self) -> Option<i128> {
        if let Value::Int(number) = self { Some(*number) } else { None }
    }
    /// As text, bytes in UTF-8 too: older packers know no text.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            Value::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
            Value::Nothing | Value::Truth(_) | Value::Int(_) | Value::Float(_) | Value::List(_) | Value::Map(_) => None,
        }
    }
    /// As a list.
    pub(super) fn list(&self) -> Option<&[Value]> {
        if let Value::List(items) = self { Some(items) } else { None }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(Any)
    }
}

struct Any;

impl<'de> Visitor<'de> for Any {
    type Value = Value;
    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("any value")
    }
    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Nothing)
    }
    fn visit_none<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Nothing)
    }
    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Value::deserialize(deserializer)
    }
    fn visit_bool<E: Error>(self, truth: bool) -> Result<Value, E> {
        Ok(Value::Truth(truth))
    }
    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Int(number.into()))
    }
    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Int(number.into()))
    }
    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        Ok(Value::Float(number))
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }
    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Value, E> {
        Ok(Value::Bytes(bytes.to_vec()))
    }
    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        // MessagePack's extensions: a number and bytes.
        Value::deserialize(deserializer)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        // A declared length alone allocates nothing.
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::List(list))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut pairs: A) -> Result<Value, A::Error> {
        let mut map = Vec::new();
        while let Some(pair) = pairs.next_entry()? {
            map.push(pair);
        }
        Ok(Value::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_end_where_they_end() {
        let bytes = [0x93, 0x01, 0xa1, b'a', 0xc0, 0x07];
        let list = Value::List(vec![Value::Int(1), Value::Text("a".into()), Value::Nothing]);
        assert_eq!(packed(&bytes), Ok((list, 5)));
        for short in 0..5 {
            assert_eq!(packed(&bytes[..short]), Err(Fault::Ends), "{short} bytes");
        }
        // A list that declares more than there can be.
        assert_eq!(packed(&[0xdd, 0xff, 0xff, 0xff, 0xff, 1]), Err(Fault::Ends));
        assert_eq!(packed(&[0xc6, 0xff, 0xff, 0xff, 0xff, 1]), Err(Fault::Ends));
        assert!(matches!(packed(&[0xc1]), Err(Fault::Broken(_))));
    }
}
