/**
 * Every screen in every state at two sizes, in a real browser: no error, no request to another host, no violation of
 * accessibility, nothing wider than the page. A missing browser skips it, and says so.
 */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readConfig } from '../../src/config/config.ts'
import type { Check } from '../../src/operate/doctor/check.ts'
import { connect, openScene, openWarehouse, type Scene } from '../e2e/support/scene.ts'
import { runCommand } from '../support/run-command.ts'
import {
  LARGE,
  noBrowser,
  openBrowser,
  openPage,
  reasonWithoutBrowser,
  SMALL,
  tabTo,
} from './support/browser.ts'
import { startConsole } from './support/console.ts'

const GOOD: Check = { name: 'disk', status: 'ok', detail: '80 GB free', hint: null }
const BAD: Check = {
  name: 'database',
  status: 'failed',
  detail: 'no connection is left',
  hint: 'end sessions',
}

/** Evaluated in a page: which of the places of its content that a keyboard must reach has the focus, and how many there are. */
const FOCUSED = `(() => {
  const places = 'a[href], button, input:not([type=hidden]), select, summary, [tabindex="0"]'
  const all = [...document.querySelectorAll(places)].filter((each) =>
    each.closest('main') !== null && each.checkVisibility() && !each.disabled)
  return [all.indexOf(document.activeElement), all.length]
})()`

/** Answers each request with a text. */
async function serveText(text: () => string): Promise<AsyncDisposable & { readonly url: string }> {
  const server = createServer((_request, response) => response.end(text()))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}/metrics`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

if (noBrowser) process.stdout.write(`every screen in every state${reasonWithoutBrowser}\n`)

describe.skipIf(noBrowser)(`in Chromium${reasonWithoutBrowser}`, () => {
  let browser: Browser
  let scene: Scene
  let empty: Awaited<ReturnType<typeof openWarehouse>>

  beforeAll(async () => {
    browser = await openBrowser()
    scene = await openScene()
    empty = await openWarehouse()
  })
  afterAll(async () => {
    await browser?.close()
    await scene?.[Symbol.asyncDispose]()
    await empty?.drop()
  })

  const VIEWS = [
    { viewport: SMALL, colorScheme: 'light' },
    { viewport: LARGE, colorScheme: 'dark' },
  ] as const

  /** Visits every screen, and further pages, at both sizes and in both schemes. */
  async function inspectAll(
    url: string,
    further: readonly string[] = [],
    check: Check = GOOD,
  ): Promise<void> {
    const settings = [{ name: 'DATABASE_URL', value: '(hidden)', from: 'environment' }]
    const teams = readConfig(scene.env).teams
    await using console_ = await startConsole(url, { checks: async () => [check], settings, teams })
    for (const view of VIEWS) {
      const reader = await openPage(browser, console_.link('ada', 'operator'), view)
      const screens = await reader.page
        .getByRole('navigation')
        .getByRole('link')
        .evaluateAll((links) => links.map((each) => each.getAttribute('href')!))
      expect(screens.length).toBe(11)
      for (const path of [...screens, ...further]) {
        await reader.visit(path)
        await reader.inspect()
      }
      await reader.close()
    }
  }

  it('without any data', async () => {
    await inspectAll(empty.url)
  })

  it('healthy: loaded and proved equal', async () => {
    expect((await scene.backfill()).code).toBe(0)
    expect((await runCommand(['verify'], scene.env)).code).toBe(0)
    const [patient] = await scene.query<{ id: string }>('select min(id) as id from intake.patients')
    const record = `/records?team=default&stream=patients&id=${patient!.id}`
    await inspectAll(scene.url, ['/runs/1', '/streams/default/patients', '/verify/2/receipt', record])
  })

  it('broken: dead letters, differences, old events, problems, drift, failed and interrupted runs', async () => {
    const group = new URLSearchParams({ team: 'default', stream: 'patients', reason: 'has no id' })
    await scene.query(`
      insert into intake_ops.dead_letters (team_id, stream, record_id, origin, reason, fingerprint)
      select team_id, 'patients', 'x-' || n, 'run:1 page:1', 'has no id', decode(md5(n::text), 'hex')
      from intake.teams, generate_series(1, 250) n`)
    await scene.query(`
      insert into intake_ops.problems (team_id, stream, path, reason, count)
      select team_id, 'patients', 'date_birth', 'is no date', 12 from intake.teams`)
    await scene.query(`
      insert into intake_ops.drift (team_id, stream, path, type, count)
      select team_id, 'patients', 'nickname', 'string', 45 from intake.teams`)
    await scene.query(`
      insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, event_type, source, record_id, body)
      select team_id, 'e-1', '\\x01', current_date, now() - interval '2 hours', 'updated', 'patient', 'x-1', '{}'
      from intake.teams`)
    await scene.query(`
      insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, event_type, source, record_id,
        body, status, settled_at)
      select team_id, 'e-2', '\\x02', current_date, now(), 'updated', 'patient', 'x-1', '{}', 'dead', now()
      from intake.teams`)
    await scene.query(`
      update intake_ops.verifications set is_equal = false, different = 2, missing = 1, missing_ids = '{x-1}',
        different_ids = '[{"id": "x-2", "fields": ["city", "zipcode"]}]' where stream = 'patients'`)
    await scene.query(`
      insert into intake_ops.runs (kind, status, options, started_at, finished_at, error)
      values ('backfill', 'failed', '{"teams": ["default"], "streams": ["patients"]}', now(), now(), 'bad credentials'),
        ('backfill', 'running', '{"teams": ["default"], "streams": ["patients"]}', now() - interval '1 hour', null, null)`)
    const [last] = await scene.query<{ run: number; verify: number }>(
      `select max(run_id)::int as run, (select max(run_id)::int from intake_ops.verifications) as verify from intake_ops.runs`,
    )
    const further = [
      `/dead-letters/group?${group}`,
      `/dead-letters/preview?action=retry&${group}`,
      `/dead-letters/preview?action=discard&${group}`,
      `/verify/${last!.verify}/default/patients`,
      `/verify/${last!.verify}/receipt`,
      `/runs/${last!.run}`,
      '/streams/default/patients',
      '/records?team=default&stream=patients&id=x-1',
      '/events?team=default&id=e-2',
    ]
    await inspectAll(scene.url, further, BAD)
  })

  /** Pages of one console at both sizes. */
  const openBoth = (link: () => string, expectedErrors = /status of 404/) =>
    Promise.all(VIEWS.map((view) => openPage(browser, link(), { ...view, expectedErrors })))

  it.each(VIEWS)('loading: a page that is still read says so, at $viewport.width', async (view) => {
    // Each page is visited once, so that its reading begins then: it waits for the lock for ten seconds.
    await using console_ = await startConsole(scene.url, { checks: () => new Promise<never>(() => {}) })
    const session = await connect(scene.url)
    await session.query('begin')
    await session.query('lock table intake.teams, intake.responses, intake_ops.runs in access exclusive mode')
    // The first page is the overview.
    const { page, inspect, close } = await openPage(browser, console_.link('ada', 'operator'), {
      ...view,
      // A page that loads itself again when its reading has failed.
      expectedErrors: /status of 503/,
    })
    const waiting = [
      '/',
      '/streams',
      '/runs',
      '/inbox',
      '/dead-letters',
      '/verify',
      '/records',
      '/records?team=default&stream=patients&id=x-1',
      '/events?team=default&id=e-1',
      '/questions',
      '/insights',
      '/health',
      '/audit',
    ]
    const seen = []
    // After the login, which it would stop.
    await session.query('lock table intake_ops.audit in access exclusive mode')
    try {
      for (const path of waiting) {
        if (path !== '/') await page.goto(`${console_.url}${path}`, { waitUntil: 'domcontentloaded' })
        const notice = page.locator('main[data-waits] .notice[role=status]')
        seen.push([path, (await notice.count()) > 0])
        await inspect()
      }
    } finally {
      await session.query('rollback')
      await session.end()
    }
    expect(seen).toEqual(waiting.map((path) => [path, true]))
    await close()
  })

  it.each(VIEWS)(
    'the inbox of a process that receives events, as a live chart, at $viewport.width',
    async (view) => {
      let asked = 0
      await using metrics = await serveText(() => {
        asked += 1
        return `intake_events_received_total{team="default"} ${asked * 40}
