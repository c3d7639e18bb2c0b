/** Checks as text: one line each, with what to do, and their number at the end. */
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { allChecks, checksText, optionsOf } from '../../../src/commands/inspect/doctor.ts'
import { readConfig } from '../../../src/config/config.ts'
import type { Check } from '../../../src/operate/doctor/check.ts'
import { makeFolder, removeFolder } from '../../support/folders.ts'

const folder = makeFolder('checks-')
afterAll(() => removeFolder(folder))

const output = { write: () => true }
const context = {
  ...{ env: {}, stdout: output, stderr: output, signal: new AbortController().signal, version: '' },
}

it('each check is a line, its hint below it, and the sums at the end', () => {
  const checks: readonly Check[] = [
    { name: 'node', status: 'ok', detail: '24', hint: null },
    { name: 'a longer name', status: 'warning', detail: 'odd', hint: 'look' },
    { name: 'disk', status: 'failed', detail: 'full', hint: 'free space' },
    { name: 'more', status: 'failed', detail: 'away', hint: null },
  ]
  expect(checksText(context, checks)).toBe(
    [
      'ok       node           24',
      'warning  a longer name  odd',
      `${' '.repeat(24)}hint: look`,
      'failed   disk           full',
      `${' '.repeat(24)}hint: free space`,
      'failed   more           away',
      '',
      '1 ok, 1 warning, 2 failed\n',
    ].join('\n'),
  )
  expect(checksText(context, checks.slice(0, 1))).toContain('\n1 ok, 0 warnings, 0 failed\n')
})

it('an embedded warehouse that cannot be opened is one failed check, and the others are made', async () => {
  const file = join(folder, 'a-file')
  writeFileSync(file, '')
  const names = (await allChecks({ ...context, env: { INTAKE_DATA_DIR: file } })).map(
    ({ name, status }) => `${name}: ${status}`,
  )
  expect(names.filter((each) => each.startsWith('database'))).toEqual(['database: failed'])
  expect(names.length).toBeGreaterThan(4)
  const none = await allChecks({ ...context, env: { INTAKE_DATA_DIR: join(folder, 'nothing') } })
  expect(none.filter(({ name }) => name === 'database')).toHaveLength(1)
  expect(existsSync(join(folder, 'nothing'))).toBe(false)
})

it('an error that has nothing to do with the settings is thrown, and is no failed check', async () => {
  const fault = new TypeError('a defect')
  const get = () => {
    throw fault
  }
  await expect(allChecks({ ...context, env: new Proxy({}, { get }) })).rejects.toBe(fault)
})

it('each address is that of its own settings', () => {
  const config = readConfig({
    ...{ INTAKE_WEBHOOK_HOST: '127.0.0.2', INTAKE_WEBHOOK_PORT: '1' },
    ...{ INTAKE_ADMIN_HOST: '127.0.0.3', INTAKE_ADMIN_PORT: '2', INTAKE_DATA_DIR: '/d' },
  })
  expect(optionsOf(context, config, null)).toMatchObject({
    webhook: { name: 'webhook port', variable: 'INTAKE_WEBHOOK_PORT', host: '127.0.0.2', port: 1 },
    admin: { name: 'admin port', variable: 'INTAKE_ADMIN_PORT', host: '127.0.0.3', port: 2 },
    ...{ url: null, dataDir: '/d' },
  })
  const elsewhere = readConfig({ DATABASE_URL: 'postgres://localhost/d', INTAKE_DATA_DIR: '/d' })
  expect(optionsOf(context, elsewhere, null).dataDir).toBeNull()
})
