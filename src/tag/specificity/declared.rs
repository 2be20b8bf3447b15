//! Declarations: MCP servers, ignore patterns, settings and hooks. What they name decides.

use super::lines::names_own;
use super::{COMMON_SERVER, STACK, STACK_LOWERED, Setting, SpecificityRules, tag};
use crate::tag::Tag;
use crate::taxonomy::{Function, Specificity};
use serde_json::Value;

/// Share of the patterns of an ignore file that must be common ones, in percent.
const COMMON_SHARE: usize = 75;
/// Longer settings are a tool's own list of everything that can be set, or more than a choice of technology.
const SHORT_SETTINGS: u32 = 60;

impl SpecificityRules {
    /// The tag of a declaration; nothing for any other text.
    pub(super) fn declared(&self, setting: &Setting) -> Option<Tag<Specificity>> {
        match setting.function {
            Function::Mcp => Some(self.servers(setting)),
            Function::Ignore => Some(self.patterns(setting)),
            Function::Settings | Function::Hook => Some(self.settings(setting)),
            _ => None,
        }
    }

    /// Of the project when a server is its own or starts a program of its tree, generic when all are helpers that any
    /// project may use, else of a stack.
    fn servers(&self, setting: &Setting) -> Tag<Specificity> {
        let text = setting.input.text;
        let (servers, words) = match serde_json::from_str::<Value>(text) {
            Ok(value) => {
                let mut words = Vec::new();
                strings(&value, &mut words);
                (server_names(&value), words)
            }
            // Comments, YAML, TOML: the quoted words are all that is asked for.
            Err(_) => (Vec::new(), text.split('"').skip(1).step_by(2).map(str::to_owned).collect()),
        };
        let own: Vec<String> =
            setting.own.iter().filter(|name| !self.words.has(name, STACK | STACK_LOWERED)).cloned().collect();
        let named = |server: &&String| names_own(&server.to_ascii_lowercase(), &own);
        if !setting.foreign {
            if let Some(server) = servers.iter().find(named) {
                return tag(Specificity::Project, "mcp", format!("server {server}"), 0.85);
            }
            if let Some(program) = words.iter().find(|word| self.local_program.is_match(word)) {
                return tag(Specificity::Project, "mcp", format!("starts {program}"), 0.85);
            }
        }
        let common = |server: &String| self.words.has(&server.to_ascii_lowercase(), COMMON_SERVER);
        if !servers.is_empty() && servers.iter().all(common) {
            return tag(Specificity::Generic, "mcp", format!("servers {}", servers.join(", ")), 0.8);
        }
        tag(Specificity::Stack, "mcp", format!("servers {}", servers.join(", ")), 0.8)
    }

    fn patterns(&self, setting: &Setting) -> Tag<Specificity> {
        let lower = setting.input.text.to_ascii_lowercase();
        let lines = || lower.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        if let Some(line) = lines().find(|line| names_own(line, &setting.own)) {
            return tag(Specificity::Project, "ignore", line.to_owned(), 0.85);
        }
        let (all, common) = (lines().count(), lines().filter(|line| self.common_ignores.is_match(line)).count());
        let fact = format!("{common} of {all} patterns are common");
        let generic = common * 100 >= COMMON_SHARE * all.max(1);
        tag(if generic { Specificity::Generic } else { Specificity::Stack }, "ignore", fact, 0.75)
    }

    fn settings(&self, setting: &Setting) -> Tag<Specificity> {
        if setting.unfilled {
            return tag(Specificity::Generic, "settings", "not filled in".to_owned(), 0.8);
        }
        let counts = self.read(setting.input.text, &setting.own, &|_| 0);
        if counts.own + counts.own_code + counts.path > 0 {
            let fact = format!("{} lines name the project's own", counts.own + counts.own_code + counts.path);
            return tag(Specificity::Project, "settings", fact, 0.75);
        }
        let stack = counts.stack + counts.stack_code;
        let value = if stack > 0 && counts.lines < SHORT_SETTINGS { Specificity::Stack } else { Specificity::Generic };
        tag(value, "settings", format!("{stack} lines name a technology"), 0.7)
    }
}

/// Keys under the field that declares servers.
fn server_names(value: &Value) -> Vec<String> {
    let declared = ["mcpServers", "servers", "mcp_servers", "context_servers", "mcp"];
    let field = declared.iter().find_map(|field| value.get(field)?.as_object());
    field.map(|servers| servers.keys().cloned().collect()).unwrap_or_default()
}

/// Every string value, outermost first.
fn strings(value: &Value, found: &mut Vec<String>) {
    // Nesting is bounded by the parser.
    match value {
        Value::String(text) => found.push(text.clone()),
        Value::Array(list) => list.iter().for_each(|item| strings(item, found)),
        Value::Object(map) => map.values().for_each(|item| strings(item, found)),
        _ => {}
    }
}
