/** What a worker does for a slice of a verification, step by step: what it compares, reports and stores. No warehouse is asked. */
import { beforeEach, describe, expect, test, vi } from 'vitest'
import type { Part } from '../../src/extract/slices.ts'
import { WORKS } from '../../src/reconcile/slices.ts'
import type { Channels } from '../../src/reconcile/verify/channels.ts'
import type { StreamResult, StreamVerified } from '../../src/reconcile/verify/verify-stream.ts'
import { streamNamed } from '../../src/streams/catalogue.ts'
import { silent } from '../ingest/drain/scene.ts'
import { scripted } from '../support/scripted.ts'

/** The steps, in order. */
const steps: unknown[][] = []
let result: StreamResult
let channels: () => Channels

vi.mock('../../src/reconcile/verify/verify-stream.ts', async (original) => ({
  ...(await original<typeof import('../../src/reconcile/verify/verify-stream.ts')>()),
  openVerifySessions: async (url: string, worker: string) => {
    steps.push(['open', url, worker])
    return { [Symbol.asyncDispose]: async () => void steps.push(['close']) }
  },
  compareOne: async (
    {
      options: { repair },
      runId,
      team,
    }: { options: { repair: unknown }; runId: string; team: { name: string } },
    { name }: { name: string },
    { take, store }: { take: () => unknown; store: (found: unknown) => Promise<void> },
  ) => {
    await store('nothing is stored before the slice is settled')
    steps.push(['compare', runId, team.name, name, repair, take()])
    return result
  },
}))
vi.mock('../../src/reconcile/verify/verify.ts', async (original) => ({
  ...(await original<typeof import('../../src/reconcile/verify/verify.ts')>()),
  expectAgain: async (_run: unknown, { name }: { name: string }) => void steps.push(['read again', name]),
  compareBoth: async () => {
    steps.push(['compare channels'])
    return channels()
  },
}))
vi.mock('../../src/load/exports/file-problems.ts', async (original) => ({
  ...(await original<typeof import('../../src/load/exports/file-problems.ts')>()),
  matchQuestions: async (...given: unknown[]) => void steps.push(['questions', ...given.slice(1)]),
}))
vi.mock('../../src/reconcile/verify/store.ts', () => ({
  storeVerified: async (...stored: unknown[]) => void steps.push(['store', ...stored]),
  storeChannels: async (...stored: unknown[]) => void steps.push(['store channels', ...stored]),
}))

const sums = { source: 10, warehouse: 11 } as StreamVerified['sums']
const verified: StreamVerified = {
  ...{ missing: ['a'], extra: ['b', 'c'], different: ['d', 'e', 'f'].map((id) => ({ id, fields: [] })) },
  ...{ newer: 0, notDue: 0, payloadsOnly: 0, sums, repaired: 4, note: 'a note' },
}
const counts = { source: 10, warehouse: 11, missing: 1, extra: 2, different: 3, repaired: 4 }
const COUNTED = '1 missing, 2 extra, 3 different, 4 repaired; a note'
const equal = { ...verified, missing: [], extra: [], different: [], repaired: 0, note: null }
const none: Channels = { rows: 1, cells: 2, cellsNotCompared: 0, columnsNotCompared: 0, differences: [] }
const place = { export_id: 'e', response_id: null, row_number: 1, position: null }

beforeEach(() => {
  steps.length = 0
  result = { stream: 'exports', status: 'needs_attention', verified }
  channels = () => none
})

async function execute(name: 'exports' | 'patients', spec: object, signal = new AbortController().signal) {
  const part = {
    ...{ stream: streamNamed(name)!, team: { name: 'north', teamId: 3 }, worker: 'abcdef01' },
    claimed: { taken: 'the slice', runId: '7', spec },
    options: { url: 'a warehouse', logger: silent, signal },
  } as unknown as Part
  const { report, store } = await WORKS.verify!.execute(part)
  const before = steps.splice(0)
  await store('a transaction' as never)
  return { report, before, stored: steps.splice(0) }
}
const compared = (name: string, repair: object | null = null) => [
  ['open', 'a warehouse', 'abcdef01'],
  ['compare', '7', 'north', name, repair, 'the slice'],
]
const stored = (name: string, found = verified) => [
  'store',
  ...['a transaction', { runId: '7', teamId: 3, stream: name }, found],
]

