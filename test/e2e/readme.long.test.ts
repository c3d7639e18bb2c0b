/** The commands of README.md, as a reader types them: each works, and says what README.md says. */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import { startEmulator } from '../../src/emulator/server.ts'
import { builtFile } from '../support/built.ts'
import { cleanUp, temporaryDirectory } from '../support/embedded-fixture.ts'
import { freePort } from '../support/free-port.ts'
import { blocksOf, done, playTenMinutes, start, textOf } from './support/play-readme.ts'
import { SMALL, variablesOf } from './support/scene.ts'

afterEach(() => cleanUp())

it('"Use it" and "Webhooks": set-up, backfills, the line of cron, serve and a webhook run as they are written', async () => {
  const folder = join(temporaryDirectory(), 'a path')
  mkdirSync(folder)
  const emulator = await startEmulator(SMALL)
  const command = `'${process.execPath}' '${builtFile('cli.js')}'`
  const ports = { INTAKE_WEBHOOK_PORT: String(await freePort()), INTAKE_ADMIN_PORT: String(await freePort()) }
  const env = { PATH: process.env.PATH, HOME: process.env.HOME, LOG_LEVEL: 'warn', ...ports }
  const reader = { folder, columns: null, command, env: { ...env, ...variablesOf(emulator) } }
  const typed = (text: string) => text.replaceAll('npx intake-sync', command)
  const [setUp, serve, create, ...others] = blocksOf('Use it') as [string, string, string]
  expect(others).toEqual([])
  let serving: ReturnType<typeof start> | undefined
  try {
    const said = await done(reader, typed(setUp))
    expect(said).toMatch(/^patients +45 /m)
    expect(said).toContain('next: intake-sync psql --as analyst')
    // The rest reads the settings that init wrote.
    const later = { ...reader, env }
    const cron = /^0 2 \* \* \* +node \/opt\/intake-sync\/dist\/cli\.js (.+) >>\S+$/m.exec(
      textOf('Use it', false),
    )
    const nightly = JSON.parse(await done(later, `${command} ${cron![1]}`))
    expect([nightly.status, nightly.streams.patients.fetched]).toEqual(['succeeded', 45])
    serving = start(later, `exec ${typed(serve)}`)
    await expect.poll(serving.output).toContain('webhooks')
    expect(await done(later, typed(create))).toMatch(/next: intake-sync webhooks test \S+/)
    serving.stop()
    expect((await serving.ended).code).toBe(0)
  } finally {
    if (serving?.isRunning()) serving.kill()
    await emulator.close()
  }
})

it('its commands run one after the other, in a path with spaces, and leave nothing running', async () => {
  const folder = join(temporaryDirectory(), 'a path')
  mkdirSync(folder)
  await playTenMinutes({
    ...{ folder, columns: null, command: `'${process.execPath}' '${builtFile('cli.js')}'` },
    env: { PATH: process.env.PATH, HOME: process.env.HOME, LOG_LEVEL: 'warn' },
  })
})
