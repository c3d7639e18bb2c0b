/** What `explain` prints of states, events, dead letters and fetches. */
import { expect, it } from 'vitest'
import { explainDocument, explainText } from '../../../src/commands/inspect/explain.ts'
import type { Explained } from '../../../src/operate/explain.ts'
import { contextOf } from '../output-context.ts'

const context = contextOf()
const about = { team: 'north', stream: 'patients', id: 'p', withValues: false }

const state = (more: object) => ({
  ...{ version: 'v1', observedAt: 'o1', deleted: false, hash: 'abcdef0123456789', origin: 'run:7 page:1' },
  ...{ supersededAt: null, payload: '{"n":1}', wonBy: null, changes: [], ...more },
})
const EXPLAINED = {
  states: [
    state({ supersededAt: '2026-01-02T00:00:00Z' }),
    state({
      ...{ version: 'v2', observedAt: 'o2', origin: 'event:e', wonBy: 'later version' },
      changes: [
        { field: 'city', kind: 'changed', before: 'Ulm', after: null },
        { field: 'email', kind: 'added', before: undefined, after: 'x' },
      ],
    }),
  ],
  events: [
    {
      eventId: 'e',
      eventType: null,
      receivedAt: '2026-01-02T00:00:00Z',
      version: 'v2',
      hash: 'h',
      outcome: 'won',
    },
    {
      eventId: 'f',
      eventType: 'updated',
      receivedAt: '2026-01-03T00:00:00Z',
      version: null,
      hash: null,
      outcome: 'lost',
    },
  ],
  deadLetters: [
    { id: 4, status: 'waiting', seen: 2, last_seen_at: '2026-01-04T00:00:00Z', reason: 'has no id' },
    { id: 5, status: 'discarded', seen: 1, last_seen_at: '2026-01-05T00:00:00Z', reason: 'is too large' },
  ],
  refetch: { reason: 'partial', due_at: '2026-01-05T00:00:00Z', attempts: 1 },
  runs: new Map([[7, { kind: 'backfill', startedAt: '2026-01-01T00:00:00Z' }]]),
} as unknown as Explained

it('the run of an origin is named by its whole number', () => {
  const runs = new Map(
    [1, 12, 123].map((id) => [id, { kind: `kind ${id}`, startedAt: '2026-01-01T00:00:00Z' }]),
  )
  const origins = ['run:12 page:3', 'run:123 fetch', 'run:1234 page:1', 'run:12x', 'event:run:12']
  const texts = origins.map((origin) => {
    const explained = { ...EXPLAINED, states: [state({ origin })], runs } as unknown as Explained
    return explainText(context, explained, about).split('\n')[0]
  })
  const stored = 'patients p of team north: stored, from'
  expect(texts).toEqual([
    `${stored} run:12 page:3 (kind 12 of 2026-01-01 00:00)`,
    `${stored} run:123 fetch (kind 123 of 2026-01-01 00:00)`,
    ...['run:1234 page:1', 'run:12x', 'event:run:12'].map((origin) => `${stored} ${origin}`),
  ])
})

it('states come newest first with their origins, events in order of arrival, and values only on request', () => {
  const text = explainText(context, EXPLAINED, about)
  expect(text.split('\n')).toEqual([
    'patients p of team north: stored, from event:e',
    ...['', 'states, newest first:'],
    'current  version v2, content abcdef01',
    '        from event:e, read at o2 or later',
    '        won by: later version',
    '        changed: city, email (added)',
    'earlier  version v1, content abcdef01',
    '        from run:7 page:1 (backfill of 2026-01-01 00:00), read at o1 or later',
    '        first known state; superseded 2026-01-02 00:00',
    ...['', 'events, in order of arrival:'],
    '  2026-01-02 00:00  -  e, version v2',
    '        won',
    '  2026-01-03 00:00  updated  f',
    '        lost',
    ...['', 'dead letters:'],
    '  4  waiting, seen 2, 2026-01-04 00:00: has no id',
    '  5  discarded, seen 1, 2026-01-05 00:00: is too large',
    ...['', 'refetch by id (partial), due 2026-01-05 00:00', ''],
  ])
  const values = explainText(context, EXPLAINED, { ...about, withValues: true })
  expect(values).toContain('        city: Ulm → -\n        email: - → x\n')
})

