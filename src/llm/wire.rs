//! The two forms of a chat: what is sent, and what comes back.

use super::budget::Usage;
use super::endpoint::{Api, Endpoint};
use crate::corpus::Sha256;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// One thing to ask.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Names the question and all that its answer depends on; the answer is kept under it.
    pub key: Sha256,
    /// What the model is told to do.
    pub system: Arc<str>,
    /// What it is to be done to.
    pub user: String,
    /// JSON schema of the answer; without one it is plain text.
    pub schema: Option<Arc<Value>>,
    /// The longest answer, in tokens of the model.
    pub max_tokens: u32,
}

/// An answer that could not be used, and what was said to that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) answer: String,
    pub(super) complaint: String,
}

/// What a server takes. Found out by asking: older ones know no schema, newer models no temperature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Dialect {
    structured: bool,
    temperature: bool,
    completion_tokens: bool,
}

impl Default for Dialect {
    fn default() -> Self {
        Self { structured: true, temperature: true, completion_tokens: false }
    }
}

impl Dialect {
    /// A form without what the server complains of; nothing when it complains of something else.
    pub(super) fn without(self, complaint: &str) -> Option<Self> {
        let of = |words: &[&str]| words.iter().any(|word| complaint.contains(word));
        let less = if !self.completion_tokens && of(&["max_completion_tokens"]) {
            Self { completion_tokens: true, ..self }
        } else if self.temperature && of(&["temperature"]) {
            Self { temperature: false, ..self }
        } else if self.structured && of(&["response_format", "json_schema", "tool_choice", "tools", "schema"]) {
            Self { structured: false, ..self }
        } else {
            return None;
        };
        Some(less)
    }
}

/// The name of the schema, or of the tool that takes the answer.
const NAME: &str = "answer";

/// The body of a request.
pub(super) fn body(endpoint: &Endpoint, request: &Request, turns: &[Turn], dialect: Dialect) -> Value {
    let mut messages = vec![json!({ "role": "user", "content": request.user })];
    for turn in turns {
        messages.push(json!({ "role": "assistant", "content": turn.answer }));
        messages.push(json!({ "role": "user", "content": turn.complaint }));
    }
    let mut body = Map::new();
    body.insert("model".into(), json!(endpoint.model));
    if dialect.temperature {
        body.insert("temperature".into(), json!(0));
    }
    let schema = request.schema.as_deref().filter(|_| dialect.structured);
    match endpoint.api {
        Api::OpenAi => {
            messages.insert(0, json!({ "role": "system", "content": &*request.system }));
            let bound = if dialect.completion_tokens { "max_completion_tokens" } else { "max_tokens" };
            body.insert(bound.into(), json!(request.max_tokens));
            if let Some(schema) = schema {
                let format = json!({ "name": NAME, "strict": true, "schema": schema });
                body.insert("response_format".into(), json!({ "type": "json_schema", "json_schema": format }));
            }
        }
        Api::Anthropic => {
            body.insert("system".into(), json!(&*request.system));
            body.insert("max_tokens".into(), json!(request.max_tokens));
            if let Some(schema) = schema {
                let tool = json!({ "name": NAME, "description": "Takes the answer.", "input_schema": schema });
                body.insert("tools".into(), json!([tool]));
                body.insert("tool_choice".into(), json!({ "type": "tool", "name": NAME }));
            }
        }
    }
    body.insert("messages".into(), Value::Array(messages));
    Value::Object(body)
}

/// What a server said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reply {
    /// The words, or the object given to the tool as JSON; empty when it refuses to say any.
    pub(super) text: String,
    /// It was cut off at the bound on its length.
    pub(super) cut: bool,
    /// What it took, where the server says.
    pub(super) usage: Option<Usage>,
}

