/** Sections 2.5, 4.5 and 9 of the specification: CSV export. */
import { parse } from 'csv-parse/sync'
import { describe, expect } from 'vitest'
import { type Loose, type Reply, serviceUnderTest } from '../support/service-under-test.ts'
import { control } from './support/control.ts'
import { expectDone, expectRefused, idOf, referenceOf, some, UUID, walk } from './support/reading.ts'
import { rule, type Skip } from './support/rule.ts'
import { fillIn, questionWhere, send } from './support/sending.ts'

const service = serviceUnderTest()
const LEADING = ['Client ID', 'First Name', 'Last Name', 'Email', 'Sent at', 'Completed at', 'Archived']
const ASKS_NOTHING = ['display_only', 'repeated_block']
const typeOf = (question: Loose): string => question.question_type.question_type

const run = (id: string, query = '', version?: string): Promise<Reply> =>
  service().call('POST', `/v2/export-csv${query}`, {
    body: { id },
    headers: version === undefined ? {} : { 'X-API-VERSION': version },
  })

/** CSV text of an answer, which may come as a JSON string and with a byte order mark. */
const textOf = ({ text, body }: Reply): string =>
  (typeof body === 'string' ? body : text).replace(/^\uFEFF/, '')

interface Table {
  readonly titles: readonly string[]
  readonly rows: readonly (readonly string[])[]
}

function tableOf(reply: Reply): Table {
  expectDone(service(), reply, 200)
  const [titles = [], ...rows] = parse(textOf(reply), { relax_column_count: true, skip_empty_lines: true })
  return { titles, rows }
}

/** Ids of the team's exports, not more than a few of a real service. */
async function exportIds(skip: Skip): Promise<string[]> {
  const all = (await some(service(), '/v2/export-csv', skip)).map(idOf)
  return service().isEmulator ? all : all.slice(0, 3)
}

async function exportOfForm(form: string, version?: string): Promise<Table> {
  const { rows } = await walk(service(), '/v2/export-csv')
  const entry = rows.find((one) => referenceOf(one, 'form') === form)
  return tableOf(await run(idOf(entry), '?type=raw_text', version))
}

/** The cells of a client under a title. */
function cells({ titles, rows }: Table, client: string, title: string): string[] {
  const row = rows.find((one) => one[0] === client)
  return titles.flatMap((one, at) =>
    one === title && at >= LEADING.length ? [row?.[at] ?? 'no such row'] : [],
  )
}

describe('GET /v2/export-csv', () => {
  rule('2.5 "An export is identified by an id (UUID)"', [], async (skip) => {
    for (const id of await exportIds(skip)) expect(id).toMatch(UUID)
  })

  rule('2.5 "the exports available to the team": one for each form', ['an assumption'], async () => {
    const forms = (await walk(service(), '/v2/forms')).rows.map(idOf)
    const { rows } = await walk(service(), '/v2/export-csv')
    expect(rows.map((one) => referenceOf(one, 'form')).toSorted()).toEqual(forms.toSorted())
  })
})

