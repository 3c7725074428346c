#include "gateway/docs_page.h"

namespace nimbus::gateway {

const std::string_view kIndexPage = R"html(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Nimbus</title>
<link rel="stylesheet" href="/docs/docs.css">
</head>
<body>
<main>
<h1>Nimbus is running</h1>
<ul>
<li><a href="/docs">The API, for reading</a></li>
<li><a href="/openapi.json">The API, for programs (OpenAPI 3.1)</a></li>
<li><a href="/health">Is the server well</a></li>
</ul>
<p>The administrator key is in the file <code>admin.key</code> of the data directory.
Send it as <code>Authorization: Bearer nk_…</code></p>
</main>
</body>
</html>
)html";

const std::string_view kDocsPage = R"html(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Nimbus API</title>
<link rel="stylesheet" href="/docs/docs.css">
</head>
<body>
<main>
<h1 id="title">Nimbus API</h1>
<p id="about"></p>
<p><input id="find" type="search" placeholder="Find a route" aria-label="Find a route"></p>
<div id="routes" aria-live="polite">Reading <a href="/openapi.json">/openapi.json</a> …</div>
<noscript>This page is drawn by a script. The document it shows is
<a href="/openapi.json">/openapi.json</a>.</noscript>
</main>
<script src="/docs/docs.js"></script>
</body>
</html>
)html";

// Everything is put in as text, never as HTML: the document is ours, and still.
const std::string_view kDocsScript = R"js('use strict';

const METHODS = ['get', 'put', 'post', 'patch', 'delete', 'head', 'options'];

function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
  for (const child of children) if (child !== null && child !== undefined) made.append(child);
  return made;
}

function schemaName(schema) {
  if (!schema) return 'any';
  if (schema.$ref) return schema.$ref.split('/').pop();
  if (Array.isArray(schema.enum)) return schema.enum.map((v) => JSON.stringify(v)).join(' | ');
  if (schema.type === 'array') return 'array of ' + schemaName(schema.items);
  return Array.isArray(schema.type) ? schema.type.join(' | ') : schema.type || 'any';
}

function table(heads, rows) {
  if (rows.length === 0) return null;
  return element('table', {},
    element('thead', {}, element('tr', {}, ...heads.map((h) => element('th', { scope: 'col' }, h)))),
    element('tbody', {}, ...rows.map((cells) =>
      element('tr', {}, ...cells.map((cell) => element('td', {}, cell))))));
}

function schemaText(schema) {
  if (!schema) return null;
  if (schema.$ref) {
    const name = schemaName(schema);
    return element('a', { href: '#schema-' + name }, name);
  }
  if (schema.type === 'object' && schema.properties) {
    return element('pre', {}, JSON.stringify(schema, null, 2));
  }
  return schemaName(schema);
}

function scopesOf(operation) {
  return (operation.security || []).flatMap((need) => Object.values(need).flat());
}

function section(title, content) {
  return content ? element('div', {}, element('h4', {}, title), content) : null;
}

function drawOperation(path, method, operation) {
  const parameters = (operation.parameters || []).map((p) =>
    [element('code', {}, p.name), p.in, schemaName(p.schema), p.description || '']);
  const bodies = Object.entries((operation.requestBody || {}).content || {}).map(([type, body]) =>
    [type, schemaText(body.schema) || 'any']);
  const answers = Object.entries(operation.responses || {}).map(([status, answer]) => {
    const [type, content] = Object.entries(answer.content || {})[0] || ['', {}];
    return [status, answer.description || '', type, schemaText(content.schema) || ''];
  });
  const scopes = scopesOf(operation);
  const needs = scopes.length > 0 ? 'Scope: ' + scopes.join(', ')
    : (operation.security || []).length > 0 ? 'A key' : 'No key';
  return element('details', { class: 'route', 'data-text': (method + ' ' + path + ' ' +
      (operation.summary || '')).toLowerCase() },
    element('summary', {},
      element('span', { class: 'method ' + method }, method.toUpperCase()), ' ',
      element('code', {}, path), ' ',
      element('span', { class: 'what' }, operation.summary || '')),
    operation.description ? element('p', {}, operation.description) : null,
    element('p', { class: 'needs' }, 'Needs: ' + needs),
    section('Parameters', table(['name', 'in', 'type', 'meaning'], parameters)),
    section('Body', table(['media type', 'schema'], bodies)),
    section('Answers', table(['status', 'meaning', 'media type', 'schema'], answers)));
}

