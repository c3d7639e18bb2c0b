/** Signed addresses, image bytes and secrets are in no table, and make no new version. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { JsonObject } from '../../src/core/json.ts'
import type { StreamName } from '../../src/core/streams.ts'
import { readRecord } from '../../src/normalize/read-record.ts'
import { streamNamed } from '../../src/streams/catalogue.ts'
import { cleansedResponse } from '../../src/streams/parts/response-cleansing.ts'
import { openSession, type Session } from '../../src/warehouse/connect.ts'
import { loadEnvelopes, rowsOf, takeWhole } from '../load/loading.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { at } from '../support/envelopes.ts'

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
  readRecord(value, { teamId: 1, stream, origin: 'test', observedAt: at(0), invalidUtf8: false })

function contentOf(stream: StreamName, value: unknown) {
  const record = read(stream, value)
  if (record.kind === 'dead') throw new Error(record.deadLetter.reason)
  return record.envelope.content!
}

const BYTES = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ'
const CANARY = 'canary'

/** A response in which everything that can be signed is signed with `key`, in each possible place. */
const signedBy = (key: string) => ({
  id: 'r',
  answers: [
    {
      question: { id: 'q', text: 'Where?' },
      answer_text: `https://files.example.com/given?X-Amz-Signature=${key}`,
      uploads: [
        { id: 'x', name: 'a.png', url: `https://files.example.com/nested?expires=1&signature=${key}` },
      ],
      signatures: [{ id: 's', image: { href: `https://files.example.com/nested-image?sig=${key}#${key}` } }],
    },
  ],
  files: [
    { id: 'x', url: `https://files.example.com/file?token=${key}`, thumbnail_url: `/thumb?${key}` },
    { id: 'z', source: `https://files.example.com/a file?token=${key}` },
    { id: 'y', url: [`https://files.example.com/list?token=${key}`] },
    `https://files.example.com/bare?${key}`,
  ],
  attachments: `https://files.example.com/text?${key}`,
  e_signatures: [
    { id: 's', image: `https://files.example.com/image?signature=${key}` },
    { id: 't', url: `//files.example.com/image?${key}`, data: `data:image/png;base64,${BYTES}${key}` },
    { id: 'u', image: `${BYTES}${key}` },
  ],
  summary_pdf: `https://files.example.com/unknown?Expires=1&Signature=${key}`,
  photo: { inline: `data:image/jpeg;base64,${key}` },
})

describe('a response', () => {
  test('whose addresses are signed again at each read is the same content, hash for hash', () => {
    const [first, second] = [contentOf('responses', signedBy('k1')), contentOf('responses', signedBy('k2'))]
    expect(first.text).toBe(second.text)
    expect(first.hash).toBe(second.hash)
  })

  test('is the same content whichever bytes its signature image has, and another when anything else differs', () => {
    const response = (image: string, signer_name: string) => ({
      id: 'r',
      e_signatures: [{ image, signer_name }],
    })
    const { hash } = contentOf('responses', response(`data:image/png;base64,${BYTES}`, 'Ann'))
    expect(contentOf('responses', response('data:image/png;base64,AAAA', 'Ann')).hash).toBe(hash)
    expect(contentOf('responses', response(`data:image/png;base64,${BYTES}`, 'Bob')).hash).not.toBe(hash)
    expect(contentOf('responses', response('', 'Ann')).hash).not.toBe(hash)
  })

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
    for (const secret of [CANARY, BYTES, 'signature=', 'Signature=', 'sig=', 'token=', 'base64'])
      expect(text).not.toContain(secret)
    expect(await rowsOf(session, 'select 1 from intake_raw.set_aside')).toHaveLength(2)
  })

  test('keeps text of people, even an address with a query, or words about images', () => {
    const words = [
      'https://example.com/?q=1&page=2#top',
      'see https://example.com/?signature=abc for more',
      'data:image is what I mean',
      'data:text/plain,hello',
      '//',
      'http',
    ]
    const response = {
      id: 'r',
      form_name: words[0],
      answers: words.map((answer_text) => ({ answer_text, answer_choices: words })),
      matrix_cells: words.map((value) => ({ row: value, value })),
    }
    expect(cleansedResponse(response)).toBe(response)
  })

  test('keeps the other fields of a file without its address and bytes', () => {
    const file = {
      id: 'x',
      name: 'what?.png',
      content_type: 'image/png',
      size: 5,
      question: { text: 'A card?#1' },
    }
    const kept = cleansedResponse({
      id: 'r',
      files: [{ ...file, url: 'https://a.example.com/x?y', data: BYTES }],
    })
    expect(kept).toEqual({
      id: 'r',
      files: [{ ...file, url: 'https://a.example.com/x', data: '(not kept)' }],
    })
  })

  test('is not changed by cleansing, and cleansing it again changes nothing', () => {
    const response = signedBy('k')
    const before = structuredClone(response)
    const once = cleansedResponse(response)
    expect(response).toEqual(before)
    expect(cleansedResponse(once)).toBe(once)
  })

  test.each([
    ['[', ']'],
    ['{"files":', '}'],
  ])('nested beyond every depth does not fail: %s', (open, close) => {
    const levels = 5000
    const deep = JSON.parse(`${open.repeat(levels)}null${close.repeat(levels)}`)
    expect(read('responses', { id: 'r', files: deep })).toMatchObject({ kind: 'dead' })
  })

  test('with a field that has a meaning in JavaScript keeps it', () => {
    const response = JSON.parse(
      '{"id":"r","files":[{"__proto__":{"url":"https://a.example.com/x?y"}}]}',
    ) as JsonObject
    expect(JSON.stringify(cleansedResponse(response))).toBe(
      '{"id":"r","files":[{"__proto__":{"url":"https://a.example.com/x"}}]}',
    )
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

  test('is the same content with or without a secret', () => {
    const { signature_secret, ...without } = config
    expect(contentOf('webhook_configs', config).hash).toBe(contentOf('webhook_configs', without).hash)
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
