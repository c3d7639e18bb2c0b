/**
 * Generates forms, packets and documents from a key and an index.
 *
 * Invariant: ids of questions, choices, rows and columns depend only on the team, the form and the position of the
 * question, so a reworded question keeps its id; `order` counts through the whole form from 1.
 */
import { stamp } from '../../clock.ts'
import { Draw, type IdSpace, type Key, stableId } from '../draw.ts'
import type { Document, Form, InputField, Packet, Question } from '../records.ts'
import { FORM_PLANS, type FormPlan, type QuestionPlan } from './form-library.ts'
import { makeTimes } from './make-patient.ts'

/** `nth` chooses the plan: it is less than `index` if imported forms precede the generated ones. */
export function makeForm(ids: IdSpace, key: Key, index: number, nth = index): Form {
  const plan = FORM_PLANS[nth % FORM_PLANS.length]!
  const round = Math.floor(nth / FORM_PLANS.length)
  const times = makeTimes(new Draw(key, index))
  return {
    id: ids.idAt(index),
    name: round === 0 ? plan.name : `${plan.name} (${round + 1})`,
    text: plan.text,
    enabled: nth % 5 !== 4,
    created_at: stamp(times.created),
    updated_at: stamp(times.updated),
    questions: placeQuestions(plan, key, index),
  }
}

/** The questions of a plan in their order, members of a block right after it. */
export function placeQuestions(plan: Pick<FormPlan, 'questions'>, key: Key, index: number): Question[] {
  const questions: Question[] = []
  const rows = new Map<string, number>()
  const add = (item: QuestionPlan, block?: string) => {
    const order = questions.length + 1
    const place = order * 100_000
    const page = item.page ?? 1
    const section = item.section ?? 1
    const row = (rows.get(`${page}/${section}`) ?? 0) + 1
    rows.set(`${page}/${section}`, row)
    const name = (text: string, number: number, from: number) => ({
      id: stableId(key, index, place + from + number),
      text,
    })
    const question: Question = {
      id: stableId(key, index, order),
      question_type: { question_type: item.type, question_subtype: item.subtype ?? null },
      text: item.text,
      help_text: item.help ?? '',
      order,
      page,
      section,
      row,
      choices: (item.choices ?? []).map((text, index) => ({ id: name(text, index, 0).id, text_value: text })),
      ...(item.rows === undefined ? {} : { rows: item.rows.map((text, index) => name(text, index, 40_000)) }),
      ...(item.columns === undefined
        ? {}
        : { columns: item.columns.map((text, index) => name(text, index, 70_000)) }),
      ...(block === undefined ? {} : { block }),
    }
    questions.push(question)
    for (const member of item.members ?? []) add(member, question.id)
  }
  for (const item of plan.questions) add(item)
  return questions
}

const PACKETS = [
  { name: 'New patient', text: 'Everything before the first visit', size: 3 },
  { name: 'Follow-up', text: '', size: 1 },
  { name: 'Annual review – été', text: 'Once a year', size: 4 },
  { name: 'Not in use', text: 'Kept for its history', size: 0 },
] as const

/** `forms` are the ids to choose members from; without any, the packet is empty. */
export function makePacket(ids: IdSpace, key: Key, index: number, forms: readonly string[]): Packet {
  const plan = PACKETS[index % PACKETS.length]!
  const draw = new Draw(key, index)
  const times = makeTimes(draw)
  const size = forms.length === 0 ? 0 : plan.size
  const start = index === 0 || forms.length === 0 ? 0 : draw.below(forms.length)
  return {
    id: ids.idAt(index),
    name: index < PACKETS.length ? plan.name : `${plan.name} ${index + 1}`,
    text: plan.text,
    forms: Array.from({ length: size }, (_, index) => forms[(start + index) % forms.length]!),
    created_at: stamp(times.created),
    updated_at: stamp(times.updated),
  }
}

const FIELDS: readonly Omit<InputField, 'id'>[] = [
  { name: 'full_name', label: 'Full name', field_type: 'text', required: true, page: 1 },
  { name: 'dob', label: 'Date of birth', field_type: 'date', required: false, page: 1 },
  { name: 'agree', label: '', field_type: 'checkbox', required: true, page: 2 },
  { name: 'init', label: 'Initials «here»', field_type: 'initials', required: false, page: 2 },
  { name: 'sig', label: 'Signature', field_type: 'signature', required: true, page: 3 },
]

const DOCUMENT_NAMES = ['HIPAA notice', 'Financial policy', 'Release of records', 'Hausordnung'] as const

export function makeDocument(ids: IdSpace, key: Key, index: number): Document {
  const draw = new Draw(key, index)
  const times = makeTimes(draw)
  const name = DOCUMENT_NAMES[index % DOCUMENT_NAMES.length]!
  const fields = index % DOCUMENT_NAMES.length === 3 ? [] : FIELDS.slice(draw.below(3))
  return {
    id: ids.idAt(index),
    name: index < DOCUMENT_NAMES.length ? name : `${name} ${index + 1}`,
    text: index % 2 === 0 ? 'Please read and sign.' : '',
    created_at: stamp(times.created),
    updated_at: stamp(times.updated),
    input_fields: fields.map((field, position) => ({ id: stableId(key, index, position + 1), ...field })),
  }
}
