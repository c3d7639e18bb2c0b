import net from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openProxy, type TcpProxy } from './proxy.ts'

/** An echo server. */
const echo = net.createServer({ allowHalfOpen: true }, (socket) => {
  socket.on('error', () => {}).pipe(socket)
})
let proxy: TcpProxy

beforeAll(async () => {
  await new Promise<void>((listening) => echo.listen(0, '127.0.0.1', listening))
  proxy = await openProxy(`http://127.0.0.1:${(echo.address() as net.AddressInfo).port}`)
})

afterAll(async () => {
  await proxy[Symbol.asyncDispose]()
  await new Promise((closed) => echo.close(closed))
})

/** The answer to `text`, and how the connection ended if the other side ended it. */
async function say(text: string, whileOpen: () => Promise<void> = async () => {}) {
  const { hostname, port } = new URL(proxy.through('http://x:1'))
  const socket = net.connect({ host: hostname, port: Number(port) })
  let heard = ''
  socket.setEncoding('utf8').on('data', (piece: string) => {
    heard += piece
    if (heard.length >= text.length) socket.end()
  })
  const end = new Promise<string>((done) => {
    socket.once('end', () => done('ended'))
    socket.once('error', (error: NodeJS.ErrnoException) => done(error.code!))
  })
  socket.write(text)
  await whileOpen()
  const how = await end
  return { heard, end: how, whole: heard === text }
}

test('every byte passes, in both directions and in order', async () => {
  proxy.become({ kind: 'good' })
  const text = Array.from({ length: 200_000 }, (_, at) => at).join()
  expect(await say(text)).toMatchObject({ whole: true, end: 'ended' })
  expect(await say('short')).toMatchObject({ heard: 'short' })
})

test('an address keeps all but its host and port', () => {
  const url = new URL(proxy.through('postgres://who:secret@elsewhere:5432/database?sslmode=disable'))
  expect(url).toMatchObject({
    protocol: 'postgres:',
    username: 'who',
    password: 'secret',
    hostname: '127.0.0.1',
  })
  expect([url.pathname, url.search, url.port === '5432']).toEqual(['/database', '?sslmode=disable', false])
})

test('away, it resets who is connected and who comes', async () => {
  proxy.become({ kind: 'good' })
  const open = say('x'.repeat(10), async () => {
    await sleep(20)
    proxy.become({ kind: 'away' })
  })
  expect(await open).toMatchObject({ end: expect.stringMatching(/^(?:ECONNRESET|ended)$/) })
  expect(await say('a')).toEqual({ heard: '', end: 'ECONNRESET', whole: false })
  proxy.become({ kind: 'good' })
  expect(await say('a')).toMatchObject({ whole: true })
})

test('silent, it lets nothing pass until it is not any more', async () => {
  proxy.become({ kind: 'silent' })
  let early = true
  const said = say('later').finally(() => {
    early = false
  })
  await sleep(100)
  expect(early).toBe(true)
  proxy.become({ kind: 'good' })
  expect(await said).toMatchObject({ whole: true })
})

test('slow, it takes its time in each direction', async () => {
  proxy.become({ kind: 'slow', ms: 60 })
  const begun = performance.now()
  expect(await say('slowly')).toMatchObject({ whole: true })
  expect(performance.now() - begun).toBeGreaterThanOrEqual(120)
})

test('it loses answers, and cuts answers and requests at a byte', async () => {
  proxy.become({ kind: 'answers lost' })
  expect(await say('abc')).toEqual({ heard: '', end: 'ECONNRESET', whole: false })
  proxy.become({ kind: 'answers cut', bytes: 2 })
  expect(await say('abc')).toEqual({ heard: 'ab', end: 'ended', whole: false })
  proxy.become({ kind: 'requests cut', bytes: 2 })
  expect(await say('abc')).toMatchObject({ end: 'ended', whole: false })
})
