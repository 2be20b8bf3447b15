#!/usr/bin/env node
// Checks what the crawler sends against what GitHub publishes: GraphQL documents against its schema, REST requests
// against its OpenAPI description. The samples are those that the Rust tests hold equal to what is really sent.
// `.ci/conform` lays out the directory that is its argument.
import { readFileSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join, resolve as absolute } from 'node:path';
import { fileURLToPath } from 'node:url';

const tools = absolute(process.argv[2]);
const { buildSchema, parse, validate } = createRequire(join(tools, 'package.json'))('graphql');
const samples = join(dirname(fileURLToPath(import.meta.url)), '..', 'tests', 'fixtures', 'github');
const problems = [];

const schema = buildSchema(readFileSync(join(tools, 'schema.graphql'), 'utf8'), { assumeValidSDL: true });
const documents = readdirSync(samples).filter((name) => name.endsWith('.graphql'));
for (const name of documents) {
  for (const error of validate(schema, parse(readFileSync(join(samples, name), 'utf8')))) {
    const at = error.locations?.[0];
    problems.push(`${name}:${at?.line ?? 0}: ${error.message}`);
  }
}

const description = JSON.parse(readFileSync(join(tools, 'api.github.com.json'), 'utf8'));
const { paths } = description;
const resolve = (thing) => thing.$ref
  ? thing.$ref.slice(2).split('/').reduce((at, key) => at[key], description)
  : thing;

// The template with the most fixed parts that fits the path.
function route(path) {
  const parts = path.split('/');
  const fits = Object.keys(paths).filter((template) => {
    const wanted = template.split('/');
    return wanted.length === parts.length
      && wanted.every((part, i) => (part.startsWith('{') ? parts[i] !== '' : part === parts[i]));
  });
  return fits.sort((a, b) => (a.match(/\{/g) ?? []).length - (b.match(/\{/g) ?? []).length)[0];
}

function complaint(schema, text) {
  schema = resolve(schema ?? {});
  if (schema.type === 'integer') {
    if (!/^-?\d+$/.test(text)) return `${text} is no integer`;
    if (schema.maximum !== undefined && Number(text) > schema.maximum) return `${text} is above ${schema.maximum}`;
    if (schema.minimum !== undefined && Number(text) < schema.minimum) return `${text} is below ${schema.minimum}`;
  }
  if (schema.enum && !schema.enum.includes(text)) return `${text} is none of ${schema.enum}`;
  return undefined;
}

const requests = readFileSync(join(samples, 'requests.txt'), 'utf8').split('\n').filter((line) => line.trim());
for (const line of requests) {
  const [method, target] = line.split(' ');
  const url = new URL(target, 'https://api.github.com');
  const template = route(url.pathname);
  const operation = template && paths[template][method.toLowerCase()];
  if (!operation) {
    problems.push(`${line}: no such operation`);
    continue;
  }
  const known = [...(operation.parameters ?? []), ...(paths[template].parameters ?? [])].map(resolve);
  const query = known.filter((parameter) => parameter.in === 'query');
  for (const parameter of query.filter((parameter) => parameter.required)) {
    if (!url.searchParams.has(parameter.name)) problems.push(`${line}: ${parameter.name} is missing`);
  }
  for (const [name, value] of url.searchParams) {
    const parameter = query.find((parameter) => parameter.name === name);
    const why = parameter ? complaint(parameter.schema, value) : 'no such parameter';
    if (why) problems.push(`${line}: ${name}: ${why}`);
  }
}

for (const problem of problems) console.error(problem);
console.log(`${documents.length} GraphQL documents and ${requests.length} REST requests, ${problems.length} problems`);
process.exitCode = problems.length || !documents.length || !requests.length ? 1 : 0;
