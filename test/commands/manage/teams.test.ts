/** `teams list` and `teams remove`, for two teams whose records, events and dead letters have the same ids. */
import { PassThrough } from 'node:stream'
import pino from 'pino'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { Context } from '../../../src/commands/context.ts'
import { teamsCommand } from '../../../src/commands/manage/teams.ts'
import { scheduledBackfill } from '../../../src/commands/run/backfill.ts'
import { systemClock } from '../../../src/core/clock.ts'
import { sign } from '../../../src/core/signature.ts'
import { openServe } from '../../../src/operate/serve/serve.ts'
import { makeLogin } from '../../analytics/logins.ts'
import { connect, openWarehouse, query } from '../../e2e/support/scene.ts'
import { configOf } from '../../e2e/support/teams.ts'
import { runCommand } from '../../support/run-command.ts'
import { changesBetween, rowsOfTeam, type TeamRows } from '../../support/team-rows.ts'
import {
  ENCRYPTION_KEY,
  eventsOf,
  openTwins,
  type Twin,
  type Twins,
  troubleTwins,
} from '../../support/twins.ts'

let twins: Twins
let north: Twin
let south: Twin

beforeAll(async () => {
  twins = await openTwins()
  await troubleTwins(twins)
  ;({ north, south } = twins)
})

afterAll(() => twins[Symbol.asyncDispose]())

/** Runs a command with a configuration of only the team south. */
const alone = (...words: readonly string[]) =>
  runCommand(words, {
    ...configOf([south.source]),
    ...{ DATABASE_URL: twins.url, INTAKE_ENCRYPTION_KEY: ENCRYPTION_KEY, LOG_LEVEL: 'error' },
  })

interface Listed {
  readonly name: string
  readonly team_id: number
  readonly rows: number
  readonly pending_events: number
  readonly [field: string]: unknown
}

async function listed(): Promise<readonly Listed[]> {
  const { code, stdout } = await alone('teams', 'list', '--json')
  expect(code).toBe(0)
  return (JSON.parse(stdout) as { teams: Listed[] }).teams
}

const count = async (text: string, ...values: unknown[]) =>
  (await query<{ count: number }>(twins.url, `select count(*)::int as count from ${text}`, values))[0]!.count

const pendingOf = ({ teamId }: Twin) =>
  count("intake_raw.inbox where team_id = $1 and status = 'pending'", teamId)

/** Rows by table, without the tables of a team's pending work. */
const recordsOf = (rows: TeamRows) => {
  const moving =
    /^intake_raw\.inbox$|^intake_ops\.(checkpoints|scans|scan_pages|refetches|missed_once|alerts|schedule_ticks|removed_teams)$/
  return new Map(
    [...rows].filter(([name]) => name.startsWith('intake.') || (!moving.test(name) && /_raw\./.test(name))),
  )
}

it('list shows each team: number, environment, rows, pending events, time of reading', async () => {
  const teams = await listed()
  expect(teams.map(({ name, team_id, configured }) => [name, team_id, configured])).toEqual([
    ['north', north.teamId, false],
    ['south', south.teamId, true],
  ])
  for (const team of teams) {
    expect(team).toMatchObject({
      removed_at: null,
      data: null,
      last_run_at: expect.stringMatching(/^\d{4}-/),
    })
    expect(team.rows).toBe(await count('intake_raw.records where team_id = $1 and not deleted', team.team_id))
    expect(team.rows).toBeGreaterThan(20)
    expect(team.pending_events).toBe(
      await count("intake_raw.inbox where team_id = $1 and status = 'pending'", team.team_id),
    )
    expect(team.pending_events).toBeGreaterThan(5)
  }
  const { stdout } = await alone('teams', 'list')
  expect(stdout).toMatch(/^team +id +environment +rows +pending +last run/)
  expect(stdout).toMatch(/north .*not in the configuration/)
})

it('list shows the teams of the warehouse also where none of them is in the configuration', async () => {
  const other = configOf([{ ...south.source, name: 'elsewhere' }])
  for (const config of [other, {}]) {
    const { code, stdout } = await runCommand(['teams', 'list'], { ...config, DATABASE_URL: twins.url })
    expect([code, stdout.trimEnd().split('\n')]).toEqual([
      0,
      [
        expect.stringMatching(/^team +id +environment +rows +pending +last run/),
        expect.stringMatching(/^north .*not in the configuration$/),
        expect.stringMatching(/^south .*not in the configuration$/),
      ],
    ])
  }
})

