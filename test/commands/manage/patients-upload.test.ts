/** `patients upload`: the file is sent once, and every outcome is reported. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { json, type Received, type Service, startService } from '../../api/support/service.ts'
import { configOf } from '../../e2e/support/teams.ts'
import { runCli, startCli, type Variables } from '../../support/cli.ts'
import { collecting } from '../../support/garbage.ts'
import { startOwnTime } from '../../support/own-time.ts'
import { runCommand } from '../../support/run-command.ts'

const CANARY = 'canary-of-a-person'
const UPLOAD = '/v2/patients/batch-upload'
const CSV = `first_name,last_name\n${CANARY},B\nC,D\n`
const folder = mkdtempSync(join(tmpdir(), 'intake-sync-upload-'))
const file = join(folder, 'New Patients.CSV')

let service: Service
let env: Variables
/** The answers to the POST, and to each GET in turn; the last one repeats. */
let first: readonly [body: unknown, status?: number]
let later: readonly (readonly [body: unknown, status?: number])[]

const asked = (method: string) => service.received.filter((request) => request.method === method)

beforeAll(async () => {
  writeFileSync(file, CSV)
  service = await startService((request, response) => {
    const at = Math.min(asked('GET').length, later.length) - 1
    const [body, status] = request.method === 'POST' ? first : later[at]!
    if (body === undefined) response.writeHead(status ?? 204).end()
    else json(response, body, status)
  })
  env = { INTAKE_BASE_URL: service.url, INTAKE_API_KEY: 'k', INTAKE_API_SECRET: 's', LOG_LEVEL: 'trace' }
})
beforeEach(() => {
  service.received.length = 0
  pauses.length = 0
  first = [{ id: 'up-1', status: 'processing', total_rows: 2, processed_rows: 0 }, 202]
  later = []
})
afterAll(async () => {
  await service[Symbol.asyncDispose]()
  rmSync(folder, { recursive: true, force: true })
})

const upload = (...words: string[]) => runCommand(['patients', 'upload', file, ...words], env)
/** Runs as a process of its own. */
const uploadApart = (...words: string[]) => runCli(['patients', 'upload', file, ...words], env)

/** Milliseconds that commands of this process paused for. They pass twenty times faster. */
const pauses: number[] = []
const { sleep } = systemClock
vi.spyOn(systemClock, 'sleep').mockImplementation((milliseconds, signal) => {
  pauses.push(milliseconds)
  return sleep(milliseconds / 20, signal)
})
const done = {
  id: 'up-1',
  status: 'completed',
  total_rows: 2,
  processed_rows: 2,
  success_count: 2,
  error_count: 0,
}
const halfway = { id: 'up-1', status: 'processing', total_rows: 2, processed_rows: 1, success_count: 1 }
const AGAIN = `to see its state: intake-sync api GET ${UPLOAD}/up-1`

/** The only part of the only POST. */
function partOf({ headers, body }: Received): { readonly head: string; readonly content: string } {
  const boundary = /^multipart\/form-data; boundary=(.+)$/.exec(headers['content-type']!)![1]!
  const [before, part, after] = String(body).split(`--${boundary}`)
  expect([before, after]).toEqual(['', '--\r\n'])
  const [head = '', content = ''] = part!.split('\r\n\r\n')
  return { head, content: content.slice(0, -2) }
}

describe('a successful upload', () => {
  it('sends the file once, unchanged, and follows it to its end', async () => {
    later = [[halfway], [done]]
    const run = await uploadApart()
    expect(run.code).toBe(0)
    expect(asked('POST').map(({ url }) => url)).toEqual([UPLOAD])
    const { head, content } = partOf(asked('POST')[0]!)
    expect(head).toMatch(/name="file"; filename="New Patients\.CSV"/)
    expect(content).toBe(CSV)
    expect(asked('GET').map(({ url }) => url)).toEqual([`${UPLOAD}/up-1`, `${UPLOAD}/up-1`])
    expect(run.stdout).toMatch(/^rows +2\nsucceeded +2\nfailed +0\n\nupload up-1: completed\n$/)
    expect(run.output).not.toContain('\u001b')
    expect(run.seconds).toBeGreaterThan(2)
  })

  it('--json prints the final document and nothing else', async () => {
    later = [[halfway], [done]]
    const run = await upload('--json', '--timeout', '40d')
    expect(JSON.parse(run.stdout)).toEqual({
      upload_id: 'up-1',
      status: 'completed',
      ended: true,
      rows: 2,
      processed: 2,
      succeeded: 2,
      failed: 0,
      rejected: [],
      note: null,
    })
    expect(pauses).toEqual([1000, 1000])
  })

  it.each<[string, unknown]>([
    ['is done at once', done],
    ['is done at once and has no id', { ...done, id: undefined }],
    ['counts to the end under another word', { ...done, status: 'processing' }],
    ['says only that it is finished', { uid: 'up-1', status: 'Finished' }],
    ['counts in text', { id: 7, total_rows: '2', processed_rows: '2', success_count: '2' }],
  ])('needs no second request when it %s', async (_, body) => {
    first = [body, 200]
    expect((await upload()).code).toBe(0)
    expect(asked('GET')).toEqual([])
  })
})

