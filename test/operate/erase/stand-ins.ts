/** Stand-ins for what an erasure does: each step is noted, and answers as the test says. */
import type { Removed } from '../../../src/operate/erase/remove.ts'
import { scripted } from '../../support/scripted.ts'

/** What a pass finds. */
interface Pass {
  readonly added: number
  readonly responses?: readonly string[]
  readonly aliases?: readonly string[]
  readonly contacts?: readonly string[]
  readonly clients?: readonly string[]
  readonly unnamed?: number
}

const fresh = () => ({
  steps: [] as string[],
  /** What a step was last given. */
  given: {} as Record<string, unknown>,
  passes: [{ added: 0 }] as Pass[],
  /** Failures of a step, first the one of its first call. */
  failures: {} as Record<string, unknown[]>,
  keepers: [] as string[][],
  /** Tables that the login does not own. */
  notOwned: [] as string[],
  /** Hashes that an earlier erasure left. */
  erased: [] as string[],
  known: true,
})

export const world = fresh()
export const renew = () => void Object.assign(world, fresh())

export function step(name: string, given?: unknown): void {
  world.steps.push(name)
  const failure = world.failures[name]?.shift()
  if (failure !== undefined) throw failure
  if (given !== undefined) world.given[name] = given
}

const pass = () => world.passes[0]!
const PATIENT = 'patient-1'

function answers(statement: string) {
  step(statement)
  if (statement.includes('session_user')) return [{ login: 'eraser' }]
  return statement.includes('pg_current_xact_id') ? [{ now: '99' }] : []
}

const removing = (name: string, counts: Partial<Removed>) => {
  return async (...given: readonly unknown[]) => {
    step(name, given.slice(1, -1))
    const removed = given.at(-1) as Removed
    for (const [key, count] of Object.entries(counts)) removed[key as keyof Removed] += count
  }
}

/** By the module that each belongs to. */
export const STAND_INS = {
  connect: {
    openSession: async (options: unknown) => {
      step('open', options)
      return { db: scripted(answers), [Symbol.asyncDispose]: async () => step('close') }
    },
  },
  erasures: {
    hashesOf: async (_: unknown, team: number) => {
      step('hashes', team)
      return { hashOf: ({ stream, id }: { stream: string; id: string }) => `${stream}:${id}` }
    },
    erasedAmong: async (_: unknown, hashes: readonly string[]) =>
      new Set(hashes.filter((hash) => world.erased.includes(hash))),
    noteErased: async (_: unknown, __: unknown, id: string, subjects: unknown, former: unknown) => {
      step('note', { id, subjects, former })
      return pass().added
    },
  },
  find: {
    isKnown: async () => world.known,
    findRecords: async () => {
      step('find')
      return new Map([
        ['patients', [PATIENT]],
        ['responses', pass().responses ?? []],
      ])
    },
  },
  identities: {
    findIdentities: async () => {
      step('identities')
      const { aliases = [], contacts = [] } = pass()
      return { aliases, contacts, names: [['Ann', 'Lee', 'a@b.c']], former: ['0f'] }
    },
    findClients: async () => {
      step('clients')
      const unnamed = Array.from({ length: pass().unnamed ?? 0 }, (_, row) => ({ exportId: 'e', row }))
      return { ids: [PATIENT, ...(pass().clients ?? [])], unnamed }
    },
  },
  remove: { removeRecords: removing('records', { records: 2, history: 4 }) },
  bodies: { removeBodies: removing('bodies', { events: 3, deadLetters: 5 }) },
  exportRows: {
    removeExportRows: async (...given: readonly unknown[]) => {
      await removing('export rows', { exportRows: 1 })(...given)
      if (world.passes.length > 1) world.passes.shift()
    },
  },
  statistics: {
    refreshStatistics: async () => {
      step('statistics')
      return true
    },
    keepersOf: async (_: unknown, transaction: string) => {
      step('keepers', transaction)
      return world.keepers.length > 1 ? world.keepers.shift()! : (world.keepers[0] ?? [])
    },
    tablesToRewrite: async () =>
      Object.entries({ 'intake.patients': 8_192, 'intake.messages': 5, 'intake_raw.inbox': 7 }).map(
        ([name, bytes]) => ({ name, bytes, own: !world.notOwned.includes(name) }),
      ),
    rewrite: async (_: unknown, name: string) => step(`rewrite ${name}`),
  },
  search: {
    searchEverywhere: async (_: unknown, patient: unknown, identifiers: Iterable<string>) => {
      step('search', { patient, identifiers: [...identifiers] })
      return { identifiers: 1, leftOut: 0, columns: 0, unreadable: [], left: [] }
    },
  },
} as const
