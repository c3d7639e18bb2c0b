/** The console in a real browser: what an operator sees and does. Every state of every screen: states.long.test.ts. */
import { existsSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { entityDiagram } from '../../src/streams/diagram.ts'
import { openScene, type Scene } from '../e2e/support/scene.ts'
import { realData, reasonWhenMissing } from '../emulator/real-data.ts'
import { noBrowser, openBrowser, openPage, reasonWithoutBrowser, SMALL, tabTo } from './support/browser.ts'
import { startConsole } from './support/console.ts'

const OWN = [
  '<script>window.hit = 1</script>',
  '"><img src=x onerror="window.hit = 1">',
  "'-alert(1)-'",
  '{{7*7}} <%= 7 %>',
]
const list = realData('json/blns/blns.json')
/** Strings that break careless pages; the public list is used where it is there. */
const NAUGHTY = [
  ...OWN,
  ...(existsSync(list) ? (JSON.parse(readFileSync(list, 'utf8')) as string[]) : [])
    // Visible characters, and none that Postgres cannot store.
    .filter((text) => /[<&"']/.test(text) && /^[\x20-\x7e]{1,400}$/.test(text))
    .slice(0, 120),
].map((text) => text.trim())

if (noBrowser) process.stdout.write(`the console in a browser${reasonWithoutBrowser}\n`)

describe.skipIf(noBrowser)(`in Chromium${reasonWithoutBrowser}`, () => {
  let scene: Scene
  let page: Awaited<ReturnType<typeof startConsole>>
  let browser: Browser

  beforeAll(async () => {
    scene = await openScene()
    scene.emulator.control.addForm({
      name: NAUGHTY[0]!,
      questions: NAUGHTY.map((text) => ({ type: 'short_text' as const, text })),
    })
    expect((await scene.backfill()).code).toBe(0)
    await scene.query(
      `insert into intake_ops.dead_letters (team_id, stream, record_id, origin, reason, fingerprint)
       select team_id, 'patients', text, 'run:1 page:1', text, decode(md5(text), 'hex')
       from intake.teams, unnest($1::text[]) as text`,
      [[...new Set(NAUGHTY.slice(0, 60))]],
    )
    page = await startConsole(scene.url, {
      settings: NAUGHTY.map((value) => ({ name: 'INTAKE_TEAM', value, from: 'environment' })),
      checks: async () =>
        NAUGHTY.map((text) => ({ name: 'disk', status: 'ok' as const, detail: text, hint: null })),
    })
    browser = await openBrowser()
  })
  afterAll(async () => {
    await browser?.close()
    await page?.close()
    await scene?.[Symbol.asyncDispose]()
  })

  it(`names and texts that look like markup are shown as text${reasonWhenMissing}`, async () => {
    const reader = await openPage(browser, page.link('ada', 'operator'))
    const cells = async (selector: string) =>
      reader.page.locator(selector).evaluateAll((all) => all.map((each) => each.textContent!.trim()))
    await reader.visit('/questions')
    expect(await cells('table caption ~ tbody th')).toEqual(expect.arrayContaining(NAUGHTY))
    expect(await cells('tbody th')).toContain(NAUGHTY[0])
    await reader.visit('/dead-letters')
    expect((await cells('tbody th')).sort()).toEqual([...new Set(NAUGHTY.slice(0, 60))].sort())
    await reader.page.getByRole('link', { name: NAUGHTY[1]!, exact: true }).click()
    await expect.poll(() => reader.page.locator('dd').allTextContents()).toContain(NAUGHTY[1])
    await reader.visit('/health')
    expect(await cells('td')).toEqual(expect.arrayContaining(NAUGHTY))
    expect(await reader.page.evaluate('window.hit')).toBeUndefined()
    await reader.inspect()
    await reader.close()
  })

  it('the keyboard alone logs in, finds dead letters, previews and discards them', async () => {
    const { page: tab, ...reader } = await openPage(browser, page.link('ada', 'operator'), {
      viewport: SMALL,
    })
    await reader.visit('/')
    await tabTo(tab, 'a.skip')
    await tab.keyboard.press('Enter')
    await expect.poll(() => tab.evaluate('document.activeElement.id')).toBe('content')
    await tab.goto(page.link('ada', 'operator'))
    await reader.inspect()
    for (const selector of [
      'main button[type=submit]',
      'nav a[href="/dead-letters"]',
      'tbody a',
      'a[href*="action=discard"]',
      'main button[type=submit]',
    ]) {
      await tabTo(tab, selector)
      await Promise.all([tab.waitForNavigation(), tab.keyboard.press('Enter')])
    }
    expect(await tab.getByRole('status').textContent()).toContain('1 dead letter of default/patients')
    await reader.inspect()
    const audited = await scene.query<{ login: string; action: string }>(
      `select login, action from intake_ops.audit where action <> 'login'`,
    )
    expect(audited).toEqual([{ login: 'ada', action: 'discard' }])
    await reader.close()
  })

  it('a page updates by itself when something changes', async () => {
    const reader = await openPage(browser, page.link('ada', 'viewer'))
    await reader.visit('/runs')
    const newest = reader.page.locator('tbody th').first()
    const before = await newest.textContent()
    // The page has begun to listen: what it is compared with from now on has been read.
    await sleep(2_500)
    // Whoever is on a link keeps it.
    await reader.page.locator('tbody a').first().focus()
    expect((await scene.backfill('--streams', 'forms')).code).toBe(0)
    await sleep(3_000)
    expect(await newest.textContent()).toBe(before)
    await reader.page.locator('.scroll').focus()
    await expect.poll(() => newest.textContent()).not.toBe(before)
    expect(await reader.page.evaluate('document.activeElement.className')).toBe('scroll')
    expect(await reader.page.getByRole('link', { name: 'Audit' }).count()).toBe(0)
    await reader.inspect()
    await reader.close()
  })

  it('the diagram of the tables is drawn in full, on a telephone too', async () => {
    const reader = await openPage(browser, page.link('ada', 'viewer'), { viewport: SMALL })
    await reader.visit('/streams')
    await reader.page.getByRole('link', { name: 'Diagram of the tables' }).click()
    const image = reader.page.getByRole('img', { name: 'Tables of the schema intake' })
    const size = () =>
      image.evaluate((each) => {
        const { naturalWidth, width } = each as unknown as Record<'naturalWidth' | 'width', number>
        return [naturalWidth, width]
      })
    const [, width] = /viewBox="0 0 (\d+) /.exec(entityDiagram())!
    await expect.poll(size).toEqual([Number(width), Number(width)])
    await reader.inspect()
    await reader.close()
  })

  it('pages can be read without JavaScript', async () => {
    const context = await browser.newContext({ javaScriptEnabled: false })
    const tab = await context.newPage()
    await tab.goto(page.link('ada', 'viewer'))
    await tab.getByRole('button', { name: 'Log in' }).click()
    await tab.getByRole('navigation').waitFor()
    const screens = await tab
      .getByRole('navigation', { name: 'Pages' })
      .getByRole('link')
      .evaluateAll((links) => links.map((each) => each.getAttribute('href')!))
    expect(screens).toHaveLength(10)
    for (const path of screens) {
      await tab.goto(`${page.url}${path}`)
      // A page that waits loads itself again without a script, too.
      await tab.locator('main:not([data-waits])').waitFor()
      const contents = tab.locator('main').locator('section, tbody tr, form, .notice')
      expect([path, (await contents.count()) > 0]).toEqual([path, true])
    }
    await context.close()
  })
})
