/** The steps of a batcher, without a warehouse: what it waits for, counts and passes on, and when it lets others work. */
import { beforeEach, describe, expect, test, vi } from 'vitest'
import { instantOf } from '../../../src/core/time.ts'
import { openBatcher } from '../../../src/extract/scan/batcher.ts'
import { emptyTally, type Source } from '../../../src/extract/source.ts'
import type { Batch } from '../../../src/load/merge/load.ts'
import type { LinesBuilder } from '../../../src/normalize/lines.ts'
import type { ReadRecord } from '../../../src/normalize/read-record.ts'
import { patients } from '../../../src/streams/patients.ts'
import { recordEnvelope } from '../../support/envelopes.ts'
import { turnsDuring } from '../../support/turns.ts'

/** What happened, in order. */
const steps: string[] = []
/** Lines that were given back to be reused. */
const released: unknown[] = []
/** Ids of records that the warehouse has in another state; it does not have the others. */
const stored = new Set<string>()

vi.mock('../../../src/normalize/lines.ts', async (original) => {
  const lines = await original<typeof import('../../../src/normalize/lines.ts')>()
  const openLines = (...of: Parameters<typeof lines.openLines>): LinesBuilder => {
    const own = lines.openLines(...of)
    own.release = (built) => void released.push(built)
    return own
  }
  return { ...lines, openLines }
})

vi.mock('../../../src/load/merge/skip-unchanged.ts', () => ({
  withoutUnchanged: async (_session: unknown, _stream: unknown, envelopes: readonly { id: string }[]) => {
    steps.push(`compare ${envelopes.length}`)
    return envelopes.map((each) => ({ ...each, isNew: !stored.has(each.id) }))
  },
  placesChanged: async (
    _session: unknown,
    _stream: unknown,
    teamId: number,
    entries: readonly { id: string }[],
  ) => {
    steps.push(`look up ${entries.length} of team ${teamId}`)
    return entries.flatMap(({ id }, place) => (stored.has(id) ? place : []))
  },
}))

beforeEach(() => {
  steps.length = 0
  released.length = 0
  stored.clear()
})

const place = { teamId: 3, stream: 'patients', observedAt: instantOf(0), origin: 'run:1 page:1' } as const
const person = (id: number | string) => recordEnvelope({ id: String(id), first_name: 'A' }, place)
const people = (count: number, from = 0) => Array.from({ length: count }, (_, at) => person(from + at))

function open(mode: Parameters<typeof openBatcher>[1], load?: () => Promise<unknown>) {
  const tally = emptyTally()
  const sent: Batch[] = []
  const source = {
    ...{ stream: patients, taken: { teamId: 3 }, tally },
    loaders: {
      run: (work: (session: unknown) => unknown) => Promise.resolve().then(() => work('a session')),
      ready: async () => void steps.push('ready'),
    },
    async load(_session: unknown, batch: Batch, loadMode: string) {
      sent.push(batch)
      steps.push(`load ${batch.lines.count} ${loadMode}`)
      await load?.()
      return { ...emptyTally(), changed: batch.lines.count, conflicts: [] }
    },
  } as unknown as Source
  return { batcher: openBatcher(source, mode), tally, sent }
}

const dead = (id: string): ReadRecord => ({
  kind: 'dead',
  deadLetter: { recordId: id, origin: 'run:1 page:1', reason: 'r', body: '{}' },
})

