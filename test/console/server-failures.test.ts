/** A console over a warehouse that never answers: what fails, what is kept of it, and addresses that cannot be opened. */
import { request } from 'node:http'
import { connect, Server } from 'node:net'
import { afterEach, expect, it, vi } from 'vitest'
import type { Setting } from '../../src/console/shared.ts'
import { systemClock } from '../../src/core/clock.ts'
import { openWarehouse } from '../e2e/support/scene.ts'
import { takeDefects } from '../support/defects.ts'
import { startConsole, whole } from './support/console.ts'

const NOWHERE = 'postgres://nobody@127.0.0.1:9/nothing'

afterEach(() => {
  vi.restoreAllMocks()
})

it('a page that failed is rendered again for the next reader, whatever was read for it', async () => {
  const warehouse = await openWarehouse()
  let fails = false
  let rendered = 0
  const setting: Setting = {
    get name() {
      rendered += 1
      if (fails) throw new TypeError('canary of a defect')
      return 'INTAKE_ODD'
    },
    ...{ value: 'v', from: 'f' },
  }
  // Readings stay as they are while no time passes.
  let now = 1_760_000_000_000_000
  const clock = { ...systemClock, now: () => now }
  const console_ = await startConsole(warehouse.url, { settings: [setting], clock })
  try {
    const viewer = await console_.enter('viewer')
    expect(await whole(viewer, '/health')).toContain('INTAKE_ODD')
    const before = rendered
    expect(await whole(viewer, '/health')).toContain('INTAKE_ODD')
    expect(rendered).toBe(before)
    fails = true
    expect((await viewer.get('/health?again')).status).toBe(500)
    fails = false
    expect((await viewer.get('/health?again')).status).toBe(200)
    // Of more addresses than fifty none is remembered.
    for (let at = 0; at < 50; at += 1) await viewer.get(`/health?${at}`)
    const many = rendered
    await viewer.get('/health?49')
    expect(rendered).toBe(many)
    await viewer.get('/health')
    expect(rendered).toBe(many + 1)
    // One of two readings is another one after half a minute.
    now += 31_000_000
    await expect.poll(async () => [(await viewer.get('/health')).status, rendered - many]).toEqual([200, 2])
    takeDefects()
  } finally {
    await console_.close()
    await warehouse.drop()
  }
})

it('a port that may not be opened is named, with what to set; another failure stays what it is', async () => {
  const refuse = (code: string) =>
    vi.spyOn(Server.prototype, 'listen').mockImplementation(function (this: Server) {
      queueMicrotask(() => this.emit('error', Object.assign(new Error('refused'), { code })))
      return this
    })
  refuse('EACCES')
  await expect(startConsole(NOWHERE, { port: 81 })).rejects.toMatchObject({
    ...{ code: 'port_unusable', variable: 'INTAKE_CONSOLE_PORT', message: 'port 81 may not be opened' },
    hint: 'set INTAKE_CONSOLE_PORT',
  })
  refuse('EADDRNOTAVAIL')
  await expect(startConsole(NOWHERE, { port: 81 })).rejects.toMatchObject({ code: 'EADDRNOTAVAIL' })
})

it('links and addresses are those of the public URL, without its path; without one, those of the process', async () => {
  const publicUrl = 'https://console.example.org:8443/'
  await using proxied = await startConsole(NOWHERE, { publicUrl })
  expect(proxied.url).toBe('https://console.example.org:8443')
  expect(proxied.link('ada', 'viewer')).toMatch(
    /^https:\/\/console\.example\.org:8443\/login\?link=[\w-]{43}$/,
  )
  await using own = await startConsole(NOWHERE)
  expect([own.url, new URL(own.link('ada', 'viewer')).origin]).toEqual(
    Array(2).fill(`http://127.0.0.1:${own.port}`),
  )
})

it('a console that closes waits for no request that is still being sent', async () => {
  const console_ = await startConsole(NOWHERE)
  const socket = connect(console_.port, '127.0.0.1')
  const lost = new Promise((resolve) => socket.once('close', resolve).once('error', resolve))
  await new Promise((resolve) => socket.write('GET /login HTTP/1.1\r\nHost: 127.0.0.1\r\n', resolve))
  // What arrives after it is answered first.
  expect((await console_.reader().get('/login')).status).toBe(200)
  let closed = false
  const closing = console_.close().then(() => {
    closed = true
  })
  await expect.poll(() => closed, { timeout: 15_000 }).toBe(true)
  await Promise.all([closing, lost])
})

it('who prints a link is audited by login or as nobody, and from where', async () => {
  const warehouse = await openWarehouse()
  try {
    await using console_ = await startConsole(warehouse.url, { login: 'grace', linkRole: 'steward' })
    const viewer = await console_.enter('viewer', 'ada')
    // By another name of this machine: what is audited is the address.
    const status = await new Promise((resolve, reject) => {
      const { port } = console_
      const headers = { host: `localhost:${port}`, 'content-type': 'application/x-www-form-urlencoded' }
      const options = { host: '127.0.0.1', port, method: 'POST', path: '/login/link', headers }
      request(options, (answer) => resolve(answer.resume().statusCode))
        .on('error', reject)
        .end('')
    })
    expect(status).toBe(200)
    expect((await viewer.post('/login/link')).status).toBe(200)
    const operator = await console_.enter('operator')
    const { text } = await operator.get('/audit')
    const rows = [...text.matchAll(/<td>([^<]*)<\/td><th scope="row">link<\/th>(.*?)<\/tr>/g)].map(
      ([, login, rest]) => [
        login,
        rest!
          .replace(/<[^>]*>/g, ' ')
          .replace(/\s+/g, ' ')
          .trim(),
      ],
    )
    const detail = 'grace from 127.0.0.1, role steward, printed true'
    expect(rows.map(([login, rest]) => [login, rest!.split(/, | /).toSorted()])).toEqual([
      ['ada', detail.split(/, | /).toSorted()],
      ['(not logged in)', detail.split(/, | /).toSorted()],
    ])
    expect(console_.printed).toHaveLength(2)
    for (const link of console_.printed) {
      const secret = new URL(link).searchParams.get('link')!
      const entered = await console_.reader().post('/login', { link: secret })
      expect(entered.status).toBe(303)
      const cookie = entered.headers.get('set-cookie')!.split(';')[0]
      expect((await console_.reader(cookie).get('/')).text).toContain('grace')
    }
  } finally {
    await warehouse.drop()
  }
})
