/** Ctrl-C while a command cannot end by itself: the first one asks, a later one ends the process at once. */
import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { startCli } from '../support/cli.ts'

/** A warehouse that accepts connections and says nothing. */
async function openSilent() {
  const sockets: Socket[] = []
  const server = createServer((socket) => {
    sockets.push(socket.on('error', () => {}))
    socket.resume()
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  onTestFinished(() => {
    server.close()
    for (const socket of sockets) socket.destroy()
  })
  const { port } = server.address() as { port: number }
  return { url: `postgres://nobody@127.0.0.1:${port}/none`, connected: once(server, 'connection') }
}

test('after a signal, one of the next half second is an echo of it, and a later one ends the command with its code', async () => {
  const ways = [
    ['SIGINT', 'SIGINT', 130],
    ['SIGINT', 'SIGTERM', 143],
    ['SIGTERM', 'SIGINT', 130],
  ] as const
  const end = async ([first, later, code]: (typeof ways)[number]) => {
    const { url, connected } = await openSilent()
    const { process: child, ended } = startCli(['status'], { DATABASE_URL: url })
    await connected
    const begun = performance.now()
    child.kill(first)
    while (child.exitCode === null && child.signalCode === null) {
      await sleep(20)
      child.kill(later)
    }
    const passed = performance.now() - begun
    expect(await ended).toMatchObject({ code, signal: null, stdout: '' })
    expect(passed).toBeGreaterThan(500)
    // Not when the warehouse is given up.
    expect(passed).toBeLessThan(5_000)
  }
  await Promise.all(ways.map(end))
})
