//! The language of the search: what a line of words asks for.
//!
//! Words stand apart by spaces and must all hold; a leading `-` turns a word around; what stands in quotes is text,
//! spaces included. Always: a line that cannot be read names the word and says why in one sentence, and asks for
//! nothing at all; what is no other kind of word is text.

use crate::base::Bytes;

/// A search: all of its words must hold.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FindTerms {
    /// Its words, at least one.
    pub words: Vec<FindWord>,
}

/// One word of a search.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FindWord {
    /// Whether it must not hold.
    pub exclude: bool,
    /// What it asks for.
    pub what: FindWhat,
}

/// What a word asks for. Texts are in lower case.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FindWhat {
    /// Text in functions, in `file:line`, in notes and in the names of annotations.
    Text(String),
    /// What holds an address.
    Address {
        /// The address.
        address: u64,
        /// Digits alone may be a part of a name as well.
        text: Option<String>,
    },
    /// Blocks by their label.
    Label {
        /// How their address begins, in hex.
        digits: String,
        /// Which use of the address; none: all.
        use_number: Option<u32>,
        /// The word may be a part of a name as well.
        text: String,
    },
    /// A number in a range, both ends included; none where the first is larger than the last.
    Range {
        /// Which number.
        of: FindNumber,
        /// The smallest.
        low: u64,
        /// The largest.
        high: u64,
    },
    /// What belongs to the stream with this handle.
    Stream(i64),
    /// What lies in a pool.
    Pool(FindPool),
    /// What is in use at the end of the trace.
    Alive,
    /// What is older than the trace.
    Older,
}

/// Which number a range is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FindNumber {
    /// Bytes a block or segment occupies.
    Size,
    /// Bytes the program asked for.
    Requested,
    /// Events lived, cut to the trace.
    Life,
}

/// Which pools are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FindPool {
    /// The default one.
    Default,
    /// All others.
    Private,
    /// The one with PyTorch's pair.
    Pair(i64, i64),
}

/// The language in lines for people: what one writes, and what it finds.
pub const FIND_HELP: [(&str, &str); 14] = [
    ("linear mlp.py:41", "text in functions, file:line, metadata and annotations; all words must hold"),
    ("\"two words\"", "text with its spaces"),
    ("-backward", "all but these"),
    ("0x7f3c00000200", "blocks and segments that hold this address; from 8 digits on without 0x"),
    ("b7f3c00000200_3", "a block by its label, or by how the label begins"),
    (">=100MiB", "by size; also > < <= ="),
    ("1MiB..8MiB", "sizes from one to another, both included"),
    ("requested<4KiB", "by what the program asked for"),
    ("life<50", "by events lived"),
    ("stream:0", "by stream"),
    ("pool:private", "by pool: default, private, or a pair like 1,0"),
    ("alive", "in use at the end of the trace"),
    ("older", "older than the trace"),
    ("\"alive\"", "quotes make any word text"),
];

impl FindTerms {
    /// Reads a line; none where it holds no word, a sentence where it cannot be read.
    pub fn parse(line: &str) -> Result<Option<FindTerms>, String> {
        let words = glued(tokens(line)).iter().map(word).collect::<Result<Vec<FindWord>, String>>()?;
        Ok((!words.is_empty()).then_some(FindTerms { words }))
    }
}

/// A word as it stands in the line.
#[derive(Clone, Debug, Default)]
struct Token {
    exclude: bool,
    quoted: bool,
    text: String,
}

fn tokens(line: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut open: Option<Token> = None;
    let mut inside = false;
    for c in line.chars() {
        match c {
            '"' => {
                inside = !inside;
                open.get_or_insert_default().quoted = true;
            }
            c if c.is_whitespace() && !inside => tokens.extend(open.take()),
            '-' if open.is_none() => open = Some(Token { exclude: true, ..Token::default() }),
            c => open.get_or_insert_default().text.push(c),
        }
    }
    // A quote that is not closed yet runs to the end: the line is being typed.
    tokens.extend(open);
    tokens
}

