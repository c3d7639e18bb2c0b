// Builds the documents as a site of plain pages that needs no server and no network: `npm run docs:build`, then open
// site/index.html. README.md is its first page; links between documents become links between pages. Pages can be searched.
//
//   npm run docs:build [-- --out FOLDER] [--from CHECKOUT]
//
// Exits with 1 where a link or an anchor leads nowhere, and names it; with 2 on wrong usage.
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join, posix, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { Marked } from 'marked'

const own = fileURLToPath(new URL('.', import.meta.url))
/** Pages by heading of the menu; those that no heading names are the last ones. */
const MENU = {
  Start: ['README.md', 'docs/tour.md', 'docs/emulator.md', 'examples/README.md'],
  Operate: [
    'docs/operations.md',
    'docs/scaling.md',
    'docs/deploy/README.md',
    'docs/console.md',
    'docs/verify.md',
    'docs/security.md',
  ],
  Query: ['docs/warehouse.md', 'docs/instruments.md'],
  Develop: [
    'docs/architecture.md',
    'docs/adding-a-resource.md',
    'docs/testing.md',
    'docs/benchmarks.md',
    'CONTRIBUTING.md',
  ],
  Project: ['CHANGELOG.md', 'SECURITY.md'],
}

let options
try {
  options = parseArgs({ options: { out: { type: 'string' }, from: { type: 'string' } } }).values
} catch (error) {
  process.stderr.write(`${error.message}\n`)
  process.exit(2)
}
const root = resolve(options.from ?? join(own, '..'))
const out = resolve(options.out ?? join(root, 'site'))

const documents = [
  ...readdirSync(root).filter((name) => name.endsWith('.md')),
  ...['docs', 'examples'].flatMap((folder) =>
    existsSync(join(root, folder))
      ? readdirSync(join(root, folder), { recursive: true }).map((name) =>
          posix.join(folder, name.replaceAll('\\', '/')),
        )
      : [],
  ),
].filter((name) => name.endsWith('.md') && !name.includes('node_modules'))

