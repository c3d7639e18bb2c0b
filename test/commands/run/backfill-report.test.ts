/** The report of a backfill: figures of each team, their sums, and what needs a person. */
import { expect, test } from 'vitest'
import { backfillDocument, backfillText } from '../../../src/commands/run/backfill-report.ts'
import type { BackfillSummary } from '../../../src/extract/backfill.ts'
import type { StreamReport } from '../../../src/load/runs.ts'

const output = { write: () => true }
const context = {
  ...{ env: {}, stdout: output, stderr: output, signal: new AbortController().signal, version: '' },
}

const report = (more: Partial<StreamReport> = {}): StreamReport => ({
  ...{ status: 'succeeded', requests: 1, throttled: 0, fetched: 2, changed: 2, unchanged: 0, deleted: 0 },
  ...{ erased: 0, deadLetters: 0, problems: 0, seconds: 1, note: null },
  ...more,
})
const team = (name: string, streams: Readonly<Record<string, StreamReport>>, waiting = 0) => ({
  ...{ name, waiting, failure: null },
  streams: Object.entries(streams).map(([stream, own]) => ({ stream: stream as 'patients', report: own })),
})
const summaryOf = (
  teams: BackfillSummary['teams'],
  more: Partial<BackfillSummary> = {},
): BackfillSummary => ({
  ...{ runId: '1', status: 'succeeded', teams, waitingQuestions: [] },
  ...more,
})
const question = (of: string, id: string) =>
  ({
    team: of,
    form_id: 'f',
    form: 'Form',
    question_id: id,
    question_text: 'Why?',
  }) as unknown as BackfillSummary['waitingQuestions'][number]

test('seconds of several teams have at most three decimals', () => {
  const teams = [0.1, 0.2, 0.4].map((seconds, at) => team(`team ${at}`, { patients: report({ seconds }) }))
  expect(backfillDocument(summaryOf(teams))).toMatchObject({
    streams: { patients: { seconds: 0.7, fetched: 6, requests: 3 } },
  })
})

test('every figure of the teams is summed up; the worst status and all notes are those of the stream', () => {
  const figures = {
    ...{ requests: 1, throttled: 2, fetched: 3, changed: 4, unchanged: 5, deleted: 6, erased: 7 },
    ...{ deadLetters: 8, problems: 9, seconds: 10 },
  }
  const ends = ['succeeded', 'needs_attention', 'interrupted', 'failed'] as const
  const teams = ends.map((status, at) =>
    team(`t${at}`, { patients: report({ ...figures, status, note: at === 0 ? null : `note ${at}` }) }),
  )
  const { deadLetters, ...rest } = figures
  const [single, sum] = [1, 4].map((times) =>
    Object.fromEntries(
      Object.entries({ ...rest, dead_letters: deadLetters }).map(([name, value]) => [name, value * times]),
    ),
  )
  const document = backfillDocument(summaryOf(teams)) as {
    streams: { patients: unknown }
    teams: Record<string, { streams: { patients: unknown } }>
  }
  expect(document.streams.patients).toEqual({ ...sum, status: 'failed', note: 'note 1; note 2; note 3' })
  expect(document.teams.t1!.streams.patients).toEqual({
    ...single,
    status: 'needs_attention',
    note: 'note 1',
  })
  for (const [at, worst] of ends.entries())
    for (const order of [teams.slice(0, at + 1), teams.slice(0, at + 1).reverse()])
      expect(backfillDocument(summaryOf(order))).toMatchObject({ streams: { patients: { status: worst } } })
  expect(
    backfillDocument(summaryOf([team('a', { patients: report() }), team('b', { patients: report() })])),
  ).toMatchObject({ run_id: 1, streams: { patients: { note: null } } })
})

