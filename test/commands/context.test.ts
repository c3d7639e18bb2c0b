/** What every command shares: how its end becomes an exit code, the warehouse it reads, what the service said. */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import { afterAll, expect, it } from 'vitest'
import type { Answer } from '../../src/api/client.ts'
import {
  type Context,
  detailOf,
  exitAfter,
  openLogger,
  requireWarehouse,
} from '../../src/commands/context.ts'
import { readConfig } from '../../src/config/config.ts'
import { makeFolder, removeFolder } from '../support/folders.ts'

const folder = makeFolder('context-')
afterAll(() => removeFolder(folder))

const contextOf = (signal = new AbortController().signal): Context => {
  const output = { write: () => true }
  return { env: {}, stdout: output, stderr: output, signal, version: '' }
}

it('the end of a run is the exit code of its command', () => {
  expect(exitAfter(contextOf(), 'succeeded')).toBeUndefined()
  for (const [status, exitCode] of [
    ['failed', 1],
    ['needs_attention', 4],
    ['interrupted', 130],
  ] as const)
    expect(() => exitAfter(contextOf(), status)).toThrow(expect.objectContaining({ exitCode }))
  const stopped = contextOf(AbortSignal.abort('SIGTERM'))
  expect(() => exitAfter(stopped, 'interrupted')).toThrow(expect.objectContaining({ exitCode: 143 }))
})

it('where no warehouse was created, it says how to create one, and where that of a demo is', async () => {
  const dataDir = join(folder, 'data')
  const config = readConfig({ INTAKE_DATA_DIR: dataDir })
  const failure = { code: 'no_warehouse', hint: expect.stringMatching(/ with intake-sync backfill$/) }
  await expect(requireWarehouse(contextOf(), config)).rejects.toMatchObject(failure)
  mkdirSync(`${dataDir}-demo`)
  await expect(requireWarehouse(contextOf(), config)).rejects.toMatchObject({
    hint: expect.stringMatching(
      new RegExp(`backfill; for that of the demo, set INTAKE_DATA_DIR=${dataDir}-demo$`),
    ),
  })
})

it.each([
  ['{"detail": "No such\\npatient", "code": 7}', 'No such\\x0apatient'],
  ['{"errors": [1]}', '{"errors":[1]}'],
  ['"why"', 'why'],
  ['{"detail": null, "a": 1}', '{"detail":null,"a":1}'],
  ['{"detail": "", "a": 1}', null],
  ['{"detail": {"email": ["bad", "known"]}, "a": 1}', '{"email":["bad","known"]}'],
  ['null', null],
  ['""', null],
  ['<p>proxy</p>', null],
])('of the refusal %s, %s is shown', (body, detail) => {
  expect(detailOf({ body: Buffer.from(body) } as unknown as Answer)).toBe(detail)
})

it('logs are lines of JSON in a pipe, readable lines on a terminal, and no less severe than asked for', () => {
  const logged = (isTTY: boolean) => {
    let text = ''
    const stderr = { write: (line: string | Uint8Array) => (text += String(line)), isTTY }
    const logger = openLogger({ stderr }, readConfig({ LOG_LEVEL: 'warn' }))
    logger.info('left out')
    logger.warn({ team: 'north' }, 'said')
    return text
  }
  expect(JSON.parse(logged(false))).toEqual({
    level: 40,
    time: expect.any(Number),
    team: 'north',
    msg: 'said',
  })
  const shown = stripVTControlCharacters(logged(true))
  expect(shown).toMatch(/^\[\d\d:\d\d:\d\d\] WARN: said .*"team":"north".*\n$/)
})

it('a readable line of the log has the time in UTC, as every other output, wherever the machine is', () => {
  const before = process.env.TZ
  process.env.TZ = 'Asia/Kathmandu'
  try {
    let text = ''
    const stderr = { write: (line: string | Uint8Array) => (text += String(line)), isTTY: true }
    const now = () => new Date().toISOString().slice(11, 16)
    const begun = now()
    openLogger({ stderr }, readConfig({})).warn('said')
    const [, shown] = /^\[(\d\d:\d\d)/.exec(stripVTControlCharacters(text)) ?? []
    expect([begun, now()]).toContain(shown)
  } finally {
    if (before === undefined) delete process.env.TZ
    else process.env.TZ = before
  }
})
