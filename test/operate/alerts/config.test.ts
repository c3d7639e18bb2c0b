/** The settings of alerts are checked before anything is opened, and never shown. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { readConfig } from '../../../src/config/config.ts'
import { UsageError } from '../../../src/core/errors.ts'

const HOOK = 'https://alerts.example.com/hooks/a-token?of=ours'

it('without a URL nothing is posted, whatever else is set', () => {
  expect(readConfig({}).alerts).toBeNull()
  expect(readConfig({ INTAKE_ALERT_URL: '', INTAKE_ALERT_SECRET: '' }).alerts).toBeNull()
})

it('limits have defaults, and a URL keeps its path and query', () => {
  expect(readConfig({ INTAKE_ALERT_URL: HOOK }).alerts).toEqual({
    ...{ url: HOOK, secret: null, inboxSeconds: 300, maxAgeHours: 26 },
  })
  const given = { INTAKE_ALERT_INBOX_AGE: '90s', INTAKE_ALERT_MAX_AGE: '8d' }
  expect(readConfig({ INTAKE_ALERT_URL: HOOK, ...given }).alerts).toMatchObject({
    ...{ inboxSeconds: 90, maxAgeHours: 192 },
  })
  const off = readConfig({ INTAKE_ALERT_URL: HOOK, INTAKE_ALERT_MAX_AGE: 'off' })
  expect(off.alerts).toMatchObject({ maxAgeHours: null })
})

it('URL and secret may be in files', () => {
  const folder = mkdtempSync(join(tmpdir(), 'intake-sync-alerts-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  writeFileSync(join(folder, 'url'), `${HOOK}\n`)
  writeFileSync(join(folder, 'secret'), 'sixteen characters and more\n')
  const env = { INTAKE_ALERT_URL_FILE: join(folder, 'url'), INTAKE_ALERT_SECRET_FILE: join(folder, 'secret') }
  expect(readConfig(env).alerts).toMatchObject({ url: HOOK, secret: 'sixteen characters and more' })
})

it.each([
  ['INTAKE_ALERT_URL', 'alerts.example.com/a-token'],
  ['INTAKE_ALERT_URL', 'ftp://alerts.example.com/a-token'],
  ['INTAKE_ALERT_URL', 'http://alerts.example.com/a-token'],
  ['INTAKE_ALERT_URL', 'https://user:a-token@alerts.example.com'],
  ['INTAKE_ALERT_SECRET', 'a-token'],
  ['INTAKE_ALERT_INBOX_AGE', 'a-token'],
  ['INTAKE_ALERT_INBOX_AGE', '0s'],
  ['INTAKE_ALERT_MAX_AGE', '26'],
])('%s with an invalid value is named, and the value is not shown', (name, value) => {
  const refused = () => readConfig({ INTAKE_ALERT_URL: HOOK, [name]: value })
  expect(refused).toThrow(UsageError)
  expect(refused).toThrow(new RegExp(`^${name} `))
  expect(refused).not.toThrow(/a-token/)
})

it('http is allowed on loopback only, unless it is permitted', () => {
  const local = 'http://127.0.0.1:9/a'
  expect(readConfig({ INTAKE_ALERT_URL: local }).alerts).toMatchObject({ url: local })
  const inside = { INTAKE_ALERT_URL: 'http://alerts.internal/a', INTAKE_ALLOW_HTTP: '1' }
  expect(readConfig(inside).alerts).toMatchObject({ url: 'http://alerts.internal/a' })
})
