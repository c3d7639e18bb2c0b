/** `patients upload`: the whole document, text and exit code of every end of an upload, and how often the service is asked. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, expect, it, vi } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { json, type Service, startService } from '../../api/support/service.ts'
import { makeFolder, removeFolder } from '../../support/folders.ts'
import { runCommand } from '../../support/run-command.ts'

const folder = makeFolder('upload-ends-')
const file = join(folder, 'people.csv')
let service: Service
/** The answer to the POST, and to each GET in turn; the last one repeats. */
let answers: readonly (readonly [status: number, body?: unknown])[]
let stop: AbortController
/** Milliseconds. */
let pauses: number[]
let inPause: () => void

beforeAll(async () => {
  writeFileSync(file, 'first_name,last_name,Nickname\nA,B,C\n')
  service = await startService((_, response, index) => {
    const [status, body] = answers[Math.min(index, answers.length - 1)]!
    if (body === undefined) response.writeHead(status).end()
    else json(response, body, status)
  })
})
beforeEach(() => {
  service.received.length = 0
  pauses = []
  inPause = () => {}
  stop = new AbortController()
  vi.spyOn(systemClock, 'sleep').mockImplementation(async (milliseconds, signal) => {
    pauses.push(milliseconds)
    inPause()
    signal?.throwIfAborted()
  })
})
afterEach(() => vi.restoreAllMocks())
afterAll(async () => {
  await service[Symbol.asyncDispose]()
  removeFolder(folder)
})

async function upload(...words: string[]) {
  service.received.length = 0
  const own = { INTAKE_BASE_URL: service.url, INTAKE_API_KEY: 'k', INTAKE_API_SECRET: 's' }
  const env = { ...own, LOG_LEVEL: 'silent' }
  const { signal } = stop
  const { code, stdout, stderr } = await runCommand(['patients', 'upload', file, ...words], env, { signal })
  return { code, stdout, stderr }
}

const UNKNOWN = 'columns that the service may not know: Nickname\n'
const NOTHING = { status: null, rows: null, processed: null, succeeded: null, failed: null, rejected: [] }
const AGAIN = 'to see its state: intake-sync api GET /v2/patients/batch-upload/u'
const begun = { id: 'u', status: 'processing', total_rows: 2, processed_rows: 0 }

it.each<[string, typeof answers, number, object, string | null, string, number]>([
  [
    'taken at once',
    [[202, { id: 'u', status: 'completed', total_rows: 1, success_count: 1 }]],
    ...([0, { status: 'completed', ended: true, rows: 1, succeeded: 1 }, null] as const),
    'rows       1\nsucceeded  1\n\nupload u: completed\n',
    1,
  ],
  [
    'whose later answers have no id',
    [
      [202, begun],
      [200, { status: 'done', total_rows: 2, success_count: 2 }],
    ],
    ...([0, { status: 'done', ended: true, rows: 2, succeeded: 2 }, null] as const),
    'rows       2\nsucceeded  2\n\nupload u: done\n',
    2,
  ],
  [
    'with a rejected row',
    [
      [202, begun],
      [200, { id: 'u', status: 'done', failed_count: 1, errors: [{ row: 1, detail: 'no e-mail' }] }],
    ],
    4,
    { status: 'done', ended: true, failed: 1, rejected: [{ row: 1, detail: 'no e-mail' }] },
    null,
    'failed  1\n\nrejected:\nrow 1  no e-mail\n\nupload u: done\n',
    2,
  ],
  [
    'without an id',
    [[202, { status: 'processing' }]],
    ...([4, { upload_id: null, status: 'processing', ended: false }] as const),
    'the service accepted the file but returned no id: its progress is unknown',
    '\nupload: processing\n',
    1,
  ],
  [
    'that is never found',
    [[202, begun], [404]],
    ...([4, { status: 'processing', ended: false, rows: 2, processed: 0 }] as const),
    `the service accepted the file but does not report its progress; ${AGAIN}`,
    'rows       2\nprocessed  0\n\nupload u: processing\n',
    4,
  ],
  [
    'that cannot be read',
    [
      [202, begun],
      [200, { ...begun, processed_rows: 1 }],
      [200, ['u']],
    ],
    ...([4, { status: 'processing', ended: false, rows: 2, processed: 1 }] as const),
    `the service accepted the file but does not report its progress; ${AGAIN}`,
    'rows       2\nprocessed  1\n\nupload u: processing\n',
    5,
  ],
])('an upload %s', async (_, given, code, state, note, text, asked) => {
  answers = given
  const document = await upload('--json')
  expect([document.code, JSON.parse(document.stdout), document.stderr]).toEqual([
    ...[code, { upload_id: 'u', ...NOTHING, ...state, note }, ''],
  ])
  expect(service.received.map(({ method }) => method)).toEqual(['POST', ...Array(asked - 1).fill('GET')])
  expect(pauses).toEqual(Array(asked - 1).fill(1_000))
  const said = await upload()
  expect(said).toEqual({
    ...{ code, stderr: '', stdout: `${UNKNOWN}${text}${note === null ? '' : `${note}\n`}` },
  })
})

