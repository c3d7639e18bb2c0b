/** What a start of the supervisor or of Postgres leaves: files of the right owner, none of them open, and a port. */
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { ServerUser } from '../../src/embedded/home.ts'
import { settings } from '../../src/embedded/settings.ts'
import { startServer } from '../../src/embedded/start-server.ts'
import { startSupervisor } from '../../src/embedded/supervise.ts'
import { makeFolder, removeFolder } from '../support/folders.ts'

const ROOT = process.getuid?.() === 0
const LINUX = process.platform === 'linux'
const base = makeFolder('started-')
chmodSync(base, 0o711)
afterAll(() => removeFolder(base))

let homes = 0
let home: { directory: string; cluster: string; user: ServerUser | undefined }
let bin: string
const usual = process.execPath

beforeEach(() => {
  const directory = join(base, String(++homes))
  home = { directory, cluster: join(directory, 'cluster'), user: undefined }
  bin = join(directory, 'bin')
  for (const folder of [directory, home.cluster, bin]) {
    mkdirSync(folder)
    chmodSync(folder, 0o755)
  }
})
afterEach(() => {
  process.execPath = usual
  vi.unstubAllEnvs()
})

function program(name: string, text: string): string {
  const path = join(bin, name)
  writeFileSync(path, `#!/bin/sh\n${text}\n`)
  chmodSync(path, 0o755)
  return path
}

/** Files of the home that this process has open. */
const open = () =>
  readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      const path = readlinkSync(`/proc/self/fd/${fd}`)
      return path.startsWith(home.directory) ? [path] : []
    } catch {
      return []
    }
  })
const owner = (name: string) => {
  const { uid, gid } = statSync(join(home.directory, name))
  return [uid, gid]
}

async function supervised() {
  process.execPath = program('node', 'exit 1')
  return await startSupervisor({ home, bin, unsafe: true }).catch((error: Error) => error.message)
}

/** Starts a server that ends at once. */
async function served() {
  const server = await startServer({ home, bin, unsafe: true })
  expect(await server.ready).toBe(false)
  await server.ended
  return server
}

test('why a supervisor did not start is never what an earlier one said', async () => {
  writeFileSync(join(home.directory, 'supervisor.log'), 'Error: of yesterday\n')
  expect(await supervised()).toBe('the embedded Postgres did not start')
  if (LINUX) expect(open()).toEqual([])
})

test.runIf(ROOT)('logs that root begins in the folder of a user belong to that user', async () => {
  chownSync(home.directory, 65_534, 65_533)
  await supervised()
  program('postgres', 'exit 1')
  await served()
  for (const name of ['supervisor.log', 'server.log', 'port']) expect(owner(name)).toEqual([65_534, 65_533])
})

test.runIf(ROOT)(
  'a server runs as its user and group, in its folder, without the environment of the command',
  async () => {
    home.user = { name: 'nobody', uid: 65_534, gid: 65_533 }
    chmodSync(home.cluster, 0o777)
    vi.stubEnv('INTAKE_API_SECRET', 'canary')
    program('postgres', '{ id -u; id -g; pwd; env; } > tried')
    const { port, pid } = await served()
    const tried = readFileSync(join(home.cluster, 'tried'), 'utf8')
    expect(tried.split('\n').slice(0, 3)).toEqual(['65534', '65533', home.cluster])
    expect(tried).not.toContain('canary')
    expect(pid).toBeGreaterThan(0)
    expect(readFileSync(join(home.directory, 'port'), 'utf8')).toBe(`${port}\n`)
  },
)

test('a server gets its directory and each of its settings, for its port', async () => {
  program('postgres', 'printf "%s\\n" "$@" > tried')
  const { port } = await served()
  const expected = Object.entries(settings(port, true)).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  expect(readFileSync(join(home.cluster, 'tried'), 'utf8').trimEnd().split('\n')).toEqual([
    ...['-D', home.cluster, ...expected],
  ])
})

test('a server goes on in its log of up to a million bytes, which is not kept open; a longer one is put aside', async () => {
  program('postgres', 'echo said; echo complained >&2')
  const log = join(home.directory, 'server.log')
  const before = 'x'.repeat(999_999)
  writeFileSync(log, `${before}\n`)
  await served()
  expect(readFileSync(log, 'utf8')).toBe(`${before}\nsaid\ncomplained\n`)
  expect(existsSync(`${log}.old`)).toBe(false)
  if (LINUX) expect(open()).toEqual([])
  await served()
  expect(readFileSync(log, 'utf8')).toBe('said\ncomplained\n')
  expect(statSync(`${log}.old`).size).toBeGreaterThan(1_000_000)
})

test.each(['0\n', '-1\n', 'x\n', '', '1.5\n', '65536\n'])(
  'a stored port of %j is none: a free one is taken',
  async (text) => {
    const listening = () => process.getActiveResourcesInfo().filter((name) => name === 'TCPServerWrap').length
    const before = listening()
    program('postgres', 'exit 1')
    writeFileSync(join(home.directory, 'port'), text)
    const { port } = await served()
    // None that only root may have.
    expect(port).toBeGreaterThan(1_023)
    expect(port).toBeLessThan(65_536)
    // It was given back before the server was started.
    expect(listening()).toBe(before)
    expect(readFileSync(join(home.directory, 'port'), 'utf8')).toBe(`${port}\n`)
  },
)

test('a program that is not there is a server that has ended', async () => {
  const { pid } = await served()
  expect(pid).toBeUndefined()
})
