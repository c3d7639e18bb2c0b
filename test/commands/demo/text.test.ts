/** What the demo prints: it can be pasted into a shell, and fits the terminal. */
import { expect, it } from 'vitest'
import * as say from '../../../src/commands/demo/text.ts'

it('what it prints can be pasted into a shell', () => {
  const places = {
    ...{
      dataDir: "/it's here",
      directory: '/data/16',
      port: 5433,
      webhooks: 'http://h:1/webhooks',
      admin: 'http://h:2',
    },
    variables: { INTAKE_TEAM: 'demo', INTAKE_API_SECRET: 'a b' },
  }
  expect(say.overlongDirectoryText(places)).toContain(`INTAKE_DATA_DIR='/it'\\''s here' `)
  const text = say.stayText(places, { url: 'u', link: 'http://h:3/login?link=x' })
  for (const line of [
    '  http://h:3/login?link=x\n',
    'Webhooks are received at http://h:1/webhooks, health and metrics are at http://h:2.',
    `  PGPASSWORD="$(cat /data/16/password)" psql -h 127.0.0.1 -p 5433 -U intake intake\n`,
    `  export INTAKE_DATA_DIR='/it'\\''s here'\n  export INTAKE_TEAM=demo\n  export INTAKE_API_SECRET='a b'\n`,
  ])
    expect(text).toContain(line)
  expect(say.liveText([{ what: 'a patient moved', seconds: 0.0416 }])).toBe(
    'a patient moved  row visible after 0.042 s\n',
  )
  expect(say.serviceText('u', { patients: 3, forms: 2 })).toContain(
    'at u with\n           3 patients, 2 forms\n',
  )
})

it('an answer is indented below its query, and cut to the width of a terminal in its last column', () => {
  const answer = {
    ...{ question: 'Who?', sql: 'select 1', columns: ['no', 'question'] },
    rows: [
      [1, 'Which of these have you ever had, and which of them have you now?'],
      [20, 'None'],
    ],
  }
  const shown = (stdout: object) => say.answerText({ stdout } as never, answer)
  const write = () => true
  const whole =
    '-- Who?\nselect 1;\n\n  no  question\n   1  Which of these have you ever had, and which of them have you now?\n  20  None\n\n'
  expect(shown({ write })).toBe(whole)
  expect(shown({ write, isTTY: true })).toBe(whole)
  const narrow = shown({ write, isTTY: true, columns: 50 }).split('\n').slice(3)
  expect(narrow).toEqual([
    '  no  question',
    '   1  Which of these have you ever had, and which…',
    '  20  None',
    '',
    '',
  ])
  expect(Math.max(...narrow.map((line) => line.length))).toBe(50)
  const none = say.answerText({ stdout: { write } } as never, { ...answer, rows: [] })
  expect(none).toBe('-- Who?\nselect 1;\n\n  no  question\n\n')
})
