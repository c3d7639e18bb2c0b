/** Failures of one run that a later run repairs without intervention. */
import { expect, it } from 'vitest'
import { storeDeadLetters } from '../../src/load/dead-letters.ts'
import { openSession } from '../../src/warehouse/connect.ts'
import { CLOCK_APART_MS, json } from '../api/support/service.ts'
import { runCommand } from '../support/run-command.ts'
import { withoutPauses } from './support/impatient.ts'
import { type LittleRecord, type LittleService, startLittleService } from './support/little-service.ts'
import { openWarehouse, query } from './support/scene.ts'
import { rowVersions } from './support/tables.ts'

withoutPauses()

const DAY = 86_400_000
const BEGUN = Date.parse('2026-01-01T10:00:00Z')

function response(nth: number, text = 'first'): LittleRecord {
  const at = new Date(BEGUN + nth * DAY).toISOString()
  const answers = [{ id: `a${nth}`, question: { id: 'q', text: 'Q' }, answer_text: text, answer_choices: [] }]
  return {
    id: `r${nth}`,
    is_submitted: true,
    submitted_at: at,
    created_at: at,
    updated_at: text === 'first' ? at : '2026-09-01T00:00:00Z',
    answers,
  }
}

/**
 * A service that applies its date filter and lists summaries; a response in `refused` cannot be fetched by its id. Records
 * in `slipped` are missing from its lists, but included in their count.
 */
async function scene(count: number) {
  const service = await startLittleService()
  service.clockApartMs = CLOCK_APART_MS
  const refused = new Map<string, number>()
  const slipped = new Set<string>()
  for (let nth = 0; nth < count; nth++) service.records.responses.push(response(nth))
  service.interfere = (request, answer) => listed({ service, refused, slipped }, request.url, answer)
  const warehouse = await openWarehouse()
  const env = { ...service.env, DATABASE_URL: warehouse.url }
  const run = async (...words: string[]) => {
    const { code, stdout } = await runCommand(['backfill', '--json', '--streams', 'responses', ...words], env)
    return { code, ...JSON.parse(stdout).streams.responses } as Record<string, unknown>
  }
  return {
    ...{ service, refused, slipped, run, env, url: warehouse.url },
    texts: async () =>
      (
        await query<{ value_text: string }>(
          warehouse.url,
          `select value_text from intake.response_answers where value_text <> 'first' order by response_id`,
        )
      ).map((row) => row.value_text),
    deadLetters: () => query<{ status: string }>(warehouse.url, 'select status from intake_ops.dead_letters'),
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]()
      await warehouse[Symbol.asyncDispose]()
    },
  }
}

type Answer = Parameters<LittleService['interfere']>[1]

interface Listing {
  readonly service: LittleService
  /** The answer to each request by id. */
  readonly refused: ReadonlyMap<string, number>
  readonly slipped: ReadonlySet<string>
}

function listed({ service, refused, slipped }: Listing, url: string, answer: Answer): boolean {
  const at = new URL(url, service.url)
  const id = at.pathname.split('/').at(-1)!
  const status = refused.get(id)
  if (status !== undefined) {
    json(answer, { detail: 'no' }, status)
    return true
  }
  if (at.pathname !== '/v2/responses') return false
  const after = at.searchParams.get('submitted_after') ?? ''
  const counted = service.records.responses.filter(
    (record) => !service.unlisted.has(record.id) && String(record.submitted_at) >= after,
  )
  const results = counted
    .filter((record) => !slipped.has(record.id))
    .map(({ answers: _, ...summary }) => summary)
  json(answer, { count: counted.length, next: null, previous: null, results })
  return true
}

it('deletes that need approval are reported by every run, and made when allowed', async () => {
  await using at = await scene(100)
  expect(await at.run()).toMatchObject({ code: 0, changed: 100 })
  at.service.records.responses.splice(10, 60)
  for (const words of [['--full'], [], []]) {
    expect(await at.run(...words)).toMatchObject({
      code: 4,
      deleted: 0,
      note: expect.stringContaining('60 responses are missing from a complete list'),
    })
  }
  expect(await at.run('--allow-mass-delete')).toMatchObject({ code: 0, deleted: 60 })
  expect(await at.run()).toMatchObject({ code: 0, note: null, deleted: 0 })
})