describe('POST /v2/export-csv', () => {
  rule('4.5 "json (default, structured)": the same without a type', [], async (skip) => {
    const [id = ''] = await exportIds(skip)
    const [plain, json] = [await run(id), await run(id, '?type=json')]
    expectDone(service(), json, 200)
    expect(json.body).toEqual(plain.body)
    expect(typeof json.body).toBe('object')
  })

  rule('4.5 "structured": the cells of the plain text, by title', ['an assumption'], async (skip) => {
    for (const id of await exportIds(skip)) {
      const { titles, rows } = tableOf(await run(id, '?type=raw_text'))
      const objects = rows.map((row) =>
        Object.fromEntries(titles.map((title, at) => [title, row[at] || null])),
      )
      expect((await run(id, '?type=json')).body).toEqual(objects)
    }
  })

  rule('4.5 "raw_text (CSV content as plain text)"', [], async (skip) => {
    const [id = ''] = await exportIds(skip)
    const reply = await run(id, '?type=raw_text')
    expect(tableOf(reply).titles.length).toBeGreaterThanOrEqual(LEADING.length)
    if (service().isEmulator) expect(reply.headers.get('content-type')).toMatch(/^text\/plain\b/)
  })

  rule('4.5 "download_file (direct download of a .csv file)": the same content', [], async (skip) => {
    const [id = ''] = await exportIds(skip)
    const reply = await run(id, '?type=download_file')
    expect(tableOf(reply)).toEqual(tableOf(await run(id, '?type=raw_text')))
    if (!service().isEmulator) return
    expect(reply.headers.get('content-type')).toMatch(/^text\/csv\b/)
    expect(reply.headers.get('content-disposition')).toMatch(/^attachment;.*filename.*\.csv/)
  })

  rule(
    '4.5 "Leading columns: Client ID, First Name, Last Name, Email, Sent at, Completed at, Archived"',
    [],
    async (skip) => {
      for (const id of await exportIds(skip)) {
        expect(tableOf(await run(id, '?type=raw_text')).titles.slice(0, 7)).toEqual(LEADING)
      }
    },
  )

  rule('4.5 "then one column per question (column title is the question text)"', ['control'], async () => {
    const { rows: forms } = await walk(service(), '/v2/forms')
    for (const form of forms) {
      const asked = form.questions.filter((one: Loose) => !ASKS_NOTHING.includes(typeOf(one)))
      const expected = [...LEADING, ...asked.map(({ text }: Loose) => text)]
      expect((await exportOfForm(form.id)).titles).toEqual(expected)
    }
  })

  rule('4.5 "a header row followed by one row per client"', [], async (skip) => {
    for (const id of await exportIds(skip)) {
      const { titles, rows } = tableOf(await run(id, '?type=raw_text'))
      const clients = rows.map(([client]) => client)
      expect(new Set(clients).size).toBe(clients.length)
      for (const row of rows) expect(row).toHaveLength(titles.length)
    }
  })

  rule(
    '4.5 "Timestamps have the form YYYY-MM-DD HH:MM:SS.ffffff; Archived is True or False"',
    [],
    async (skip) => {
      let seen = 0
      for (const id of await exportIds(skip)) {
        for (const row of tableOf(await run(id, '?type=raw_text')).rows) {
          const [sentAt, completedAt, archived] = row.slice(4)
          for (const time of [sentAt, completedAt]) {
            expect(time).toMatch(/^(\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}(\.\d{6})?)?$/)
          }
          expect(archived).toMatch(/^(True|False)$/)
          seen += 1
        }
      }
      if (seen === 0) skip('no export has a row')
    },
  )

  rule('1 "export the answers of one form": they are those of the response', ['control'], async () => {
    const { form, question } = await questionWhere(service(), 'a text', (one) => typeOf(one) === 'long_text')
    const text = 'One, "two"\r\nünd 3'
    const { patient, message, responses } = await fillIn(service(), form.id, { [question.id]: text })
    const table = await exportOfForm(form.id)
    const written = (stamp: string) => stamp.replace('T', ' ').replace('Z', '')
    const row = table.rows.find(([client]) => client === patient.id)
    expect(row?.slice(0, 7)).toEqual([
      ...[patient.id, patient.first_name, patient.last_name, patient.email],
      ...[written(message.sent_at), written(responses[0].submitted_at), 'False'],
    ])
    expect(cells(table, patient.id, question.text)).toContain(text)
    await control(service(), 'POST', `responses/${responses[0].id}/archive`)
    const archived = (await exportOfForm(form.id)).rows.find(([client]) => client === patient.id)
    expect(archived?.[6]).toBe('True')
  })

  rule(
    '4.5 "an empty cell stands for a missing value": an open response has nothing but its client',
    ['control'],
    async () => {
      const { form } = await questionWhere(service(), 'a question', () => true)
      const { patient } = await send(service(), { form: form.id })
      const row = (await exportOfForm(form.id)).rows.find(([client]) => client === patient.id)!
      expect([row[5], ...row.slice(7)].every((cell) => cell === '')).toBe(true)
    },
  )

  rule('4.5: an id that is no UUID, or none, answers 400', ['an assumption'], async () => {
    for (const body of [{ id: 'x' }, {}, { id: 7 }, '{']) {
      expectRefused(service(), await service().call('POST', '/v2/export-csv', { body }), 400)
    }
  })
})

