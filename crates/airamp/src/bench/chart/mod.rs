//! A chart of speedup over size as SVG, by itself or in a page: logarithmic sizes, a line at 1, and
//! every series told apart by its label, its marker and its dashes, not by colour alone.

mod labels;
mod scale;
mod svg;

use std::path::{Path, PathBuf};

pub(super) struct Chart {
    pub(super) subtitle: String,
    pub(super) series: Vec<Series>,
}

pub(super) struct Series {
    pub(super) name: String,
    /// Bytes and speedup.
    pub(super) points: Vec<(usize, f64)>,
}

/// The place of a chart, if one can be written there.
pub(super) fn place(text: &str) -> Result<PathBuf, String> {
    let place = PathBuf::from(text);
    match place.extension().and_then(|extension| extension.to_str()) {
        Some("svg" | "html") => {}
        _ => return Err("expected a file name that ends in .svg or .html".into()),
    }
    let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if folder.is_dir() { Ok(place) } else { Err(format!("there is no folder {}", folder.display())) }
}

/// The chart in the form that the name of its file asks for.
pub(super) fn document(chart: &Chart, place: &Path) -> String {
    let drawing = svg::drawing(chart);
    if place.extension().is_some_and(|extension| extension == "html") {
        let head = "<meta charset=\"utf-8\"/><title>airamp bench</title>";
        return format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head>{head}</head><body>\n{drawing}</body></html>\n"
        );
    }
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{drawing}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> Chart {
        let series =
            |name: &str, points: &[(usize, f64)]| Series { name: name.into(), points: points.to_vec() };
        Chart {
            subtitle: "a < b & \"c\"".into(),
            series: vec![
                series("float32 auto x2", &[(1 << 20, 0.8), (4 << 20, 2.0), (16 << 20, 3.9)]),
                series("bfloat16 auto x2", &[(1 << 20, 0.7), (4 << 20, 1.5), (16 << 20, 3.9)]),
            ],
        }
    }

    #[test]
    fn a_drawing_has_every_label_the_line_at_one_and_no_raw_markup() {
        let text = document(&chart(), Path::new("a.svg"));
        for part in [
            ">float32 auto x2<",
            ">bfloat16 auto x2<",
            ">1MiB<",
            ">16MiB<",
            "class=\"one\"",
            "a &lt; b &amp;",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert_eq!(text.matches("<polyline").count(), 2);
        assert!(!text.contains("NaN") && !text.contains("inf"));
    }

    #[test]
    fn a_page_holds_the_same_drawing() {
        let page = document(&chart(), Path::new("a.html"));
        assert!(page.starts_with("<!DOCTYPE html>") && page.contains(&svg::drawing(&chart())));
    }

    #[test]
    fn one_point_and_no_point_can_be_drawn() {
        let single = Series { name: "a".into(), points: vec![(1 << 20, 2.0)] };
        for series in [vec![single], Vec::new()] {
            let text = svg::drawing(&Chart { subtitle: String::new(), series });
            assert!(text.ends_with("</svg>\n") && !text.contains("NaN") && !text.contains("inf"), "{text}");
        }
    }

    #[test]
    fn a_place_must_be_a_drawing_or_a_page_in_a_folder_that_is_there() {
        assert!(place("a.svg").is_ok() && place("./a.html").is_ok());
        assert!(place("a.png").is_err() && place("a").is_err() && place("").is_err());
        assert!(place("/no/such/folder/a.svg").is_err());
    }
}
