/** The admin address answers in time, whatever the warehouse does, and exposes no data of the source. */
import { connect, createServer, type Server, type Socket } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { IntakeError, UsageError } from '../../../src/core/errors.ts'
import { parseInstant } from '../../../src/core/time.ts'
import { openGauges } from '../../../src/operate/health/gauges.ts'
import { openMetrics } from '../../../src/operate/health/registry.ts'
import {
  listenError,
  openAdmin,
  openReadiness,
  type Part,
  type Trouble,
  waitOver,
} from '../../../src/operate/serve/admin.ts'
import { type BoundedQueries, openBoundedQueries } from '../../../src/warehouse/bounded-queries.ts'
import { openWarehouse, query } from '../../e2e/support/scene.ts'
import { startOwnTime } from '../../support/own-time.ts'

/** A connection to Postgres that can be stalled: bytes are kept, and nothing is answered. */
async function startWay(url: string) {
  const { hostname, port } = new URL(url)
  const sockets = new Set<Socket>()
  let hanging = false
  let swallowed = 0
  let connections = 0
  const server: Server = createServer((socket) => {
    connections += 1
    const onward = connect(Number(port), hostname)
    for (const [from, to] of [
      [socket, onward],
      [onward, socket],
    ] as const) {
      sockets.add(from)
      from.on('data', (data) => {
        if (hanging) swallowed += data.length
        else to.write(data)
      })
      from.on('close', () => to.destroy())
      from.on('error', () => to.destroy())
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const through = new URL(url)
  through.hostname = '127.0.0.1'
  through.port = String((server.address() as { port: number }).port)
  return {
    url: through.href,
    hang: () => {
      hanging = true
    },
    /** Bytes received since then. */
    swallowed: () => swallowed,
    /** Opened until now. */
    connections: () => connections,
  }
}

/** `inTime`: with the time limits of production; otherwise the machine may be as slow as it likes. */
async function openScene(parts: Partial<Record<Part, Trouble>> = {}, { inTime = false } = {}) {
  const warehouse = await openWarehouse()
  const way = await startWay(warehouse.url)
  const metrics = openMetrics()
  const { url } = way
  const limited = openBoundedQueries(url)
  const patient: BoundedQueries['run'] = (limits, work) =>
    limited.run({ ...limits, milliseconds: 60_000 }, work)
  const bounded = inTime ? limited : { ...limited, run: patient }
  let later = 0
  const clock = { ...systemClock, now: () => systemClock.now() + later }
  const gauges = openGauges({
    ...{ url, bounded, clock, registry: metrics.registry, inboxDays: 30 },
    inFlight: () => ({ events: 3, bytes: 700 }),
  })
  const admin = await openAdmin({
    wait: waitOver(bounded, systemClock),
    ...{ host: '127.0.0.1', port: 0, registry: metrics.registry, refresh: gauges.refresh },
    reasons: openReadiness(bounded, parts, systemClock),
  })
  return {
    ...{ warehouse, way },
    /** From now on values are older than allowed. */
    age() {
      later += 100_000_000
    },
    async get(path: string) {
      using time = startOwnTime()
      const response = await fetch(`${admin.url}${path}`)
      const text = await response.text()
      return { status: response.status, text, seconds: time.milliseconds / 1000 }
    },
    [Symbol.asyncDispose]: async () => {
      await admin.close()
      await limited.close()
      await warehouse.drop()
    },
  }
}

it('is healthy and ready in normal operation', async () => {
  await using scene = await openScene({ drain: () => null })
  expect(await scene.get('/healthz')).toMatchObject({ status: 200, text: '{"status":"ok"}' })
  expect(await scene.get('/readyz')).toMatchObject({ status: 200, text: '{"ready":true,"reasons":[]}' })
  expect(await scene.get('/elsewhere')).toMatchObject({ status: 404, text: '{"detail":"Not found."}' })
})

it('answers a hundred probes and scrapes over few connections to Postgres', async () => {
  await using scene = await openScene()
  for (let round = 0; round < 10; round++) {
    const paths = Array.from({ length: 10 }, (_, at) => (at % 2 === 0 ? '/readyz' : '/metrics'))
    // Values are older than allowed, so that each scrape asks for them.
    scene.age()
    const answers = await Promise.all(paths.map((path) => scene.get(path)))
    expect(answers.map(({ status }) => status)).toEqual(Array(10).fill(200))
  }
  // Four for all of them, and one for each time that the slow figures of webhooks were read.
  expect(scene.way.connections()).toBeLessThanOrEqual(4 + 10)
})

it('gives the reason when it is not ready: a part, pending migrations, an unreachable database', async () => {
  let drain: string | null = 'waits for the warehouse'
  await using scene = await openScene({ drain: () => drain, ingest: () => null, schedule: () => null })
  // A process that can store events gets them, whatever its drain does.
  expect((await scene.get('/readyz')).status).toBe(200)
  expect(await scene.get('/readyz?part=drain')).toMatchObject({
    status: 503,
    text: '{"ready":false,"reasons":["drain: waits for the warehouse"]}',
  })
  drain = null
  expect((await scene.get('/readyz?part=drain')).status).toBe(200)
  expect((await scene.get('/readyz?part=schedule')).status).toBe(200)
  expect(await scene.get('/readyz?part=work')).toMatchObject({
    status: 503,
    text: '{"ready":false,"reasons":["work: off in this process"]}',
  })
  expect((await scene.get('/readyz?part=nothing')).status).toBe(400)
  await query(scene.warehouse.url, "delete from intake_ops.migrations where name like '0014%'")
  const behind = JSON.parse((await scene.get('/readyz')).text) as { reasons: string[] }
  expect(behind.reasons[0]).toBe('schema: behind this version by 1 migration(s)')
  await using unreachable = openBoundedQueries('postgres://nobody:canary-7f3a@127.0.0.1:1/never')
  const away = await openReadiness(unreachable, {}, systemClock)()
  expect(away).toEqual(['database: cannot reach the warehouse, or lost the connection to it'])
  expect(await openReadiness(unreachable, { ingest: () => 'is full' }, systemClock)()).toEqual([
    ...away,
    'ingest: is full',
  ])
})

it('a look of /wait that takes too long has found nothing; any other failure is one of the request', async () => {
  const since = parseInstant('2026-01-05T02:00:00Z')!
  const failing = (code: 'warehouse_slow' | 'warehouse_unreachable') =>
    new IntakeError(`of ${code}`, { code, verdict: 'retry' })
  const looks: unknown[] = [failing('warehouse_slow'), { by: 'record', as_of: since }]
  const bounded = {
    async run() {
      const look = looks.shift()
      if (look instanceof Error) throw look
      return look
    },
  } as unknown as BoundedQueries
  const slept: number[] = []
  const clock = { now: () => 0, sleep: async (milliseconds: number) => void slept.push(milliseconds) }
  const wait = waitOver(bounded, clock)
  const asked = { stream: 'patients', since, timeout: 1 } as const
  const { signal } = new AbortController()
  expect(await wait(asked, signal)).toEqual({
    ...{ reached: true, stream: 'patients', id: null, since, by: 'record', as_of: since },
  })
  expect(slept).toEqual([200])
  looks.push(failing('warehouse_unreachable'))
  await expect(wait(asked, signal)).rejects.toMatchObject({ code: 'warehouse_unreachable' })
})

it('/wait waits for thirty seconds unless the request sets another timeout', async () => {
  const asked: unknown[] = []
  await using admin = await openAdmin({
    ...{ host: '127.0.0.1', port: 0, registry: openMetrics().registry },
    ...{ reasons: async () => [], refresh: async () => {} },
    async wait(query) {
      asked.push(query)
      const { stream, id = null } = query
      return { reached: true, stream, id, since: '', by: null, as_of: null }
    },
  })
  const path = `${admin.url}/wait?stream=patients&since=2026-01-05T02:00:00Z`
  for (const more of ['', '&timeout=300&team=north&id=p']) expect((await fetch(path + more)).status).toBe(200)
  const of = { stream: 'patients', since: '2026-01-05T02:00:00.000000Z' }
  expect(asked).toEqual([
    { ...of, timeout: 30 },
    { ...of, timeout: 300, team: 'north', id: 'p' },
  ])
})

it.each([
  [new UsageError('unknown team x', 'use a known one'), 400, 'unknown team x: use a known one'],
  [
    new IntakeError('it is away', { code: 'warehouse_unreachable', verdict: 'retry', hint: 'start it' }),
    503,
    'it is away: start it',
  ],
  [new IntakeError('it is away', { code: 'warehouse_unreachable', verdict: 'retry' }), 503, 'it is away'],
])('/wait answers what is wrong, and what to do where that is known: %s', async (error, status, detail) => {
  await using admin = await openAdmin({
    ...{ host: '127.0.0.1', port: 0, registry: openMetrics().registry },
    ...{ reasons: async () => [], refresh: async () => {}, wait: () => Promise.reject(error) },
  })
  const response = await fetch(`${admin.url}/wait?stream=patients&since=2026-01-05T02:00:00Z`)
  expect([response.status, await response.json()]).toEqual([status, { detail }])
})

it.each([
  ['EADDRINUSE', 'port 9 is in use', 'set PORT to another port, or to 0 for any', 'PORT'],
  ['EACCES', 'port 9 may not be opened', 'set PORT', 'PORT'],
  ['EADDRNOTAVAIL', 'HOST is not an address of this machine', 'set HOST to one, or to 0.0.0.0', 'HOST'],
  ['ENOTFOUND', 'HOST is not an address of this machine', 'set HOST to one, or to 0.0.0.0', 'HOST'],
])('an address that cannot be opened is a wrong setting: %s', (code, message, hint, setting) => {
  const error = listenError(Object.assign(new Error('listen'), { code }), 'HOST', 'PORT', 9)
  expect(error).toMatchObject({ code: 'port_unusable', message, hint, variable: setting })
  const other = new Error('listen')
  expect(listenError(other, 'HOST', 'PORT', 9)).toBe(other)
})

it('an admin port in use, or an address of another machine, is named with the setting to change', async () => {
  const openAt = (host: string, port: number) =>
    openAdmin({
      ...{ host, port, registry: openMetrics().registry },
      ...{ reasons: async () => [], refresh: async () => {} },
      wait: async () => Promise.reject(new Error('nothing waits')),
    })
  await using first = await openAt('127.0.0.1', 0)
  const port = Number(new URL(first.url).port)
  await expect(openAt('127.0.0.1', port)).rejects.toMatchObject({
    ...{ code: 'port_unusable', variable: 'INTAKE_ADMIN_PORT', message: `port ${port} is in use` },
    hint: 'set INTAKE_ADMIN_PORT to another port, or to 0 for any',
  })
  // The address is of a network for documentation (RFC 5737).
  await expect(openAt('192.0.2.1', 0)).rejects.toMatchObject({
    ...{ code: 'port_unusable', variable: 'INTAKE_ADMIN_HOST' },
    message: 'INTAKE_ADMIN_HOST is not an address of this machine',
    hint: 'set INTAKE_ADMIN_HOST to one, or to 0.0.0.0',
  })
  // The one that was first goes on.
  expect((await fetch(`${first.url}/healthz`)).status).toBe(200)
})

it('answers within two seconds while the database hangs, and keeps its last values', async () => {
  await using scene = await openScene({}, { inTime: true })
  await query(scene.warehouse.url, "insert into intake.teams (name) values ('north')")
  // All figures, those that no response waits for too: no query is under way then.
  const metrics = async () => (await scene.get('/metrics')).text
  await expect.poll(metrics).toMatch(/^intake_webhook_silent\{team="north"\} 0$/m)
  await expect.poll(metrics).toContain('intake_warehouse_up 1')
  expect(await metrics()).toContain('intake_inbox_pending_events{team="north"} 0')
  scene.way.hang()
  const healthz = await scene.get('/healthz')
  expect(healthz).toMatchObject({ status: 200 })
  expect(healthz.seconds).toBeLessThan(0.5)
  // No query was sent.
  expect(scene.way.swallowed()).toBe(0)
  // A busy warehouse is silent for seconds too: one that stays silent is reported.
  const silent = startOwnTime()
  for (;;) {
    const readyz = await scene.get('/readyz')
    expect(readyz.seconds).toBeLessThan(2)
    if (readyz.status === 200) continue
    expect(readyz.text).toMatch(/database: (the warehouse did not answer in time|cannot reach the warehouse)/)
    break
  }
  expect(silent.milliseconds).toBeLessThan(10_000)
  scene.age()
  const again = await scene.get('/metrics')
  expect(again.seconds).toBeLessThan(2)
  expect(again.text).toContain('intake_warehouse_up 0')
  expect(again.text).toContain('intake_inbox_pending_events{team="north"} 0')
})
