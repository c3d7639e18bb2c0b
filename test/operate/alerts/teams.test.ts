/** Alerts of several teams with the same troubles: each has its own figures, its own busy streams, its own end. */
import { expect, it } from 'vitest'
import type { AlertsDocument } from '../../../src/operate/alerts/post.ts'
import { connect } from '../../e2e/support/scene.ts'
import { awayFromTheHour } from '../../support/hour.ts'
import { openScene, plantRun, type Scene } from './scene.ts'

/** The alerts of one round, by team, cause and stream, each with its figures. */
async function round(scene: Scene): Promise<readonly unknown[]> {
  const alerts = await posted(scene)
  return alerts.map(({ status, team, cause, stream, figures }) => [status, team, cause, stream, figures])
}

async function posted(scene: Scene): Promise<AlertsDocument['alerts']> {
  scene.receiver.taken()
  await scene.round()
  const alerts = scene.receiver.taken().flatMap(({ document }) => document.alerts)
  return alerts.toSorted((a, b) => (placeOf(a) < placeOf(b) ? -1 : 1))
}

const placeOf = ({ team, cause, stream }: AlertsDocument['alerts'][number]) => `${team} ${cause} ${stream}`

const ID = `(select team_id from intake.teams where name = given.team)`

/** Rows of several teams: `columns` without the team, which comes first in each row. */
async function plant(scene: Scene, table: string, columns: string, rows: readonly (readonly unknown[])[]) {
  const values = rows.map((row) => `(${row.map((each) => String(each)).join(', ')})`).join(', ')
  await scene.query(
    `insert into ${table} (team_id, ${columns}) select ${ID}, ${columns} from (values ${values}) as given (team, ${columns})`,
  )
}

const text = (value: string) => `'${value}'`
const [north, south, elsewhere] = ['north', 'south', 'elsewhere'].map(text)

/** In south each trouble is larger than in north, and in a team that others look after it is larger still. */
async function plantTroubles(scene: Scene) {
  const each = <Row>(
    counts: readonly (readonly [string | undefined, number])[],
    row: (at: number) => Row[],
  ) => counts.flatMap(([team, count]) => Array.from({ length: count }, (_, at) => [team, ...row(at)]))
  const counts = [
    [north, 1],
    [south, 2],
    [elsewhere, 3],
  ] as const
  await plant(
    scene,
    'intake_raw.question_terms',
    'form_id, question_id, position, kind, shows, waits',
    each(counts, (at) => [`'f'`, `'q${at}'`, at, `'text'`, `'nothing'`, true]),
  )
  await plant(
    scene,
    'intake_ops.defects',
    'kind, place, count, last_seen',
    each(counts, (at) => [`'TypeError'`, `'a.ts:${at}'`, 5 + at, `now() - interval '${at * 90} days'`]),
  )
  await plant(
    scene,
    'intake_ops.drift',
    'stream, path, type, count, last_seen',
    each(counts, (at) => [
      ...[`'forms'`, `'path ${at}'`, `'string'`, 1],
      `now() - interval '${at * 90} days'`,
    ]),
  )
  await plant(
    scene,
    'intake_ops.dead_letters',
    'stream, fingerprint, origin, reason',
    each(counts, (at) => [`'forms'`, `'${at}'`, `'page'`, `'why'`]),
  )
  await plant(
    scene,
    'intake_raw.inbox',
    'event_id, body_hash, received_on, received_at, source, body',
    each(counts, (at) => [
      ...[`'e${at}'`, `'\\x00'::bytea`, 'current_date'],
      ...[`now() - interval '${at * 10 + 6} minutes 50 seconds'`, `'form'`, `'{}'::bytea`],
    ]),
  )
}

const TROUBLES = (team: string, count: number) => [
  [team, 'dead_letters', 'forms', { waiting: count }],
  [team, 'defect', null, { kinds: count, count: count === 1 ? 5 : 11 }],
  [team, 'drift', 'forms', { fields: count }],
  [team, 'inbox_old', null, { pending: count, minutes: count * 10 - 4 }],
  [team, 'questions_waiting', null, { questions: count }],
]

const all = (status: string, alerts: readonly (readonly unknown[])[]) =>
  alerts.map((each) => [status, ...each])

