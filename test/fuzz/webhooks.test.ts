/**
 * Any request to the ingester, in any form: it is in the inbox byte for byte and acknowledged, or it is rejected with a
 * status of the contract and leaves no trace; and every event in the inbox is drained, or is a dead letter.
 */
import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { sign } from '../../src/core/signature.ts'
import { STREAMS } from '../../src/streams/catalogue.ts'
import { openClinicDrain } from '../ingest/drain/scene.ts'
import { openScene, query, type Scene, SECRET } from '../ingest/support/ingest.ts'
import { openRaw, type RawAnswer } from '../ingest/support/raw.ts'
import { expectNoStack, holds, PATIENCE } from './budget.ts'
import { damaged } from './corpora.ts'
import { bytesOf, expected, MAX_BODY_BYTES, type Request, request } from './odd-requests.ts'

let scene: Scene

beforeAll(async () => {
  scene = await openScene({ limits: { body: MAX_BODY_BYTES } })
})

afterAll(async () => {
  await scene[Symbol.asyncDispose]()
})

const hashOf = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')

async function answerTo(each: Request): Promise<RawAnswer> {
  await using raw = await openRaw(scene.ingester.url)
  raw.write(bytesOf(each))
  return (await raw.answers(1))[0]!
}

const genuine = new Set<string>()

/** New content of the inbox, by the hash that the database computes. */
async function newEvents(): Promise<ReadonlyMap<string, Buffer>> {
  const rows = await query<{ hash: string; body: Buffer; stored: string }>(
    scene.url,
    `select encode(sha256(body), 'hex') as hash, encode(body_hash, 'hex') as stored, body from intake_raw.inbox
     where body_hash <> all (select decode(known, 'hex') from unnest($1::text[]) as known)`,
    [[...genuine]],
  )
  for (const { hash, stored } of rows) expect(stored).toBe(hash)
  const [all] = await query<{ events: number }>(
    scene.url,
    'select count(*)::int as events from intake_raw.inbox',
  )
  expect(all!.events).toBe(genuine.size + rows.length)
  return new Map(rows.map(({ hash, body: bytes }) => [hash, bytes]))
}

it('a request is in the inbox byte for byte, or is rejected and leaves nothing', PATIENCE, async () => {
  await holds(
    fc.asyncProperty(fc.array(request, { minLength: 1, maxLength: 12 }), async (requests) => {
      const answers = await Promise.all(requests.map(answerTo))
      for (const [at, each] of requests.entries()) {
        const { status, head, body: text } = answers[at]!
        expect(status).toBe(expected(each))
        const answer = JSON.parse(text) as Record<string, unknown>
        if (status === 200) expect(['stored', 'duplicate']).toContain(answer.status)
        else expect(answer).toEqual({ detail: expect.any(String) })
        expectNoStack(head + text)
      }
      const taken = requests.filter((each) => expected(each) === 200)
      const inbox = await newEvents()
      // Of equal bytes one copy is stored, whenever they arrived.
      for (const hash of new Set(taken.map((each) => hashOf(each.body)))) {
        const outcomes = requests.flatMap((each, at) =>
          expected(each) === 200 && hashOf(each.body) === hash ? [JSON.parse(answers[at]!.body).status] : [],
        )
        expect(outcomes.filter((outcome) => outcome === 'stored')).toHaveLength(genuine.has(hash) ? 0 : 1)
      }
      const fresh = taken.filter((each) => !genuine.has(hashOf(each.body)))
      expect(new Set(inbox.keys())).toEqual(new Set(fresh.map((each) => hashOf(each.body))))
      for (const each of fresh) {
        expect(inbox.get(hashOf(each.body))!.equals(each.body)).toBe(true)
        genuine.add(hashOf(each.body))
      }
      expect(scene.ingester.inFlight).toMatchObject({ events: 0, bytes: 0 })
    }),
    60,
  )
})

