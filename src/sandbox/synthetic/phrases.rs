//! What generated files say: sentence patterns by knowledge type and the words that fill them.
//!
//! A pattern's `{slot}` is replaced by a word of that slot; slots of the stack come from [`Stack`].

use crate::sandbox::dice::Dice;
use crate::taxonomy::KnowledgeType;

/// The tools and names of one programming language.
pub(super) struct Stack {
    /// As GitHub names the language.
    pub(super) language: &'static str,
    pub(super) test: &'static str,
    pub(super) build: &'static str,
    pub(super) lint: &'static str,
    pub(super) install: &'static str,
    pub(super) manifest: &'static str,
    pub(super) source: &'static str,
    pub(super) extension: &'static str,
}

macro_rules! stack {
    ($language:literal, $test:literal, $build:literal, $lint:literal, $install:literal, $manifest:literal, $source:literal, $extension:literal) => {
        Stack {
            language: $language,
            test: $test,
            build: $build,
            lint: $lint,
            install: $install,
            manifest: $manifest,
            source: $source,
            extension: $extension,
        }
    };
}

/// Stacks with their weights.
pub(super) const STACKS: &[(Stack, u32)] = &[
    (stack!("TypeScript", "pnpm test", "pnpm build", "pnpm lint", "pnpm install", "package.json", "src", "ts"), 30),
    (stack!("Python", "uv run pytest", "uv build", "uv run ruff check", "uv sync", "pyproject.toml", "app", "py"), 26),
    (
        stack!(
            "Go",
            "go test ./...",
            "go build ./...",
            "golangci-lint run",
            "go mod download",
            "go.mod",
            "internal",
            "go"
        ),
        10,
    ),
    (
        stack!(
            "Rust",
            "cargo test",
            "cargo build --release",
            "cargo clippy",
            "cargo fetch",
            "Cargo.toml",
            "crates",
            "rs"
        ),
        9,
    ),
    (stack!("JavaScript", "npm test", "npm run build", "npx eslint .", "npm ci", "package.json", "lib", "js"), 9),
    (
        stack!(
            "Java",
            "./gradlew test",
            "./gradlew assemble",
            "./gradlew spotlessCheck",
            "./gradlew dependencies",
            "build.gradle",
            "src/main/java",
            "java"
        ),
        5,
    ),
    (
        stack!(
            "C#",
            "dotnet test",
            "dotnet build",
            "dotnet format --verify-no-changes",
            "dotnet restore",
            "Directory.Build.props",
            "src",
            "cs"
        ),
        4,
    ),
    (
        stack!(
            "Ruby",
            "bin/rspec",
            "bin/rake build",
            "bundle exec rubocop",
            "bundle install",
            "Gemfile",
            "app/models",
            "rb"
        ),
        3,
    ),
    (
        stack!(
            "PHP",
            "composer test",
            "composer dump-autoload",
            "vendor/bin/phpstan",
            "composer install",
            "composer.json",
            "src",
            "php"
        ),
        2,
    ),
    (
        stack!(
            "Swift",
            "swift test",
            "swift build",
            "swiftlint",
            "swift package resolve",
            "Package.swift",
            "Sources",
            "swift"
        ),
        2,
    ),
];

/// The natural language of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tongue {
    English,
    Spanish,
    German,
    Japanese,
}

/// Tongues with their weights.
pub(super) const TONGUES: &[(Tongue, u32)] =
    &[(Tongue::English, 92), (Tongue::Spanish, 3), (Tongue::German, 2), (Tongue::Japanese, 3)];

/// Headings under which items of a type stand.
pub(super) fn headings(tongue: Tongue, ty: KnowledgeType) -> &'static [&'static str] {
    use KnowledgeType::{Belief, Constraint, Episodic, Meta, Preference, Procedural};
    match (tongue, ty) {
        (Tongue::English, Constraint) => {
            &["Hard rules", "Never do this", "Boundaries", "Security", "Safety", "Guardrails"]
        }
        (Tongue::English, Procedural) => {
            &["Commands", "Workflow", "How to release", "Testing", "Setup", "Adding a feature"]
        }
        (Tongue::English, Belief) => {
            &["Architecture", "Project overview", "Layout", "Domain notes", "Where things live"]
        }
        (Tongue::English, Preference) => &["Code style", "Conventions", "Naming", "Tone", "Formatting"],
        (Tongue::English, Episodic) => &["Status", "Change log", "Session notes", "Decisions so far", "Known state"],
        (Tongue::English, Meta) => &["References", "See also"],
        (Tongue::Spanish, Constraint) => &["Reglas obligatorias", "Seguridad"],
        (Tongue::Spanish, Procedural) => &["Comandos", "Flujo de trabajo"],
        (Tongue::Spanish, Belief) => &["Arquitectura", "Resumen del proyecto"],
        (Tongue::Spanish, Preference) => &["Estilo de código", "Convenciones"],
        (Tongue::Spanish, Episodic | Meta) => &["Estado actual", "Historial"],
        (Tongue::German, Constraint) => &["Verbindliche Regeln", "Sicherheit"],
        (Tongue::German, Procedural) => &["Befehle", "Arbeitsablauf"],
        (Tongue::German, Belief) => &["Aufbau", "Überblick"],
        (Tongue::German, Preference) => &["Stil", "Benennung"],
        (Tongue::German, Episodic | Meta) => &["Stand der Dinge", "Verlauf"],
        (Tongue::Japanese, Constraint) => &["禁止事項", "セキュリティ"],
        (Tongue::Japanese, Procedural) => &["コマンド", "作業手順"],
        (Tongue::Japanese, Belief) => &["構成", "概要"],
        (Tongue::Japanese, Preference) => &["コーディング規約", "命名"],
        (Tongue::Japanese, Episodic | Meta) => &["進捗", "履歴"],
    }
}

