/** "Break it" of `demo --stay`, clicked through in a real browser: damage is seen, heals, and is verified. */
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

  it.each(['Drop webhooks', 'Start a storm of 429', 'Reorder events', 'Kill Postgres'])(
    '%s: broken, then healed',
    async (title) => {
      await reader.visit('/break')
      await reader.page.getByRole('button', { name: title }).click()
      await becomes(title, 'healed')
      const row = await reader.page.getByRole('row', { name: title }).first().textContent()
      expect(row).toMatch(/healed *\d+(\.\d+)? (s|min)/)
      await reader.inspect()
    },
  )

  it('Corrupt a row: verify is red, repairs it, and is green', async () => {
    await reader.visit('/break')
    await reader.page.getByRole('button', { name: 'Corrupt a row' }).click()
    await becomes('Corrupt a row', 'broken')
    const verified = async (repair: boolean) => {
      await reader.visit('/verify')
      if (repair) await reader.page.getByLabel('repair what differs').check()
      await reader.page.getByRole('button', { name: 'Verify', exact: true }).click()
      await reader.page.locator('main:not([data-waits])').waitFor({ timeout: 120_000 })
      return await reader.page.getByRole('status').textContent()
    }
    expect(await verified(false)).toMatch(/^needs attention, after/)
    await reader.page.getByRole('link', { name: 'patients' }).click()
    await expect
      .poll(() => reader.page.getByRole('listitem').allTextContents())
      .toContainEqual(expect.stringMatching(/: city$/))
    expect(await verified(true)).toMatch(/^differences were repaired, after/)
    await reader.visit('/break')
    await becomes('Corrupt a row', 'healed')
    expect(await verified(false)).toMatch(/^equal, after/)
    await reader.visit('/')
    expect(await reader.page.getByRole('main').textContent()).toContain('proved equal to the service')
    await reader.inspect()
    await reader.visit('/audit')
    const actions = await reader.page.locator('tbody th').allTextContents()
    expect(actions.filter((each) => each === 'break')).toHaveLength(5)
    expect(actions.filter((each) => each === 'verify')).toHaveLength(3)
  })
})
