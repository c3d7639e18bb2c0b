/**
 * What the demo opens, calls and closes, in place of an embedded server, a service, a warehouse and a console: each notes
 * that it was called, and with what.
 */
import type { BackfillOptions } from '../../../src/extract/backfill-options.ts'

export const world = {
  /** In order; `at` is called with each. */
  happened: [] as string[],
  at: (_: string) => {},
  servers: [] as { dataDir: string }[],
  claims: [] as unknown[],
  lives: [] as unknown[],
  consoles: [] as unknown[],
  backfills: [] as BackfillOptions[],
  summary: (_: number): unknown => ({}),
}

const note = (what: string) => {
  world.happened.push(what)
  world.at(what)
}
const closing = (what: string) => ({ [Symbol.asyncDispose]: async () => note(`${what} closed`) })

export const server = {
  openEmbedded: async (options: { dataDir: string; onNotice: (line: string) => void }) => {
    world.servers.push(options)
    options.onNotice('the server says something')
    note('server')
    return { url: 'postgres://u@127.0.0.1:5477/d', directory: '/data/16', ...closing('server') }
  },
}

export const connect = {
  openSession: async ({ url, purpose }: { url: string; purpose: string }) => {
    note(`session of ${url} for ${purpose}`)
    return closing('session')
  },
}

export const warehouse = {
  claimWarehouse: async (_: object, ...words: unknown[]) => {
    world.claims.push(words)
    note('claim')
    return '18.4'
  },
  markNow: async () => `mark before backfill ${world.backfills.length + 1}`,
  rowVersionsSince: async (_: object, mark: string) => {
    note(`rows since ${mark}`)
    return world.backfills.length === 3 ? 0 : world.backfills.length * 10
  },
}

export const service = {
  startDemoService: async () => {
    note('service')
    const sizes = { patients: 45, forms: 7, packets: 5, documents: 5 }
    const lists = Object.entries(sizes).map(([name, size]) => [name, { size }])
    const teams = [{ api_key: 'k', api_secret: 's' }, { api_key: 'other' }]
    const environments = [{ base_url: 'http://127.0.0.1:1', teams }, { base_url: 'http://other' }]
    return { environments, control: { world: () => Object.fromEntries(lists) }, ...closing('service') }
  },
  advanceWorld: () => {
    note('a day')
    return { created: 1, updated: 2, deleted: 2, reworded: 1 }
  },
}

export const live = {
  openLive: async ({ url, logger }: { url: string; logger: { level: string } }) => {
    world.lives.push([url, logger.level])
    note('live')
    return { ingest: 'http://127.0.0.1:7', admin: 'http://127.0.0.1:8', ...closing('live') }
  },
  watchChanges: async () => {
    note('changes')
    return [{ what: 'a patient moved', seconds: 0.25 }]
  },
}

export const backfill = {
  backfill: async (options: BackfillOptions) => {
    const run = world.backfills.push(options)
    note(`backfill ${run}`)
    return world.summary(run)
  },
}

export const report = {
  backfillText: () => `(table ${world.backfills.length})\n`,
  backfillDocument: () => `document ${world.backfills.length}`,
}

export const text = {
  runQuery: async (_: object, { question, sql }: { question: string; sql: string }) => {
    note('query')
    return { question, sql: sql.slice(0, 6), columns: ['n'], rows: [[1]] }
  },
}

export const analyst = {
  queryAsAnalyst: async () => {
    note('analyst')
    const answers = [{ question: 'Who?', sql: 'select 2', columns: ['m'], rows: [[2]] }]
    return { answers, refused: { sql: 'select names', reason: 'no' } }
  },
}

export const console = {
  openConfiguredConsole: async ({ env }: { env: object }, config: object, place: object) => {
    world.consoles.push([env, config, place])
    note('console')
    return { url: 'http://h:9', link: 'http://h:9/login?x', ...closing('console') }
  },
}