it.each([
  ['that waits', false],
  ['that was discarded', true],
])(
  'a record dead-lettered %s is loaded by the first run that can read it, however old it is',
  async (_, discarded) => {
    await using at = await scene(40)
    expect(await at.run()).toMatchObject({ code: 0, changed: 40 })
    for (const nth of [3, 39]) {
      at.service.records.responses[nth] = response(nth, `edited ${nth}`)
      at.refused.set(`r${nth}`, 400)
    }
    expect(await at.run('--full')).toMatchObject({ code: 4, dead_letters: 2 })
    if (discarded) {
      const ids = await query<{ id: string }>(at.url, 'select id from intake_ops.dead_letters')
      for (const { id } of ids)
        expect((await runCommand(['dead-letters', 'discard', id], at.env)).code).toBe(0)
    }
    expect((await at.run()).code).toBe(discarded ? 0 : 4)
    expect(await at.texts()).toEqual([])
    at.refused.clear()
    expect((await at.run(...(discarded ? ['--since', '2026-01-01'] : []))).code).toBe(0)
    expect(await at.texts()).toEqual(['edited 3', 'edited 39'])
    const statuses = (await at.deadLetters()).map(({ status }) => status)
    expect([...new Set(statuses)]).toEqual([discarded ? 'discarded' : 'resolved'])
  },
)

it('unchanged records that no list shows any more, and that a GET by id returns, are not written again', async () => {
  await using at = await scene(20)
  await at.run()
  for (let nth = 0; nth < 8; nth++) at.service.unlisted.add(`r${nth}`)
  const before = await rowVersions(at.url)
  expect(await at.run('--full')).toMatchObject({ code: 0, changed: 0, deleted: 0 })
  expect(await rowVersions(at.url)).toEqual(before)
})

it('a filter that omits the newest known record is not trusted', async () => {
  await using at = await scene(20)
  await at.run()
  const honest = at.service.interfere
  const on = at.service.records.responses
  on.push(response(20, 'new'))
  at.service.interfere = (request, answer) => {
    const day = new URL(request.url, at.service.url).searchParams.get('submitted_after')
    if (day === null) return honest(request, answer)
    const results = on.filter((record) => String(record.submitted_at).startsWith(day))
    json(answer, { count: results.length, next: null, previous: null, results })
    return true
  }
  expect(await at.run()).toMatchObject({ code: 0, note: expect.stringContaining('newest record known') })
  expect(await at.texts()).toEqual(['new'])
})

it.each([
  ['the part since the checkpoint', []],
  ['everything', ['--full']],
])(
  'a run that read %s, and less than was counted, keeps the cursor: the next run loads the missed records, which are older',
  async (_, words) => {
    await using at = await scene(20)
    await at.run()
    at.service.records.responses.push(response(25, 'missed'), response(60, 'seen'))
    at.slipped.add('r25')
    expect(await at.run(...words)).toMatchObject({ code: 4, changed: 1 })
    expect(await at.texts()).toEqual(['seen'])
    at.slipped.clear()
    expect(await at.run()).toMatchObject({ code: 0, changed: 1 })
    expect(await at.texts()).toEqual(['missed', 'seen'])
  },
)

it.each([400, 401, 403, 405, 500])(
  'a record that no list shows, and whose GET by id answers %i, is not deleted: only 404 and 410 prove a delete',
  async (status) => {
    await using at = await scene(20)
    await at.run()
    at.service.unlisted.add('r3')
    at.refused.set('r3', status)
    const { code } = await at.run('--full')
    const gone = () => query(at.url, 'select id from intake.responses where _deleted_at is not null')
    expect([await gone(), code === 0]).toEqual([[], false])
    at.refused.clear()
    at.service.records.responses.splice(3, 1)
    expect(await at.run('--full')).toMatchObject({ code: 0, deleted: 1 })
    expect(await gone()).toEqual([{ id: 'r3' }])
  },
)

it('a dead-lettered event waits for a person: each run reports it, and reading the record does not settle it', async () => {
  await using at = await scene(5)
  expect(await at.run()).toMatchObject({ code: 0 })
  const deadLetter = { recordId: 'r1', origin: 'event:e1', reason: 'a reason', body: '{}' }
  await using session = await openSession({ url: at.url, purpose: 'healing' })
  await storeDeadLetters(session.db, { teamId: 1, stream: 'responses', runId: null }, [deadLetter])
  for (const words of [[], ['--full'], []])
    expect(await at.run(...words)).toMatchObject({ code: 4, dead_letters: 0 })
  expect(await at.deadLetters()).toEqual([{ status: 'waiting' }])
})

it('a response dated years ahead is loaded and does not move the cursor: the next run continues after the others', async () => {
  await using at = await scene(20)
  await at.run()
  at.service.records.responses.push({ ...response(20, 'ahead'), submitted_at: '2999-01-01T00:00:00Z' })
  expect(await at.run()).toMatchObject({ code: 0, changed: 1, note: null })
  expect(await at.texts()).toEqual(['ahead'])
  at.service.records.responses.push(response(21, 'later'))
  expect(await at.run()).toMatchObject({ code: 0, changed: 1, note: null })
  expect(await at.texts()).toEqual(['ahead', 'later'])
})
