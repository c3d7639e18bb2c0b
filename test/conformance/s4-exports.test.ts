/** Sections 2.5 and 4.5 of the specification: CSV export. What v2.1 changes is in s4-exports-flat.test.ts. */
import { describe, expect } from 'vitest'
import { type Loose, serviceUnderTest } from '../support/service-under-test.ts'
import { control } from './support/control.ts'
import { asking, cells, exportIds, exportOfForm, LEADING, run, tableOf, typeOf } from './support/exporting.ts'
import { expectDone, expectRefused, idOf, referenceOf, UUID, walk } from './support/reading.ts'
import { rule } from './support/rule.ts'
import { fillIn, questionWhere, send } from './support/sending.ts'

const service = serviceUnderTest()

describe('GET /v2/export-csv', () => {
  rule('2.5 "An export is identified by an id (UUID)"', [], async (skip) => {
    for (const id of await exportIds(service(), skip)) expect(id).toMatch(UUID)
  })

  rule('2.5 "the exports available to the team": one for each form', ['an assumption'], async () => {
    const forms = (await walk(service(), '/v2/forms')).rows.map(idOf)
    const { rows } = await walk(service(), '/v2/export-csv')
    expect(rows.map((one) => referenceOf(one, 'form')).toSorted()).toEqual(forms.toSorted())
  })
})

describe('POST /v2/export-csv', () => {
  rule('4.5 "json (default, structured)": the same without a type', [], async (skip) => {
    const [id = ''] = await exportIds(service(), skip)
    const [plain, json] = [await run(service(), id), await run(service(), id, '?type=json')]
    expectDone(service(), json, 200)
    expect(json.body).toEqual(plain.body)
    expect(typeof json.body).toBe('object')
  })

  rule('4.5 "structured": the cells of the plain text, by title', ['an assumption'], async (skip) => {
    for (const id of await exportIds(service(), skip)) {
      const { titles, rows } = tableOf(service(), await run(service(), id, '?type=raw_text'))
      const objects = rows.map((row) =>
        Object.fromEntries(titles.map((title, at) => [title, row[at] || null])),
      )
      expect((await run(service(), id, '?type=json')).body).toEqual(objects)
    }
  })

  rule('4.5 "raw_text (CSV content as plain text)"', [], async (skip) => {
    const [id = ''] = await exportIds(service(), skip)
    const reply = await run(service(), id, '?type=raw_text')
    expect(tableOf(service(), reply).titles.length).toBeGreaterThanOrEqual(LEADING.length)
    if (service().isEmulator) expect(reply.headers.get('content-type')).toMatch(/^text\/plain\b/)
  })

  rule('4.5 "download_file (direct download of a .csv file)": the same content', [], async (skip) => {
    const [id = ''] = await exportIds(service(), skip)
    const reply = await run(service(), id, '?type=download_file')
    expect(tableOf(service(), reply)).toEqual(tableOf(service(), await run(service(), id, '?type=raw_text')))
    if (!service().isEmulator) return
    expect(reply.headers.get('content-type')).toMatch(/^text\/csv\b/)
    expect(reply.headers.get('content-disposition')).toMatch(/^attachment;.*filename.*\.csv/)
  })

  rule(
    '4.5 "Leading columns: Client ID, First Name, Last Name, Email, Sent at, Completed at, Archived"',
    [],
    async (skip) => {
      for (const id of await exportIds(service(), skip)) {
        expect(tableOf(service(), await run(service(), id, '?type=raw_text')).titles.slice(0, 7)).toEqual(
          LEADING,
        )
      }
    },
  )

  rule('4.5 "then one column per question (column title is the question text)"', ['control'], async () => {
    const { rows: forms } = await walk(service(), '/v2/forms')
    for (const form of forms) {
      const asked = asking(form)
      const expected = [...LEADING, ...asked.map(({ text }: Loose) => text)]
      expect((await exportOfForm(service(), form.id)).titles).toEqual(expected)
    }
  })

  rule('4.5 "a header row followed by one row per client"', [], async (skip) => {
    for (const id of await exportIds(service(), skip)) {
      const { titles, rows } = tableOf(service(), await run(service(), id, '?type=raw_text'))
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
      for (const id of await exportIds(service(), skip)) {
        for (const row of tableOf(service(), await run(service(), id, '?type=raw_text')).rows) {
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
    const table = await exportOfForm(service(), form.id)
    const written = (stamp: string) => stamp.replace('T', ' ').replace('Z', '')
    const row = table.rows.find(([client]) => client === patient.id)
    expect(row?.slice(0, 7)).toEqual([
      ...[patient.id, patient.first_name, patient.last_name, patient.email],
      ...[written(message.sent_at), written(responses[0].submitted_at), 'False'],
    ])
    expect(cells(table, patient.id, question.text)).toContain(text)
    await control(service(), 'POST', `responses/${responses[0].id}/archive`)
    const archived = (await exportOfForm(service(), form.id)).rows.find(([client]) => client === patient.id)
    expect(archived?.[6]).toBe('True')
  })

  rule(
    '4.5 "an empty cell stands for a missing value": an open response has nothing but its client',
    ['control'],
    async () => {
      const { form } = await questionWhere(service(), 'a question', () => true)
      const { patient } = await send(service(), { form: form.id })
      const row = (await exportOfForm(service(), form.id)).rows.find(([client]) => client === patient.id)!
      expect([row[5], ...row.slice(7)].every((cell) => cell === '')).toBe(true)
    },
  )

  rule('4.5: an id that is no UUID, or none, answers 400', ['an assumption'], async () => {
    for (const body of [{ id: 'x' }, {}, { id: 7 }, '{']) {
      expectRefused(service(), await service().call('POST', '/v2/export-csv', { body }), 400)
    }
  })
})
