/** The first ten minutes of README.md, as a reader types them: each command works, and says what README.md says. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import { builtFile } from '../support/built.ts'
import { cleanUp, temporaryDirectory } from '../support/embedded-fixture.ts'
import { freePort } from '../support/free-port.ts'

const readme = readFileSync(join(import.meta.dirname, '../../README.md'), 'utf8')
const section = readme.split('## The first ten minutes\n')[1]!.split('\n## ')[0]!
const blocks = [...section.matchAll(/^```(sh|sql)\n([\s\S]*?)^```$/gm)].map(([, , text]) => text!)

afterEach(() => cleanUp())

it('its commands run one after the other, in a path with spaces, and leave nothing running', async () => {
  expect(blocks).toHaveLength(5)
  const [emulator, setUp, queries, serve, live] = blocks as [string, string, string, string, string]
  const folder = join(temporaryDirectory(), 'a path')
  mkdirSync(folder)
  const [service, webhooks, admin] = [await freePort(), await freePort(), await freePort()]
  const env = {
    ...{ PATH: process.env.PATH, HOME: process.env.HOME, LOG_LEVEL: 'warn' },
    ...{ INTAKE_WEBHOOK_PORT: String(webhooks), INTAKE_ADMIN_PORT: String(admin) },
  }
  /** A block with the ports of this test, and the command of this build in place of npx. */
  const adapted = (text: string) =>
    text
      .replaceAll('npx intake-sync emulator', `npx intake-sync emulator --port ${service}`)
      .replaceAll(':4010', `:${service}`)
      .replaceAll(':8080', `:${webhooks}`)
      .replaceAll('npx intake-sync', `'${process.execPath}' '${builtFile('cli.js')}'`)
  const start = (script: string, input = '') => {
    const child = spawn('sh', ['-ec', script], { cwd: folder, env, detached: true, stdio: 'pipe' })
    let output = ''
    child.stdout.on('data', (data) => (output += String(data)))
    child.stderr.on('data', (data) => (output += String(data)))
    child.stdin.on('error', () => {}).end(input)
    const ended = once(child, 'close').then(([code]) => ({ code: code as number, output }))
    return { ended, output: () => output, stop: () => process.kill(-child.pid!, 'SIGINT') }
  }
  const done = async (script: string, input?: string) => {
    const { code, output } = await start(script, input).ended
    expect({ code, output: code === 0 ? '' : output }).toEqual({ code: 0, output: '' })
    return output
  }

  const emulating = start(`exec ${adapted(emulator)}`)
  await expect.poll(emulating.output).toContain('intake-sync init')
  const said = await done(adapted(setUp.replace(/\n[^\n]*psql --as analyst\n/, '\n')))
  expect(said).toContain('a first backfill makes about')
  expect(said).toMatch(/ \d+ ok, |\n\d+ ok, \d+ warnings?, 0 failed/)
  expect(said).toContain('next: intake-sync psql --as analyst')
  expect(statSync(join(folder, 'intake-sync.env')).mode & 0o777).toBe(0o600)

  const psql = adapted(setUp.split('\n').find((line) => line.includes('psql'))!)
  const answers = await done(psql, queries)
  for (const word of ['age_band', 'share_submitted', 'choice']) expect(answers).toContain(word)
  expect(answers.match(/\(\d+ rows?\)/g)).toHaveLength(3)
  expect(answers).not.toContain('(0 rows)')

  const serving = start(`exec ${adapted(serve)}`)
  await expect.poll(serving.output).toMatch(/webhooks/)
  const changed = await done(adapted(live))
  expect(changed).toMatch(/next: intake-sync webhooks test \S+/)
  expect(changed).toMatch(/as of \S+, by a record/)
  expect(changed).toMatch(/event:/)
  expect(changed).toMatch(/webhook_configs .*repaired/)
  for (const each of [serving, emulating]) {
    each.stop()
    expect((await each.ended).code).toBe(0)
  }
})