it('list of a warehouse without a team says what creates the first', async () => {
  await using empty = await openWarehouse()
  const ask = (...more: string[]) =>
    runCommand(['teams', 'list', ...more], { ...configOf([south.source]), DATABASE_URL: empty.url })
  const { code, stdout } = await ask()
  expect([code, stdout]).toEqual([0, 'no team yet: intake-sync backfill creates the first\n'])
  expect(JSON.parse((await ask('--json')).stdout)).toEqual({ teams: [] })
})

it.each([
  [
    'neither flag, and no terminal',
    ['north'],
    2,
    /neither --keep-data nor --delete-data.*\n.*--keep-data.*--delete-data/s,
  ],
  ['both flags', ['north', '--keep-data', '--delete-data'], 2, /exclude each other/],
  [
    'a team of the configuration',
    ['south', '--keep-data'],
    2,
    /south is in the configuration: the next run would create it\s+again/,
  ],
  ['an unknown team', ['nobody', '--keep-data'], 2, /the warehouse has no team "nobody".*\n.*north, south/s],
])('%s: nothing is removed', async (_, words, code, said) => {
  const ended = await alone('teams', 'remove', ...words)
  expect(ended.code).toBe(code)
  expect(ended.stderr).toMatch(said)
  expect(await count('intake_ops.removed_teams')).toBe(0)
  expect(await pendingOf(north)).toBeGreaterThan(0)
})

/** Types `answer` at the prompt. */
async function typed(answer: string): Promise<{ code: number; said: string }> {
  let said = ''
  const keyboard = Object.assign(new PassThrough(), { isTTY: true })
  const context: Context = {
    env: { DATABASE_URL: twins.url, LOG_LEVEL: 'error' },
    stdout: { write: () => true },
    stderr: {
      write: (text) => {
        said += String(text)
        if (said.endsWith('[keep/delete/N] ')) keyboard.write(`${answer}\n`)
        return true
      },
    },
    signal: new AbortController().signal,
    version: '0.0.0',
  }
  try {
    await teamsCommand(context, () => keyboard).parseAsync(['remove', 'north'], { from: 'user' })
    return { code: 0, said }
  } catch (error) {
    return { code: (error as { exitCode: number }).exitCode, said }
  }
}

it.each(['', 'y', 'no'])('at a terminal it asks, and %j removes nothing', async (answer) => {
  const { code, said } = await typed(answer)
  expect([code, said]).toEqual([1, expect.stringContaining('nothing was removed')])
  expect(await count('intake_ops.removed_teams')).toBe(0)
})

it('a run of the team blocks it: exit code 3, and nothing is removed', async () => {
  const session = await connect(twins.url)
  await session.query(`select pg_advisory_lock(intake_ops.lock_key(7204311, $1))`, [`${north.teamId}/forms`])
  const reading = await alone('teams', 'remove', 'north', '--delete-data')
  expect([reading.code, reading.stderr]).toEqual([
    3,
    expect.stringContaining('another run holds forms of north'),
  ])
  await session.query('select pg_advisory_unlock_all()')
  const [run] = (
    await session.query<{ run_id: string }>(
      `insert into intake_ops.runs (kind, options) values ('verify', '{"teams": ["north"]}') returning run_id`,
    )
  ).rows
  await session.query('select pg_advisory_lock(intake_ops.lock_key(7204312, $1))', [run!.run_id])
  const verifying = await alone('teams', 'remove', 'north', '--delete-data')
  expect([verifying.code, verifying.stderr]).toEqual([
    3,
    expect.stringContaining(`run ${run!.run_id} of team north is in progress`),
  ])
  await session.query('select pg_advisory_unlock_all()')
  // Workers execute it, or will.
  await session.query(
    `update intake_ops.runs set options = options || '{"is_detached": true}' where run_id = $1`,
    [run!.run_id],
  )
  await session.query(
    `insert into intake_ops.slices (run_id, team_id, stream, spec, reserves) values ($1, $2, 'forms', '{"version": 1}', false)`,
    [run!.run_id, north.teamId],
  )
  const planned = await alone('teams', 'remove', 'north', '--delete-data')
  expect([planned.code, planned.stderr]).toEqual([
    3,
    expect.stringContaining(`run ${run!.run_id} of team north is in progress`),
  ])
  await session.query('delete from intake_ops.runs where run_id = $1', [run!.run_id])
  await session.end()
  expect(await count('intake_ops.removed_teams')).toBe(0)
})

const ANYWHERE = { host: '127.0.0.1', port: 0 }

