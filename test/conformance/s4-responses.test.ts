/** Section 4.4 of the specification: responses. */
import { describe, expect } from 'vitest'
import { type Loose, serviceUnderTest } from '../support/service-under-test.ts'
import { control } from './support/control.ts'
import {
  expectDone,
  expectRefused,
  idOf,
  NOBODY,
  referenceOf,
  some,
  TIMESTAMP,
  walk,
} from './support/reading.ts'
import { rule } from './support/rule.ts'
import { fillIn, questionWhere, send } from './support/sending.ts'

const service = serviceUnderTest()
const everything = async (): Promise<Loose[]> => (await walk(service(), '/v2/responses?page_size=1000')).rows
const dayOf = (response: Loose): string => String(response.submitted_at).slice(0, 10)
const submitted = (responses: readonly Loose[]) =>
  responses.filter(({ submitted_at }) => (submitted_at ?? null) !== null)

describe('GET /v2/responses', () => {
  rule('4.4 "list of responses": each once', [], async () => {
    const ids = (await walk(service(), '/v2/responses?page_size=50', 5)).rows.map(idOf)
    expect(new Set(ids).size).toBe(ids.length)
  })

  for (const name of ['patient', 'form', 'packet']) {
    rule(
      `4.4 "${name} (${name} id)": what is listed belongs to it, and all that does is listed`,
      [],
      async (skip) => {
        const all = service().isEmulator ? await everything() : await some(service(), '/v2/responses', skip)
        const value = all.map((one) => referenceOf(one, name)).find((one) => one !== undefined)
        if (value === undefined) return skip(`no response has a ${name}`)
        const { rows } = await walk(service(), `/v2/responses?${name}=${value}&page_size=7`)
        expect(new Set(rows.map((one) => referenceOf(one, name)))).toEqual(new Set([value]))
        if (!service().isEmulator) return
        const expected = all.filter((one) => referenceOf(one, name) === value).map(idOf)
        expect(rows.map(idOf).toSorted()).toEqual(expected.toSorted())
        expect(expected.length).toBeLessThan(all.length)
      },
    )
  }

  const DATES: readonly (readonly [string, (day: string, asked: string) => boolean])[] = [
    ['submitted_on', (day, asked) => day === asked],
    ['submitted_after', (day, asked) => day >= asked],
    ['submitted_before', (day, asked) => day <= asked],
  ]
  for (const [name, satisfies] of DATES) {
    rule(`4.4 "${name}": what is listed was submitted then, and all that was is listed`, [], async (skip) => {
      const all = service().isEmulator ? await everything() : await some(service(), '/v2/responses', skip)
      const days = submitted(all).map(dayOf).toSorted()
      if (days.length === 0) skip('nothing was submitted')
      const asked = days[Math.floor(days.length / 2)]!
      const { rows } = await walk(
        service(),
        `/v2/responses?${name}=${asked}`,
        service().isEmulator ? 1000 : 3,
      )
      expect(submitted(rows)).toHaveLength(rows.length)
      if (service().isEmulator) {
        const expected = submitted(all).filter((one) => satisfies(dayOf(one), asked))
        expect(rows.map(idOf).toSorted()).toEqual(expected.map(idOf).toSorted())
        expect(expected.length).toBeLessThan(all.length)
      } else {
        // A day in the service's time zone, whatever that is.
        const near = (response: Loose, hours: number) =>
          new Date(Date.parse(response.submitted_at) + hours * 3_600_000).toISOString().slice(0, 10)
        for (const row of rows)
          expect([-14, 0, 14].some((hours) => satisfies(near(row, hours), asked))).toBe(true)
      }
    })
  }

  rule('4.4: filters narrow each other', ['an assumption'], async () => {
    const all = submitted(await everything())
    const one = all[0]
    const query = `patient=${referenceOf(one, 'patient')}&submitted_on=${dayOf(one)}`
    const expected = all.filter(
      (other) => referenceOf(other, 'patient') === referenceOf(one, 'patient') && dayOf(other) === dayOf(one),
    )
    const { rows } = await walk(service(), `/v2/responses?${query}`)
    expect(rows.map(idOf).toSorted()).toEqual(expected.map(idOf).toSorted())
  })

  rule('4.4: a malformed date answers 400, an unknown id an empty list', ['an assumption'], async () => {
    for (const name of ['submitted_on', 'submitted_after', 'submitted_before']) {
      for (const day of ['yesterday', '2026-02-30', '']) {
        expectRefused(
          service(),
          await service().call('GET', `/v2/responses?${name}=${day}`),
          400,
          'Validation error.',
        )
      }
    }
    for (const name of ['patient', 'form', 'packet']) {
      const reply = await service().call('GET', `/v2/responses?${name}=${NOBODY}`)
      expectDone(service(), reply, 200)
      expect(reply.body).toMatchObject({ count: 0, results: [] })
    }
  })
})

