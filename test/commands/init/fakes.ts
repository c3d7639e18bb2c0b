/** What `init` tries, asks and calls, in a test: each notes that it was called, and whether the file was written by then. */
import { existsSync } from 'node:fs'
import type { Context } from '../../../src/commands/context.ts'
import type { Config } from '../../../src/config/config.ts'

export const world = {
  /** In order. */
  happened: [] as unknown[],
  /** The settings file. */
  path: '',
  failures: [] as object[],
  prepare: async () => {},
  questions: null as object | null,
  status: 'ok',
}

export const PROBE = {
  ...{ team: 'default', base_url: 'http://127.0.0.1:1', environment: null, streams: [] },
  ...{ requests: 3, is_lower_bound: false, permitted_rate: null, seconds: 1 },
}

export const KEY = { INTAKE_ENCRYPTION_KEY: 'BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=' }

const note = (what: string, ...more: unknown[]) =>
  void world.happened.push([what, existsSync(world.path) ? 'written' : 'not written', ...more])

export const probe = {
  firstFailure: async (_: object, { teams }: Config) => {
    note('service', ...teams.map(({ apiKey }) => apiKey))
    return world.failures.shift() ?? null
  },
  probed: async () => {
    note('probe')
    return [PROBE]
  },
  prepareWarehouse: async ({ env }: Context, config: Config) => {
    note('warehouse', env, config.databaseUrl ?? config.dataDir)
    await world.prepare()
    return ['a note']
  },
}

export const create = {
  ensureWebhook: async ({ env }: Context, { encryptionKey }: Config, url: string) => {
    note('webhook', url, encryptionKey === env.INTAKE_ENCRYPTION_KEY)
    return { id: 'c-1', created: true }
  },
}

export const doctor = {
  allChecks: async ({ env }: Context) => {
    note('checks', env.INTAKE_BASE_URL)
    return [{ name: 'disk', status: world.status, detail: 'free', hint: null }]
  },
}

export const text = {
  generatedKey: () => KEY.INTAKE_ENCRYPTION_KEY,
  openQuestions: async () => {
    note('terminal')
    return world.questions
  },
}
