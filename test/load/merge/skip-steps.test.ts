/** The questions about unchanged records, and what becomes of an envelope whose state an earlier run has stored. */
import { expect, test } from 'vitest'
import type { Envelope } from '../../../src/core/envelope.ts'
import type { Instant } from '../../../src/core/time.ts'
import { placesChanged, storedVersions, withoutUnchanged } from '../../../src/load/merge/skip-unchanged.ts'
import { ALL_STREAMS } from '../../../src/streams/catalogue.ts'
import { patients } from '../../../src/streams/patients.ts'
import { at } from '../../support/envelopes.ts'
import { answering, scripted } from '../../support/scripted.ts'

const log = ALL_STREAMS.find(({ entryAt }) => entryAt !== undefined)!

const envelope = (id: string, observedAt: Instant, more: object = {}) =>
  ({
    ...{ teamId: 3, id, observedAt, version: observedAt, origin: 'run:7 page:2' },
    ...{ content: { hash: `hash of ${id}` }, ...more },
  }) as unknown as Envelope

test('records are compared in one statement, with all that decides; nothing asks for nothing', async () => {
  const { asked, session } = answering([
    { place: 2, is_new: true, before: null },
    { place: 3, is_new: false, before: null },
  ])
  expect(await withoutUnchanged(session, patients, [])).toEqual([])
  const all = [
    envelope('a', at(1), { version: at(0) }),
    envelope('b', at(2), { content: null }),
    envelope('c', at(3), { origin: 'run:8 page:1' }),
  ]
  expect(await withoutUnchanged(session, patients, all)).toEqual([
    { ...all[1], isNew: true },
    { ...all[2], isNew: false },
  ])
  expect(asked).toEqual([
    [
      ...['changed records', 3, 'patients', 'patient', ['a', 'b', 'c'], ['hash of a', '', 'hash of c']],
      ...[
        [at(0), at(2), at(3)],
        [at(1), at(2), at(3)],
      ],
      // The run itself, with the blank: run 70 is another.
      ...['run:7 ', false],
    ],
  ])
})

test('a stream without events has no source, and a log is compared as one', async () => {
  const { asked, session } = answering([])
  await withoutUnchanged(session, log, [envelope('a', at(1))])
  expect(asked[0]!.slice(2, 4)).toEqual([log.name, log.source ?? null])
  expect(asked[0]!.at(-1)).toBe(true)
})

test.each([
  ['was stored later: a microsecond after that', at(9), at(5), at(10), at(10)],
  ['was stored at the same moment: a microsecond after it', at(5), at(5), at(6), at(6)],
  ['was stored before: when it was read', at(2), at(5), at(5), at(5)],
  ['has a time of its own: under that time', at(9), at(1), at(10), at(1)],
])('an entry that %s', async (_, before, version, observedAt, laterVersion) => {
  const { session } = answering([{ place: 1, is_new: false, before }])
  const entry = envelope('a', at(5), { version })
  expect(await withoutUnchanged(session, log, [entry])).toEqual([
    { ...entry, observedAt, version: laterVersion, isNew: false },
  ])
})

test('records of hashes are compared by one text of ids and one string of bytes; places count from 0', async () => {
  const { asked, session } = answering([{ place: 1 }, { place: 3 }])
  const records = ['a', 'b', 'c'].map((id, place) => ({ id, hash: `0${place}`.repeat(16) }))
  expect(await placesChanged(session, patients, 3, records)).toEqual([0, 2])
  const [name, ...values] = asked[0]!
  const bytes = values.pop() as Buffer
  expect([name, ...values]).toEqual(['records with these hashes', 3, 'patients', 'patient', 'a\nb\nc'])
  expect(bytes.toString('hex')).toBe(records.map(({ hash }) => hash).join(''))
})

test('versions are those of the ids that are stored, read as times', async () => {
  const asked: unknown[] = []
  const db = scripted((_, values) => {
    asked.push(values)
    return [{ id: 'b', version: '2026-01-01T12:00:00.000007Z', deleted: true }]
  })
  expect(await storedVersions(db, { teamId: 3, stream: 'patients' }, ['a', 'b'])).toEqual(
    new Map([['b', { version: at(7), deleted: true }]]),
  )
  expect(asked).toEqual([[['a', 'b'], 3, 'patients']])
})
