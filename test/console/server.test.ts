/** The console over HTTP: who is let in, what is refused, and what its pages say of a real warehouse. */
import { createHash } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { POLICY } from '../../src/console/assets.ts'
import { readOverview } from '../../src/console/pages/overview.ts'
import { systemClock } from '../../src/core/clock.ts'
import { networksOf, ROLES, type Role } from '../../src/core/peers.ts'
import { openWebhookChecks } from '../../src/operate/health/webhook-checks.ts'
import { entityDiagram } from '../../src/streams/diagram.ts'
import { openSession } from '../../src/warehouse/connect.ts'
import { connect, openScene, openWarehouse, query, type Scene } from '../e2e/support/scene.ts'
import { runCommand } from '../support/run-command.ts'
import { type Reader, startConsole, whole } from './support/console.ts'

const audited = (url: string) =>
  query<{ login: string; action: string; object: string; detail: object }>(
    url,
    'select login, action, object, detail from intake_ops.audit order by audit_id',
  )

describe('access', () => {
  let warehouse: Awaited<ReturnType<typeof openWarehouse>>
  let console_: Awaited<ReturnType<typeof startConsole>>
  let later = 0

  beforeAll(async () => {
    warehouse = await openWarehouse()
    const clock = { ...systemClock, now: () => systemClock.now() + later }
    console_ = await startConsole(warehouse.url, { clock })
  })
  afterAll(async () => {
    await console_?.close()
    await warehouse?.drop()
  })

  it('a link logs in once: opening it does not use it up, its button does', async () => {
    const link = new URL(console_.link('grace', 'viewer'))
    const stranger = console_.reader()
    for (let time = 0; time < 2; time++) {
      const page = await stranger.get(link.pathname + link.search)
      expect(page.status).toBe(200)
      expect(page.text).toContain('The link logs you in once')
    }
    const fields = { link: link.searchParams.get('link')! }
    const first = await stranger.post('/login', fields)
    expect([first.status, first.headers.get('location')]).toEqual([303, '/'])
    expect(first.headers.get('set-cookie')).toMatch(/; Path=\/; HttpOnly; SameSite=Strict$/)
    const second = await stranger.post('/login', fields)
    expect([second.status, second.headers.get('set-cookie')]).toEqual([403, null])
    expect(second.text).toContain('this link was used, or is older than an hour')
    expect(await audited(warehouse.url)).toEqual([
      { login: 'grace', action: 'login', object: '', detail: { role: 'viewer' } },
    ])
  })

  it('a link ends after an hour, a session after twelve and on logout', async () => {
    const old = new URL(console_.link('grace', 'viewer')).searchParams.get('link')!
    later += 3_601_000_000
    expect((await console_.reader().post('/login', { link: old })).status).toBe(403)
    const reader = await console_.enter('viewer')
    expect((await reader.get('/runs')).status).toBe(200)
    const before = await audited(warehouse.url)
    expect((await reader.post('/logout')).headers.get('location')).toBe('/login')
    expect((await audited(warehouse.url)).slice(before.length)).toEqual([
      { login: 'viewer', action: 'logout', object: '', detail: {} },
    ])
    expect((await reader.get('/runs')).headers.get('location')).toBe('/login')
    const another = await console_.enter('viewer')
    later += 12 * 3_600_000_000 + 1_000_000
    expect((await another.get('/runs')).headers.get('location')).toBe('/login')
    later = 0
  })

  it('a cookie that was changed, or is not ours, is no session', async () => {
    const { cookie } = await console_.enter('operator')
    const [name, value] = cookie.split('=')
    expect((await console_.reader(cookie).get('/audit')).status).toBe(200)
    for (const forged of [`${name}=${value!.slice(0, -2)}`, `${name}=a.b`, `${name}=${'x'.repeat(43)}`]) {
      expect((await console_.reader(forged).get('/audit')).headers.get('location')).toBe('/login')
    }
  })

  /** Damage of a console of the test; `run` counts how often it was done. */
  const breakage = () => {
    const done = { times: 0 }
    const run = async () => {
      done.times += 1
      return { text: 'it is damaged', heal: async () => {}, isHealed: async () => false }
    }
    return { done, breakages: [{ name: 'glass', title: 'Glass', heals: 'nothing', run }] }
  }

  it('refuses every route without the role that it requires, those of a demo too', async () => {
    const { done, breakages } = breakage()
    await using console_ = await startConsole(warehouse.url, { breakages })
    const stranger = console_.reader()
    const viewer = await console_.enter('viewer')
    const operator = await console_.enter('operator')
    const named = (wanted: typeof console_.routes) =>
      wanted.map(({ method, path }) => `${method} ${path}`).filter((each) => !/HEAD|assets/.test(each))
    const open = console_.routes.filter(({ role }) => role === 'nobody')
    expect(named(open)).toEqual(['GET /login', 'POST /login', 'POST /login/link'])
    const closed = console_.routes.filter(({ role }) => role !== 'nobody')
    // Who adds a form here adds the test that it leaves one audit row.
    expect(named(closed.filter(({ method }) => method === 'POST')).sort()).toEqual([
      ...['POST /audit/link', 'POST /break/:name', 'POST /dead-letters/discard', 'POST /dead-letters/retry'],
      ...['POST /logout', 'POST /questions/decide', 'POST /records/value', 'POST /verify'],
      'POST /verify/:run/receipt',
    ])
    expect(named(closed)).toContain('GET /break')
    const ask = (reader: Reader, method: string, url: string) =>
      method === 'GET' ? reader.get(url) : method === 'HEAD' ? reader.head(url) : reader.post(url)
    const before = await audited(warehouse.url)
    for (const { method, path, role } of closed) {
      const url = path.replace(/:\w+/g, '1')
      const place = `${method} ${path}`
      const refused = await ask(stranger, method, url)
      if (method === 'GET')
        expect([place, refused.status, refused.headers.get('location')]).toEqual([place, 303, '/login'])
      else expect([place, refused.status]).toEqual([place, 401])
      for (const [reader, has] of [
        [viewer, 'viewer'],
        [operator, 'operator'],
      ] as const) {
        if (ROLES.indexOf(role as Role) <= ROLES.indexOf(has)) continue
        const without = await ask(reader, method, url)
        expect([place, has, without.status]).toEqual([place, has, 403])
        if (method !== 'HEAD') expect(without.text).toContain(`this needs the role ${role}`)
      }
    }
    expect(new Set(closed.map(({ role }) => role))).toEqual(new Set(ROLES))
    expect((await viewer.post('/break/glass')).status).toBe(403)
    expect(await audited(warehouse.url)).toEqual(before)
    expect(done.times).toBe(0)
  })

  it('breaks what the demo offers, once at a time, with one audit row; another console has no such page', async () => {
    const { done, breakages } = breakage()
    await using demo = await startConsole(warehouse.url, { breakages })
    const operator = await demo.enter('operator')
    const before = await audited(warehouse.url)
    const answers = []
    for (const name of ['glass', 'glass', 'nothing']) answers.push(await operator.post(`/break/${name}`))
    expect(answers.map(({ status }) => status)).toEqual([303, 409, 404])
    expect(done.times).toBe(1)
    expect((await audited(warehouse.url)).slice(before.length)).toEqual([
      { login: 'operator', action: 'break', object: 'glass', detail: {} },
    ])
    const other = await console_.enter('steward')
    expect([(await other.get('/break')).status, (await other.post('/break/glass')).status]).toEqual([
      404, 404,
    ])
  })

  it('a login is tried thirty times a minute, and a reader asks twelve hundred times', async () => {
    await using console_ = await startConsole(warehouse.url)
    const viewer = await console_.enter('viewer')
    const stranger = console_.reader()
    const statuses = []
    // The first was that of the viewer.
    for (let time = 0; time < 30; time++) statuses.push((await stranger.post('/login', { link: 'x' })).status)
    expect(statuses).toEqual([...Array(29).fill(403), 429])
    expect((await viewer.get('/dead-letters')).headers.get('x-ratelimit-limit')).toBe('1200')
  })

  it('refuses what a reader asks beyond the limit, whatever it is, and serves the others', async () => {
    await using console_ = await startConsole(warehouse.url, { requestsPerMinute: 5 })
    const other = await console_.enter('viewer')
    // A first page was loaded to log in.
    const operator = await console_.enter('operator')
    const before = await audited(warehouse.url)
    const paths = ['/runs', '/inbox', '/verify', '/dead-letters', '/runs', '/questions']
    const statuses = []
    for (const path of paths) statuses.push((await operator.get(path)).status)
    expect(statuses).toEqual([200, 200, 200, 200, 429, 429])
    const refused = await operator.post('/audit/link', { login: 'grace', role: 'viewer' })
    expect([refused.status, refused.headers.has('retry-after')]).toEqual([429, true])
    expect(refused.text).toContain('too many requests')
    expect(await audited(warehouse.url)).toEqual(before)
    expect((await other.get('/runs')).status).toBe(200)
  })

  it('a form counts only with its token, from a page of this console', async () => {
    const operator = await console_.enter('operator')
    const other = await console_.enter('operator')
    const fields = { login: 'grace', role: 'viewer' }
    const before = await audited(warehouse.url)
    const refused = [
      await operator.post('/audit/link', { ...fields, token: '' }),
      await operator.post('/audit/link', { ...fields, token: other.token }),
      await operator.post('/audit/link', fields, { origin: 'https://elsewhere.invalid' }),
      await operator.post('/audit/link', fields, { origin: 'null' }),
      await operator.post('/audit/link', fields, { 'sec-fetch-site': 'cross-site' }),
      await operator.post('/audit/link', fields, { 'sec-fetch-site': 'same-site' }),
    ]
    expect(refused.map(({ status }) => status)).toEqual(Array(refused.length).fill(403))
    expect(await audited(warehouse.url)).toEqual(before)
    const made = await operator.post('/audit/link', fields, {
      origin: console_.url,
      'sec-fetch-site': 'same-origin',
    })
    expect(made.status).toBe(200)
    const link = new URL(/http:[^<]+/.exec(made.text)![0])
    expect((await console_.reader().post('/login', { link: link.searchParams.get('link')! })).status).toBe(
      303,
    )
    expect((await audited(warehouse.url)).slice(before.length)).toEqual([
      { login: 'operator', action: 'link', object: 'grace', detail: { role: 'viewer' } },
      { login: 'grace', action: 'login', object: '', detail: { role: 'viewer' } },
    ])
    expect((await operator.post('/audit/link', { login: '<b>', role: 'viewer' })).status).toBe(400)
    expect((await operator.post('/audit/link', { login: 'grace', role: 'owner' })).status).toBe(400)
    expect((await operator.post('/audit/link', { login: 'grace', role: 'steward' })).status).toBe(403)
    expect((await operator.get('/audit')).text).not.toContain('<option>steward')
    const steward = await console_.enter('steward')
    expect((await steward.post('/audit/link', { login: 'grace', role: 'steward' })).status).toBe(200)
  })

  it('a header names a login only where a proxy is configured, and only in its own connections', async () => {
    const proxyAt = (address: string) => ({
      addresses: networksOf([address])!,
      loginHeader: 'x-forwarded-email',
      groupsHeader: 'x-forwarded-groups',
      roles: {
        logins: new Map<string, Role>([['ada@example.org', 'operator']]),
        groups: new Map<string, Role>([
          ['care', 'viewer'],
          ['data', 'steward'],
        ]),
        others: null,
      },
    })
    const ask = async (
      { port }: { readonly port: number },
      path: string,
      headers: Record<string, string>,
      body?: Record<string, string>,
    ) => {
      const init = body === undefined ? {} : { method: 'POST', body: new URLSearchParams(body) }
      const response = await fetch(`http://127.0.0.1:${port}${path}`, {
        redirect: 'manual',
        headers,
        ...init,
      })
      return { status: response.status, text: await response.text() }
    }
    const before = await audited(warehouse.url)
    const since = async () => (await audited(warehouse.url)).slice(before.length)
    const ada = { 'x-forwarded-email': 'ada@example.org' }
    // By default nobody's header is believed.
    expect((await ask(console_, '/audit', ada)).status).toBe(303)
    // Somebody else's is refused, whatever page it asks for.
    await using elsewhere = await startConsole(warehouse.url, { proxy: proxyAt('192.0.2.7') })
    for (const path of ['/', '/audit', '/login', '/assets/icon.svg']) {
      const refused = await ask(elsewhere, path, ada)
      expect([path, refused.status]).toEqual([path, 403])
    }
    expect(await since()).toEqual([])

    await using proxied = await startConsole(warehouse.url, { proxy: proxyAt('127.0.0.0/8') })
    expect((await ask(proxied, '/audit', {})).status).toBe(303)
    const page_ = await ask(proxied, '/audit', ada)
    expect([page_.status, page_.text.includes('ada@example.org, operator')]).toEqual([200, true])
    expect((await ask(proxied, '/runs', ada)).status).toBe(200)
    const grace = { 'x-forwarded-email': 'grace@example.org', 'x-forwarded-groups': 'other, care' }
    expect((await ask(proxied, '/audit', grace)).status).toBe(403)
    expect((await ask(proxied, '/runs', grace)).status).toBe(200)
    const hugo = { 'x-forwarded-email': 'hugo@example.org', 'x-forwarded-groups': 'care,data' }
    expect((await ask(proxied, '/runs', hugo)).text).toContain('hugo@example.org, steward')
    for (const nobody of [
      { 'x-forwarded-email': 'eve@example.org' },
      { 'x-forwarded-email': 'eve@example.org', 'x-forwarded-groups': '*' },
      // Neither a login with the name of a group nor a group with the name of a login gains its role.
      { 'x-forwarded-email': 'data' },
      { 'x-forwarded-email': 'eve@example.org', 'x-forwarded-groups': 'ada@example.org' },
      { 'x-forwarded-email': 'ada@example.org, eve@example.org' },
      { 'x-forwarded-email': '' },
    ])
      expect((await ask(proxied, '/runs', nobody)).status).toBe(403)
    // A form needs the token of its own login.
    const tokenIn = (text: string) => /name="token" value="([^"]+)"/.exec(text)![1]!
    const fields = { login: 'kim', role: 'viewer', token: tokenIn(page_.text) }
    expect((await ask(proxied, '/audit/link', ada, { ...fields, token: 'x' })).status).toBe(403)
    expect((await ask(proxied, '/audit/link', hugo, fields)).status).toBe(403)
    expect((await ask(proxied, '/audit/link', ada, fields)).status).toBe(200)
    const entry = (login: string, role: string) => ({
      ...{ login, action: 'login', object: '', detail: { role, by: 'proxy' } },
    })
    expect(await since()).toEqual([
      entry('ada@example.org', 'operator'),
      entry('grace@example.org', 'viewer'),
      entry('hugo@example.org', 'steward'),
      { login: 'ada@example.org', action: 'link', object: 'kim', detail: { role: 'viewer' } },
    ])
  })

  it('answers only to names of this machine, or of the configured address', async () => {
    const at = async (running: typeof console_, host: string) => {
      const { request } = await import('node:http')
      return await new Promise<number>((resolve, reject) => {
        const { port } = new URL(`http://127.0.0.1:${running.port}`)
        const sent = request({ host: '127.0.0.1', port, path: '/login', headers: { host } }, (response) => {
          response.resume()
          resolve(response.statusCode!)
        })
        sent.on('error', reject).end()
      })
    }
    const { port } = console_
    expect(await at(console_, `127.0.0.1:${port}`)).toBe(200)
    expect(await at(console_, `localhost:${port}`)).toBe(200)
    expect(await at(console_, `[::1]:${port}`)).toBe(200)
    for (const name of ['rebound.invalid', '127.0.0.1.rebound.invalid', 'localhost.invalid', '192.0.2.1'])
      expect([name, await at(console_, `${name}:${port}`)]).toEqual([name, 421])
    await using proxied = await startConsole(warehouse.url, { publicUrl: 'https://console.example.org' })
    expect(await at(proxied, 'console.example.org')).toBe(200)
    expect(await at(proxied, 'other.example.org')).toBe(421)
    expect(proxied.link('ada', 'viewer')).toMatch(/^https:\/\/console\.example\.org\/login\?link=[\w-]{43}$/)
  })

  it('prints a new link where the process runs, a few times a minute, and shows it to nobody', async () => {
    const stranger = console_.reader()
    const before = await audited(warehouse.url)
    const answers = []
    for (let time = 0; time < 4; time++) answers.push(await stranger.post('/login/link'))
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 429])
    expect(console_.printed).toHaveLength(3)
    expect((await audited(warehouse.url)).slice(before.length)).toEqual(
      console_.printed.map(() => ({
        ...{ login: '(not logged in)', action: 'link', object: 'ada' },
        detail: { role: 'operator', printed: true, from: '127.0.0.1' },
      })),
    )
    for (const link of console_.printed) {
      const secret = new URL(link).searchParams.get('link')!
      expect(answers.map(({ text }) => text).join()).not.toContain(secret)
      expect(console_.logged.join()).not.toContain(secret)
    }
  })

  it('pages carry a strict policy, and no script or style of their own', async () => {
    const operator = await console_.enter('operator')
    const paths = console_.routes.flatMap(({ method, path }) =>
      method === 'GET' && !path.includes(':') && path !== '/live' && !path.startsWith('/assets')
        ? [path]
        : [],
    )
    for (const path of [...paths, '/nowhere']) {
      const { headers, text } = await operator.get(path)
      expect([path, headers.get('content-security-policy')]).toEqual([path, POLICY])
      expect(headers.get('cache-control')).toBe('no-store')
      expect([
        headers.get('x-content-type-options'),
        headers.get('referrer-policy'),
        headers.get('cross-origin-opener-policy'),
        headers.get('cross-origin-resource-policy'),
        headers.get('permissions-policy'),
      ]).toEqual(['nosniff', ...Array(3).fill('same-origin'), 'camera=(), geolocation=(), microphone=()'])
      expect(text).not.toMatch(/<style|\sstyle=|\son\w+=|<script(?![^>]* src="\/assets\/)/i)
      for (const [, address] of text.matchAll(/(?:src|href|action)="([^"]*)"/g))
        expect(address).toMatch(/^[/#]/)
    }
    // Browsers read no file whose type is not what they expect, and keep one until its address changes.
    const types = {
      css: 'text/css; charset=utf-8',
      js: 'text/javascript; charset=utf-8',
      svg: 'image/svg+xml',
    }
    const { text: shown } = await operator.get('/inbox')
    for (const name of ['console.css', 'console.js', 'htmx.js', 'uplot.js', 'uplot.css', 'icon.svg']) {
      const asset = await console_.reader().get(`/assets/${name}`)
      const type = types[name.split('.')[1] as keyof typeof types]
      expect([name, asset.status, asset.headers.get('content-type')]).toEqual([name, 200, type])
      const version = createHash('sha256').update(asset.text).digest('base64url').slice(0, 12)
      expect(shown).toContain(`"/assets/${name}?v=${version}"`)
      expect(asset.text.length).toBeGreaterThan(100)
      expect(asset.headers.get('cache-control')).toBe('public, max-age=31536000, immutable')
    }
    expect(POLICY).not.toContain('unsafe')
  })
})

describe('pages', () => {
  let scene: Scene
  let empty: Awaited<ReturnType<typeof openWarehouse>>

  beforeAll(async () => {
    scene = await openScene()
    empty = await openWarehouse()
    expect((await scene.backfill()).code).toBe(0)
    expect((await runCommand(['verify'], scene.env)).code).toBe(0)
  })
  afterAll(async () => {
    await scene?.[Symbol.asyncDispose]()
    await empty?.drop()
  })

  /** The text of a page, once it has all that it waits for. */
  const pageOf = async (reader: Reader, path: string) => {
    const text = await whole(reader, path)
    return text
      .replace(/<svg[\s\S]*?<\/svg>/g, '')
      .replace(/<[^>]*>/g, ' ')
      .replace(/\s+/g, ' ')
  }

  it('an empty warehouse says what to do first', async () => {
    await using console_ = await startConsole(empty.url)
    const reader = await console_.enter('viewer')
    expect(await pageOf(reader, '/')).toContain('There is no team yet')
    expect(await pageOf(reader, '/streams')).toContain('There is no team yet')
    expect(await pageOf(reader, '/runs')).toContain('Nothing has run yet')
    expect((await reader.get('/runs/1')).status).toBe(404)
    expect((await reader.get('/nowhere')).status).toBe(404)
  })

  it('the overview sends as many queries for any number of teams; Streams shows ten teams at once', async () => {
    await using session = await openSession({ url: empty.url, purpose: 'overview' })
    const options = { maxAgeHours: 26, webhookChecks: openWebhookChecks({ inboxDays: 30 }) }
    const send = session.client.query.bind(session.client) as (...words: unknown[]) => unknown
    let asked = 0
    Object.assign(session.client, {
      query: (...words: unknown[]) => {
        asked += 1
        return send(...words)
      },
    })
    const askedFor = async (teams: number) => {
      await query(
        empty.url,
        `insert into intake.teams (name) select 'team-' || 10 + n from generate_series(1, ${teams}) n on conflict do nothing`,
      )
      asked = 0
      expect(await readOverview(session.db, options)).toHaveLength(teams)
      return asked
    }
    expect(await askedFor(1)).toBe(await askedFor(12))
    await using console_ = await startConsole(empty.url)
    const reader = await console_.enter('viewer')
    const teamsOn = async (path: string) =>
      [...(await whole(reader, path)).matchAll(/<h2 id="team-team-(\d+)"/g)].map(([, team]) => Number(team))
    expect(await teamsOn('/')).toHaveLength(12)
    expect(await teamsOn('/streams')).toEqual([11, 12, 13, 14, 15, 16, 17, 18, 19, 20])
    expect(await whole(reader, '/streams')).toContain('href="/streams?from=team-21"')
    expect(await teamsOn('/streams?from=team-21')).toEqual([21, 22])
  })

  it('readers of a role share the text of a page, each with their own name and token', async () => {
    await using console_ = await startConsole(scene.url)
    const [ada, grace, kim, odd] = [
      await console_.enter('operator', 'ada'),
      await console_.enter('operator', 'grace'),
      await console_.enter('viewer', 'kim'),
      await console_.enter('operator', `<b title="$&">o'`),
    ]
    const page = (reader: Reader) => whole(reader, '/dead-letters')
    await page(ada)
    const texts = await Promise.all([ada, grace, kim, odd].map((reader) => page(reader)))
    for (const [at, [{ token }, login]] of (
      [
        [ada, 'ada, operator'],
        [grace, 'grace, operator'],
        [kim, 'kim, viewer'],
        // A name that looks like markup is shown as text here, too.
        [odd, '&lt;b title=&quot;$&amp;&quot;&gt;o&#39;, operator'],
      ] as const
    ).entries()) {
      expect(texts[at]).toContain(`name="token" value="${token}"`)
      expect(texts[at]).toContain(`<span>${login}</span>`)
    }
    expect(texts[1]!.replaceAll(grace.token, ada.token).replace('grace', 'ada')).toBe(texts[0])
    expect(texts.map((text) => text.includes('href="/audit"'))).toEqual([true, true, false, true])
    // A new reading is shown.
    await scene.query(`
      insert into intake_ops.dead_letters (team_id, stream, record_id, origin, reason, fingerprint)
      select team_id, 'patients', 'shared', 'run:1 page:1', 'is new', '\\x02' from intake.teams`)
    await expect.poll(() => page(ada)).toContain('is new')
    await scene.query(`delete from intake_ops.dead_letters where record_id = 'shared'`)
  })

  it('a healthy warehouse: fresh, proved equal, needs no attention', async () => {
    const checks = async () => [
      { name: 'disk', status: 'warning' as const, detail: 'nearly full', hint: 'free space' },
    ]
    const settings = [{ name: 'INTAKE_CRON', value: '0 3 * * *', from: 'environment' }]
    await using console_ = await startConsole(scene.url, { checks, settings })
    const reader = await console_.enter('viewer')
    const overview = await pageOf(reader, '/')
    expect(overview).toMatch(
      /default fresh: every stream was read [\d.]+ (?:s|min) ago or later ; proved equal to the service/,
    )
    expect(overview).toContain('needs nobody')
    expect(overview).not.toContain('What to do next')
    const [days] = await scene.query<{ rows: number; events: number }>(
      `select sum(changed + deleted)::int as rows, (select coalesce(sum(events), 0)::int from intake_ops.events_received) as events
       from intake_ops.run_streams`,
    )
    const drawn = await whole(reader, '/')
    for (const what of [
      `rows changed by runs per day for 30 days: ${days!.rows}`,
      `events per day for 30 days: ${days!.events}`,
    ])
      expect(drawn).toContain(`aria-label="${what} in all`)
    expect(await whole(reader, '/streams')).toContain('aria-label="changes of the last 1 runs"')
    const [counted] = await scene.query<{ patients: number }>(
      'select count(*)::int as patients from intake.patients where _deleted_at is null',
    )
    expect(await pageOf(reader, '/streams')).toMatch(new RegExp(`patients ${counted!.patients} 0 20\\d\\d-`))
    expect(await pageOf(reader, '/streams/default/patients')).toMatch(/Last runs .* succeeded 45 45/)
    expect(await pageOf(reader, '/runs')).toMatch(/verify .* succeeded .* backfill .* succeeded/)
    const health = await pageOf(reader, '/health')
    expect(health).toContain('1 check not ok')
    expect(health).toContain('disk warning nearly full free space')
    expect(health).toContain('INTAKE_CRON 0 3 * * * environment')
    expect(health).toMatch(/Postgres 1\d/)
    // The size of a table with all partitions and indexes; what each retention keeps, and the oldest of it.
    expect(health).toMatch(/grown since 20\d\d-\d\d-\d\d \d\d:\d\d UTC -?\d+ MB/)
    expect(health).toMatch(/intake_raw\.records \d+\.\d \d/)
    const [run] = await scene.query<{ at: string }>(
      `select to_char(min(started_at) at time zone 'UTC', 'YYYY-MM-DD HH24:MI') as at from intake_ops.runs`,
    )
    expect(health).toContain('events of the inbox, once they are done 30 days INTAKE_INBOX_DAYS')
    expect(health).toContain('superseded payloads 400 days INTAKE_HISTORY_DAYS –')
    expect(health).toContain(`but the newest of each stream for ever INTAKE_RUN_DAYS ${run!.at} UTC`)
    expect(health).toMatch(/audited actions 6 years – 20\d\d-/)
  })

  it('the streams lead to the diagram of all tables, under the policy of every page', async () => {
    await using console_ = await startConsole(scene.url)
    const reader = await console_.enter('viewer')
    expect((await reader.get('/streams')).text).toContain('<a href="/streams/tables">')
    expect((await reader.get('/streams/tables')).text).toContain('<img src="/streams/tables.svg"')
    const { status, text, headers } = await reader.get('/streams/tables.svg')
    expect([status, headers.get('content-type')]).toEqual([200, 'image/svg+xml'])
    expect(headers.get('content-security-policy')).toBe(POLICY)
    expect(text).toBe(entityDiagram())
  })

  it('no screen shows a value of a record, not even to a steward', async () => {
    const values = await scene.query<{ value: string }>(`
      select distinct value from intake.patients, unnest(array[email, phone_number, address, first_name || ' ' || last_name]) value
      where length(value) > 8
      union select value_text from intake.response_answers where choice_id is null and length(value_text) > 12`)
    expect(values.length).toBeGreaterThan(50)
    const [patient] = await scene.query<{ id: string }>('select min(id) as id from intake.patients')
    await using console_ = await startConsole(scene.url)
    const steward = await console_.enter('steward')
    const screens = console_.routes.flatMap(({ method, path }) =>
      method === 'GET' && !/:|^\/(?:live|login|assets)/.test(path) ? [path] : [],
    )
    const further = ['/runs/1', '/streams/default/patients', '/verify/2/receipt']
    const record = `/records?team=default&stream=patients&id=${patient!.id}`
    for (const path of [...screens, ...further, record]) {
      const text = (await whole(steward, path)).replaceAll('&#39;', "'").replaceAll('&amp;', '&')
      expect([path, values.filter(({ value }) => text.includes(value))]).toEqual([path, []])
    }
  })

  it('a record, an event and the audit say that they are being read, and are shown once they were', async () => {
    const [patient] = await scene.query<{ id: string }>('select min(id) as id from intake.patients')
    await using console_ = await startConsole(scene.url)
    const operator = await console_.enter('operator')
    const session = await connect(scene.url)
    const shown = {
      [`/records?team=default&stream=patients&id=${patient!.id}`]: 'first known state',
      '/records': 'Every state of a record',
      '/events?team=default&id=nothing': 'The inbox has no event',
      '/audit': '<th scope="row">login</th>',
    }
    try {
      await session.query('begin')
      await session.query('lock table intake.teams, intake_ops.audit in access exclusive mode')
      const texts = Object.keys(shown).map(async (path) => (await operator.get(path)).text)
      for (const text of await Promise.all(texts))
        expect(text).toMatch(/<main [^>]*data-waits>[\s\S]* role="status">(?:Reading|Looking)/)
    } finally {
      await session.query('rollback')
      await session.end()
    }
    for (const [path, text] of Object.entries(shown)) expect(await whole(operator, path)).toContain(text)
  })

  it('a run is compared with the one before, and says why a figure is zero', async () => {
    expect((await scene.backfill('--streams', 'patients,forms')).code).toBe(0)
    const [newest] = await scene.query<{ id: number }>('select max(run_id)::int as id from intake_ops.runs')
    await using console_ = await startConsole(scene.url)
    const page = await pageOf(await console_.enter('viewer'), `/runs/${newest!.id}`)
    expect(page).toContain('compared with run 1')
    expect(page).toContain('all 45 records were stored with the same content')
  })

  it('a broken warehouse names what needs somebody, with what to do', async () => {
    await scene.query(`
      insert into intake_ops.dead_letters (team_id, stream, record_id, origin, reason, fingerprint)
      select team_id, 'patients', 'canary-8d1', 'run:1 page:1', 'has no id', '\\x01' from intake.teams`)
    await scene.query(
      `update intake_ops.verifications set different = 2, is_equal = false where stream = 'forms'`,
    )
    await scene.query(
      `update intake_ops.runs set finished_at = now() - interval '40 hours', started_at = now() - interval '40 hours'`,
    )
    await using console_ = await startConsole(scene.url)
    const overview = await pageOf(await console_.enter('viewer'), '/')
    expect(overview).toMatch(/stale: every stream was read 40 h ago/)
    expect(overview).toContain('2 differences in 1 stream')
    expect(overview).toMatch(/needs somebody: \d things to do/)
    expect(overview).toContain('patients: 1 dead letter waiting')
    expect(overview).toContain('intake-sync verify --repair')
    expect(overview).toContain('no backfill has ended for 40 hours')
    expect(overview).not.toContain('canary')
  })

  it('a warehouse that is away is an error page with a hint, never a stack', async () => {
    await using console_ = await startConsole('postgres://nobody:canary-7f3a@127.0.0.1:1/never')
    const link = new URL(console_.link('ada', 'viewer')).searchParams.get('link')!
    const refused = await console_.reader().post('/login', { link })
    expect(refused.status).toBe(503)
    expect(refused.text).toContain('cannot reach the warehouse')
    expect(refused.headers.get('set-cookie')).toBeNull()
    // A link that cannot be audited is not printed.
    expect((await console_.reader().post('/login/link')).status).toBe(503)
    expect(console_.printed).toEqual([])
    expect(refused.text + console_.logged.join()).not.toMatch(/canary|at .*\.ts:/)
  })
})
