/** What a load writes, in which order: in one transaction, which ends with the check that its slice is still its own. */
import { Writable } from 'node:stream'
import { expect, test } from 'vitest'
import { loadFile, rejectFile } from '../../src/load/exports/load-file.ts'
import { loadBatch } from '../../src/load/merge/load.ts'
import { linesOf } from '../../src/normalize/lines.ts'
import { patients } from '../../src/streams/patients.ts'
import type { Session } from '../../src/warehouse/connect.ts'
import { at, recordEnvelope } from '../support/envelopes.ts'
import { type Reply, scripted } from '../support/scripted.ts'

/** A session that writes down each statement: its verb and the tables that it names. */
function writing(replies: readonly (readonly [RegExp, () => Reply])[] = []) {
  const steps: string[] = []
  /** Whether the login is bound by policies. */
  const looks: string[] = []
  const reply = (statement: string) => replies.find(([pattern]) => pattern.test(statement))?.[1]() ?? []
  const note = (statement: string) => {
    const text = statement.replace(/\s+/g, ' ').trim()
    if (text.includes('row_security_active')) {
      looks.push(text)
      return text
    }
    if (text.includes(`set_config('timezone'`)) {
      steps.push('zone')
      return text
    }
    const [verb] = text.toLowerCase().split(/[ ;]/)
    const names = text.match(/"?\b(?:intake\w*|pg_temp)"?\."?\w+"?/g) ?? []
    const tables = [...new Set(names.map((name) => name.replaceAll('"', '')))]
    steps.push([verb, ...tables].join(' '))
    return text
  }
  /** The values of the last statement that begins so. */
  const valuesOf = (beginning: string) => given.find(([statement]) => statement.startsWith(beginning))?.[1]
  const given: [string, readonly unknown[]][] = []
  const db = scripted((statement, values) => {
    given.unshift([statement, values])
    return reply(note(statement))
  })
  const query = async (asked: string) => {
    const found = reply(note(asked))
    return { rows: found }
  }
  const client = {
    query: (asked: string | { text: string }) => {
      if (typeof asked === 'string') return query(asked)
      note(asked.text)
      return new Writable({ write: (_piece, _encoding, done) => done() })
    },
  }
  return { steps, looks, valuesOf, session: { client, db } as unknown as Session }
}

const taken = {
  ...{ teamId: 1, stream: 'patients', slice: '', epoch: '3', runId: '7', cursor: null, takenAt: 'now' },
} as const
const OURS: readonly [RegExp, () => Reply] = [/^select "epoch"/, () => [{ epoch: '3' }]]
const UNBOUND: readonly [RegExp, () => Reply] = [/row_security_active/, () => [{ bound: false }]]
const DEAD: readonly [RegExp, () => Reply] = [/^insert into "intake_ops"."dead_letters"/, () => [{ id: '1' }]]

const person = (id: string, more: object = {}) =>
  recordEnvelope({ id, patient_tags: ['A'], ...more }, { teamId: 1, stream: 'patients', observedAt: at(0) })
const dead = { recordId: null, origin: 'run:7 page:1', reason: 'has no id', body: '{}' }
const STORED = [
  'update intake_ops.dead_letters',
  'insert intake_ops.dead_letters',
  'insert intake_raw.set_aside',
]
/** What looks for erased patients of the batch, and of its dead letter. */
const ERASED = 'select intake_ops.hold_erasures'
const END = ['select intake_ops.checkpoints', 'commit']

test('a batch that is copied, with its findings and dead letters', async () => {
  const { steps, looks, session } = writing([OURS, UNBOUND, DEAD])
  const lines = linesOf(patients, [person('a', { date_birth: 'never', mood: 1 }), person('b')])
  const result = await loadBatch(session, { stream: patients, taken, lines, deadLetters: [dead] }, 'straight')
  expect(result).toEqual({ changed: 2, deleted: 0, erased: 0, deadLetters: 1, problems: 1, conflicts: [] })
  expect(steps).toEqual([
    ...['begin', ERASED, 'copy intake_raw.records', 'copy intake.patients', 'copy intake.patient_tags'],
    ...['insert intake_ops.problems', 'insert intake_ops.drift'],
    ...[ERASED, ...STORED, ...END],
  ])
  // Asked once of a connection, for all tables and batches.
  await loadBatch(session, { stream: patients, taken, lines, deadLetters: [] }, 'straight')
  expect(looks).toHaveLength(1)
})

