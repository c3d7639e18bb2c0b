/** Signed addresses, image bytes and secrets are in no table, and make no new version. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { StreamName } from '../../src/core/envelope.ts'
import { readRecord } from '../../src/normalize/read-record.ts'
import { streamNamed } from '../../src/streams/catalogue.ts'
import { openSession, type Session } from '../../src/warehouse/connect.ts'
import { loadEnvelopes, rowsOf, takeWhole } from '../load/loading.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { at } from '../support/envelopes.ts'
import { IMAGE_BYTES, signedBy } from './signed.ts'

let database: TestDatabase
let session: Session

beforeAll(async () => {
  database = await createTestDatabase()
  session = await openSession({ url: database.url, purpose: 'cleansing' })
})

afterAll(async () => {
  await session.close()
  await database.drop()
})

const read = (stream: StreamName, value: unknown) =>
  readRecord(value, {
    teamId: 1,
    stream: streamNamed(stream)!,
    origin: 'test',
    observedAt: at(0),
    invalidUtf8: false,
  })

const CANARY = 'canary'

describe('a response', () => {
  test('leaves no signature, query or image bytes in any table of the warehouse', async () => {
    const stream = streamNamed('responses')!
    const broken = { ...signedBy(CANARY), id: null }
    const dead = read('responses', broken)
    if (dead.kind !== 'dead') throw new Error('it loads')
    const listed = read('responses', [signedBy(CANARY)])
    if (listed.kind !== 'dead') throw new Error('it loads')
    const whole = read('responses', signedBy(CANARY))
    // A NUL makes every text that holds one a problem that keeps it.
    const withNul = { ...signedBy(`${CANARY}\u0000`), id: 'nul' }
    const rewritten = read('responses', withNul)
    const envelopes = [whole, rewritten].flatMap((each) => (each.kind === 'record' ? [each.envelope] : []))
    await loadEnvelopes(session, stream, envelopes, {
      mode: 'merge',
      taken: await takeWhole(session, stream, 1),
      deadLetters: [dead.deadLetter, listed.deadLetter],
    })
    const text = await warehouseText()
    expect(text).toContain('https://files.example.com/image')
    expect(text).toContain('https://files.example.com/nested')
    for (const secret of [CANARY, IMAGE_BYTES, 'signature=', 'Signature=', 'sig=', 'token=', 'base64'])
      expect(text).not.toContain(secret)
    expect(await rowsOf(session, 'select 1 from intake_raw.set_aside')).toHaveLength(2)
  })
})

describe('a webhook configuration', () => {
  const SECRET = 'whsec-canary'
  const config = {
    id: 'w',
    target_url: 'https://receiver.example.com',
    signature_secret: SECRET,
    signing: { signatureSecret: SECRET, previous: [{ secret: SECRET }], has_secret: true },
  }

  test('leaves no secret that a list contained in any table, dead letters included', async () => {
    const stream = streamNamed('webhook_configs')!
    const record = read('webhook_configs', config)
    const dead = [read('webhook_configs', { ...config, id: undefined }), read('webhook_configs', [config])]
    await loadEnvelopes(session, stream, record.kind === 'record' ? [record.envelope] : [], {
      mode: 'merge',
      taken: await takeWhole(session, stream, 1),
      deadLetters: dead.flatMap((each) => (each.kind === 'dead' ? [each.deadLetter] : [])),
    })
    const text = await warehouseText()
    expect(text).toContain('https://receiver.example.com')
    expect(text).not.toContain(SECRET)
    const [row] = await rowsOf(session, `select _extra from intake.webhook_configs where id = 'w'`)
    expect(row).toEqual({ _extra: { signing: { previous: [{}], has_secret: true } } })
  })
})

/** Every row of every table that a load writes, as text; bodies of dead letters too. */
async function warehouseText(): Promise<string> {
  const tables = await rowsOf<{ name: string }>(
    session,
    `select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname in ('intake', 'intake_raw', 'intake_ops')`,
  )
  const texts: string[] = []
  for (const { name } of tables) {
    const rows = await rowsOf<{ line: string }>(session, `select to_jsonb(t)::text as line from ${name} t`)
    texts.push(...rows.map(({ line }) => line))
  }
  const bodies = await rowsOf<{ body: Buffer }>(session, 'select body from intake_raw.set_aside')
  return [...texts, ...bodies.map(({ body }) => body.toString())].join('\n')
}
