/** Each worked query of docs/queries gives an analyst the answer that follows from the emulator's own records. */
import { createHmac } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openScene, type Scene } from '../e2e/support/scene.ts'
import { runCommand } from '../support/run-command.ts'
import type { Line } from './grouped.ts'
import { type Login, makeLogin } from './logins.ts'
import { workedOut } from './worked-out.ts'
import { exportsAndAnswers } from './worked-out-exports.ts'

const KEY = 'the key of this test'
const folder = new URL('../../docs/queries/', import.meta.url)
const files = readdirSync(folder)
  .filter((name) => name.endsWith('.sql'))
  .sort()

let scene: Scene
let analyst: Login
let clinician: Login
let expected: Readonly<Record<string, readonly Line[]>>

beforeAll(async () => {
  scene = await openScene({ patients: 150, responses: 700, forms: 7, packets: 3 })
  const ended = await runCommand(['backfill'], { ...scene.env, INTAKE_ANALYTICS_KEY: KEY })
  expect(ended.code).toBe(0)
  analyst = await makeLogin(scene.url, 'intake_analyst')
  clinician = await makeLogin(scene.url, 'intake_clinical')
  const pseudonym = (id: string) => createHmac('sha256', KEY).update(`1:${id}`).digest('hex')
  const world = scene.emulator.control.world()
  expected = { ...workedOut(world, pseudonym), '20': await exportsAndAnswers(world, 'Intake') }
})
afterAll(() => scene[Symbol.asyncDispose]())

const answer = (name: string) => {
  const text = readFileSync(new URL(name, folder), 'utf8')
  return (text.includes('intake_clinical') ? clinician : analyst).rows(text)
}

/** Those of docs/warehouse.md, which show each kind of view, and whose answers do not depend on today. */
const SHOWN = ['02', '03', '04', '05', '06', '11', '12', '14', '15', '18']
const SHOWN_ROWS = 6
const shownQueries = new URL('../support/warehouse-queries.md', import.meta.url)

interface Shown {
  readonly head: string
  readonly rows: readonly string[]
  readonly note: string
}

/** A query with the first rows of its answer, in Markdown. */
async function shownQuery(number: string): Promise<Shown> {
  const name = files.find((file) => file.startsWith(number))!
  const text = readFileSync(new URL(name, folder), 'utf8').trim()
  const question = /^-- ([\s\S]*?\?)/.exec(text)![1]!.replace(/\n-- /g, ' ')
  const rows = await answer(name)
  const columns = Object.keys(rows[0]!)
  const line = (cells: readonly unknown[]) => `| ${cells.map((cell) => String(cell ?? '')).join(' | ')} |`
  const head = [
    ...[`### ${question}`, '', '```sql', text.replace(/^(?:--.*\n)+/, ''), '```', ''],
    ...[line(columns), line(columns.map(() => '---'))],
  ]
  const note = rows.length > SHOWN_ROWS ? `\n\n… and ${rows.length - SHOWN_ROWS} more rows` : ''
  return { head: head.join('\n'), rows: rows.map((row) => line(Object.values(row))), note }
}

/** Numbers as numbers and days as text, whatever their types; in one order. */
function comparable(rows: readonly Line[]): string[] {
  const plain = (value: unknown) => {
    if (value instanceof Date) return value.toISOString().slice(0, 10)
    return typeof value === 'string' && /^-?\d+(\.\d+)?$/.test(value) ? Number(value) : value
  }
  return rows
    .map((row) =>
      JSON.stringify(
        Object.entries(row)
          .map(([name, value]) => [name, plain(value)])
          .sort(),
      ),
    )
    .sort()
}

it('there are thirty, each with its question', () => {
  expect(files).toHaveLength(30)
  for (const name of files) expect(readFileSync(new URL(name, folder), 'utf8')).toMatch(/^-- [A-Z].*\?/)
})

