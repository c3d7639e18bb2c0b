import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { expect, test } from 'vitest'
import { identityOf } from '../../src/embedded/process-identity.ts'

const MODULE = new URL('./interruption.ts', import.meta.url).href

/** A command that has started two things, and runs a program that never ends. */
const COMMAND = `
  import { runProgram, whenInterrupted } from '${MODULE}'
  whenInterrupted(() => console.log('the first is undone'))
  whenInterrupted(async () => {
    await new Promise((resolve) => setTimeout(resolve, 20))
    console.log('the second is undone')
  })
  whenInterrupted(() => console.log('never'))()
  const script = 'console.log(process.pid); setInterval(() => {}, 1000)'
  await runProgram(process.execPath, ['-e', script], { stdio: 'inherit' })
  console.log('went on')`

test.each([
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const)(
  '%s ends the program that runs, undoes what was begun, the latest first, however often it comes',
  async (signal, code) => {
    const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', COMMAND], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const ended = once(child, 'exit')
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
    const pid = Number((await lines.next()).value)
    child.kill(signal)
    child.kill(signal)
    const said: string[] = []
    for (let line = await lines.next(); line.done !== true; line = await lines.next()) said.push(line.value)
    expect((await ended)[0]).toBe(code)
    expect(said).toEqual(['the second is undone', 'the first is undone'])
    expect(identityOf(pid)).toBeUndefined()
  },
)
