/** `explain`: every state of a record, why it won or lost, and what happened to its events; values only on request. */
import { stripVTControlCharacters } from 'node:util'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { supersedes } from '../../../src/core/envelope.ts'
import { loadBatch } from '../../../src/load/merge/load.ts'
import { takeSlice } from '../../../src/load/slice.ts'
import { linesOf } from '../../../src/normalize/lines.ts'
import { decide, type Ranked } from '../../../src/operate/explain.ts'
import { patients } from '../../../src/streams/patients.ts'
import { noonPlus, openScene, patientEvent, type Scene } from '../../ingest/drain/scene.ts'
import { recordEnvelope, tombstoneEnvelope } from '../../support/envelopes.ts'
import { runCommand } from '../../support/run-command.ts'

const CANARY = 'Kanarienvogel7351'

let scene: Scene

beforeEach(async () => {
  scene = await openScene()
})
afterEach(async () => {
  await scene[Symbol.asyncDispose]()
})

const explain = (words: string, columns?: number) =>
  runCommand(
    ['explain', ...words.split(' ')],
    { DATABASE_URL: scene.url },
    columns === undefined ? {} : { columns },
  )
const documentOf = async (words: string) => JSON.parse((await explain(`${words} --json`)).stdout)

/** As of a stream whose stamps do not decide. */
const unstamped = ({ updatedAt: _, ...ranked }: Ranked): Ranked => ranked

/** A patient as in a page of a run, so many seconds after noon; null for a deleted one. */
async function load(fields: object | null, seconds: number): Promise<void> {
  const made = {
    teamId: scene.teamId,
    stream: 'patients' as const,
    observedAt: noonPlus(seconds),
    origin: 'run:1 page:2',
  }
  const envelope =
    fields === null ? tombstoneEnvelope('p', made) : recordEnvelope({ id: 'p', ...fields }, made)
  const taken = await takeSlice(
    scene.session.db,
    { teamId: scene.teamId, stream: 'patients', slice: '' },
    '1',
  )
  const batch = { stream: patients, taken, lines: linesOf(patients, [envelope]), deadLetters: [] }
  await loadBatch(scene.session, batch, 'merge')
}