function draw(api) {
  document.getElementById('title').textContent = api.info.title + ' API ' + api.info.version;
  document.getElementById('about').textContent = api.info.description || '';
  const groups = new Map();
  for (const [path, item] of Object.entries(api.paths)) {
    for (const method of METHODS.filter((m) => item[m])) {
      const tag = (item[method].tags || ['other'])[0];
      if (!groups.has(tag)) groups.set(tag, []);
      groups.get(tag).push(drawOperation(path, method, item[method]));
    }
  }
  const routes = document.getElementById('routes');
  routes.replaceChildren();
  for (const [tag, operations] of groups) {
    routes.append(element('section', {}, element('h2', {}, tag), ...operations));
  }
  const schemas = Object.entries((api.components || {}).schemas || {});
  if (schemas.length > 0) {
    routes.append(element('section', {}, element('h2', {}, 'schemas'),
      ...schemas.map(([name, schema]) => element('details', { id: 'schema-' + name },
        element('summary', {}, element('code', {}, name)),
        element('pre', {}, JSON.stringify(schema, null, 2))))));
  }
}

function openTarget() {
  const target = location.hash ? document.getElementById(location.hash.slice(1)) : null;
  if (target) target.open = true;
}

document.getElementById('find').addEventListener('input', (event) => {
  const wanted = event.target.value.trim().toLowerCase();
  for (const route of document.querySelectorAll('.route')) {
    route.hidden = !route.dataset.text.includes(wanted);
  }
});
addEventListener('hashchange', openTarget);

fetch('/openapi.json')
  .then((answer) => {
    if (!answer.ok) throw new Error('status ' + answer.status);
    return answer.json();
  })
  .then((api) => { draw(api); openTarget(); })
  .catch((error) => {
    document.getElementById('routes').textContent = '/openapi.json could not be read: ' + error.message;
  });
)js";

const std::string_view kDocsStyle =
    R"css(:root { color-scheme: light dark; --line: #8884; --soft: #8882; }
body { margin: 0; font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h2 { margin: 2rem 0 .5rem; border-bottom: 1px solid var(--line); }
h4 { margin: 1rem 0 .25rem; }
code, pre { font-family: ui-monospace, monospace; font-size: .9em; }
pre { overflow: auto; padding: .75rem; background: var(--soft); border-radius: .4rem; }
input { width: 100%; box-sizing: border-box; padding: .5rem .75rem; font: inherit; }
details { border: 1px solid var(--line); border-radius: .4rem; margin: .4rem 0; padding: .4rem .75rem; }
summary { cursor: pointer; }
table { border-collapse: collapse; width: 100%; display: block; overflow-x: auto; }
th, td { text-align: left; vertical-align: top; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid var(--line); }
.method { display: inline-block; min-width: 4rem; font-weight: 700; font-family: ui-monospace, monospace; }
.get, .head { color: #1a7f37; } .post { color: #0b62c4; } .put, .patch { color: #9a6700; } .delete { color: #c4232b; }
.what { opacity: .8; }
.needs { opacity: .8; margin: .5rem 0; }
@media (prefers-color-scheme: dark) {
  .get, .head { color: #57c276; } .post { color: #6cb2ff; } .put, .patch { color: #e0b04a; } .delete { color: #ff8087; }
  a { color: #8ab8ff; }
}
)css";

}  // namespace nimbus::gateway
