/** Who may have how many bytes in flight, what waits for a look-up of secrets, and what is said of refused requests. */
import { beforeAll, expect, test } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { networksOf } from '../../../src/core/peers.ts'
import { openIngester } from '../../../src/ingest/http/server.ts'
import { createTestDatabase } from '../../support/database.ts'
import { takeDefects } from '../../support/defects.ts'
import { openWatchedClock } from '../../support/sleeps.ts'
import {
  eventOf,
  known,
  openRecorder,
  openScene,
  post,
  query,
  type Scene,
  SECRET,
} from '../support/ingest.ts'
import { headOf, openRaw, type RawConnection } from '../support/raw.ts'

let scene: Scene
/** Microseconds by which the clock of the ingester is ahead. */
let ahead = 0
let isRemoved = false
/** Ends the look-ups of secrets of the other team. */
let endLooks: () => void
let looks = 0

beforeAll(async () => {
  const ended = new Promise<void>((resolve) => (endLooks = resolve))
  const teams = [
    { name: 'default', teamId: 1, secrets: known(SECRET) },
    { name: 'other', teamId: 2, secrets: known(SECRET) },
    {
      ...{ name: 'unknown', teamId: 3 },
      secrets: {
        ...{ current: () => [], isRemoved: () => isRemoved },
        // The first one is that of the start.
        refresh: async () => (looks++ === 0 ? [] : ended.then(() => [])),
      },
    },
  ]
  scene = await openScene({
    ...{ teams, proxies: networksOf(['127.0.0.8']), limits: { bytesInFlight: 100_000 } },
    clock: { ...systemClock, now: () => systemClock.now() + ahead },
  })
  return () => scene[Symbol.asyncDispose]()
})

const small = () => eventOf({ id: Math.random() })
const large = () => eventOf({ id: Math.random(), text: 'x'.repeat(40_000) })
const lines = (message: string) =>
  scene.recorded.logged.map((line) => JSON.parse(line)).filter(({ msg }) => msg.includes(message))

/** The status of an event that arrives in two parts, which is not known before it is complete. */
async function sendInParts(raw: RawConnection, body: Buffer, answers: number, ...more: readonly string[]) {
  const before = scene.ingester.inFlight.bytes
  raw.write(headOf(body, [`Content-Length: ${body.length}`, ...more]))
  raw.write(body.subarray(0, 30_000))
  await expect.poll(() => scene.ingester.inFlight.bytes).toBeGreaterThan(before)
  raw.write(body.subarray(30_000))
  return (await raw.answers(answers)).at(-1)!.status
}

test('a connection that carried a signed event may have more than a stranger, but not that of a proxy', async () => {
  const forwarded = 'X-Forwarded-For: 198.51.100.1'
  for (const [from, more, status] of [
    ['127.0.0.1', [], 200],
    ['127.0.0.8', [forwarded], 503],
  ] as const) {
    await using stranger = await openRaw(scene.ingester.url, from)
    expect(await sendInParts(stranger, large(), 1, ...more)).toBe(503)
    await using known = await openRaw(scene.ingester.url, from)
    const body = small()
    known.write(headOf(body, [`Content-Length: ${body.length}`, ...more]) + body.toString())
    expect((await known.answers(1))[0]!.status).toBe(200)
    expect([from, await sendInParts(known, large(), 2, ...more)]).toEqual([from, status])
  }
})

test('requests that wait for a look-up of secrets have a limit together; of a removed team they are answered 404', async () => {
  const send = () =>
    post(scene.ingester.url, eventOf({ text: 'x'.repeat(10_000) }), { path: '/webhooks/unknown' })
  const waiting = [send(), send()]
  await expect.poll(() => scene.ingester.inFlight.bytes).toBeGreaterThan(28_000)
  expect((await send()).status).toBe(503)
  expect(scene.recorded.rejected.at(-1)).toBe('overload unknown')
  isRemoved = true
  endLooks()
  expect((await Promise.all(waiting)).map(({ status }) => status)).toEqual([404, 404])
  isRemoved = false
  expect((await send()).status).toBe(503)
  expect(scene.recorded.rejected.slice(-3)).toEqual([
    ...['unknown_team unknown', 'unknown_team unknown'],
    'no_secret unknown',
  ])
  expect(lines('no signature secret is known')).toMatchObject([{ team: 'unknown' }])
  expect(scene.ingester.inFlight).toMatchObject({ events: 0, bytes: 0 })
})

