/** `doctor` without a warehouse: which checks it makes in which state, and that what it opened is closed however they end. */
import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeEach, expect, it, vi } from 'vitest'
import { allChecks } from '../../../src/commands/inspect/doctor.ts'
import { IntakeError } from '../../../src/core/errors.ts'
import { openEmbedded } from '../../../src/embedded/server.ts'
import { runChecks } from '../../../src/operate/doctor/doctor.ts'
import { makeFolder, removeFolder } from '../../support/folders.ts'
import { runCommand } from '../../support/run-command.ts'

vi.mock('../../../src/embedded/server.ts', () => ({ openEmbedded: vi.fn() }))
vi.mock('../../../src/operate/doctor/doctor.ts', () => ({ runChecks: vi.fn() }))

const folder = makeFolder('doctor-')
afterAll(() => removeFolder(folder))
beforeEach(() => vi.resetAllMocks())

const output = { write: () => true }
const contextOf = (env: object) => ({
  ...{ env: env as NodeJS.ProcessEnv, stdout: output, stderr: output, version: '' },
  signal: new AbortController().signal,
})

it('doctor says what is wrong with the configuration, and checks nothing else', async () => {
  const { code, stdout } = await runCommand(['doctor', '--json'], { INTAKE_CRON: 'never' })
  const hint = 'set INTAKE_CRON to a cron expression of five fields, or off'
  const detail = 'INTAKE_CRON is not a cron expression of five fields, or off'
  expect([code, JSON.parse(stdout).checks.slice(1)]).toEqual([
    ...[1, [{ name: 'configuration', status: 'failed', detail, hint, mend: hint }]],
  ])
  expect(JSON.parse(stdout).checks[0].name).toBe('node')
  expect(runChecks).not.toHaveBeenCalled()
})

it('doctor opens an embedded warehouse that is there, and closes it whatever the checks say', async () => {
  const check = (name: string) => ({ name, status: 'ok' as const, detail: '', hint: null })
  const data = join(folder, 'data')
  const url = 'postgres://u@127.0.0.1:1/d'
  const context = contextOf({ INTAKE_DATA_DIR: data })
  const names = async () => (await allChecks(context)).map(({ name }) => name)
  vi.mocked(runChecks).mockResolvedValue([check('database'), check('disk')])
  expect(await names()).toEqual(['node', 'configuration', 'database', 'disk'])
  expect(openEmbedded).not.toHaveBeenCalled()
  expect(existsSync(data)).toBe(false)
  mkdirSync(data)
  const stop = vi.fn(async () => {})
  vi.mocked(openEmbedded).mockResolvedValue({ url, stop } as never)
  expect(await names()).toEqual(['node', 'configuration', 'database', 'disk'])
  vi.mocked(runChecks).mockRejectedValueOnce(new Error('no'))
  await expect(names()).rejects.toThrow('no')
  expect(stop).toHaveBeenCalledTimes(2)
  vi.mocked(openEmbedded).mockRejectedValue(
    new IntakeError('in use', { code: 'embedded_busy', verdict: 'retry', hint: 'wait' }),
  )
  expect((await allChecks(context)).slice(1)).toEqual([
    expect.objectContaining({ name: 'configuration', status: 'ok' }),
    { name: 'database', status: 'failed', detail: 'in use', hint: 'wait' },
    check('disk'),
  ])
  expect(vi.mocked(runChecks).mock.calls.map(([options]) => [options.url, options.dataDir])).toEqual([
    ...[null, url, url, null].map((of) => [of, data]),
  ])
})
