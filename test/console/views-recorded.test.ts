/**
 * Compares every screen in many states with test/console/recorded: each word, link, field, class and attribute of its
 * content. After an intended change, `npx vitest run test/console/views-recorded.test.ts -u` updates the recordings; read the
 * difference before you commit it.
 */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { ACTIONS_STATES } from './support/states-of-actions.ts'
import { FIGURES_STATES } from './support/states-of-figures.ts'
import { RUNS_STATES } from './support/states-of-runs.ts'
import { html } from './support/views.ts'

const STATES = { ...ACTIONS_STATES, ...FIGURES_STATES, ...RUNS_STATES }
const FOLDER = join(import.meta.dirname, 'recorded')
const VIEWS = join(import.meta.dirname, '../../src/console/views')

const recorded = (name: string) => join(FOLDER, `${name}.txt`)
/** Without empty lines, which templates leave. */
const tidy = (text: string) => `${text.replace(/\n\s*\n/g, '\n').trim()}\n`
const contentOf = (text: string) => /<h1>A title<\/h1>([\s\S]*)<\/main>/.exec(text)![1]!

it.each(Object.keys(STATES))('every state of the screen %s is as recorded', async (view) => {
  const states = Object.entries(STATES[view]!).map(
    ([name, { data, page }]) => `# ${name}\n${contentOf(html(view, data, page))}`,
  )
  await expect(tidy(states.join('\n'))).toMatchFileSnapshot(recorded(view))
})

it('every page has its frame: the same for all screens, but for whom it is and what it waits for', async () => {
  const frame = (page: object) => html('error', { message: 'm', hint: null }, page).replace(/ +$/gm, '')
  const assets = Object.fromEntries(
    ['icon.svg', 'uplot.css', 'console.css', 'htmx.js', 'uplot.js', 'console.js'].map((name) => [
      name,
      `/assets/${name}?v=<1>`,
    ]),
  )
  const pages = {
    operator: { assets, title: '<Title>', version: '<1>', path: '/runs/7' },
    viewer: { visitor: { login: '<kim>', role: 'viewer' }, path: '/', isLive: false, waits: true },
    steward: { visitor: { login: 'joan', role: 'steward' }, path: '/audit', canBreak: true },
    nobody: { visitor: null, path: '/login', isLive: false, token: '' },
  }
  const frames = Object.entries(pages).map(([name, page]) => `# ${name}\n${frame(page)}`)
  await expect(tidy(frames.join('\n'))).toMatchFileSnapshot(recorded('layout'))
})

it('every template has states', () => {
  const templates = readdirSync(VIEWS).map((name) => name.replace('.eta', ''))
  expect([...Object.keys(STATES), 'layout'].sort()).toEqual(templates.sort())
})
