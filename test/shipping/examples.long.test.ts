/** The examples run, as examples/README.md says. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { isSchedule } from '../../src/config/config.ts'
import { type Emulator, startEmulator } from '../../src/emulator/server.ts'
import { makeLogin } from '../analytics/logins.ts'
import { openScene, query, type Scene, variablesOf } from '../e2e/support/scene.ts'
import { builtFile } from '../support/built.ts'
import { makeFolder, removeFolder } from '../support/folders.ts'
import { runCommand } from '../support/run-command.ts'

const root = resolve(import.meta.dirname, '../..')
const examples = join(root, 'examples')
let scene: Scene
let folder: string

beforeAll(async () => {
  scene = await openScene({ patients: 60 })
  folder = makeFolder('examples-')
})
afterAll(async () => {
  removeFolder(folder)
  await scene[Symbol.asyncDispose]()
})

/** In the checkout, where `intake-sync` is its own source (tsconfig.json). */
async function run(name: string, words: readonly string[], env: Scene['env']) {
  const child = spawn(process.execPath, ['--import', 'tsx', join(examples, name), ...words], {
    ...{ cwd: root, env: { PATH: process.env.PATH, ...env } },
  })
  let [stdout, stderr] = ['', '']
  child.stdout.on('data', (data) => (stdout += String(data)))
  child.stderr.on('data', (data) => (stderr += String(data)))
  const [code] = await once(child, 'close')
  return { code: code as number, stdout, stderr }
}

it('examples/README.md names each, and no other', () => {
  const named = [...readFileSync(join(examples, 'README.md'), 'utf8').matchAll(/^\| \[([\w.-]+)\]\(\1\)/gm)]
  expect(named.map(([, name]) => name).sort()).toEqual(
    readdirSync(examples)
      .filter((name) => name !== 'README.md')
      .sort(),
  )
})

it('each line of the crontab has a schedule and a user, and its command does its work', async () => {
  const lines = readFileSync(join(examples, 'crontab'), 'utf8')
    .split('\n')
    .filter((line) => /^[\d*]/.test(line))
  expect(lines).toHaveLength(3)
  mkdirSync(join(folder, 'log'))
  const settings = { ...scene.env, LOG_LEVEL: 'error' }
  writeFileSync(
    join(folder, 'intake-sync.env'),
    Object.entries(settings)
      .map(([name, value]) => `${name}=${value}\n`)
      .join(''),
    { mode: 0o600 },
  )
  const ends: (number | null)[] = []
  for (const line of lines) {
    const [, schedule, user, command] = /^((?:\S+ ){4}\S+) {2}(\S+) {2}(.+)$/.exec(line)!
    expect([isSchedule(schedule!), user]).toEqual([true, 'intake-sync'])
    const adapted = command!
      .replace('node /opt/intake-sync/dist/cli.js', `'${process.execPath}' '${builtFile('cli.js')}'`)
      .replace('/var/log', join(folder, 'log'))
    const child = spawn('sh', ['-c', adapted], {
      ...{
        cwd: folder,
        stdio: 'inherit',
        env: { PATH: process.env.PATH, INTAKE_ENV_FILE: join(folder, 'intake-sync.env') },
      },
    })
    ends.push((await once(child, 'close'))[0])
  }
  expect(ends).toEqual([0, 0, 0])
  const log = readFileSync(join(folder, 'log/intake-sync.json'), 'utf8')
  expect(log.match(/"run_id"/g)).toHaveLength(2)
  expect(log).toMatch(/"equal": true/)
})

it('two-teams.json loads two teams into one warehouse', async () => {
  const emulators: Emulator[] = []
  for (const patients of [12, 7]) emulators.push(await startEmulator({ port: 0, patients, responses: 0 }))
  try {
    const own = emulators.map((each) => variablesOf(each))
    const env = Object.fromEntries(
      ['NORTH', 'SOUTH'].flatMap((team, at) => [
        [`${team}_URL`, own[at]!.INTAKE_BASE_URL],
        [`${team}_KEY`, own[at]!.INTAKE_API_KEY],
        [`${team}_SECRET`, own[at]!.INTAKE_API_SECRET],
      ]),
    )
    const all = { ...env, DATABASE_URL: scene.url, INTAKE_CONFIG: join(examples, 'two-teams.json') }
    expect((await runCommand(['backfill', '--streams', 'patients'], all)).code).toBe(0)
    const counts = `select name, count(*)::int as patients from intake.patients join intake.teams using (team_id)
      where name in ('north', 'south') group by name order by name`
    expect(await query(scene.url, counts)).toEqual([
      { name: 'north', patients: 12 },
      { name: 'south', patients: 7 },
    ])
  } finally {
    for (const emulator of emulators) await emulator.close()
  }
})

it('patients.ts prints the patients of a state, and one sentence where the credentials are wrong', async () => {
  const { patients } = scene.emulator.control.world()
  const all = patients.slice(0, patients.end)
  const { state } = all.find((each) => each.state !== null)!
  const { code, stdout, stderr } = await run('patients.ts', [state!], scene.env)
  expect([code, stderr]).toEqual([0, `${all.length} patients were read\n`])
  const expected = all.filter((each) => each.state === state).map(({ id }) => id)
  expect(stdout.trim().split('\n').sort()).toEqual(expected.sort())
  const refused = await run('patients.ts', [state!], { ...scene.env, INTAKE_API_SECRET: 'wrong' })
  expect(refused).toMatchObject({ code: 1, stdout: '' })
  expect(refused.stderr.trim().split('\n')).toHaveLength(2)
  expect(
    spawnSync(process.execPath, ['--import', 'tsx', join(examples, 'patients.ts')], { cwd: root }).status,
  ).toBe(2)
})

it('follow-changes.ts prints each change once, and continues after the last', async () => {
  const reader = await makeLogin(scene.url, 'intake_analyst')
  const teams = await query<{ name: string }>(scene.url, 'select name from intake.teams order by 1')
  for (const { name } of teams) await runCommand(['access', 'grant', reader.name, name], scene.env)
  const place = join(folder, 'place.json')
  const follow = async () => {
    const { code, stdout, stderr } = await run('follow-changes.ts', [place], { DATABASE_URL: reader.url })
    expect([code, stderr]).toEqual([0, ''])
    return stdout
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as { stream: string; operation: string })
  }
  const first = await follow()
  const shown = await query(scene.url, 'select from intake_analytics.changes')
  expect(first).toHaveLength(shown.length)
  expect(new Set(first.map(({ stream }) => stream))).toContain('patients')
  expect(await follow()).toEqual([])
  const { control } = scene.emulator
  control.updatePatient(control.world().patients.at(0)!.id, { city: 'Elsewhere' })
  expect((await scene.backfill('--streams', 'patients')).code).toBe(0)
  expect(await follow()).toEqual([expect.objectContaining({ stream: 'patients', operation: 'upsert' })])
  expect(await follow()).toEqual([])
})