test('a batch that is merged: staged, locked, compared, without its losers', async () => {
  const outcomes = [
    { team_id: 1, id: 'a', tombstone: false, lost: true, conflict: true },
    { team_id: 1, id: 'b', tombstone: false, lost: false, conflict: true },
  ]
  const { steps, session } = writing([OURS, UNBOUND, [/^with judged/, () => outcomes]])
  const lines = linesOf(patients, [person('a'), person('b')])
  const result = await loadBatch(session, { stream: patients, taken, lines, deadLetters: [] }, 'merge')
  expect(result).toEqual({
    changed: 1,
    deleted: 0,
    erased: 0,
    deadLetters: 0,
    problems: 0,
    conflicts: ['a', 'b'],
  })
  const stages = ['records', 'patients', 'patient_tags'].map((table) => `pg_temp.stage_${table}`)
  expect(steps.map((step) => step.replace(/^(create|delete) .*/, '$1'))).toEqual([
    ...['create', 'begin', ERASED, 'delete', ...stages.map((stage) => `copy ${stage}`)],
    'select pg_temp.stage_records intake_raw.records',
    expect.stringMatching(/^with intake.patients .*intake_raw.records$/),
    // Of the root, and of each of its three children.
    ...['delete', 'delete', 'delete', 'delete', expect.stringMatching(/^insert intake.patients /), ...END],
  ])
})

test('a batch without records and findings, and dead letters that were stored before', async () => {
  const { steps, session } = writing([OURS, [/^update "intake_ops"."dead_letters"/, () => 1]])
  const lines = linesOf(patients, [])
  const result = await loadBatch(session, { stream: patients, taken, lines, deadLetters: [dead] }, 'merge')
  expect(result).toMatchObject({ changed: 0, deadLetters: 0 })
  expect(steps.slice(1)).toEqual(['begin', ERASED, 'update intake_ops.dead_letters', ...END])
})

const file = {
  ...{ exportId: 'e', isJsonString: false, apiVersion: 'v2.1', timezone: 'UTC', observedAt: at(0) },
  ...{
    origin: 'run:7 file',
    hash: 'ab',
    bytes: 1,
    chunks: 1,
    first: [Buffer.from('Client ID,,,,,,,Q\na,,,,never,,,x\n')],
  },
}

test('a file: its zone, what replaces the file before it, its bytes, problems, questions and the change of its export', async () => {
  const { steps, valuesOf, session } = writing([OURS, UNBOUND, [/match_columns/, () => [{ changed: '0' }]]])
  expect(await loadFile(session, { ...taken, stream: 'exports' }, file)).toEqual({
    rows: 1,
    cells: 1,
    problems: 2,
  })
  expect(steps).toEqual([
    ...[
      'begin',
      'zone',
      'delete intake.export_cells',
      'delete intake.export_rows',
      'delete intake.export_columns',
    ],
    ...[ERASED, 'copy intake.export_rows', 'copy intake.export_cells', 'copy intake.export_columns'],
    ...[
      'delete intake_raw.export_files',
      'insert intake_raw.export_files',
      'insert intake_raw.export_chunks',
    ],
    ...[
      'with intake.exports intake_raw.export_files',
      'select intake_raw.match_columns',
      'update intake_raw.records',
    ],
    ...['insert intake_ops.problems', ...END],
  ])
  // Of this export alone: the rows of others are not locked.
  expect(valuesOf('with wanted')).toContain('e')
  expect(valuesOf('select intake_raw.match_columns')?.slice(0, 2)).toEqual([1, 'e'])
})

test('a file that is rejected, for the first time and again', async () => {
  const hash = { value: null as Buffer | null }
  const rejected: readonly [RegExp, () => Reply] = [
    /^select "hash"/,
    () => (hash.value === null ? [] : [{ hash: hash.value }]),
  ]
  const first = writing([OURS, DEAD, rejected])
  await rejectFile(first.session, { ...taken, stream: 'exports' }, file, 'broken')
  const files = ['delete', 'insert'].map((verb) => `${verb} intake_raw.export_files`)
  const looks = ['begin', 'select intake_raw.export_files']
  const writes = [...files, ERASED, 'insert intake_raw.export_chunks']
  expect(first.steps).toEqual([...looks, ...writes, ERASED, ...STORED, ...END])
  // A loaded file with the same bytes, and one of another export, are others.
  expect(first.valuesOf('select "hash"')).toEqual([1, 'e', false])
  hash.value = Buffer.from('ab', 'hex')
  const again = writing([OURS, DEAD, rejected])
  await rejectFile(again.session, { ...taken, stream: 'exports' }, file, 'broken')
  expect(again.steps).toEqual([...looks, ERASED, ...STORED, ...END])
})