const pageOf = (name) => (name === 'README.md' ? 'index.html' : name.replace(/\.md$/, '.html'))
const escaped = (text) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;')
/** The text of a piece of HTML. */
const plain = (html) =>
  html
    .replace(/<[^>]*>/g, ' ')
    .replace(
      /&(lt|gt|quot|amp|#39);/g,
      (_, name) => ({ lt: '<', gt: '>', quot: '"', amp: '&', '#39': "'" })[name],
    )
    .replace(/\s+/g, ' ')
    .trim()

/** Files of the checkout that pages link to. */
const linked = new Set()
const wrong = []

/** The HTML of a document, with its first heading. */
function render(name) {
  const anchors = new Map()
  let first = name
  const marked = new Marked({
    renderer: {
      heading({ tokens, depth }) {
        const html = this.parser.parseInline(tokens)
        const title = plain(html)
        // As GitHub names them.
        const base = title
          .toLowerCase()
          .replace(/[^\p{L}\p{N}_ -]/gu, '')
          .replaceAll(' ', '-')
        const count = anchors.get(base) ?? 0
        anchors.set(base, count + 1)
        const id = count === 0 ? base : `${base}-${count}`
        if (first === name && depth === 1) first = title
        return `<h${depth} id="${id}">${html} <a class="anchor" href="#${id}" aria-label="Link to this section">#</a></h${depth}>\n`
      },
      link({ href, tokens }) {
        return `<a href="${escaped(target(name, href))}">${this.parser.parseInline(tokens)}</a>`
      },
      image({ href, text }) {
        return `<img src="${escaped(target(name, href))}" alt="${escaped(text)}">`
      },
      table(token) {
        const cells = (row, tag) =>
          row.map((each) => `<${tag}>${this.parser.parseInline(each.tokens)}</${tag}>`).join('')
        const body = token.rows.map((row) => `<tr>${cells(row, 'td')}</tr>`).join('\n')
        return `<div class="table" tabindex="0"><table><thead><tr>${cells(token.header, 'th')}</tr></thead><tbody>\n${body}\n</tbody></table></div>\n`
      },
      code({ text }) {
        return `<pre tabindex="0"><code>${escaped(text)}\n</code></pre>\n`
      },
    },
  })
  const html = marked.parse(readFileSync(join(root, name), 'utf8'))
  return { name, page: pageOf(name), html, title: first }
}

/** A link of a document as a link of its page. */
function target(name, href) {
  if (/^[a-z][a-z+.-]*:/i.test(href) || href.startsWith('#')) return href
  const [path, anchor] = href.split('#')
  const file = posix.normalize(posix.join(posix.dirname(name), path))
  let to = file
  if (documents.includes(file)) to = pageOf(file)
  else if (documents.includes(posix.join(file, 'README.md'))) to = pageOf(posix.join(file, 'README.md'))
  else if (existsSync(join(root, file)) && !file.startsWith('..')) linked.add(file)
  else wrong.push(`${name}: ${href} is no file`)
  const link = posix.relative(posix.dirname(pageOf(name)), to)
  return anchor === undefined ? link : `${link}#${anchor}`
}

function menu(pages, current) {
  const rest = pages.map(({ name }) => name).filter((name) => !Object.values(MENU).flat().includes(name))
  const groups = {
    ...MENU,
    Decisions: rest.filter((name) => name.startsWith('docs/decisions/')).sort(),
    More: rest.filter((name) => !name.startsWith('docs/decisions/')).sort(),
  }
  const entry = (name) => {
    const page = pages.find((each) => each.name === name)
    if (page === undefined) return ''
    const link = posix.relative(posix.dirname(current.page), page.page)
    const here = page === current ? ' aria-current="page"' : ''
    return `<li><a href="${link}"${here}>${escaped(page.title)}</a></li>`
  }
  return Object.entries(groups)
    .map(([heading, names]) => [heading, names.map(entry).join('')])
    .filter(([, entries]) => entries !== '')
    .map(([heading, entries]) => `<h2>${heading}</h2><ul>${entries}</ul>`)
    .join('\n')
}

function pageText(pages, page) {
  const up = posix.relative(posix.dirname(page.page), '.') || '.'
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escaped(page.title)}${page.name === 'README.md' ? '' : ' · intake-sync'}</title>
<link rel="stylesheet" href="${up}/site.css">
</head>
<body data-root="${up}">
<a class="skip" href="#main">Skip to the text</a>
<nav aria-label="Documents">
<p class="name"><a href="${up}/index.html">intake-sync</a></p>
<label for="search">Search</label>
<input id="search" type="search" autocomplete="off" placeholder="Press /">
<ol id="found" aria-live="polite"></ol>
${menu(pages, page)}
</nav>
<main id="main">
${page.html}</main>
<script src="${up}/search-index.js"></script>
<script src="${up}/search.js"></script>
</body>
</html>
`
}

/** The sections of a page: what comes after a heading, up to the next. */
function sectionsOf({ page, html, title }) {
  return html
    .split(/(?=<h[1-6] id=)/)
    .map((piece) => {
      const [, id = '', heading = ''] = /^<h[1-6] id="([^"]*)">(.*?) <a class="anchor"/s.exec(piece) ?? []
      const text = plain(piece.replace(/^<h[1-6].*?<\/h[1-6]>/s, ''))
      return { at: id === '' ? page : `${page}#${id}`, page: title, title: plain(heading) || title, text }
    })
    .filter(({ text, title: heading }) => text !== '' || heading !== title)
}

/** Links of pages that lead nowhere. */
function deadLinks(pages) {
  const ids = new Map(
    pages.map(({ page, html }) => [page, new Set([...html.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id))]),
  )
  return pages.flatMap(({ name, page, html }) =>
    [...html.matchAll(/ href="([^"]+)"/g)].flatMap(([, href]) => {
      if (/^[a-z][a-z+.-]*:/i.test(href)) return []
      const [path, anchor] = href.split('#')
      const to = path === '' ? page : posix.normalize(posix.join(posix.dirname(page), path))
      if (anchor === undefined || !ids.has(to) || ids.get(to).has(decodeURIComponent(anchor))) return []
      return [`${name}: ${href} is no section`]
    }),
  )
}

const pages = documents.sort().map(render)
wrong.push(...deadLinks(pages))
rmSync(out, { recursive: true, force: true })
for (const page of pages) {
  mkdirSync(dirname(join(out, page.page)), { recursive: true })
  writeFileSync(join(out, page.page), pageText(pages, page))
}
for (const file of linked) {
  if (statSync(join(root, file)).isDirectory())
    cpSync(join(root, file), join(out, file), { recursive: true, filter: (name) => !name.endsWith('.md') })
  else cpSync(join(root, file), join(out, file))
}
const index = pages.flatMap(sectionsOf)
writeFileSync(join(out, 'search-index.js'), `var sections = ${JSON.stringify(index)}\n`)
for (const name of ['search.js', 'site.css']) cpSync(join(own, 'site', name), join(out, name))
for (const each of wrong) process.stdout.write(`${each}\n`)
process.stdout.write(
  `${pages.length} pages, ${index.length} sections in ${relative(process.cwd(), out) || '.'}\n`,
)
process.exitCode = wrong.length === 0 ? 0 : 1
