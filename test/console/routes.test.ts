/** For whom each page and action is, what is served without a limit, and whose cookie is whose. */
import { createServer } from 'node:net'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { openWarehouse } from '../e2e/support/scene.ts'
import { startConsole } from './support/console.ts'

let warehouse: Awaited<ReturnType<typeof openWarehouse>>

beforeAll(async () => {
  warehouse = await openWarehouse()
})
afterAll(() => warehouse?.drop())

it('every page is for whoever reads, every action for operators, and values for stewards', async () => {
  const breakages = [{ name: 'glass', title: 'Glass', heals: 'nothing', run: () => Promise.reject() }]
  await using console_ = await startConsole(warehouse.url, { breakages })
  const routes = console_.routes.filter(({ method }) => method !== 'HEAD')
  const of = (role: string) =>
    routes
      .filter((each) => each.role === role)
      .map(({ method, path }) => `${method} ${path}`)
      .sort()
  expect(of('nobody')).toEqual([
    ...['GET /assets/console.css', 'GET /assets/console.js', 'GET /assets/htmx.js', 'GET /assets/icon.svg'],
    ...['GET /assets/uplot.css', 'GET /assets/uplot.js', 'GET /login', 'POST /login', 'POST /login/link'],
  ])
  expect(of('viewer')).toEqual([
    ...['GET /', 'GET /break', 'GET /dead-letters', 'GET /dead-letters/group', 'GET /events', 'GET /health'],
    ...['GET /inbox', 'GET /inbox/samples', 'GET /insights', 'GET /live', 'GET /questions', 'GET /records'],
    ...['GET /runs', 'GET /runs/:id', 'GET /streams', 'GET /streams/:team/:stream', 'GET /streams/tables'],
    ...[
      'GET /streams/tables.svg',
      'GET /verify',
      'GET /verify/:run/:team/:stream',
      'GET /verify/:run/receipt',
    ],
    'POST /logout',
  ])
  expect(of('operator')).toEqual([
    ...['GET /audit', 'GET /dead-letters/preview', 'POST /audit/link', 'POST /break/:name'],
    ...['POST /dead-letters/discard', 'POST /dead-letters/retry', 'POST /questions/decide', 'POST /verify'],
    'POST /verify/:run/receipt',
  ])
  expect(of('steward')).toEqual(['POST /records/value'])
  expect(routes).toHaveLength(9 + 22 + 9 + 1)
  // A page may be asked for by its head alone, by the same people.
  const heads = console_.routes.filter(({ method }) => method === 'HEAD')
  expect(heads.map(({ path, role }) => `${path} ${role}`).sort()).toEqual(
    routes
      .filter(({ method }) => method === 'GET')
      .map(({ path, role }) => `${path} ${role}`)
      .sort(),
  )
})

it('a reader who asked too often still gets what pages load, and the refusal is a page with what to do', async () => {
  await using console_ = await startConsole(warehouse.url, { requestsPerMinute: 2 })
  const viewer = await console_.enter('viewer', 'kim')
  const statuses = []
  for (let time = 0; time < 3; time++) statuses.push((await viewer.get('/runs')).status)
  // The first page was loaded to log in.
  expect(statuses).toEqual([200, 429, 429])
  const refused = await viewer.get('/inbox')
  expect(refused.text).toContain('<title>Error – intake-sync</title>')
  expect(refused.text.replace(/<[^>]*>/g, ' ').replace(/\s+/g, ' ')).toContain(
    'This could not be shown: too many requests. What to do: wait a minute.',
  )
  for (let time = 0; time < 4; time++)
    expect((await viewer.get('/assets/console.js')).headers.has('x-ratelimit-limit')).toBe(false)
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(50)
  // Another session of the same login has requests of its own.
  expect((await (await console_.enter('viewer', 'kim')).get('/runs')).status).toBe(200)
})

it('the navigation marks the screen of the page as current, whatever query the address has', async () => {
  await using console_ = await startConsole(warehouse.url)
  const viewer = await console_.enter('viewer')
  for (const [path, screen] of [
    ['/questions?shows=nothing&form=a/b', '/questions'],
    ['/dead-letters/group?team=a&stream=b&reason=c', '/dead-letters'],
    ['/?from=/runs', '/'],
  ]) {
    const current = [...(await viewer.get(path!)).text.matchAll(/href="([^"]*)" aria-current="page"/g)]
    expect([path, current.map(([, each]) => each)]).toEqual([path, [screen]])
  }
})

