/** `erase` asks at a terminal before it does anything, and accepts only yes. */
import { PassThrough } from 'node:stream'
import { afterEach, beforeEach, expect, inject, test } from 'vitest'
import type { Context } from '../../../src/commands/context.ts'
import { eraseCommand } from '../../../src/commands/manage/erase.ts'
import { openScene, patientEvent, type Scene } from '../../ingest/drain/scene.ts'
import { runCommand } from '../../support/run-command.ts'

let scene: Scene

beforeEach(async () => {
  scene = await openScene()
  await scene.store([patientEvent('p-1', 1)])
  await scene.drain()
})
afterEach(async () => {
  await scene[Symbol.asyncDispose]()
})

const patientCount = async () => (await scene.rows('select id from intake.patients')).length

/** Types `answer` at the prompt, or ends the input if it is null. */
async function typed(answer: string | null): Promise<{ code: number; said: string }> {
  let said = ''
  const keyboard = Object.assign(new PassThrough(), { isTTY: true })
  const context: Context = {
    env: { DATABASE_URL: scene.url },
    stdout: { write: () => true },
    stderr: {
      write: (text) => {
        said += String(text)
        if (!said.endsWith('[y/N] ')) return true
        if (answer === null) keyboard.end()
        else keyboard.write(`${answer}\n`)
        return true
      },
    },
    signal: new AbortController().signal,
    version: '0.0.0',
  }
  const command = eraseCommand(context, () => keyboard)
  try {
    await command.parseAsync(['patient', 'p-1'], { from: 'user' })
    return { code: 0, said }
  } catch (error) {
    return { code: (error as { exitCode: number }).exitCode, said }
  }
}

test.each(['n', '', 'maybe', null])('the answer %j leaves the patient alone', async (answer) => {
  const { code, said } = await typed(answer)
  expect([code, said]).toEqual([
    1,
    expect.stringContaining('Erase patient p-1 of team default: 1 of patients'),
  ])
  expect(said).toContain('nothing was erased')
  expect(await patientCount()).toBe(1)
})

test.each(['y', 'YES'])('the answer %j erases', async (answer) => {
  expect((await typed(answer)).code).toBe(0)
  expect(await patientCount()).toBe(0)
})

test('a login with only intake_loader, which owns nothing, may erase', async () => {
  const login = `${inject('testServer').prefix}eraser`
  await scene.session.client.query(`create role ${login} login password 'x' in role intake_loader`)
  try {
    const url = new URL(scene.url)
    url.username = login
    url.password = 'x'
    const ended = await runCommand(['erase', 'patient', 'p-1', '--yes'], { DATABASE_URL: url.href })
    expect([ended.code, ended.stderr]).toEqual([0, ''])
    expect(await patientCount()).toBe(0)
  } finally {
    await scene.session.client.query(`drop role ${login}`)
  }
})

test('with several teams one must be given, before anything is asked', async () => {
  await scene.session.client.query("insert into intake.teams (name) values ('other')")
  const env = { DATABASE_URL: scene.url }
  const unnamed = await runCommand(['erase', 'patient', 'p-1', '--yes'], env)
  expect([unnamed.code, unnamed.stderr]).toEqual([2, expect.stringContaining('default, other')])
  expect((await runCommand(['erase', 'patient', 'p-1', '--yes', '--team', 'other'], env)).code).toBe(1)
  expect(await patientCount()).toBe(1)
  const ended = await runCommand(['erase', 'patient', 'p-1', '--yes', '--team', 'default'], env)
  expect([ended.code, ended.stdout]).toEqual([0, expect.stringMatching(/^erased: 1 records?, /)])
  expect(ended.output).not.toContain('p-1')
  expect(await patientCount()).toBe(0)
})
