/**
 * A drain whose searches find what a test says, and whose batches are written when a test says so. A file that uses it
 * replaces the drain's neighbours with `vi.mock`; what the drain does with them is noted in order.
 */
import pino from 'pino'
import { vi } from 'vitest'
import { type Drain, type DrainOptions, openDrain } from '../../../src/ingest/drain/drain.ts'
import { type Loading, prepare, write } from '../../../src/ingest/drain/load-events.ts'
import { openSearchStart } from '../../../src/ingest/drain/search-start.ts'
import { openListener, openSessions } from '../../../src/ingest/drain/sessions.ts'

export type Batch = Awaited<ReturnType<typeof prepare>>

export const row = (seq: number) => ({ seq: String(seq), teamId: 1, attempts: 1, body: Buffer.from('{}') })

export const batchOf = (...seqs: readonly number[]) =>
  ({ rows: seqs.map(row), gathered: {} }) as unknown as Batch

export const loadedOf = (rows: unknown, refetches: number) =>
  ({ rows, dead: new Set(), settled: [], refetches }) as never

export const lost = () => Object.assign(new Error('Connection terminated'), { code: 'ECONNRESET' })

const nameOf = (session: unknown) => (session as { name: string }).name

export function openRounds() {
  const steps: string[] = []
  const said: Record<string, unknown>[] = []
  const sleepers = new Map<() => void, number>()
  const scene = {
    /** In microseconds. */
    now: 1_000_000_000,
    /** What the searches find, one after another; `wait`: what `looked` is called with. */
    found: [] as (Batch | Error | 'wait')[],
    looked: (_: Batch) => {},
    /** What ends the writing of the batch with these events. */
    ends: new Map<string, (error?: Error) => void>(),
    said,
    steps,
    notice: () => {},
    listener: {} as unknown,
    loading: null as unknown as Loading & { readonly backoffMs: readonly number[] },
    sleeping: () => [...sleepers.values()],
    /** The steps since the last call. */
    async done() {
      for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve))
      return steps.splice(0)
    },
    /** The same after the end of every sleep. */
    async pass() {
      for (const wake of [...sleepers.keys()]) wake()
      return await scene.done()
    },
    open(options: Partial<DrainOptions> = {}): Drain {
      const clock = {
        now: () => scene.now,
        sleep: (milliseconds: number, signal?: AbortSignal) =>
          new Promise<void>((resolve, reject) => {
            const wake = () => void (sleepers.delete(wake) && resolve())
            sleepers.set(wake, milliseconds)
            signal?.addEventListener('abort', () => sleepers.delete(wake) && reject(signal.reason))
          }),
      }
      return openDrain({
        ...{ url: 'postgres://here', teams: [{ name: 'north', teamId: 1 }], clock, pollMs: 700, batch: 2 },
        logger: pino({ base: null, timestamp: false }, { write: (line) => void said.push(JSON.parse(line)) }),
        watch: { drained: () => {}, refetched: () => {}, defect: () => {} },
        ...options,
      })
    },
  }
  vi.mocked(openSearchStart).mockImplementation(() => ({
    search: (find) => find(() => '0'),
    reset: () => void steps.push('forget where to search'),
  }))
  vi.mocked(openListener).mockImplementation(({ onNotice, url, channel }) => {
    Object.assign(scene, { notice: onNotice, listener: { url, channel } })
    return { close: async () => void steps.push('close listener') }
  })
  let sessions = 0
  const free: never[] = []
  vi.mocked(openSessions).mockImplementation(() => ({
    async take() {
      const query = (text: string) => void steps.push(text)
      const session = free.pop() ?? ({ name: `s${++sessions}`, client: { query } } as never)
      steps.push(`take ${nameOf(session)}`)
      return session
    },
    release(session) {
      steps.push(`release ${nameOf(session)}`)
      free.push(session as never)
    },
    discard: async (session) => void steps.push(`discard ${nameOf(session)}`),
    bounded: (_, work) => work,
    close: async () => void steps.push('close sessions'),
  }))
  vi.mocked(prepare).mockImplementation(async (session, loading) => {
    steps.push(`search in ${nameOf(session)}`)
    Object.assign(scene, { loading })
    const next = scene.found.shift() ?? null
    if (next instanceof Error) throw next
    if (next !== 'wait') return next
    return await new Promise<Batch>((resolve) => {
      scene.looked = resolve
    })
  })
  vi.mocked(write).mockImplementation(async (session, _, { rows }) => {
    const name = rows.map(({ seq }) => seq).join()
    steps.push(`write ${name} in ${nameOf(session)}`)
    await new Promise<void>((resolve, reject) => {
      scene.ends.set(name, (error) => (error === undefined ? resolve() : reject(error)))
    })
    return loadedOf(rows, 0)
  })
  return scene
}
