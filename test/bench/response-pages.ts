/**
 * Responses to a form of ten questions, in the service's default shape: texts short and long, numbers, dates, choices,
 * a matrix in one of five, a file in one of ten, a signature in one of four.
 */
import { responses } from '../../src/streams/responses.ts'
import { type Sample, sampleOf, stampOf, uuid } from './pages.ts'
import { person } from './patient-pages.ts'

/** A hundred of them are a page of 330 KB. */
export const responseSample: Sample = sampleOf(responses, 100, response)

const FORMS = 40
const PATIENTS = 50_000

interface Question {
  readonly text: string
  readonly give: (index: number) => {
    readonly answer_text: string | null
    readonly choices?: readonly string[]
  }
}

const said = (give: (index: number) => string) => (index: number) => ({ answer_text: give(index) })

const NOTES = [
  'None that I know of',
  'Since the operation in March it hurts when I climb stairs, mostly on the left side, and at night.',
  'Two tablets of 5 mg in the morning, "as needed" in the evening\nand nothing on weekends',
  'Seit Jahren Rückenschmerzen; früher Physiotherapie',
]

const OFTEN = ['Not at all', 'Several days', 'More than half the days', 'Nearly every day']
const DEVICES = ['Cane', 'Walker', 'Wheelchair', 'Hearing aid', 'Other']

const QUESTIONS: readonly Question[] = [
  { text: 'What is your full name?', give: said((index) => `Client ${index % 9_973}`) },
  {
    text: 'Date of birth',
    give: said((index) => `19${30 + (index % 70)}-0${(index % 9) + 1}-1${index % 10}`),
  },
  { text: 'How tall are you, in centimetres?', give: said((index) => String(150 + (index % 50))) },
  { text: 'What brings you in today?', give: said((index) => NOTES[index % NOTES.length]!) },
  { text: 'Do you smoke?', give: said((index) => (index % 4 === 0 ? 'Yes' : 'No')) },
  {
    text: 'Over the last two weeks, how often have you had little interest or pleasure in doing things?',
    give: (index) => ({ answer_text: null, choices: [OFTEN[index % 4]!] }),
  },
  {
    text: 'Over the last two weeks, how often have you been feeling down, depressed or hopeless?',
    give: (index) => ({ answer_text: null, choices: [OFTEN[(index >> 2) % 4]!] }),
  },
  {
    text: 'Which devices do you use?',
    give: (index) => ({
      answer_text: index % 5 === 4 ? 'my own' : null,
      choices: DEVICES.slice(0, 1 + (index % 3)),
    }),
  },
  { text: 'Current medication', give: (index) => ({ answer_text: index % 3 === 0 ? NOTES[2]! : null }) },
  { text: 'I have read the notice of privacy practices', give: said(() => 'true') },
]

function response(index: number): unknown {
  const stamp = stampOf(index)
  const form = uuid(3_000_000_000 + (index % FORMS))
  return {
    id: uuid(index),
    form_id: form,
    form_name: `Intake questionnaire ${index % FORMS}`,
    form: { id: form },
    packet: index % 3 === 0 ? { id: uuid(3_100_000_000 + (index % 10)), name: 'New patient' } : null,
    document: null,
    patient: person(index % PATIENTS),
    created_at: stamp,
    updated_at: stamp,
    submitted_at: stamp,
    is_submitted: true,
    is_skipped: false,
    is_archived: index % 50 === 0,
    answers: QUESTIONS.map((question, at) => answer(index, at, question)),
    matrix_cells: index % 5 === 0 ? [0, 1, 2, 3].map((at) => cell(index, at)) : [],
    files: index % 10 === 0 ? [file(index)] : [],
    e_signatures: index % 4 === 0 ? [signature(index, stamp)] : [],
  }
}

function answer(index: number, at: number, { text, give }: Question): unknown {
  const { answer_text, choices = [] } = give(index)
  return {
    id: uuid(1_000_000_000 + index * 10 + at),
    question: { id: questionId(index, at), text },
    answer_text,
    answer_choices: choices.map((text_value, nth) => ({
      question_choice: { id: uuid(3_300_000_000 + at * 10 + nth), text_value },
    })),
  }
}

function cell(index: number, at: number): unknown {
  return {
    question: { id: questionId(index, 10) },
    row: { id: uuid(3_400_000_000 + (at >> 1)), text: at < 2 ? 'Aspirin' : 'Ibuprofen' },
    column: { id: uuid(3_500_000_000 + (at % 2)), text: at % 2 === 0 ? 'Dose' : 'How often' },
    answer_text: at % 2 === 0 ? `${(index % 9) * 10} mg` : 'daily',
  }
}

function file(index: number): unknown {
  const id = uuid(3_600_000_000 + index)
  return {
    id,
    question: { id: questionId(index, 11) },
    name: 'insurance card.png',
    content_type: 'image/png',
    size: 1_000 + index,
    url: `https://files.example.com/uploads/${id}?expires=1790000000&signature=${id.replaceAll('-', '')}`,
  }
}

function signature(index: number, stamp: string): unknown {
  const id = uuid(3_700_000_000 + index)
  return {
    id,
    question: { id: questionId(index, 12) },
    signed_at: stamp,
    signer_name: `Client ${index % 9_973}`,
    image: `https://files.example.com/signatures/${id}?expires=1790000000&signature=${id.replaceAll('-', '')}`,
  }
}

function questionId(index: number, at: number): string {
  return uuid(3_200_000_000 + (index % FORMS) * 20 + at)
}