it('consoles of one machine have cookies of their own, so that one login does not end another', async () => {
  const probe = createServer()
  const port = await new Promise<number>((resolve) => {
    probe.listen(0, '127.0.0.1', () => resolve((probe.address() as { port: number }).port))
  })
  await new Promise((resolve) => probe.close(resolve))
  await using console_ = await startConsole(warehouse.url, { port })
  expect([console_.port, console_.url]).toEqual([port, `http://127.0.0.1:${port}`])
  const { cookie } = await console_.enter('viewer')
  expect(cookie).toMatch(new RegExp(`^intake-console-${port}=`))
  expect(console_.link('kim', 'viewer')).toMatch(
    new RegExp(`^http://127\\.0\\.0\\.1:${port}/login\\?link=[\\w-]{43}$`),
  )
  // The cookie is taken back on logout, where it was set.
  const { headers } = await (await console_.enter('viewer')).post('/logout')
  expect(headers.get('set-cookie')).toMatch(
    new RegExp(`^intake-console-${port}=; (?:Max-Age=0; )?Path=/; Expires=Thu, 01 Jan 1970`),
  )
})

it('a form counts from a page of the same name and port, as browsers say it, and from nowhere else', async () => {
  await using console_ = await startConsole(warehouse.url)
  const operator = await console_.enter('operator')
  const own = `http://127.0.0.1:${console_.port}`
  const answers = []
  // A form that chooses nothing is read, and then refused for that.
  for (const [origin, site] of [
    [undefined, undefined],
    [own, undefined],
    [own, 'same-origin'],
    [undefined, 'same-origin'],
    ['http://127.0.0.1:1', undefined],
    [`http://localhost:${console_.port}`, 'same-origin'],
    [own, 'none'],
    [own, 'cross-site'],
    ['', 'same-origin'],
    ['127.0.0.1', 'same-origin'],
  ]) {
    const headers = {
      ...(origin === undefined ? {} : { origin }),
      ...(site === undefined ? {} : { 'sec-fetch-site': site }),
    }
    const { status } = await operator.post('/questions/decide', {}, headers)
    answers.push([origin?.replace(own, 'own'), site, status])
  }
  expect(answers).toEqual([
    [undefined, undefined, 400],
    ['own', undefined, 400],
    ['own', 'same-origin', 400],
    [undefined, 'same-origin', 400],
    ['http://127.0.0.1:1', undefined, 403],
    [`http://localhost:${console_.port}`, 'same-origin', 403],
    ['own', 'none', 403],
    ['own', 'cross-site', 403],
    ['', 'same-origin', 403],
    ['127.0.0.1', 'same-origin', 403],
  ])
})

it('a warehouse that goes away is a page that says so, with what to do, and a warning with the cause', async () => {
  const own = await openWarehouse()
  await using console_ = await startConsole(own.url)
  const viewer = await console_.enter('viewer', 'kim')
  // Its connections are cut off, which the test server reports.
  await expect(own.drop()).rejects.toThrow('left 1 connection')
  const before = console_.logged.length
  const group = new URLSearchParams({ team: 'north', stream: 'forms', reason: 'x' })
  const { status, text } = await viewer.get(`/dead-letters/group?${group}`)
  const said = /<h1>Error<\/h1>([\s\S]*)<\/main>/
    .exec(text)![1]!
    .replace(/<[^>]*>/g, ' ')
    .replace(/\s+/g, ' ')
  expect([status, text.includes('kim, viewer')]).toEqual([503, true])
  expect(said).toMatch(/^ ?This could not be shown: \S.*\. What to do: \S.*\. $/)
  expect(text).not.toMatch(/data-live|data-waits/)
  const lines = console_.logged.slice(before).map((line) => JSON.parse(line))
  expect(lines).toEqual([
    {
      ...{ level: 40, time: expect.any(Number), code: expect.stringMatching(/^[a-z_]+$/) },
      msg: 'a page of the console could not be shown',
    },
  ])
})
