/** Two teams in one warehouse: limits, discards and retention of one team do not affect the other. */
import { afterEach, beforeEach, expect, it } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { keepInboxDays } from '../../src/ingest/inbox/days.ts'
import { removeSettledBodies } from '../../src/load/erased-dead-letters.ts'
import { dropOldCounts } from '../../src/operate/health/received.ts'
import { removeTeam } from '../../src/operate/remove-team.ts'
import { openRetention } from '../../src/operate/serve/retention.ts'
import { littlePatient } from '../e2e/support/little-service.ts'
import { query } from '../e2e/support/scene.ts'
import { changesBetween, rowsOfTeam } from '../support/team-rows.ts'
import { deadLettersOf, NOBODY, openTwins, type Twins } from '../support/twins.ts'

let twins: Twins

beforeEach(async () => {
  twins = await openTwins()
})

afterEach(async () => {
  await twins[Symbol.asyncDispose]()
})

const patientsOf = (count: number) =>
  Array.from({ length: count }, (_, at) => littlePatient(`p${String(at).padStart(4, '0')}`, 'first'))

it('the guard against mass deletes counts the live records of the stream and the team', async () => {
  const { url, north, south } = twins
  north.service.records.patients = patientsOf(60)
  south.service.records.patients = patientsOf(1_300)
  for (const { service } of [north, south]) service.pageSize = 500
  await twins.done([0], 'backfill', '--streams', 'patients')
  // Fifty are deleted without approval, and of 1,300 records sixty-five.
  north.service.records.patients = patientsOf(8)
  south.service.records.patients = patientsOf(1_240)
  await twins.done([4], 'backfill', '--full', '--streams', 'patients')
  const live = await query(
    url,
    'select team_id, count(*)::int from intake.patients where _deleted_at is null group by 1 order by 1',
  )
  expect(live).toEqual([
    { team_id: north.teamId, count: 60 },
    { team_id: south.teamId, count: 1_240 },
  ])
})

it('a discard applies to one team: the same dead letter of the other waits, and counts when it is seen again', async () => {
  const { url, north, south } = twins
  for (const { service } of [north, south]) service.records.patients = [NOBODY as never]
  await twins.done([4], 'backfill', '--streams', 'patients')
  const [deadLetter] = await deadLettersOf(url, north.teamId, 'waiting', 'has no id')
  await twins.done([0], 'dead-letters', 'discard', String(deadLetter))
  const status = () =>
    query(url, 'select team_id, status, seen::int from intake_ops.dead_letters order by team_id')
  await twins.done([0], 'backfill', '--full', '--streams', 'patients', '--team', 'north')
  await twins.done([4], 'backfill', '--full', '--streams', 'patients', '--team', 'south')
  expect(await status()).toEqual([
    { team_id: north.teamId, status: 'discarded', seen: 2 },
    { team_id: south.teamId, status: 'waiting', seen: 2 },
  ])
  await twins.done([4], 'backfill', '--full', '--streams', 'patients')
  expect(await status()).toEqual([
    { team_id: north.teamId, status: 'discarded', seen: 3 },
    { team_id: south.teamId, status: 'waiting', seen: 3 },
  ])
})

it('what one team needs a person for is needed for a run of both, whichever of them it is', async () => {
  for (const name of ['north', 'south'] as const) {
    const { [name]: one } = twins
    const { records } = one.service
    const whole = records.patients
    records.patients = [...whole.slice(0, 3), NOBODY as never]
    twins.other(one).service.records.patients = whole.slice(0, 3)
    await twins.done([4], 'backfill', '--streams', 'patients')
    records.patients = whole.slice(0, 3)
    await twins.done([0], 'backfill', '--streams', 'patients')
    one.service.interfere = (_, response) => {
      response.writeHead(401, { 'content-type': 'application/json' }).end('{"detail": "No."}')
      return true
    }
    await twins.done([1], 'backfill', '--streams', 'patients')
    one.service.interfere = () => false
  }
})

it('a dry run needs a person as soon as one stream of one team has a record that could not be loaded', async () => {
  const { south } = twins
  const dry = ['backfill', '--dry-run', '--streams', 'patients,forms'] as const
  for (const { service } of [twins.north, south]) service.records.patients = []
  await twins.done([0], ...dry)
  south.service.records.patients = [NOBODY as never]
  await twins.done([4], ...dry)
})

