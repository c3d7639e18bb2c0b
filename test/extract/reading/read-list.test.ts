/** A whole list: loaded, compared, its missing records proved, and only then settled. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import type { StreamName } from '../../../src/core/envelope.ts'
import { readList } from '../../../src/extract/reading/read-list.ts'
import { EVERYTHING } from '../../../src/extract/reading/window.ts'
import type { SliceOptions } from '../../../src/extract/slice-note.ts'
import { storeDeadLetters } from '../../../src/load/dead-letters.ts'
import { cursorOf } from '../../../src/load/slice.ts'
import { json } from '../../api/support/service.ts'
import { ago, openRig, type Rig, refuseCursors } from '../support/reading.ts'

let rig: Rig
beforeEach(async () => {
  rig = await openRig()
})
afterEach(() => rig[Symbol.asyncDispose]())

const clock = {
  now: systemClock.now,
  sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(Math.min(ms, 2), signal),
}
const person = (id: string, first_name = 'A') => ({ id, first_name })
const OPTIONS: SliceOptions = { allowMassDelete: false, dry: false, migrated: true, window: EVERYTHING }
const NOTHING = { text: null, attention: false }

async function read(options: Partial<SliceOptions> = {}, runId = '1', stream: StreamName = 'patients') {
  const source = await rig.source(stream, { clock, runId })
  const note = await readList(source, rig.session, { ...OPTIONS, ...options })
  return { note, tally: source.tally }
}
const cursor = async (stream: StreamName = 'patients') =>
  (await cursorOf(rig.session.db, { teamId: rig.teamId, stream, slice: '' })) as object | null
const stored = async () => {
  const rows = await rig.rows<{ id: string; name: string | null }>(
    `select id, case when _deleted_at is null then first_name end as name from intake.patients
     where team_id = $1 order by id`,
    [rig.teamId],
  )
  return Object.fromEntries(rows.map(({ id, name }) => [id, name]))
}

test.each([0, 9, 10, 11, 20, 21])('a list of %i records, ten to a page, is loaded whole', async (count) => {
  const all = Array.from({ length: count }, (_, at) => person(`p${String(at).padStart(2, '0')}`))
  rig.service.records.patients = all
  expect(await read()).toMatchObject({ note: NOTHING, tally: { fetched: count, changed: count, deleted: 0 } })
  expect(Object.keys(await stored())).toEqual(all.map(({ id }) => id))
  expect(await cursor()).toMatchObject({ steady: true })
  // The second time nothing changes.
  expect(await read({}, '2')).toMatchObject({ note: NOTHING, tally: { changed: 0, unchanged: count } })
})

describe('what the list misses', () => {
  test('is deleted where it is not found, and stays where it is', async () => {
    rig.service.records.patients = ['a', 'b', 'c'].map((id) => person(id))
    await read()
    rig.service.records.patients = [person('a'), person('b', 'B')]
    rig.service.unlisted.add('b')
    expect(await read({}, '2')).toMatchObject({ note: NOTHING, tally: { deleted: 1, changed: 1 } })
    expect(await stored()).toEqual({ a: 'A', b: 'B', c: null })
  })

  test('is not looked for while the list keeps changing', async () => {
    rig.service.records.patients = ['a', 'b'].map((id) => person(id))
    await read()
    rig.service.interfere = (_, response) => {
      json(response, { count: 5, next: null, previous: null, results: [person('a')] })
      return true
    }
    const { note } = await read({}, '2')
    expect(note.text).toContain('deletes are not looked for')
    expect(rig.service.received.filter(({ url }) => url.endsWith('/b'))).toEqual([])
    expect(await stored()).toEqual({ a: 'A', b: 'A' })
    expect(await cursor()).toMatchObject({ steady: false })
  })

  test('is not looked for where each reading is another, which needs no person', async () => {
    let count = 2
    rig.service.interfere = (_, response) => {
      count += 1
      json(response, { count, next: null, previous: null, results: [person('a')] })
      return true
    }
    expect((await read()).note).toEqual({
      text: 'the list kept changing while it was read (count_mismatch); deletes are looked for next time',
      attention: false,
    })
    expect(count).toBe(5)
  })

  test('is deleted though it is stored with a time ahead of the service, if it is gone each time it is fetched', async () => {
    await rig.hold('patients', [person('gone'), person('alive', 'ahead')], ago(-3_600))
    rig.service.records.patients = [person('alive', 'true')]
    rig.service.unlisted.add('alive')
    expect(await read()).toMatchObject({ note: NOTHING, tally: { deleted: 1 } })
    expect(await stored()).toEqual({ alive: 'true', gone: null })
  })

  test('beyond the guard waits for a person, and the cursor is settled all the same', async () => {
    const all = Array.from({ length: 51 }, (_, at) => person(`p${at}`))
    rig.service.records.patients = all
    await read()
    rig.service.records.patients = []
    const { note } = await read({}, '2')
    expect(note.attention).toBe(true)
    expect(note.text).toContain('--allow-mass-delete')
    expect(Object.values(await stored())).not.toContain(null)
    expect(await read({ allowMassDelete: true }, '3')).toMatchObject({
      note: NOTHING,
      tally: { deleted: 51 },
    })
  })

  test('of a log has only expired there', async () => {
    const entry = (id: string) => ({ id, event_id: 'e', status: 'sent', created_at: ago(60) })
    rig.service.records.webhookDeliveries = ['a', 'b'].map(entry)
    await read({}, '1', 'webhook_deliveries')
    rig.service.records.webhookDeliveries = [entry('b')]
    expect(await read({}, '2', 'webhook_deliveries')).toMatchObject({ tally: { deleted: 0 } })
    expect(rig.service.received.filter(({ url }) => url.endsWith('/a'))).toEqual([])
    expect(await cursor('webhook_deliveries')).toMatchObject({ steady: true })
  })
})

test('a log with missing entries is reported with the last count of the service', async () => {
  const entry = { id: 'a', event_id: 'e', status: 'sent', created_at: ago(60) }
  let counted = 9
  rig.service.interfere = (_, response) => {
    counted += 1
    json(response, { count: counted, next: null, previous: null, results: [entry] })
    return true
  }
  const { note } = await read({}, '1', 'webhook_deliveries')
  expect(counted).toBeGreaterThan(10)
  const text = `not all entries of the log were listed, of ${counted} that the service counts (count_mismatch); it is read again next time`
  expect(note).toEqual({ text, attention: false })
  expect(await cursor('webhook_deliveries')).toMatchObject({ steady: false })
})

test('a record that loses to the stored state is fetched by its id, and the answer decides', async () => {
  // Stored by a clock that was an hour ahead.
  await rig.hold('patients', [person('p', 'ahead')], ago(-3_600))
  rig.service.records.patients = [person('p', 'true')]
  await read()
  expect(await stored()).toEqual({ p: 'true' })
  expect(rig.service.received.filter(({ url }) => url.endsWith('/p')).length).toBeGreaterThan(0)
})

test('a dead letter that a complete list does not meet again is resolved; those of other teams and streams wait', async () => {
  const deadLetter = { recordId: 'x', origin: 'run:0 page:1', reason: 'r', body: '{}' }
  for (const [teamId, stream] of [
    [rig.teamId, 'patients'],
    [rig.teamId, 'forms'],
    [rig.otherId, 'patients'],
  ] as const)
    await storeDeadLetters(rig.session.db, { teamId, stream, runId: '0' }, [deadLetter])
  const waiting = async () =>
    (
      await rig.rows<{ place: string }>(
        `select team_id || ' ' || stream as place from intake_ops.dead_letters where status = 'waiting' order by 1`,
      )
    ).map(({ place }) => place)
  await read({ dry: true })
  expect(await waiting()).toHaveLength(3)
  await read()
  expect(await waiting()).toEqual([`${rig.teamId} forms`, `${rig.otherId} patients`])
})

test('a refetch of a record that cannot be fetched is stored before the cursor moves', async () => {
  rig.service.records.patients = ['a', 'b'].map((id) => person(id))
  await read()
  rig.service.records.patients = [person('a')]
  rig.service.interfere = ({ url }, response) => {
    if (!url.endsWith('/b')) return false
    json(response, {}, 500)
    return true
  }
  const before = await cursor()
  await refuseCursors(rig)
  await expect(read({}, '2')).rejects.toThrow('no')
  await rig.rows('drop function refuse cascade')
  expect(await cursor()).toEqual(before)
  expect(await rig.rows('select id, reason, origin from intake_ops.refetches')).toEqual([
    { id: 'b', reason: 'partial', origin: 'run:2' },
  ])
  expect(await stored()).toEqual({ a: 'A', b: 'A' })
  expect(await cursor()).toMatchObject({ steady: true })
})

test('a failure in the middle moves no cursor, and keeps the records that were read', async () => {
  rig.service.records.patients = Array.from({ length: 21 }, (_, at) => person(`p${at}`))
  await read()
  const before = await cursor()
  rig.service.records.patients.push(person('new'))
  rig.service.interfere = ({ url }, response) => {
    if (!url.includes('page=2')) return false
    json(response, {}, 405)
    return true
  }
  await expect(read({}, '2')).rejects.toMatchObject({ status: 405 })
  expect(await cursor()).toEqual(before)
  expect(Object.values(await stored())).not.toContain(null)
})