/// Read the body of an answer with status 200.
///
/// # Errors
/// What is wrong with a body that is no whole answer; asking again may bring one.
pub(super) fn read(api: Api, bytes: &[u8]) -> Result<Reply, String> {
    let value: Value =
        serde_json::from_slice(bytes).map_err(|error| format!("the answer is no whole JSON: {error}"))?;
    let number = |names: &[&str]| -> Option<u64> {
        let found: Vec<u64> =
            names.iter().filter_map(|name| value.pointer(&format!("/usage/{name}"))?.as_u64()).collect();
        (!found.is_empty()).then(|| found.iter().sum())
    };
    let (text, cut, input, output) = match api {
        Api::OpenAi => {
            let choice = value.pointer("/choices/0").ok_or_else(|| format!("no choices in {}", shortened(&value)))?;
            let content = choice.pointer("/message/content").unwrap_or(&Value::Null);
            let text = content.as_str().map_or_else(|| texts(content), str::to_owned);
            let cut = choice["finish_reason"] == "length";
            (without_thoughts(&text).to_owned(), cut, number(&["prompt_tokens"]), number(&["completion_tokens"]))
        }
        Api::Anthropic => {
            let content = value.get("content").ok_or_else(|| format!("no content in {}", shortened(&value)))?;
            let blocks = content.as_array().map(Vec::as_slice).unwrap_or_default();
            let tool = blocks.iter().find(|block| block["type"] == "tool_use").map(|block| block["input"].to_string());
            let input = number(&["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"]);
            let cut = value["stop_reason"] == "max_tokens";
            (tool.unwrap_or_else(|| texts(content)), cut, input, number(&["output_tokens"]))
        }
    };
    let usage = input.zip(output).map(|(input, output)| Usage { input, output });
    Ok(Reply { text, cut, usage })
}

/// The text blocks of a content, one after the other.
fn texts(content: &Value) -> String {
    let blocks = content.as_array().map(Vec::as_slice).unwrap_or_default();
    blocks.iter().filter_map(|block| block["text"].as_str()).collect()
}

/// What follows the thoughts that some models put before their answer.
fn without_thoughts(text: &str) -> &str {
    if text.trim_start().starts_with("<think>") {
        text.split_once("</think>").map_or("", |(_, answer)| answer.trim_start())
    } else {
        text
    }
}

fn shortened(value: &Value) -> String {
    value.to_string().chars().take(200).collect()
}

