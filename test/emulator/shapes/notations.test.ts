/**
 * Compares what each shape makes of a few records, lists, links, errors and events with test/emulator/recorded, without a
 * service. After an intended change, `npx vitest run test/emulator/shapes/notations.test.ts -u` updates the recording; read
 * the difference before you commit it.
 */
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { expect, it } from 'vitest'
import { describeShape, matterOf, SHAPE_NAMES, shapeNamed } from '../../../src/emulator/shapes/catalogue.ts'
import type { Shape, ShapeFlag } from '../../../src/emulator/shapes/shape.ts'

const RECORDED = join(import.meta.dirname, '..', 'recorded', 'notations.txt')

const idOf = (place: number) => `00000000-0000-4000-8000-${String(place).padStart(12, '0')}`.replace('0', 'a')
const stamps = { created_at: '2026-01-01T00:00:00Z', updated_at: '2026-01-02T00:00:00Z' }

const question = (place: number, position: readonly [page: number, section: number, row: number]) => ({
  ...{ id: idOf(place), text: `Question ${place}`, help_text: '' },
  question_type: { question_type: 'single_choice', question_subtype: null },
  ...{ page: position[0], section: position[1], row: position[2], order: place },
  choices: [{ id: idOf(place + 50), text_value: 'Yes' }],
})
const form = {
  ...{ id: idOf(1), name: 'Intake', text: '', enabled: true, ...stamps },
  questions: [question(11, [10, 1, 1]), question(12, [2, 1, 1]), question(13, [2, 1, 1])],
}
const packet = { ...{ id: idOf(2), name: 'Packet', text: '' }, forms: [{ id: idOf(1), name: 'Intake' }] }
const heading = (place: number) => ({ id: idOf(place), text: `Heading ${place}` })
const cell = (of: number, row: number, column: number) => ({
  ...{ question: { id: idOf(of) }, row: heading(row), column: heading(column), answer_text: 'x' },
})
const answer = (place: number, of: object | null, choices: unknown = []) => ({
  ...{ id: idOf(place), question: of, answer_text: null, answer_choices: choices },
})
const part = (place: number, of: number) => ({
  id: idOf(place),
  question: { id: idOf(of) },
  name: `Part ${place}`,
})
const asked = (place: number) => ({ id: idOf(place), text: `Question ${place}` })
const message = {
  ...{
    id: '12345678-9abc-4def-8123-456789abcdef',
    status: 'sent',
    scheduled_at: null,
    content: 'Please answer.',
  },
  ...{ target_phone_number: '8025550100', target_email: null, ...stamps },
  ...{ patient: { id: idOf(3) }, form: { id: idOf(1), name: 'Intake' }, packet: null, document: null },
}

/** By resource; each is shown in a list and by its id. */
const RECORDS: readonly (readonly [resource: string, record: object])[] = [
  [
    'patients',
    {
      ...{
        id: idOf(3),
        external_id: '',
        first_name: '',
        last_name: 'Lee',
        email: null,
        provider: 'x',
        ...stamps,
      },
      ...{ address: '', emergency_contact: null, patient_tags: [] },
      custom_fields: {
        plan: 'gold',
        kids: '2',
        zip: '007',
        list: 'a',
        id: idOf(3),
        weight: '70 kg',
        none: 'abcd',
      },
    },
  ],
  ['patients', { id: idOf(4), emergency_contact: { first_name: 'One' }, custom_fields: null }],
  ['forms', form],
  ['forms', { id: idOf(5), name: '', text: 'Empty', questions: [] }],
  ['packets', packet],
  ['packets', { id: idOf(6), name: 'None', forms: [] }],
  ['documents', { id: idOf(7), name: 'Consent', input_fields: [{ id: idOf(70), name: 'sig', page: 1 }] }],
  ['documents', { id: idOf(8), name: 'Plain' }],
  ['messages', message],
  ...['failed', 'pending', 'cancelled', 'scheduled'].map(
    (status) => ['messages', { id: message.id, status, scheduled_at: '2026-02-01T00:00:00Z' }] as const,
  ),
  [
    'responses',
    {
      ...{ id: idOf(20), form_id: idOf(1), form_name: 'Intake', ...stamps },
      ...{ patient: { id: idOf(3), last_name: 'Lee' }, form: { id: idOf(1) }, packet: null, document: null },
      answers: [
        answer(21, asked(11), [{ question_choice: { id: idOf(61), text_value: 'Yes' } }]),
        answer(22, asked(12), null),
        answer(23, asked(11)),
        answer(24, null),
      ],
      matrix_cells: [cell(12, 31, 41), cell(12, 32, 42), cell(12, 31, 42), cell(13, 32, 41)],
      files: [part(25, 11), part(26, 13)],
      e_signatures: [part(27, 12), part(28, 11)],
    },
  ],
  ['responses', { id: idOf(29), answers: [], matrix_cells: [], files: [], e_signatures: [] }],
  ['packet_responses', { id: idOf(9), packet: { ...packet, forms: [form] }, responses: [idOf(20)] }],
  ['packet_responses', { id: idOf(9), packet: null, responses: [] }],
  ['exports', { id: idOf(80), form: { id: idOf(1), name: 'Intake' }, block: idOf(1), row: 'text' }],
  ['events', { id: idOf(90), event_id: idOf(91), webhook_config: idOf(92), event_type: 'created' }],
  ['events', { id: idOf(90), event_id: 7 }],
]

