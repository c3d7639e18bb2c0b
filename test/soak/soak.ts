/**
 * A year of nights in an hour: a service whose data change by day, webhooks into `serve`, a backfill each night, and
 * retention, on a clock that is put forward from night to night. It begins with the warehouse that version 0.1 left.
 *
 * Days differ: patients come and go, are edited and erased, forms are reworded, responses are edited, the service fails,
 * and the process is killed and started again. In mid-year it is upgraded to a next version. Everything that happens
 * depends on the night alone; how long it takes does not change it. The size of the service stays about the same, so that
 * what grows is ours.
 */
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { migrate } from '../../src/analytics/migrate.ts'
import { openEmbedded } from '../../src/embedded/server.ts'
import { wallClock } from '../../src/emulator/clock.ts'
import { type Emulator, startEmulator } from '../../src/emulator/server.ts'
import { Draw, keyOf } from '../../src/emulator/world/draw.ts'
import { keepInboxDays } from '../../src/ingest/inbox/days.ts'
import { removeSettledBodies } from '../../src/load/erased-dead-letters.ts'
import { settleDeliveries } from '../../src/operate/health/silence-signs.ts'
import { openRetention, prune } from '../../src/operate/serve/retention.ts'
import { makeFolder, removeFolder } from '../support/folders.ts'
import { freePort } from '../support/free-port.ts'
import { whenInterrupted } from '../support/interruption.ts'
import { restore } from '../upgrade/restore.ts'
import { DAY_MS, putForward, setBack } from './clock.ts'
import { makeNextVersion, PROJECT } from './next-version.ts'
import { type Program, startProgram } from './program.ts'

export interface SoakOptions {
  readonly nights: number
  /** Of the service. */
  readonly patients: number
  /** Changes by day. */
  readonly changes: number
  /** Days of retention: of the inbox, and of superseded payloads, runs and deliveries. */
  readonly inboxDays: number
  readonly historyDays: number
  readonly onNight?: (night: Night) => void
}

export interface Night {
  readonly night: number
  readonly databaseBytes: number
  /** Of the process that serves and backfills, after garbage was collected. */
  readonly residentBytes: number
  /** Of the backfill. */
  readonly seconds: number
  /** From receiving an event to its row, 99 of 100 events of the day. */
  readonly drainSeconds: number
  readonly events: number
  readonly exitCode: number
}

/** A table that autovacuum does not keep up with. */
export interface Neglected {
  readonly table: string
  readonly dead: number
  readonly live: number
}

/** Bytes of a table and its indexes when retention had long begun, and at the end. */
export interface Size {
  readonly table: string
  readonly before: number
  readonly after: number
}

export interface Soak {
  readonly nights: readonly Night[]
  /** Tables that differ from a fresh load at the end. */
  readonly differing: readonly string[]
  readonly neglected: readonly Neglected[]
  /** Transactions since the oldest row of a table was frozen. */
  readonly oldestAge: number
  readonly sizes: readonly Size[]
  /** Partitions of the inbox at the end. */
  readonly days: readonly string[]
  /** Age of the oldest superseded payload at the end. */
  readonly oldestHistoryDays: number
}

const TEAM = 'soak'
/** The part of the nights after which sizes are measured for the first time: retention is over by then. */
const LONG_SINCE = 0.6
/** What a retention of its own removes, and so is not in a fresh load. */
const REMOVED_BY_AGE = 'webhook_deliveries'

export async function soak(options: SoakOptions): Promise<Soak> {
  const folder = makeFolder('soak-')
  const nextVersion = makeFolder('soak-next-')
  makeNextVersion(nextVersion)
  const server = await openEmbedded({ dataDir: folder })
  const end = async () => {
    await server.stop()
    removeFolder(folder)
    removeFolder(nextVersion)
  }
  const forget = whenInterrupted(end)
  try {
    return await playYear(options, server.url, nextVersion)
  } finally {
    forget()
    await end()
  }
}

