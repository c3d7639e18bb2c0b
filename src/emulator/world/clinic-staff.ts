/**
 * Actions of clients and staff that the service's API does not offer, for rehearsals and tests: fill in, submit,
 * archive, delete.
 *
 * Invariant: each call follows the service's rules, with the same effects and events, or throws a `RangeError` with the
 * reason.
 */

import { createMessage, type MessageFields } from './clinic-messages.ts'
import {
  advancePacket,
  archivePacket,
  archiveResponse,
  generateAnswers,
  saveAnswers,
  submitPacket,
  submitResponse,
} from './clinic-responses.ts'
import { Draw, keyOf, stableId } from './draw.ts'
import type {
  Answer,
  Answers,
  ESignature,
  Form,
  MatrixCell,
  Message,
  PacketResponse,
  Question,
  Response,
  ResponseFile,
} from './records.ts'
import type { World } from './world.ts'

export interface Staff {
  /** Sends a message; by default an e-mail to the patient, at once. */
  send(message: Pick<MessageFields, 'patient'> & Partial<MessageFields>): Message
  /** Saves answers by question id (see `readGivenAnswers`); without them, invented ones to every question. */
  answer(id: string, given?: Readonly<Record<string, unknown>>): Response
  submit(id: string): Response
  archive(id: string): Response
  remove(id: string): void
  /** Fills in the next form of a packet. */
  advancePacket(id: string): PacketResponse
  /** Submits a packet; `skip` are the positions, from 1, of members that its logic skips. */
  submitPacket(id: string, skip?: readonly number[]): PacketResponse
  archivePacket(id: string): PacketResponse
}

export function staffOf(world: World): Staff {
  let acts = 0
  const draw = () => {
    acts += 1
    return new Draw(keyOf(world.key.a, world.key.b, 'staff'), acts)
  }
  return {
    send(message) {
      const email = world.patients.get(message.patient)?.email || 'someone@example.com'
      return createMessage(world, {
        form: null,
        packet: null,
        document: null,
        message_type: 'form_response_request',
        preferred_delivery_method: 'email',
        target_email: email,
        target_phone_number: null,
        scheduled_at: null,
        ...message,
      })
    },
    answer(id, given) {
      const response = must(world.responses.get(id), 'no such response')
      if (given === undefined) {
        const made = generateAnswers(world, response, draw(), 'full')
        return must(saveAnswers(world, id, made), 'it was skipped')
      }
      const form = response.form === null ? undefined : world.forms.get(response.form)
      const key = keyOf(world.key.a, world.key.b, id)
      const answers = readGivenAnswers(must(form, 'its form is gone'), given, key, world.now())
      return must(saveAnswers(world, id, answers), 'it was skipped')
    },
    submit(id) {
      must(world.responses.get(id), 'no such response')
      return must(submitResponse(world, id), 'it is submitted, or is so with its packet only')
    },
    archive(id) {
      must(world.responses.get(id), 'no such response')
      return must(archiveResponse(world, id), 'it is archived already')
    },
    remove: (id) => void must(world.responses.remove(id), 'no such response'),
    advancePacket(id) {
      must(world.packetResponses.get(id), 'no such packet response')
      return must(advancePacket(world, id, draw()), 'there is no form left to fill in')
    },
    submitPacket(id, skip = []) {
      const { responses } = must(world.packetResponses.get(id), 'no such packet response')
      const outside = skip.find((place) => !Number.isInteger(place) || place < 1 || place > responses.length)
      if (outside !== undefined) throw new RangeError(`the packet has no member ${outside}`)
      const skipped = new Set(skip.map((place) => place - 1))
      return must(submitPacket(world, id, draw(), skipped), 'it is submitted already')
    },
    archivePacket: (id) => must(archivePacket(world, id), 'no such packet response'),
  }
}

function must<T>(found: T | undefined, otherwise: string): T {
  if (found === undefined) throw new RangeError(otherwise)
  return found
}

/**
 * Converts hand-written answers to the service's format.
 *
 * Invariant: the result contains every given value, or a `RangeError` names the question; other questions stay
 * unanswered.
 */
type GivenAnswers = Readonly<Record<string, unknown>>

