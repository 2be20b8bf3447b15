//! The query language of GraphQL, as far as reading goes: operations, aliases, arguments, variables, fragments.

use serde_json::{Map, Number, Value};
use std::collections::HashMap;

/// How deep selections and values may nest. GitHub's own limit is not known; this one keeps the stack safe.
const DEEPEST: usize = 64;

/// Why a document cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SyntaxError {
    pub(crate) message: String,
    /// 1-based.
    pub(crate) line: usize,
    /// 1-based, in characters.
    pub(crate) column: usize,
}

/// A value before variables are put in.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Input {
    Variable(String),
    Plain(Value),
    Enum(String),
    List(Vec<Input>),
    Object(Vec<(String, Input)>),
}

/// One part of a selection set.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Selection {
    Field(Field),
    Spread { name: String, directives: Vec<Directive> },
    Inline { on: Option<String>, directives: Vec<Directive>, selections: Vec<Selection> },
}

/// A selected field.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Field {
    /// The name its value has in the answer.
    pub(crate) alias: String,
    pub(crate) name: String,
    pub(crate) arguments: Vec<(String, Input)>,
    pub(crate) directives: Vec<Directive>,
    pub(crate) selections: Vec<Selection>,
    pub(crate) line: usize,
    pub(crate) column: usize,
}

/// `@include` or `@skip`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Directive {
    pub(crate) name: String,
    pub(crate) arguments: Vec<(String, Input)>,
}

/// A declared variable.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) required: bool,
    pub(crate) default: Option<Input>,
}

/// A query or mutation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Operation {
    pub(crate) kind: String,
    pub(crate) name: Option<String>,
    pub(crate) variables: Vec<Variable>,
    pub(crate) selections: Vec<Selection>,
}

/// A named fragment.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fragment {
    pub(crate) on: String,
    pub(crate) selections: Vec<Selection>,
}

/// A whole request text.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Document {
    pub(crate) operations: Vec<Operation>,
    pub(crate) fragments: HashMap<String, Fragment>,
}

/// Read a document.
pub(crate) fn parse(text: &str) -> Result<Document, SyntaxError> {
    let mut parser = Parser { tokens: lex(text)?, at: 0, depth: 0 };
    let mut document = Document::default();
    while !matches!(parser.peek(), Token::End) {
        if parser.peek_name("fragment") {
            parser.next();
            let name = parser.name()?;
            parser.keyword("on")?;
            let on = parser.name()?;
            parser.directives()?;
            let selections = parser.selections()?;
            document.fragments.insert(name, Fragment { on, selections });
        } else {
            document.operations.push(parser.operation()?);
        }
    }
    if document.operations.is_empty() {
        return Err(parser.unexpected("an operation"));
    }
    Ok(document)
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Name(String),
    Punct(char),
    Spread,
    Number(Number),
    Text(String),
    End,
}

#[derive(Debug, Clone)]
struct Placed {
    token: Token,
    line: usize,
    column: usize,
}

struct Parser {
    tokens: Vec<Placed>,
    at: usize,
    depth: usize,
}