test('states are shown with their origins, their changes, and why each won', async () => {
  await scene.session.client.query(
    "insert into intake_ops.runs (kind, status) values ('backfill', 'succeeded')",
  )
  await load({ first_name: CANARY, city: 'Ulm', emergency_contact: { first_name: 'C', city: 'Ulm' } }, 1)
  await load(
    { first_name: 'Bo', provider: CANARY, emergency_contact: { first_name: CANARY, city: 'Ulm' } },
    5,
  )
  await load(null, 5)
  const { states } = await documentOf('patients p')
  expect(states).toMatchObject([
    { version: noonPlus(1), origin: 'run:1 page:2', won_by: null, is_held: false, changes: [] },
    {
      ...{ version: noonPlus(5), won_by: 'later version', deleted: false },
      changes: [
        { field: 'city', kind: 'removed' },
        { field: 'emergency_contact.first_name', kind: 'changed' },
        { field: 'first_name', kind: 'changed' },
        { field: 'provider', kind: 'added' },
      ],
    },
    {
      version: noonPlus(5),
      won_by: 'tombstone at the same version',
      deleted: true,
      is_held: true,
      changes: [],
    },
  ])
  const text = await explain('patients p')
  expect(text.stdout).toContain('patients p of team default: deleted')
  expect(text.stdout).toMatch(/run:1 page:2 \(backfill of \d{4}-/)
  expect(text.output).not.toContain(CANARY)
  expect((await explain('patients p --json')).output).not.toContain(CANARY)
  expect((await explain('patients p --show-values')).stdout).toContain(`first_name: ${CANARY} → Bo`)
  const shown = stripVTControlCharacters((await explain('patients p', 80)).stdout)
  for (const line of shown.split('\n')) expect([...line].length).toBeLessThanOrEqual(80)
})

test('states are in the order in which they were superseded, whatever their versions', async () => {
  await scene.rows(
    `insert into intake_raw.record_history (team_id, stream, id, version, observed_at, deleted, hash, origin, payload, superseded_at)
     select $1, 'patients', 'p', version::timestamptz, now(), false, sha256(city::bytea), city, jsonb_build_object('city', city), at::timestamptz
     from (values ('2026-01-09', 'first', '2026-02-01'), ('2026-01-05', 'second', '2026-02-02')) as state (version, city, at)`,
    [scene.teamId],
  )
  await load({ city: 'now' }, 1)
  const { states } = await documentOf('patients p')
  expect(states.map(({ origin }: { origin: string }) => origin)).toEqual(['first', 'second', 'run:1 page:2'])
})

test('a state after a deletion is compared with the last state before it', async () => {
  await load({ first_name: 'Ada', city: 'Ulm' }, 1)
  await load(null, 2)
  await load({ first_name: 'Ada', city: 'Bonn' }, 3)
  const { states } = await documentOf('patients p')
  expect(
    states.map(({ deleted, changes }: { deleted: boolean; changes: unknown }) => [deleted, changes]),
  ).toEqual([
    [false, []],
    [true, []],
    [false, [{ field: 'city', kind: 'changed' }]],
  ])
})

test('the state shown as current is the one that the warehouse stores', () => {
  const versions = [1, 2].flatMap((version) =>
    [true, false].flatMap((deleted) =>
      [1, 2].flatMap((seen) =>
        (deleted ? [''] : ['aa', 'bb']).flatMap((hash) =>
          [null, 1, 2].map((updated) => ({ version, deleted, seen, hash, updated })),
        ),
      ),
    ),
  )
  const all = versions.map(({ version, deleted, seen, hash, updated }) => {
    const updatedAt = updated === null ? null : noonPlus(updated)
    const times = { version: noonPlus(version), observedAt: noonPlus(seen), updatedAt }
    const content = deleted ? null : { payload: {}, text: '', asReceived: null, hash, problems: [] }
    const envelope = { teamId: 1, stream: 'patients' as const, id: 'p', origin: 'test', ...times, content }
    return { ranked: { ...times, deleted, hash }, envelope }
  })
  for (const stampsDecide of [false, true])
    for (const a of all)
      for (const b of all) {
        const [one, other] = stampsDecide ? [a.ranked, b.ranked] : [unstamped(a.ranked), unstamped(b.ranked)]
        const { wins, by } = decide(one, other)
        if (by !== 'the same state') expect(wins).toBe(supersedes(a.envelope, b.envelope, stampsDecide))
      }
})

test('a state is shown to win by the first that differs', () => {
  const state = {
    ...{ version: noonPlus(2), observedAt: noonPlus(2), deleted: false, hash: 'bb', updatedAt: noonPlus(2) },
  }
  const by = (changes: Partial<Ranked>) => decide(state, { ...state, ...changes })
  expect(by({})).toEqual({ wins: true, by: 'the same state' })
  expect(by({ hash: 'aa' })).toEqual({ wins: true, by: 'content hash' })
  expect(by({ hash: 'cc', observedAt: noonPlus(1) })).toEqual({ wins: true, by: 'read later' })
  expect(by({ version: noonPlus(3), updatedAt: noonPlus(1) })).toEqual({ wins: true, by: 'updated later' })
  expect(by({ version: noonPlus(3), updatedAt: null })).toEqual({ wins: false, by: 'later version' })
  expect(by({ deleted: true, hash: '' })).toEqual({ wins: false, by: 'tombstone at the same version' })
})

test('each event is shown with its outcome', async () => {
  await load({ first_name: 'Ada', last_name: 'L' }, 10)
  await scene.store([
    patientEvent('p', 4, { id: 'p', first_name: CANARY, last_name: 'L' }),
    patientEvent('p', 20, { id: 'p', first_name: 'Newest', last_name: 'L' }),
    { ...patientEvent('p', 21), data: { id: 'p' } },
  ])
  await scene.drain()
  await scene.store([patientEvent('p', 30, { id: 'p', first_name: 'Waiting', last_name: 'L' })])
  const { states, events, refetch } = await documentOf('patients p')
  expect(states.at(-1)).toMatchObject({ origin: expect.stringMatching(/^event:/), version: noonPlus(20) })
  expect(events.map(({ told: outcome }: { told: string }) => outcome)).toEqual([
    expect.stringMatching(/^lost to event:.* \(later version\)$/),
    'won, and is the current state',
    expect.stringContaining('fetched by its id'),
    'waits in the inbox',
  ])
  expect(refetch).toMatchObject({ reason: expect.stringMatching(/contested|partial/) })
  expect((await explain('patients p')).output).not.toContain(CANARY)
})

test('an event is shown to be superseded, repeated, dead-lettered, tried or without effect', async () => {
  const outcomes = async () =>
    (await documentOf('patients p')).events.map(({ told: outcome }: { told: string }) => outcome)
  const event = (seconds: number, first_name: string) =>
    patientEvent('p', seconds, { first_name, updated_at: noonPlus(0) })
  for (const each of [event(20, 'One'), event(30, 'Two'), event(40, 'Two')]) {
    await scene.store([each])
    await scene.drain()
  }
  await scene.store([event(50, 'Dead'), event(60, 'Tried')])
  await scene.rows(
    `update intake_raw.inbox set attempts = 2, status = case when position('Dead'::bytea in body) > 0 then 'dead' else status end
     where status = 'pending'`,
  )
  expect(await outcomes()).toEqual([
    'won, and was superseded later',
    expect.stringMatching(/^repeated a stored state: the content of event:/),
    'won, and is the current state',
    'was dead-lettered',
    'waits in the inbox, after 2 attempt(s)',
  ])
  await scene.rows(`delete from intake_raw.inbox where status <> 'done'`)
  await scene.rows('delete from intake_raw.records')
  await scene.rows('delete from intake_raw.record_history')
  await scene.store([{ ...patientEvent('p', 70), data: { id: 'p' } }])
  await scene.drain()
  await scene.rows('update intake_ops.refetches set attempts = 2, failures = 1')
  const partial = async () => (await outcomes()).at(-1)
  expect(await outcomes()).toEqual([
    ...Array(3).fill('had no effect: the record is not stored'),
    expect.stringMatching(/^did not settle the state \(partial\): .* by its id, 3 attempt\(s\) so far$/),
  ])
  await scene.rows('delete from intake_ops.refetches')
  expect(await partial()).toMatch(/: the record was fetched by its id, and the service did not have it$/)
  await load({ first_name: 'Three' }, 80)
  expect(await partial()).toMatch(/: the record was fetched by its id$/)
})

test('an event that would have won, and whose state was not stored, is shown to be partial or replaced', async () => {
  await load({ first_name: 'Ada' }, 10)
  await scene.store([patientEvent('p', 20, { first_name: 'Never stored' })])
  await scene.rows(`update intake_raw.inbox set status = 'done'`)
  const { events } = await documentOf('patients p')
  const outcomes = events.map(({ told: outcome, version }: { told: string; version: string }) => [
    version,
    outcome,
  ])
  expect(outcomes).toEqual([[noonPlus(20), 'was partial, or the record that was fetched by id replaced it']])
})

test('an unknown record, stream or team is reported as such', async () => {
  const nobody = await explain('patients nobody')
  expect([nobody.code, nobody.stderr]).toEqual([
    1,
    expect.stringMatching(/has no record of patients[\s\S]*code: unknown_record/),
  ])
  expect((await explain('people p')).code).toBe(2)
  expect((await explain('patients p --team nowhere')).code).toBe(2)
})

test('with several teams one must be given', async () => {
  await scene.session.client.query("insert into intake.teams (name) values ('other')")
  await load({ first_name: 'Ada' }, 1)
  const ended = await explain('patients p')
  expect([ended.code, ended.stderr]).toEqual([2, expect.stringContaining('default, other')])
  expect((await explain('patients p --team default')).code).toBe(0)
})

test.each([
  ['default', '', 'won, and is the current state'],
  ['default', 'v2.1', 'did not settle the state (partial)'],
  ['other', '', 'did not settle the state (partial)'],
])(
  'where team %s requests version %j, an event is explained as its own team reads it',
  async (team, version, expected) => {
    const event = patientEvent('d', 1, {}, { source: 'document' })
    const data = { id: 'd', name: 'HIPAA', text: '', created_at: noonPlus(0), updated_at: noonPlus(0) }
    await scene.store([{ ...event, data }])
    await scene.drain({ teams: [{ name: 'default', teamId: scene.teamId, apiVersion: '' }] })
    const access = { INTAKE_BASE_URL: 'http://127.0.0.1:1', INTAKE_API_KEY: 'k', INTAKE_API_SECRET: 's' }
    const own = { ...access, INTAKE_TEAM: team, INTAKE_API_VERSION: version }
    const ended = await runCommand(['explain', 'documents', 'd', '--json'], {
      DATABASE_URL: scene.url,
      ...own,
    })
    const outcomes = JSON.parse(ended.stdout).events.map(({ told: outcome }: { told: string }) => outcome)
    expect(outcomes).toEqual([expect.stringContaining(expected)])
  },
)