/// What an error body says, and whether it says that there is nothing left to spend.
pub(super) fn complaint(bytes: &[u8]) -> (String, bool) {
    let text = String::from_utf8_lossy(bytes);
    let value: Value = serde_json::from_slice(bytes).unwrap_or(Value::Null);
    let error = value.get("error").unwrap_or(&Value::Null);
    let message = [&error["message"], error, &value["message"], &value["detail"]]
        .iter()
        .find_map(|m| m.as_str().map(str::to_owned));
    let param = error["param"].as_str().map_or_else(String::new, |param| format!(" ({param})"));
    let quota = ["code", "type"].iter().any(|name| error[*name] == "insufficient_quota");
    let said: String = message.unwrap_or_else(|| text.trim().to_owned()).chars().take(300).collect();
    let said = if said.is_empty() { "the server gave no reason".to_owned() } else { said };
    (said + &param, quota)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::Key;

    fn endpoint(api: Api) -> Endpoint {
        Endpoint::new(Some(api), "http://127.0.0.1:1", "m", Key::default()).unwrap()
    }

    fn request() -> Request {
        Request {
            key: Sha256::of(b"k"),
            system: "judge".into(),
            user: "this".into(),
            schema: Some(Arc::new(json!({ "type": "object" }))),
            max_tokens: 9,
        }
    }

    #[test]
    fn each_interface_is_asked_for_structure_in_its_own_way() {
        let turn = Turn { answer: "eh".into(), complaint: "JSON!".into() };
        let openai = body(&endpoint(Api::OpenAi), &request(), std::slice::from_ref(&turn), Dialect::default());
        assert_eq!(openai["response_format"]["json_schema"]["schema"], json!({ "type": "object" }));
        let roles: Vec<&str> =
            openai["messages"].as_array().unwrap().iter().map(|m| m["role"].as_str().unwrap()).collect();
        assert_eq!(roles, ["system", "user", "assistant", "user"]);
        assert_eq!((&openai["max_tokens"], &openai["temperature"]), (&json!(9), &json!(0)));
        let anthropic = body(&endpoint(Api::Anthropic), &request(), &[], Dialect::default());
        assert_eq!(anthropic["tool_choice"]["name"], anthropic["tools"][0]["name"]);
        assert_eq!((&anthropic["system"], anthropic["messages"].as_array().unwrap().len()), (&json!("judge"), 1));
        let plain = Request { schema: None, ..request() };
        assert!(body(&endpoint(Api::Anthropic), &plain, &[], Dialect::default()).get("tools").is_none());
    }

    #[test]
    fn what_a_server_complains_of_is_left_out() {
        let all = Dialect::default();
        let less = all.without("Use 'max_completion_tokens' in place of 'max_tokens'").unwrap();
        let less = less.without("temperature does not support 0").unwrap();
        let less = less.without("unknown field response_format").unwrap();
        let sent = body(&endpoint(Api::OpenAi), &request(), &[], less);
        assert_eq!(sent["max_completion_tokens"], 9);
        assert!(
            ["max_tokens", "temperature", "response_format"].iter().all(|name| sent.get(*name).is_none()),
            "{sent}"
        );
        assert_eq!(less.without("unknown field response_format"), None);
        assert_eq!(all.without("the model is too small"), None);
    }

    #[test]
    fn answers_are_read_in_either_form_with_or_without_usage() {
        let openai = json!({
            "choices": [{ "message": { "content": "<think>{no}</think>\nyes" }, "finish_reason": "length" }],
            "usage": { "prompt_tokens": 4, "completion_tokens": 2 },
        });
        let read_openai = |value: &Value| read(Api::OpenAi, value.to_string().as_bytes());
        let usage = Some(Usage { input: 4, output: 2 });
        assert_eq!(read_openai(&openai), Ok(Reply { text: "yes".into(), cut: true, usage }));
        let refusal = json!({ "choices": [{ "message": { "content": null, "refusal": "no" } }] });
        assert_eq!(read_openai(&refusal), Ok(Reply { text: String::new(), cut: false, usage: None }));
        assert!(read_openai(&json!({ "object": "x" })).is_err());
        assert!(read(Api::OpenAi, &openai.to_string().as_bytes()[..40]).is_err());
        let anthropic = json!({
            "content": [{ "type": "text", "text": "so" }, { "type": "tool_use", "input": { "type": "meta" } }],
            "usage": { "input_tokens": 1, "cache_read_input_tokens": 5, "output_tokens": 3 },
        });
        let found = read(Api::Anthropic, anthropic.to_string().as_bytes()).unwrap();
        assert_eq!((found.text.as_str(), found.usage), (r#"{"type":"meta"}"#, Some(Usage { input: 6, output: 3 })));
        let words = json!({ "content": [{ "type": "text", "text": "plain " }, { "type": "text", "text": "words" }] });
        assert_eq!(read(Api::Anthropic, words.to_string().as_bytes()).unwrap().text, "plain words");
    }

    #[test]
    fn complaints_are_found_in_every_form_of_error() {
        let said = |text: &str| complaint(text.as_bytes());
        let quota = r#"{"error":{"message":"pay","code":"insufficient_quota","param":"x"}}"#;
        assert_eq!(said(quota), ("pay (x)".to_owned(), true));
        assert_eq!(said(r#"{"error":"no such model"}"#).0, "no such model");
        assert_eq!(said(r#"{"detail":"bad"}"#).0, "bad");
        assert_eq!(said("<html>oops").0, "<html>oops");
        assert_eq!(said("").0, "the server gave no reason");
    }
}