const page = { resource: 'patients', rows: [{ id: 'a' }], count: 9, previous: null }
const next = 'http://127.0.0.1:4010/v2/patients?page=2&search=a'
const failure = (status: number, detail: string) => ({ type: 'failure' as const, status, detail })
const FAILURES = [
  { ...failure(400, 'Validation error.'), field: 'email' },
  failure(400, 'No.'),
  failure(404, 'Patient not found.'),
  ...[1, 11].map((wait) => failure(429, `Request was throttled. Expected available in ${wait} seconds.`)),
]
const FLAGS: readonly ShapeFlag[] = [
  ...(['nested-forms', 'trailing-slash', 'empty-success', 'bounds-exclusive', 'bounds-zone'] as const),
  ...(['filters-ignored', 'export-json-data', 'export-json-rows'] as const),
  ...(['raw-text-csv', 'raw-text-quoted', 'raw-text-bom'] as const),
]
const ids = { withPrefix: (hex: string) => `begins with ${hex}` }
const PATHS = [
  '7',
  '0',
  '1152921504606846975',
  '1152921504606846976',
  '18446744073709551616',
  ' 7',
  '7x',
  'x7',
  '',
]

/** The fields that a shape adds or changes, and the names of those that it removes; null if there are none. */
function differenceOf(before: object, after: object): string | null {
  const [old, now] = [before as Record<string, unknown>, after as Record<string, unknown>]
  const changed = Object.entries(now).filter(([name, value]) => !isDeepStrictEqual(value, old[name]))
  const removed = Object.keys(old).filter((name) => !(name in now))
  if (changed.length + removed.length === 0) return null
  const without = removed.length === 0 ? '' : ` without ${removed.join(', ')}`
  return `${JSON.stringify(Object.fromEntries(changed))}${without}`
}

/** What a shape writes, by what it is. */
function written(shape: Shape): ReadonlyMap<string, string> {
  const lines = new Map<string, string>()
  for (const [at, [resource, record]] of RECORDS.entries()) {
    const [listed, single] = [true, false].map((inList) => {
      const before = structuredClone(record)
      const difference = differenceOf(before, shape.record(record as never, { resource, inList }))
      expect(record).toEqual(before)
      return difference
    })
    if (single !== null) lines.set(`${resource} ${at}`, single!)
    if (listed !== single) lines.set(`${resource} ${at}, in a list`, String(listed))
  }
  for (const event_type of ['created', 'deleted']) {
    const data = { id: 'a', uid: 'b', name: 'c' }
    lines.set(`event ${event_type}`, JSON.stringify(shape.event({ id: 'e', event_type, data })))
  }
  lines.set('list', JSON.stringify(shape.envelope({ ...page, next })))
  lines.set('last list', JSON.stringify(shape.envelope({ ...page, next: null })))
  lines.set('next', shape.next(next))
  lines.set('paging', JSON.stringify(shape.paging))
  for (const [at, one] of FAILURES.entries()) lines.set(`failure ${at}`, JSON.stringify(shape.failure(one)))
  lines.set('text', shape.text('{"a":"#number:18446744073709551616#","b":"#number:x#"}'))
  lines.set('id in a cell', shape.idText(message.id))
  lines.set('ids of paths', PATHS.map((path) => shape.id(path, ids) ?? 'none').join(', '))
  lines.set('flags', FLAGS.filter((flag) => shape.has(flag)).join(', '))
  return lines
}

it('each shape writes records, lists, links, errors and events as it did', async () => {
  const usual = written(shapeNamed('default', '1'))
  const lines = [...usual].map(([what, text]) => `${what}: ${text}`)
  for (const name of SHAPE_NAMES) {
    lines.push('', `# ${name} (${matterOf(name)}): ${describeShape(name)}`)
    for (const [what, text] of written(shapeNamed(name, '1')))
      if (text !== usual.get(what)) lines.push(`${what}: ${text}`)
  }
  await expect(`${lines.join('\n')}\n`).toMatchFileSnapshot(RECORDED)
})

it('two shapes together write records as they did, whatever the order of their names', async () => {
  const recordsIn = (shape: string) =>
    RECORDS.flatMap(([resource, record]) =>
      [true, false].map((inList) => shapeNamed(shape, '1').record(record as never, { resource, inList })),
    )
  const plain = JSON.stringify(recordsIn('default'))
  const names = SHAPE_NAMES.filter((name) => JSON.stringify(recordsIn(name)) !== plain)
  const lines = names.map((name) => {
    const hash = createHash('sha256')
    for (const other of names.filter((one) => matterOf(one) !== matterOf(name)))
      hash.update(JSON.stringify(recordsIn(`${other}+${name}`)))
    return `${name}: ${hash.digest('hex').slice(0, 12)}`
  })
  await expect(`${lines.join('\n')}\n`).toMatchFileSnapshot(RECORDED.replace('notations', 'pairs'))
})

it('a shape that is unknown is refused by its name, and has neither a matter nor a description', () => {
  for (const name of ['', 'round', 'cursor+round', 'toString'])
    expect(() => shapeNamed(name, '1')).toThrow(
      `no shape is named "${name.split('+').at(-1)}"; there are default, random, ${SHAPE_NAMES.join(', ')}`,
    )
  expect(() => matterOf('round')).toThrow(RangeError)
  expect(['round', 'default', 'random'].map(describeShape)).toEqual([
    ...['', 'what the service is expected to do', 'a mixture that depends on the seed'],
  ])
})
