/**
 * A warehouse with partitions (sql/partitions.sql) next to a plain one of the same service: whatever is done to both, they have
 * the same rows. Any other test runs with partitions too: TEST_PARTITIONS=3.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { migrate } from '../../src/analytics/migrate.ts'
import { systemClock } from '../../src/core/clock.ts'
import { openDrain } from '../../src/ingest/drain/drain.ts'
import { readEvent } from '../../src/ingest/inbox/event.ts'
import { openRetention, prune } from '../../src/operate/serve/retention.ts'
import { openScene, query, type Scene } from '../e2e/support/scene.ts'
import { everyTable } from '../e2e/support/tables.ts'
import { callerOf } from '../emulator/caller.ts'
import { type Receiver, startReceiver } from '../emulator/receiver.ts'
import { silent, unwatched } from '../ingest/drain/scene.ts'
import { tablesHolding } from '../operate/everywhere.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { partition } from '../support/partition.ts'
import { runCommand } from '../support/run-command.ts'
import { withSession } from '../support/sessions.ts'

let scene: Scene
let divided: TestDatabase
let receiver: Receiver

const urls = () => [scene.url, divided.url]

async function both(...words: readonly string[]): Promise<readonly string[]> {
  const outputs: string[] = []
  for (const url of urls()) {
    const ended = await runCommand(words, { ...scene.env, DATABASE_URL: url, LOG_LEVEL: 'error' })
    expect(ended.code, ended.output).toBe(0)
    outputs.push(ended.stdout)
  }
  return outputs
}

async function expectSame(): Promise<void> {
  const [plain, parted] = await Promise.all(urls().map((url) => everyTable(url, 'default')))
  expect(Object.keys(parted!).filter((name) => parted![name]!.length > 0).length).toBeGreaterThan(20)
  expect(parted).toEqual(plain)
}

/** Changes what the service has, and stores the events of that. */
async function change(round: number): Promise<void> {
  const { control } = scene.emulator
  const patients = control.world().patients
  for (let at = 0; at < 30; at++) {
    const fields = { last_name: `Name ${round} ${at}`, custom_fields: { round: `${round}` } }
    control.updatePatient(patients.at(at)!.id, fields)
  }
  control.deletePatient(patients.at(30 + round)!.id)
  control.createPatient({ first_name: `New ${round}`, last_name: 'Otherwise' })
  control.renameForm(control.world().forms.at(0)!.id, `Form ${round}`)
  await control.webhooks().idle()
}

/** The same events for both, in an order of their own. */
async function drain(): Promise<void> {
  const events = receiver.deliveries.splice(0).map(({ bytes }) => bytes)
  for (const url of urls()) {
    const [team] = await query<{ id: number }>(url, 'select team_id::int as id from intake.teams')
    for (const body of url === divided.url ? events.toReversed() : events) {
      const { eventId, bodyHash, eventType, source, recordId } = readEvent(team!.id, body)
      await query(
        url,
        `insert into intake_raw.inbox
           (team_id, event_id, body_hash, received_on, received_at, event_type, source, record_id, body)
         values ($1, $2, decode($3, 'hex'), (now() at time zone 'UTC')::date, now(), $4, $5, $6, $7)`,
        [team!.id, eventId, bodyHash, eventType, source, recordId, body],
      )
    }
    const teams = [{ name: 'default', teamId: team!.id }]
    await using opened = openDrain({
      url,
      teams,
      clock: systemClock,
      logger: silent,
      watch: unwatched,
      batch: 20,
    })
    await opened.idle()
    const counts = await query(url, 'select status, count(*)::int from intake_raw.inbox group by 1')
    expect(counts).toEqual([{ status: 'done', count: expect.any(Number) }])
  }
}

beforeAll(async () => {
  receiver = await startReceiver()
  scene = await openScene({ timeScale: 0.01 })
  divided = await createTestDatabase()
  await withSession(divided.url, (client) => partition(client, 4))
  await migrate(divided.url)
  const created = await callerOf(scene.emulator).send('POST', '/v2/webhooks', { target_url: receiver.url })
  expect(created.status).toBe(201)
})

