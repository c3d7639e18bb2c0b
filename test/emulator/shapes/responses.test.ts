/** The shapes of messages and responses, each against the default of the same world. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Emulator, startEmulator } from '../../../src/emulator/server.ts'
import { awayFromTheHour } from '../../support/hour.ts'
import { type Caller, callerOf, type Loose } from '../caller.ts'

const SIZES = { port: 0, patients: 20, responses: 60 }

let plain: Emulator
let responses: Loose[]
let messages: Loose[]

beforeAll(async () => {
  // The addresses of files are others every hour.
  await awayFromTheHour()
  plain = await startEmulator(SIZES)
  responses = await callerOf(plain).rows('/v2/responses')
  messages = await callerOf(plain).rows('/v2/messages')
})
afterAll(() => plain.close())

async function wearing<T>(shape: string, use: (caller: Caller) => Promise<T>): Promise<T> {
  await using emulator = await startEmulator({ ...SIZES, shape })
  return await use(callerOf(emulator))
}

const listed = (shape: string, path: string) => wearing(shape, (caller) => caller.rows(path))
const omit = (record: Loose, ...names: string[]) =>
  Object.fromEntries(Object.entries(record).filter(([name]) => !names.includes(name)))
const PARTS = ['matrix_cells', 'files', 'e_signatures'] as const

describe('a message', () => {
  it.each<[string, (message: Loose) => Loose]>([
    ['delivery-status', ({ status, ...rest }) => ({ ...rest, delivery_status: status })],
    ['target-phone', ({ target_phone_number, ...rest }) => ({ ...rest, target_phone: target_phone_number })],
    ['phone-number', ({ target_phone_number, ...rest }) => ({ ...rest, phone_number: target_phone_number })],
    [
      'status-object',
      (message) => ({ ...message, status: { status: message.status, changed_at: message.updated_at } }),
    ],
    [
      'references-as-ids',
      (message) => ({
        ...message,
        patient: message.patient.id,
        form: message.form?.id ?? null,
        packet: message.packet?.id ?? null,
        document: message.document?.id ?? null,
      }),
    ],
    [
      'references-as-siblings',
      ({ patient, form, packet, document, ...rest }) => ({
        ...rest,
        patient_id: patient.id,
        form_id: form?.id ?? null,
        packet_id: packet?.id ?? null,
        document_id: document?.id ?? null,
      }),
    ],
  ])('is written as %s says, and else as by default', async (shape, change) => {
    expect(await listed(shape, '/v2/messages')).toEqual(messages.map(change))
  })

  it('has its time in an object with an id of its own', async () => {
    const rows = await listed('nested-scheduled', '/v2/messages')
    for (const [at, { scheduled, id }] of rows.entries()) {
      const expected = messages[at].scheduled_at
      expect(scheduled?.scheduled_at ?? null).toBe(expected)
      if (expected !== null) expect(scheduled.id).not.toBe(id)
    }
    expect(rows.some(({ scheduled }) => scheduled !== null)).toBe(true)
  })

  it('has statuses of other words', async () => {
    const rows = await listed('other-statuses', '/v2/messages')
    const words: Record<string, string> = {
      ...{ pending: 'queued', scheduled: 'scheduled', sent: 'delivered' },
      ...{ failed: 'bounced', cancelled: 'canceled' },
    }
    expect(rows).toEqual(messages.map((one) => ({ ...one, status: words[one.status] })))
    expect(new Set(rows.map(({ status }) => status))).toEqual(new Set(Object.values(words)))
  })
})

describe('a response', () => {
  it.each<[string, (response: Loose) => Loose]>([
    [
      'other-part-names',
      ({ matrix_cells, files, e_signatures, ...rest }) => ({
        ...rest,
        matrix_answers: matrix_cells,
        uploads: files,
        esignatures: e_signatures,
      }),
    ],
    [
      'short-part-names',
      ({ matrix_cells, files, e_signatures, ...rest }) => ({
        ...rest,
        matrix: matrix_cells,
        attachments: files,
        signatures: e_signatures,
      }),
    ],
    [
      'references-as-siblings',
      ({ patient, packet, document, form, ...rest }) => ({
        ...rest,
        patient_id: patient.id,
        packet_id: packet?.id ?? null,
        document_id: document?.id ?? null,
        form_id: form?.id ?? null,
      }),
    ],
    ['heading-texts', (one) => withCells(one, (heading) => heading.text)],
    ['heading-ids', (one) => withCells(one, (heading) => heading.id)],
    [
      'answered-choice-texts',
      (one) => ({
        ...one,
        answers: one.answers.map((answer: Loose) => ({
          ...answer,
          answer_choices:
            answer.answer_choices?.map(({ question_choice }: Loose) => question_choice.text_value) ?? null,
        })),
      }),
    ],
  ])('is written as %s says, and else as by default', async (shape, change) => {
    expect(await listed(shape, '/v2/responses')).toEqual(responses.map(change))
  })

  it('is a summary in the list and whole by id', async () => {
    await wearing('response-summaries', async (caller) => {
      const rows = await caller.rows('/v2/responses')
      expect(rows).toEqual(responses.map((one) => omit(one, 'answers', ...PARTS)))
      expect((await caller.get(`/v2/responses/${rows[1].id}`)).body).toEqual(responses[1])
    })
  })

  it('holds every cell, file and signature in the answer of its question', async () => {
    const rows = await listed('nested-parts', '/v2/responses')
    for (const [at, row] of rows.entries()) {
      for (const part of PARTS) {
        expect(row).not.toHaveProperty(part)
        const nested = row.answers.flatMap((answer: Loose) =>
          (answer[part] ?? []).map((one: Loose) => ({ ...one, question: { id: answer.question.id } })),
        )
        expect(nested).toHaveLength(responses[at][part].length)
        expect(nested).toEqual(expect.arrayContaining(responses[at][part]))
      }
    }
  })

  it('has numbers for the rows and columns of a table, which distinguish its cells', async () => {
    const rows = await listed('heading-indexes', '/v2/responses')
    const [cells] = rows.flatMap((row) => (row.matrix_cells.length > 5 ? [row.matrix_cells] : []))
    const keys = cells.map(({ question, row, column }: Loose) => `${question.id}/${row}/${column}`)
    expect(new Set(keys).size).toBe(keys.length)
    expect(new Set(cells.map(({ row }: Loose) => row))).toEqual(new Set([0, 1, 2]))
  })

  it('has answers by question id, a list where a question was answered several times', async () => {
    const rows = await listed('answers-object', '/v2/responses')
    for (const [at, row] of rows.entries()) {
      const flat = Object.entries(row.answers).flatMap(([id, value]) =>
        [value].flat().map(({ question_text, ...answer }: Loose) => ({
          ...answer,
          question: id === '' ? null : { id, text: question_text },
        })),
      )
      expect(flat).toHaveLength(responses[at].answers.length)
      expect(flat).toEqual(expect.arrayContaining(responses[at].answers))
      for (const value of Object.values(row.answers).filter(Array.isArray))
        expect(value.length).toBeGreaterThan(1)
    }
    expect(rows.some(({ answers }) => Object.values(answers).some(Array.isArray))).toBe(true)
  })

  it('keeps every part when several shapes are combined, in any order', async () => {
    const shapes = ['answers-object', 'nested-parts', 'heading-ids', 'answered-choice-texts', 'uid-ids']
    const [one, other] = await Promise.all(
      [shapes, shapes.toReversed()].map((names) => listed(names.join('+'), '/v2/responses')),
    )
    expect(other).toEqual(one)
    const nested = one!.flatMap((row) => Object.values(row.answers).flat() as Loose[])
    for (const part of PARTS) {
      const found = nested.flatMap((answer) => answer[part] ?? [])
      expect(found).toHaveLength(responses.flatMap((response) => response[part]).length)
    }
    expect(nested).toHaveLength(responses.flatMap(({ answers }) => answers).length)
  })

  it('refers to the same numbers everywhere where ids are numbers', async () => {
    await wearing('numeric-ids', async (caller) => {
      const [one] = (await caller.rows('/v2/responses')).filter(({ form_id }) => form_id !== null)
      expect(typeof one.form_id).toBe('number')
      expect(one.form.id).toBe(one.form_id)
      expect((await caller.get(`/v2/forms/${one.form_id}`)).body.id).toBe(one.form_id)
      expect((await caller.get(`/v2/responses?patient=${one.patient.id}`)).body.count).toBeGreaterThan(0)
      const { body } = await caller.send('POST', '/v2/messages', {
        patient: one.patient.id,
        form: one.form_id,
        preferred_delivery_method: 'email',
        target_email: 'a@example.com',
      })
      expect(body).toMatchObject({ patient: { id: one.patient.id }, form: { id: one.form_id } })
    })
  })
})

function withCells(response: Loose, write: (heading: Loose) => unknown): Loose {
  const matrix_cells = response.matrix_cells.map((cell: Loose) => ({
    ...cell,
    row: write(cell.row),
    column: write(cell.column),
  }))
  return { ...response, matrix_cells }
}

describe('date filters', () => {
  const submitted = (from: string, to: string) =>
    responses.filter(({ submitted_at }) => submitted_at !== null && submitted_at >= from && submitted_at < to)
  const middle = () =>
    responses
      .flatMap(({ submitted_at }) => submitted_at ?? [])
      .sort()[20]
      .slice(0, 10)
  const next = (day: string) => new Date(Date.parse(day) + 86_400_000).toISOString().slice(0, 10)

  it('may leave the day itself out', async () => {
    const day = middle()
    await wearing('bounds-exclusive', async (caller) => {
      expect(await caller.rows(`/v2/responses?submitted_after=${day}`)).toEqual(submitted(next(day), '9'))
      expect(await caller.rows(`/v2/responses?submitted_before=${day}`)).toEqual(submitted('0', day))
    })
  })

  it('may go by days of another zone', async () => {
    const day = middle()
    await wearing('bounds-zone', async (caller) => {
      const rows = await caller.rows(`/v2/responses?submitted_on=${day}`)
      expect(rows).toEqual(submitted(`${day}T08`, `${next(day)}T08`))
    })
  })

  it('may be ignored, and everything is returned', async () => {
    const rows = await listed('filters-ignored', '/v2/responses?submitted_after=2099-01-01&patient=nobody')
    expect(rows).toEqual(responses)
  })
})
