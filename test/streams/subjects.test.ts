/** Whom a record is about: what `erase` follows from a person to every record of theirs. */
import { expect, test } from 'vitest'
import { ALL_STREAMS, streamNamed } from '../../src/streams/catalogue.ts'
import { namingColumns, STREAMS_OF_PERSONS, subjectsNamedIn } from '../../src/streams/subjects.ts'

const named = (name: string, payload: object) =>
  subjectsNamedIn(streamNamed(name)!, payload as Record<string, unknown>)

test('responses and messages are of a person; patients, forms, packets and files are not', () => {
  expect([...STREAMS_OF_PERSONS]).toEqual(expect.arrayContaining(['messages', 'responses']))
  for (const name of ['patients', 'forms', 'packets', 'documents', 'exports', 'packet_responses'])
    expect(STREAMS_OF_PERSONS.has(name)).toBe(false)
})

test.each([
  ['bare', { id: 'r', patient_id: 'p', form_id: 'f' }],
  ['in an object', { id: 'r', patient: { id: 'p' }, form: { id: 'f' } }],
])('a response names its patient, %s, and neither its form nor itself', (_, payload) => {
  expect(named('responses', payload)).toEqual([{ stream: 'patients', id: 'p' }])
})

test('the progress of a packet names the responses in it, as each is written', () => {
  const responses = ['r1', { id: 'r2' }, null, '', { uid: 3 }]
  expect(named('packet_responses', { id: 'x', responses })).toEqual([
    { stream: 'responses', id: 'r1' },
    { stream: 'responses', id: 'r2' },
    { stream: 'responses', id: '3' },
  ])
})

test.each([
  ['responses', { id: 'r' }],
  ['responses', { id: 'r', patient_id: null }],
  ['responses', { id: 'r', patient_id: '' }],
  ['responses', { id: 'r', patient_id: ['p'] }],
  ['packet_responses', { id: 'x', responses: 'none' }],
  ['patients', { id: 'p', external_id: 'q' }],
  ['packets', { id: 'x', forms: ['f'] }],
])('no person is named where there is none (%s %j)', (name, payload) => {
  expect(named(name, payload)).toEqual([])
})

test('the columns that name a person are those of the tables', () => {
  const columns = Object.fromEntries(
    ALL_STREAMS.map((stream) => {
      const { root, children } = namingColumns(stream)
      return [
        stream.name,
        [
          ...root.map(({ at, names }) => [stream.columns[at]!.name, names]),
          ...children.flatMap((each, child) =>
            each.map(({ at, names }) => [stream.children[child]!.columns[at], names]),
          ),
        ],
      ]
    }).filter(([, found]) => found!.length > 0),
  )
  expect(columns).toMatchObject({
    responses: [['patient_id', 'patients']],
    messages: [['patient_id', 'patients']],
    packet_responses: [['response_id', 'responses']],
  })
  for (const name of ['patients', 'forms', 'packets', 'documents', 'exports'])
    expect(columns).not.toHaveProperty(name)
})
