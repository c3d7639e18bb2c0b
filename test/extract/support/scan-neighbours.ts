/** The neighbours of a scan, without a warehouse or a service: they answer as a test says, and note what they were asked. */
import type { Page } from '../../../src/api/paging/pages.ts'
import type { KnownEntry } from '../../../src/extract/scan/known-entries.ts'

/** What they were asked, in order. */
export const steps: unknown[][] = []
export const note = (...step: unknown[]) => void steps.push(step)
export const named = (...names: readonly string[]) => steps.filter(([name]) => names.includes(name as string))

const NOTHING = {
  /** Conflicts that each call of `finish` finds; ids seen twice; distinct ids. */
  conflicts: [] as string[][],
  repeated: [] as string[],
  distinct: 0,
  /** Pages after which progress is due. */
  due: [] as number[],
  /** What an earlier scan had found, if it is continued, which shows with the second page; its pages. */
  continued: null as object | null,
  kept: undefined as object | undefined,
}
export const given = { ...NOTHING }

export function forgetAll(): void {
  steps.length = 0
  Object.assign(given, structuredClone(NOTHING))
}

export const seenIds = {
  add: (id: string) => note('seen', id),
  keepSummaries: async (...of: unknown[]) => note('keep summaries', ...of),
  flushIfFull: async () => note('flush'),
  unchangedSummaries: async () => new Set(),
  count: async () => given.distinct,
  repeated: async () => given.repeated,
}

export async function openSeenIds(session: unknown) {
  note('open seen ids', session)
  return seenIds
}

export function openBatcher(_: unknown, mode: string) {
  note('open batcher', mode)
  return {
    async add(envelopes: readonly { id: string }[], dead: readonly { recordId: string | null }[]) {
      const deadIds = dead.map(({ recordId }) => recordId)
      note('add', idsOf(envelopes), deadIds)
    },
    addKnown: async (entries: readonly KnownEntry[], read: (entry: KnownEntry) => unknown) =>
      note('add known', idsOf(entries), entries.map(read)),
    async finish() {
      note('finish')
      return given.conflicts.shift() ?? []
    },
  }
}
const idsOf = (all: readonly { readonly id: string }[]) => all.map(({ id }) => id)

export async function openKnownEntries(...[, session, options]: unknown[]) {
  note('open known', session, options)
  return {
    read: 'reads known',
    async note({ number }: Page, reads: readonly (object | null)[]) {
      const isRead = reads.map((read) => read !== null)
      note('note', number, isRead)
    },
    keep: async (pages: unknown) => note('keep known', pages),
  }
}

export async function openScanProgress(...[, session, ids, scan]: unknown[]) {
  note('open progress', session, ids === seenIds, scan)
  let page = 0
  return {
    kept: given.kept,
    async decide(resumed: unknown, number: number) {
      page = number
      note('decide', resumed, number)
      return number === 2 ? given.continued : null
    },
    continued: () => (page >= 2 ? given.continued : null),
    skipped: () => (page >= 2 && given.continued !== null ? 40 : 0),
    add: (facts: unknown, ids: unknown) => note('progress', facts, ids),
    isDue: () => given.due.includes(page),
    keep: async (settle: () => Promise<unknown>) => note('kept', await settle()),
  }
}

export async function fetchWhole(_: unknown, wanted: readonly { id: string }[]) {
  if (wanted.length > 0) note('fetch', idsOf(wanted))
  return new Map()
}
