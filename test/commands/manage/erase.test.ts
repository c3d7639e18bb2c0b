/** `erase` asks at a terminal before it does anything, and accepts only yes. */
import { PassThrough } from 'node:stream'
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest'
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

/** Types the next of `answers` at each prompt, or ends the input if it is null. */
async function typed(...answers: readonly (string | null)[]): Promise<{ code: number; said: string }> {
  let said = ''
  const keyboard = Object.assign(new PassThrough(), { isTTY: true })
  const context: Context = {
    env: { DATABASE_URL: scene.url },
    stdout: { write: () => true },
    stderr: {
      write: (text) => {
        said += String(text)
        if (!said.endsWith('[y/N] ')) return true
        const answer = answers[said.split('[y/N] ').length - 2] ?? null
        // After the question, as a person does.
        setImmediate(() => (answer === null ? keyboard.end() : keyboard.write(`${answer}\n`)))
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

describe('rows of exports without a Client ID', () => {
  beforeEach(async () => {
    const person = { first_name: 'Ann', last_name: 'Lee', email: 'ann.lee@example.com' }
    await scene.store([patientEvent('p-1', 2, person)])
    await scene.drain()
    await scene.session.client.query(
      `insert into intake.export_rows (team_id, export_id, row_number, first_name, last_name, email)
       values ($1, 'e', 1, 'ann', 'LEE', 'Ann.Lee@example.com'), ($1, 'e', 2, 'Bea', 'Lee', 'bea@example.com')`,
      [scene.teamId],
    )
  })
  const rowsLeft = async () =>
    (await scene.rows<{ row: number }>('select row_number as row from intake.export_rows order by 1')).map(
      ({ row }) => row,
    )

  test('are a question of their own on a terminal', async () => {
    const { code, said } = await typed('y', 'y')
    expect([code, said]).toEqual([0, expect.stringContaining('1 row(s) of exports without a Client ID')])
    expect(await rowsLeft()).toEqual([2])
  })

  test('stay after a no, which ends with 4', async () => {
    expect((await typed('y', 'n')).code).toBe(4)
    expect([await patientCount(), await rowsLeft()]).toEqual([0, [1, 2]])
  })

  test('are reported where nobody is asked, with the places that are left, until they are named', async () => {
    const erase = (...words: string[]) =>
      runCommand(['erase', 'patient', 'p-1', '--yes', '--json', ...words], { DATABASE_URL: scene.url })
    const ended = await erase()
    expect([ended.code, JSON.parse(ended.stdout)]).toMatchObject([
      4,
      { unnamed_rows_left: 1, left: [{ table: 'intake.export_rows', column: 'email', rows: 1 }] },
    ])
    expect(ended.output).not.toMatch(/ann/i)
    expect(await rowsLeft()).toEqual([1, 2])
  })

  test('go with --unnamed-rows', async () => {
    const words = ['erase', 'patient', 'p-1', '--yes', '--unnamed-rows', '--vacuum']
    const ended = await runCommand(words, { DATABASE_URL: scene.url })
    expect([ended.code, ended.stdout]).toEqual([
      0,
      expect.stringMatching(/nothing left[\s\S]*rewrote \d+ tables/),
    ])
    expect(ended.stderr).toMatch(
      /^rewriting intake\.export_cells \(\d+ MB\); it is locked until this is done$/m,
    )
    expect(await rowsLeft()).toEqual([2])
  })
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
