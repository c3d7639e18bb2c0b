/** `api`: one call, whose body is printed byte for byte, and nowhere else. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type Handler, json, type Received, type Service, startService } from '../../api/support/service.ts'
import { configOf } from '../../e2e/support/teams.ts'
import { runCli, startCli, type Variables } from '../../support/cli.ts'
import { runCommand } from '../../support/run-command.ts'

const CANARY = 'canary-of-a-person'
const folder = mkdtempSync(join(tmpdir(), 'intake-sync-api-'))

let service: Service
let answer: Handler
let env: Variables

beforeAll(async () => {
  service = await startService((request, response, index) => answer(request, response, index))
  env = { INTAKE_BASE_URL: service.url, INTAKE_API_KEY: 'the-key', INTAKE_API_SECRET: 'the-secret' }
})
beforeEach(() => {
  service.received.length = 0
  answer = (_, response) => json(response, {})
})
afterAll(async () => {
  await service[Symbol.asyncDispose]()
  rmSync(folder, { recursive: true, force: true })
})

const api = (...words: string[]) => runCommand(['api', ...words], env)
/** Runs as a process of its own. */
const apiApart = (...words: string[]) => runCli(['api', ...words], env)
const only = (): Received => {
  expect(service.received).toHaveLength(1)
  return service.received[0]!
}
const says = (body: string | Buffer, status = 200, headers = {}) => {
  answer = (_, response) => response.writeHead(status, headers).end(body)
}

describe('the body of the answer', () => {
  it.each(['{ "b":1,\n\t"a": 12345678901234567890.10 }', 'no JSON at all\n', '\n\n', ''])(
    '%j is printed as received',
    async (body) => {
      says(body)
      expect(await api('GET', '/v2/forms')).toMatchObject({ code: 0, stdout: body, stderr: '' })
    },
  )

  it.each([
    ['{}', '{}\n'],
    ['{}\n', '{}\n'],
    ['', ''],
  ])('%j is followed by the end of a line on a terminal', async (body, shown) => {
    says(body)
    expect((await runCommand(['api', 'GET', '/v2/forms'], env, { columns: 80 })).stdout).toBe(shown)
  })

  it('is printed byte for byte when it is no text', async () => {
    says(Buffer.from([0xff, 0x00, 0xe2, 0x28, 0x0d, 0x0a]))
    const run = await runCli(['api', 'GET', '/v2/file'], env, { pipeInto: 'od -An -tx1' })
    expect(run.stdout.trim()).toBe('ff 00 e2 28 0d 0a')
  })

  it.each([400, 403, 404])(
    'is printed when the status is %i, and the command exits with 1',
    async (status) => {
      says(`{"detail": "${CANARY}"}`, status)
      const run = await api('GET', '/v2/patients')
      expect(run).toMatchObject({ code: 1, stdout: `{"detail": "${CANARY}"}` })
      expect(run.stderr).toBe(`error: the service answered ${status}\n`)
    },
  )

  it('of a redirect is printed, and the redirect is not followed', async () => {
    says('moved', 301, { location: `${service.url}/elsewhere` })
    const run = await apiApart('GET', '/v2/patients')
    expect(run).toMatchObject({ code: 1, stdout: 'moved' })
    expect(run.stderr).toBe('error: the service answered 301; redirects are not followed\n')
    only()
  })
})

describe('the call', () => {
  it('has the credentials and the configured version', async () => {
    await api('get', '/v2/forms')
    const headers = { 'x-api-key': 'the-key', 'x-api-secret': 'the-secret', 'x-api-version': 'v2.1' }
    expect(only()).toMatchObject({ method: 'GET', url: '/v2/forms', headers })
  })

  it('has another version, or none, on request', async () => {
    await api('GET', '/v2/documents', '--api-version', 'v2.7')
    await api('GET', '/v2/documents', '--api-version', '')
    expect(service.received.map(({ headers }) => headers['x-api-version'])).toEqual(['v2.7', undefined])
  })

  it('joins the query of the path, unchanged, with each -q, encoded', async () => {
    await api('GET', '/v2/patients?x=1&y=%2F', '-q', 'search=a&b=ü', '--query', 'search=', '-q', 'z==')
    expect(only().url).toBe('/v2/patients?x=1&y=%2F&search=a%26b%3D%C3%BC&search=&z=%3D')
  })

  it('is prefixed with the path of the base URL, and may contain non-ASCII characters', async () => {
    env = { ...env, INTAKE_BASE_URL: `${service.url}/tenant/` }
    try {
      await api('DELETE', '/v2/patients/Zoë 1')
      expect(only()).toMatchObject({ method: 'DELETE', url: '/tenant/v2/patients/Zo%C3%AB%201' })
    } finally {
      env = { ...env, INTAKE_BASE_URL: service.url }
    }
  })

  it.each(['HEAD', 'Put'])('is made with %s', async (method) => {
    expect((await api(method, '/v2/x')).code).toBe(0)
    expect(only().method).toBe(method.toUpperCase())
  })

  it('goes to the given team', async () => {
    const teams = ['north', 'south'].map((name) => ({
      name,
      baseUrl: service.url,
      apiKey: `key of ${name}`,
      apiSecret: 's',
    }))
    const several = configOf(teams)
    const unnamed = await runCommand(['api', 'GET', '/v2/forms'], several)
    expect(unnamed).toMatchObject({ code: 2, stdout: '' })
    expect(unnamed.stderr).toContain('north, south')
    await runCommand(['api', 'GET', '/v2/forms', '--team', 'south'], several)
    expect(only().headers['x-api-key']).toBe('key of south')
  })
})

