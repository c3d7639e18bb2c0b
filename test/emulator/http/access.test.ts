import { connect } from 'node:net'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { type Emulator, startEmulator } from '../../../src/emulator/server.ts'
import { type Caller, callerOf } from '../caller.ts'
import { formOf, lines, postUpload } from './resources/uploading.ts'

let emulator: Emulator
let first: Caller
let second: Caller
let sandbox: Caller

beforeAll(async () => {
  emulator = await startEmulator({ port: 0, patients: 7, apiKey: 'my-key', apiSecret: 'my-secret' })
  first = callerOf(emulator)
  second = callerOf(emulator, 0, 1)
  sandbox = callerOf(emulator, 1, 0)
})
afterAll(() => emulator.close())

describe('credentials', () => {
  it('given on the command line belong to the first team of production', async () => {
    expect(first.credentials).toEqual({ 'X-API-KEY': 'my-key', 'X-API-SECRET': 'my-secret' })
    expect((await first.get('/v2/patients')).status).toBe(200)
  })

  it('that are missing, either of them, answer 401', async () => {
    for (const headers of [{}, { 'X-API-KEY': 'my-key' }, { 'X-API-SECRET': 'my-secret' }]) {
      const { status, body } = await first.get('/v2/patients', headers)
      expect({ status, body }).toEqual({ status: 401, body: { detail: 'No credentials provided.' } })
    }
  })

  it('that match no pair answer 403, also those of the other environment and a mix of two teams', async () => {
    const mixed = { ...first.credentials, 'X-API-SECRET': second.credentials['X-API-SECRET']! }
    const pairs = [
      ...[
        ['my-key', 'my-secre'],
        ['my-key', 'my-secret-'],
        ['my-key', 'my-Secret'],
        ['my-ke', 'my-secret'],
      ],
      ...[
        ['my-keys', 'my-secret'],
        ['my-secret', 'my-key'],
        ['my-key', 'my-key'],
        ['a', 'b'],
      ],
    ].map(([key, secret]) => ({ 'X-API-KEY': key!, 'X-API-SECRET': secret! }))
    for (const headers of [...pairs, sandbox.credentials, mixed]) {
      const { status, body } = await first.get('/v2/patients', headers)
      expect({ status, body }).toEqual({ status: 403, body: { detail: 'Invalid credentials.' } })
    }
  })
})

describe('isolation', () => {
  it('a record of another team or environment is not found by any method', async () => {
    const [mine] = await first.rows('/v2/patients')
    for (const other of [second, sandbox]) {
      for (const method of ['GET', 'PATCH', 'DELETE']) {
        const { status, body } = await other.send(
          method,
          `/v2/patients/${mine.id}`,
          method === 'PATCH' ? {} : undefined,
        )
        expect({ status, body }).toEqual({ status: 404, body: { detail: 'Patient not found.' } })
      }
    }
    expect((await first.get(`/v2/patients/${mine.id}`)).body).toEqual(mine)
  })

  it('no id is shared by two teams, of any resource', async () => {
    const seen = new Set<string>()
    let total = 0
    for (const caller of [first, second, sandbox, callerOf(emulator, 1, 1)]) {
      const { body: hook } = await caller.send('POST', '/v2/webhooks', { target_url: 'http://127.0.0.1:1/' })
      const { body: upload } = await postUpload(caller, formOf(lines(1)))
      const rows: { id: string }[] = [hook, upload, { id: hook.signature_secret }]
      for (const resource of [
        'patients',
        'forms',
        'packets',
        'documents',
        'messages',
        'responses',
        'export-csv',
      ])
        rows.push(...(await caller.rows(`/v2/${resource}?page_size=1000`)))
      for (const { id } of rows) {
        seen.add(id)
        total += 1
      }
    }
    expect(seen.size).toBe(total)
  })
})

describe('what is not there', () => {
  it.each([
    ['/v2/patients/00000000-0000-4000-8000-000000000000', 'Patient not found.'],
    ['/v2/forms/1', 'Form not found.'],
    ['/v2/packets/x', 'Packet not found.'],
    ['/v2/documents/null', 'Document not found.'],
    ['/v2/nothing', 'Not found.'],
    ['/v2/patients/', 'Not found.'],
    ['/v2/patients/%zz', 'Not found.'],
    [`/v2/patients/${'x'.repeat(300)}`, 'Not found.'],
    ['//v2/patients', 'Not found.'],
    ['/', 'Not found.'],
  ])('%s answers 404 with "%s"', async (path, detail) => {
    const { status, body } = await first.get(path)
    expect({ status, body }).toEqual({ status: 404, body: { detail } })
  })

  it('a method that a path does not support answers 405 with only a detail', async () => {
    const { status, body, headers } = await first.send('POST', '/v2/forms', {})
    expect({ status, body }).toEqual({ status: 405, body: { detail: 'Method "POST" not allowed.' } })
    expect(headers.get('allow')).toBe('GET')
  })
})