/// Puts together what people write with spaces: `>= 100 MiB`.
fn glued(tokens: Vec<Token>) -> Vec<Token> {
    let mut words: Vec<Token> = Vec::with_capacity(tokens.len());
    for token in tokens {
        if let Some(last) = words.last_mut().filter(|last| !last.quoted && !token.quoted && !token.exclude) {
            let compared = comparison(&last.text).map(|(.., value)| value);
            let is_unit =
                !token.text.starts_with(|c: char| c.is_ascii_digit()) && Bytes::parse(&format!("1{}", token.text)).is_some();
            if compared.is_some_and(|value| value.is_empty() || (value.ends_with(|c: char| c.is_ascii_digit()) && is_unit)) {
                last.text.push_str(&token.text);
                continue;
            }
        }
        words.push(token);
    }
    words
}

fn word(token: &Token) -> Result<FindWord, String> {
    let told = |why: String| format!("`{}{}`: {why}", if token.exclude { "-" } else { "" }, token.text);
    let what = match (token.text.as_str(), token.quoted) {
        ("", true) => Err("nothing stands between the quotes".to_owned()),
        ("", false) => Err("the word to leave out is missing".to_owned()),
        (text, true) => Ok(FindWhat::Text(text.to_lowercase())),
        (text, false) => plain(text),
    };
    Ok(FindWord { exclude: token.exclude, what: what.map_err(told)? })
}

/// A word without quotes.
fn plain(word: &str) -> Result<FindWhat, String> {
    let text = word.to_lowercase();
    match text.as_str() {
        "alive" => return Ok(FindWhat::Alive),
        "older" => return Ok(FindWhat::Older),
        _ => {}
    }
    if let Some((of, sign, value)) = comparison(&text) {
        return compared(of, sign, value).map(|(low, high)| FindWhat::Range { of, low, high });
    }
    if let Some((low, high)) = ends_of_range(&text) {
        let (low, high) = range(FindNumber::Size, low, high)?;
        return Ok(FindWhat::Range { of: FindNumber::Size, low, high });
    }
    if let Some(name) = text.strip_prefix("stream:") {
        return stream(name).map(FindWhat::Stream);
    }
    if let Some(name) = text.strip_prefix("pool:") {
        return pool(name).map(FindWhat::Pool);
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return Ok(FindWhat::Address { address: hex(digits)?, text: None });
    }
    if let Some((digits, use_number)) = label(&text) {
        return Ok(FindWhat::Label { digits, use_number, text });
    }
    if (8..=16).contains(&text.len()) && is_hex(&text) {
        return Ok(FindWhat::Address { address: hex(&text)?, text: Some(text) });
    }
    Ok(FindWhat::Text(text))
}

/// A comparison: which number, the sign, and what stands behind it, perhaps nothing. Without a name the value must
/// begin with a digit: `<lambda>` is a function.
fn comparison(text: &str) -> Option<(FindNumber, &'static str, &str)> {
    let names = [("size", FindNumber::Size), ("requested", FindNumber::Requested), ("life", FindNumber::Life)];
    let named = names.iter().find_map(|(name, of)| Some((Some(*of), strip_ascii_prefix(text, name)?)));
    let (of, rest) = named.filter(|(_, rest)| rest.starts_with(['<', '>', '=', ':'])).unwrap_or((None, text));
    let sign = [">=", "<=", "==", ">", "<", "=", ":"].into_iter().find(|sign| rest.starts_with(sign))?;
    let value = &rest[sign.len()..];
    match of {
        Some(of) => Some((of, sign, value)),
        None if sign == ":" => None,
        None => (value.is_empty() || value.starts_with(|c: char| c.is_ascii_digit())).then_some((FindNumber::Size, sign, value)),
    }
}

fn strip_ascii_prefix<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    text.get(..prefix.len()).filter(|start| start.eq_ignore_ascii_case(prefix)).map(|_| &text[prefix.len()..])
}

