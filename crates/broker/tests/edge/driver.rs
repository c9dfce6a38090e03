//! The driver of the scripts is not blind: a script that lacks an answer, or has another, fails.

use crate::support::script;

#[test]
#[should_panic(expected = "the transcript is")]
fn another_answer_fails() {
    script! { "
        a: session; subscribe 1 news => a: subscribed 1 through 7:1
    " }
}

#[test]
#[should_panic(expected = "the transcript is")]
fn a_missing_answer_fails() {
    script! { "
        a: session; publish 1 news hi
    " }
}

#[test]
#[should_panic(expected = "the transcript is")]
fn one_of_several_answers_fails() {
    script! { "
        b, a: session
        a: subscribe 1 news => a: subscribed 1 through 7:0
        b: flood news 1..3 => a: message 1 1<0 1, 3<1 3
    " }
}

#[test]
#[should_panic(expected = "the transcript is")]
fn a_session_that_is_refused_fails() {
    script! { "
        drain 1000
        a: session
    " }
}

#[test]
#[should_panic(expected = "which is not the last of its line")]
fn an_answer_within_a_line_fails() {
    script! { "
        a: session; publish 1 news hi; publish 0 news hi
    " }
}