/** A process with both teams in its configuration. */
async function serveBoth() {
  const secrets = { north: 'secret-of-north', south: 'secret-of-south' }
  const serving = await openServe({
    url: twins.url,
    ingestTeams: [north, south].map(({ name }) => ({
      name,
      webhookSecrets: [secrets[name as 'north' | 'south']],
    })),
    teams: [],
    ...{ ingest: ANYWHERE, admin: ANYWHERE, drain: true, cron: null, inboxDays: 30, encryptionKey: null },
    ...{
      backfill: async () => {},
      clock: systemClock,
      random: Math.random,
      logger: pino({ level: 'silent' }),
    },
  })
  return {
    async post({ name }: Twin, event: unknown): Promise<number> {
      const body = Buffer.from(JSON.stringify(event))
      const response = await fetch(`${serving.ingest}/webhooks/${name}`, {
        method: 'POST',
        body,
        headers: { 'x-service-signature': sign(body, secrets[name as 'north' | 'south']) },
      })
      await response.arrayBuffer()
      return response.status
    },
    [Symbol.asyncDispose]: () => serving.close(),
  }
}

const patientEvent = (id: string, moment: number) => ({
  ...{ id: `event-${id}-${moment}`, event_type: 'updated', source: 'patient' },
  timestamp: new Date(Date.UTC(2026, 4, 1) + moment).toISOString(),
  data: {
    id,
    first_name: 'Removed',
    created_at: '2026-01-01T00:00:00Z',
    updated_at: new Date(Date.UTC(2026, 4, 1) + moment).toISOString(),
  },
})

it('--keep-data during a serve with the team: its events are rejected, nothing is pending, the tables stay; the other team loses nothing', async () => {
  await using serve = await serveBoth()
  const answers: { north: number[]; south: number[] } = { north: [], south: [] }
  const unsure = new Set<string>()
  let stop = false
  // An event that is answered 503, as on a machine that pauses, is sent again; it may have been stored.
  const sender = async (team: Twin, into: number[]) => {
    for (let at = 0; !stop; at += 1) {
      const event = patientEvent(`live-${at}`, at)
      let status = await serve.post(team, event)
      for (; status === 503; status = await serve.post(team, event)) unsure.add(event.id)
      into.push(status)
    }
  }
  const senders = [sender(north, answers.north), sender(south, answers.south)]
  await expect.poll(() => Math.min(answers.north.length, answers.south.length)).toBeGreaterThan(20)
  const removal = await alone('teams', 'remove', 'north', '--keep-data', '--json')
  expect(removal.code).toBe(0)
  const after = answers.north.length
  await expect.poll(() => answers.north.length).toBeGreaterThan(after + 20)
  stop = true
  await Promise.all(senders)

  expect(new Set(answers.south)).toEqual(new Set([200]))
  expect(new Set(answers.north)).toEqual(new Set([200, 404]))
  expect(answers.north.lastIndexOf(200)).toBeLessThan(answers.north.indexOf(404))
  expect(answers.north.slice(after + 1).every((status) => status === 404)).toBe(true)
  // Acknowledged events are stored: drained before, or dead with their bytes.
  const accepted = answers.north.flatMap((status, at) =>
    status === 200 ? patientEvent(`live-${at}`, at).id : [],
  )
  const stored = await query<{ id: string }>(
    twins.url,
    `select event_id as id from intake_raw.inbox
     where team_id = $1 and event_id like 'event-live-%' and octet_length(body) > 0 and status in ('done', 'dead')`,
    [north.teamId],
  )
  const sure = stored.map(({ id }) => id).filter((id) => accepted.includes(id) || !unsure.has(id))
  expect(sure.toSorted()).toEqual(accepted.toSorted())
  await expect.poll(() => pendingOf(south)).toBe(0)
  const live = `from intake.patients where team_id = $1 and id like 'live-%'`
  const [alive] = await query<{ count: number }>(twins.url, `select count(*)::int as count ${live}`, [
    south.teamId,
  ])
  expect(alive!.count).toBe(answers.south.length)

  expect(await pendingOf(north)).toBe(0)
  const { pending_events } = JSON.parse(removal.stdout) as { pending_events: number }
  expect(await count("intake_raw.inbox where team_id = $1 and due_at = 'infinity'", north.teamId)).toBe(
    pending_events,
  )
  for (const table of ['refetches', 'checkpoints', 'scans', 'missed_once', 'alerts', 'schedule_ticks'])
    expect([table, await count(`intake_ops.${table} where team_id = $1`, north.teamId)]).toEqual([table, 0])
  expect((await listed())[0]).toMatchObject({
    name: 'north',
    data: 'kept',
    pending_events: 0,
    removed_at: expect.any(String),
  })
  const status = JSON.parse((await alone('status', '--json')).stdout) as {
    teams: { team: string }[]
    streams: { team: string }[]
  }
  expect(new Set([...status.teams, ...status.streams].map(({ team }) => team))).toEqual(new Set(['south']))
})

