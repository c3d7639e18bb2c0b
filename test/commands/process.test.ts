/** The process of a command: its heap, and the code with which it ends where its result is lost. */
import { execFile } from 'node:child_process'
import { chmodSync, existsSync } from 'node:fs'
import { dirname } from 'node:path'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { builtFile } from '../support/built.ts'
import { runCli } from '../support/cli.ts'

/** Loaded before the command: names each flag of V8 that is set. */
const PROBE = `
import v8 from 'node:v8'
import { syncBuiltinESMExports } from 'node:module'
const { setFlagsFromString } = v8
v8.setFlagsFromString = (flag) => {
  process.stderr.write('set ' + flag + '\\n')
  setFlagsFromString(flag)
}
syncBuiltinESMExports()`

it('serve keeps its young generation small, for short pauses; commands that load do not, for speed', async () => {
  const options = { NODE_OPTIONS: `--import=data:text/javascript;base64,${btoa(PROBE)}`, LOG_LEVEL: 'wrong' }
  const flagsOf = async (command: string) => {
    const { code, stderr } = await runCli([command], options)
    expect(code).toBe(2)
    return stderr.match(/^set .*$/gm) ?? []
  }
  expect((await flagsOf('serve')).at(-1)).toBe('set --semi-space-growth-factor=1')
  for (const command of ['backfill', 'work']) expect(await flagsOf(command)).toEqual([])
})

it('as a program, a command starts with a young generation of 32 MiB', async () => {
  const file = builtFile('cli.js')
  chmodSync(file, 0o755)
  const probe = `process.on('exit', () => process.stderr.write(process.execArgv.join(' ')))`
  const { stdout, stderr } = await promisify(execFile)(file, ['--version'], {
    env: {
      PATH: `${dirname(process.execPath)}:/usr/bin:/bin`,
      NODE_OPTIONS: `--import=data:text/javascript;base64,${btoa(probe)}`,
    },
  })
  expect([stdout, stderr]).toEqual([expect.stringMatching(/^\d+\.\d+\.\d+/), '--max-semi-space-size=32'])
})

it.runIf(existsSync('/dev/full'))(
  'a command whose result is lost ends with its own code, and with 1 only where that would be 0',
  async () => {
    const env = { INTAKE_DATA_DIR: '/nowhere/at/all' }
    const codes = await Promise.all(
      [['status'], ['wait', 'patient', '--json'], ['--version']].map(async (words) => {
        const { code, stderr } = await runCli(words, env, { onto: '/dev/full' })
        return [code, stderr.includes('error: standard output could not be written (ENOSPC)\n')]
      }),
    )
    expect(codes).toEqual([
      [4, true],
      [2, true],
      [1, true],
    ])
  },
)
