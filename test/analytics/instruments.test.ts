/** Scores follow the published rules of each instrument, from choices that analysts may see. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { parseInstrument } from '../../src/analytics/instruments.ts'
import { migrate } from '../../src/analytics/migrate.ts'
import { openWarehouse, query } from '../e2e/support/scene.ts'
import type { TestDatabase } from '../support/database.ts'
import { makeFolder, removeFolder } from '../support/folders.ts'
import { runCommand } from '../support/run-command.ts'
import { type Login, makeLogin } from './logins.ts'

const FOLDER = new URL('../../sql/instruments/', import.meta.url)
const builtIn = (name: string) => parseInstrument(readFileSync(new URL(`${name}.json`, FOLDER), 'utf8'))

let warehouse: TestDatabase
let analyst: Login
let folder: string

beforeAll(async () => {
  warehouse = await openWarehouse()
  folder = makeFolder('instruments-')
  await query(warehouse.url, `insert into intake.teams (name) values ('default')`)
  analyst = await makeLogin(warehouse.url, 'intake_analyst')
})
beforeEach(() =>
  query(
    warehouse.url,
    `truncate intake.forms, intake.form_questions, intake.question_choices, intake.responses, intake.response_answers,
       intake.patients, intake_raw.question_terms, intake_raw.question_concepts, intake_ops.classifications`,
  ),
)
afterAll(async () => {
  removeFolder(folder)
  await warehouse.drop()
})

const META = `now(), 'page', now(), ''`
const literal = (text: string | null) => (text === null ? 'null' : `'${text.replaceAll("'", "''")}'`)

interface Asked {
  readonly text: string
  readonly choices: readonly string[]
}

/** The questions of an instrument as a form asks them, numbered. */
function questionsOf(name: string): readonly Asked[] {
  const { items, points } = builtIn(name)
  return items.map((item, place) => ({
    text: `${place + 1}. ${item.wordings[0]!.toUpperCase()}?`,
    choices: Object.keys(item.points ?? points!),
  }))
}

async function addForm(id: string, questions: readonly Asked[], type = 'single_choice'): Promise<void> {
  await query(
    warehouse.url,
    [
      `insert into intake.forms (team_id, id, name, _version, _origin, _loaded_at, _hash) values (1, '${id}', '${id}', ${META})`,
      ...questions.flatMap(({ text, choices }, place) => [
        `insert into intake.form_questions (team_id, form_id, position, question_id, question_type, text)
         values (1, '${id}', ${place + 1}, 'q${place + 1}', '${type}', ${literal(text)})`,
        ...choices.map(
          (choice, at) =>
            `insert into intake.question_choices (team_id, form_id, question_position, position, question_id, choice_id, text)
             values (1, '${id}', ${place + 1}, ${at + 1}, 'q${place + 1}', 'c${at}', ${literal(choice)})`,
        ),
      ]),
    ].join(';\n'),
  )
}

/** A submitted response; null leaves a question without an answer. */
async function respond(
  id: string,
  form: string,
  questions: readonly Asked[],
  choices: readonly (string | null)[],
  sex: string | null = null,
): Promise<void> {
  await query(
    warehouse.url,
    [
      `insert into intake.patients (team_id, id, sex_at_birth, _version, _origin, _loaded_at, _hash) values (1, 'p-${id}', ${literal(sex)}, ${META})`,
      `insert into intake.responses (team_id, id, patient_id, form_id, is_submitted, submitted_at, _version, _origin, _loaded_at, _hash)
       values (1, '${id}', 'p-${id}', '${form}', true, now(), ${META})`,
      ...choices.map(
        (choice, place) =>
          `insert into intake.response_answers (team_id, response_id, position, value_position, question_id, question_text, value_text)
           values (1, '${id}', ${place + 1}, 1, 'q${place + 1}', ${literal(questions[place]!.text)}, ${literal(choice)})`,
      ),
    ].join(';\n'),
  )
}

const scores = (instrument: string) =>
  analyst.rows<{
    response_id: string
    items_answered: number
    score: string | null
    is_prorated: boolean
    band: string | null
  }>(
    `select response_id, items_answered, score::text, is_prorated, band from intake_analytics.scores
     where instrument = $1 order by response_id`,
    [instrument],
  )