it('each team has its own figures, is posted again for its own growth, and cleared when its own trouble is over', async () => {
  const scene = await openScene()
  await plantTroubles(scene)
  const both = [...TROUBLES('north', 1), ...TROUBLES('south', 2)]
  expect(await round(scene)).toEqual(all('raised', both))
  expect(await round(scene)).toEqual([])
  // More of what is counted again: in south only.
  await plant(scene, 'intake_ops.drift', 'stream, path, type, count', [
    [south, `'forms'`, `'more'`, `'string'`, 1],
  ])
  await plant(
    scene,
    'intake_raw.question_terms',
    'form_id, question_id, position, kind, shows, waits',
    [1, 2].map((at) => [south, `'g'`, `'q${at}'`, at, `'text'`, `'nothing'`, true]),
  )
  expect(await round(scene)).toEqual(
    all('raised', [
      ['south', 'drift', 'forms', { fields: 3 }],
      ['south', 'questions_waiting', null, { questions: 4 }],
    ]),
  )
  const ofNorth = `team_id = (select team_id from intake.teams where name = 'north')`
  for (const change of [
    `intake_ops.dead_letters set status = 'resolved', settled_at = now()`,
    `intake_ops.defects set last_seen = now() - interval '8 days'`,
    `intake_ops.drift set last_seen = now() - interval '8 days'`,
    `intake_raw.inbox set status = 'done', settled_at = now()`,
    'intake_raw.question_terms set waits = false',
  ])
    await scene.query(`update ${change} where ${ofNorth}`)
  expect(await round(scene)).toEqual(all('cleared', TROUBLES('north', 1)))
  expect(await round(scene)).toEqual([])
  // Those of a team that another process looks after were never touched.
  expect(
    await scene.query('select team_id, count(*)::int from intake_ops.alerts group by 1 order by 1'),
  ).toEqual([
    { team_id: 1, count: 5 },
    { team_id: 2, count: 5 },
  ])
})

it('an inbox of one team that is too old lowers the limit of no other', async () => {
  const scene = await openScene()
  const [old, young] = [`now() - interval '6 minutes 50 seconds'`, `now() - interval '4 minutes'`]
  const columns = 'event_id, body_hash, received_on, received_at, source, body'
  const event = (team: string | undefined, at: string) => [
    ...[team, `'e'`, `'\\x00'::bytea`, 'current_date', at, `'form'`, `'{}'::bytea`],
  ]
  await plant(scene, 'intake_raw.inbox', columns, [event(north, old)])
  expect(await round(scene)).toEqual([['raised', 'north', 'inbox_old', null, { pending: 1, minutes: 6 }]])
  await plant(scene, 'intake_raw.inbox', columns, [event(south, young)])
  expect(await round(scene)).toEqual([])
})

/** Which advisory locks say that a process executes the run. */
const lock = 'select pg_advisory_lock(intake_ops.lock_key(7204312, $1))'

it('a run in progress makes its own streams wait, in its own team; what no run can change is judged meanwhile', async () => {
  const scene = await openScene()
  const started = async (kind: string, options: object) => {
    const [run] = await scene.query(
      `insert into intake_ops.runs (kind, status, options, started_at) values ('${kind}', 'running', '${JSON.stringify(options)}', now() - interval '1 minute') returning run_id`,
    )
    return (run as { run_id: string }).run_id
  }
  const runs = [
    await started('backfill', { teams: ['north'], streams: ['forms'] }),
    // A replay concerns the team as a whole.
    await started('replay', { teams: ['north'], streams: ['packets'] }),
  ]
  await plantTroubles(scene)
  await scene.query(
    `insert into intake_ops.events_received (team_id, hour, events, last_at)
     select team_id, date_trunc('hour', now()) - make_interval(hours => ago), 30, now() - make_interval(hours => ago)
     from intake.teams, generate_series(30, 300) as ago where name = 'north'`,
  )
  const process = await connect(scene.url)
  for (const run of runs) await process.query(lock, [run])
  const waits = (alert: readonly unknown[]) => alert[1] === 'dead_letters' || alert[1] === 'drift'
  const silent = ['north', 'webhooks_silent', null, { events_last_day: 0 }]
  const ofNorth = TROUBLES('north', 1)
  expect(await round(scene)).toEqual(
    all('raised', [...ofNorth.filter((each) => !waits(each)), silent, ...TROUBLES('south', 2)]),
  )
  await scene.query(`update intake_ops.runs set status = 'succeeded', finished_at = now()`)
  await process.end()
  expect(await round(scene)).toEqual(all('raised', ofNorth.filter(waits)))
})

it('webhooks that bring few events are no alert; those that bring none are, for their team', async () => {
  await awayFromTheHour()
  const scene = await openScene()
  // North: few; south: none for thirty hours; elsewhere: none, but others look after it.
  await scene.query(
    `insert into intake_ops.events_received (team_id, hour, events, last_at)
     select team_id, date_trunc('hour', now()) - make_interval(hours => ago), case when ago < 30 then 1 else 30 end,
       now() - make_interval(hours => ago)
     from intake.teams, generate_series(0, 150) as ago where ago >= 30 or name = 'north'`,
  )
  expect(await round(scene)).toEqual([['raised', 'south', 'webhooks_silent', null, { events_last_day: 0 }]])
})