describe('X-API-VERSION: v2.1', () => {
  const place = ({ page, section, row, order }: Loose) => [page, section, row, order]

  rule('4.5 "orders questions by page, section, row, then question"', ['control'], async () => {
    const { rows: forms } = await walk(service(), '/v2/forms')
    for (const form of forms) {
      const asked: Loose[] = form.questions
        .filter((one: Loose) => !ASKS_NOTHING.includes(typeOf(one)))
        .toSorted((a: Loose, b: Loose) => {
          const [first, second] = [place(a), place(b)]
          const at = first.findIndex((value, index) => value !== second[index])
          return at < 0 ? 0 : first[at] - second[at]
        })
      const { titles } = await exportOfForm(form.id, 'v2.1')
      const rest = titles.slice(LEADING.length)
      for (const question of asked) {
        const width = typeOf(question) === 'matrix' ? question.rows.length * question.columns.length : 1
        for (const title of rest.splice(0, width)) expect(title.startsWith(question.text)).toBe(true)
      }
      expect(rest).toEqual([])
    }
  })

  rule('4.5 "exports all table rows using the per-column-per-row headers"', ['control'], async () => {
    const { form, question } = await questionWhere(
      service(),
      'a table',
      (one) => typeOf(one) === 'matrix' && one.question_type.question_subtype === null,
    )
    const [row, column] = [question.rows.at(-1).text, question.columns.at(-1).text]
    const { patient } = await fillIn(service(), form.id, { [question.id]: { [row]: { [column]: '81 mg' } } })
    const table = await exportOfForm(form.id, 'v2.1')
    const titles = question.rows.flatMap(({ text: r }: Loose) =>
      question.columns.map(({ text: c }: Loose) => `${question.text} - ${r} - ${c}`),
    )
    expect(table.titles).toEqual(expect.arrayContaining(titles))
    for (const title of titles) {
      const expected = title === `${question.text} - ${row} - ${column}` ? '81 mg' : ''
      expect(cells(table, patient.id, title)).toEqual([expected])
    }
    const legacy = await exportOfForm(form.id)
    expect(cells(legacy, patient.id, question.text)).toEqual([`${row} / ${column}: 81 mg`])
  })

  rule('4.5 "joins answers of repeated blocks with a semicolon and space"', ['control'], async () => {
    const { form, question } = await questionWhere(
      service(),
      'a repeated text',
      (one) => typeOf(one) === 'short_text' && one.block !== undefined,
    )
    const { patient } = await fillIn(service(), form.id, { [question.id]: ['first', 'second', 'second'] })
    expect(cells(await exportOfForm(form.id, 'v2.1'), patient.id, question.text)).toEqual([
      'first; second; second',
    ])
    expect(cells(await exportOfForm(form.id), patient.id, question.text)).toEqual(['second'])
  })

  rule(
    '4.5 "renders a checkbox confirmation question as confirmed when checked and blank otherwise"',
    ['control'],
    async () => {
      const { form, question } = await questionWhere(
        service(),
        'a checkbox',
        (one) => typeOf(one) === 'checkbox',
      )
      for (const [given, flat, legacy] of [
        [true, 'confirmed', 'True'],
        [false, '', 'False'],
      ] as const) {
        const { patient } = await fillIn(service(), form.id, { [question.id]: given })
        expect(cells(await exportOfForm(form.id, 'v2.1'), patient.id, question.text)).toEqual([flat])
        expect(cells(await exportOfForm(form.id), patient.id, question.text)).toEqual([legacy])
      }
    },
  )

  rule(
    '4.5 "Without the header the legacy shape is returned": the flat one only when asked for',
    [],
    async (skip) => {
      for (const id of await exportIds(skip)) {
        for (const table of [
          tableOf(await run(id, '?type=raw_text')),
          tableOf(await run(id, '?type=raw_text', 'v2.1')),
        ]) {
          expect(table.titles.slice(0, 7)).toEqual(LEADING)
        }
      }
    },
  )
})