it('many requests on one connection, in pieces of any size, are answered in order', PATIENCE, async () => {
  // A request rejected for its length or path is not read further; that closes the connection.
  const whole = request.map((each) => ({
    ...each,
    path: '/webhooks' as const,
    body: each.body.subarray(0, 3_000),
  }))
  const sizes = fc.array(fc.integer({ min: 1, max: 3_000 }), { minLength: 1, maxLength: 8 })
  await holds(
    fc.asyncProperty(fc.array(whole, { minLength: 1, maxLength: 8 }), sizes, async (requests, pieces) => {
      await using raw = await openRaw(scene.ingester.url)
      const bytes = Buffer.concat(requests.map(bytesOf))
      for (let at = 0, nth = 0; at < bytes.length; nth++) {
        const size = pieces[nth % pieces.length]!
        raw.write(bytes.subarray(at, at + size))
        at += size
      }
      const answers = await raw.answers(requests.length)
      expect(answers.map(({ status }) => status)).toEqual(requests.map(expected))
      for (const each of requests) if (expected(each) === 200) genuine.add(hashOf(each.body))
      expect((await newEvents()).size).toBe(0)
    }),
    30,
  )
})

it(
  'bytes that are not HTTP are answered, or the connection is closed; any stored event was complete and signed',
  PATIENCE,
  async () => {
    const valid = request.map(bytesOf)
    await holds(
      fc.asyncProperty(damaged(valid.map((bytes) => bytes.subarray(0, 2_000))), async (bytes) => {
        await using raw = await openRaw(scene.ingester.url)
        raw.socket.end(bytes)
        await raw.ended
        // An answer may be lost in later bytes; the event is then sent again, and is a duplicate.
        await expect.poll(() => scene.ingester.inFlight.events).toBe(0)
        if (raw.received !== '') expect(raw.received).toMatch(/^HTTP\/1\.1 (?:100|200|4\d\d|503) /)
        expectNoStack(raw.received)
        const sent = bytes.toString('latin1').toLowerCase()
        for (const [hash, whole] of await newEvents()) {
          expect(sent).toContain(sign(whole, SECRET))
          genuine.add(hash)
        }
      }),
      60,
    )
    await expect.poll(() => scene.ingester.inFlight).toMatchObject({ events: 0, bytes: 0 })
  },
)

it(
  'every event is drained: loaded, fetched, dropped because its source is unknown, or a dead letter with its bytes',
  PATIENCE,
  async () => {
    // A team that only receives, without API credentials: nothing is fetched.
    await query(scene.url, `insert into intake.teams (name) values ('clinic')`)
    await using drain = openClinicDrain(scene.url)
    await drain.idle()
    expect(drain.trouble()).toBeNull()
    const rows = await query<{
      status: string
      event: string
      source: string | null
      record: string | null
      hash: string
    }>(
      scene.url,
      `select status, event_id as event, source, record_id as record, encode(body_hash, 'hex') as hash from intake_raw.inbox`,
    )
    expect(rows).toHaveLength(genuine.size)
    expect(new Set(rows.map(({ status }) => status))).toEqual(new Set(['done', 'dead']))
    const deadLetters = await query<{ origin: string; stream: string; hash: string; bytes: number | null }>(
      scene.url,
      `select l.origin, l.stream, encode(sha256(s.body), 'hex') as hash, octet_length(s.body) as bytes
     from intake_ops.dead_letters l left join intake_raw.set_aside s on s.dead_letter_id = l.id where l.team_id = 1`,
    )
    for (const { event: of, hash } of rows.filter(({ status }) => status === 'dead')) {
      const own = deadLetters.filter(({ origin }) => origin === `event:${of}`)
      expect(own.length).toBeGreaterThan(0)
      // For a record that may not be kept in part the dead letter is rewritten; otherwise it is the exact bytes.
      if (own.length === 1 && own[0]!.stream === 'inbox') expect(own[0]!.hash).toBe(hash)
      expect(own.every(({ bytes }) => bytes !== null)).toBe(true)
    }
    const known = await query<{ key: string }>(
      scene.url,
      `select stream || '/' || id as key from intake_raw.records where team_id = 1
     union select stream || '/' || id from intake_ops.refetches where team_id = 1`,
    )
    const keys = new Set(known.map(({ key }) => key))
    const streams = new Map(
      STREAMS.flatMap(({ name, source }) =>
        source === undefined ? [] : [[source as string, name as string]],
      ),
    )
    for (const { status, source, record: of } of rows) {
      const stream = source === null ? undefined : streams.get(source)
      if (status === 'done' && stream !== undefined && of !== null) expect(keys).toContain(`${stream}/${of}`)
    }
  },
)
