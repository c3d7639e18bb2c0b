/** What doctor finds on this machine: Node, disk, ports, and a serve that runs. */
import { createServer } from 'node:http'
import { type AddressInfo, Server } from 'node:net'
import { networkInterfaces } from 'node:os'
import { expect, onTestFinished, test, vi } from 'vitest'
import { diskCheck, nodeCheck, portCheck, serveAnswers } from '../../../src/operate/doctor/machine.ts'

test.each([
  ['v18.20.0', '2026-01-01', 'failed', /older than 20\.19/],
  ['v20.18.3', '2026-01-01', 'failed', /older than 20\.19/],
  ['v20.19.0', '2026-04-30', 'ok', /^Node v20\.19\.0$/],
  ['v20.19.4', '2026-05-01', 'warning', /past its end of life \(2026-04-30\)/],
  ['v22.1.0', '2027-04-30', 'ok', /./],
  ['v22.1.0', '2027-05-01', 'warning', /past its end of life \(2027-04-30\)/],
  ['v23.1.0', '2026-06-01', 'warning', /not a long-term release/],
  ['v24.1.0', '2026-06-01', 'ok', /./],
  ['v26.0.0', '2029-05-01', 'warning', /past its end of life/],
  ['v28.0.0', '2030-01-01', 'ok', /./],
])('Node %s on %s: %s', (version, today, status, detail) => {
  expect(nodeCheck(version, today)).toMatchObject({ status, detail: expect.stringMatching(detail) })
})

const GB = 1024 ** 3

test.each([
  [0, 'failed', /^0\.0 GB are free/],
  [GB / 4 - 1, 'failed', /^0\.2 GB/],
  [GB / 4, 'warning', /^0\.3 GB/],
  [2 * GB - 1, 'warning', /^2\.0 GB/],
  [2 * GB, 'ok', /^2\.0 GB/],
  [null, 'ok', /on another machine/],
])('%d bytes free: %s', (free, status, detail) => {
  expect(diskCheck(free)).toMatchObject({ status, detail: expect.stringMatching(detail) })
})

/** A server that answers all requests with this status. */
async function listen(status: number, host = '127.0.0.1'): Promise<number> {
  const server = createServer((_, response) => response.writeHead(status).end('{}'))
  await new Promise<void>((resolve) => server.listen(0, host, resolve))
  onTestFinished(() => void server.close())
  return (server.address() as AddressInfo).port
}

test('a port is free, used by serve, used by another program, or of an address that this machine has not', async () => {
  const check = (host: string, port: number, isOurs = false) =>
    portCheck({ name: 'webhook port', variable: 'INTAKE_WEBHOOK_PORT', host, port }, isOurs)
  const port = await listen(200)
  expect(await check('127.0.0.1', 0, true)).toMatchObject({ status: 'ok', detail: 'any free port' })
  expect(await check('127.0.0.1', port, true)).toMatchObject({
    ...{ name: 'webhook port', status: 'ok', detail: `serve listens on 127.0.0.1:${port}` },
  })
  expect(await check('127.0.0.1', port)).toMatchObject({
    ...{ status: 'failed', detail: `another program uses 127.0.0.1:${port}` },
    hint: 'stop it, or set INTAKE_WEBHOOK_PORT to a free port',
  })
  expect(await check('192.0.2.1', port)).toMatchObject({
    ...{ status: 'failed', detail: '192.0.2.1 is not an address of this machine (EADDRNOTAVAIL)' },
    hint: 'correct INTAKE_WEBHOOK_HOST',
  })
})

test.each([
  ['EACCES', 'this user may not listen on 127.0.0.1:443', 'set INTAKE_WEBHOOK_PORT to a port above 1023'],
  ['ENOTFOUND', '127.0.0.1 is not an address of this machine (ENOTFOUND)', 'correct INTAKE_WEBHOOK_HOST'],
])('a port that cannot be opened because of %s is a failure with a hint', async (code, detail, hint) => {
  vi.spyOn(Server.prototype, 'listen').mockImplementation(function (this: Server) {
    process.nextTick(() => this.emit('error', Object.assign(new Error('listen'), { code })))
    return this
  })
  onTestFinished(() => void vi.restoreAllMocks())
  const port = { name: 'webhook port', variable: 'INTAKE_WEBHOOK_PORT', host: '127.0.0.1', port: 443 }
  expect(await portCheck(port, true)).toEqual({ name: 'webhook port', status: 'failed', detail, hint })
})

test('serve is recognized by its answer, at the address on which it listens', async () => {
  const [healthy, ill] = [await listen(200), await listen(500)]
  expect(await serveAnswers('127.0.0.1', healthy)).toBe(true)
  expect(await serveAnswers('0.0.0.0', healthy)).toBe(true)
  expect(await serveAnswers('127.0.0.1', ill)).toBe(false)
  expect(await serveAnswers('127.0.0.1', 1)).toBe(false)
  expect(await serveAnswers('127.0.0.1', 0)).toBe(false)
  // A machine may be without IPv6.
  const isThere = Object.values(networkInterfaces()).some((all) =>
    all?.some(({ address }) => address === '::1'),
  )
  if (isThere) expect(await serveAnswers('::1', await listen(200, '::1'))).toBe(true)
})
