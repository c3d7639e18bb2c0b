/**
 * A little service with one form of every kind of question, answered by a patient with the canary in everything that
 * names a person or that a person wrote.
 */
import { CANARY } from '../e2e/support/canary.ts'
import type { LittleService } from '../e2e/support/little-service.ts'

const at = { created_at: '2026-01-01T00:00:00Z', updated_at: '2026-01-01T00:00:00Z' }
const names = { first_name: CANARY, last_name: CANARY, phone_number: CANARY }
const address = { address: CANARY, address2: CANARY, city: CANARY, state: CANARY, zipcode: CANARY }

const QUESTIONS = [
  { id: 'name', type: 'short_text', text: 'Name' },
  { id: 'story', type: 'long_text', text: 'What brings you here?' },
  { id: 'born', type: 'date', text: 'Date of birth' },
  { id: 'weight', type: 'number', text: 'Weight (kg)' },
  { id: 'smoker', type: 'checkbox', text: 'I smoke' },
  { id: 'payer', type: 'single_choice', text: 'Payer', choices: ['PPO', 'HMO', 'Other'] },
  {
    id: 'devices',
    type: 'multiple_choice',
    text: 'Devices',
    choices: ['Cane', 'Walker, with wheels', 'Other'],
  },
  { id: 'drugs', type: 'matrix', text: 'Medicines' },
  { id: 'card', type: 'file', text: 'Card' },
  { id: 'signed', type: 'signature', text: 'Signature' },
] as const

const choice = (id: string, text_value: string) => ({ question_choice: { id, text_value } })

export function fillClinic({ records }: LittleService): void {
  records.patients.push(
    {
      ...{ id: 'p', external_id: CANARY, ...names, ...address, ...at },
      email: `${CANARY}@example.com`,
      date_birth: '1980-02-29',
      sex_at_birth: CANARY,
      provider: CANARY,
      custom_fields: { plan: CANARY, [CANARY]: CANARY },
      emergency_contact: { ...names, ...address, relationship: CANARY },
      patient_tags: [{ name: 'Fall risk', color: '#ff0000' }],
    },
    ...[
      ['in a small area', '1950-06-15', '03601', 'vt', 'F'],
      ['in a large area', '1950-06-15', '10001-1234', 'New York', 'male'],
      ['of ninety', '1920-01-01', '90210', 'CA', 'Intersex'],
      ['unborn', '2900-01-01', '9021', 'Bavaria', 'it depends'],
    ].map(([id, date_birth, zipcode, state, sex_at_birth]) => ({
      ...{ id: id!, first_name: CANARY, last_name: CANARY, ...at },
      ...{ date_birth, zipcode, state, sex_at_birth },
    })),
  )
  records.forms.push({
    ...{ id: 'f', name: 'Intake', text: '', enabled: true, ...at },
    questions: QUESTIONS.map((question, place) => ({
      ...{ id: question.id, text: question.text, help_text: '', order: place + 1 },
      question_type: { question_type: question.type, question_subtype: null },
      choices:
        'choices' in question
          ? question.choices.map((text, each) => ({ id: `${question.id}${each}`, text_value: text }))
          : [],
    })),
  })
  records.responses.push(response('r1', 'p'), response('r2', 'in a small area'))
  records.messages.push({
    ...{ id: 'm', patient: { id: 'p', ...names }, form: { id: 'f', name: 'Intake' }, ...at },
    ...{ message_type: 'form_response_request', preferred_delivery_method: CANARY, status: CANARY },
    ...{ target_email: `${CANARY}@example.com`, target_phone_number: CANARY, content: CANARY },
    sent_at: '2026-01-01T00:00:00Z',
  })
  records.exports.push({
    id: 'e',
    name: 'Intake export',
    form: { id: 'f', name: 'Intake' },
    created_at: at.created_at,
  })
}

/** The file of the export. */
export const EXPORT = [
  'Client ID,First Name,Last Name,Email,Sent at,Completed at,Archived,Name,Date of birth,Weight (kg),I smoke,Payer,Devices',
  `p,${CANARY},${CANARY},${CANARY},2026-01-01 00:00:00,2026-01-02 00:00:00,False,${CANARY},1980-02-29,81.5,True,HMO,"Cane, Other"`,
  `q,${CANARY},${CANARY},${CANARY},,,False,${CANARY},${CANARY},${CANARY},${CANARY},${CANARY},"Cane, ${CANARY}"`,
  `r,${CANARY},${CANARY},${CANARY},,,False,,,,confirmed,,Cane; Other`,
  '',
].join('\n')

function response(id: string, patient: string) {
  const asked = (question: string) => ({
    id: question,
    text: QUESTIONS.find((each) => each.id === question)!.text,
  })
  const text = (question: string, answer_text: unknown) => ({
    question: asked(question),
    answer_text,
    answer_choices: [],
  })
  return {
    ...{ id, form: { id: 'f', name: 'Intake' }, form_name: CANARY, is_submitted: true, ...at },
    patient: { id: patient, external_id: CANARY, ...names, email: `${CANARY}@example.com` },
    submitted_at: '2026-01-02T00:00:00Z',
    answers: [
      text('name', CANARY),
      text('story', `${CANARY} said so`),
      text('born', '1980-02-29'),
      text('born', '19800229'),
      text('weight', '81.5'),
      text('weight', CANARY),
      text('smoker', 'true'),
      text('smoker', CANARY),
      { question: asked('payer'), answer_text: CANARY, answer_choices: [choice('payer1', 'HMO')] },
      { question: asked('payer'), answer_choices: ['PPO', CANARY] },
      { question: asked('payer'), answer_choices: [choice('payer2', CANARY), choice('of no form', CANARY)] },
      {
        question: asked('devices'),
        answer_choices: [choice('devices0', 'Cane'), choice('devices1', 'Walker, with wheels')],
      },
      { question: { id: 'gone', text: `${CANARY} of ${id}` }, answer_text: CANARY },
      { question: null, answer_text: CANARY },
    ],
    matrix_cells: [
      {
        question: asked('drugs'),
        row: { id: 'r', text: CANARY },
        column: { id: 'k', text: CANARY },
        answer_text: CANARY,
      },
    ],
    files: [
      {
        id: 'x',
        question: asked('card'),
        name: `${CANARY}.png`,
        content_type: CANARY,
        size: 1,
        url: `https://x.example.com/${CANARY}`,
      },
    ],
    e_signatures: [{ id: 's', question: asked('signed'), signer_name: CANARY, image: CANARY }],
  }
}
