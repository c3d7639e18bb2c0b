/**
 * One attack on the webhook endpoint, as a process of its own: `attacker.ts KIND URL SECONDS`. It knows no secret, except
 * `nested`, whose bodies its caller signed with `ATTACK_SECRET`.
 */
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { SIGNATURE_HEADER, sign } from '../../src/core/signature.ts'

const [kind = '', url = '', seconds = '0'] = process.argv.slice(2)
const { hostname, port } = new URL(url)
const until = performance.now() + Number(seconds) * 1000
const isOver = () => performance.now() >= until
const FORGED = 'f'.repeat(64)

const headOf = (length: number, signature = FORGED, path = '/webhooks') =>
  `POST ${path} HTTP/1.1\r\nHost: here\r\n${SIGNATURE_HEADER}: ${signature}\r\nContent-Length: ${length}\r\n\r\n`

/** Keeps `count` connections busy with `work` until the time is over; whatever ends one, another takes its place. */
async function keep(count: number, work: (socket: Socket) => Promise<void>, pauseMs = 250): Promise<void> {
  await Promise.all(
    Array.from({ length: count }, async () => {
      while (!isOver()) {
        const socket = connect(Number(port), hostname)
        socket.on('error', () => {})
        socket.resume()
        const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
        await Promise.race([work(socket), closed, sleep(until - performance.now())])
        socket.destroy()
        await sleep(pauseMs)
      }
    }),
  )
}

async function dribble(socket: Socket, head: string, everyMs: number, piece: string | Buffer): Promise<void> {
  socket.write(head)
  while (!isOver() && !socket.destroyed) {
    socket.write(piece)
    await sleep(everyMs)
  }
}

const lingering = () => sleep(until - performance.now())

/** Sends requests one after the other, each when the one before was answered. */
async function ask(socket: Socket, request: () => Buffer | string): Promise<void> {
  let wake = () => {}
  socket.on('data', () => wake())
  while (!isOver() && !socket.destroyed) {
    const answered = new Promise<void>((resolve) => {
      wake = resolve
    })
    socket.write(request())
    await answered
  }
}

const LARGE = Buffer.alloc(5_000_000, 0x5b)
const NESTED = [
  Buffer.alloc(5_000_000, '['),
  Buffer.alloc(5_000_000, '[],'),
  Buffer.alloc(5_000_000, '{"a":[1.0,'),
]

const ATTACKS: Readonly<Record<string, () => Promise<void>>> = {
  declared: () => keep(600, (socket) => dribble(socket, headOf(65_536), 1_000, 'x')),
  idle: () => keep(4_000, lingering, 2_000),
  heads: () => keep(1_000, (socket) => dribble(socket, 'POST /webhooks HTTP/1.1\r\n', 500, 'X: y\r\n')),
  forged: () => keep(64, (socket) => ask(socket, () => `${headOf(2)}{}`)),
  large: () =>
    keep(30, (socket) => ask(socket, () => Buffer.concat([Buffer.from(headOf(LARGE.length)), LARGE]))),
  trickle: () => keep(300, (socket) => dribble(socket, headOf(5_000_000), 100, LARGE.subarray(0, 4_096))),
  elsewhere: () => keep(64, (socket) => ask(socket, () => headOf(0, FORGED, '/webhooks/nobody'))),
  garbage: () => keep(64, (socket) => ask(socket, () => '\0\x01garbage\r\n\r\n')),
  async nested() {
    let sent = 0
    await keep(4, async (socket) => {
      // Each once: a body that is stored again is a duplicate.
      const body = NESTED[sent % NESTED.length]!.subarray(0, 5_000_000 - sent)
      sent += 1
      const signature = sign(body, process.env.ATTACK_SECRET!)
      const answered = new Promise<string>((resolve) => socket.once('data', (part) => resolve(String(part))))
      socket.write(Buffer.concat([Buffer.from(headOf(body.length, signature)), body]))
      process.stdout.write(`${(await answered).slice(9, 12)}\n`)
      await sleep(2_000)
    })
  },
}

await ATTACKS[kind]!()
process.exit(0)
