/** "Break it" of `demo --stay`, clicked through in a real browser: damage is seen, heals, and is verified. */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Running, startCli } from '../support/cli.ts'
import { cleanUp, temporaryDirectory } from '../support/embedded-fixture.ts'
import { noBrowser, openBrowser, openPage, reasonWithoutBrowser, type Watched } from './support/browser.ts'

if (noBrowser) process.stdout.write(`break it${reasonWithoutBrowser}\n`)

describe.skipIf(noBrowser)(`in Chromium${reasonWithoutBrowser}`, () => {
  let browser: Browser
  let demo: Running
  let reader: Watched

  beforeAll(async () => {
    browser = await openBrowser()
    demo = startCli(['demo', '--stay'], { INTAKE_DATA_DIR: `${temporaryDirectory()}/data` })
    await demo.said('INTAKE_API_SECRET=')
    const [link] = /http:\/\/\S+\/login\?link=\S+/.exec(demo.output())!
    // While Postgres restarts, pages are errors with a hint.
    reader = await openPage(browser, link, { expectedErrors: /status of 503/ })
  })
  afterAll(async () => {
    await browser?.close()
    demo?.process.kill('SIGTERM')
    await demo?.ended
    await cleanUp()
  })

  const stateOf = (title: string) =>
    reader.page.getByRole('row', { name: title }).first().locator('.mark').textContent()

  /** The page loads itself again; one that failed because Postgres was away is loaded by hand, as a person would. */
  async function becomes(title: string, state: string): Promise<void> {
    await expect
      .poll(
        async () => {
          if ((await reader.page.getByRole('alert').count()) > 0) await reader.page.reload()
          return await stateOf(title).catch(() => null)
        },
        { timeout: 120_000, interval: 500 },
      )
      .toBe(state)
  }

  /** Starts a verification, and returns what the page says of it when it has ended. */
  async function verified(repair: boolean): Promise<string | null> {
    await reader.visit('/verify')
    if (repair) await reader.page.getByLabel('repair what differs').check()
    await reader.page.getByRole('button', { name: 'Verify', exact: true }).click()
    await reader.page.locator('main:not([data-waits])').waitFor({ timeout: 120_000 })
    return await reader.page.getByRole('status').textContent()
  }

  const SECONDS = String.raw`\d+(?:\.\d+)? (?:s|min)`

  it.each([
    ['Drop webhooks', '20 patients changed, and no event said so'],
    ['Start a storm of 429', 'one of ten requests is answered with 429'],
    ['Reorder events', 'the events arrive twice and in the wrong order'],
    ['Kill Postgres', 'Postgres lost a process and restarts'],
  ])('%s: damage seen, healed and verified, with the time of each', async (title, damage) => {
    await reader.visit('/break')
    await reader.page.getByRole('button', { name: title }).click()
    await becomes(title, 'healed')
    const row = await reader.page.getByRole('row', { name: title }).first().textContent()
    expect(row).toContain(damage)
    expect(row).toMatch(new RegExp(`healed\\s*${SECONDS}\\s*${SECONDS}`))
    await reader.inspect()
    expect(await verified(false)).toMatch(new RegExp(`^equal, after ${SECONDS}`))
  })

  it('Corrupt a row: verify is red, repairs it, and is green', async () => {
    await reader.visit('/break')
    await reader.page.getByRole('button', { name: 'Corrupt a row' }).click()
    await becomes('Corrupt a row', 'broken')
    expect(await verified(false)).toMatch(/^needs attention, after/)
    await reader.page.getByRole('link', { name: 'patients' }).click()
    await expect
      .poll(() => reader.page.getByRole('listitem').allTextContents())
      .toContainEqual(expect.stringMatching(/: city$/))
    expect(await verified(true)).toMatch(/^differences were repaired, after/)
    await reader.visit('/break')
    await becomes('Corrupt a row', 'healed')
    const row = await reader.page.getByRole('row', { name: 'Corrupt a row' }).first().textContent()
    expect(row).toMatch(new RegExp(`never said\\s*healed\\s*${SECONDS}\\s*${SECONDS}`))
    expect(await verified(false)).toMatch(/^equal, after/)
    await reader.visit('/')
    expect(await reader.page.getByRole('main').textContent()).toContain('proved equal to the service')
    await reader.inspect()
    await reader.visit('/audit')
    const actions = await reader.page.locator('tbody th').allTextContents()
    expect(actions.filter((each) => each === 'break')).toHaveLength(5)
    expect(actions.filter((each) => each === 'verify')).toHaveLength(7)
  })

  it('the picture of README.md can be taken again: it has its size, and shows the streams', async () => {
    await reader.visit('/audit')
    await reader.page.getByLabel('Login').fill('painter')
    await reader.page.getByLabel('Role').selectOption('operator')
    await reader.page.getByRole('button', { name: 'Make a link' }).click()
    await reader.page.getByRole('status').waitFor()
    const link = /http:\/\/\S+\/login\?link=[\w-]+/.exec(
      (await reader.page.getByRole('main').textContent())!,
    )![0]
    const file = join(temporaryDirectory(), 'console.png')
    execFileSync(process.execPath, ['scripts/picture.mjs', '--link', link, '--out', file])
    const [taken, shown] = [readFileSync(file), readFileSync('docs/console.png')]
    const sizeOf = (png: Buffer) => [png.readUInt32BE(16), png.readUInt32BE(20)]
    expect(sizeOf(taken)[0]).toBeGreaterThanOrEqual(1_100)
    expect(sizeOf(taken)[1]).toBe(sizeOf(shown)[1])
    // An empty page of this size has a tenth of it.
    expect(taken.length).toBeGreaterThan(40_000)
  })
})
