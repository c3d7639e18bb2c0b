/**
 * The package, as `npm pack` makes it, installs and runs: globally and by `npx` in an empty folder, with the Node at hand
 * and with the newest LTS; and a new user has the first answer within two minutes. Asks the registry of npm.
 */
import { execFile, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { NEWEST_LTS, newestOf, unpacked } from '../compat/from-npm.ts'
import { makeFolder, removeFolder } from '../support/folders.ts'
import { freePort } from '../support/free-port.ts'

const root = resolve(import.meta.dirname, '../..')
const run = promisify(execFile)
/** Installing takes a minute or two on a busy machine. */
const TIMEOUT = 900_000
const FIRST_QUERY_MILLISECONDS = 120_000

/** Blanks: many a path has them. */
const folder = makeFolder('package of npm ')
let tarball: string

beforeAll(() => {
  execFileSync(process.execPath, ['scripts/build.mjs', '--if-stale'], { cwd: root })
  execFileSync('npm', ['pack', '--ignore-scripts', '--silent', '--pack-destination', folder], { cwd: root })
  tarball = join(folder, readdirSync(folder).find((name) => name.endsWith('.tgz'))!)
})
afterAll(() => removeFolder(folder))

/** The environment of a new user: none of our settings, an own home, and this Node first in the path. */
function environment(node: string, home: string): NodeJS.ProcessEnv {
  mkdirSync(home, { recursive: true })
  const foreign = Object.entries(process.env).filter(
    ([name]) => !/^(INTAKE_|DATABASE_URL|LOG_LEVEL|VITEST|NODE_ENV)/.test(name),
  )
  const npm = ['cache', 'userconfig'].map((name) => {
    const value = String(
      execFileSync('npm', ['config', 'get', name], { stdio: ['ignore', 'pipe', 'ignore'] }),
    )
    return [`npm_config_${name}`, value.trim()] as const
  })
  const path = `${dirname(node)}:${process.env.PATH ?? ''}`
  // A connection that hangs is tried again soon, not after five minutes.
  const patience = { npm_config_fetch_timeout: '20000', npm_config_fetch_retries: '5' }
  return { ...Object.fromEntries(foreign), ...Object.fromEntries(npm), ...patience, HOME: home, PATH: path }
}

function newestLts(): string {
  const found = newestOf(`node-${process.platform}-${process.arch}`, NEWEST_LTS)
  if ('why' in found) throw new Error(found.why)
  const at = join(folder, 'lts')
  return join(existsSync(at) ? at : unpacked(found.versioned, at), 'bin/node')
}

describe.each([
  ['the Node at hand', () => process.execPath],
  [`Node ${NEWEST_LTS}`, newestLts],
])('with %s', (title, nodeOf) => {
  const own = join(folder, title)

  it(
    'npx runs it in an empty folder',
    async () => {
      const cwd = join(own, 'empty')
      const env = environment(nodeOf(), join(own, 'home'))
      mkdirSync(cwd)
      const words = ['--yes', '--prefer-offline', '--package', tarball, 'intake-sync', '--version']
      expect((await run('npx', words, { cwd, env })).stdout).toMatch(/^\d+\.\d+\.\d+\n$/)
    },
    TIMEOUT,
  )

  it(
    'a global installation has everything, and leads a new user to the first answer within two minutes',
    async () => {
      const env = environment(nodeOf(), join(own, 'home'))
      const prefix = join(own, 'global')
      await run('npm', ['install', '--global', '--prefer-offline', '--prefix', prefix, tarball], { env })
      const installed = join(prefix, 'lib/node_modules/intake-sync')
      for (const name of [
        'man/intake-sync.1',
        'schemas/status.json',
        'docs/errors.md',
        'docs/deploy/chart/Chart.yaml',
      ])
        expect([name, existsSync(join(installed, name))]).toEqual([name, true])

      const command = join(prefix, 'bin/intake-sync')
      const port = await freePort()
      const [key, secret] = ['demo-key', 'demo-secret']
      const cwd = join(own, 'work')
      mkdirSync(cwd)
      const sizes = ['--patients', '200', '--responses', '400']
      const emulator = spawn(
        command,
        ['emulator', '--port', `${port}`, '--api-key', key, '--api-secret', secret, ...sizes],
        { cwd, env, stdio: ['ignore', 'pipe', 'inherit'] },
      )
      onTestFinished(() => void emulator.kill('SIGKILL'))
      await once(emulator.stdout, 'data')

      const service = {
        INTAKE_BASE_URL: `http://127.0.0.1:${port}`,
        INTAKE_API_KEY: key,
        INTAKE_API_SECRET: secret,
      }
      const intakeSync = async (...words: readonly string[]) =>
        (await run(command, words, { cwd, env: { ...env, ...service } })).stdout
      const begun = performance.now()
      const init = await intakeSync('init', '--database', 'embedded')
      const backfill = await intakeSync('backfill')
      const answer = await intakeSync(
        'psql',
        '--as',
        'analyst',
        '-c',
        'select count(*) as patients from patients',
      )
      expect(performance.now() - begun).toBeLessThan(FIRST_QUERY_MILLISECONDS)
      expect(answer).toMatch(/\b\d{3}\b/)
      expect(backfill).toContain('psql')

      // What it advises can be followed, in the shell of this user.
      const deploy = await intakeSync('init', '--deploy', 'compose')
      expect(deploy).toContain('image: intake-sync #')
      const demo = await intakeSync('demo')
      expect(`${init}${backfill}${answer}${deploy}${demo}`).not.toMatch(/npm run|node dist|npx|build:/)
      const [, advised] = /^ {2}(INTAKE_DATA_DIR=.* intake-sync psql --as analyst)$/m.exec(demo)!
      const shell = { cwd, env: { ...env, PATH: `${join(prefix, 'bin')}:${env.PATH}` } }
      const typed = await run('sh', ['-c', `echo 'select count(*) from patients' | ${advised}`], shell)
      expect(typed.stdout).toMatch(/\b3001\b/)
      for (const [file] of demo.matchAll(/\bdocs\/[\w./-]*\w/g))
        expect([file, existsSync(join(installed, file))]).toEqual([file, true])
    },
    TIMEOUT,
  )
})