it('every answer names its environment and the time of the service, including errors', async () => {
  emulator.control.setFaults('clock-skew=864000')
  const earliest = Date.now() + 863_000_000
  for (const [caller, name] of [
    [first, 'production'],
    [sandbox, 'sandbox'],
  ] as const) {
    for (const path of ['/v2/forms', '/v2/forms/x', '/nothing', '/%zz', `/v2/forms/${'x'.repeat(300)}`]) {
      for (const credentials of [caller.credentials, {}]) {
        const { headers } = await caller.get(path, credentials)
        expect([path, headers.get('x-service-environment')]).toEqual([path, name])
        expect(Date.parse(headers.get('date')!)).toBeGreaterThan(earliest)
      }
    }
  }
  emulator.control.setFaults('')
})

it('a defect of the emulator is answered 500, without what it says', async () => {
  const broken = vi.spyOn(emulator.control.world().forms, 'get').mockImplementation(() => {
    throw new Error('Canary')
  })
  const { id } = emulator.control.world().forms.at(0)!
  const { status, body, headers } = await first.get(`/v2/forms/${id}`)
  broken.mockRestore()
  expect({ status, body }).toEqual({ status: 500, body: { detail: 'Internal Server Error.' } })
  expect(headers.get('x-service-environment')).toBe('production')
  expect((await first.get(`/v2/forms/${id}`)).status).toBe(200)
})

it('a body that is too large is refused with only a detail', async () => {
  const { status, body } = await first.send('POST', '/v2/patients', 'x'.repeat(33 * 1024 * 1024))
  expect({ status, body }).toEqual({ status: 413, body: { detail: 'Payload Too Large.' } })
  // Of 32 MiB it is read, and refused for what it is.
  expect((await first.send('POST', '/v2/patients', 'x'.repeat(32 * 1024 * 1024))).status).toBe(400)
})

describe('a malformed request', () => {
  /** Sends bytes as they are and returns what comes back: the first answer, or all until the emulator ends the connection. */
  async function raw(text: string, caller = first, toItsEnd = false): Promise<string> {
    const { hostname, port } = new URL(caller.baseUrl)
    const socket = connect(Number(port), hostname)
    socket.write(text)
    let answer = ''
    for await (const piece of socket.setEncoding('utf8')) {
      answer += piece
      if (!toItsEnd && /\r\n\r\n\{.*\}$/s.test(answer)) break
    }
    socket.destroy()
    return answer
  }

  it.each([
    ['garbage', 'nonsense\r\n\r\n', 400],
    ['a length that is none', 'GET /v2/forms HTTP/1.1\r\nHost: x\r\nContent-Length: abc\r\n\r\n', 400],
    ['headers without end', `GET /v2/forms HTTP/1.1\r\nHost: x\r\nA: ${'a'.repeat(20_000)}\r\n\r\n`, 431],
    ['no host', 'GET /v2/forms HTTP/1.1\r\n\r\n', 401],
    ['an expectation', 'GET /v2/forms HTTP/1.1\r\nHost: x\r\nExpect: nonsense\r\n\r\n', 401],
  ])('%s is answered with the environment and detail alone', async (_title, text, status) => {
    for (const [caller, name] of [
      [first, 'production'],
      [sandbox, 'sandbox'],
    ] as const) {
      const answer = await raw(text, caller, status !== 401)
      expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
      expect(answer.toLowerCase()).toContain(`x-service-environment: ${name}\r\n`)
      expect(answer).toMatch(/\r\ndate: \w{3}, \d\d \w{3} \d{4} [\d:]{8} GMT\r\n/i)
      expect(Object.keys(JSON.parse(answer.slice(answer.indexOf('\r\n\r\n'))))).toEqual(['detail'])
    }
  })

  it('an invalid content type is malformed input', async () => {
    const headers = { ...first.credentials, 'content-type': 'nonsense' }
    const { status, body } = await first.send('POST', '/v2/patients', '{}', headers)
    expect({ status, body }).toEqual({ status: 400, body: { detail: 'Validation error.' } })
  })

  it('a query keeps its question marks, and an address in the request line its path', async () => {
    const { status, body } = await first.get('/v2/patients?search=no?body')
    expect({ status, count: body.count }).toEqual({ status: 200, count: 0 })
    const lines = Object.entries(first.credentials).map(([name, value]) => `${name}: ${value}\r\n`)
    const host = new URL(first.baseUrl).host
    const target = `${first.baseUrl}/v2/patients?page_size=1`
    const answer = await raw(`GET ${target} HTTP/1.1\r\nHost: ${host}\r\n${lines.join('')}\r\n`)
    const { next } = JSON.parse(answer.slice(answer.indexOf('\r\n\r\n')))
    expect(next).toBe(`${first.baseUrl}/v2/patients?page_size=1&page=2`)
  })
})

it('a request whose handler fails is answered with 500, and so it is in the log', async () => {
  const { forms } = emulator.control.world()
  const failing = vi.spyOn(forms, 'get').mockImplementation(() => {
    throw new Error('broken')
  })
  emulator.control.resetCounters()
  const { status } = await first.get('/v2/forms/f1')
  failing.mockRestore()
  await first.get('/v2/forms')
  expect([status, emulator.control.requests().map((request) => request.status)]).toEqual([500, [500, 200]])
})
