import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, describe, expect, test } from 'vitest'
import { openEmbedded } from '../src/warehouse/embedded/server.ts'
import { cleanUp, isServed, query, temporaryDirectory, until } from './support/embedded-fixture.ts'

const CLI = resolve(import.meta.dirname, '../src/cli.ts')
const TSX = import.meta.resolve('tsx')
const children: ChildProcess[] = []

interface Demo {
  readonly child: ChildProcess
  readonly ended: Promise<readonly [code: number | null, signal: string | null]>
  /** What it has written so far. */
  readonly output: { text: string; errors: string }
}

/** Starts the demo beside `data` in `directory`; `DATABASE_URL` and credentials that it must not touch are set. */
function start(directory: string, ...options: string[]): Demo {
  const child = spawn(process.execPath, ['--import', TSX, CLI, 'demo', ...options], {
    cwd: directory,
    env: {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      INTAKE_DATA_DIR: join(directory, 'a path', 'data'),
      DATABASE_URL: 'postgres://nobody@127.0.0.1:1/never',
      INTAKE_BASE_URL: 'not even a URL',
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  children.push(child)
  const output = { text: '', errors: '' }
  child.stdout!.on('data', (data) => {
    output.text += data
  })
  child.stderr!.on('data', (data) => {
    output.errors += data
  })
  return { child, ended: once(child, 'close') as Promise<[number | null, string | null]>, output }
}

function homeOf(directory: string): string {
  return join(directory, 'a path', 'data-demo')
}

async function nothingAnswers(url: string): Promise<boolean> {
  return await fetch(url).then(
    () => false,
    () => true,
  )
}

describe('intake-sync demo', () => {
  afterEach(async () => {
    for (const child of children.splice(0)) child.kill('SIGKILL')
    await cleanUp()
  })

  test('shows each step with its figures, in a path with spaces, and leaves nothing running', async () => {
    const directory = temporaryDirectory()
    const { ended, output } = start(directory)
    expect([await ended, output.errors]).toEqual([[0, null], ''])
    expect(output.text).toContain('All people, names and answers in it are invented.')
    expect(output.text).toMatch(/patients +3000 +3000 +0 +0 /)
    expect(output.text).toMatch(/patients +3001 +6 +2995 +2 /)
    expect(output.text).toMatch(/forms +12 +1 +11 +0 /)
    expect(output.text).toContain('s, 0 row versions written')
    expect(output.text).toContain('Who pays for your visits?')
    expect(output.text.match(/^-- .+\?/gm)).toHaveLength(5)
    expect(output.text).not.toMatch(/\(0 rows\)|postgres:\/\//)
    expect(isServed(homeOf(directory))).toBe(false)
    expect(await nothingAnswers(/http:\S+/.exec(output.text)![0])).toBe(true)
  })

  test('--json is one document with the steps, twice in a row', async () => {
    const directory = temporaryDirectory()
    for (const time of ['first', 'second']) {
      const { ended, output } = start(directory, '--json')
      expect([time, await ended, output.errors]).toEqual([time, [0, null], ''])
      const { steps, queries, service } = JSON.parse(output.text)
      const patients = steps.map((step: never) => (step as { backfill: Doc }).backfill.streams.patients)
      expect(patients).toMatchObject([
        { fetched: 3000, changed: 3000, deleted: 0 },
        { fetched: 3001, changed: 6, deleted: 2 },
        { fetched: 3001, changed: 0, deleted: 0 },
      ])
      expect(steps.at(-1).row_versions).toBe(0)
      for (const { rows } of queries) expect(rows.length).toBeGreaterThan(0)
      expect(service).toBeNull()
    }
  })

  test('killed at any moment and started again, it works', async () => {
    const directory = temporaryDirectory()
    for (const most of [900, 2_500, 5_000]) {
      const { child, ended } = start(directory)
      await Promise.race([sleep(300 + Math.random() * most), ended])
      child.kill('SIGKILL')
      await ended
    }
    const { ended, output } = start(directory)
    expect([await ended, output.errors]).toEqual([[0, null], ''])
    expect(output.text).toMatch(/patients +3001 +6 +2995 +2 /)
    expect(isServed(homeOf(directory))).toBe(false)
  })

  test('--stay keeps warehouse and service until Ctrl-C, then ends with 0; another demo there is refused', async () => {
    const directory = temporaryDirectory()
    const { child, ended, output } = start(directory, '--stay')
    for (const deadline = Date.now() + 50_000; !output.text.includes('INTAKE_API_SECRET='); ) {
      if (Date.now() > deadline || child.exitCode !== null) throw new Error(output.errors)
      await sleep(50)
    }
    const shown = (name: string) => new RegExp(`${name}='?([^'\\s]+)`).exec(output.text)![1]!
    const headers = { 'x-api-key': shown('INTAKE_API_KEY'), 'x-api-secret': shown('INTAKE_API_SECRET') }
    const answer = await fetch(`${shown('INTAKE_BASE_URL')}/v2/patients`, { headers })
    expect(await answer.json()).toMatchObject({ count: 3001 })
    expect(isServed(homeOf(directory))).toBe(true)
    const second = start(directory)
    expect([(await second.ended)[0], second.output.errors]).toEqual([
      3,
      expect.stringContaining('another demo is running'),
    ])
    child.kill('SIGINT')
    expect(await ended).toEqual([0, null])
    await until('the server stops', () => !isServed(homeOf(directory)))
    expect(await nothingAnswers(shown('INTAKE_BASE_URL'))).toBe(true)
  })

  test('a warehouse that is not a demo’s is refused, not emptied', async () => {
    const directory = temporaryDirectory()
    const server = await openEmbedded({ dataDir: homeOf(directory), unsafe: true })
    await query(server.url, 'create schema intake')
    await query(server.url, 'create table intake.teams (name text)')
    await query(server.url, `insert into intake.teams values ('clinic')`)
    const { ended, output } = start(directory)
    expect([(await ended)[0], output.errors]).toEqual([2, expect.stringContaining('not the demo’s')])
    expect(await query(server.url, 'select name from intake.teams')).toEqual([{ name: 'clinic' }])
    await server.stop()
  })
})

interface Doc {
  readonly streams: Readonly<Record<string, unknown>>
}