it('docs/warehouse.md shows ten of them with their answers; UPDATE_DOCS=1 renews these', async () => {
  const shown = []
  for (const number of SHOWN) shown.push(await shownQuery(number))
  const text = shown.map(({ head, rows, note }) => `${head}\n${rows.slice(0, SHOWN_ROWS).join('\n')}${note}`)
  if (process.env.UPDATE_DOCS === '1') writeFileSync(shownQueries, `${text.join('\n\n')}\n`)
  const documented = readFileSync(shownQueries, 'utf8').trimEnd()
  expect(readFileSync(new URL('../../docs/warehouse.md', import.meta.url), 'utf8')).toContain(documented)
  // The order of texts is that of the database's collation: rows may be others of the same answer.
  const parts = documented.split(/\n\n(?=### )/)
  expect(parts).toHaveLength(shown.length)
  for (const [at, { head, rows, note }] of shown.entries()) {
    const part = parts[at]!
    expect(part.startsWith(`${head}\n`)).toBe(true)
    const body = part.slice(head.length + 1, part.length - note.length).split('\n')
    expect(body).toHaveLength(Math.min(SHOWN_ROWS, rows.length))
    expect(rows).toEqual(expect.arrayContaining(body))
    expect(part.endsWith(note)).toBe(true)
  }
})

describe('the answer follows from the records', () => {
  it.each(files)('%s', async (name) => {
    const rows = await answer(name)
    // In this world every form was filled in recently, no form is an instrument, and changes wait for other transactions.
    if (!/^(17|21|27)/.test(name)) expect(rows.length).toBeGreaterThan(0)
    const own = expected[name.slice(0, 2)]
    if (own !== undefined) expect(comparable(rows)).toEqual(comparable(own))
  })

  it('05: unanswered questions are those without an answer in the tables', async () => {
    const rows = await scene.query<Line>(
      `select f.name as form, a.question_id, count(*) filter (where a.value_text <> '' or exists (
           select from intake.response_signatures s where s.response_id = r.id and s.question_id = a.question_id
         ) or exists (
           select from intake.response_files s where s.response_id = r.id and s.question_id = a.question_id
         ) or exists (
           select from intake.response_matrix_cells s
           where s.response_id = r.id and s.question_id = a.question_id and s.value_text <> ''
         )) as answered
       from intake.response_answers a join intake.responses r on r.id = a.response_id join intake.forms f on f.id = r.form_id
       where a.value_position = 1 and a.question_id is not null and r.submitted_at is not null group by 1, 2`,
    )
    const answers = await answer(files.find((name) => name.startsWith('05'))!)
    expect(answers.map(({ answered }) => Number(answered)).sort()).toEqual(
      rows.map(({ answered }) => Number(answered)).sort(),
    )
    const kinds = await scene.query<{ kind: string; answered: number }>(
      `select t.kind, count(*)::int as answered from intake_analytics.answers a
       join intake_raw.question_terms t using (team_id, form_id, question_id)
       where a.is_answered and t.kind in ('signature', 'file', 'matrix') group by 1 order by 1`,
    )
    expect(kinds.map(({ kind }) => kind)).toEqual(['file', 'matrix', 'signature'])
    for (const { answered, responses, share_left_out } of answers) {
      expect(Number(share_left_out)).toBeCloseTo(1 - Math.min(1, Number(answered) / Number(responses)), 3)
    }
  })

  it('14: choices are read once, not joined with themselves', async () => {
    const text = readFileSync(new URL(files.find((name) => name.startsWith('14'))!, folder), 'utf8')
    const plan = await scene.query<{ 'QUERY PLAN': string }>(`explain (costs off) ${text}`)
    const scans = plan.filter((line) => / on response_answers\b/.test(line['QUERY PLAN']))
    expect(scans).toHaveLength(1)
    expect(plan.filter((line) => / on taken/.test(line['QUERY PLAN'])).length).toBeLessThan(2)
  })

  it('21 and 26: answers of an instrument and cells of exports are not compared each with each response', async () => {
    await scene.query('analyze')
    const planOf = async (text: string) =>
      (await scene.query<{ 'QUERY PLAN': string }>(`explain ${text}`)).map((line) => line['QUERY PLAN'])
    const cells = 'select * from intake_analytics.export_answers'
    const [{ count }] = (await scene.query<{ count: number }>(`select count(*)::int from (${cells}) c`)) as [
      { count: number },
    ]
    // A planner that expects one row reads all responses for each.
    const expects = Number(/rows=(\d+)/.exec((await planOf(cells))[0]!)![1])
    expect([expects > count / 10, expects < count * 10]).toEqual([true, true])
    const joined = await planOf('select * from intake_analytics.scores')
    expect(joined.some((line) => line.includes('Append'))).toBe(true)
    expect(joined.filter((line) => /Join Filter.*response_id/.test(line))).toEqual([])
  })

  it('13: ticks are those of the tables', async () => {
    const rows = await scene.query<Line>(
      `select count(*) filter (where a.value_boolean) as ticked, count(*) filter (where not a.value_boolean) as blank
       from intake.response_answers a join intake.responses r on r.id = a.response_id
       join intake.form_questions q on q.form_id = r.form_id and q.question_id = a.question_id and q.question_type = 'checkbox'
       where a.value_boolean is not null group by r.form_id, a.question_id`,
    )
    const answers = await answer(files.find((name) => name.startsWith('13'))!)
    expect(comparable(answers.map(({ ticked, blank }) => ({ ticked, blank })))).toEqual(comparable(rows))
  })

  it('17: forms asleep are those whose last submission is ninety days older than the newest', async () => {
    await scene.query(
      `update intake.responses set submitted_at = submitted_at - interval '1 year'
       where form_id in (select id from intake.forms where name in ('Intake', 'Insurance'))`,
    )
    const rows = await scene.query<Line>(
      `select f.name as form, count(*) as started from intake.responses r join intake.forms f on f.id = r.form_id
       group by r.form_id, f.name
       having max(r.submitted_at) is null or max(r.submitted_at) < (select max(submitted_at) from intake.responses where form_id is not null) - interval '90 days'`,
    )
    const answers = await answer(files.find((name) => name.startsWith('17'))!)
    expect(answers.length).toBeGreaterThan(0)
    expect(comparable(answers.map(({ form, started }) => ({ form, started })))).toEqual(comparable(rows))
  })
})