fn compared(of: FindNumber, sign: &str, value: &str) -> Result<(u64, u64), String> {
    if let (":" | "=" | "==", Some((low, high))) = (sign, ends_of_range(value)) {
        return range(of, low, high);
    }
    let value = number(of, value)?;
    // What is more than the most, or less than nothing, is never.
    const NEVER: (u64, u64) = (1, 0);
    Ok(match sign {
        ">=" => (value, u64::MAX),
        "<=" => (0, value),
        ">" => value.checked_add(1).map_or(NEVER, |low| (low, u64::MAX)),
        "<" => value.checked_sub(1).map_or(NEVER, |high| (0, high)),
        _ => (value, value),
    })
}

/// What stands left and right of `..` where both look like numbers or one is missing: `../x.py` is text.
fn ends_of_range(text: &str) -> Option<(&str, &str)> {
    let (low, high) = text.split_once("..")?;
    let fits = |end: &str| end.is_empty() || end.starts_with(|c: char| c.is_ascii_digit());
    (fits(low) && fits(high) && !(low.is_empty() && high.is_empty())).then_some((low, high))
}

fn range(of: FindNumber, low: &str, high: &str) -> Result<(u64, u64), String> {
    let low = if low.is_empty() { 0 } else { number(of, low)? };
    let high = if high.is_empty() { u64::MAX } else { number(of, high)? };
    if high < low { Err("the first number is larger than the second".to_owned()) } else { Ok((low, high)) }
}

