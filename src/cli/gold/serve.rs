//! `aac gold serve`.

use crate::annotate::{self, AnnotateError, AnnotateOptions};
use crate::cli::knowledge::read_text;
use crate::cli::{Context, Exit, Failure};
use crate::job::gold::import::find_texts;
use crate::job::gold::verify::add_document;
use crate::taxonomy::LabelOrder;
use clap::{Args, ValueEnum};
use serde_json::json;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    /// The one annotator; without it everybody enters a name
    #[arg(long, value_name = "NAME")]
    annotator: Option<String>,
    /// Port on 127.0.0.1; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// The annotators' round: a second one is independent of the first
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(i64).range(1..))]
    pass: i64,
    /// In which order items are shown
    #[arg(long, value_name = "ORDER", default_value = "shuffled")]
    order: Order,
    /// Shuffles the items, differently for each annotator
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Show the model's type beside each item; the label records it
    #[arg(long)]
    preannotate: bool,
    /// A text and what a compactor made of it, to be verified by people; may be repeated
    #[arg(long, value_names = ["BEFORE", "AFTER"], num_args = 2)]
    check: Vec<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Order {
    /// At random
    Shuffled,
    /// What the model is least sure of first
    Uncertainty,
}

pub(super) async fn run(context: &Context, args: ServeArgs) -> Result<Exit, Failure> {
    let mut documents = Vec::new();
    for pair in args.check.chunks_exact(2) {
        documents.push((pair[0].display().to_string(), read_text(&pair[0])?, read_text(&pair[1])?));
    }
    // Constraints of files can be verified without a corpus.
    let store =
        if documents.is_empty() { context.open().await? } else { crate::store::Store::create(&context.db).await? };
    for (name, before, after) in &documents {
        let added = add_document(&store, name, before, after).await?;
        let known = if added.known { ", known already" } else { "" };
        context.tell(&format!("{}: {} constraints to verify{known}", added.name, added.constraints));
    }
    let found = find_texts(&store).await?;
    if found > 0 {
        context.tell(&format!("{found} items found their texts in the corpus"));
    }
    let options = AnnotateOptions {
        annotator: args.annotator,
        port: args.port,
        pass: args.pass,
        order: match args.order {
            Order::Shuffled => LabelOrder::Shuffled,
            Order::Uncertainty => LabelOrder::Uncertainty,
        },
        seed: args.seed,
        preannotate: args.preannotate,
    };
    let running = annotate::serve(store.clone(), options).await.map_err(|error| match error {
        AnnotateError::Name { .. } => Failure::usage(error),
        other => other.into(),
    })?;
    context.output.print(&json!({ "url": running.url() }), |_| running.url().to_owned())?;
    context.tell("Open this address in a browser; it is good until Ctrl-C. Every answer is saved at once");
    context.terminal.interruption().await;
    running.shutdown().await?;
    store.close().await;
    Ok(Exit::Done)
}