async function playYear(options: SoakOptions, serverUrl: string, nextVersion: string): Promise<Soak> {
  const { nights, patients, onNight = () => {} } = options
  const url = await newDatabase(serverUrl, 'year')
  await restore(url)
  await migrate(url)
  const warehouse = await connect(url)
  // Autovacuum comes by as often in a night of seconds as in one of hours.
  for (const [name, value] of [
    ['autovacuum_naptime', '1s'],
    ['autovacuum_vacuum_cost_delay', '0'],
  ])
    await warehouse.query(`alter system set ${name} = '${value}'`)
  await warehouse.query('select pg_reload_conf()')
  await setBack(warehouse, nights)
  await using emulator = await startEmulator({
    ...{
      port: 0,
      seed: 'soak',
      patients,
      forms: 12,
      packets: 4,
      documents: 4,
      responses: patients * 2,
      pageSize: 200,
    },
    clock: { ...wallClock, now: () => wallClock.now() - nights * DAY_MS * 1000 },
  })
  const { base_url, teams } = emulator.environments[0]!
  const env = {
    DATABASE_URL: url,
    INTAKE_TEAM: TEAM,
    INTAKE_BASE_URL: base_url,
    INTAKE_API_KEY: teams[0]!.api_key,
    INTAKE_API_SECRET: teams[0]!.api_secret,
    INTAKE_ENCRYPTION_KEY: randomBytes(32).toString('base64'),
    INTAKE_WEBHOOK_PORT: String(await freePort()),
    INTAKE_ADMIN_PORT: '0',
    LOG_LEVEL: 'silent',
    // The soak keeps to its own clock; what serve and backfill remove on the machine's would be everything.
    ...{ INTAKE_INBOX_DAYS: '3000', INTAKE_HISTORY_DAYS: 'off', INTAKE_RUN_DAYS: 'off' },
  }
  let root = PROJECT
  let program = startProgram(env, root)
  const forget = whenInterrupted(() => program.stop('killed'))
  try {
    await passTime(url, warehouse, options)
    await program.serve()
    await expectDone(program, 'backfill', '--json')
    const hook = `http://127.0.0.1:${env.INTAKE_WEBHOOK_PORT}/webhooks`
    await expectDone(program, 'webhooks', 'create', '--url', hook, '--json')
    const played: Night[] = []
    let before: Readonly<Record<string, number>> = {}
    for (let night = 1; night <= nights; night++) {
      emulator.control.advance(DAY_MS)
      await putForward(warehouse, 1)
      await passTime(url, warehouse, options)
      const events = await count(warehouse, 'select last_value::int as count from intake_raw.inbox_seq')
      if (night % 29 === 0) {
        await program.stop(night % 2 === 0 ? 'orderly' : 'killed')
        changeMuch(emulator, options.changes, night)
        program = startProgram(env, root)
        await program.serve()
      }
      if (night === Math.ceil(nights / 2)) {
        // Events go on while the process is upgraded.
        await program.stop('orderly')
        changeMuch(emulator, options.changes, night)
        root = nextVersion
        program = startProgram(env, root)
        await expectDone(program, 'migrate')
        await program.serve()
      }
      changeMuch(emulator, options.changes, night)
      if (night % 9 === 0) await eraseSomebody(program, emulator, night)
      await drained(emulator, warehouse)
      // The service is in trouble some nights.
      if (night % 7 === 0) emulator.control.setFaults('http-503=0.2:0,reset=0.05')
      const words = night % 7 === 3 ? ['--full', '--allow-mass-delete'] : []
      const begun = performance.now()
      const { code } = await program.run('backfill', '--json', ...words)
      const seconds = (performance.now() - begun) / 1000
      emulator.control.setFaults('')
      const { rows } = await warehouse.query<{ size: string; delay: number | null; newest: number }>(
        `select pg_database_size(current_database()) as size, (select last_value::int from intake_raw.inbox_seq) as newest,
           (select percentile_cont(0.99) within group (order by extract(epoch from settled_at - received_at))::float8
            from intake_raw.inbox where seq > $1 and settled_at is not null) as delay`,
        [events],
      )
      played.push({
        ...{ night, seconds, exitCode: code, residentBytes: await program.residentBytes() },
        databaseBytes: Number(rows[0]!.size),
        drainSeconds: rows[0]!.delay ?? 0,
        events: rows[0]!.newest - events,
      })
      onNight(played.at(-1)!)
      if (night === Math.ceil(nights * LONG_SINCE)) before = await sizesOf(warehouse)
    }
    await drained(emulator, warehouse)
    await expectDone(program, 'backfill', '--full', '--allow-mass-delete', '--json')
    await program.stop('orderly')
    const freshUrl = await newDatabase(serverUrl, 'fresh')
    const fresh = startProgram({ ...env, DATABASE_URL: freshUrl }, root)
    await expectDone(fresh, 'migrate')
    await expectDone(fresh, 'backfill', '--full', '--json').finally(() => fresh.stop('orderly'))
    return {
      nights: played,
      differing: await differing(url, freshUrl),
      neglected: await neglectedTables(warehouse),
      oldestAge: await count(
        warehouse,
        `select max(age(relfrozenxid))::int as count from pg_class where relkind = 'r' and relfrozenxid <> '0'`,
      ),
      sizes: Object.entries(await sizesOf(warehouse)).map(([table, after]) => ({
        ...{ table, after, before: before[table] ?? 0 },
      })),
      days: await daysOf(warehouse),
      oldestHistoryDays: await count(
        warehouse,
        `select coalesce(extract(day from sim.now() - min(superseded_at)), 0)::int as count from intake_raw.record_history`,
      ),
    }
  } finally {
    forget()
    await program.stop('killed').catch(() => {})
    await warehouse.end()
  }
}

