/** The ingester of the benchmarks: one team, one secret, no listeners. */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import pino from 'pino'
import { systemClock } from '../../src/core/clock.ts'
import { type Ingester, openIngester } from '../../src/ingest/http/server.ts'
import { programOf } from './child.ts'

export const SECRET = 'a secret of the benchmark'

/** `onStored` wakes a drain. */
export function openBenchIngester(
  url: string,
  onStored = () => {},
  teams: readonly { readonly name: string; readonly teamId: number }[] = [{ name: 'bench', teamId: 1 }],
): Promise<Ingester> {
  const secrets = { current: () => [SECRET], isRemoved: () => false, refresh: async () => [SECRET] }
  return openIngester({
    url,
    host: '127.0.0.1',
    port: 0,
    teams: teams.map((team) => ({ ...team, secrets })),
    clock: systemClock,
    logger: pino({ level: 'silent' }),
    watch: { stored() {}, rejected() {}, committed() {} },
    onStored,
  })
}

export interface IngesterProcess extends AsyncDisposable {
  readonly pid: number
  readonly url: string
}

/** The same in a process of its own, started like `serve` without flags. */
export async function startBenchIngester(warehouseUrl: string): Promise<IngesterProcess> {
  const flags = process.execArgv.filter((flag) => !flag.startsWith('--max-semi-space-size'))
  const words = [...flags, programOf('ingester-child'), warehouseUrl]
  const child = spawn(process.execPath, words, { stdio: ['pipe', 'pipe', 'inherit'] })
  const ended = once(child, 'exit')
  const { value, done } = await createInterface({ input: child.stdout })[Symbol.asyncIterator]().next()
  if (done === true) throw new Error('the ingester of the benchmark did not start')
  return {
    pid: child.pid!,
    url: value,
    async [Symbol.asyncDispose]() {
      child.stdin.end()
      await ended
    },
  }
}
