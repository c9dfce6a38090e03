//! The report as a page: one file that needs nothing else, in light and dark, on a phone too.
//!
//! Place: beside `report.json`, which it carries inside. What draws it is `page.js`, `page.css` and
//! `page.html` in this directory, by hand and without a library.

const HTML: &str = include_str!("page.html");
/// The operators' pages of a node look the same.
const CSS: &str =
    concat!(include_str!("../../../crore/src/admin/page/look.css"), include_str!("page.css"));
const SCRIPT: &str = include_str!("page.js");

/// The page for a report.
pub fn render(json: &str, name: &str) -> String {
    // In a script element only these could end it.
    let data = json.replace('<', "\\u003c");
    let mut page = String::with_capacity(HTML.len() + CSS.len() + SCRIPT.len() + data.len());
    let mut rest = HTML;
    // Each mark occurs once, in this order. Inserted text is never searched.
    for (mark, text) in
        [("{{name}}", name), ("{{css}}", CSS), ("{{data}}", &data), ("{{script}}", SCRIPT)]
    {
        let (before, after) = rest.split_once(mark).unwrap_or((rest, ""));
        page.push_str(before);
        page.push_str(text);
        rest = after;
    }
    page.push_str(rest);
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_whole_and_needs_nothing() {
        let page = render(r#"{"x":"</script>{{script}}"}"#, "c10m");
        assert!(page.contains(r#"{"x":"\u003c/script>{{script}}"}"#));
        assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
        assert_eq!(page.matches("{{").count(), 1, "only the one of the data");
        assert!(page.contains("--accent:"), "the look of the node's pages");
        for outside in ["http://", "https://", "@import", "<link", "src="] {
            let names = page.matches(outside).count();
            // The name space of SVG is a name and not an address.
            let spaces = page.matches("http://www.w3.org/2000/svg").count();
            let expected = if outside == "http://" { spaces } else { 0 };
            assert_eq!(names, expected, "{outside}");
        }
    }
}