/// Sentence patterns of a type.
pub(super) fn patterns(tongue: Tongue, ty: KnowledgeType) -> &'static [&'static str] {
    use KnowledgeType::{Belief, Constraint, Episodic, Meta, Preference, Procedural};
    match (tongue, ty) {
        (Tongue::English, Constraint) => &[
            "Never push to `{branch}` directly; every change goes through a reviewed pull request.",
            "Do not edit anything under `{dir}/generated`, the next {tool} run overwrites it.",
            "Keep `{secret}` out of the repository, out of logs and out of test fixtures.",
            "**IMPORTANT**: ask before you run a migration against {service}.",
            "Deleting rows from `{table}` is irreversible and needs written approval from {team}.",
            "Secrets are read from the environment only; a literal key in `{source}` fails the audit.",
            "You must not disable TLS verification, not even in a local script.",
            "All queries on `{table}` have to filter by tenant, otherwise one customer sees another's data.",
            "No network access from unit tests; {service} bills every call.",
            "Amounts are integers in cents. Floating point in `{module}` has cost us money before.",
            "Public functions of `{module}` are a published contract: do not change a signature without a major version.",
            "Force-pushing a shared branch is forbidden.",
            "If a command would touch production, stop and ask first.",
            "Personal data never leaves {service}; mask e-mail addresses before they are logged.",
            "Do not add a dependency without a licence check by {team}.",
            "Only {team} may rotate `{secret}`.",
            "The lock in `{module}` is taken before the one in `{other}`, in every code path, or the service deadlocks.",
            "Uploads larger than {n} MB are rejected; do not raise the limit.",
        ],
        (Tongue::English, Procedural) => &[
            "Run `{test}` before every commit and fix what it reports.",
            "Install dependencies with `{install}`.",
            "To build a release, run `{build}` and tag the result `v{n}.0.0`.",
            "Add a case to `{source}/{module}_test.{ext}` first, see it fail, then write the code.",
            "When `{manifest}` changes, run `{install}` again and commit the lock file.",
            "Regenerate the client with `make {tool}` after touching the schema.",
            "For a new endpoint: add the route in `{source}/{module}.{ext}`, register it, document it in `docs/{other}.md`.",
            "Check formatting with `{lint}`.",
            "Open a draft pull request early and link the issue in its first line.",
            "To reproduce a failure locally, start {service} with `docker compose up {module}` and replay the request.",
            "Use `git bisect` between the last two tags to find the commit that broke `{module}`.",
            "Copy `.env.example` to `.env`, then fill in `{secret}`.",
            "Review the diff, write the changelog entry, then ask {team} for a look.",
            "Start the development server with `{build} && ./bin/{module}`.",
        ],
        (Tongue::English, Belief) => &[
            "`{source}/{module}.{ext}` holds the {thing} and is the only place that talks to {service}.",
            "The project is a {thing} for {audience}, written in {language}.",
            "`{dir}/` contains the {thing}; `{dir2}/` contains the {other} adapters.",
            "{service} stores the {thing}, and {service2} caches it for {n} minutes.",
            "Requests enter through `{module}` and leave through `{other}`.",
            "There are {n} packages in the workspace, one for each {thing}.",
            "Configuration is layered: defaults, then `{manifest}`, then environment variables.",
            "`{module}` is event driven, `{other}` polls every {n} seconds.",
            "The test suite takes about {n} minutes on a laptop.",
            "A tenant owns many workspaces, and a workspace owns its {thing}.",
            "{language} {n} is the oldest version we support.",
            "The CI pipeline has {n} stages, and deployment is the last of them.",
        ],
        (Tongue::English, Preference) => &[
            "Prefer small functions with one clear job.",
            "Name tests after the behaviour they show, not after the method they call.",
            "Use early returns rather than deep nesting.",
            "Keep lines below {n} columns where it reads well.",
            "We like plain loops better than clever chains in `{module}`.",
            "Comments explain why; the code says what.",
            "Group imports: standard library, third party, own modules.",
            "Write commit subjects in the imperative and in under sixty characters.",
            "Favour composition over inheritance in `{source}`.",
            "Answer briefly and skip the summary unless somebody asks for one.",
            "Spell out names: `customer`, not `cust`.",
            "Sort keys alphabetically in `{manifest}`.",
        ],
        (Tongue::English, Episodic) => &[
            "{date}: moved `{module}` out of `{other}`, all tests green.",
            "Last session ended with {n} failing tests in `{module}`.",
            "{date} - {team} decided to stay with {service} for now.",
            "Version {n}.2 shipped on {date} without the {thing}.",
            "The migration of `{table}` is about {n}0 % done.",
            "On {date} an outage of {service} was traced to `{module}`.",
            "[x] {thing} importer finished, {thing} exporter still open",
            "Currently blocked: waiting for {team} to review the {thing}.",
            "We tried {service2} in {date} and went back after two weeks.",
        ],
        (Tongue::English, Meta) => &[
            "See [docs/{other}.md](docs/{other}.md)",
            "TODO",
            "[{module}](https://example.com/{module})",
            "More to come.",
        ],
        (Tongue::Spanish, Constraint) => &[
            "Nunca subas cambios directamente a `{branch}`.",
            "No guardes `{secret}` en el repositorio.",
            "Pide permiso antes de ejecutar una migración en {service}.",
            "Está prohibido editar `{dir}/generated` a mano.",
        ],
        (Tongue::Spanish, Procedural) => &[
            "Ejecuta `{test}` antes de cada commit.",
            "Instala las dependencias con `{install}`.",
            "Para compilar usa `{build}`.",
            "Copia `.env.example` a `.env` y completa `{secret}`.",
        ],
        (Tongue::Spanish, Belief) => &[
            "`{source}/{module}.{ext}` es el único módulo que habla con {service}.",
            "El proyecto está escrito en {language}.",
            "La carpeta `{dir}/` contiene los adaptadores de {other}.",
            "{service} guarda los datos durante {n} días.",
        ],
        (Tongue::Spanish, Preference) => &[
            "Preferimos funciones cortas con un solo propósito.",
            "Usa nombres descriptivos y evita abreviaturas.",
            "Escribe los mensajes de commit en imperativo.",
        ],
        (Tongue::Spanish, Episodic | Meta) => &[
            "{date}: se separó `{module}` de `{other}`.",
            "La versión {n}.1 se publicó el {date}.",
            "Quedan {n} pruebas en rojo en `{module}`.",
        ],
        (Tongue::German, Constraint) => &[
            "Niemals direkt auf `{branch}` pushen.",
            "`{secret}` darf nicht ins Repository gelangen.",
            "Vor jeder Migration auf {service} muss nachgefragt werden.",
            "Dateien unter `{dir}/generated` dürfen nicht von Hand geändert werden.",
        ],
        (Tongue::German, Procedural) => &[
            "Vor jedem Commit `{test}` ausführen.",
            "Abhängigkeiten mit `{install}` installieren.",
            "Zum Bauen `{build}` aufrufen.",
            "`.env.example` nach `.env` kopieren und `{secret}` eintragen.",
        ],
        (Tongue::German, Belief) => &[
            "`{source}/{module}.{ext}` spricht als einziges Modul mit {service}.",
            "Das Projekt ist in {language} geschrieben.",
            "Unter `{dir}/` liegen die Adapter für {other}.",
            "{service} hält die Daten {n} Tage lang.",
        ],
        (Tongue::German, Preference) => &[
            "Kurze Funktionen mit einer klaren Aufgabe sind uns lieber.",
            "Namen ausschreiben, keine Abkürzungen.",
            "Kommentare erklären das Warum.",
        ],
        (Tongue::German, Episodic | Meta) => &[
            "{date}: `{module}` aus `{other}` herausgelöst.",
            "Version {n}.1 wurde am {date} veröffentlicht.",
            "In `{module}` sind noch {n} Tests rot.",
        ],
        (Tongue::Japanese, Constraint) => &[
            "`{branch}` に直接プッシュしないこと。",
            "`{secret}` をリポジトリに含めてはならない。",
            "{service} のマイグレーションは必ず事前に確認する。",
            "`{dir}/generated` を手で編集しないこと。",
        ],
        (Tongue::Japanese, Procedural) => &[
            "コミット前に `{test}` を実行する。",
            "依存関係は `{install}` でインストールする。",
            "ビルドは `{build}` を使う。",
        ],
        (Tongue::Japanese, Belief) => &[
            "`{source}/{module}.{ext}` だけが {service} と通信する。",
            "本プロジェクトは {language} で書かれている。",
            "`{dir}/` には {other} のアダプターがある。",
        ],
        (Tongue::Japanese, Preference) => &[
            "関数は短く、一つの役割に絞るのが望ましい。",
            "略語よりも分かりやすい名前を好む。",
            "コメントには理由を書く。",
        ],
        (Tongue::Japanese, Episodic | Meta) => &[
            "{date}: `{module}` を `{other}` から分離した。",
            "バージョン {n}.1 は {date} に公開済み。",
            "`{module}` のテストが {n} 件失敗中。",
        ],
    }
}