/**
 * By question id: a text, a number or a boolean; for choices the text of one or a list of several; for a question of
 * a repeated block a list, one value for each repetition; for a table `{row: {column: text}}`, or `{row: column}`
 * where one column is chosen; for a file `{name, content_type, size}`; for a signature the signer's name.
 */
function readGivenAnswers(
  form: Form,
  given: GivenAnswers,
  key: { a: number; b: number },
  at: string,
): Answers {
  const unknown = Object.keys(given).find((id) => !form.questions.some((question) => question.id === id))
  if (unknown !== undefined) throw new RangeError(`the form has no question ${unknown}`)
  const answers: Answer[] = []
  const matrix_cells: MatrixCell[] = []
  const files: ResponseFile[] = []
  const e_signatures: ESignature[] = []
  let nth = 0
  const id = () => {
    nth += 1
    return stableId(key, Date.parse(at), nth)
  }
  const give = (
    { id: question, text }: Question,
    answer_text: string | null,
    chosen: Question['choices'] = [],
  ) =>
    void answers.push({
      id: id(),
      question: { id: question, text },
      answer_text,
      answer_choices: chosen.map((question_choice) => ({ question_choice })),
    })
  for (const question of form.questions) {
    const value = given[question.id]
    if (value === undefined) continue
    const type = question.question_type.question_type
    if (type === 'matrix') {
      give(question, null)
      matrix_cells.push(...cellsOf(question, value))
    } else if (type === 'file') {
      give(question, null)
      files.push({ id: id(), question: { id: question.id }, ...fileOf(question, value) })
    } else if (type === 'signature') {
      give(question, null)
      const signer_name = textOf(question, value) ?? ''
      e_signatures.push({
        id: id(),
        question: { id: question.id },
        signed_at: at,
        signer_name,
        image: 'inline',
      })
    } else if (question.choices.length > 0) {
      for (const one of repetitions(question, value)) give(question, null, choicesOf(question, one))
    } else {
      for (const one of repetitions(question, value)) give(question, textOf(question, one))
    }
  }
  return { answers, matrix_cells, files, e_signatures }
}

/** The values of each repetition; a question outside a block has one. */
function repetitions({ block }: Question, value: unknown): readonly unknown[] {
  return block !== undefined && Array.isArray(value) ? value : [value]
}

function textOf(question: Question, value: unknown): string | null {
  if (value === null) return null
  if (typeof value === 'string') return value
  if (typeof value === 'number' || typeof value === 'boolean') return String(value)
  throw new RangeError(`question ${question.id} requires a text`)
}

function choicesOf(question: Question, value: unknown): Question['choices'] {
  const wanted = value === null ? [] : Array.isArray(value) ? value : [value]
  return wanted.map((one) => {
    const found = question.choices.find(({ id, text_value }) => id === one || text_value === one)
    if (found === undefined) throw new RangeError(`question ${question.id} has no such choice`)
    return found
  })
}

function cellsOf(question: Question, value: unknown): MatrixCell[] {
  const heading = (of: Question['rows'], name: string, kind: string) => {
    const found = of?.find(({ id, text }) => id === name || text === name)
    if (found === undefined) throw new RangeError(`question ${question.id} has no such ${kind}`)
    return found
  }
  return Object.entries(objectOf(question, value)).flatMap(([rowName, inRow]) => {
    const row = heading(question.rows, rowName, 'row')
    const cells = typeof inRow === 'string' ? { [inRow]: null } : objectOf(question, inRow)
    return Object.entries(cells).map(([columnName, text]) => {
      const column = heading(question.columns, columnName, 'column')
      return {
        question: { id: question.id },
        row,
        column,
        answer_text: textOf(question, text) ?? column.text,
      }
    })
  })
}

function fileOf(question: Question, value: unknown): Omit<ResponseFile, 'id' | 'question'> {
  const { name = 'file', content_type = 'application/octet-stream', size = 0 } = objectOf(question, value)
  return { name: String(name), content_type: String(content_type), size: Number(size) }
}

function objectOf(question: Question, value: unknown): GivenAnswers {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as GivenAnswers
  throw new RangeError(`question ${question.id} requires an object`)
}