const FREQUENCY = ['Not at all', 'Several days', 'More than half the days', 'Nearly every day']
const chosen = (points: string) =>
  [...points].map((digit) => (digit === '-' ? null : FREQUENCY[Number(digit)]!))

describe('a score', () => {
  it.each([
    ['phq-9', '000000000', 9, '0', false, 'minimal'],
    ['phq-9', '111100000', 9, '4', false, 'minimal'],
    ['phq-9', '111110000', 9, '5', false, 'mild'],
    ['phq-9', '222211000', 9, '10', false, 'moderate'],
    ['phq-9', '333330000', 9, '15', false, 'moderately severe'],
    ['phq-9', '333333200', 9, '20', false, 'severe'],
    ['phq-9', '333333333', 9, '27', false, 'severe'],
    ['phq-9', '2222222--', 7, '18', true, 'moderately severe'],
    ['phq-9', '11111110-', 8, '8', true, 'mild'],
    ['phq-9', '333333---', 6, null, false, null],
    ['phq-9', '---------', 0, null, false, null],
    ['phq-2', '12', 2, '3', false, 'positive'],
    ['phq-2', '11', 2, '2', false, 'negative'],
    ['phq-2', '3-', 1, null, false, null],
    ['gad-7', '1111000', 7, '4', false, 'minimal'],
    ['gad-7', '1111100', 7, '5', false, 'mild'],
    ['gad-7', '2222200', 7, '10', false, 'moderate'],
    ['gad-7', '3333300', 7, '15', false, 'severe'],
    ['gad-7', '333330-', 6, null, false, null],
  ] as const)(
    'of %s for %s: %i answered, %s (prorated %s), %s',
    async (name, points, answered, score, prorated, band) => {
      const questions = questionsOf(name)
      await addForm('form', questions)
      await respond('r', 'form', questions, chosen(points))
      expect(await scores(name)).toEqual([
        { response_id: 'r', items_answered: answered, score, is_prorated: prorated, band },
      ])
    },
  )

  it.each([
    ['Female', ['Monthly or less', '3 or 4', 'Less than monthly'], '3', 'positive'],
    ['Male', ['Monthly or less', '3 or 4', 'Less than monthly'], '3', 'negative'],
    ['male', ['2-4 times a month', '3 or 4', 'Less than monthly'], '4', 'positive'],
    [null, ['4 or more times a week', '10 or more', 'Daily or almost daily'], '12', null],
    ['Female', ['Never', null, null], '0', 'negative'],
    ['Female', ['Weekly?', null, null], null, null],
    ['Male', ['Monthly or less', null, 'Never'], null, null],
  ] as const)(
    'of audit-c for a patient of sex %s who chose %j is %s: %s',
    async (sex, choices, score, band) => {
      const questions = questionsOf('audit-c')
      await addForm('form', questions)
      await respond('r', 'form', questions, choices, sex)
      expect(await scores('audit-c')).toMatchObject([{ score, band, is_prorated: false }])
    },
  )

  it('is that of submitted responses only, of forms that ask every item; a form with PHQ-9 gives PHQ-2 as well', async () => {
    const nine = questionsOf('phq-9')
    await addForm('nine', nine)
    await addForm('eight', nine.slice(0, 8))
    await respond('a', 'nine', nine, chosen('120000000'))
    await respond('b', 'eight', nine, chosen('33333333'))
    await respond('c', 'nine', nine, chosen('333333333'))
    await respond('d', 'nine', nine, chosen('333333333'))
    await respond('e', 'nine', nine, chosen('333333333'))
    await query(
      warehouse.url,
      `update intake.responses set is_submitted = false where id = 'c'; update intake.responses set is_skipped = true where id = 'd';
       update intake.responses set _deleted_at = now() where id = 'e'`,
    )
    expect((await scores('phq-9')).map(({ response_id, score }) => [response_id, score])).toEqual([
      ['a', '3'],
    ])
    expect((await scores('phq-2')).map(({ response_id, score }) => [response_id, score])).toEqual([
      ['a', '3'],
      ['b', '6'],
    ])
  })

  it('of a form that asks an item twice counts equal answers once, and different answers as no answer', async () => {
    const [one, two] = questionsOf('phq-2') as [Asked, Asked]
    const questions = [one, two, { ...one, text: one.text.toLowerCase() }]
    await addForm('form', questions)
    await respond('equal', 'form', questions, chosen('232'))
    await respond('once', 'form', questions, chosen('-32'))
    await respond('unequal', 'form', questions, chosen('231'))
    expect(await scores('phq-2')).toMatchObject([
      { response_id: 'equal', items_answered: 2, score: '5' },
      { response_id: 'once', items_answered: 2, score: '5' },
      { response_id: 'unequal', items_answered: 1, score: null },
    ])
  })

  it('uses the concept of a question if it has one, whatever its text', async () => {
    const foreign = questionsOf('phq-2').map(({ choices }, place) => ({
      text: `Frage ${place + 1}`,
      choices,
    }))
    await addForm('form', foreign)
    await respond('r', 'form', foreign, chosen('23'))
    expect(await scores('phq-2')).toEqual([])
    await query(
      warehouse.url,
      `insert into intake_raw.question_concepts (team_id, form_id, question_id, concept) values (1, 'form', 'q1', '44250-9'), (1, 'form', 'q2', 'phq-2/2')`,
    )
    expect(await scores('phq-2')).toMatchObject([{ score: '5' }])
  })

  it('does not count an answer that is hidden from analysts, nor a text that is no choice of the form', async () => {
    const questions = questionsOf('phq-2')
    await addForm('form', questions)
    await respond('r', 'form', questions, chosen('23'))
    const hide = ['classify', 'set', 'q1', 'hidden', '--form', 'form']
    expect(await runCommand(hide, { DATABASE_URL: warehouse.url })).toMatchObject({ code: 0 })
    expect(await scores('phq-2')).toMatchObject([{ items_answered: 1, score: null }])
  })

  it.each(['single_choice', 'dropdown'])(
    'does not count an answer to a former wording that a person hid: %s',
    async (type) => {
      const questions = questionsOf('phq-2')
      const decide = async (shown: string) => {
        const words = ['classify', 'set', 'q1', shown, '--form', 'form']
        expect(await runCommand(words, { DATABASE_URL: warehouse.url })).toMatchObject({ code: 0 })
      }
      await addForm('form', questions, type)
      await respond('before', 'form', questions, chosen('23'))
      await decide('hidden')
      const reworded = questions.map(({ text, choices }) => ({ text: text.replace('?', '!'), choices }))
      await query(
        warehouse.url,
        `update intake.form_questions set text = ${literal(reworded[0]!.text)} where question_id = 'q1'`,
      )
      await decide('structured')
      await respond('now', 'form', [reworded[0]!, questions[1]!], chosen('23'))
      expect(await scores('phq-2')).toMatchObject([
        { response_id: 'before', items_answered: 1, score: null },
        { response_id: 'now', items_answered: 2, score: '5' },
      ])
    },
  )
})