const BRANCHES: &[&str] = &["main", "master", "production", "release", "trunk"];
const DIRS: &[&str] = &["api", "web", "core", "proto", "schema", "client", "server", "infra", "tools", "packages/ui"];
const TOOLS: &[&str] = &["codegen", "protoc", "openapi", "sqlc", "graphql-codegen", "bindgen"];
const SECRETS: &[&str] =
    &["PAYMENT_API_KEY", "DATABASE_URL", "SIGNING_SECRET", "SMTP_PASSWORD", "MAPS_TOKEN", "SESSION_SALT"];
const SERVICES: &[&str] =
    &["Postgres", "Redis", "the billing service", "Kafka", "the search cluster", "object storage", "the auth gateway"];
const TABLES: &[&str] = &["invoices", "accounts", "orders", "audit_log", "sessions", "shipments", "ledger_entries"];
const TEAMS: &[&str] = &["the platform team", "security", "the maintainers", "two reviewers", "the data team"];
/// Also the names of modules in paths.
pub(super) const MODULES: &[&str] = &[
    "billing",
    "router",
    "parser",
    "scheduler",
    "ingest",
    "ledger",
    "gateway",
    "notifier",
    "session",
    "catalog",
    "planner",
    "renderer",
    "importer",
    "tracker",
    "resolver",
    "worker",
    "mailer",
    "registry",
    "storage",
    "telemetry",
];
const THINGS: &[&str] = &[
    "event store",
    "plugin host",
    "command line tool",
    "dashboard",
    "rule engine",
    "sync client",
    "report builder",
    "device driver",
    "price feed",
    "document index",
    "job queue",
    "web service",
];
const AUDIENCES: &[&str] = &["small shops", "laboratories", "field crews", "game studios", "libraries", "operators"];