test('refused requests are counted by reason, and logged once a minute', async () => {
  const said = () => lines('were refused since the last').map(({ refused }) => refused)
  const forge = () => post(scene.ingester.url, small(), { secret: 'another' })
  ahead += 61_000_000
  await forge()
  const before = said().length
  for (let times = 0; times < 2; times++) await forge()
  ahead += 55_000_000
  await fetch(`${scene.ingester.url}/elsewhere`)
  expect(said()).toHaveLength(before)
  ahead += 6_000_000
  await forge()
  expect(said().slice(before)).toEqual([{ signature: 3, unknown_team: 1 }])
})

test('the first event of each team is reported, and no later one', async () => {
  for (const path of ['/webhooks', '/webhooks/other', '/webhooks/other', '/webhooks'])
    expect((await post(scene.ingester.url, small(), { path })).status).toBe(200)
  expect(lines('events flow').map(({ team }) => team)).toEqual(['default', 'other'])
})

test('nothing of a body without a signature is kept, so that it needs no room', async () => {
  await using raw = await openRaw(scene.ingester.url)
  const part = 'x'.repeat(40_000)
  const chunk = `${part.length.toString(16)}\r\n${part}\r\n`
  raw.write(
    `POST /webhooks HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n${chunk}${chunk}0\r\n\r\n`,
  )
  expect((await raw.answers(1))[0]).toMatchObject({ status: 400 })
})

test('an event of a team that was removed meanwhile is answered 404, and others with it are stored', async () => {
  await query(
    scene.url,
    `insert into intake_ops.removed_teams (team_id, name, data) values (2, 'other', 'kept')`,
  )
  const send = (path: string) => post(scene.ingester.url, small(), { path })
  try {
    const paths = ['/webhooks/other', '/webhooks', '/webhooks/other', '/webhooks']
    const answers = await Promise.all(paths.map(send))
    expect(answers.map(({ status }) => status)).toEqual([404, 200, 404, 200])
    expect(scene.recorded.rejected.slice(-2)).toEqual(Array(2).fill('unknown_team other'))
  } finally {
    await query(scene.url, 'delete from intake_ops.removed_teams')
  }
  expect((await send('/webhooks/other')).status).toBe(200)
})

test('who signed an event is known from then on, also where there was no room for it', async () => {
  await using own = await openScene({ limits: { eventsInFlight: 0, connectionsOfPeer: 1 } })
  const send = async (raw: RawConnection, answers: number) => {
    const body = small()
    raw.write(headOf(body) + body.toString())
    return (await raw.answers(answers)).map(({ status }) => status)
  }
  await using known = await openRaw(own.ingester.url)
  expect(await send(known, 1)).toEqual([503])
  // Another of that peer displaces no more than a stranger.
  await using first = await openRaw(own.ingester.url)
  await using second = await openRaw(own.ingester.url)
  await first.ended
  expect(await send(known, 2)).toEqual([503, 503])
  expect(await send(second, 1)).toEqual([503])
  expect(own.recorded.rejected).toEqual(['overload clinic', 'crowded', 'overload clinic', 'overload clinic'])
})

test('an ingester that was closed leaves no timer', async () => {
  const { clock, sleeping } = openWatchedClock()
  await using own = await openScene({ clock })
  expect((await post(own.ingester.url, small())).status).toBe(200)
  await own.ingester.close()
  expect(await sleeping()).toEqual([])
})

test('an error of our own code is answered 503, and its text is not logged', async () => {
  const secrets = {
    ...known(SECRET),
    current: () => {
      throw new TypeError('cannot read Kanarienvogel')
    },
  }
  await using own = await openScene({ teams: [{ name: 'clinic', teamId: 1, secrets }] })
  expect((await post(own.ingester.url, small())).status).toBe(503)
  expect(own.recorded.rejected).toEqual(['unavailable clinic'])
  const said = own.recorded.logged.map((line) => JSON.parse(line))
  expect(said).toContainEqual(expect.objectContaining({ level: 50, code: 'internal' }))
  expect(own.recorded.logged.join('')).not.toContain('Kanarienvogel')
  expect(own.ingester.inFlight).toMatchObject({ events: 0, bytes: 0 })
  takeDefects()
})

test('an ingester whose port is taken fails, and leaves no connection to the warehouse', async () => {
  await using database = await createTestDatabase()
  const { watch, logger } = openRecorder()
  const opening = openIngester({
    ...{ url: database.url, host: '127.0.0.1', port: Number(new URL(scene.ingester.url).port) },
    ...{ teams: [{ name: 'clinic', teamId: 1, secrets: known(SECRET) }], clock: systemClock, watch, logger },
  })
  await expect(opening).rejects.toMatchObject({ code: 'EADDRINUSE' })
  // A connection that is left open fails the end of the test.
})