it('nothing of a removed team is loaded or replayed, and its patients can still be erased', async () => {
  const before = await rowsOfTeam(twins.url, north.teamId)
  await expect(north.drain({ teams: [{ name: 'north', teamId: north.teamId }] })).resolves.toBeUndefined()
  expect((await alone('replay', '--team', 'north')).code).toBe(2)
  expect((await alone('replay', '--streams', 'patients')).code).toBe(0)
  const [deadLetter] = await query<{ id: string }>(
    twins.url,
    `select id from intake_ops.dead_letters where team_id = $1 and status = 'waiting' limit 1`,
    [north.teamId],
  )
  expect((await alone('dead-letters', 'retry', deadLetter!.id)).output).toContain('its team was removed')
  // A process that still has the team in its configuration.
  const warned: string[] = []
  const logger = pino({ level: 'warn' }, { write: (line: string) => void warned.push(line) })
  const place = { url: twins.url, config: { lookbackDays: 2, sweepDays: 7 }, logger, version: '0.0.0' }
  await scheduledBackfill(place, [north.source, south.source], new AbortController().signal)
  expect(warned.join('')).toContain('left out: the team was removed')
  expect(recordsOf(await rowsOfTeam(twins.url, north.teamId))).toEqual(recordsOf(before))
  expect((await alone('erase', 'patient', 'p4', '--yes', '--team', 'north')).code).toBe(0)
  expect(await count("intake.patients where team_id = $1 and id = 'p4'", north.teamId)).toBe(0)
})

it('removing a team again, to complete it, keeps the number of its events', async () => {
  const events = () =>
    query(twins.url, 'select events::int, finished_at is not null as done from intake_ops.removed_teams')
  const waiting = await count("intake_raw.inbox where team_id = $1 and due_at = 'infinity'", north.teamId)
  expect(waiting).toBeGreaterThan(0)
  const before = await events()
  expect(await typed('Keep')).toMatchObject({
    code: 0,
    said: expect.stringContaining('or delete every row?'),
  })
  expect(await events()).toEqual(before)
  expect((await listed())[0]).toMatchObject({ name: 'north', data: 'kept' })
  expect((await alone('teams', 'list')).stdout).toMatch(
    /north .*removed \d{4}-\d\d-\d\d \d\d:\d\d, data kept/,
  )
  expect(before).toEqual([{ events: expect.any(Number), done: true }])
  // Some of its rows may be gone already if its data was being deleted.
  const data = () =>
    query(twins.url, 'select data, finished_at is not null as done from intake_ops.removed_teams')
  await query(twins.url, `update intake_ops.removed_teams set data = 'deleted', finished_at = null`)
  expect((await alone('teams', 'remove', 'north', '--keep-data')).code).toBe(0)
  expect(await data()).toEqual([{ data: 'deleted', done: true }])
  await query(twins.url, `update intake_ops.removed_teams set data = 'kept'`)
})

it('days of the inbox with events only of removed teams can be dropped', async () => {
  const day = '2020-01-01'
  await query(twins.url, `select intake_raw.add_inbox_day('${day}', 100)`)
  const store = (status: string, due: string) =>
    query(
      twins.url,
      `insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, body, status, due_at, settled_at)
       values ($1, 'old', '\\x00', '${day}', '${day}', '{}', $2, ${due}, ${status === 'dead' ? "'2020-01-02'" : 'null'})`,
      [north.teamId, status],
    )
  await store('dead', "'infinity'")
  const [dropped] = await query<{ dropped: boolean }>(
    twins.url,
    `select intake_raw.drop_inbox_day('${day}', '2020-02-01') as dropped`,
  )
  expect(dropped!.dropped).toBe(true)
})