describe('a slice of a verification', () => {
  test('reports its counts and its note, and stores what it found with them', async () => {
    const { report, before, stored: all } = await execute('patients', { repair: null, deep: true })
    expect(before).toEqual([...compared('patients'), ['close']])
    expect(report).toEqual({ status: 'needs_attention', note: COUNTED, ...counts })
    expect(all).toEqual([stored('patients')])
  })

  test.each([true, false])(
    'repairs if it is asked to, more than a run deletes by itself only if that is allowed: %s',
    async (allow) => {
      const { before } = await execute('patients', { repair: { allow_mass_delete: allow }, deep: false })
      expect(before).toEqual([...compared('patients', { allowMassDelete: allow }), ['close']])
    },
  )

  test('that is equal has no note', async () => {
    result = { stream: 'exports', status: 'succeeded', verified: equal }
    const { report } = await execute('exports', { repair: null, deep: false })
    expect(report).toMatchObject({
      status: 'succeeded',
      note: null,
      missing: 0,
      extra: 0,
      different: 0,
      repaired: 0,
    })
  })

  test.each(['failed', 'interrupted'] as const)('that %s says why, and stores nothing', async (status) => {
    result = { stream: 'exports', status, error: 'why' }
    const { report, before, stored: all } = await execute('exports', { repair: null, deep: true })
    expect(before).toEqual([...compared('exports'), ['close']])
    expect([report, all]).toEqual([{ status, note: 'why' }, []])
  })
})

describe('the slice of the files also compares them with the responses, which it reads for that,', () => {
  const deep = { repair: null, deep: true }
  const both = [...compared('exports'), ['read again', 'responses'], ['compare channels'], ['close']]

  test('and if they agree, its result stays as it is', async () => {
    const { report, before, stored: all } = await execute('exports', deep)
    expect(before).toEqual(both)
    expect(report).toEqual({ status: 'needs_attention', note: COUNTED, ...counts })
    const key = { runId: '7', teamId: 3, stream: 'exports' }
    expect(all.map(([what, , at, found]) => [what, at, found])).toEqual([
      ['store', key, verified],
      ['store channels', { runId: '7', teamId: 3 }, none],
    ])
  })

  test('and if they differ, a person has to look, though the tables are equal', async () => {
    channels = () => ({ ...none, differences: [place, place] })
    const { report } = await execute('exports', deep)
    expect(report.note).toBe(`${COUNTED}; exports and responses differ in 2 place(s)`)
    result = { stream: 'exports', status: 'succeeded', verified: equal }
    expect((await execute('exports', deep)).report).toMatchObject({
      ...{ status: 'needs_attention', note: 'exports and responses differ in 2 place(s)', missing: 0 },
    })
  })

  test('and if that fails, so does the slice, which stores nothing', async () => {
    channels = () => {
      throw new Error('no')
    }
    const { report, before, stored: all } = await execute('exports', deep)
    expect(before).toEqual(both)
    expect([report.status, all]).toEqual(['failed', []])
    const stop = AbortSignal.abort()
    expect((await execute('exports', deep, stop)).report.status).toBe('interrupted')
  })

  test('and only if that was asked for', async () => {
    const { before } = await execute('exports', { repair: null, deep: false })
    expect(before).toEqual([...compared('exports'), ['close']])
  })
})

test.each([
  ['verify', []],
  [
    'replay',
    [
      ['questions', 2],
      ['questions', 1],
    ],
  ],
] as const)(
  'a %s ends as the worst slice of all its teams, each of which is named',
  async (name, questions) => {
    const teams = [
      { team_id: 2, name: 'north', statuses: ['succeeded', 'needs_attention'] },
      { team_id: 1, name: 'south', statuses: ['succeeded', 'failed', 'succeeded'] },
    ]
    const close = (rows: readonly object[]) =>
      WORKS[name]!.close(
        scripted(() => rows),
        '7',
      )
    expect(await close(teams)).toEqual({
      status: 'failed',
      teams: ['north', 'south'],
      ids: [2, 1],
      stale: null,
    })
    expect(steps).toEqual(questions)
    expect(await close(teams.slice(0, 1))).toMatchObject({ status: 'needs_attention', teams: ['north'] })
  },
)