/** What `serve` does every hour, on the warehouse's clock. */
async function passTime(
  url: string,
  warehouse: pg.Client,
  { inboxDays, historyDays }: SoakOptions,
): Promise<void> {
  const { rows } = await warehouse.query<{ at: Date }>('select sim.now() as at')
  const now = rows[0]!.at
  await keepInboxDays(url, { days: inboxDays, now })
  await using retention = await openRetention(url)
  const { db } = retention
  await removeSettledBodies(db, { days: inboxDays, now })
  await settleDeliveries(db, inboxDays)
  await prune({ db, now, historyDays, runDays: historyDays, forMs: 60_000 })
}

/** A day: patients come, go and are edited, forms and questions are reworded, responses are edited and archived. */
function changeMuch({ control }: Emulator, changes: number, night: number): void {
  const { patients, forms, responses } = control.world()
  const staff = control.staff()
  const draw = new Draw(keyOf('soak', night), 0)
  for (let change = 0; change < changes; change++) {
    const patient = patients.at(draw.below(patients.end))
    const response = responses.at(draw.below(responses.end))
    const form = forms.at(draw.below(forms.end))
    if (change % 10 === 0) {
      control.createPatient({
        first_name: 'New',
        last_name: `Of ${night}`,
        email: `n${night}.${change}@example.com`,
      })
      if (patient !== undefined) control.deletePatient(patient.id)
    } else if (change % 10 === 1 && form !== undefined) control.renameForm(form.id, `Form of ${night}`)
    else if (change === 2 && form?.questions[0] !== undefined)
      control.renameQuestion(form.id, form.questions[0].id, `What is asked since ${night % 5}?`)
    else if (change % 3 === 0 && response !== undefined && !response.is_submitted) {
      staff.answer(response.id)
      if (response.packet === null && draw.chance(0.1)) staff.submit(response.id)
    } else if (patient !== undefined) control.updatePatient(patient.id, { city: `City ${night}.${change}` })
  }
}

/** Somebody leaves: erased here, deleted there with all that is theirs, which would be skipped here for ever. */
async function eraseSomebody(program: Program, { control }: Emulator, night: number): Promise<void> {
  const { patients, responses, messages } = control.world()
  const one = patients.slice((night * 7) % Math.max(1, patients.size - 1), 1)[0]!
  // Unknown here if the service failed since the patient came.
  const { code, output } = await program.run('erase', 'patient', one.id, '--yes', '--team', TEAM, '--json')
  // 4: somebody else has the same e-mail address, say.
  if (![0, 4].includes(code) && !output.includes('not_found') && !output.includes('unknown'))
    throw new Error(output)
  for (const table of [responses, messages])
    for (const { id, patient } of [...table.slice(0, table.size)]) if (patient === one.id) table.remove(id)
  control.deletePatient(one.id)
}

