/**
 * States of records of four streams: the payload of the service, and the expected rows, written out next to each other
 * and without the declarations of `src`, so that a wrong mapping there contradicts them.
 */

export const MIXED_STREAMS = ['patients', 'forms', 'responses', 'packet_responses'] as const

export type MixedStream = (typeof MIXED_STREAMS)[number]

/** What webhook events call the records of each stream. */
export const SOURCES: Readonly<Record<MixedStream, string>> = {
  patients: 'patient',
  forms: 'form',
  responses: 'response',
  packet_responses: 'packet_response',
}

export type Row = Readonly<Record<string, unknown>>
type Payload = { readonly id: string; readonly [field: string]: unknown }

export interface State {
  readonly payload: Payload
  /** By table, in any order. */
  readonly rows: Readonly<Record<string, readonly Row[]>>
}

export interface Draft {
  /** Part of texts, so that records with the same id differ between teams. */
  readonly team: string
  readonly id: string
  /** Counts the states of a record; no two have the same content. */
  readonly serial: number
  readonly createdAt: string
  /** Null for a service that shows no updated_at. */
  readonly updatedAt: string | null
  /** The last state of its record, unless that is a deletion. */
  readonly isLast: boolean
  /** Responses that a packet response names. */
  readonly members: readonly string[]
}

export function stateOf(stream: MixedStream, draft: Draft): State {
  return STATES[stream](draft)
}

/** A part of a state, as a partial event contains it. */
export function partOf(stream: MixedStream, { payload }: State, withText: boolean): Row {
  const { id, updated_at } = payload
  if (stream === 'packet_responses') return { id, packet: payload.packet, updated_at }
  if (!withText) return { id }
  if (stream === 'patients') return { id, last_name: payload.last_name, updated_at }
  return stream === 'forms' ? { id, name: payload.name, updated_at } : { id, is_submitted: true, updated_at }
}