it('of several teams, the one that is named gets the file, and none where none is named', async () => {
  later = [[done]]
  const teams = ['north', 'south'].map((name) => ({
    ...{ name, baseUrl: service.url, apiKey: `key of ${name}`, apiSecret: 's' },
  }))
  const several = configOf(teams)
  expect((await runCommand(['patients', 'upload', file], several)).code).toBe(2)
  expect(service.received).toEqual([])
  expect((await runCommand(['patients', 'upload', file, '--team', 'south'], several)).code).toBe(0)
  expect(service.received.map(({ headers }) => headers['x-api-key'])).toEqual([
    ...['key of south', 'key of south'],
  ])
})

describe('rejected rows', () => {
  const rejected = {
    ...done,
    success_count: 0,
    error_count: 3,
    errors: [
      { row: 1, detail: `${CANARY}: bad e-mail\u001b[2J` },
      { row_number: '2', message: 'no last name' },
    ],
  }

  it('are all printed with number and reason, exit with 4, and are in no log', async () => {
    later = [[rejected]]
    const run = await uploadApart()
    expect(run.code).toBe(4)
    expect(run.stdout).toContain(`rejected:\nrow 1  ${CANARY}: bad e-mail\\x1b[2J\nrow 2  no last name\n`)
    expect(run.stdout).toContain('1 more rejected row(s) that the service does not name\n')
    expect(run.stderr).toContain('"status":200')
    expect(run.stderr).not.toContain(CANARY)
  })

  it('are in the document of --json', async () => {
    first = [rejected, 200]
    const run = await upload('--json')
    expect(run.code).toBe(4)
    expect(JSON.parse(run.stdout)).toMatchObject({
      failed: 3,
      rejected: [{ row: 1 }, { row: 2, detail: 'no last name' }],
    })
  })

  it('are reported when only the counts show them', async () => {
    first = [{ ...done, success_count: 1, error_count: undefined }, 200]
    expect((await upload()).code).toBe(4)
  })
})

describe('an upload that fails', () => {
  it('rejected by the service exits with 1, and the reason is printed and not logged', async () => {
    first = [{ detail: `Missing column ${CANARY}` }, 400]
    const run = await upload()
    expect(run).toMatchObject({ code: 1, stdout: `refused: Missing column ${CANARY}\n` })
    expect(run.stderr).toContain('(400)')
    expect(run.stderr).not.toContain(CANARY)
    const document = await upload('--json')
    expect(document.code).toBe(1)
    expect(JSON.parse(document.stdout)).toMatchObject({
      error: { code: 'refused', detail: `Missing column ${CANARY}` },
    })
  })

  it('abandoned by the service exits with 1', async () => {
    later = [[{ id: 'up-1', status: 'failed' }]]
    const run = await upload()
    expect(run.code).toBe(1)
    expect(run.stdout).toContain('upload up-1: failed')
    expect(run.stderr).toContain('error: the upload failed at the service\n')
  })

  it('halfway because the service is unreachable says that the file was accepted, and how to look again', async () => {
    later = [[{ detail: CANARY }, 403]]
    const run = await upload()
    expect(run).toMatchObject({ code: 1, stdout: '' })
    expect(run.stderr).toContain('the service accepted the file as upload up-1, but then')
    expect(run.stderr).toContain(AGAIN)
    expect(run.stderr).toContain('code: bad_credentials')
    expect(run.stderr).not.toContain(CANARY)
  })

  it('with an unknown outcome is not sent again', async () => {
    first = [{}, 500]
    const run = await upload()
    expect(run).toMatchObject({ code: 1, stdout: '' })
    expect(run.stderr).toContain('whether it took effect is not known')
    expect(asked('POST')).toHaveLength(1)
  })
})

