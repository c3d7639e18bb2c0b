/** Which records the submission of a packet changes: they are fetched, because the event does not contain them. */
import { expect, test } from 'vitest'
import { packetResponses } from '../../src/streams/packet-responses.ts'

const changed = (record: object) => packetResponses.changes!({ id: 'x', ...record })

test('a submitted packet changed each of its members once, when it was submitted', () => {
  const responses = ['r1', { id: 'r2' }, null, '', 'r1', { uid: 3 }]
  expect(changed({ is_submitted: true, submitted_at: '2026-01-02T10:00:00+01:00', responses })).toEqual({
    stream: 'responses',
    ids: ['r1', 'r2', '3'],
    since: '2026-01-02T09:00:00.000000Z',
  })
})

test.each([undefined, null, 'soon', 1_767_344_400])(
  'a submission without a time that can be read (%j) has no time',
  (submitted_at) => {
    expect(changed({ is_submitted: 'true', submitted_at, responses: ['r'] })).toEqual({
      stream: 'responses',
      ids: ['r'],
      since: null,
    })
  },
)

test.each([
  ['that is not submitted', { is_submitted: false, form_index: 2, responses: ['r'] }],
  ['that does not say whether it is', { responses: ['r'], submitted_at: '2026-01-02T09:00:00Z' }],
  ['without members', { is_submitted: true, responses: [] }],
  ['whose members cannot be read', { is_submitted: true, responses: [['r'], ''] }],
])('a packet %s changed none', (_, record) => {
  expect(changed(record)).toBeNull()
})

test('members keep the places that they have in the answer, also after places that are empty', () => {
  const responses = ['r1', '', null, { id: 'r2' }, 'r3']
  const rows = packetResponses.children[0]!.rows({ id: 'x', responses }, [])
  expect(rows).toEqual([
    ['1', 'r1'],
    ['4', 'r2'],
    ['5', 'r3'],
  ])
})
