/**
 * What an export should hold, worked out from what the other endpoints show and by another way than the emulator's.
 * Only the message that asked for a response is looked up behind the API, which does not show it.
 */
import type { Emulator } from '../../../../src/emulator/server.ts'
import type { Caller, Loose } from '../../caller.ts'
import type { Version } from './exporting.ts'

export const time = (stamp: string | null) => stamp?.slice(0, -1).replace('T', ' ') ?? ''

/** The rows of the export of `form`, without its titles. */
export async function expectedRows(
  emulator: Emulator,
  caller: Caller,
  form: Loose,
  version: Version,
): Promise<string[][]> {
  const responses = await caller.rows(`/v2/responses?form=${form.id}&page_size=1000`)
  const people = await caller.rows('/v2/patients?page_size=1000')
  const ofClients = new Map<string, Loose[]>()
  for (const one of responses) {
    if (one.is_skipped || one.patient === null) continue
    ofClients.set(one.patient.id, [...(ofClients.get(one.patient.id) ?? []), one])
  }
  const chosen = [...ofClients.values()].map((all) => {
    const done = all.filter((one) => one.is_submitted)
    const latest = Math.max(...done.map((one) => Date.parse(one.submitted_at)))
    return done.find((one) => Date.parse(one.submitted_at) === latest) ?? all.at(-1)
  })
  chosen.sort((a, b) => responses.indexOf(a) - responses.indexOf(b))
  const { responses: known, messages } = emulator.control.world()
  return chosen.map((one) => {
    const person = people.find(({ id }) => id === one.patient.id)
    const message = known.get(one.id)?.message ?? null
    const sent = message === null ? null : messages.get(message)?.sent_at
    return [
      ...[person.id, person.first_name, person.last_name, person.email ?? '', time(sent ?? one.created_at)],
      ...[time(one.submitted_at), one.is_archived ? 'True' : 'False'],
      ...form.questions.flatMap((question: Loose) => cellsOf(question, one, version)),
    ]
  })
}

function cellsOf({ id, question_type, rows, columns }: Loose, response: Loose, version: Version): string[] {
  const type = question_type.question_type
  if (type === 'display_only' || type === 'repeated_block') return []
  const mine = (all: Loose[]) => all.filter((one) => one.question?.id === id)
  if (type === 'file')
    return [
      mine(response.files)
        .map(({ name }) => name)
        .join(', '),
    ]
  if (type === 'signature')
    return [
      mine(response.e_signatures)
        .map((one) => one.signer_name)
        .join('; '),
    ]
  if (type === 'matrix') {
    const cells = mine(response.matrix_cells)
    if (version === 'legacy') {
      const filled = cells.filter((one) => one.answer_text)
      return [filled.map((one) => `${one.row.text} / ${one.column.text}: ${one.answer_text}`).join('\n')]
    }
    return columns.flatMap((column: Loose) =>
      rows.map((row: Loose) => {
        const cell = cells.find((one) => one.row.id === row.id && one.column.id === column.id)
        return cell?.answer_text ?? ''
      }),
    )
  }
  const texts = mine(response.answers).map(({ answer_text, answer_choices }) => {
    if (type === 'checkbox' && version === 'v2.1') return answer_text === 'true' ? 'confirmed' : ''
    if (type === 'checkbox') return answer_text === null ? '' : answer_text === 'true' ? 'True' : 'False'
    const chosen = (answer_choices ?? []).map((one: Loose) => one.question_choice.text_value)
    return chosen.length === 0
      ? (answer_text ?? '')
      : [...chosen, ...(answer_text ? [answer_text] : [])].join(', ')
  })
  if (version === 'legacy') return [texts.at(-1) ?? '']
  return [texts.every((text) => text === '') ? '' : texts.join('; ')]
}