it('one that fails at the service ends with 1, and says so on standard error, on each output', async () => {
  answers = [
    [202, begun],
    [200, { id: 'u', status: 'failed' }],
  ]
  const stderr = 'error: the upload failed at the service\n'
  expect(await upload()).toEqual({ code: 1, stdout: `${UNKNOWN}\nupload u: failed\n`, stderr })
  expect(await upload('--json')).toMatchObject({ code: 1, stderr })
})

it.each([
  [400, { detail: 'no e-mail\u001b' }, 'no e-mail\\x1b'],
  [422, { email: ['bad'] }, '{"email":["bad"]}'],
  [400, undefined, null],
])('a file that is refused with %i and %j', async (status, body, detail) => {
  answers = [[status, body]]
  const message = `POST /v2/patients/batch-upload: the service refused the request as invalid (${status})`
  const stderr = `error: ${message}\n  hint: correct the file, then upload it again\n`
  expect(await upload()).toEqual({
    ...{ code: 1, stderr, stdout: `${UNKNOWN}${detail === null ? '' : `refused: ${detail}\n`}` },
  })
  const document = await upload('--json')
  expect([document.code, document.stderr, JSON.parse(document.stdout)]).toEqual([
    ...[1, stderr, { error: { code: 'refused', message, detail } }],
  ])
  expect(service.received).toHaveLength(1)
})

it.each([
  [401, 'no_credentials'],
  [403, 'bad_credentials'],
])('a refusal with %i is not one of the file', async (status, code) => {
  answers = [[status, { detail: 'x' }]]
  const document = await upload('--json')
  const { error } = JSON.parse(document.stdout)
  expect([document.code, error.code, error.hint.includes('correct the file')]).toEqual([1, code, false])
})

it('where its progress can no longer be asked for, the upload and the command that asks again are named', async () => {
  answers = [
    [202, begun],
    [401, { detail: 'x' }],
  ]
  const document = await upload('--json')
  expect([document.code, JSON.parse(document.stdout).error]).toMatchObject([
    1,
    {
      code: 'no_credentials',
      message:
        'the service accepted the file as upload u, but then: GET /v2/patients/batch-upload/{id}: the service saw no credentials (401)',
      hint: AGAIN,
    },
  ])
})

it.each([
  ['SIGINT', 130],
  ['SIGTERM', 143],
])('%s while the service works shows what is known, and that it goes on', async (reason, code) => {
  answers = [
    [202, begun],
    [200, { ...begun, processed_rows: 1 }],
  ]
  inPause = () => {
    if (pauses.length % 2 === 0) stop.abort(reason)
  }
  const note = `interrupted; the upload continues at the service; ${AGAIN}`
  expect(await upload()).toEqual({
    ...{ code, stderr: '' },
    stdout: `${UNKNOWN}rows       2\nprocessed  1\n\nupload u: processing\n${note}\n`,
  })
  stop = new AbortController()
  const document = await upload('--json')
  expect([document.code, JSON.parse(document.stdout)]).toEqual([
    code,
    { upload_id: 'u', ...NOTHING, status: 'processing', ended: false, rows: 2, processed: 1, note },
  ])
})

it.each([
  ['nothing.csv', [], 'file_unreadable'],
  ['people.txt', [], 'usage'],
  ['clients.csv', [], 'definition_invalid'],
  ['people.csv', ['--map', 'clients.csv'], 'definition_invalid'],
  ['people.csv', ['--map', 'nothing.json'], 'definition_invalid'],
  ['people.csv', ['--map', 'other.json'], 'definition_invalid'],
])('%s with %j cannot be used: nothing is sent, and the code is %s', async (name, words, code) => {
  service.received.length = 0
  writeFileSync(join(folder, 'clients.csv'), 'Given,Family\nA,B\n')
  writeFileSync(join(folder, 'other.json'), '{"Given": "first_name"}')
  const paths = words.map((word) => (word.startsWith('--') ? word : join(folder, word)))
  const env = { INTAKE_BASE_URL: service.url, INTAKE_API_KEY: 'k', INTAKE_API_SECRET: 's' }
  const ended = await runCommand(['patients', 'upload', join(folder, name), ...paths, '--json'], env)
  expect([ended.code, JSON.parse(ended.stdout).error.code]).toEqual([2, code])
  expect(service.received).toEqual([])
})