afterAll(async () => {
  await scene[Symbol.asyncDispose]()
  await divided.drop()
  await receiver.close()
})

test('a first load, a re-run and nights with changes end with the same rows, and write the same number', async () => {
  await both('backfill')
  await expectSame()
  await change(1)
  receiver.deliveries.length = 0
  for (const words of [[], ['--full'], []]) {
    const counts = (await both('backfill', '--json', ...words)).map((text) => {
      const { streams } = JSON.parse(text) as { streams: Record<string, Record<string, number>> }
      return Object.entries(streams).map(([name, { changed, unchanged, deleted }]) => ({
        ...{ name, changed, unchanged, deleted },
      }))
    })
    expect(counts[1]).toEqual(counts[0])
    await expectSame()
  }
})

test('events in any order end as the service is', async () => {
  await change(2)
  await drain()
  await both('backfill', '--full')
  await expectSame()
})

test('they are equal to the service, and explain, status and doctor work', async () => {
  await both('verify', '--deep')
  const [plain, parted] = (await both('status', '--json')).map(
    (text) => JSON.parse(text) as Record<string, unknown>,
  )
  expect(Object.keys(parted!)).toEqual(Object.keys(plain!))
  const { id } = scene.emulator.control.world().patients.at(0)!
  const explained = await both('explain', 'patients', id, '--json')
  expect(explained[1]!.length).toBeGreaterThan(500)
})

test('replay puts right what was changed behind its back, and so does a repair', async () => {
  for (const [break_, ...words] of [
    ['delete from intake.response_answers; update intake.patients set city = null', 'replay'],
    ['delete from intake.patient_tags; delete from intake.messages', 'verify', '--repair'],
    [`update intake.patient_tags set name = name || 'x'; delete from intake.responses`, 'replay'],
  ] as const) {
    for (const url of urls()) await query(url, break_)
    await both(...words)
    await expectSame()
  }
  await both('verify')
})

test('an erased patient is nowhere, and no other row is gone', async () => {
  const [one] = await query<{ id: string }>(
    scene.url,
    `select patient_id as id from intake.responses where patient_id is not null group by 1 order by count(*) desc, 1 limit 1`,
  )
  await both('erase', 'patient', one!.id, '--yes')
  for (const url of urls()) expect(await tablesHolding(url, [one!.id])).toEqual({})
  await expectSame()
})

test('retention removes the oldest history only, whatever the places of its rows', async () => {
  const left: unknown[] = []
  for (const url of urls()) {
    await query(
      url,
      `update intake_raw.record_history set superseded_at = now() - interval '90 days'
       where id in (select id from intake_raw.record_history order by md5(id) limit 7)`,
    )
    await using retention = await openRetention(url)
    const pruned = await prune({
      db: retention.db,
      now: new Date(),
      historyDays: 30,
      runDays: null,
      forMs: 60_000,
    })
    expect(pruned.history).toBeGreaterThan(6)
    left.push(
      await query(
        url,
        `select stream, id, encode(hash, 'hex') from intake_raw.record_history order by 1, 2, 3`,
      ),
    )
  }
  expect(left[1]).toEqual(left[0])
})

test('a later migration and new statistics reach every partition, and loading goes on', async () => {
  for (const url of urls()) {
    await query(
      url,
      `alter table intake.patients add column later text default 'x';
       alter table intake.response_answers add column later int not null default 1;
       create index later on intake.patients (team_id, later)`,
    )
    await migrate(url)
  }
  await change(3)
  await drain()
  await both('backfill', '--full')
  await expectSame()
  await both('verify')
})

test('a team that is removed leaves no row in any partition', async () => {
  const words = ['teams', 'remove', 'default', '--delete-data']
  const ended = await runCommand(words, { DATABASE_URL: divided.url, LOG_LEVEL: 'error' })
  expect(ended.code, ended.output).toBe(0)
  const rest = await query<{ left: boolean }>(
    divided.url,
    `select bool_or(query_to_xml(format('select from %s limit 1', oid::regclass), true, true, '')::text like '%<row%') as left
     from pg_class where relnamespace = 'intake_partitions'::regnamespace and relkind = 'r'`,
  )
  expect(rest).toEqual([{ left: false }])
})
