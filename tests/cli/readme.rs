//! The README's sample is what the program prints.

use std::fs;
use std::path::Path;

use super::good;

/// The README's blocks of code, each with what stands before it on the same page.
fn blocks() -> Vec<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let readme = fs::read_to_string(path).expect("the README");
    let mut blocks: Vec<Vec<String>> = vec![Vec::new()];
    for line in readme.lines() {
        match (line.strip_prefix("    "), blocks.last_mut()) {
            (Some(line), Some(block)) => block.push(line.to_owned()),
            // Blank lines inside a block are part of it.
            (None, Some(block)) if line.is_empty() && !block.is_empty() => {
                block.push(String::new())
            }
            _ => blocks.push(Vec::new()),
        }
    }
    for block in &mut blocks {
        while block.last().is_some_and(String::is_empty) {
            block.pop();
        }
    }
    blocks.retain(|block| !block.is_empty());
    blocks
}

/// What is printed depends on the trace alone: no line is left out.
#[test]
fn the_sample_is_what_the_program_prints() {
    let blocks = blocks();
    let (at, command) = blocks
        .iter()
        .enumerate()
        .find_map(|(at, block)| {
            let command = block.first()?.strip_prefix("cargo run --release -- ")?;
            Some((at, command))
        })
        .expect("the command of the sample");
    let block = blocks.get(at + 1).expect("the sample");
    // The next command stands below it, with no text between.
    let end = block.iter().position(|line| line == "cargo test --release");
    let end = end.unwrap_or(block.len());
    let sample = block[..end].join("\n");
    let sample = sample.trim_end();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut args: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
    for arg in &mut args {
        if arg.starts_with("fixtures/") {
            *arg = root.join(&arg).display().to_string();
        }
    }
    assert!(sample.lines().count() > 40, "{sample}");
    let printed = good(args);
    let differ = sample.lines().zip(printed.lines()).find(|(a, b)| a != b);
    assert_eq!(
        differ, None,
        "README above, program below:\n{sample}\n{printed}"
    );
    assert_eq!(sample, printed.trim_end());
}

/// So are the samples of questions.
#[test]
fn questions_are_answered_as_the_readme_shows() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut shown = 0;
    for block in blocks() {
        let Some(command) = block
            .first()
            .and_then(|line| line.strip_prefix("$ ttwu query "))
        else {
            continue;
        };
        let args = command
            .split_whitespace()
            .map(|arg| match arg.starts_with("fixtures/") {
                true => root.join(arg).display().to_string(),
                false => arg.to_owned(),
            });
        let printed = good(["query".to_owned()].into_iter().chain(args));
        // A blank line within an answer ends no block.
        assert_eq!(block[1..].join("\n"), printed.trim_end());
        shown += 1;
    }
    assert!(shown > 0);
}
