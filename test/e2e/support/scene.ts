/**
 * A service, a warehouse and the variables with which a command reaches both.
 *
 * Invariant: every scene has a database of its own; closing it closes what it opened.
 */
import { type Emulator, type EmulatorOptions, startEmulator } from '../../../src/emulator/server.ts'
import type { Ended, Variables } from '../../support/cli.ts'
import { createTestDatabase } from '../../support/database.ts'
import { runCommand } from '../../support/run-command.ts'
import { ask, openTestSession } from '../../support/sessions.ts'

export interface Scene extends AsyncDisposable {
  readonly emulator: Emulator
  /** URL of the warehouse. */
  readonly url: string
  readonly env: Variables
  /** Runs in this process. */
  backfill(...args: string[]): Promise<Ended>
  query<Row extends object>(text: string, values?: unknown[]): Promise<Row[]>
}

/** A small world: enough for several pages of each list. */
export const SMALL: EmulatorOptions = {
  port: 0,
  patients: 45,
  forms: 7,
  packets: 5,
  documents: 5,
  responses: 48,
  pageSize: 10,
}

export async function openScene(
  options: EmulatorOptions = {},
  database: { empty?: boolean } = {},
): Promise<Scene> {
  // Without patients there are no answers.
  const nobody = options.patients === 0 ? { responses: 0 } : {}
  const emulator = await startEmulator({ ...SMALL, ...nobody, ...options })
  const warehouse = await openWarehouse(database)
  const env = { ...variablesOf(emulator), DATABASE_URL: warehouse.url }
  return {
    emulator,
    url: warehouse.url,
    env,
    backfill: (...args) => runCommand(['backfill', ...args], env),
    query: (text, values) => query(warehouse.url, text, values),
    [Symbol.asyncDispose]: async () => {
      await emulator.close()
      await warehouse.drop()
    },
  }
}

export function openWarehouse(options: { empty?: boolean } = {}) {
  return createTestDatabase(options)
}

/** The variables for the first team of production. */
export function variablesOf(emulator: Emulator): Variables {
  const { base_url, teams } = emulator.environments[0]!
  return {
    INTAKE_BASE_URL: base_url,
    INTAKE_API_KEY: teams[0]!.api_key,
    INTAKE_API_SECRET: teams[0]!.api_secret,
  }
}

export const query = ask

/** A session of the test. */
export const connect = openTestSession

export interface Document {
  readonly run_id: number | null
  readonly status: string
  readonly streams: Readonly<Record<string, Readonly<Record<string, number>> & { note: string | null }>>
}

/** The JSON document of `backfill --json`. */
export function documentOf(ended: Ended): Document {
  return JSON.parse(ended.stdout) as Document
}
