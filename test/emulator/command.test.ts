import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { resolve } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { emulatorCommand } from '../../src/commands/emulator.ts'
import { UsageError } from '../../src/core/errors.ts'
import { SHAPE_NAMES } from '../../src/emulator/shapes/catalogue.ts'

const root = resolve(import.meta.dirname, '../..')
const children: ChildProcess[] = []
afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL')
})

function start(...options: string[]): { child: ChildProcess; firstOutput: Promise<string> } {
  const child = spawn(process.execPath, ['--import', 'tsx', 'src/cli.ts', 'emulator', ...options], {
    cwd: root,
  })
  children.push(child)
  const firstOutput = once(child.stdout!, 'data').then(([data]) => String(data))
  return { child, firstOutput }
}

/** Runs the command in this process; it must end by itself. */
async function run(...options: string[]): Promise<string> {
  let output = ''
  const stdout = { write: (text: string) => (output += text) }
  await emulatorCommand({ stdout, stderr: stdout })
    .exitOverride()
    .parseAsync(['node', 'x', ...options])
  return output
}

describe('intake-sync emulator', () => {
  it('prints one JSON document, serves what it says, and ends with 0 on SIGTERM', async () => {
    const { child, firstOutput } = start('--port', '0', '--patients', '3', '--api-key', 'k', '--json')
    const { environments } = JSON.parse(await firstOutput)
    expect(environments.map((one: { name: string }) => one.name)).toEqual(['production', 'sandbox'])
    const [team] = environments[0].teams
    expect(Object.keys(team)).toEqual(['name', 'api_key', 'api_secret'])
    expect(team.api_key).toBe('k')
    const headers = { 'X-API-KEY': team.api_key, 'X-API-SECRET': team.api_secret }
    const response = await fetch(`${environments[0].base_url}/v2/patients`, { headers })
    expect(await response.json()).toMatchObject({ count: 3 })
    child.kill('SIGTERM')
    expect(await once(child, 'exit')).toEqual([0, null])
  })

  it('prints for people a line to paste, and ends with 0 on Ctrl-C', async () => {
    const { child, firstOutput } = start('--port', '0')
    const line = /export INTAKE_BASE_URL=http:\/\/127\.0\.0\.1:\d+ INTAKE_API_KEY=\S+ INTAKE_API_SECRET=\S+/
    expect(await firstOutput).toMatch(line)
    child.kill('SIGINT')
    expect(await once(child, 'exit')).toEqual([0, null])
  })

  it.each([
    ['--port', 'x'],
    ['--port', '70000'],
    ['--patients', '-1'],
    ['--patients', '1.5'],
    ['--page-size', '0'],
    ['--rate-limit', 'fast'],
    ['--rate-limit', '0'],
    ['--shape', 'nonsense'],
    ['--faults', 'nonsense=1'],
    ['--activity', '-1'],
    ['--time-scale', '0'],
    ['--api-key', ''],
    ['--import-patients', '/does/not/exist.csv'],
    ['--import-questionnaires', '/does/not/exist'],
    ['--responses', '-1'],
    ['--import-survey', 'x.csv'],
  ])('%s %s is wrong usage, and the message names the option', async (option, value) => {
    const error = await run('--port', '0', `${option}=${value}`).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(UsageError)
    expect((error as Error).message).toContain(option)
  })

  it('names every shape and every fault when asked for the list', async () => {
    const shapes = await run('--shape', 'list')
    for (const name of SHAPE_NAMES) expect(shapes).toContain(`\n${name} `)
    expect(JSON.parse(await run('--faults', 'list', '--json'))).toHaveProperty('reset')
  })
})
