/** The documents as a site: complete, without dead links, and usable without a network. */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { runInNewContext } from 'node:vm'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { makeFolder, removeFolder } from '../support/folders.ts'

const root = resolve(import.meta.dirname, '../..')
let work: string
let site: string
const build = (...words: string[]) =>
  spawnSync(process.execPath, [join(root, 'scripts/docs.mjs'), ...words], { encoding: 'utf8' })

beforeAll(() => {
  work = makeFolder('site-')
  site = join(work, 'site')
  const { status, stdout } = build('--out', site)
  expect([status, stdout]).toEqual([0, expect.stringMatching(/^\d+ pages, \d+ sections in \S+\n$/)])
})
afterAll(() => removeFolder(work))

const pages = () =>
  readdirSync(site, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.html'))
const htmlOf = (page: string) => readFileSync(join(site, page), 'utf8')

describe('the site', () => {
  it('has a page for each document, which the menu of every page links to', () => {
    const documents = ['docs', 'examples'].flatMap((folder) =>
      readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((name) =>
        join(folder, name),
      ),
    )
    const expected = [
      ...documents.filter((name) => name.endsWith('.md')),
      'CHANGELOG.md',
      'CONTRIBUTING.md',
      'SECURITY.md',
    ]
      .map((name) => name.replace(/md$/, 'html'))
      .concat('index.html')
    expect(pages()).toEqual(expect.arrayContaining(expected))
    for (const page of pages()) {
      const [menu] = /<nav[\s\S]*<\/nav>/.exec(htmlOf(page))!
      const linked = [...menu.matchAll(/ href="([^"]+\.html)"/g)].map(([, href]) =>
        join(dirname(page), href!),
      )
      expect(new Set(linked), page).toEqual(new Set(pages()))
    }
  })

  it('links only to files and sections that exist', () => {
    let links = 0
    for (const page of pages()) {
      for (const [, link] of htmlOf(page).matchAll(/ (?:href|src)="([^"]*)"/g)) {
        if (/^(?:https?|mailto):/.test(link!)) continue
        const [path, anchor] = link!.split('#') as [string, string?]
        const target = path === '' ? page : join(dirname(page), path)
        expect([page, link, existsSync(join(site, target))]).toEqual([page, link, true])
        if (anchor !== undefined && target.endsWith('.html'))
          expect(htmlOf(target), `${page}: ${link}`).toContain(` id="${decodeURIComponent(anchor)}"`)
        links += 1
      }
    }
    expect(links).toBeGreaterThan(500)
  })

  it('loads nothing from a network', () => {
    for (const page of pages()) {
      expect(htmlOf(page)).not.toMatch(/<(?:script|img|link|iframe)\b[^>]*(?:src|href)="(?:[a-z]+:)?\/\//)
    }
    for (const file of ['site.css', 'search.js']) expect(htmlOf(file)).not.toMatch(/https?:|import\b|fetch\(/)
  })

  it.each([
    ['rotate encryption', 'docs/operations.html#rotate-intake_encryption_key'],
    ['signature raw body', 'docs/security.html'],
    ['downgrade backup', 'docs/operations.html#upgrade'],
  ])('finds "%s"', (query, expected) => {
    const found = runInNewContext(
      `${htmlOf('search-index.js')}\n${htmlOf('search.js')}\nfindSections(sections, query, 12).map(({ section }) => section.at)`,
      { query },
    ) as string[]
    expect(found.some((at) => at.startsWith(expected))).toBe(true)
    for (const at of found) expect(existsSync(join(site, at.split('#')[0]!))).toBe(true)
  })

  it('finds nothing for a word that no document has', () => {
    const code = `${htmlOf('search-index.js')}\n${htmlOf('search.js')}\nfindSections(sections, 'verify xyzzyx', 12).length`
    expect(runInNewContext(code)).toBe(0)
  })
})

it('a link or an anchor that leads nowhere fails the build, which names it', () => {
  const from = join(work, 'broken')
  mkdirSync(join(from, 'docs'), { recursive: true })
  writeFileSync(
    join(from, 'README.md'),
    '# A\n\n[one](docs/none.md) [two](docs/b.md#gone) [three](docs/b.md#a-b)\n',
  )
  writeFileSync(join(from, 'docs/b.md'), '# B\n\n## A b\n\n[back](../README.md#a) [out](../../etc)\n')
  const { status, stdout } = build('--from', from, '--out', join(work, 'broken-site'))
  expect(status).toBe(1)
  expect(stdout.split('\n').slice(0, -2).sort()).toEqual([
    'README.md: docs/b.html#gone is no section',
    'README.md: docs/none.md is no file',
    'docs/b.md: ../../etc is no file',
  ])
  expect(build('--nonsense').status).toBe(2)
})

it('the forms for issues are complete', () => {
  const folder = join(root, '.github/ISSUE_TEMPLATE')
  for (const name of readdirSync(folder)) {
    const form = parse(readFileSync(join(folder, name), 'utf8'))
    if (name === 'config.yml') continue
    expect(form).toMatchObject({ name: expect.any(String), description: expect.any(String) })
    const ids = form.body
      .filter(({ type }: { type: string }) => type !== 'markdown')
      .map(({ id }: { id: string }) => id)
    expect(new Set(ids).size).toBe(ids.length)
    for (const { type, attributes } of form.body)
      expect(type === 'markdown' ? attributes.value : attributes.label, name).toEqual(expect.any(String))
  }
})
