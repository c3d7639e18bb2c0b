/** Values that stop a batch or become null in other tools: here each is kept, reported, and the other rows are loaded. */
import { expect, it } from 'vitest'
import { littlePatients, startLittleService } from '../e2e/support/little-service.ts'
import { documentOf, openWarehouse, query } from '../e2e/support/scene.ts'
import { runCommand } from '../support/run-command.ts'

const DIGITS = '9'.repeat(300)

it('a poison value (NUL, half a surrogate pair, a number of 300 digits) among good rows: all rows are loaded, and the value is readable', async () => {
  await using service = await startLittleService()
  await using warehouse = await openWarehouse()
  const [nul, surrogate, number] = ['a\u0000b', 'c\ud83dd', '#digits#']
  const patients = littlePatients(15).map((patient, at) => {
    const last_name = at === 3 ? nul : at === 7 ? surrogate : patient.last_name
    return { ...patient, last_name, custom_fields: at === 11 ? { weight: number } : patient.custom_fields }
  })
  const question = { id: 'q1', text: 'How many?', order: number }
  const forms = [
    { id: 'f1', name: 'Good', questions: [{ ...question, order: 4 }] },
    { id: 'f2', name: 'Poisoned', questions: [question, { ...question, order: 5 }] },
  ]
  service.interfere = ({ url }, response) => {
    const lists = { patients, forms }
    const results = lists[url.slice('/v2/'.length) as keyof typeof lists]
    if (results === undefined) return false
    // Written as the service might: no JavaScript number can represent it.
    const text = JSON.stringify({ count: results.length, next: null, previous: null, results })
    response.writeHead(200, { 'content-type': 'application/json' }).end(text.replaceAll('"#digits#"', DIGITS))
    return true
  }
  const env = { ...service.env, DATABASE_URL: warehouse.url }
  const run = await runCommand(['backfill', '--streams', 'patients,forms', '--json'], env)
  expect(run.code).toBe(0)
  expect(documentOf(run).streams).toMatchObject({
    patients: { changed: 15, dead_letters: 0, problems: 2 },
    forms: { changed: 2, dead_letters: 0, problems: 1 },
  })

  const people = await query<{ last_name: string; _problems: unknown; value: string }>(
    warehouse.url,
    `select last_name, _problems, value from intake.patients p
     join intake.patient_custom_fields c on (c.team_id, c.patient_id) = (p.team_id, p.id)
     order by substr(p.id, 2)::int`,
  )
  expect(people).toHaveLength(15)
  const reason = 'holds what Postgres cannot; written visibly'
  const problem = (original: string) => [{ path: 'last_name', reason, original }]
  expect(people[3]).toMatchObject({ last_name: 'a\\u0000b', _problems: problem('a\\u0000b') })
  expect(people[7]).toMatchObject({ last_name: 'c\\ud83dd', _problems: problem('c\\ud83dd') })
  // A number in a text column is its digits, every one of them.
  expect(people[11]).toMatchObject({ last_name: 'first', value: DIGITS, _problems: null })
  expect(people.filter(({ last_name }) => last_name === 'first')).toHaveLength(13)

  // In a column that cannot store it, it is null, and the problem contains it.
  const orders = await query(
    warehouse.url,
    'select form_id, sort_order from intake.form_questions order by form_id, position',
  )
  expect(orders).toEqual([
    { form_id: 'f1', sort_order: 4 },
    { form_id: 'f2', sort_order: null },
    { form_id: 'f2', sort_order: 5 },
  ])
  const [form] = await query<{ original: string; payload: string }>(
    warehouse.url,
    `select f._problems #>> '{0,original}' as original, r.payload #>> '{questions,0,order}' as payload
     from intake.forms f join intake_raw.records r on (r.team_id, r.id) = (f.team_id, f.id) where f.id = 'f2'`,
  )
  expect(form).toEqual({ original: DIGITS, payload: DIGITS })

  const again = documentOf(
    await runCommand(['backfill', '--streams', 'patients,forms', '--json'], env),
  ).streams
  expect(again).toMatchObject({
    patients: { changed: 0, unchanged: 15 },
    forms: { changed: 0, unchanged: 2 },
  })
})