/** Until the service waits only for retries, and all that it sent is in the tables. */
async function drained({ control }: Emulator, warehouse: pg.Client): Promise<void> {
  const waiting = async () =>
    control.webhooks().pending +
    (await count(
      warehouse,
      // Version 0.1 left pending events of teams that are not served here.
      `select ((select count(*) from intake_raw.inbox where status = 'pending' and team_id = own.team_id)
         + (select count(*) from intake_ops.refetches where due_at <= sim.now() and team_id = own.team_id))::int as count
       from intake.teams own where name = '${TEAM}'`,
    ))
  for (const deadline = Date.now() + 300_000; (await waiting()) > 0; await sleep(20))
    if (Date.now() > deadline) throw new Error('the events of a day were not drained in five minutes')
}

async function expectDone(program: Program, ...words: string[]): Promise<void> {
  const { code, output } = await program.run(...words)
  if (code !== 0) throw new Error(`${words.join(' ')} ended with ${code}: ${output}`)
}

/** Names of tables whose rows differ. */
async function differing(url: string, freshUrl: string): Promise<readonly string[]> {
  const { everyTable } = await import('../e2e/support/tables.ts')
  const [stored, expected] = [await everyTable(url, TEAM), await everyTable(freshUrl, TEAM)]
  const comparable = (lines: readonly string[] = []) =>
    lines.filter((line) => !line.includes(`"stream": "${REMOVED_BY_AGE}"`)).join('\n')
  return Object.keys({ ...stored, ...expected }).filter(
    (name) => name !== REMOVED_BY_AGE && comparable(stored[name]) !== comparable(expected[name]),
  )
}

/**
 * Tables above autovacuum's own threshold after it had time for each of them. It counts from the rows that the last
 * VACUUM or ANALYZE saw, `reltuples`, however many were deleted since.
 */
async function neglectedTables(warehouse: pg.Client): Promise<readonly Neglected[]> {
  const look = async () => {
    const { rows } = await warehouse.query<Neglected>(
      `select schemaname || '.' || own.relname as table, n_dead_tup::int as dead, n_live_tup::int as live
       from pg_stat_user_tables own join pg_class on pg_class.oid = relid
       where n_dead_tup > 50 + 0.2 * greatest(reltuples, 0) order by 1`,
    )
    return rows
  }
  let found = await look()
  for (const deadline = Date.now() + 60_000; found.length > 0 && Date.now() < deadline; found = await look())
    await sleep(1_000)
  return found
}

/** Bytes of each table, indexes included; the days of the inbox as one. */
async function sizesOf(warehouse: pg.Client): Promise<Readonly<Record<string, number>>> {
  const { rows } = await warehouse.query<{ name: string; bytes: string }>(
    `select schemaname || '.' || regexp_replace(relname, '^inbox_[0-9]+$', 'inbox of days') as name,
       sum(pg_total_relation_size(relid)) as bytes
     from pg_stat_user_tables where schemaname like 'intake%' group by 1 order by 1`,
  )
  return Object.fromEntries(rows.map(({ name, bytes }) => [name, Number(bytes)]))
}

async function daysOf(warehouse: pg.Client): Promise<readonly string[]> {
  const { rows } = await warehouse.query<{ name: string }>(
    `select relname as name from pg_class where relkind = 'r' and relname ~ '^inbox_[0-9]+$' order by 1`,
  )
  return rows.map(({ name }) => name)
}

async function count(warehouse: pg.Client, text: string): Promise<number> {
  const { rows } = await warehouse.query<{ count: number }>(text)
  return rows[0]!.count
}

async function newDatabase(serverUrl: string, name: string): Promise<string> {
  const client = await connect(serverUrl)
  await client.query(`create database ${name} encoding 'UTF8' template template0`).finally(() => client.end())
  const url = new URL(serverUrl)
  url.pathname = `/${name}`
  return url.href
}

async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client({
    connectionString: url,
    options: '-c timezone=UTC',
    application_name: 'soak',
  })
  await client.connect()
  return client
}
