/** What `init` asks at a terminal, and what it says at its end. */
import { writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { PassThrough } from 'node:stream'
import { stripVTControlCharacters } from 'node:util'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import {
  generatedKey,
  type InitResult,
  openQuestions,
  resultText,
} from '../../../src/commands/init/init-text.ts'
import { makeFolder, removeFolder } from '../../support/folders.ts'

const context = {
  ...{ env: {}, stdout: { write: () => true }, stderr: { write: () => true }, version: '' },
  signal: new AbortController().signal,
}

type Ask<Result> = (questions: NonNullable<Awaited<ReturnType<typeof openQuestions>>>) => Promise<Result>

/** Types each answer when its question is shown; returns the result, and the questions that were shown. */
async function conversation<Result>(answers: readonly (readonly [string, string])[], ask: Ask<Result>) {
  const input = Object.assign(new PassThrough(), { isTTY: true, setRawMode: () => {} })
  const output = Object.assign(new PassThrough(), { isTTY: true, columns: 80, rows: 24 })
  const asked: string[] = []
  let seen = ''
  output.on('data', (data: Buffer) => {
    seen += stripVTControlCharacters(String(data))
    const next = answers[asked.length]
    if (next === undefined || !seen.includes(next[0])) return
    asked.push(next[0])
    seen = ''
    setImmediate(() => input.write(`${next[1]}\r`))
  })
  const questions = await openQuestions(context, { input: input as never, output: output as never })
  try {
    return { result: await ask(questions!), asked }
  } finally {
    input.resume()
    await questions![Symbol.asyncDispose]()
    // A keyboard that is read would keep the process alive.
    expect(input.isPaused()).toBe(true)
  }
}

const SERVICE = { INTAKE_BASE_URL: 'https://f.example.com', INTAKE_API_KEY: 'k', INTAKE_API_SECRET: 's' }

describe('the questions', () => {
  it('are asked only where both sides are a terminal', async () => {
    const [input, output] = [new PassThrough(), new PassThrough()]
    const terminal = (typing: boolean, showing: boolean) => ({
      input: Object.assign(input, { isTTY: typing }) as never,
      output: Object.assign(output, { isTTY: showing }) as never,
    })
    expect(await openQuestions(context, terminal(true, false))).toBeNull()
    expect(await openQuestions(context, terminal(false, true))).toBeNull()
    expect(await openQuestions(context, terminal(true, true))).not.toBeNull()
  })

  it.each([
    ['with a file of teams', { INTAKE_CONFIG: '/teams.json' }, true],
    ['with everything', { ...SERVICE, DATABASE_URL: 'postgres://h/d' }, true],
    ['with everything in files', { ...SERVICE, DATABASE_URL_FILE: '/d' }, true],
    ['but the warehouse, which is embedded since the first time', SERVICE, false],
  ])('%s, nothing is missing', async (_, settings, isFirst) => {
    expect((await conversation([], (questions) => questions.missing(settings, isFirst))).result).toEqual({})
  })

  it('are of what is missing: both credentials where one is, and the warehouse the first time', async () => {
    const { INTAKE_API_SECRET: _, ...rest } = SERVICE
    const first = await conversation(
      [
        ['Its API key', ' mine '],
        ['Its API secret', 'own'],
        ['Warehouse', ' postgres://h/d '],
      ],
      (questions) => questions.missing(rest, true),
    )
    expect(first.result).toEqual({
      ...{ INTAKE_API_KEY: 'mine', INTAKE_API_SECRET: 'own', DATABASE_URL: 'postgres://h/d' },
    })
    const none = await conversation([['Warehouse', '']], (questions) => questions.missing(SERVICE, true))
    expect([none.result, none.asked]).toEqual([{}, ['Warehouse']])
    const { INTAKE_BASE_URL: __, ...unnamed } = SERVICE
    const address = await conversation([['Address of the service', 'https://x']], (questions) =>
      questions.missing(unnamed, false),
    )
    expect(address.result).toEqual({ INTAKE_BASE_URL: 'https://x' })
  })

  it('about refused credentials end with a no', async () => {
    const failure = { name: 'credentials', status: 'failed', detail: 'refused (403)', hint: null } as const
    const ended = await conversation([['credentials: refused (403)', 'n']], (questions) =>
      questions.again(failure),
    )
    expect(ended.result).toBeNull()
  })

  it.each([
    ['the reason of a signal', 'SIGTERM', 'SIGTERM'],
    ['130 at Ctrl-C', null, { exitCode: 130 }],
  ])('end with %s', async (_, reason, ended) => {
    const stop = new AbortController()
    const input = Object.assign(new PassThrough(), { isTTY: true, setRawMode: () => {} })
    const output = Object.assign(new PassThrough(), { isTTY: true, columns: 80, rows: 24 })
    const terminal = { input: input as never, output: output as never }
    await using questions = await openQuestions({ ...context, signal: stop.signal }, terminal)
    output.once('data', () =>
      setImmediate(() => (reason === null ? input.write('\u0003') : stop.abort(reason))),
    )
    const refused = questions!.missing({}, false)
    await (typeof ended === 'string'
      ? expect(refused).rejects.toBe(ended)
      : expect(refused).rejects.toMatchObject(ended))
  })

  it('about what follows may be left open', async () => {
    const none = await conversation(
      [
        ['Public address of serve', ''],
        ['How will it run?', ''],
      ],
      (questions) => questions.further(),
    )
    expect(none.result).toEqual({})
    const webhook = await conversation(
      [
        ['Public address of serve', 'https://h/webhooks'],
        ['How will it run?', '\u001b[B\u001b[B'],
      ],
      (questions) => questions.further(),
    )
    expect(webhook.result).toEqual({ webhookUrl: 'https://h/webhooks', deploy: 'systemd' })
  })
})

describe('the end', () => {
  const probe: InitResult['probe'][number] = {
    ...{ team: 'north', base_url: 'https://f.example.com', environment: 'sandbox' },
    streams: [
      { stream: 'patients', count: 45, page: 10, by_id: false, error: null },
      { stream: 'forms', count: null, page: 7, by_id: true, error: null },
      { stream: 'packets', count: null, page: 0, by_id: false, error: 'refused (403)' },
    ],
    ...{ requests: 20, is_lower_bound: true, permitted_rate: 1.25, seconds: 16 },
  }
  const result: InitResult = {
    path: '/srv/own settings.env',
    changed: [{ name: 'INTAKE_API_KEY', before: null, after: 'canary' }],
    probe: [probe],
    webhook: { id: 'c-1', created: true },
    notes: ['a note'],
    checks: [{ name: 'disk', status: 'ok', detail: 'free', hint: null }],
  }

  it('says what was found, changed and checked, and what is next', () => {
    expect(resultText(context, result, 'how to run\n').split('\n')).toEqual([
      'service https://f.example.com, sandbox',
      '',
      'stream    records    listed in',
      'patients         45  pages of 10',
      'forms     7 or more  pages of 7, then each by itself',
      'packets   -          refused (403)',
      '',
      'a first backfill makes at least 20 requests (1.3 permitted a second): about 16 s',
      '',
      'settings in /srv/own settings.env: 1 changed',
      '  + INTAKE_API_KEY=(hidden)',
      'webhook c-1: created, its secret is stored',
      'note: a note',
      '',
      'ok       disk  free',
      '',
      '1 ok, 0 warnings, 0 failed',
      '',
      'how to run',
      '',
      'next:',
      "  export INTAKE_ENV_FILE='/srv/own settings.env'",
      '  intake-sync backfill',
      '  intake-sync psql --as analyst',
      '  intake-sync serve',
      '  intake-sync webhooks test c-1',
      '',
    ])
  })

  it('names every team, change, note and check', () => {
    const south = { ...probe, team: 'south', base_url: 'https://s.example.com', requests: 7, seconds: 100 }
    const check = { name: 'schema', status: 'failed', detail: 'behind', hint: 'migrate' } as const
    const changed = [...result.changed, { name: 'LOG_LEVEL', before: 'info', after: 'warn' }]
    const several = { ...result, probe: [probe, south], changed, checks: [...result.checks, check] }
    const text = resultText(context, { ...several, notes: ['a note', 'another'] }, '')
    expect(text.match(/^(service|a first|settings|note:| {2}[+~]|ok|failed|\d) ?.*$/gm)).toEqual([
      'service https://f.example.com, sandbox',
      'a first backfill makes at least 20 requests (1.3 permitted a second): about 16 s',
      'service https://s.example.com, sandbox',
      'a first backfill makes at least 7 requests (1.3 permitted a second): about 1 min 40 s',
      ...['settings in /srv/own settings.env: 2 changed', '  + INTAKE_API_KEY=(hidden)'],
      ...['  ~ LOG_LEVEL=info → warn', 'note: a note', 'note: another'],
      ...['ok       disk    free', 'failed   schema  behind', '1 ok, 0 warnings, 1 failed'],
    ])
  })

  it('names what need not be done: no change, no webhook, no limit, no file to name', () => {
    const known = { ...probe, environment: null, is_lower_bound: false, permitted_rate: null }
    const text = resultText(
      context,
      { ...result, path: resolve('intake-sync.env'), changed: [], probe: [known], webhook: null, notes: [] },
      '',
    )
    expect(text).toContain('service https://f.example.com\n')
    expect(text).toContain(
      'a first backfill makes about 20 requests: about 16 s, longer if the service limits requests\n',
    )
    expect(text).toContain(': nothing to change\n\nok ')
    expect(text).toMatch(/failed\n\nnext:\n {2}intake-sync backfill\n {2}intake-sync psql --as analyst\n$/)
    const json = { ...result, path: resolve('intake-sync.json') }
    expect(resultText(context, json, '')).not.toContain('export INTAKE_ENV_FILE')
    const other = { ...result, webhook: { id: 'c-1', created: false } }
    expect(resultText(context, other, '')).toContain('\nwebhook c-1: there already\n')
  })
})

it('a JSON file is named unless it is the file that commands find', () => {
  const folder = makeFolder('init-text-')
  const cwd = vi.spyOn(process, 'cwd').mockReturnValue(folder)
  onTestFinished(() => {
    cwd.mockRestore()
    removeFolder(folder)
  })
  const path = join(folder, 'intake-sync.json')
  const text = () =>
    resultText(context, { path, changed: [], probe: [], webhook: null, notes: [], checks: [] }, '')
  expect(text()).toContain('\nnext:\n  intake-sync backfill\n')
  // That one comes first.
  writeFileSync(join(folder, 'intake-sync.env'), '')
  expect(text()).toContain(`\nnext:\n  export INTAKE_ENV_FILE=${path}\n  intake-sync backfill\n`)
})

it('a key is 32 random bytes in base64', () => {
  const keys = [generatedKey(), generatedKey()]
  expect(keys.map((key) => Buffer.from(key, 'base64').length)).toEqual([32, 32])
  expect(keys[0]).not.toBe(keys[1])
})