it('a backfill with the team in its configuration adds it again: it reads everything, and kept events are drained', async () => {
  const waited = await count("intake_raw.inbox where team_id = $1 and due_at = 'infinity'", north.teamId)
  expect(waited).toBeGreaterThan(0)
  const before = await rowsOfTeam(twins.url, south.teamId)
  expect([0, 4]).toContain((await twins.run('backfill', '--team', 'north')).code)
  expect(await count('intake_ops.removed_teams')).toBe(0)
  expect(await pendingOf(north)).toBe(waited)
  await north.drain()
  expect(await pendingOf(north)).toBe(0)
  expect(changesBetween(before, await rowsOfTeam(twins.url, south.teamId))).toEqual([])
})

it('--delete-data deletes every row of the team in every table, and none of the other', async () => {
  await north.store(...eventsOf('north', 'third', 120))
  const own = await rowsOfTeam(twins.url, north.teamId)
  const full = [...own].filter(([, lines]) => lines.length > 0).map(([name]) => name)
  expect(full.length).toBeGreaterThan(50)
  const before = await rowsOfTeam(twins.url, south.teamId)
  const wide = `pg_views where schemaname ~ '^intake' and schemaname || '.' || viewname in (
    select case kind when 'form' then 'intake.' when 'shown' then 'intake_forms.' else 'intake_exports.' end || view_name
    from intake_raw.wide_views where team_id = $1)`
  const [views, others] = [await count(wide, north.teamId), await count(wide, south.teamId)]
  expect(views).toBeGreaterThan(2)
  const all = await count(`pg_views where schemaname ~ '^intake'`)
  const [built] = await query<{ view: string }>(
    twins.url,
    `select format('intake.%I', view_name) as view from intake_raw.wide_views where team_id = $1 and kind = 'form' limit 1`,
    [north.teamId],
  )
  await query(twins.url, `create view public.of_somebody as select * from ${built!.view}`)
  // A table that is left empty keeps its statistics on a Postgres before 18; the command says so.
  await query(twins.url, 'analyze')
  const [server] = await query<{ clears: boolean }>(
    twins.url,
    `select to_regproc('pg_clear_attribute_stats') is not null as clears`,
  )
  const removal = await alone('teams', 'remove', 'north', '--delete-data', '--json')
  expect([removal.code, removal.stderr]).toEqual([0, ''])
  const left = [...(await rowsOfTeam(twins.url, north.teamId))].filter(([, lines]) => lines.length > 0)
  // Its number stays, so that no process writes under it again.
  expect(left.map(([name]) => name)).toEqual(['intake_ops.removed_teams'])
  // The columns of its views name its questions.
  await query(twins.url, `drop view public.of_somebody; drop view ${built!.view}`)
  expect(await count(`pg_views where schemaname ~ '^intake'`)).toBe(all - views)
  expect(await count(wide, south.teamId)).toBe(others)
  // A run of both teams is now a run of one; its row is unchanged.
  const changes = changesBetween(before, await rowsOfTeam(twins.url, south.teamId))
  expect(changes.filter((line) => !line.startsWith('+ intake_ops.runs '))).toEqual([])
  // One team is left, and still only logins with a grant see it.
  const login = await makeLogin(twins.url, 'intake_analyst')
  expect(await login.rows('select from intake_analytics.patients')).toEqual([])
  expect(JSON.parse(removal.stdout)).toMatchObject({
    team: 'north',
    data: 'deleted',
    deleted: { rows: expect.any(Number) },
    notes: [
      `views stay, because others own them or build on them; drop them: ${built!.view}`,
      ...(server!.clears
        ? []
        : [expect.stringMatching(/^planner statistics may still contain values of the team/)]),
    ],
  })
  expect((await listed()).map(({ name }) => name)).toEqual(['south'])
  expect((await alone('teams', 'remove', 'north', '--delete-data')).code).toBe(2)
})

it('a serve that still has the number of a deleted team stores and loads nothing under it', async () => {
  await expect(query(twins.url, 'select intake_ops.hold_erasures($1)', [north.teamId])).rejects.toMatchObject(
    { code: 'IT001' },
  )
  const [row] = await query<{ removed: number[] }>(
    twins.url,
    'select intake_raw.hold_inbox_of($1) as removed',
    [[north.teamId, south.teamId]],
  )
  expect(row!.removed).toEqual([north.teamId])
})

it('the same name afterwards is a new team, and reads everything', async () => {
  expect([0, 4]).toContain((await twins.run('backfill', '--team', 'north')).code)
  const [row] = await query<{ team_id: number }>(
    twins.url,
    "select team_id from intake.teams where name = 'north'",
  )
  expect(row!.team_id).toBeGreaterThan(south.teamId)
  expect(await count('intake.patients where team_id = $1', row!.team_id)).toBeGreaterThan(5)
})
