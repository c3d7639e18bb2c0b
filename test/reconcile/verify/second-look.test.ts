/** A difference is looked at again before it counts: how often, by which requests, and what an answer means then. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { json } from '../../api/support/service.ts'
import { withoutPauses, withoutPausesOfVerify } from '../../e2e/support/impatient.ts'
import { type LittleService, littlePatient, startLittleService } from '../../e2e/support/little-service.ts'
import { openWarehouse, query } from '../../e2e/support/scene.ts'
import type { TestDatabase } from '../../support/database.ts'
import { runCommand } from '../../support/run-command.ts'

withoutPauses()
const looks = withoutPausesOfVerify()

const PATIENTS = 51

let service: LittleService
let warehouse: TestDatabase

beforeAll(async () => {
  warehouse = await openWarehouse()
  service = await startLittleService()
  service.records.webhookConfigs.push({ id: 'w1', target_url: 'https://a.example' })
  service.records.forms.push({ id: 'f1', name: 'Intake' }, { id: 'f2', name: 'Other' })
  restore()
  // Another team has records with the same ids.
  for (const team of ['default', 'other']) {
    const words = ['backfill', '--streams', 'patients,webhook_configs,forms']
    const ended = await runCommand(words, { ...env(), INTAKE_TEAM: team })
    expect(ended.code, ended.output).toBe(0)
  }
})

afterAll(async () => {
  await service[Symbol.asyncDispose]()
  await warehouse.drop()
})

beforeEach(() => {
  service.interfere = () => false
  restore()
})

function restore(): void {
  const ids = Array.from({ length: PATIENTS }, (_, at) => `p${at + 1}`)
  service.records.patients = ids.map((id) => littlePatient(id, 'first'))
}

const rows = (text: string, values: unknown[] = []) => query(warehouse.url, text, values)
const env = () => ({ ...service.env, DATABASE_URL: warehouse.url, LOG_LEVEL: 'silent' })
const run = (...words: string[]) => runCommand(words, env())

/** Lists that were requested, and ids, since the last call. */
let seen = 0
function requests() {
  const paths = service.received.slice(seen).map(({ url }) => url.split('?')[0]!)
  seen = service.received.length
  const ids = paths.flatMap((path) => /\/patients\/(p\d+)$/.exec(path)?.[1] ?? [])
  return { ids: ids.length, lists: paths.filter((path) => path.endsWith('/patients')).length }
}

async function verify(stream = 'patients', ...words: string[]) {
  looks.pauses.splice(0)
  requests()
  const ended = await run('verify', '--json', '--streams', stream, ...words)
  return { code: ended.code, found: JSON.parse(ended.stdout).streams[stream] }
}

/** The stored payload and the row have a state that the service never had. */
async function spoil(...ids: readonly string[]): Promise<void> {
  await rows(
    `update intake_raw.records set hash = '\\x00' where team_id = 1 and stream = 'patients' and id = any($1)`,
    [ids],
  )
  await rows(`update intake.patients set last_name = 'wrong' where team_id = 1 and id = any($1)`, [ids])
}

/** In the partition of its day, or of one that is `days` ago. */
const event = (team: number, age: string, days = 0) =>
  rows(
    `insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, body, status)
     select $1, $2, '\\x00', least((at at time zone 'UTC')::date, (now() at time zone 'UTC')::date - $3::int), at, '', 'done'
     from (select now() - $2::interval) as own (at)`,
    [team, age, days],
  )

test('it is looked at once more, and three times where the team received events in the last ten minutes', async () => {
  await spoil('p1')
  await rows(`update intake_raw.records set hash = '\\x00' where team_id = 1 and stream = 'webhook_configs'`)
  await rows(`update intake.webhook_configs set target_url = 'https://b.example' where team_id = 1`)
  const different = [{ id: 'p1', fields: ['intake_raw.records', 'last_name'] }]
  expect(await verify()).toMatchObject({ code: 4, found: { different, newer: 0 } })
  expect([looks.pauses, requests().ids]).toEqual([[500], 1])
  await event(2, '1 minute')
  await event(1, '11 minutes')
  await verify()
  expect(looks.pauses).toEqual([500])
  // As in the first minutes of a day: today's partition has none of them.
  await event(1, '8 minutes', 1)
  await verify()
  expect(looks.pauses).toEqual([1_000, 2_500, 6_000])
  await rows(`delete from intake_raw.inbox where event_id = '8 minutes'`)
  await event(1, '9 minutes')
  expect(await verify()).toMatchObject({ code: 4, found: { different, newer: 0 } })
  expect([looks.pauses, requests().ids]).toEqual([[1_000, 2_500, 6_000], 3])
  // No event is about these.
  expect((await verify('webhook_configs')).code).toBe(4)
  expect(looks.pauses).toEqual([500])
})

