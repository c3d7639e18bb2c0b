/** A first and a second load of files with realistic patients and questionnaires, compared with these files. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'csv-parse/sync'
import { describe, expect, it } from 'vitest'
import { parse as parseYaml } from 'yaml'
import type { Loose } from '../emulator/caller.ts'
import { realData } from '../emulator/real-data.ts'
import { expectedOf, storedTables } from './support/expected.ts'
import { documentOf, openScene, query } from './support/scene.ts'
import { rowVersions } from './support/tables.ts'

/** The column of each file's columns; all others are custom fields under their own name. */
const FEBRL = {
  rec_id: 'external_id',
  given_name: 'first_name',
  surname: 'last_name',
  address_1: 'address',
  address_2: 'address2',
  suburb: 'city',
  postcode: 'zipcode',
  state: 'state',
  date_of_birth: 'date_birth',
}
const PEOPLE: readonly (readonly [file: string, columns: Readonly<Record<string, string>>])[] = [
  ['patients/febrl/dataset1.csv', FEBRL],
  ['patients/febrl/dataset3.csv', FEBRL],
  [
    'patients/synthea-ohdsi/patients.csv',
    {
      Id: 'external_id',
      BIRTHDATE: 'date_birth',
      FIRST: 'first_name',
      LAST: 'last_name',
      GENDER: 'sex_at_birth',
      ADDRESS: 'address',
      CITY: 'city',
      STATE: 'state',
      ZIP: 'zipcode',
    },
  ],
  [
    'patients/chinook/customers.json',
    {
      CustomerId: 'external_id',
      FirstName: 'first_name',
      LastName: 'last_name',
      Address: 'address',
      City: 'city',
      State: 'state',
      PostalCode: 'zipcode',
      Phone: 'phone_number',
      Email: 'email',
    },
  ],
  [
    'surveys/redcap/projects/clinical-trial-1/data.csv',
    {
      record_id: 'external_id',
      name_last: 'last_name',
      name_first: 'first_name',
      address: 'address',
      phone: 'phone_number',
      dob: 'date_birth',
      gender: 'sex_at_birth',
      email: 'email',
    },
  ],
]

const QUESTIONNAIRES = 'questionnaires/beda-emr'

/** The part of a title that gives the reason for skipping a test. */
function reason(path: string): string {
  return existsSync(realData(path)) ? '' : ` (skipped: ${path} is not among the public data)`
}

describe('files of patients', () => {
  for (const [file, columns] of PEOPLE) {
    it.skipIf(reason(file) !== '')(
      `${file}: every cell is in its column or under its own name, and a second backfill writes no row version${reason(file)}`,
      async () => {
        await using scene = await openScene({ patients: 0, pageSize: 500, importPatients: realData(file) })
        expect(await scene.backfill('--streams', 'patients')).toMatchObject({ code: 0 })

        const people = await peopleIn(scene.url)
        const rows = cellsOf(file)
        expect(people.size).toBe(rows.length)
        for (const row of rows) expectPerson(people, row, columns)
        const expected = Object.entries(expectedOf(scene.emulator.control.world()))
        const ofPeople = expected.filter(([table]) => table.startsWith('patient'))
        expect(await storedTables(scene.url)).toEqual(Object.fromEntries(ofPeople))

        const before = await rowVersions(scene.url)
        const again = await scene.backfill('--streams', 'patients', '--json')
        expect(again.code).toBe(0)
        expect(documentOf(again).streams.patients).toMatchObject({ changed: 0, unchanged: rows.length })
        expect(await rowVersions(scene.url)).toEqual(before)
      },
    )
  }
})

describe('files of questionnaires', () => {
  it.skipIf(reason(QUESTIONNAIRES) !== '')(
    `${QUESTIONNAIRES}: every item that asks or shows something is a question with its linkId and text, and every option a choice${reason(QUESTIONNAIRES)}`,
    async () => {
      const folder = realData(QUESTIONNAIRES)
      await using scene = await openScene({ patients: 0, forms: 0, importQuestionnaires: folder })
      const streams = ['--streams', 'forms,packets,documents']
      expect(await scene.backfill(...streams)).toMatchObject({ code: 0 })

      const stored = await query<{ form: string; text: string; link: string; choices: string[] }>(
        scene.url,
        `select form.name as form, question.text,
           record.payload -> 'questions' -> (question.position - 1) ->> 'link_id' as link,
           array(select choice.text from intake.question_choices choice
             where choice.team_id = form.team_id and choice.form_id = form.id and choice.question_position = question.position
             order by choice.position) as choices
         from intake.forms form join intake.form_questions question on question.form_id = form.id
           join intake_raw.records record on record.stream = 'forms' and record.id = form.id
         order by form.name, form.id, question.position`,
      )
      const left = stored.map(({ form, text, link, choices }) => JSON.stringify([form, link, text, choices]))
      const sources = questionnairesIn(folder)
      expect(sources.length).toBeGreaterThan(0)
      for (const source of sources) {
        for (const leaf of leavesOf(source.item)) {
          const name = source.title ?? source.name ?? source.id
          const asked = JSON.stringify([name, String(leaf.linkId), leaf.text ?? '', optionsOf(leaf)])
          const at = left.indexOf(asked)
          expect(at, asked).toBeGreaterThanOrEqual(0)
          left.splice(at, 1)
        }
      }
      const { forms, form_questions, question_choices } = expectedOf(scene.emulator.control.world())
      expect(await storedTables(scene.url)).toMatchObject({ forms, form_questions, question_choices })

      const before = await rowVersions(scene.url)
      expect((await scene.backfill(...streams)).code).toBe(0)
      expect(await rowVersions(scene.url)).toEqual(before)
    },
  )
})

