// Searches the sections in index.js like site.Search on the manager's pages. It is loaded when the user types the first letter of a search.
'use strict';
const root = document.currentScript.dataset.root;
const input = document.querySelector('input[type=search]');
const hits = document.querySelector('.hits');
const page = document.querySelector('.doc');

let loading;
function load() {
  loading ??= new Promise((loaded, failed) => {
    const script = Object.assign(document.createElement('script'), { src: root + 'index.js', onload: loaded, onerror: failed });
    document.head.append(script);
  });
  return loading;
}

const count = (text, word) => text.split(word).length - 1;

function find(query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean).slice(0, 8);
  if (!words.length) return [];
  const found = [];
  for (const [href, title, sections] of window.vmopDocuments) {
    for (const [anchor, section, text] of sections) {
      const lower = text.toLowerCase();
      const weights = words.map((word) => 8 * count(title.toLowerCase(), word) + 8 * count(section.toLowerCase(), word) +
        Math.min(count(lower, word), 5));
      if (weights.includes(0)) continue;
      const weight = weights.reduce((a, b) => a + b) - (href.startsWith('decisions/') ? 100 : 0);
      const at = Math.max(0, ...words.slice(0, 1).map((word) => lower.indexOf(word)));
      found.push({ href: anchor ? href + '#' + anchor : href, title, section, text: text.slice(Math.max(0, at - 90), at + 90), weight });
    }
  }
  return found.sort((a, b) => b.weight - a.weight).slice(0, 30);
}

function show(found) {
  hits.replaceChildren(...found.map((hit) => {
    const li = document.createElement('li'), a = document.createElement('a'), small = document.createElement('small');
    a.href = root + hit.href;
    a.textContent = hit.section === hit.title ? hit.title : hit.title + ': ' + hit.section;
    small.textContent = hit.text;
    li.append(a, document.createElement('br'), small);
    return li;
  }));
}

input.addEventListener('input', async () => {
  const query = input.value.trim();
  await load();
  if (query !== input.value.trim()) return;
  hits.hidden = !query;
  page.hidden = !!query;
  show(find(query));
  if (query && !hits.children.length) hits.append(Object.assign(document.createElement('li'), { textContent: 'Nothing is found.' }));
});
