//! The questions that have a name, in a list.

use super::WIDTH;
use super::table::{Column, Lines};
use crate::query::ALL;

/// Name and meaning of each.
pub fn list() -> String {
    let columns = vec![Column::Word, Column::Text(WIDTH as u16)];
    let header = ["question", "what it answers"].map(str::to_owned);
    let mut lines = Lines::new(columns, header.to_vec());
    for question in ALL {
        lines.row(vec![question.name.to_owned(), question.title().to_owned()]);
    }
    let mut out = String::new();
    lines.push_to(&mut out);
    out
}