describe('GET /v2/responses/{id}', () => {
  rule('4.4 "complete response with answers, matrix cells, files, e-signatures"', [], async (skip) => {
    const rows = submitted(await some(service(), '/v2/responses?page_size=100', skip)).slice(0, 20)
    for (const listed of rows) {
      const reply = await service().call('GET', `/v2/responses/${idOf(listed)}`)
      expectDone(service(), reply, 200)
      expect(idOf(reply.body)).toBe(idOf(listed))
      // A real service may omit an empty part.
      if (service().isEmulator) expect(reply.body).toHaveProperty('answers')
      expect(reply.body.submitted_at).toMatch(TIMESTAMP)
    }
  })

  rule(
    '2.4 "The single payload contains … all answers, matrix cells, files and e-signatures": each occurs',
    ['control'],
    async () => {
      const all = await everything()
      for (const part of ['answers', 'matrix_cells', 'files', 'e_signatures']) {
        expect(all.filter((one) => one[part].length > 0).length, part).toBeGreaterThan(0)
      }
      const answers = all.flatMap((one) => one.answers)
      expect(answers.some(({ answer_choices }) => answer_choices.length > 1)).toBe(true)
      expect(answers.map(({ answer_text }) => answer_text)).toEqual(expect.arrayContaining(['true', 'false']))
      expect(all.some(({ is_archived }) => is_archived)).toBe(true)
    },
  )

  rule(
    '2.4 "the form was bypassed by packet logic and not completed": it is submitted without answers',
    [],
    async (skip) => {
      const all = service().isEmulator ? await everything() : await some(service(), '/v2/responses', skip)
      const skipped = all.filter(({ is_skipped }) => is_skipped)
      if (skipped.length === 0) skip('no response was skipped')
      for (const one of skipped.slice(0, 5)) {
        const { body } = await service().call('GET', `/v2/responses/${idOf(one)}`)
        expect(Object.keys(body.answers ?? [])).toEqual([])
        expect(referenceOf(body, 'packet')).toBeDefined()
        expect(body.is_submitted).toBe(true)
      }
    },
  )

  rule(
    '1 "read the answers that clients submitted": they are what the client gave',
    ['control'],
    async () => {
      const { form, question } = await questionWhere(
        service(),
        'a text',
        (one) => one.question_type.question_type === 'short_text' && one.block === undefined,
      )
      const { patient, responses } = await fillIn(service(), form.id, {
        [question.id]: 'Exactly "this", ünicode\n',
      })
      const [response] = responses
      expect(response).toMatchObject({ is_submitted: true, is_skipped: false, form_id: form.id })
      expect(response.patient).toMatchObject({ id: patient.id, last_name: patient.last_name })
      const answer = response.answers.find((one: Loose) => one.question.id === question.id)
      expect(answer).toMatchObject({
        question: { text: question.text },
        answer_text: 'Exactly "this", ünicode\n',
      })
    },
  )

  rule('7 "Response not found.": after its deletion', ['control'], async () => {
    const { form } = await questionWhere(service(), 'a question', () => true)
    const { responses } = await send(service(), { form: form.id })
    await control(service(), 'DELETE', `responses/${responses[0].id}`)
    const reply = await service().call('GET', `/v2/responses/${responses[0].id}`)
    expectRefused(service(), reply, 404, 'Response not found.')
  })
})