describe('an upload whose progress is unknown exits with 4 and says so', () => {
  it.each<[string, unknown]>([
    ['no id', { status: 'processing', total_rows: 2 }],
    ['no body', undefined],
    ['no object', ['up-1']],
  ])('when its answer has %s', async (_, body) => {
    first = [body, body === undefined ? 204 : 202]
    const run = await upload()
    expect(run.code).toBe(4)
    expect(run.stdout).toContain('returned no id: its progress is unknown\n')
    expect(asked('GET')).toEqual([])
  })

  it('when its progress is not found, repeatedly', async () => {
    later = [[{ detail: 'Batch upload not found.' }, 404]]
    const run = await upload('--json')
    expect(run.code).toBe(4)
    expect(JSON.parse(run.stdout)).toMatchObject({ ended: false, note: expect.stringContaining(AGAIN) })
    expect(asked('GET')).toHaveLength(3)
    expect(pauses).toEqual([1000, 1000, 1000])
  })

  it('unless the service finds it after a moment', async () => {
    later = [[{}, 404], [done]]
    expect((await upload()).code).toBe(0)
  })

  it('unless misses are not in a row: single ones do not end the wait', async () => {
    const missed = [{}, 404] as const
    later = [missed, missed, [halfway], missed, missed, [done]]
    const run = await upload()
    expect(run.code, run.output).toBe(0)
    expect(asked('GET')).toHaveLength(6)
  })

  it('when its time limit ends', async () => {
    later = [[halfway]]
    using _ = collecting()
    using time = startOwnTime()
    const run = await upload('--timeout', '2')
    expect(run.code).toBe(4)
    expect(run.stdout).toContain('processed  1')
    expect(run.stdout).toContain(`the upload continues at the service; ${AGAIN}\n`)
    expect(time.milliseconds).toBeLessThan(8_000)
  })
})

it.each([
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const)(
  '%s during processing exits with %i, and says that the service continues',
  async (signal, code) => {
    later = [[halfway]]
    const run = startCli(['patients', 'upload', file], env)
    await run.said('batch-upload/{id}')
    run.kill(signal)
    const ended = await run.ended
    expect(ended.code).toBe(code)
    expect(ended.stdout).toContain(`interrupted; the upload continues at the service; ${AGAIN}\n`)
  },
)

it.each([
  [['patients'], 'Usage: intake-sync patients'],
  [['patients', 'bogus'], 'bogus'],
  [['patients', 'upload'], 'file'],
  [['patients', 'upload', '/nonexistent.csv'], 'ENOENT'],
  [['patients', 'upload', '/etc/passwd'], '.csv'],
  [['patients', 'upload', file, '--timeout', 'soon'], '--timeout'],
])('%j is wrong usage and sends no request', async (words, named) => {
  const run = await runCommand(words, env)
  expect(run).toMatchObject({ code: 2, stdout: '' })
  expect(run.stderr).toContain(named)
  expect(service.received).toEqual([])
})

describe('columns', () => {
  const write = (name: string, text: string) => {
    const path = join(folder, name)
    writeFileSync(path, text)
    return path
  }
  const foreign = `\ufeffVorname,"Nach\nname",email\r\n${CANARY},"B, C",x\r\n`

  it('without those that the service requires nothing is sent, and the error quotes nothing of the file', async () => {
    const path = write('foreign.csv', foreign)
    const { code, stdout, stderr } = await runCommand(['patients', 'upload', path], env)
    expect([code, service.received]).toEqual([2, []])
    expect(stderr).toContain(
      'FILE has no column first_name and last_name, and 2 that the service may not know',
    )
    expect(stderr).not.toMatch(/Vorname|Nach/)
    expect(stdout).toContain('may not know: Vorname, Nach')
  })

  it('that the service may not know are named, in the text only', async () => {
    first = [done, 200]
    const path = write('more.csv', 'first_name,last_name,Shoe\u001b\na,b,c\n')
    const text = await runCommand(['patients', 'upload', path], env)
    expect(text.stdout).toMatch(/^columns that the service may not know: Shoe\\x1b\n/)
    const json = await runCommand(['patients', 'upload', path, '--json'], env)
    expect([json.code, JSON.parse(json.stdout).upload_id]).toEqual([0, 'up-1'])
  })

  it('are renamed by --map, and every row is sent byte for byte', async () => {
    first = [done, 200]
    const path = write('foreign.csv', foreign)
    const map = write(
      'map.json',
      `\ufeff${JSON.stringify({ Vorname: 'first_name', 'Nach\nname': 'last_name' })}`,
    )
    const { code } = await runCommand(['patients', 'upload', path, '--map', map], env)
    expect(code).toBe(0)
    expect(String(asked('POST')[0]!.body)).toContain(
      `\r\n\r\nfirst_name,last_name,email\n${CANARY},"B, C",x\r\n`,
    )
  })

  it.each(['{', '[]', '{"Name": "x"}', '{"first_name": 1}'])('--map %s is wrong usage', async (text) => {
    const { code, stderr } = await runCommand(
      ['patients', 'upload', file, '--map', write('map.json', text)],
      env,
    )
    expect([code, stderr]).toEqual([2, expect.stringContaining('--map')])
    expect(service.received).toEqual([])
  })
})