const STATES: Readonly<Record<MixedStream, (draft: Draft) => State>> = {
  patients({ team, id, serial, createdAt, updatedAt }) {
    const fields = {
      external_id: `EHR-${id}`,
      first_name: `Ann of ${team}`,
      last_name: `State ${serial}`,
      email: `ann${serial}@example.com`,
      phone_number: '',
      date_birth: '1980-02-29',
      sex_at_birth: 'Female',
      provider: serial % 3 === 0 ? null : `provider-${serial % 5}`,
      address: `${serial} Harbour Road`,
      address2: '',
      city: 'Springfield',
      state: 'MA',
      zipcode: '00501',
    }
    const contact = {
      first_name: `Bo of ${team}`,
      last_name: `State ${serial}`,
      phone_number: '5550199',
      relationship: 'Sibling',
    }
    const hasContact = serial % 4 !== 3
    const tags = Array.from({ length: serial % 4 }, (_, at) => ({
      name: `${team} ${serial}.${at}`,
      color: '#00ff00',
    }))
    const custom = serial % 2 === 0 ? { plan: `${team} ${serial}`, mrn: String(serial) } : {}
    return {
      payload: {
        id,
        ...fields,
        emergency_contact: hasContact ? contact : null,
        patient_tags: tags,
        custom_fields: custom,
        created_at: createdAt,
        updated_at: updatedAt,
      },
      rows: {
        patients: [{ id, ...fields, created_at: timeOf(createdAt), updated_at: timeOf(updatedAt) }],
        patient_emergency_contacts: hasContact ? [{ patient_id: id, ...NO_ADDRESS, ...contact }] : [],
        patient_tags: tags.map((tag, at) => ({ patient_id: id, position: at + 1, ...tag })),
        patient_custom_fields: Object.entries(custom).map(([key, value]) => ({ patient_id: id, key, value })),
      },
    }
  },

  forms({ team, id, serial, createdAt, updatedAt }) {
    const fields = {
      name: `Form of ${team}, state ${serial}`,
      text: `Text ${serial}`,
      enabled: serial % 2 === 0,
    }
    const questions = Array.from({ length: 1 + (serial % 3) }, (_, at) => ({
      id: `q${at}`,
      question_type: { question_type: 'choice', question_subtype: 'single' },
      text: `${team} asks ${serial}.${at}`,
      help_text: null,
      order: at,
      choices: Array.from({ length: (serial + at) % 3 }, (_, of) => ({
        id: `c${at}.${of}`,
        text_value: `${team} offers ${serial}.${of}`,
      })),
    }))
    return {
      payload: { id, ...fields, created_at: createdAt, updated_at: updatedAt, questions },
      rows: {
        forms: [{ id, ...fields, created_at: timeOf(createdAt), updated_at: timeOf(updatedAt) }],
        form_questions: questions.map(({ id: question_id, question_type, text, help_text, order }, at) => ({
          ...{ form_id: id, position: at + 1, question_id, ...question_type, text, help_text },
          ...{ sort_order: order, link_id: null, page: null, block_id: null },
        })),
        question_choices: questions.flatMap(({ id: question_id, choices }, at) =>
          choices.map(({ id: choice_id, text_value }, of) => ({
            ...{ form_id: id, question_position: at + 1, position: of + 1, question_id, choice_id },
            ...{ text: text_value, code: null, points: null },
          })),
        ),
      },
    }
  },

  responses({ team, id, serial, createdAt, updatedAt }) {
    const flags = { is_submitted: true, is_skipped: serial % 5 === 0, is_archived: false }
    const form = { id, name: `Form of ${team}` }
    const answers = Array.from({ length: 1 + (serial % 3) }, (_, at) => ({
      id: `a${at}`,
      question: { id: `q${at}`, text: `${team} asked ${at}` },
      answer_text: at === 1 ? null : `${team} answers ${serial}.${at}`,
      answer_choices:
        at === 1 ? [{ question_choice: { id: `c${serial}`, text_value: `choice ${serial}` } }] : [],
    }))
    const cells = Array.from({ length: serial % 2 }, () => ({
      question: { id: 'm0', text: 'Matrix' },
      row: { id: 'r1', text: 'Row' },
      column: { id: 'k1', text: `Column of ${team}` },
      answer_text: `cell ${serial}`,
    }))
    const files = Array.from({ length: serial % 3 === 0 ? 1 : 0 }, () => ({
      id: `f${serial}`,
      question: { id: 'q0', text: 'File' },
      name: `${team}.pdf`,
      content_type: 'application/pdf',
      size: serial,
      url: `https://files.example.com/uploads/${serial}`,
    }))
    const signatures = Array.from({ length: serial % 3 === 1 ? 1 : 0 }, () => ({
      ...{ id: `s${serial}`, question: { id: 'q0', text: 'Sign' } },
      ...{ signed_at: createdAt, signer_name: `Ann of ${team}` },
    }))
    const row = { id, patient_id: id, form_id: id, form_name: form.name, packet_id: null, document_id: null }
    const times = { submitted_at: createdAt, created_at: createdAt, updated_at: updatedAt }
    return {
      payload: {
        ...{ id, patient: { id }, form, packet: null, document: null, ...flags, ...times, answers },
        ...{ matrix_cells: cells, files, e_signatures: signatures },
      },
      rows: {
        responses: [{ ...row, ...flags, ...timesOf(times) }],
        response_answers: answers.map(({ id: answer_id, question, answer_text, answer_choices }, at) => {
          const choice = answer_choices[0]?.question_choice
          return {
            ...{ response_id: id, position: at + 1, value_position: 1, answer_id },
            ...{ question_id: question.id, question_text: question.text, choice_id: choice?.id ?? null },
            ...{ value_text: choice?.text_value ?? answer_text, value_number: null, value_boolean: null },
            value_date: null,
          }
        }),
        response_matrix_cells: cells.map(({ question, row: across, column, answer_text }, at) => ({
          ...{ response_id: id, position: at + 1, question_id: question.id, value_text: answer_text },
          ...{ row_id: across.id, row_text: across.text, column_id: column.id, column_text: column.text },
          question_text: question.text,
        })),
        response_files: files.map(({ id: file_id, question, name, content_type, size, url }, at) => ({
          ...{ response_id: id, position: at + 1, file_id, question_id: question.id, name, content_type },
          ...{ size_bytes: size, url },
        })),
        response_signatures: signatures.map(({ id: signature_id, question, signed_at, signer_name }, at) => ({
          ...{ response_id: id, position: at + 1, signature_id, question_id: question.id, signer_name },
          ...{ signed_at: timeOf(signed_at), has_image: false },
        })),
      },
    }
  },

  packet_responses({ team, id, serial, createdAt, updatedAt, isLast, members }) {
    const isSubmitted = isLast && serial % 2 === 0
    const progress = serial % 3 === 0 ? null : serial
    const fields = { is_submitted: isSubmitted, is_archived: false, form_index: progress, is_queued: false }
    const times = {
      submitted_at: isSubmitted ? updatedAt : null,
      created_at: createdAt,
      updated_at: updatedAt,
    }
    const activity = isSubmitted ? 'submitted' : progress === null ? 'setup' : 'progress'
    return {
      payload: { id, packet: { id, name: `Packet of ${team}` }, ...fields, ...times, responses: members },
      rows: {
        packet_responses: [{ id, packet_id: id, ...fields, activity, ...timesOf(times) }],
        packet_response_members: members.map((response_id, at) => ({
          ...{ packet_response_id: id, position: at + 1, response_id },
        })),
      },
    }
  },
}

const NO_ADDRESS = { address: null, address2: null, city: null, state: null, zipcode: null }

function timesOf(times: Readonly<Record<string, string | null>>): Row {
  return Object.fromEntries(Object.entries(times).map(([name, stamp]) => [name, timeOf(stamp)]))
}

/** A time as Postgres writes it into JSON: without trailing zeros in the fraction. */
function timeOf(stamp: string | null): string | null {
  return stamp === null ? null : `${stamp.replace(/(?:\.0+|(\.\d*?)0+)?Z$/, '$1')}+00:00`
}
