/** `api`: the whole document of `--json`, and what each status, header and body becomes. */
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { type Handler, type Service, startService } from '../../api/support/service.ts'
import { runCommand } from '../../support/run-command.ts'

let service: Service
let answer: Handler

beforeAll(async () => {
  service = await startService((request, response, index) => answer(request, response, index))
})
beforeEach(() => {
  service.received.length = 0
})
afterAll(() => service[Symbol.asyncDispose]())

const says = (body: string | Buffer, status = 200, headers = {}) => {
  answer = (_, response) => response.writeHead(status, headers).end(body)
}
const api = (words: readonly string[], columns?: number) =>
  runCommand(
    ['api', ...words],
    { INTAKE_BASE_URL: service.url, INTAKE_API_KEY: 'k', INTAKE_API_SECRET: 's' },
    columns === undefined ? {} : { columns },
  )

it.each([
  ['{"n": 1.0, "big": 12345678901234567890}\n\n', '{"n": 1.0, "big": 12345678901234567890}'],
  ['\ufeff[1]', '[1]'],
  [' "text" ', '"text"'],
  ['no "JSON"\n', '"no \\"JSON\\"\\n"'],
  ['', 'null'],
])('of the body %j, the document has %s', async (body, shown) => {
  says(body, 200, { 'x-b': 'two', 'x-a': 'one', date: 'd', connection: 'close' })
  for (const columns of [undefined, 80]) {
    const { stdout } = await api(['GET', '/v2/forms', '--json'], columns)
    expect(stdout).toMatch(
      /^\{\n {2}"status": 200,\n {2}"headers": \{\n( {4}"[\w-]+": "[^"]*",?\n)+ {2}\},\n/,
    )
    expect(stdout.slice(stdout.indexOf('  "body"'))).toBe(`  "body": ${shown}\n}\n`)
  }
})

it('headers are all shown, but for those that are named like credentials', async () => {
  const hidden = [
    'set-cookie',
    'cookie',
    'authorization',
    'x-auth',
    'x-secret-id',
    'x-token',
    'x-api-key',
    'www-authenticate',
  ]
  const shown = ['x-service-environment', 'x-key', 'x-api-version', 'content-language']
  says('{}', 200, Object.fromEntries([...hidden, ...shown].map((name) => [name, `of ${name}`])))
  const { headers } = JSON.parse((await api(['GET', '/v2/forms', '--json'])).stdout)
  expect(Object.keys(headers)).toEqual(expect.arrayContaining(shown))
  for (const name of hidden) expect(headers).not.toHaveProperty(name)
  for (const name of shown) expect(headers[name]).toBe(`of ${name}`)
})

it.each([
  [200, 0, ''],
  [204, 0, ''],
  [299, 0, ''],
  [300, 1, '; redirects are not followed'],
  [304, 1, '; redirects are not followed'],
  [399, 1, '; redirects are not followed'],
  [400, 1, ''],
  [409, 1, ''],
])('the status %i ends with %i, on each output', async (status, code, more) => {
  says(status === 204 || status === 304 ? '' : '{}', status)
  const stderr = code === 0 ? '' : `error: the service answered ${status}${more}\n`
  for (const words of [[], ['--json']]) {
    const ended = await api(['GET', '/v2/forms', ...words])
    expect([ended.code, ended.stderr]).toEqual([code, stderr])
  }
})

it('HEAD has no body, also on a terminal, and null in the document', async () => {
  says('', 200)
  for (const columns of [undefined, 80])
    expect(await api(['head', '/v2/forms'], columns)).toMatchObject({ code: 0, stdout: '', stderr: '' })
  expect(JSON.parse((await api(['HEAD', '/v2/forms', '--json'])).stdout)).toMatchObject({
    status: 200,
    body: null,
  })
  expect(new Set(service.received.map(({ method }) => method))).toEqual(new Set(['HEAD']))
})
