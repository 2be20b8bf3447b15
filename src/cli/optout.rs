//! `aac optout`.

use super::output::{count, table};
use super::{Context, Exit, Failure};
use crate::job::optout::{self, ON_REQUEST};
use crate::store::{OptOutKey, Store};
use clap::{Args, Subcommand};
use serde_json::json;

#[derive(Debug, Args)]
pub(super) struct OptOutArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Remove an owner or a repository with everything derived, and never collect it again
    Add {
        /// Owner, or owner and name
        #[arg(value_name = "OWNER[/REPO]", value_parser = parse)]
        of: OptOutKey,
        /// Reason to remember
        #[arg(long, value_name = "TEXT", default_value = ON_REQUEST)]
        why: String,
    },
    /// Show what is opted out
    List,
    /// Allow to collect it again
    Remove {
        /// Owner, or owner and name
        #[arg(value_name = "OWNER[/REPO]", value_parser = parse)]
        of: OptOutKey,
    },
}

/// An owner or a repository, also as the address of its page.
fn parse(text: &str) -> Result<OptOutKey, String> {
    let text = match text.split_once("://") {
        Some((_, page)) => {
            page.split_once('/').map_or("", |(_, path)| path).trim_end_matches('/').trim_end_matches(".git")
        }
        None => text,
    };
    match text.parse() {
        Ok(slug) => Ok(OptOutKey::repo(&slug)),
        // The name stands for any, so that the owner alone is checked.
        Err(error) => match crate::corpus::Slug::new(text, "any") {
            Ok(slug) => Ok(OptOutKey::owner(slug.owner())),
            Err(_) => Err(error.to_string()),
        },
    }
}

pub(super) async fn run(context: &Context, args: &OptOutArgs) -> Result<Exit, Failure> {
    match &args.action {
        Action::Add { of, why } => {
            // An opt-out may come before anything was collected.
            let store = Store::create(&context.db).await?;
            let done = optout::add(&store, of, why).await?;
            store.close().await;
            context.output.print(&done, |done| {
                format!(
                    "{} is opted out: {} repositories, {} artifacts, {} blobs, {} labelled items removed\n\
                     Copies made before (exports, backups) still hold it: `aac build` brings the rest up to date and exports anew",
                    done.optout,
                    count(done.removed.repos as i64),
                    count(done.removed.artifacts as i64),
                    count(done.removed.blobs as i64),
                    count(done.removed.gold_items as i64)
                )
            })?;
            Ok(Exit::Done)
        }
        Action::List => {
            let store = context.open().await?;
            let rows = optout::list(&store).await?;
            store.close().await;
            let json = json!({ "optouts": rows });
            context.output.print(&json, |_| {
                let shown = rows.iter().map(|row| {
                    let name = if row.name.is_empty() { "*" } else { &row.name };
                    vec![format!("{}/{name}", row.owner), row.why.clone()]
                });
                table(&["opted out", "why"], &shown.collect::<Vec<_>>())
            })?;
            Ok(Exit::Done)
        }
        Action::Remove { of } => {
            let store = context.open().await?;
            let known = optout::remove(&store, of).await?;
            store.close().await;
            if !known {
                return Err(Failure {
                    exit: Exit::Failed,
                    message: format!("{of} is not opted out; `aac optout list` shows what is"),
                });
            }
            let json = json!({ "optout": of.to_string(), "removed": true });
            context.output.print(&json, |_| format!("{of} may be collected again"))?;
            Ok(Exit::Done)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_stands_for_what_it_leads_to() {
        let repo = parse("acme/demo").unwrap();
        for address in
            ["https://github.com/acme/demo", "https://github.com/acme/demo/", "https://ghes.example/acme/demo.git"]
        {
            assert_eq!(parse(address).unwrap(), repo, "{address}");
        }
        assert_eq!(parse("https://github.com/acme").unwrap(), parse("acme").unwrap());
        assert!(parse("https://github.com/acme/demo/issues").is_err());
        assert!(parse("https://github.com").is_err());
    }
}