intake_events_drained_total{team="default",outcome="done"} ${asked * 39}
intake_events_rejected_total{team="default",reason="signature"} ${asked}
intake_event_visible_seconds_bucket{le="0.1",team="default"} ${asked * 30}
intake_event_visible_seconds_bucket{le="1",team="default"} ${asked * 39}
intake_event_visible_seconds_bucket{le="+Inf",team="default"} ${asked * 39}
`
      })
      await using console_ = await startConsole(scene.url, { metricsUrl: metrics.url })
      const { page, visit, inspect, close } = await openPage(browser, console_.link('ada', 'viewer'), view)
      await visit('/inbox')
      await page.locator('[data-samples] canvas').waitFor()
      expect(await page.locator('.u-legend .u-label').allTextContents()).toEqual(
        expect.arrayContaining(['received/s', 'stored/s', 'visible/s', '50 % visible within, s']),
      )
      expect(await page.getByRole('region', { name: 'Refused requests' }).textContent()).toMatch(
        /signature\d+/,
      )
      await inspect()
      await close()
    },
  )

  it('a run in progress, at both sizes', async () => {
    await using console_ = await startConsole(scene.url)
    const readers = await openBoth(() => console_.link('ada', 'viewer'))
    scene.emulator.control.setFaults('slow=1:2500')
    const running = scene.backfill()
    try {
      const live = async () => {
        const [run] = await scene.query<{ run_id: number }>(
          `select run.run_id::int as run_id from intake_ops.runs run join intake_ops.run_progress using (run_id)
           where run.status = 'running' and run.error is null order by 1 desc limit 1`,
        )
        return run?.run_id ?? null
      }
      await expect.poll(live).not.toBeNull()
      const path = `/runs/${await live()}`
      for (const { page } of readers) {
        await page.goto(`${console_.url}${path}`)
        expect(await page.getByRole('main').textContent()).toMatch(/being read/)
      }
      for (const { inspect } of readers) await inspect()
    } finally {
      scene.emulator.control.setFaults('')
      await running
      await Promise.all(readers.map(({ close }) => close()))
    }
  })

  it('one value for a steward, an event with its record, and one that is unknown', async () => {
    await using console_ = await startConsole(scene.url)
    const readers = await openBoth(() => console_.link('ada', 'steward'))
    const [patient] = await scene.query<{ id: string }>('select min(id) as id from intake.patients')
    for (const { page, visit, inspect, close } of readers) {
      await visit(`/records?team=default&stream=patients&id=${patient!.id}`)
      const form = page.locator('form[action="/records/value"]')
      await form.getByRole('button').click()
      await page.getByRole('heading', { name: 'One value' }).waitFor()
      await inspect()
      await visit('/events?team=default&id=e-1')
      expect(await page.getByRole('main').textContent()).toContain('patient updated')
      await inspect()
      await visit('/events?team=default&id=nothing')
      expect(await page.getByRole('main').textContent()).toContain('The inbox has no event')
      await inspect()
      await close()
    }
  })

  it('the keyboard goes to every screen, and to every link, button and field on it', async () => {
    const { teams } = readConfig(scene.env)
    await using console_ = await startConsole(scene.url, { checks: async () => [BAD], teams })
    const { page, inspect, close } = await openPage(browser, console_.link('ada', 'operator'), {
      viewport: SMALL,
    })
    const screens = await page
      .getByRole('navigation')
      .getByRole('link')
      .evaluateAll((links) => links.map((each) => each.getAttribute('href')!))
    for (const path of screens) {
      await tabTo(page, `nav a[href="${path}"]`)
      await Promise.all([page.waitForNavigation(), page.keyboard.press('Enter')])
      await page.locator('main:not([data-waits])').waitFor()
      const reached = new Set<number>()
      let places = 1
      for (let time = 0; reached.size < places && time < places + 40; time++) {
        await page.keyboard.press('Tab')
        const [place, all] = (await page.evaluate(FOCUSED)) as [number, number]
        if (place >= 0) reached.add(place)
        places = all
      }
      expect([path, places - reached.size]).toEqual([path, 0])
      await inspect()
    }
    expect(screens).toHaveLength(11)
    await close()
  })

  it('Break it: nothing broken yet, and then broken, healed and failed', async () => {
    const breakage = (name: string, isHealed: boolean, run?: () => Promise<never>) => ({
      ...{ name, title: name, heals: 'itself' },
      run: run ?? (async () => ({ text: 'damaged', heal: async () => {}, isHealed: async () => isHealed })),
    })
    const breakages = [
      ...[breakage('glass', false), breakage('rubber', true)],
      breakage('stone', false, () => Promise.reject(new Error('too hard'))),
    ]
    await using console_ = await startConsole(scene.url, { breakages })
    const readers = await openBoth(() => console_.link('ada', 'operator'))
    for (const { page, inspect } of readers) {
      await page.goto(`${console_.url}/break`)
      expect(await page.getByRole('main').textContent()).toContain('Nothing was broken yet')
      await inspect()
    }
    for (const { name } of breakages) {
      await readers[0]!.page.getByRole('button', { name }).click()
      await readers[0]!.page.getByRole('row', { name }).waitFor()
    }
    for (const { page, inspect, close } of readers) {
      await page.goto(`${console_.url}/break`)
      const states = await page.locator('tbody .mark').allTextContents()
      expect(states.sort()).toEqual(['broken', 'failed', 'healed'])
      await inspect()
      await close()
    }
  })

  it('pages that do not exist, a refusal and a warehouse that goes away, without a stack', async () => {
    const away = await openWarehouse()
    await using console_ = await startConsole(away.url)
    const reader = await openPage(browser, console_.link('ada', 'viewer'), {
      ...{ viewport: SMALL, expectedErrors: /status of (404|403|503)/ },
    })
    for (const path of ['/nowhere', '/audit', '/runs/9']) {
      await reader.visit(path)
      expect(await reader.page.getByRole('alert').textContent()).toContain('This could not be shown')
      await reader.inspect()
    }
    // The pool closes its idle connections first, so that the database can be dropped.
    await away.drop().catch(() => {})
    await reader.visit('/verify')
    expect(await reader.page.getByRole('main').textContent()).toMatch(/What to do: /)
    await reader.inspect()
    await reader.close()
  })
})