/// Fill the slots of `pattern`.
pub(super) fn fill(pattern: &str, stack: &Stack, dice: &mut Dice) -> String {
    let mut text = String::with_capacity(pattern.len() + 32);
    let mut rest = pattern;
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        let Some((slot, tail)) = after.split_once('}') else {
            text.push('{');
            rest = after;
            continue;
        };
        match slot {
            "branch" => text.push_str(dice.pick(BRANCHES)),
            "dir" | "dir2" => text.push_str(dice.pick(DIRS)),
            "tool" => text.push_str(dice.pick(TOOLS)),
            "secret" => text.push_str(dice.pick(SECRETS)),
            "service" | "service2" => text.push_str(dice.pick(SERVICES)),
            "table" => text.push_str(dice.pick(TABLES)),
            "team" => text.push_str(dice.pick(TEAMS)),
            "module" | "other" => text.push_str(dice.pick(MODULES)),
            "thing" => text.push_str(dice.pick(THINGS)),
            "audience" => text.push_str(dice.pick(AUDIENCES)),
            "n" => text.push_str(&(2 + dice.below(97)).to_string()),
            "date" => {
                let (year, month, day) = (2024 + dice.below(3), 1 + dice.below(12), 1 + dice.below(28));
                text.push_str(&format!("{year}-{month:02}-{day:02}"));
            }
            "test" => text.push_str(stack.test),
            "build" => text.push_str(stack.build),
            "lint" => text.push_str(stack.lint),
            "install" => text.push_str(stack.install),
            "manifest" => text.push_str(stack.manifest),
            "source" => text.push_str(stack.source),
            "ext" => text.push_str(stack.extension),
            "language" => text.push_str(stack.language),
            other => {
                text.push('{');
                text.push_str(other);
                text.push('}');
            }
        }
        rest = tail;
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_of_every_pattern_is_known() {
        let mut dice = Dice::new(1, &[]);
        for (tongue, _) in TONGUES {
            for ty in KnowledgeType::ALL {
                assert!(!headings(*tongue, *ty).is_empty());
                for pattern in patterns(*tongue, *ty) {
                    let text = fill(pattern, &STACKS[0].0, &mut dice);
                    assert!(!text.contains('{') && !text.contains('}'), "{pattern} -> {text}");
                }
            }
        }
    }
}
