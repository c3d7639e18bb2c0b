/** A supervisor that does not answer, or does not end, is waited for only so long. No pause takes its time here; each is noted. */
import { mkdirSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import { identityOf } from '../../src/embedded/process-identity.ts'
import { type Attachment, attach, writeAddress } from '../../src/embedded/supervise.ts'
import { makeFolder, removeFolder } from '../support/folders.ts'

const pauses = vi.hoisted<unknown[]>(() => [])
/** Whether a long pause ends. */
const late = vi.hoisted(() => ({ ends: false }))
vi.mock('node:timers/promises', async (original) => ({
  ...(await original<object>()),
  setTimeout: async (milliseconds: number, value: unknown, options: unknown) => {
    pauses.push(options === undefined ? milliseconds : [milliseconds, options])
    if (milliseconds > 1_000 && !late.ends) await new Promise(() => {})
    return value
  },
}))

const base = makeFolder('late-')
afterAll(() => removeFolder(base))
beforeEach(() => {
  pauses.length = 0
  late.ends = false
})

/** Connections of users to supervisors. */
let open = 0

/** Attaches to a supervisor, which this process is, and which answers `leave` like this. */
async function attached(name: string, answer: string | null): Promise<Attachment> {
  const directory = join(base, name)
  mkdirSync(directory)
  const server = createServer((socket) => {
    onTestFinished(() => void socket.destroy())
    open += 1
    socket.once('close', () => {
      open -= 1
    })
    socket.on('error', () => undefined)
    createInterface({ input: socket }).on('line', (line) => {
      if (line === 'token') socket.write('ready 1\n')
      else if (answer !== null) socket.end(answer)
    })
  })
  onTestFinished(() => void server.close())
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const home = { directory, cluster: join(directory, 'cluster'), user: undefined }
  const { port } = server.address() as { port: number }
  await writeAddress(home, { identity: identityOf(process.pid)!, port, token: 'token' })
  return (await attach(home)) as Attachment
}

test('one that says nothing when its user leaves is lost after two minutes, and no process waits for it', async () => {
  const attachment = await attached('silent', null)
  late.ends = true
  expect(await attachment.leave()).toBe('lost')
  expect(pauses).toEqual([[120_000, { ref: false }]])
  await expect.poll(() => open).toBe(0)
})

test('one that has stopped its server and stays is waited for two seconds', async () => {
  const attachment = await attached('staying', 'stopped\n')
  expect(await attachment.leave()).toBe('stopped')
  expect(pauses.slice(1)).toEqual(Array(200).fill(10))
  pauses.length = 0
  const other = await attached('left', 'left\n')
  expect(await other.leave()).toBe('left')
  expect(pauses).toHaveLength(1)
})