it('a run of several teams is judged for each of them, by what became of its own streams', async () => {
  const scene = await openScene()
  const ended = async (kind: string, status: string, streams: readonly string[], hoursAgo = 0) => {
    const options = JSON.stringify({ teams: ['north', 'south', 'elsewhere'], streams })
    const [run] = await scene.query(
      `insert into intake_ops.runs (kind, status, options, started_at, finished_at)
       select '${kind}', '${status}', '${options}', at, at from (select now() - make_interval(mins => ${hoursAgo * 60})) as t (at)
       returning run_id`,
    )
    return Number((run as { run_id: string }).run_id)
  }
  const parts = (run: number, rows: readonly (readonly string[])[]) =>
    plant(
      scene,
      'intake_ops.run_streams',
      'run_id, stream, status',
      rows.map(([team, stream, status]) => [text(team!), run, text(stream!), text(status!)]),
    )
  const old = await ended('backfill', 'succeeded', ['packets'], 27.9)
  await parts(old, [
    ['north', 'packets', 'succeeded'],
    ['south', 'packets', 'succeeded'],
  ])
  const backfill = await ended('backfill', 'failed', ['forms', 'patients'])
  await parts(backfill, [
    ['north', 'forms', 'succeeded'],
    ['north', 'patients', 'needs_attention'],
    ['south', 'forms', 'failed'],
    ['south', 'patients', 'succeeded'],
    ['elsewhere', 'forms', 'failed'],
  ])
  const again = await ended('backfill', 'succeeded', ['packets', 'messages'])
  await parts(again, [['north', 'packets', 'succeeded']])
  await scene.query(`delete from intake_ops.run_streams where run_id = ${again} and stream = 'messages'`)
  await scene.query(
    `update intake_ops.runs set options = jsonb_set(options, '{teams}', '["north"]') where run_id = ${again}`,
  )
  const verify = await ended('verify', 'needs_attention', ['forms', 'patients'])
  const columns =
    'run_id, stream, is_equal, source, warehouse, missing, extra, different, repaired, missing_ids, extra_ids, different_ids'
  const ids = ["'{}'::text[]", "'{}'::text[]", "'[]'::jsonb"]
  await plant(scene, 'intake_ops.verifications', columns, [
    [north, verify, "'forms'", false, 9, 9, 1, 2, 3, 5, ...ids],
    [south, verify, "'forms'", false, 9, 9, 4, 5, 6, 0, ...ids],
    [north, verify, "'patients'", false, 9, 9, 1, 2, 3, 6, ...ids],
    [south, verify, "'patients'", true, 9, 9, 0, 0, 0, 0, ...ids],
  ])
  const failed = await ended('verify', 'failed', ['messages'])
  const replay = await ended('replay', 'needs_attention', ['forms', 'patients'])
  const of = (run_id: number, counts = {}) => ({ run_id, ...counts })
  expect(await round(scene)).toEqual(
    all('raised', [
      ['north', 'backfill_needs_attention', 'patients', of(backfill)],
      ['north', 'replay_failed', null, of(replay)],
      ['north', 'verify_differs', 'forms', of(verify, { missing: 1, extra: 2, different: 3 })],
      ['north', 'verify_failed', 'messages', of(failed)],
      ['south', 'backfill_failed', 'forms', of(backfill)],
      ['south', 'backfill_overdue', 'packets', { hours: 27 }],
      ['south', 'replay_failed', null, of(replay)],
      ['south', 'verify_differs', 'forms', of(verify, { missing: 4, extra: 5, different: 6 })],
      ['south', 'verify_failed', 'messages', of(failed)],
    ]),
  )
})

it('a stream stays overdue until a backfill of it has ended: not while one goes on, nor when a person stops it', async () => {
  const scene = await openScene()
  await plantRun(scene, { streams: { forms: 'succeeded' }, hoursAgo: 30 })
  const overdue = ['north', 'backfill_overdue', 'forms', { hours: 30 }]
  expect(await round(scene)).toEqual([['raised', ...overdue]])
  const process = await connect(scene.url)
  for (const [status, finished, expected] of [
    ['running', false, []],
    ['interrupted', true, []],
    ['running', false, []],
    ['succeeded', true, [['cleared', ...overdue]]],
  ] as const) {
    if (status === 'running') {
      const run = await plantRun(scene, { status, streams: { forms: 'running' }, finished })
      await process.query(lock, [run])
    } else
      await scene.query(
        `update intake_ops.runs set status = '${status}', finished_at = now() where status = 'running';
         update intake_ops.run_streams set status = '${status}' where status = 'running'`,
      )
    expect([status, await round(scene)]).toEqual([status, expected])
  }
  await process.end()
})