it('a generated world is in the tables value by value, and a second backfill writes no row version', async () => {
  await using scene = await openScene({ patients: 230, forms: 60, packets: 12, documents: 12 })
  expect(await scene.backfill()).toMatchObject({ code: 0 })
  expect(await storedTables(scene.url)).toEqual(expectedOf(scene.emulator.control.world()))
  const before = await rowVersions(scene.url)
  expect((await scene.backfill('--full')).code).toBe(0)
  expect(await rowVersions(scene.url)).toEqual(before)
})

interface Person {
  readonly row: Readonly<Record<string, string | null>>
  readonly custom: Readonly<Record<string, string>>
}

async function peopleIn(url: string): Promise<ReadonlyMap<string, Person>> {
  const stored = await query<Person>(
    url,
    `select to_jsonb(person) as row, coalesce((select jsonb_object_agg(key, value) from intake.patient_custom_fields
       where team_id = person.team_id and patient_id = person.id), '{}') as custom from intake.patients person`,
  )
  return new Map(stored.map((person) => [String(person.row.external_id), person]))
}

type Cells = readonly (readonly [header: string, value: string])[]

/** The cells of each row of a file, read without the importer. */
function cellsOf(file: string): readonly Cells[] {
  const text = readFileSync(realData(file), 'utf8')
  if (file.endsWith('.json')) {
    const people = JSON.parse(text) as Record<string, unknown>[]
    return people.map((one) => Object.entries(one).map(([header, value]) => [header, String(value)] as const))
  }
  const [headers = [], ...rows] = parse(text, { trim: true }) as string[][]
  return rows.map((row) => row.map((value, at) => [headers[at]!, value] as const))
}

function expectPerson(
  people: ReadonlyMap<string, Person>,
  cells: Cells,
  columns: Readonly<Record<string, string>>,
): void {
  const [key] = cells.find(([header]) => columns[header] === 'external_id')!
  const id = new Map(cells).get(key)!
  const person = people.get(id)
  if (person === undefined) expect.fail(`${key} ${id} is not in the warehouse`)
  for (const [header, value] of cells) {
    const column = columns[header]
    const stored = column === undefined ? undefined : person.row[column]
    const asStored = column === 'date_birth' ? stored?.replaceAll('-', '') : stored
    const asGiven = column === 'date_birth' ? value.replaceAll('-', '') : value
    // A birth date that does not exist cannot be in its column.
    const kept = column !== undefined && asStored === asGiven ? asGiven : person.custom[header]
    if (kept !== asGiven && kept !== value) expect.fail(`${id}: ${header} is not in the warehouse as given`)
  }
}

function questionnairesIn(folder: string): Loose[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((file) => /\.(json|ya?ml)$/.test(file))
    .map((file) => {
      const text = readFileSync(join(folder, file), 'utf8')
      return file.endsWith('.json') ? JSON.parse(text) : parseYaml(text, { logLevel: 'silent' })
    })
    .filter((content) => content.resourceType === 'Questionnaire')
}

/** Items that ask or show something: every item except a group with items. */
function leavesOf(items: Loose[] | undefined): Loose[] {
  return (items ?? []).flatMap((item) => {
    const inner = leavesOf(item.item)
    return item.type === 'group' && inner.length > 0 ? inner : [item, ...inner]
  })
}

function optionsOf(item: Loose): string[] {
  return (item.answerOption ?? item.option ?? []).map((option: Loose) => {
    const value = option.value === undefined ? Object.values(option)[0] : Object.values(option.value)[0]
    const { display, reference, code } = value as Loose
    return typeof value === 'object' ? (display ?? reference ?? code) : String(value)
  })
}
