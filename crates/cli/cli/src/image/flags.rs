//! Flags of `image`.

use std::path::PathBuf;

use clap::Args;
use lineside_image_writer::Url;

use crate::confine::Confining;

/// Flags of `image`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The folder of a trace
    #[arg(value_name = "TRACE")]
    pub(super) trace: PathBuf,
    /// Make the tree in this folder, which is new or empty
    #[arg(short, long, value_name = "FOLDER", conflicts_with = "to")]
    pub(super) output: Option<PathBuf>,
    /// Make the tree on a server, in a new directory: nfs://SERVER[:PORT]/EXPORT/DIR[?mountport=N]
    #[arg(long, value_name = "URL", value_parser = url)]
    pub(super) to: Option<Url>,
    /// Leave table repairs and image.json in this folder, which is new or empty
    #[arg(long, value_name = "FOLDER")]
    pub(super) repairs: Option<PathBuf>,
    /// Print JSON (docs/schema/image.schema.json)
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) confining: Confining,
}

fn url(text: &str) -> Result<Url, String> {
    Url::parse(text).map_err(|error| error.to_string())
}