test('each team has its own waiting questions and dead letters, and the text names the team', () => {
  const teams = [
    team('north', { patients: report({ erased: 2 }), forms: report() }, 3),
    team('south', { patients: report({ note: 'odd' }), forms: report({ erased: 1 }) }),
  ]
  const summary = summaryOf(teams, {
    ...{ status: 'needs_attention', waitingQuestions: [question('south', 'q1'), question('south', 'q2')] },
  })
  const document = backfillDocument(summary) as { teams: Record<string, Record<string, unknown>> }
  expect(document.teams.north).toMatchObject({ dead_letters_waiting: 3, questions_waiting: [] })
  expect(document.teams.south).toMatchObject({
    dead_letters_waiting: 0,
    questions_waiting: [
      expect.objectContaining({ question_id: 'q1' }),
      expect.objectContaining({ question_id: 'q2' }),
    ],
  })
  const [table, notes] = backfillText(context, summary).split('\n\n')
  expect(table!.split('\n').map((line) => line.split(/ +/)[0])).toEqual([
    ...['stream', 'north/patients', 'north/forms', 'south/patients', 'south/forms'],
  ])
  expect(notes!.trimEnd().split('\n')).toEqual([
    'run 1: needs attention',
    'north: skipped, patient erased: 2 of patients',
    '3 dead letter(s) of north waiting: see intake-sync dead-letters list',
    'south: patients: odd',
    'south: skipped, patient erased: 1 of forms',
    expect.stringMatching(/^south: 2 /),
  ])
})

test('streams that failed alike share a line; one alone keeps its path and the number of its tries', () => {
  const failed = (note: string) => report({ status: 'failed', note })
  const streams = {
    patients: failed('GET /v2/patients?page=2: the service failed (500), after 5 tries'),
    forms: failed('GET /v2/forms: the service failed (500), after 3 tries'),
    packets: failed('GET /v2/packets: it refused (403), after 2 tries'),
    documents: report(),
  }
  const alone = backfillText(context, summaryOf([team('only', streams)], { runId: null, status: 'failed' }))
  expect(alone.split('\n\n')[1]).toBe(
    [
      'dry run, nothing written: failed\npatients, forms: the service failed (500)',
      'packets: GET /v2/packets: it refused (403), after 2 tries\n',
    ].join('\n'),
  )
  expect(alone).toMatch(/^patients +2 +2 +0 +0 +0 +0 +1 +1$/m)
})

test.each([
  [95, 'fetched changed unchanged deleted dead letters problems requests seconds'],
  [84, 'fetched changed unchanged deleted dead letters requests seconds'],
  [74, 'fetched changed unchanged dead letters requests seconds'],
  [62, 'fetched changed unchanged requests seconds'],
  [50, 'fetched changed unchanged seconds'],
  [40, 'fetched changed unchanged'],
])('of %i characters, a terminal shows the columns that matter most', (columns, heads) => {
  const figures = { fetched: 1, changed: 1, unchanged: 1, deleted: 1, deadLetters: 1, problems: 1 }
  const summary = summaryOf([team('only', { patients: report(figures) })])
  const stdout = { write: () => true, isTTY: true, columns }
  expect(
    backfillText({ ...context, stdout }, summary)
      .split('\n')[0]!
      .replace(/ +/g, ' '),
  ).toBe(`stream ${heads}`)
})

test('a document and a text name every stream of a team, in sums, of the team alone, and where patients were erased', () => {
  const streams = {
    patients: report({ erased: 2, fetched: 5 }),
    forms: report({ erased: 1, fetched: 7 }),
    packets: report({ fetched: 9 }),
  }
  const fetched = { patients: { fetched: 5 }, forms: { fetched: 7 }, packets: { fetched: 9 } }
  const document = backfillDocument(summaryOf([team('only', streams)]))
  expect(document).toMatchObject({ streams: fetched, teams: { only: { streams: fetched } } })
  expect(backfillText(context, summaryOf([team('only', streams)])).split('\n\n')[1]).toBe(
    'run 1: succeeded\nskipped, patient erased: 2 of patients, 1 of forms\n',
  )
})

test('only the beginning of a note that names a request is left out where streams share it', () => {
  const streams = {
    patients: report({ note: 'it said GET /a: no' }),
    forms: report({ note: 'it said GET /b: no' }),
    packets: report({ note: 'GET /a: no' }),
    documents: report({ note: 'GET /b: no' }),
  }
  expect(backfillText(context, summaryOf([team('only', streams)])).split('\n\n')[1]).toBe(
    'run 1: succeeded\npatients: it said GET /a: no\nforms: it said GET /b: no\npackets, documents: no\n',
  )
})
