import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { emulatorCommand } from '../../src/commands/run/emulator.ts'
import { UsageError } from '../../src/core/errors.ts'
import { SHAPE_NAMES } from '../../src/emulator/shapes/catalogue.ts'
import { type Running, startCli } from '../support/cli.ts'
import { makeFolder, removeFolder } from '../support/folders.ts'

/** A process of its own, and what it says when it serves. */
async function start(until: string, ...options: string[]): Promise<{ child: Running; said: string }> {
  const child = startCli(['emulator', ...options], {})
  await child.said(until)
  return { child, said: child.output() }
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
    const { child, said } = await start('\n', '--port', '0', '--patients', '3', '--api-key', 'k', '--json')
    const { environments } = JSON.parse(said)
    expect(environments.map((one: { name: string }) => one.name)).toEqual(['production', 'sandbox'])
    const [team] = environments[0].teams
    expect(Object.keys(team)).toEqual(['name', 'api_key', 'api_secret'])
    expect(team.api_key).toBe('k')
    const headers = { 'X-API-KEY': team.api_key, 'X-API-SECRET': team.api_secret }
    const response = await fetch(`${environments[0].base_url}/v2/patients`, { headers })
    expect(await response.json()).toMatchObject({ count: 3 })
    child.kill('SIGTERM')
    expect(await child.ended).toMatchObject({ code: 0, signal: null, stdout: said, stderr: '' })
  })

  it('prints a line to paste for people, and ends with 0 on Ctrl-C', async () => {
    const { child, said } = await start('Ctrl-C', '--port', '0')
    const line = /export INTAKE_BASE_URL=http:\/\/127\.0\.0\.1:\d+ INTAKE_API_KEY=\S+ INTAKE_API_SECRET=\S+/
    expect(said).toMatch(line)
    // The first team of production, which is listed first.
    const [, url, key, secret] = /^production {2}(\S+)\n {2}.* {2}key (\S+) {2}secret (\S+)\n/.exec(said)!
    expect(said).toContain(
      `export INTAKE_BASE_URL=${url} INTAKE_API_KEY=${key} INTAKE_API_SECRET=${secret}\n`,
    )
    child.kill('SIGINT')
    expect(await child.ended).toMatchObject({ code: 0, signal: null })
  })

  it('names the files that could not be imported, with reasons, and counts the others', async () => {
    const folder = makeFolder('imports-')
    const item = { linkId: '1', text: 'Q', type: 'string' }
    const files = {
      'broken.json': '{',
      'form.json': JSON.stringify({
        resourceType: 'Questionnaire',
        title: 'F',
        status: 'active',
        item: [item],
      }),
      'other.json': '{}',
      'worse.yaml': 'a: [',
    }
    for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
    const options = ['--port', '0', '--patients', '1', '--json', '--import-questionnaires', folder]
    const { child } = await start('\n', ...options)
    child.kill('SIGTERM')
    const { code, stderr } = await child.ended
    removeFolder(folder)
    expect(code).toBe(0)
    const [broken, worse, ...rest] = stderr.trimEnd().split('\n')
    expect(broken).toMatch(/^not imported: broken\.json: \S/)
    expect(worse).toMatch(/^not imported: worse\.yaml: \S/)
    expect(rest).toEqual([
      'imported 0 patients, 1 forms with 1 questions, 0 responses; 1 files are not questionnaires',
    ])
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
