//! The set described in Croissant 1.1, so that tools find and load it without reading the card.

use super::{ExportOptions, Manifest};
use crate::parquet::ColumnInfo;
use serde_json::{Value, json};

/// The JSON-LD of a manifest. `manifest.files` must hold the shards.
pub(super) fn render(manifest: &Manifest, options: &ExportOptions) -> String {
    let mut distribution = Vec::new();
    let mut records = Vec::new();
    for (config, info) in &manifest.configs {
        let mut ids = Vec::new();
        for shard in &info.shards {
            let path = format!("data/{shard}");
            let Some(file) = manifest.files.iter().find(|file| file.path == path) else { continue };
            ids.push(json!({ "@id": shard }));
            distribution.push(json!({
                "@type": "cr:FileObject", "@id": shard, "name": shard, "contentUrl": path,
                "contentSize": format!("{} B", file.bytes), "encodingFormat": "application/x-parquet",
                "sha256": file.sha256,
            }));
        }
        // One shard is a file, several are a set of files.
        let (kind, source) = match info.shards.as_slice() {
            [only] => ("fileObject", only.clone()),
            _ => {
                let set = format!("{config}-shards");
                distribution.push(json!({
                    "@type": "cr:FileSet", "@id": set, "name": set, "containedIn": ids,
                    "encodingFormat": "application/x-parquet", "includes": format!("data/{config}-*.parquet"),
                }));
                ("fileSet", set)
            }
        };
        let fields: Vec<Value> = info.columns.iter().map(|column| field(config, column, kind, &source)).collect();
        records.push(json!({ "@type": "cr:RecordSet", "@id": config, "name": config, "field": fields }));
    }
    let when = manifest.run.as_ref().map(|run| run.started_at.as_str()).unwrap_or("1970-01-01T00:00:00Z");
    let document = json!({
        "@context": context(),
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.1",
        "name": manifest.name,
        "description": "Configuration files of coding agents in public git repositories, with what each is, its items \
            and their knowledge types.",
        "version": "1.0.0",
        "datePublished": when.get(..10).unwrap_or(when),
        "license": "Each row names the licence of its repository in the column license",
        "url": "https://github.com/",
        "citeAs": "See README.md",
        "creator": { "@type": "sc:Organization", "name": options.contact.as_deref().unwrap_or("contact missing") },
        "rai:dataCollection": "Code search and content of GitHub, or git repositories on a machine; found by path.",
        "rai:dataPreprocessingProtocol": "Secrets, private keys, e-mail addresses, public addresses and handles are \
            replaced by placeholders.",
        "rai:dataLimitations": "Public repositories only; most texts are English; types are predicted by a model whose \
            figures stand in classifier/README.md.",
        "rai:personalSensitiveInformation": "Redacted by rules that miss some; ask for removal by the channel in \
            README.md.",
        "distribution": distribution,
        "recordSet": records,
    });
    serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
}

fn field(config: &str, column: &ColumnInfo, kind: &str, source: &str) -> Value {
    let id = format!("{config}/{}", column.name);
    let element = column.kind.strip_prefix("list<").and_then(|k| k.strip_suffix('>'));
    if let Some(members) = element.and_then(|e| e.strip_prefix("struct<")).and_then(|e| e.strip_suffix('>')) {
        let sub = |member: &str| {
            let (name, kind_of) = member.split_once(": ")?;
            let id = format!("{id}/{name}");
            Some(json!({
                "@type": "cr:Field", "@id": id, "name": id, "dataType": data_type(kind_of),
                "source": {
                    kind: { "@id": source }, "extract": { "column": column.name },
                    "transform": { "jsonPath": format!("$[*].{name}") },
                },
            }))
        };
        let parts: Vec<Value> = members.split(", ").filter_map(sub).collect();
        return json!({ "@type": "cr:Field", "@id": id, "name": id, "repeated": true, "subField": parts });
    }
    let mut field = json!({
        "@type": "cr:Field", "@id": id, "name": id, "dataType": data_type(element.unwrap_or(&column.kind)),
        "source": { kind: { "@id": source }, "extract": { "column": column.name } },
    });
    if element.is_some() {
        field["isArray"] = json!(true);
        field["arrayShape"] = json!("-1");
    }
    field
}

fn data_type(kind: &str) -> &'static str {
    match kind {
        "int64" => "sc:Integer",
        "float32" | "float64" => "sc:Float",
        "bool" => "sc:Boolean",
        "timestamp[us, UTC]" => "sc:DateTime",
        _ => "sc:Text",
    }
}

fn context() -> Value {
    json!({
        "@language": "en", "@vocab": "https://schema.org/", "arrayShape": "cr:arrayShape", "citeAs": "cr:citeAs",
        "column": "cr:column", "conformsTo": "dct:conformsTo", "cr": "http://mlcommons.org/croissant/",
        "rai": "http://mlcommons.org/croissant/RAI/", "data": { "@id": "cr:data", "@type": "@json" },
        "dataType": { "@id": "cr:dataType", "@type": "@vocab" }, "dct": "http://purl.org/dc/terms/",
        "equivalentProperty": "cr:equivalentProperty",
        "examples": { "@id": "cr:examples", "@type": "@json" }, "extract": "cr:extract", "field": "cr:field",
        "fileProperty": "cr:fileProperty", "fileObject": "cr:fileObject", "fileSet": "cr:fileSet",
        "format": "cr:format", "includes": "cr:includes", "isArray": "cr:isArray", "isLiveDataset": "cr:isLiveDataset",
        "jsonPath": "cr:jsonPath", "key": "cr:key", "md5": "cr:md5", "parentField": "cr:parentField",
        "path": "cr:path", "recordSet": "cr:recordSet", "references": "cr:references", "regex": "cr:regex",
        "repeated": "cr:repeated", "replace": "cr:replace", "samplingRate": "cr:samplingRate",
        "sc": "https://schema.org/", "separator": "cr:separator", "source": "cr:source", "subField": "cr:subField",
        "transform": "cr:transform",
    })
}
