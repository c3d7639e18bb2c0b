/** An error in our own code while events are drained is reported without values, and stops no other event. */
import pino from 'pino'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { teamIdOf } from '../../../src/load/teams.ts'
import { findConditions } from '../../../src/operate/alerts/conditions.ts'
import { patients } from '../../../src/streams/patients.ts'
import type { Child, Stream } from '../../../src/streams/stream.ts'
import { takeDefects } from '../../support/defects.ts'
import { openScene, patientEvent, type Scene, unwatched } from './scene.ts'

let scene: Scene
let other: number

beforeEach(async () => {
  scene = await openScene()
  other = await teamIdOf(scene.session.db, 'other')
})

afterEach(async () => {
  await scene[Symbol.asyncDispose]()
})

type Writable<Type> = { -readonly [Field in keyof Type]: Type[Field] }

/** While `work` runs, a record with the id `bad` fails to be read, or to be mapped to rows. */
async function withDefect(where: 'reading' | 'mapping', work: () => Promise<void>): Promise<void> {
  const fail = (id: unknown) => {
    if (id === 'bad') throw new TypeError(`cannot read Kanarienvogel of ${id}`)
  }
  const stream: Writable<Stream> = patients
  const child: Writable<Child> = patients.children[0]!
  const { isOrdered } = stream
  const { rows } = child
  if (where === 'reading') {
    stream.isOrdered = (record) => {
      fail(record.id)
      return false
    }
  } else {
    child.rows = (record, problems) => {
      fail(record.id)
      return rows(record, problems)
    }
  }
  try {
    await work()
  } finally {
    child.rows = rows
    if (isOrdered === undefined) delete stream.isOrdered
    else stream.isOrdered = isOrdered
  }
}

test.each(['reading', 'mapping'] as const)(
  'it is logged with its stack, counted and raised as an alert, and the other events are loaded (%s)',
  async (where) => {
    await scene.store([patientEvent('p1', 1), patientEvent('bad', 1), patientEvent('p2', 1)])
    await scene.store([patientEvent('p1', 1)], { teamId: other })
    const logged: string[] = []
    const kinds: string[] = []
    await withDefect(where, () =>
      scene.drain({
        teams: [
          { name: 'default', teamId: scene.teamId },
          { name: 'other', teamId: other },
        ],
        backoffMs: [],
        logger: pino({}, { write: (line: string) => logged.push(line) }),
        watch: { ...unwatched, defect: (kind) => kinds.push(kind) },
      }),
    )
    expect(await scene.rows('select team_id, id from intake.patients order by 1, 2')).toEqual([
      { team_id: scene.teamId, id: 'p1' },
      { team_id: scene.teamId, id: 'p2' },
      { team_id: other, id: 'p1' },
    ])
    expect(await scene.inbox()).toEqual({ dead: 1, done: 3 })
    expect(
      await scene.rows('select team_id, stream, record_id, reason from intake_ops.dead_letters'),
    ).toEqual([
      {
        ...{ team_id: scene.teamId, stream: 'patients', record_id: 'bad' },
        reason: expect.stringMatching(/^the event could not be loaded: (?!.*Kanarienvogel)/),
      },
    ])
    const [defect, ...more] = takeDefects()
    expect(more).toEqual([])
    expect(defect).toMatchObject({
      kind: 'TypeError',
      place: expect.stringMatching(/^defects\.test\.ts:\d+$/),
    })
    expect(kinds).toEqual(['TypeError'])
    const lines = logged
      .map((line) => JSON.parse(line))
      .filter(({ msg }) => msg.includes('a defect of intake-sync'))
    expect(lines).toMatchObject([
      {
        level: 50,
        kind: 'TypeError',
        frames: expect.arrayContaining([expect.stringMatching(/read-record|lines\.ts/)]),
      },
    ])
    expect(logged.join('')).not.toContain('Kanarienvogel')
    expect(await scene.rows('select team_id, kind, count::int from intake_ops.defects order by 1')).toEqual([
      { team_id: scene.teamId, kind: 'TypeError', count: 1 },
      { team_id: other, kind: 'TypeError', count: 1 },
    ])

    const conditions = async () => {
      const found = await findConditions(scene.session.db, {
        ...{
          teams: ['default'],
          inboxSeconds: 1e9,
          maxAgeHours: null,
          thorough: true,
          raised: new Set<string>(),
        },
        webhookChecks: { check: async () => [] } as never,
      })
      expect(found.isJudged({ team: 'default', cause: 'defect', stream: '' })).toBe(true)
      return found.conditions.filter(({ cause }) => cause === 'defect')
    }
    expect(await conditions()).toMatchObject([{ team: 'default', mark: 1, figures: { kinds: 1, count: 1 } }])
    await scene.rows(`update intake_ops.defects set last_seen = now() - interval '8 days'`)
    expect(await conditions()).toEqual([])
  },
)

const form = (id: string, name: string) => {
  const at = '2026-01-01T12:00:00Z'
  const times = { created_at: at, updated_at: at }
  const data = { ...times, id, name, text: 'b', enabled: true, questions: [] }
  return { id: `e ${id}`, timestamp: at, event_type: 'updated', source: 'form', data }
}

test('an event that Postgres rejects is no defect; one behind it, in the same batch, is', async () => {
  await scene.rows(`alter table intake.forms add constraint no_such check (name is distinct from 'refused')`)
  const kinds: string[] = []
  const logged: string[] = []
  const drain = () =>
    withDefect('mapping', () =>
      scene.drain({
        ...{ backoffMs: [], watch: { ...unwatched, defect: (kind) => kinds.push(kind) } },
        logger: pino({}, { write: (line: string) => logged.push(line) }),
      }),
    )
  // Forms are written first.
  await scene.store([form('f1', 'refused'), patientEvent('p1', 1), form('f2', 'good')])
  await drain()
  expect([takeDefects(), kinds, await scene.rows('select from intake_ops.defects')]).toEqual([[], [], []])
  await scene.store([
    form('f3', 'refused'),
    patientEvent('p2', 1),
    patientEvent('bad', 1),
    form('f4', 'good'),
  ])
  await drain()
  expect(takeDefects()).toMatchObject([{ kind: 'TypeError' }])
  expect(kinds).toEqual(['TypeError'])
  expect(await scene.rows('select team_id, kind, count::int from intake_ops.defects')).toEqual([
    { team_id: scene.teamId, kind: 'TypeError', count: 1 },
  ])
  expect(logged.join('')).toContain('a defect of intake-sync: unexpected TypeError')
  expect(await scene.inbox()).toEqual({ dead: 3, done: 4 })
  expect(await scene.rows('select record_id, reason from intake_ops.dead_letters order by 1')).toEqual([
    { record_id: 'bad', reason: expect.stringContaining('could not be loaded') },
    ...['f1', 'f3'].map((id) => ({
      record_id: id,
      reason: 'the warehouse refused the event (SQLSTATE 23514)',
    })),
  ])
})