it('of three states each has won over the one before it, and only the last is current', () => {
  const change = (field: string) => [{ field, kind: 'changed', before: 1, after: 2 }]
  const states = [
    state({ supersededAt: '2026-01-02T00:00:00Z', origin: 'event:a' }),
    state({
      version: 'v2',
      supersededAt: '2026-01-03T00:00:00Z',
      wonBy: 'later version',
      changes: change('b'),
    }),
    state({
      version: 'v3',
      deleted: true,
      hash: '',
      payload: null,
      wonBy: 'later observation',
      changes: change('c'),
    }),
  ]
  const explained = { ...EXPLAINED, states } as unknown as Explained
  const { states: shown, events } = explainDocument(explained, about) as {
    states: Record<string, unknown>[]
    events: unknown
  }
  expect(shown).toMatchObject([
    { version: 'v1', superseded_at: '2026-01-02T00:00:00Z', is_held: false, won_by: null, changes: [] },
    {
      ...{ version: 'v2', superseded_at: '2026-01-03T00:00:00Z', is_held: false, won_by: 'later version' },
      changes: [{ field: 'b', kind: 'changed' }],
    },
    {
      ...{ version: 'v3', superseded_at: null, is_held: true, won_by: 'later observation' },
      changes: [{ field: 'c', kind: 'changed' }],
    },
  ])
  expect(events).toEqual(
    (
      [
        ['e', null, '2026-01-02T00:00:00Z', 'v2', 'h', 'won'],
        ['f', 'updated', '2026-01-03T00:00:00Z', null, null, 'lost'],
      ] as const
    ).map(([event_id, event_type, received_at, version, hash, outcome]) => ({
      ...{ event_id, event_type, received_at, version, hash, told: outcome },
    })),
  )
  const lines = explainText(context, explained, about).split('\n').slice(0, 14)
  expect(lines).toEqual([
    'patients p of team north: deleted',
    ...['', 'states, newest first:'],
    'current  version v3, a tombstone',
    '        from run:7 page:1 (backfill of 2026-01-01 00:00), read at o1 or later',
    ...['        won by: later observation', '        changed: c'],
    'earlier  version v2, content abcdef01',
    '        from run:7 page:1 (backfill of 2026-01-01 00:00), read at o1 or later',
    ...['        won by: later version; superseded 2026-01-03 00:00', '        changed: b'],
    'earlier  version v1, content abcdef01',
    '        from event:a, read at o1 or later',
    '        first known state; superseded 2026-01-02 00:00',
  ])
})

it('a record without a state is not called stored', () => {
  const nothing = { ...EXPLAINED, states: [], events: [], deadLetters: [], refetch: null }
  expect(explainText(context, nothing, about)).toBe('patients p of team north: not stored\n')
  const gone = { ...nothing, states: [state({ deleted: true, hash: '' })] } as unknown as Explained
  expect(explainText(context, gone, about)).toMatch(/: deleted\n[\s\S]*current {2}version v1, a tombstone\n/)
})

it('the document has payloads and values only on request', () => {
  const document = (withValues: boolean) =>
    explainDocument(EXPLAINED, { ...about, withValues }) as { states: Record<string, unknown>[] }
  expect(document(false).states[1]).toEqual({
    ...{ version: 'v2', observed_at: 'o2', deleted: false, hash: 'abcdef0123456789', origin: 'event:e' },
    ...{ superseded_at: null, is_held: true, won_by: 'later version' },
    changes: [
      { field: 'city', kind: 'changed' },
      { field: 'email', kind: 'added' },
    ],
  })
  expect(document(true).states[1]).toMatchObject({
    payload: { n: 1 },
    changes: [
      { before: 'Ulm', after: null },
      { before: null, after: 'x' },
    ],
  })
  expect(document(false).states[0]).toMatchObject({ is_held: false })
  expect(document(false)).toMatchObject({
    events: [
      { event_id: 'e', event_type: null },
      { event_id: 'f', event_type: 'updated' },
    ],
    dead_letters: [{ id: 4 }, { id: 5 }],
  })
})

it('the document of what has no content, no change and no event has null and empty lists', () => {
  const gone = { states: [state({ deleted: true, hash: '', payload: null })] }
  const nothing = { events: [], deadLetters: [], refetch: null, runs: new Map() }
  const document = (withValues: boolean) =>
    explainDocument({ ...gone, ...nothing } as unknown as Explained, { ...about, withValues })
  const tombstone = {
    ...{ version: 'v1', observed_at: 'o1', deleted: true, hash: null, origin: 'run:7 page:1' },
    ...{ superseded_at: null, is_held: true, won_by: null, changes: [] },
  }
  const rest = { events: [], dead_letters: [], refetch: null }
  const of = { team: 'north', stream: 'patients', id: 'p' }
  expect(document(false)).toEqual({ ...of, states: [tombstone], ...rest })
  expect(document(true)).toEqual({ ...of, states: [{ ...tombstone, payload: null }], ...rest })
})

it('ids, names of fields, origins and values cannot move the cursor of a terminal', () => {
  const odd = 'a\u001b[2Jb'
  const changes = [
    { field: `${odd}1`, kind: 'changed', before: odd, after: null },
    { field: `${odd}2`, kind: 'added', before: undefined, after: odd },
  ]
  const event = { ...EXPLAINED.events[0], eventId: odd }
  const explained = { ...EXPLAINED, states: [state({ origin: odd, changes })], events: [event] }
  for (const withValues of [false, true]) {
    const text = explainText(context, explained as unknown as Explained, {
      ...about,
      id: odd,
      team: odd,
      withValues,
    })
    expect(text).not.toContain('\u001b')
    expect(text.match(/\[2Jb/g)).toHaveLength(withValues ? 9 : 7)
  }
})