describe('instruments', () => {
  const run = (...words: string[]) => runCommand(['instruments', ...words], { DATABASE_URL: warehouse.url })

  it('of the program are there after migrate, each item with its points', async () => {
    await addForm('form', questionsOf('gad-7'))
    // As many questions as items, but not one for each.
    const [first] = questionsOf('phq-2')
    await addForm('twice', [first!, first!])
    const { stdout } = await run('list', '--json')
    const listed: { instrument: string; items: number; forms: number }[] = JSON.parse(stdout).instruments
    expect(listed.map(({ instrument, items, forms }) => [instrument, items, forms])).toEqual([
      ['audit-c', 3, 0],
      ['gad-7', 7, 1],
      ['phq-2', 2, 0],
      ['phq-9', 9, 0],
    ])
    expect(readdirSync(FOLDER).sort()).toEqual(listed.map(({ instrument }) => `${instrument}.json`))
    expect((await run('list')).stdout).toMatch(/gad-7 +7 +1 +built in/)
    // A form of the other team with the same id, and half an instrument in each of two.
    await query(
      warehouse.url,
      `insert into intake.teams (name) values ('other');
       insert into intake.form_questions (team_id, form_id, position, question_id, question_type, text)
         select team.team_id, form_id, position, question_id, question_type, text from intake.form_questions, intake.teams team
         where team.name = 'other' and form_id = 'form';
       insert into intake.form_questions (team_id, form_id, position, question_id, question_type, text)
         select team_id, 'half', team_id, 'q', 'single_choice', case team_id when 1 then ${literal(first!.text)} else ${literal(questionsOf('phq-2')[1]!.text)} end
         from intake.teams`,
    )
    const again: { instrument: string; forms: number }[] = JSON.parse(
      (await run('list', '--json')).stdout,
    ).instruments
    expect(again.map(({ instrument, forms }) => [instrument, forms])).toEqual([
      ['audit-c', 0],
      ['gad-7', 2],
      ['phq-2', 0],
      ['phq-9', 0],
    ])
    await query(warehouse.url, `delete from intake.teams where name = 'other'`)
  })

  it('of the guide can be imported, scores, is replaced by a second import, and can be removed', async () => {
    const [, example] = /```json\n(.*?)```/s.exec(readFileSync('docs/instruments.md', 'utf8'))!
    const file = join(folder, 'sleep.json')
    writeFileSync(file, example!)
    expect(await run('import', file)).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('sleep-2 is stored'),
    })
    const questions = parseInstrument(example!).items.map((item) => ({
      text: item.wordings[0]!,
      choices: Object.keys(item.points ?? { Never: 0, Sometimes: 1, Often: 2 }),
    }))
    await addForm('form', questions)
    await respond('r', 'form', questions, ['Sometimes', 'Yes'])
    expect(await scores('sleep-2')).toMatchObject([{ score: '3', band: 'ask more' }])
    // As Windows saves it.
    writeFileSync(file, `\ufeff${example!.replace('"ask more"', '"talk"')}`)
    expect((await run('import', file)).code).toBe(0)
    expect(await scores('sleep-2')).toMatchObject([{ band: 'talk' }])
    // The same file once more.
    expect((await run('import', file)).code).toBe(0)
    expect(await scores('sleep-2')).toMatchObject([{ score: '3', band: 'talk' }])
    expect((await run('remove', 'sleep-2')).code).toBe(0)
    expect(await scores('sleep-2')).toEqual([])
    expect(await run('remove', 'sleep-2')).toMatchObject({ code: 2, stdout: '' })
    const { code, stdout } = await run('remove', 'sleep-2', '--json')
    expect([code, JSON.parse(stdout)]).toEqual([2, { error: expect.objectContaining({ code: 'usage' }) }])
    expect((await run('import', file)).code).toBe(0)
    const removed = await run('remove', 'sleep-2', '--json')
    expect([removed.code, JSON.parse(removed.stdout)]).toEqual([0, { instrument: 'sleep-2', removed: true }])
  })

  it.each([
    [{}, 'the definition is wrong at instrument: '],
    [
      { ...minimal(), least_answered: 2 },
      'the definition is wrong at least_answered: is more than there are items',
    ],
    [{ ...minimal(), zero_item: 2 }, 'the definition is wrong at zero_item: is not the place of an item'],
    [{ ...minimal(), points: undefined }, 'the definition is wrong at items.0.points: is missing'],
    [{ ...minimal(), extra: 1 }, 'the definition is wrong at its top: '],
    [{ ...minimal(), instrument: 'phq-9' }, '"phq-9" is built in'],
    ['no json', 'the file is not JSON'],
  ])(
    'with a wrong definition (case %#) are refused with 2, and nothing is stored',
    async (definition, message) => {
      const file = join(folder, 'wrong.json')
      writeFileSync(file, typeof definition === 'string' ? definition : JSON.stringify(definition))
      const { code, stderr } = await run('import', file)
      expect([code, stderr]).toEqual([2, expect.stringContaining(message)])
      expect(await query(warehouse.url, 'select count(*)::int as n from intake_ops.instruments')).toEqual([
        { n: 4 },
      ])
    },
  )

  it('of the program are renewed by migrate where they differ, but not in the place of one of the user', async () => {
    const stored = `select instrument, title, is_built_in from intake_ops.instruments where instrument in ('gad-7', 'phq-2') order by 1`
    const before = await query(warehouse.url, stored)
    await query(
      warehouse.url,
      `update intake_ops.instruments set hash = '', title = 'Mine' where instrument in ('gad-7', 'phq-2');
       update intake_ops.instruments set is_built_in = false where instrument = 'phq-2'`,
    )
    await migrate(warehouse.url)
    expect(await query(warehouse.url, stored)).toEqual([
      before[0],
      { instrument: 'phq-2', title: 'Mine', is_built_in: false },
    ])
    await query(warehouse.url, `update intake_ops.instruments set is_built_in = true`)
    await migrate(warehouse.url)
    expect(await query(warehouse.url, stored)).toEqual(before)
    const items = `select count(*)::int as items from intake_ops.instrument_points where instrument = 'gad-7'`
    expect(await query(warehouse.url, items)).toEqual([{ items: 28 }])
  })

  it('give a choice that they name twice the lesser points', async () => {
    const file = join(folder, 'twice.json')
    writeFileSync(file, JSON.stringify({ ...minimal(), points: { Yes: 2, 'yes!': 1 }, zero_item: 1 }))
    expect((await run('import', file)).code).toBe(0)
    expect(
      await query(
        warehouse.url,
        `select choice, points::int, zero_item, least_answered from intake_ops.instrument_points join intake_ops.instruments using (instrument) where instrument = 'x'`,
      ),
    ).toEqual([{ choice: 'yes', points: 1, zero_item: 1, least_answered: 1 }])
    expect((await run('remove', 'x')).code).toBe(0)
  })

  it('have limits: points from -1000 to 1000, bands from any number, 200 items, texts of 500 characters', () => {
    const least = {
      ...{ ...minimal(), instrument: `x${'9'.repeat(39)}`, title: ` ${'t'.repeat(500)} `, zero_item: 1 },
      points: { No: -1000, Yes: 1000, Perhaps: 0.5 },
      bands: [{ from: -2000.5, band: 'low' }],
      items: Array.from({ length: 200 }, () => ({ codes: ['1-8'], points: { No: 0 } })),
    }
    expect(parseInstrument(JSON.stringify(least))).toEqual({
      ...{ ...least, title: 't'.repeat(500), bands: [{ from: -2000.5, sex: 'any', band: 'low' }] },
      items: least.items.map((item) => ({ ...item, wordings: [] })),
    })
    for (const [more, at] of [
      [{ points: { Yes: 1000.5 } }, 'points.Yes'],
      [{ points: { Yes: -1001 } }, 'points.Yes'],
      [{ points: { Yes: '1' } }, 'points.Yes'],
      [{ items: [{ points: { Yes: 1001 } }] }, 'items.0.points.Yes'],
      [{ items: [] }, 'items'],
      [{ items: Array.from({ length: 201 }, () => ({})) }, 'items'],
      [{ items: [{ codes: [' '] }] }, 'items.0.codes.0'],
      [{ items: [{ wordings: ['t'.repeat(501)] }] }, 'items.0.wordings.0'],
      [{ title: 't'.repeat(501) }, 'title'],
      [{ source: ' ' }, 'source'],
      [{ instrument: `x${'9'.repeat(40)}` }, 'instrument'],
      [{ instrument: '9x' }, 'instrument'],
      [{ least_answered: 0 }, 'least_answered'],
      [{ least_answered: 0.5 }, 'least_answered'],
      [{ zero_item: 0 }, 'zero_item'],
      [{ bands: [{ from: 0, band: 'b', sex: 'other' }] }, 'bands.0.sex'],
      [{ bands: [{ band: 'b' }] }, 'bands.0.from'],
    ] as const)
      expect(() => parseInstrument(JSON.stringify({ ...minimal(), ...more }))).toThrow(
        `the definition is wrong at ${at}: `,
      )
  })

  it('of the program cannot be removed', async () => {
    expect(await run('remove', 'gad-7')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('built in'),
    })
  })
})

function minimal(): object {
  return {
    ...{ instrument: 'x', title: 'X', source: 'Our own', least_answered: 1, points: { Yes: 1 } },
    items: [{ wordings: ['One?'] }],
    bands: [],
  }
}