test('a record that cannot be fetched is noted, in place of a difference', async () => {
  service.interfere = ({ url }, response) => {
    if (url.endsWith('/p1')) json(response, {}, 500)
    return url.endsWith('/p1')
  }
  const failed = await verify()
  expect(failed).toMatchObject({ code: 4, found: { missing: [], extra: [], different: [] } })
  expect(failed.found.note).toMatch(/^1 could not be fetched/)
  service.interfere = ({ url }, response) => {
    if (url.endsWith('/p1')) json(response, { detail: 'No.' }, 400)
    return url.endsWith('/p1')
  }
  const refused = await verify()
  expect(refused).toMatchObject({ code: 0, found: { missing: [], extra: [], different: [] } })
  expect(refused.found.note).toMatch(/^1 record\(s\) could not be compared/)
})

test('up to fifty are fetched by id; more are listed again, where that takes fewer requests', async () => {
  const ids = service.records.patients.map(({ id }) => id)
  await spoil(...ids.slice(0, 50))
  await rows(`delete from intake_raw.inbox`)
  expect((await verify()).found.different).toHaveLength(50)
  expect(requests()).toEqual({ ids: 50, lists: 6 })
  await spoil(...ids)
  expect((await verify()).found.different).toHaveLength(PATIENTS)
  expect(requests()).toEqual({ ids: 0, lists: 12 })
  expect(await verify('patients', '--repair')).toMatchObject({ code: 0, found: { repaired: PATIENTS } })
  const origins = await rows(
    `select distinct origin from intake_raw.records where team_id = 1 and stream = 'patients'`,
  )
  expect(origins).toEqual([{ origin: expect.stringMatching(/^run:\d+ repair$/) }])
})

test('differences are in the order of their ids, whether or not they had to be looked at again', async () => {
  await rows('delete from intake_raw.inbox')
  // Of the second and the fourth the stored payload is as listed: their rows are wrong whatever happens meanwhile.
  await rows(`update intake.patients set last_name = 'wrong' where team_id = 1 and id in ('p2', 'p4')`)
  await spoil('p1', 'p3', 'p5')
  const { found } = await verify()
  expect(requests().ids).toBe(3)
  expect(found.different.map(({ id }: { id: string }) => id)).toEqual(['p1', 'p2', 'p3', 'p4', 'p5'])
  expect(await verify('patients', '--repair')).toMatchObject({ code: 0, found: { repaired: 5 } })
})

test('of a record that was listed again, with other content, only the last state is compared', async () => {
  let lists = 0
  service.interfere = ({ url }, response) => {
    if (!/\/patients(\?|$)/.test(url)) return false
    lists += 1
    if (lists > 1) return false
    const results = [littlePatient('p1', 'stale'), littlePatient('p2', 'first')]
    json(response, { count: 3, next: null, previous: null, results })
    return true
  }
  const { code, found } = await verify()
  expect({ code, found }).toMatchObject({
    ...{ code: 0, found: { source: PATIENTS, missing: [], extra: [], different: [], newer: 0, note: null } },
  })
  expect(found.source_hash).toBe(found.warehouse_hash)
  expect([requests(), looks.pauses]).toEqual([{ ids: 0, lists: 7 }, []])
})

test('a record that a load would dead-letter is neither extra nor different, but noted', async () => {
  service.interfere = ({ url }, response) => {
    if (url.endsWith('/f1')) json(response, { detail: 'No.' }, 400)
    return url.endsWith('/f1')
  }
  const { code, found } = await verify('forms')
  expect({ code, found }).toMatchObject({ code: 0, found: { missing: [], extra: [], different: [] } })
  expect(found.note).toMatch(/^1 record\(s\) could not be compared/)
})

test('one that somebody cancels looks no further, though the service never answers, and says who did it', async () => {
  let isAsked = false
  service.interfere = ({ url }) => {
    isAsked ||= /\/patients(\?|$)/.test(url)
    return isAsked
  }
  const verifying = run('verify', '--streams', 'patients')
  await expect.poll(() => isAsked).toBe(true)
  const [{ id } = {}] = await rows('select max(run_id)::int as id from intake_ops.runs')
  const canceled = await run('runs', 'cancel', String(id), '--json')
  expect(JSON.parse(canceled.stdout)).toEqual({ run_id: id, status: 'interrupted', canceled: true })
  await verifying
  expect(await rows('select status, error from intake_ops.runs where run_id = $1', [id])).toEqual([
    { status: 'interrupted', error: expect.stringMatching(/^default\/patients: canceled by database user /) },
  ])
})
