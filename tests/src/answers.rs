//! HTTP/1.1 answers in sequence on one connection, split into single answers.

/// One answer.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The header fields as received, with the status line.
    pub head: String,
    /// The body by `Content-Length`; empty without one.
    pub body: String,
}

/// Splits `text` into answers, interim ones (100) included. Panics if an answer does not begin
/// directly behind the previous one.
pub fn answers(text: &str) -> Vec<Answer> {
    let mut answers = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (head, behind) = rest
            .split_once("\r\n\r\n")
            .unwrap_or_else(|| panic!("no answer begins here: {rest:?} of {text:?}"));
        let status = head.strip_prefix("HTTP/1.1 ").and_then(|line| line.get(..3));
        let status = status
            .and_then(|code| code.parse().ok())
            .unwrap_or_else(|| panic!("no status: {head:?} of {text:?}"));
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            let is_length = name.eq_ignore_ascii_case("content-length");
            is_length.then(|| value.trim().parse::<usize>().expect("a length"))
        });
        let body = behind.get(..length.unwrap_or(0));
        let body = body.unwrap_or_else(|| panic!("a body that is cut off: {text:?}"));
        rest = &behind[body.len()..];
        answers.push(Answer { status, head: head.to_owned(), body: body.to_owned() });
    }
    answers
}

/// The status codes of the answers.
pub fn statuses(text: &str) -> Vec<u16> {
    answers(text).iter().map(|answer| answer.status).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answer_is_found() {
        let text = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab\
                    HTTP/1.1 400 Bad Request\r\ncontent-length:0\r\n\r\n";
        assert_eq!(statuses(text), [100, 200, 400]);
        assert_eq!(answers(text)[1].body, "ab");
    }
}