it('status shows the newest run of each stream, however earlier ones ended', async () => {
  const { service } = twins.north
  const shown = async () => {
    const { streams } = JSON.parse(await twins.done([0], 'status', '--json')) as {
      streams: { team: string; stream: string; last_run_status: string | null }[]
    }
    return streams.find(({ team, stream }) => team === 'north' && stream === 'patients')!.last_run_status
  }
  service.records.patients = patientsOf(1)
  const readNorth = async (status: 200 | 401) => {
    service.interfere = (_, response) => {
      if (status === 401)
        response.writeHead(401, { 'content-type': 'application/json' }).end('{"detail": "No."}')
      return status === 401
    }
    await twins.done([status === 200 ? 0 : 1], 'backfill', '--team', 'north', '--streams', 'patients')
    return await shown()
  }
  expect([await readNorth(401), await readNorth(200), await readNorth(401)]).toEqual([
    'failed',
    'succeeded',
    'failed',
  ])
  // A run of the other team is no run of this one.
  await twins.done([0, 4], 'backfill', '--team', 'south', '--streams', 'patients')
  expect(await shown()).toBe('failed')
})

it('the removal of a team settles all of its pending events, however many of the other were stored before them', async () => {
  const { url, north, south } = twins
  const EVENTS = 5_001
  for (const { teamId } of [south, north]) {
    await query(
      url,
      `insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, body)
       select $1, n::text, '\\x00', (now() at time zone 'UTC')::date, now(), '{}' from generate_series(1, $2::int) as n`,
      [teamId, EVENTS],
    )
  }
  const { signal } = new AbortController()
  const removed = await removeTeam({ url, name: 'north', data: 'kept', clock: systemClock, signal })
  expect(removed.events).toBe(EVENTS)
  const inbox = await query(
    url,
    'select team_id, status, count(*)::int from intake_raw.inbox group by 1, 2 order by 1',
  )
  expect(inbox).toEqual([
    { team_id: north.teamId, status: 'dead', count: EVENTS },
    { team_id: south.teamId, status: 'pending', count: EVENTS },
  ])
})

it('expired rows of one team are removed, and rows of the other that are not expired stay', async () => {
  const { url, north, south } = twins
  const day = '2026-01-05'
  await query(url, 'select intake_raw.add_inbox_day($1, 0)', [day])
  for (const { teamId, name } of [north, south]) {
    const old = name === 'north'
    const [status, settled] = old ? ['discarded', '2026-01-06'] : ['waiting', null]
    await query(
      url,
      `with inserted as (
         insert into intake_ops.dead_letters (team_id, stream, record_id, fingerprint, origin, reason, status, settled_at)
         values ($1, 'patients', 'p', 'same', 'event:e', 'planted', $2, $3::timestamptz) returning id
       ) insert into intake_raw.set_aside (dead_letter_id, body) select id, 'x' from inserted`,
      [teamId, status, settled],
    )
    // One in a day of its own, one in the default partition.
    for (const received of [day, '2026-01-07']) {
      await query(
        url,
        `insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, body, status, settled_at)
         values ($1, 'e', '\\x00', $2::date, $2::date, '{}', case when $3::timestamptz is null then 'pending' else 'done' end, $3)`,
        [teamId, received, settled],
      )
    }
    await query(
      url,
      `insert into intake_ops.events_received (team_id, hour, events, last_at) values ($1, $2, 1, $2)`,
      [teamId, old ? '2026-01-05T00:00:00Z' : new Date().toISOString()],
    )
  }
  const before = await rowsOfTeam(url, south.teamId)
  const age = { days: 30, now: new Date() }
  for (let time = 0; time < 2; time += 1) await keepInboxDays(url, age)
  {
    await using retention = await openRetention(url)
    expect(await removeSettledBodies(retention.db, age)).toBe(1)
  }
  await dropOldCounts(url)
  // The partition of an event, and thus the transaction that put it there, is not the team's.
  const moved = changesBetween(before, await rowsOfTeam(url, south.teamId)).filter(
    (line) => !/^[-+] intake_raw\.inbox /.test(line),
  )
  expect(moved).toEqual([])
  const inbox = (teamId: number) =>
    query(
      url,
      'select received_on::text as day, status from intake_raw.inbox where team_id = $1 order by 1',
      [teamId],
    )
  expect(await inbox(south.teamId)).toEqual([
    { day, status: 'pending' },
    { day: '2026-01-07', status: 'pending' },
  ])
  const counts = await query(url, 'select team_id from intake_ops.events_received')
  expect(counts).toEqual([{ team_id: south.teamId }])
})
