/** `explain`: every state of a record, why it won or lost, and what happened to its events; values only on request. */
import { stripVTControlCharacters } from 'node:util'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { supersedes } from '../../../src/core/envelope.ts'
import { loadBatch } from '../../../src/load/merge/load.ts'
import { takeSlice } from '../../../src/load/slice.ts'
import { linesOf } from '../../../src/normalize/lines.ts'
import { decide } from '../../../src/operate/explain.ts'
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
        (deleted ? [''] : ['aa', 'bb']).map((hash) => ({ version, deleted, seen, hash })),
      ),
    ),
  )
  const all = versions.map(({ version, deleted, seen, hash }) => {
    const times = { version: noonPlus(version), observedAt: noonPlus(seen), updatedAt: null }
    const content = deleted ? null : { payload: {}, text: '', asReceived: null, hash, problems: [] }
    const envelope = { teamId: 1, stream: 'patients' as const, id: 'p', origin: 'test', ...times, content }
    return { ranked: { ...times, deleted, hash }, envelope }
  })
  for (const a of all)
    for (const b of all)
      if (a !== b) expect(decide(a.ranked, b.ranked).wins).toBe(supersedes(a.envelope, b.envelope))
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