describe('-d', () => {
  const body = '{ "n": 12345678901234567890, "name": "Zoë" }'
  const file = join(folder, 'body.json')
  writeFileSync(file, `\ufeff${body}`)

  const sent = () => {
    expect(only().headers['content-type']).toBe('application/json')
    return String(only().body)
  }

  it.each([
    ['given on the line', body],
    ['from a file, without its byte order mark', `@${file}`],
  ])('%s is sent unchanged', async (_, data) => {
    expect((await api('POST', '/v2/patients', '-d', data)).code).toBe(0)
    expect(sent()).toBe(body)
  })

  it('from standard input is sent unchanged', async () => {
    const words = ['api', 'POST', '/v2/patients', '-d', '@-']
    expect((await runCli(words, env, { input: body })).code).toBe(0)
    expect(sent()).toBe(body)
  })
})

describe('wrong usage exits with 2, sends no request and does not quote possible health data', () => {
  const broken = join(folder, 'broken.json')
  writeFileSync(broken, `{"name": "${CANARY}"`)
  it.each([
    [['FETCH', `/v2/${CANARY}`], 'METHOD'],
    [['GET', `https://elsewhere.invalid/v2/${CANARY}`], 'PATH'],
    [['GET', '/v2/patients', '-q', CANARY], '-q'],
    [['POST', '/v2/patients', '-d', `@${broken}`], '-d'],
    [['POST', '/v2/patients', '-d', '@-'], '-d'],
    [['POST', '/v2/patients', '-d', ''], '-d'],
    [['GET', '/v2/patients', '--team', 'nobody'], 'has no team "nobody"'],
    [['GET', '/v2/patients', '--api-version', 'v\n2'], '--api-version'],
    [['GET'], 'path'],
  ])('%j', async (words, named) => {
    // Standard input is that of a process.
    const run = await (words.includes('@-') ? apiApart : api)(...words)
    expect(run).toMatchObject({ code: 2, stdout: '' })
    expect(run.stderr).toContain(named)
    expect(run.stderr).not.toContain(CANARY)
    expect(service.received).toEqual([])
  })
})

describe('a write', () => {
  it('is sent once when the service fails, and its answer is printed', async () => {
    says(CANARY, 500)
    expect(await api('POST', '/v2/patients', '-d', '{}')).toMatchObject({ code: 1, stdout: CANARY })
    only()
  })

  it('is sent again after 429', async () => {
    answer = (_, response, index) =>
      index === 0 ? response.writeHead(429, { 'retry-after': '0' }).end() : json(response, { id: 'new' }, 201)
    expect(await api('POST', '/v2/patients', '-d', '{}')).toMatchObject({ code: 0, stdout: '{"id":"new"}' })
    expect(service.received).toHaveLength(2)
  })

  it.each(['SIGINT', 'SIGTERM'] as const)(
    'that %s interrupts reports that its outcome is unknown',
    async (signal) => {
      const asked = new Promise<void>((resolve) => {
        answer = () => resolve()
      })
      const run = startCli(['api', 'POST', '/v2/patients', '-d', '{}'], env)
      await asked
      run.kill(signal)
      const ended = await run.ended
      expect(ended).toMatchObject({ code: signal === 'SIGINT' ? 130 : 143, stdout: '' })
      expect(ended.stderr).toBe('interrupted: whether the POST took effect is not known\n')
    },
  )
})

describe('--json', () => {
  it('prints one document with status, headers without secrets, and the body with every digit', async () => {
    says('{"n": 12345678901234567890}\n', 201, {
      'content-type': 'application/json',
      'set-cookie': 'session=1',
      'x-api-key': 'the-key',
      'x-auth-user': 'the-key',
      'x-csrf-token': 'the-key',
      'x-service-environment': 'production',
    })
    const run = await api('POST', '/v2/patients', '--json')
    expect(run.code).toBe(0)
    expect(run.stdout).toContain('12345678901234567890')
    expect(run.stdout).not.toMatch(/session=1|the-key/)
    expect(JSON.parse(run.stdout)).toMatchObject({
      status: 201,
      headers: { 'content-type': 'application/json', 'x-service-environment': 'production' },
    })
  })

  it.each([
    ['', null],
    ['<p>proxy</p>', '<p>proxy</p>'],
    ['"text"', 'text'],
  ])('contains %j as %j, also for a rejection', async (body, parsed) => {
    says(body, 404)
    const run = await api('GET', '/v2/forms/x', '--json')
    expect(run).toMatchObject({ code: 1, stderr: 'error: the service answered 404\n' })
    expect(JSON.parse(run.stdout)).toMatchObject({ status: 404, body: parsed })
  })
})

it('neither path, query nor body is in a log, an error or a credential’s place, at any log level', async () => {
  says(CANARY, 400)
  const loud = { ...env, LOG_LEVEL: 'trace' }
  const words = ['api', 'PATCH', `/v2/patients/${CANARY}`, '-q', `search=${CANARY}`, '-d', `"${CANARY}"`]
  const run = await runCli(words, loud)
  expect(run.stdout).toBe(CANARY)
  expect(run.stderr).toContain('"status":400')
  expect(run.stderr).not.toMatch(/canary|the-key|the-secret/)

  const gone = await runCommand(words, { ...loud, INTAKE_BASE_URL: 'http://127.0.0.1:1' })
  expect(gone).toMatchObject({ code: 1, stdout: '' })
  expect(gone.stderr).toContain('cannot reach 127.0.0.1:1')
  expect(gone.stderr).not.toMatch(/canary|the-key|the-secret/)
})
