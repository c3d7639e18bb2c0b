/** On Windows a server is found with tasklist and stopped with pg_ctl; scripts stand in for both here. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { endOrphans, findPostmaster, serves, stopPostmaster } from '../../src/embedded/postmaster.ts'
import { makeFolder, removeFolder } from '../support/folders.ts'

const folder = makeFolder('windows-')
const cluster = join(folder, 'cluster')
const home = { directory: folder, cluster, user: undefined }
const [asked, stopped, running] = ['asked', 'stopped', 'running'].map((name) => join(folder, name)) as [
  ...[string, string, string],
]

const program = (name: string, text: string) => {
  writeFileSync(join(folder, name), `#!/bin/sh\n${text}\n`)
  chmodSync(join(folder, name), 0o755)
}
const linesOf = (path: string) => readFileSync(path, 'utf8').trim().split('\n')

beforeEach(() => {
  mkdirSync(cluster, { recursive: true })
  program('tasklist', `echo "$@" >> '${asked}'; cat '${running}' 2>/dev/null`)
  writeFileSync(running, 'postgres.exe  7 Console\n')
  vi.stubEnv('PATH', `${folder}:${process.env.PATH}`)
  vi.spyOn(process, 'platform', 'get').mockReturnValue('win32')
})
afterEach(() => {
  vi.useRealTimers()
  vi.restoreAllMocks()
  vi.unstubAllEnvs()
  removeFolder(folder)
})

test.skipIf(process.platform === 'win32')(
  'a server is a process of its name, as tasklist lists the pid, and has a pid file',
  () => {
    expect(serves(process.pid, home)).toBe(true)
    expect(linesOf(asked)).toEqual([`/FI PID eq ${process.pid} /NH`])
    writeFileSync(join(cluster, 'postmaster.pid'), `${process.pid}\n\n\n5433\n\n\n\nready\n`)
    expect(findPostmaster(home)).toEqual({ pid: process.pid, port: 5433, ready: true })
    writeFileSync(running, 'INFO: No tasks are running\n')
    expect(serves(process.pid, home)).toBe(false)
    rmSync(running)
    expect(serves(process.pid, home)).toBe(false)
  },
)

test.skipIf(process.platform === 'win32')(
  'it is stopped fast, then at once, with the environment of the server alone; no process of it is looked for',
  async () => {
    // As Postgres does: it ends after the second call.
    program(
      'pg_ctl',
      `echo "$@" >> '${stopped}'; env >> '${asked}.env'; test $(wc -l < '${stopped}') -lt 2 || echo none > '${running}'`,
    )
    vi.stubEnv('INTAKE_API_SECRET', 'canary')
    const server = spawn('sleep', ['60'])
    await once(server, 'spawn')
    vi.useFakeTimers({ toFake: ['Date'] })
    const stopping = stopPostmaster(server.pid!, home, folder)
    await vi.waitFor(() => expect(linesOf(stopped)).toHaveLength(1), { timeout: 60_000 })
    vi.setSystemTime(Date.now() + 61_000)
    await stopping
    expect(linesOf(stopped)).toEqual([`stop -D ${cluster} -m fast -W`, `stop -D ${cluster} -m immediate -W`])
    expect(readFileSync(`${asked}.env`, 'utf8')).not.toContain('canary')
    expect(server.signalCode).toBeNull()
    server.kill('SIGKILL')
    const looks = linesOf(asked).length
    await endOrphans(home, 5_000)
    expect(linesOf(asked)).toHaveLength(looks)
  },
)

test.skipIf(process.platform === 'win32')('without pg_ctl it is waited for, and nothing breaks', async () => {
  expect(existsSync(join(folder, 'pg_ctl'))).toBe(false)
  vi.useFakeTimers({ toFake: ['Date'] })
  const stopping = stopPostmaster(process.pid, home, folder)
  await vi.waitFor(() => expect(linesOf(asked).length).toBeGreaterThan(1), { timeout: 60_000 })
  writeFileSync(running, 'none')
  await stopping
})
