import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, describe, expect, test } from 'vitest'
import { openEmbedded } from '../src/embedded/server.ts'
import { type Running, startCli } from './support/cli.ts'
import { cleanUp, isServed, query, temporaryDirectory, until } from './support/embedded-fixture.ts'

const started: Running[] = []

/** Starts the demo with `data` in `directory`; `DATABASE_URL` and credentials that it must not use are set. */
function start(directory: string, ...options: string[]): Running {
  const running = startCli(['demo', ...options], {
    INTAKE_DATA_DIR: join(directory, 'a path', 'data'),
    DATABASE_URL: 'postgres://nobody@127.0.0.1:1/never',
    INTAKE_BASE_URL: 'not even a URL',
  })
  started.push(running)
  return running
}

async function expectDone({ ended }: Running): Promise<string> {
  const { code, signal, stdout, stderr } = await ended
  // A slow machine needs a longer timeout.
  const complaints = stderr.replaceAll(/^the embedded Postgres is still starting.*\n/gm, '')
  expect({ code, signal, complaints }).toEqual({ code: 0, signal: null, complaints: '' })
  return stdout
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
    for (const { process } of started.splice(0)) process.kill('SIGKILL')
    await cleanUp()
  })

  test('shows each step with its figures, in a path with spaces, and leaves nothing running; --json, after it, is one document with the steps', async () => {
    const directory = temporaryDirectory()
    const text = await expectDone(start(directory))
    expect(text).toContain('All people, names and answers in it are invented.')
    expect(text).toMatch(/patients +3000 +3000 +0 +0 /)
    expect(text).toMatch(/patients +3001 +6 +2995 +2 /)
    expect(text).toMatch(/forms +12 +1 +11 +0 /)
    expect(text).toContain('s, 0 row versions written')
    expect(text).toContain('Who pays for your visits?')
    expect(text).toMatch(/a patient was created +row visible after \d\.\d{3} s/)
    expect(text).toContain('found patients and forms unchanged')
    expect(text.match(/^-- .+\?/gm)).toHaveLength(10)
    expect(text).toContain('As an analyst: the role intake_analyst')
    expect(text).toMatch(/Who pays for your visits\? +single_choice +shown +since it was reworded/)
    expect(text).toContain('refused: permission denied for schema intake')
    expect(text).not.toMatch(/\(0 rows\)|postgres:\/\//)
    expect(isServed(homeOf(directory))).toBe(false)
    expect(await nothingAnswers(/http:\S+/.exec(text)![0])).toBe(true)

    const { steps, live, queries, analyst, service } = JSON.parse(
      await expectDone(start(directory, '--json')),
    )
    const patients = steps.map((step: never) => (step as { backfill: Doc }).backfill.streams.patients)
    expect(patients).toMatchObject([
      { fetched: 3000, changed: 3000, deleted: 0 },
      { fetched: 3001, changed: 6, deleted: 2 },
      { fetched: 3001, changed: 0, deleted: 0 },
      { fetched: 3001, changed: 0, deleted: 0 },
    ])
    expect(steps.at(2).row_versions).toBe(0)
    expect(live).toHaveLength(4)
    for (const { what, seconds } of live) expect([what, seconds < 5]).toEqual([what, true])
    expect(analyst.queries).toHaveLength(4)
    for (const { rows } of [...queries, ...analyst.queries]) expect(rows.length).toBeGreaterThan(0)
    expect(analyst.refused.reason).toBe('permission denied for schema intake')
    expect(service).toBeNull()
  }, 240_000)

  test('works after it was killed at any time and restarted', async () => {
    const directory = temporaryDirectory()
    for (const most of [900, 2_500, 5_000]) {
      const killed = start(directory)
      await Promise.race([sleep(300 + Math.random() * most), killed.ended])
      killed.process.kill('SIGKILL')
      await killed.ended
    }
    expect(await expectDone(start(directory))).toMatch(/patients +3001 +6 +2995 +2 /)
    expect(isServed(homeOf(directory))).toBe(false)
  })

  test('--stay keeps warehouse and service until Ctrl-C, then exits with 0; another demo there is rejected', async () => {
    const directory = temporaryDirectory()
    const staying = start(directory, '--stay')
    await staying.said('INTAKE_API_SECRET=')
    await until('it has shown all', () => /INTAKE_API_SECRET=\S+\s/.test(staying.output()))
    const shown = (name: string) => new RegExp(`${name}='?([^'\\s]+)`).exec(staying.output())![1]!
    const headers = { 'x-api-key': shown('INTAKE_API_KEY'), 'x-api-secret': shown('INTAKE_API_SECRET') }
    const answer = await fetch(`${shown('INTAKE_BASE_URL')}/v2/patients`, { headers })
    expect(await answer.json()).toMatchObject({ count: 3001 })
    expect(isServed(homeOf(directory))).toBe(true)
    const second = await start(directory).ended
    expect(second).toMatchObject({ code: 3, stderr: expect.stringContaining('another demo is running') })
    staying.process.kill('SIGINT')
    await expectDone(staying)
    await until('the server stops', () => !isServed(homeOf(directory)))
    expect(await nothingAnswers(shown('INTAKE_BASE_URL'))).toBe(true)
  })

  test('a warehouse that is not a demo’s is rejected, not emptied', async () => {
    const directory = temporaryDirectory()
    const server = await openEmbedded({ dataDir: homeOf(directory), unsafe: true })
    await query(server.url, 'create schema intake')
    await query(server.url, 'create table intake.teams (name text)')
    await query(server.url, `insert into intake.teams values ('clinic')`)
    const refused = await start(directory).ended
    expect(refused).toMatchObject({ code: 2, stderr: expect.stringContaining('not the demo’s') })
    expect(await query(server.url, 'select name from intake.teams')).toEqual([{ name: 'clinic' }])
    await server.stop()
  })
})

interface Doc {
  readonly streams: Readonly<Record<string, unknown>>
}
