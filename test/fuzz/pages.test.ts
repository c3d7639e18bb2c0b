/** Any page: none leads a request elsewhere, and of a damaged one only complete records are loaded. */
import fc from 'fast-check'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { ShapeError } from '../../src/api/errors.ts'
import { readList } from '../../src/api/paging/list-envelope.ts'
import { isObject } from '../../src/core/json.ts'
import { startService } from '../api/support/service.ts'
import { withoutPauses } from '../e2e/support/impatient.ts'
import { openWarehouse, query } from '../e2e/support/scene.ts'
import type { TestDatabase } from '../support/database.ts'
import { runCommand } from '../support/run-command.ts'
import { expectNoStack, holds, PATIENCE } from './budget.ts'
import { anyText, damaged, jsonFiles } from './corpora.ts'
import { anyValue } from './odd-records.ts'

withoutPauses()

let warehouse: TestDatabase

beforeAll(async () => {
  warehouse = await openWarehouse()
})

afterAll(async () => {
  await warehouse.drop()
})
const link = fc.oneof(
  fc.constantFrom<unknown>(
    null,
    '',
    2,
    -1,
    2.5,
    '?page=2',
    'page=2',
    '//evil.invalid/v2?page=2',
    'https://evil.invalid/?a=b#c',
  ),
  fc.constantFrom<unknown>(
    'javascript:alert(1)',
    'file:///etc/passwd?x',
    '\\\\evil.invalid\\x?y',
    'https://h:99999/?x',
    '#?&=',
    '??',
  ),
  anyText.map((text) => `https://service.invalid/v2/patients?cursor=${text}`),
  anyText,
)
const listBody = fc.oneof(
  anyValue,
  fc.record(
    {
      results: fc.oneof(fc.array(anyValue, { maxLength: 4 }), anyValue),
      data: fc.array(anyValue, { maxLength: 3 }),
      items: anyValue,
      count: fc.oneof(fc.integer(), fc.constantFrom<unknown>('7', null, -1, 2 ** 60, 1.5), anyValue),
      next: fc.oneof(link, fc.record({ href: link }), fc.record({ url: link }), anyValue),
      links: fc.oneof(fc.record({ next: link }), anyValue),
      meta: fc.oneof(fc.record({ next: link, has_more: fc.boolean() }, { requiredKeys: [] }), anyValue),
      detail: anyValue,
    },
    { requiredKeys: [] },
  ),
)
const linkHeader = fc.option(
  fc.oneof(
    link.map((to) => `<${to}>; rel="next"`),
    fc.tuple(anyText, anyText).map(([one, other]) => `<${one}>; rel=next, <${other}>; rel="prev"`),
    anyText,
  ),
  { nil: undefined },
)

it(
  'a body is a list whose records are all returned, or is invalid; the next request goes to the same path',
  PATIENCE,
  async () => {
    await holds(
      fc.property(listBody, linkHeader, (body, header) => {
        let list: ReturnType<typeof readList>
        try {
          list = readList(body, header === undefined ? {} : { link: header }, 'patients', '/v2/patients')
        } catch (error) {
          expect(error).toBeInstanceOf(ShapeError)
          return
        }
        if (isObject(body) && Array.isArray(body.results) && body.results.length > 0)
          expect(list?.records).toBe(body.results)
        if (list === null) return
        expect(list.count === null || (Number.isSafeInteger(list.count) && list.count >= 0)).toBe(true)
        if (list.next === null) return
        const target = new URL(`http://service.invalid/v2/patients?${list.next}`)
        expect([target.host, target.pathname]).toEqual(['service.invalid', '/v2/patients'])
      }),
      1_000,
    )
  },
)
let teams = 0

it(
  'a damaged page is read, or ends the stream with an error; the tables contain only complete records',
  PATIENCE,
  async () => {
    const patients = Array.from(
      { length: 8 },
      (_, at) => `{"id":"p${at}","last_name":"name ${at}","custom_fields":{"a":"${at}"}}`,
    )
    const whole = Buffer.from(`{"count":8,"next":null,"results":[${patients.join()}]}`)
    const page = fc.oneof(
      { weight: 4, arbitrary: damaged(fc.constant(whole)) },
      ...(jsonFiles.length > 0 ? [fc.constantFrom(...jsonFiles)] : []),
    )
    await holds(
      fc.asyncProperty(page, async (bytes) => {
        let pages = 0
        await using service = await startService(({ url }, response) => {
          const isList = new URL(url, 'http://any.invalid').pathname === '/v2/patients'
          // An apparent change during the scan is scanned again, and a failure retried: the last state counts.
          if (isList && ++pages > 40) return void response.destroy()
          response
            .writeHead(isList ? 200 : 404, { 'content-type': 'application/json' })
            .end(isList ? bytes : '{"detail":"Not found."}')
        })
        const team = `page-${++teams}`
        const run = await runCommand(['backfill', '--json', '--streams', 'patients'], {
          ...{ INTAKE_BASE_URL: service.url, INTAKE_API_KEY: 'key', INTAKE_API_SECRET: 'secret' },
          ...{ DATABASE_URL: warehouse.url, INTAKE_TEAM: team, LOG_LEVEL: 'silent' },
        })
        // Read completely, read with dead letters, or ended with an error: it depends on the bytes.
        const { streams } = JSON.parse(run.stdout) as {
          streams: { patients: { dead_letters: number; status: string } }
        }
        const { status, dead_letters: deadLetters } = streams.patients
        expect(run.code).toBe(status === 'failed' ? 1 : deadLetters > 0 ? 4 : 0)
        expect(run.output).not.toContain('fault of intake-sync')
        expectNoStack(run.output)
        const counts = await query<{ rows: number; raw: number; named: number }>(
          warehouse.url,
          `select count(*)::int as rows, count(raw.id)::int as raw,
           count(*) filter (where raw.payload ? 'last_name' and raw.payload ->> 'last_name' is distinct from p.last_name
             and jsonb_typeof(raw.payload -> 'last_name') = 'string')::int as named
         from intake.teams t join intake.patients p using (team_id)
         left join intake_raw.records raw on raw.team_id = p.team_id and raw.stream = 'patients' and raw.id = p.id
         where t.name = $1`,
          [team],
        )
        expect(counts[0]!.rows).toBe(counts[0]!.raw)
        expect(counts[0]!.named).toBe(0)
        if (Buffer.compare(bytes, whole) === 0) expect([run.code, counts[0]!.rows]).toEqual([0, 8])
      }),
      10,
      [[whole]],
    )
  },
)
