/**
 * Chromium, for tests of what a reader sees: Debian's package, or the one that CHROMIUM names. Where there is none, the
 * tests are skipped and say so.
 *
 * Invariant: a page that logs an error, throws, asks another host for anything or opens a dialog fails its test.
 */
import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { expect } from 'vitest'

const PLACES = [
  process.env.CHROMIUM ?? '',
  ...['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'],
]
const place = PLACES.find((path) => path !== '' && existsSync(path))

export const noBrowser = place === undefined
export const reasonWithoutBrowser = noBrowser ? ' (skipped: no Chromium; install it, or set CHROMIUM)' : ''

export function openBrowser(): Promise<Browser> {
  // The sandbox needs rights that root in a container does not have.
  return chromium.launch({ executablePath: place!, args: ['--no-sandbox', '--disable-dev-shm-usage'] })
}

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

export const SMALL = { width: 360, height: 740 }
export const LARGE = { width: 1_920, height: 1_080 }

export interface Watched {
  readonly page: Page
  /** Goes to a path and waits until the page has everything. */
  visit(path: string): Promise<void>
  /** Fails if anything was wrong since the last call: an error, a foreign host, a violation, a page too wide. */
  inspect(): Promise<void>
  close(): Promise<void>
}

/** A page of a console, logged in with `link`. */
export async function openPage(
  browser: Browser,
  link: string,
  options: BrowserContextOptions & { readonly expectedErrors?: RegExp } = {},
): Promise<Watched> {
  const { expectedErrors, ...rest } = options
  const context = await browser.newContext({ viewport: LARGE, ...rest })
  await context.addInitScript(axe)
  const { origin, host } = new URL(link)
  const wrong: string[] = []
  context.on('request', (request) => {
    const url = new URL(request.url())
    if (url.host !== host) wrong.push(`a request to ${url.host}`)
  })
  context.on('console', (message) => {
    const isExpected = expectedErrors?.test(message.text()) === true
    if (['error', 'warning'].includes(message.type()) && !isExpected) wrong.push(message.text())
  })
  context.on('weberror', (error) => wrong.push(String(error.error())))
  context.on('dialog', (dialog) => {
    wrong.push(`a dialog: ${dialog.message()}`)
    void dialog.dismiss()
  })
  const page = await context.newPage()
  await page.goto(link)
  await page.getByRole('button', { name: 'Log in' }).click()
  await page.getByRole('navigation').waitFor()
  return {
    page,
    async visit(path) {
      await page.goto(`${origin}${path}`)
      await page.locator('main:not([data-waits])').waitFor()
    },
    async inspect() {
      const where = new URL(page.url()).pathname
      const found = (await page.evaluate(INSPECT)) as {
        readonly violations: readonly Violation[]
        readonly tooWide: number
      }
      const violations = found.violations.map(({ id, nodes }) => [
        id,
        ...nodes.map(({ html }) => html.slice(0, 120)),
      ])
      expect({ where, wrong: wrong.splice(0), violations, tooWide: found.tooWide }).toEqual({
        ...{ where, wrong: [], violations: [], tooWide: 0 },
      })
    },
    close: () => context.close(),
  }
}

/** Evaluated in the page. */
const INSPECT = `axe.run().then(({ violations }) => ({
  violations,
  tooWide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
}))`

interface Violation {
  readonly id: string
  readonly nodes: readonly { readonly html: string }[]
}

/** Presses Tab until the focus is on what matches, as somebody without a mouse does. */
export async function tabTo(page: Page, selector: string): Promise<void> {
  for (let time = 0; time < 80; time++) {
    await page.keyboard.press('Tab')
    if (await page.evaluate(`document.activeElement.matches(${JSON.stringify(selector)})`)) return
  }
  throw new Error(`the keyboard does not reach ${selector}`)
}