describe('entries that are known', () => {
  const entry = (id: string) => ({ id, hash: '' })

  test('are looked up when a loader is ready; those that changed are read, and their dead letters go with the next batch', async () => {
    const { batcher, tally, sent } = open('skip-unchanged')
    for (const id of ['a', 'b', 'd']) stored.add(id)
    const read: string[] = []
    await batcher.addKnown(['a', 'b', 'c', 'd'].map(entry), ({ id }) => {
      read.push(id)
      return id === 'b' ? dead(id) : { kind: 'record', envelope: person(id) }
    })
    expect(await batcher.finish()).toEqual([])
    expect(read).toEqual(['a', 'b', 'd'])
    expect(steps).toEqual(['ready', 'look up 4 of team 3', 'compare 2', 'load 2 merge'])
    expect(sent.map(({ deadLetters }) => deadLetters.map(({ recordId }) => recordId))).toEqual([['b']])
    expect(tally).toEqual({ ...emptyTally(), changed: 2, unchanged: 1 })
  })

  test('that became dead letters are sent alone where no record changed', async () => {
    const { batcher, sent } = open('skip-unchanged')
    stored.add('b')
    await batcher.addKnown([entry('b')], ({ id }) => dead(id))
    await batcher.finish()
    expect(sent.map(({ lines, deadLetters }) => [lines.count, deadLetters.length])).toEqual([[0, 1]])
  })

  test('ask the warehouse nothing where there are none', async () => {
    const { batcher } = open('skip-unchanged')
    await batcher.addKnown([], () => expect.unreachable())
    await batcher.finish()
    expect(steps).toEqual(['ready'])
  })

  test('are refused after a batch could not be loaded', async () => {
    const { batcher } = open('merge', () => Promise.reject(new Error('no')))
    await batcher.add([person('a'), person('a')], [])
    await expect(batcher.finish()).rejects.toThrow('no')
    steps.length = 0
    await expect(batcher.addKnown([entry('a')], () => expect.unreachable())).rejects.toThrow('no')
    expect(steps).toEqual(['ready'])
  })
})

test.each([
  ['new', 'straight'],
  ['changed', 'merge'],
])(
  'three hundred %s records are loaded at once where nothing else is, and the others at the end',
  async (what, mode) => {
    const { batcher } = open('skip-unchanged')
    const loads = () => steps.filter((step) => step.startsWith('load'))
    const all = people(400)
    if (what === 'changed') for (const { id } of all) stored.add(id)
    await batcher.add(all.slice(0, 299), [])
    await expect.poll(() => steps).toContain('compare 299')
    expect(loads()).toEqual([])
    await batcher.add(all.slice(299, 399), [])
    await expect.poll(loads).toEqual([`load 399 ${mode}`])
    await batcher.add(all.slice(399), [])
    await batcher.finish()
    expect(loads()).toEqual([`load 399 ${mode}`, `load 1 ${mode}`])
  },
)

test.each(['merge', 'straight'] as const)(
  'in mode %s, others get a turn every twenty records',
  async (mode) => {
    const { batcher } = open(mode)
    expect(await turnsDuring(() => batcher.add(people(19), []))).toBe(0)
    expect(await turnsDuring(() => batcher.add(people(100, 100), []))).toBe(5)
    await batcher.finish()
  },
)

test('the memory of a batch is reused once it is loaded, and not before', async () => {
  const loads: (() => void)[] = []
  const { batcher, sent } = open('merge', () => new Promise<void>((resolve) => loads.push(resolve)))
  await batcher.add([person('a'), person('a')], [])
  await expect.poll(() => loads.length).toBe(1)
  expect(released).toEqual([])
  const done = batcher.finish()
  loads.shift()!()
  await expect.poll(() => released).toEqual([sent[0]!.lines])
  await expect.poll(() => loads.length).toBe(1)
  loads.shift()!()
  await done
  expect(released).toEqual(sent.map(({ lines }) => lines))
})

test('everything is loaded in straight mode by full batches and at the end, and never in smaller ones', async () => {
  const { batcher } = open('straight')
  for (let from = 0; from < 1_000; from += 100) await batcher.add(people(100, from), [])
  expect(steps.filter((step) => step.startsWith('load'))).toEqual([])
  await batcher.finish()
  expect(steps.filter((step) => step.startsWith('load'))).toEqual(['load 1000 straight'])
})
