/** A signal during a request: it is said that the outcome is not known where that is so, and only there. */

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest'
import { runProgram } from '../../../src/commands/program.ts'
import { systemClock } from '../../../src/core/clock.ts'
import { type Handler, type Service, startService } from '../../api/support/service.ts'
import { makeFolder, removeFolder } from '../../support/folders.ts'

const folder = makeFolder('interrupted-')
const file = join(folder, 'people.csv')
let service: Service
let answer: Handler

beforeAll(async () => {
  writeFileSync(file, 'first_name,last_name\nA,B\n')
  service = await startService((request, response, index) => answer(request, response, index))
})
afterEach(() => {
  vi.restoreAllMocks()
  service.received.length = 0
})
afterAll(async () => {
  await service[Symbol.asyncDispose]()
  removeFolder(folder)
})

const UPLOAD = ['patients', 'upload', file]
const NOT_KNOWN = 'interrupted: whether the service accepted the file is not known\n'

it.each([
  [
    'no answer to',
    ['api', 'POST', '/v2/patients'],
    'interrupted: whether the POST took effect is not known\n',
  ],
  ['no answer to', ['api', 'DELETE', '/v2/x'], 'interrupted: whether the DELETE took effect is not known\n'],
  ['no answer to', ['api', 'GET', '/v2/patients'], ''],
  ['no answer to', ['api', 'HEAD', '/v2/patients'], ''],
  ['no answer to', UPLOAD, NOT_KNOWN],
  ['a refusal for now of', ['api', 'POST', '/v2/patients'], ''],
  ['a refusal for now of', UPLOAD, ''],
])('after %s %j it says %j', async (what, words, says) => {
  const stop = new AbortController()
  const said = { stdout: '', stderr: '' }
  answer = (_, response) => {
    if (what === 'no answer to') stop.abort('SIGTERM')
    else response.writeHead(429, { 'retry-after': '100' }).end()
  }
  const { sleep } = systemClock
  vi.spyOn(systemClock, 'sleep').mockImplementation((milliseconds, signal) => {
    // It waits to send the request again.
    if (service.received.length > 0) stop.abort('SIGTERM')
    return sleep(milliseconds, signal)
  })
  const code = await runProgram(words, {
    env: {
      ...{ INTAKE_BASE_URL: service.url, INTAKE_API_KEY: 'k', INTAKE_API_SECRET: 's', LOG_LEVEL: 'silent' },
    },
    stdout: { write: (text) => (said.stdout += String(text)) },
    stderr: { write: (text) => (said.stderr += String(text)) },
    ...{ signal: stop.signal, version: '0.0.0' },
  })
  expect([code, said]).toEqual([143, { stdout: '', stderr: says }])
  expect(service.received).toHaveLength(1)
})

it.each([[['api', 'POST', '/v2/patients']], [['api', 'DELETE', '/v2/x']], [UPLOAD]])(
  '%j whose connection is lost is not called interrupted',
  async (words) => {
    let stderr = ''
    answer = (_, response) => response.destroy()
    const code = await runProgram(words, {
      env: {
        ...{ INTAKE_BASE_URL: service.url, INTAKE_API_KEY: 'k', INTAKE_API_SECRET: 's', LOG_LEVEL: 'silent' },
      },
      ...{ stdout: { write: () => true }, stderr: { write: (text) => (stderr += String(text)) } },
      ...{ signal: new AbortController().signal, version: '0.0.0' },
    })
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(/^error: .*; whether it took effect is not known\n/),
    ])
    expect(service.received).toHaveLength(1)
  },
)