impl Parser {
    /// The lexer always ends with [`Token::End`], and nothing moves beyond it.
    fn placed(&self) -> &Placed {
        &self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    fn peek(&self) -> &Token {
        &self.placed().token
    }

    fn peek_name(&self, name: &str) -> bool {
        matches!(self.peek(), Token::Name(found) if found == name)
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        if !matches!(token, Token::End) {
            self.at += 1;
        }
        token
    }

    fn eat(&mut self, punct: char) -> bool {
        let hit = *self.peek() == Token::Punct(punct);
        if hit {
            self.at += 1;
        }
        hit
    }

    fn want(&mut self, punct: char) -> Result<(), SyntaxError> {
        if self.eat(punct) { Ok(()) } else { Err(self.unexpected(&format!("{punct:?}"))) }
    }

    fn keyword(&mut self, word: &str) -> Result<(), SyntaxError> {
        if self.peek_name(word) {
            self.next();
            return Ok(());
        }
        Err(self.unexpected(&format!("{word:?}")))
    }

    fn name(&mut self) -> Result<String, SyntaxError> {
        match self.peek() {
            Token::Name(name) => {
                let name = name.clone();
                self.at += 1;
                Ok(name)
            }
            _ => Err(self.unexpected("a name")),
        }
    }

    fn unexpected(&self, wanted: &str) -> SyntaxError {
        let placed = self.placed();
        let found = match &placed.token {
            Token::Name(name) => format!("{name:?}"),
            Token::Punct(c) => format!("{c:?}"),
            Token::Spread => "\"...\"".into(),
            Token::Number(number) => number.to_string(),
            Token::Text(_) => "a string".into(),
            Token::End => "end of file".into(),
        };
        SyntaxError { message: format!("Expected {wanted}, actual: {found}"), line: placed.line, column: placed.column }
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, SyntaxError>) -> Result<T, SyntaxError> {
        if self.depth >= DEEPEST {
            return Err(self.unexpected(&format!("at most {DEEPEST} levels")));
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    fn operation(&mut self) -> Result<Operation, SyntaxError> {
        if *self.peek() == Token::Punct('{') {
            let selections = self.selections()?;
            return Ok(Operation { kind: "query".into(), name: None, variables: Vec::new(), selections });
        }
        let kind = match self.peek() {
            Token::Name(kind) if matches!(kind.as_str(), "query" | "mutation" | "subscription") => kind.clone(),
            _ => return Err(self.unexpected("\"query\", \"mutation\" or \"fragment\"")),
        };
        self.next();
        let name = if matches!(self.peek(), Token::Name(_)) { Some(self.name()?) } else { None };
        let mut variables = Vec::new();
        if self.eat('(') {
            while !self.eat(')') {
                self.want('$')?;
                let name = self.name()?;
                self.want(':')?;
                let required = self.deeper(Self::variable_type)?;
                let default = if self.eat('=') { Some(self.value()?) } else { None };
                variables.push(Variable { name, required: required && default.is_none(), default });
            }
        }
        self.directives()?;
        let selections = self.selections()?;
        Ok(Operation { kind, name, variables, selections })
    }

    /// Whether the type ends with `!`.
    fn variable_type(&mut self) -> Result<bool, SyntaxError> {
        if self.eat('[') {
            self.deeper(Self::variable_type)?;
            self.want(']')?;
        } else {
            self.name()?;
        }
        Ok(self.eat('!'))
    }

    fn selections(&mut self) -> Result<Vec<Selection>, SyntaxError> {
        self.want('{')?;
        let list = self.deeper(|parser| {
            let mut list = Vec::new();
            while *parser.peek() != Token::Punct('}') {
                list.push(parser.selection()?);
            }
            Ok(list)
        })?;
        if list.is_empty() {
            return Err(self.unexpected("a field"));
        }
        self.want('}')?;
        Ok(list)
    }

    fn selection(&mut self) -> Result<Selection, SyntaxError> {
        if *self.peek() == Token::Spread {
            self.next();
            if matches!(self.peek(), Token::Name(name) if name != "on") {
                let name = self.name()?;
                return Ok(Selection::Spread { name, directives: self.directives()? });
            }
            let on = if self.peek_name("on") {
                self.next();
                Some(self.name()?)
            } else {
                None
            };
            let directives = self.directives()?;
            return Ok(Selection::Inline { on, directives, selections: self.selections()? });
        }
        let (line, column) = (self.placed().line, self.placed().column);
        let first = self.name()?;
        let (alias, name) = if self.eat(':') { (first, self.name()?) } else { (first.clone(), first) };
        let arguments = self.arguments()?;
        let directives = self.directives()?;
        let selections = if *self.peek() == Token::Punct('{') { self.selections()? } else { Vec::new() };
        Ok(Selection::Field(Field { alias, name, arguments, directives, selections, line, column }))
    }

    fn arguments(&mut self) -> Result<Vec<(String, Input)>, SyntaxError> {
        let mut arguments = Vec::new();
        if self.eat('(') {
            while !self.eat(')') {
                let name = self.name()?;
                self.want(':')?;
                arguments.push((name, self.value()?));
            }
        }
        Ok(arguments)
    }

    fn directives(&mut self) -> Result<Vec<Directive>, SyntaxError> {
        let mut directives = Vec::new();
        while self.eat('@') {
            let name = self.name()?;
            directives.push(Directive { name, arguments: self.arguments()? });
        }
        Ok(directives)
    }

    fn value(&mut self) -> Result<Input, SyntaxError> {
        self.deeper(|parser| match parser.peek().clone() {
            Token::Punct('$') => {
                parser.next();
                Ok(Input::Variable(parser.name()?))
            }
            Token::Punct('[') => {
                parser.next();
                let mut list = Vec::new();
                while !parser.eat(']') {
                    list.push(parser.value()?);
                }
                Ok(Input::List(list))
            }
            Token::Punct('{') => {
                parser.next();
                let mut fields = Vec::new();
                while !parser.eat('}') {
                    let name = parser.name()?;
                    parser.want(':')?;
                    fields.push((name, parser.value()?));
                }
                Ok(Input::Object(fields))
            }
            Token::Number(number) => {
                parser.next();
                Ok(Input::Plain(Value::Number(number)))
            }
            Token::Text(text) => {
                parser.next();
                Ok(Input::Plain(Value::String(text)))
            }
            Token::Name(name) => {
                parser.next();
                Ok(match name.as_str() {
                    "true" => Input::Plain(Value::Bool(true)),
                    "false" => Input::Plain(Value::Bool(false)),
                    "null" => Input::Plain(Value::Null),
                    _ => Input::Enum(name),
                })
            }
            _ => Err(parser.unexpected("a value")),
        })
    }
}

impl Input {
    /// The value with variables put in.
    pub(crate) fn resolve(&self, variables: &Map<String, Value>) -> Value {
        match self {
            Self::Variable(name) => variables.get(name).cloned().unwrap_or(Value::Null),
            Self::Plain(value) => value.clone(),
            Self::Enum(name) => Value::String(name.clone()),
            Self::List(list) => Value::Array(list.iter().map(|v| v.resolve(variables)).collect()),
            Self::Object(fields) => {
                Value::Object(fields.iter().map(|(name, v)| (name.clone(), v.resolve(variables))).collect())
            }
        }
    }
}

fn lex(text: &str) -> Result<Vec<Placed>, SyntaxError> {
    let mut tokens = Vec::new();
    let mut chars = text.char_indices().peekable();
    let (mut line, mut line_start) = (1, 0);
    while let Some((at, c)) = chars.next() {
        let column = text[line_start..at].chars().count() + 1;
        let wrong = |message: String| SyntaxError { message, line, column };
        let token = match c {
            '\n' => {
                line += 1;
                line_start = at + 1;
                continue;
            }
            ',' | '\u{feff}' => continue,
            c if c.is_whitespace() => continue,
            '#' => {
                while chars.next_if(|(_, c)| *c != '\n').is_some() {}
                continue;
            }
            '{' | '}' | '(' | ')' | '[' | ']' | ':' | '!' | '$' | '@' | '=' | '|' | '&' => Token::Punct(c),
            '.' => {
                if !text[at..].starts_with("...") {
                    return Err(wrong("Expected \"...\"".into()));
                }
                chars.next();
                chars.next();
                Token::Spread
            }
            '"' if text[at..].starts_with("\"\"\"") => {
                let Some(length) = text[at + 3..].find("\"\"\"") else {
                    return Err(wrong("Unterminated block string".into()));
                };
                let body = &text[at + 3..at + 3 + length];
                while chars.next_if(|(i, _)| *i < at + 6 + length).is_some() {}
                let token = Token::Text(body.trim().to_owned());
                tokens.push(Placed { token, line, column });
                if let Some(last) = body.rfind('\n') {
                    line += body.matches('\n').count();
                    line_start = at + 3 + last + 1;
                }
                continue;
            }
            '"' => {
                let mut end = None;
                let mut escaped = false;
                while let Some((i, c)) = chars.next_if(|(_, c)| *c != '\n') {
                    if c == '"' && !escaped {
                        end = Some(i);
                        break;
                    }
                    escaped = c == '\\' && !escaped;
                }
                let Some(end) = end else { return Err(wrong("Unterminated string".into())) };
                // The escapes of GraphQL strings are those of JSON.
                let string =
                    serde_json::from_str(&text[at..=end]).map_err(|error| wrong(format!("Bad string: {error}")))?;
                Token::Text(string)
            }
            c if c.is_ascii_alphabetic() || c == '_' => {
                let mut end = at + 1;
                while let Some((i, _)) = chars.next_if(|(_, c)| c.is_ascii_alphanumeric() || *c == '_') {
                    end = i + 1;
                }
                Token::Name(text[at..end].to_owned())
            }
            c if c.is_ascii_digit() || c == '-' => {
                let mut end = at + 1;
                while let Some((i, _)) =
                    chars.next_if(|(_, c)| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-'))
                {
                    end = i + 1;
                }
                let number = text[at..end].parse().map_err(|_| wrong(format!("Bad number {:?}", &text[at..end])))?;
                Token::Number(number)
            }
            other => return Err(wrong(format!("Unexpected character {other:?}"))),
        };
        tokens.push(Placed { token, line, column });
    }
    let column = text[line_start..].chars().count() + 1;
    tokens.push(Placed { token: Token::End, line, column });
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aliases_arguments_fragments_and_directives_are_read() {
        let document = parse(
            r#"
            query Content($owner: String!, $n: Int = 3, $ids: [ID!]!) { # comment
              r0: repository(owner: $owner, name: "a\"b", followRenames: true) { ...facts @include(if: $n) }
              node(id: ORDER) { ... on Repository { id } ... { __typename } }
            }
            fragment facts on Repository { id, object(expression: """HEAD:x""") { oid } }
            "#,
        )
        .unwrap();
        let operation = &document.operations[0];
        assert_eq!(operation.name.as_deref(), Some("Content"));
        assert_eq!(operation.variables.iter().map(|v| v.required).collect::<Vec<_>>(), [true, false, true]);
        let Selection::Field(field) = &operation.selections[0] else { panic!("not a field") };
        assert_eq!((field.alias.as_str(), field.name.as_str()), ("r0", "repository"));
        assert_eq!(field.arguments[1].1, Input::Plain("a\"b".into()));
        assert!(
            matches!(&field.selections[0], Selection::Spread { name, directives } if name == "facts" && directives.len() == 1)
        );
        assert_eq!(document.fragments["facts"].on, "Repository");
    }

    #[test]
    fn faults_are_placed() {
        let error = parse("query {\n  a(b: }").unwrap_err();
        assert_eq!((error.line, error.column), (2, 8));
        assert!(parse("").is_err());
        assert!(parse("{ }").is_err());
        assert!(parse("{ a(b: \"x) }").is_err());
        assert!(parse("{ a ü }").is_err());
        assert!(parse(&"{ a ".repeat(100_000)).unwrap_err().message.contains("levels"));
    }
}