fn number(of: FindNumber, text: &str) -> Result<u64, String> {
    let (what, split) = match of {
        FindNumber::Size | FindNumber::Requested => ("size", text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_')),
        FindNumber::Life => ("number of events", text.find(|c: char| !c.is_ascii_digit() && c != '_')),
    };
    let (digits, unit) = text.split_at(split.unwrap_or(text.len()));
    if text.is_empty() {
        return Err(format!("the {what} is missing"));
    }
    if digits.is_empty() || (of == FindNumber::Life && !unit.is_empty()) {
        return Err(format!("{text} is no {what}"));
    }
    if let Some(Bytes(bytes)) = Bytes::parse(text) {
        return Ok(bytes);
    }
    if Bytes::parse(&format!("1{unit}")).is_none() {
        // As it is mostly written: XB rather than xb.
        return Err(format!("unknown unit {}", unit.to_uppercase()));
    }
    if digits.replace('_', "").parse::<f64>().is_err() {
        Err(format!("{digits} is no number"))
    } else {
        Err(format!("no {what} is so large"))
    }
}

fn stream(name: &str) -> Result<i64, String> {
    let number = match name.strip_prefix("0x") {
        // Handles are pointers: the largest are negative numbers.
        Some(digits) => u64::from_str_radix(digits, 16).ok().map(|handle| handle as i64),
        None if name == "default" => Some(0),
        None => name.parse().ok(),
    };
    number.ok_or_else(|| "a stream is a number, or default".to_owned())
}

fn pool(name: &str) -> Result<FindPool, String> {
    let pair = || -> Option<FindPool> {
        let (a, b) = name.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or(name).split_once(',')?;
        Some(FindPool::Pair(a.parse().ok()?, b.parse().ok()?))
    };
    match name {
        "default" => Ok(FindPool::Default),
        "private" => Ok(FindPool::Private),
        _ => pair().ok_or_else(|| "a pool is default, private or a pair like 1,0".to_owned()),
    }
}

fn hex(digits: &str) -> Result<u64, String> {
    if digits.is_empty() {
        return Err("the digits of the address are missing".to_owned());
    }
    if !is_hex(digits) {
        return Err(format!("{digits} is no hex number"));
    }
    let short = digits.trim_start_matches('0');
    if short.is_empty() {
        Ok(0)
    } else {
        u64::from_str_radix(short, 16).map_err(|_| "an address has at most 16 hex digits".to_owned())
    }
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// `b7f3c00000000_3`, `b7f3c…_3`, `b7f3c`: the digits an address begins with, and which use of it.
fn label(text: &str) -> Option<(String, Option<u32>)> {
    let rest = text.strip_prefix('b')?;
    let (digits, use_number) = match rest.split_once('_') {
        Some((digits, number)) => (digits, Some(number.parse().ok()?)),
        None => (rest, None),
    };
    let digits = digits.trim_end_matches('…').trim_end_matches("...");
    ((4..=16).contains(&digits.len()) && is_hex(digits)).then(|| (digits.to_owned(), use_number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn what(line: &str) -> FindWhat {
        let terms =
            FindTerms::parse(line).unwrap_or_else(|why| panic!("{line}: {why}")).unwrap_or_else(|| panic!("{line}: nothing"));
        assert_eq!(terms.words.len(), 1, "{line}: {terms:?}");
        terms.words[0].what.clone()
    }

    #[test]
    fn one_word_of_each_kind() {
        let text = |text: &str| FindWhat::Text(text.to_owned());
        let sizes = |low, high| FindWhat::Range { of: FindNumber::Size, low, high };
        let label =
            |digits: &str, use_number, text: &str| FindWhat::Label { digits: digits.into(), use_number, text: text.into() };
        let address = |address| FindWhat::Address { address, text: None };
        let either = |address, text: &str| FindWhat::Address { address, text: Some(text.to_owned()) };
        const MIB: u64 = 1 << 20;
        for (line, expected) in [
            ("Forward", text("forward")),
            ("mlp.py:41", text("mlp.py:41")),
            ("c10::cuda", text("c10::cuda")),
            ("<lambda>", text("<lambda>")),
            ("operator<", text("operator<")),
            ("../train.py", text("../train.py")),
            ("..", text("..")),
            ("size", text("size")),
            ("requested_size", text("requested_size")),
            ("ünlü", text("ünlü")),
            ("sizé=1", text("sizé=1")),
            ("\"alive\"", text("alive")),
            ("\"a  b\"", text("a  b")),
            ("pre\"a b\"post", text("prea bpost")),
            ("\"not closed yet", text("not closed yet")),
            ("\">=1MiB\"", text(">=1mib")),
            ("alive", FindWhat::Alive),
            ("OLDER", FindWhat::Older),
            (">=100MiB", sizes(100 * MIB, u64::MAX)),
            (">= 100 MiB", sizes(100 * MIB, u64::MAX)),
            (">=1.5GiB", sizes(1536 * MIB, u64::MAX)),
            ("> 0", sizes(1, u64::MAX)),
            ("<4KiB", sizes(0, 4095)),
            ("<=4k", sizes(0, 4096)),
            ("=2097152", sizes(2 * MIB, 2 * MIB)),
            ("=2_097_152", sizes(2 * MIB, 2 * MIB)),
            ("==512", sizes(512, 512)),
            ("size<4KiB", sizes(0, 4095)),
            ("SIZE:2MiB", sizes(2 * MIB, 2 * MIB)),
            ("size=1MiB..2MiB", sizes(MIB, 2 * MIB)),
            ("1MiB..8MiB", sizes(MIB, 8 * MIB)),
            ("..8MiB", sizes(0, 8 * MIB)),
            ("8MiB..", sizes(8 * MIB, u64::MAX)),
            ("=18446744073709551615", sizes(u64::MAX, u64::MAX)),
            (">18446744073709551615", sizes(1, 0)),
            ("<0", sizes(1, 0)),
            ("requested>=1KiB", FindWhat::Range { of: FindNumber::Requested, low: 1024, high: u64::MAX }),
            ("life<50", FindWhat::Range { of: FindNumber::Life, low: 0, high: 49 }),
            ("life:10..20", FindWhat::Range { of: FindNumber::Life, low: 10, high: 20 }),
            ("stream:0", FindWhat::Stream(0)),
            ("stream:default", FindWhat::Stream(0)),
            ("stream:0x7f00", FindWhat::Stream(0x7f00)),
            ("stream:0xffffffffffffffff", FindWhat::Stream(-1)),
            ("pool:default", FindWhat::Pool(FindPool::Default)),
            ("pool:private", FindWhat::Pool(FindPool::Private)),
            ("pool:0,0", FindWhat::Pool(FindPool::Pair(0, 0))),
            ("pool:(1,0)", FindWhat::Pool(FindPool::Pair(1, 0))),
            ("0x7f00", address(0x7f00)),
            ("0X7F00", address(0x7f00)),
            ("0x0", address(0)),
            ("0xffffffffffffffff", address(u64::MAX)),
            ("0x00000000000000000001", address(1)),
            ("7f3c00000000", either(0x7f3c_0000_0000, "7f3c00000000")),
            ("12345678", either(0x1234_5678, "12345678")),
            ("7f3c000", text("7f3c000")),
            ("b7f3c00000000_3", label("7f3c00000000", Some(3), "b7f3c00000000_3")),
            ("b7f3c…_3", label("7f3c", Some(3), "b7f3c…_3")),
            ("b7f3c..._3", label("7f3c", Some(3), "b7f3c..._3")),
            ("b7f3c", label("7f3c", None, "b7f3c")),
            ("b7f3c_x", text("b7f3c_x")),
            ("bad_3", text("bad_3")),
        ] {
            assert_eq!(what(line), expected, "{line}");
        }
    }

    #[test]
    fn words_stand_together() {
        for (line, words) in [
            ("", 0),
            ("   ", 0),
            ("a b", 2),
            ("a  \"b c\" -d", 3),
            (">= 1 MiB forward", 2),
            ("-<4KiB -alive", 2),
            (">=1 forward", 2),
        ] {
            let terms = FindTerms::parse(line).unwrap_or_else(|why| panic!("{line}: {why}"));
            assert_eq!(terms.map_or(0, |terms| terms.words.len()), words, "{line}");
        }
        let terms = FindTerms::parse("-\"a b\" c-d").expect("readable").expect("words");
        assert_eq!(terms.words[0], FindWord { exclude: true, what: FindWhat::Text("a b".into()) });
        assert_eq!(terms.words[1], FindWord { exclude: false, what: FindWhat::Text("c-d".into()) });
    }

    #[test]
    fn what_cannot_be_read_is_said_in_a_sentence() {
        for (line, sentence) in [
            (">=10XB", "`>=10XB`: unknown unit XB"),
            ("-", "`-`: the word to leave out is missing"),
            ("a - b", "`-`: the word to leave out is missing"),
            ("\"\"", "``: nothing stands between the quotes"),
            (">=", "`>=`: the size is missing"),
            ("requested<", "`requested<`: the size is missing"),
            ("life>", "`life>`: the number of events is missing"),
            ("life<5KiB", "`life<5KiB`: 5kib is no number of events"),
            ("size<big", "`size<big`: big is no size"),
            (">=1.2.3MiB", "`>=1.2.3MiB`: 1.2.3 is no number"),
            (">=99999999999GiB", "`>=99999999999GiB`: no size is so large"),
            ("=18446744073709551616", "`=18446744073709551616`: no size is so large"),
            ("8MiB..1MiB", "`8MiB..1MiB`: the first number is larger than the second"),
            ("1MiB..8XB", "`1MiB..8XB`: unknown unit XB"),
            ("stream:abc", "`stream:abc`: a stream is a number, or default"),
            ("pool:x", "`pool:x`: a pool is default, private or a pair like 1,0"),
            ("0x", "`0x`: the digits of the address are missing"),
            ("0xgg", "`0xgg`: gg is no hex number"),
            ("0x1ffffffffffffffff", "`0x1ffffffffffffffff`: an address has at most 16 hex digits"),
            ("-0xzz", "`-0xzz`: zz is no hex number"),
        ] {
            assert_eq!(FindTerms::parse(line), Err(sentence.to_owned()), "{line}");
        }
    }

    #[test]
    fn the_help_is_written_in_the_language() {
        for (line, _) in FIND_HELP {
            assert!(matches!(FindTerms::parse(line), Ok(Some(_))), "{line}");
        }
    }
}
