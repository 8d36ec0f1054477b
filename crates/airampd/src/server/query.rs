//! The query of a URI: `a=1&b=two%20words`.

/// The first value of that name, decoded; `Some(None)` where it is there and no valid text.
pub fn value(query: Option<&str>, name: &str) -> Option<Option<String>> {
    let mut pairs = query?.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, text)| decode(text))
}

fn decode(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'+' => b' ',
            b'%' => digit(bytes.next()?)? << 4 | digit(bytes.next()?)?,
            other => other,
        });
    }
    String::from_utf8(decoded).ok()
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_decoded_as_browsers_encode_them() {
        let text = |text: &str| Some(Some(text.to_owned()));
        assert_eq!(value(Some("job=a%20b+c%2Fd&since=7"), "job"), text("a b c/d"));
        assert_eq!(value(Some("job=a&since=7"), "since"), text("7"));
        assert_eq!(value(Some("job=gr%C3%BCn"), "job"), text("grün"));
        assert_eq!(value(Some("job="), "job"), text(""));
    }

    #[test]
    fn what_cannot_be_decoded_is_another_thing_than_what_is_not_there() {
        for query in ["job=%", "job=%4", "job=%zz", "job=%ff"] {
            assert_eq!(value(Some(query), "job"), Some(None), "{query}");
        }
        for query in ["other=1", "job", ""] {
            assert_eq!(value(Some(query), "job"), None, "{query}");
        }
        assert_eq!(value(None, "job"), None);
    }
}
