/** What the demo starts and calls in a test, in place of an embedded server, 3,000 patients and changes that take time. */
import { join } from 'node:path'
import { runProgram } from '../../../src/commands/program.ts'
import { STREAMS } from '../../../src/streams/catalogue.ts'

export const stage = {
  /** Of the warehouse. */
  url: '',
  folder: '',
  /** The options of each server. */
  asked: [] as object[],
  /** Servers and receivers. */
  stopped: 0,
  migrates: true,
  /** In place of a backfill. */
  fake: null as null | ((run: number) => Promise<unknown>),
  backfills: [] as { signal: AbortSignal; level: string; teams: readonly { name: string }[] }[],
}

/** What the backfills report of a stream, right unless a test changes it. */
export const summaryOf = (run: number, change: Readonly<Record<string, readonly [number, number]>>) => {
  const right: Readonly<Record<string, readonly [number, number]>> = {
    ...[{ patients: [45, 0], forms: [7, 0], packets: [5, 0], documents: [5, 0] } as const][run - 1],
    ...[null, { patients: [3, 2], forms: [1, 0] } as const][run - 1],
  }
  const figures = { ...right, ...change }
  const streams = STREAMS.map(({ name }) => {
    const [changed, deleted] = figures[name] ?? [0, 0]
    return { stream: name, report: { changed, deleted, note: null, seconds: 0, erased: 0 } }
  })
  return {
    runId: 1n,
    status: 'succeeded',
    teams: [{ name: 'demo', waiting: 0, streams }],
    waitingQuestions: [],
  }
}

export const ANALYTICS_KEY = Buffer.alloc(32, 9).toString('base64')

/** With settings of the user, which are not those of the demo. */
export function start(...words: string[]) {
  const stop = new AbortController()
  const said = { stdout: '', stderr: '' }
  let stays = () => {}
  const staying = new Promise<void>((resolve) => {
    stays = resolve
  })
  const env = {
    ...{ INTAKE_DATA_DIR: join(stage.folder, 'data'), DATABASE_URL: 'postgres://nobody@127.0.0.1:1/never' },
    ...{ INTAKE_TEAM: 'clinic', INTAKE_BASE_URL: 'not even a URL', LOG_LEVEL: 'error' },
    INTAKE_ANALYTICS_KEY: ANALYTICS_KEY,
  }
  const write = (text: string | Uint8Array) => {
    said.stdout += String(text)
    if (said.stdout.includes('intake-sync status\n')) stays()
  }
  const ended = runProgram(['demo', ...words], {
    ...{ env, stdout: { write }, stderr: { write: (text) => (said.stderr += String(text)) } },
    ...{ signal: stop.signal, version: '0.0.0' },
  })
  return { said, stop, ended, staying: Promise.race([staying, ended]) }
}
