/**
 * Generates the responses of imported surveys.
 *
 * Invariant: each row of a survey is one submitted response of its own client, each cell the answer to the question of
 * its column; an empty cell is an unanswered question.
 */
import { stamp } from '../../clock.ts'
import { Draw } from '../draw.ts'
import { stableId } from '../id-space.ts'
import type { Response } from '../records.ts'
import { WORLD_START } from './make-patient.ts'
import type { Head, Seed, Survey } from './seed.ts'

const DAY = 86_400_000_000

interface Row {
  readonly survey: Survey
  readonly at: number
}

function rowOf(seed: Seed, index: number): Row {
  let at = index
  for (const survey of seed.imported.surveys) {
    if (at < survey.rows.length) return { survey, at }
    at -= survey.rows.length
  }
  throw new RangeError('no imported response has this index')
}

/** `index` is less than the number of imported responses. */
export function makeImported(seed: Seed, index: number): { head: Head; response: () => Response } {
  const { survey, at } = rowOf(seed, index)
  const draw = new Draw(seed.key, -1_000_000 - index)
  const created = WORLD_START + Math.floor(draw.share() * 300 * DAY)
  const submitted = created + 60_000_000 + Math.floor(draw.share() * DAY)
  const patient = survey.firstPatient + at
  const head = { patient, form: survey.form, packet: null, submitted, skipped: false }
  return { head, response: () => build(seed, index, { survey, at }, head, created, submitted) }
}

function build(
  seed: Seed,
  index: number,
  row: Row,
  head: Head,
  created: number,
  submitted: number,
): Response {
  const form = seed.forms.make(row.survey.form)
  const cells = row.survey.rows[row.at]!
  return {
    id: seed.responseIds.idAt(index),
    patient: seed.patients.ids.idAt(head.patient),
    form: form.id,
    form_name: form.name,
    packet: null,
    document: null,
    message: null,
    packet_response: null,
    created_at: stamp(created),
    updated_at: stamp(submitted),
    submitted_at: stamp(submitted),
    is_submitted: true,
    is_skipped: false,
    is_archived: false,
    answers: form.questions.map(({ id, text }, column) => ({
      id: stableId(seed.key, -1 - index, column),
      question: { id, text },
      answer_text: cells[column] || null,
      answer_choices: [],
    })),
    matrix_cells: [],
    files: [],
    e_signatures: [],
  }
}
