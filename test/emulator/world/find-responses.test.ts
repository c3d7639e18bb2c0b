/** The responses that a filter finds are those that reading all of them would find, whatever was changed before. */
import { beforeAll, expect, it } from 'vitest'
import { readStamp, ServiceClock, Timeline } from '../../../src/emulator/clock.ts'
import { IdSpace, keyOf } from '../../../src/emulator/world/draw.ts'
import { filtered, findResponses, type ResponseFilter } from '../../../src/emulator/world/find-responses.ts'
import type { Response } from '../../../src/emulator/world/records.ts'
import { Table } from '../../../src/emulator/world/table.ts'
import { World } from '../../../src/emulator/world/world.ts'

const SIZES = { patients: 6, forms: 4, packets: 4, documents: 2, responses: 90 }
const MIDNIGHT = '2026-01-02T00:00:00Z'

let world: World

beforeAll(() => {
  const clock = {
    now: () => Date.parse('2026-03-01T00:00:00Z') * 1000,
    sleep: () => new Promise<void>(() => {}),
  }
  const service = new ServiceClock(clock, 1)
  const nobody = { patients: [], forms: [], surveys: [] }
  world = new World(['find'], SIZES, nobody, service, new Timeline(service, clock))
})

const all = () => world.responses.slice(0, 1000)
const idsOf = (rows: readonly { id: string }[]) => rows.map(({ id }) => id)

function expected(rows: readonly Response[], filter: ResponseFilter): string[] {
  const found = rows.filter((one) => {
    const submitted = one.submitted_at === null ? null : readStamp(one.submitted_at)!
    const { patient = one.patient, form = one.form, packet = one.packet } = filter
    if (one.patient !== patient || one.form !== form || one.packet !== packet) return false
    const { submittedFrom, submittedBefore } = filter
    if (submittedFrom === undefined && submittedBefore === undefined) return true
    return (
      submitted !== null && submitted >= (submittedFrom ?? 0) && submitted < (submittedBefore ?? Infinity)
    )
  })
  return idsOf(found)
}

function filters(rows: readonly Response[]): ResponseFilter[] {
  const one = rows.find(({ packet, submitted_at }) => packet !== null && submitted_at !== null)!
  const other = rows.findLast(({ form }) => form !== null && form !== one.form)!
  const midnight = readStamp(MIDNIGHT)!
  const middle = Math.floor(readStamp(one.submitted_at!)! / 1000) * 1000
  const days = [{ submittedFrom: midnight }, { submittedBefore: midnight }, { submittedFrom: middle }]
  const ids = [{ patient: one.patient }, { form: one.form! }, { packet: one.packet! }, { form: other.form! }]
  const both = { submittedFrom: midnight, submittedBefore: midnight + 1 }
  return [
    ...ids,
    ...days,
    both,
    { patient: one.patient, form: one.form!, packet: one.packet! },
    ...ids.flatMap((each) => days.map((day) => ({ ...each, ...day }))),
    { patient: 'nobody' },
  ]
}

async function check(): Promise<number> {
  const now = all()
  let found = 0
  for (const filter of filters(now)) {
    const listing = await findResponses(world, filter)
    const ids = expected(now, filter)
    found += ids.length
    expect([filter, listing.size]).toEqual([filter, ids.length])
    expect(idsOf(listing.slice(0, 1000))).toEqual(ids)
    expect(idsOf(listing.slice(1, 2))).toEqual(ids.slice(1, 3))
    expect(idsOf(listing.slice(0, 2, true))).toEqual(ids.toReversed().slice(0, 2))
    const scanned: string[] = []
    for (let token: number | null = 0; token !== null; ) {
      const scan: { rows: Response[]; next: number | null } = listing.scan(token, 3)
      expect(scan.rows.length > 0 || ids.length === 0).toBe(true)
      scanned.push(...idsOf(scan.rows))
      token = scan.next
    }
    expect(scanned).toEqual(ids)
  }
  return found
}

it('before and after responses are changed, deleted and added', async () => {
  expect(await check()).toBeGreaterThan(100)
  const { responses } = world
  const [one, ...others] = all()
  const elsewhere = others.find(({ patient }) => patient !== one!.patient)!
  const change = (id: string, fields: Partial<Response>) =>
    responses.update(id, (old) => ({ ...old, ...fields }))
  others.slice(10, 30).forEach(({ id }, at) => {
    change(id, { patient: at % 2 === 0 ? one!.patient : elsewhere.patient })
    if (at % 3 === 0) change(id, { form: one!.form, packet: null })
    if (at % 4 === 0) change(id, { submitted_at: at % 8 === 0 ? MIDNIGHT : null })
  })
  // Responses to a document have no form.
  for (const { id, document } of others) if (document !== null) change(id, { is_archived: true })
  // Also one that was changed before.
  for (const at of [3, 12, 13, 40]) responses.remove(others[at]!.id)
  responses.create((id) => ({ ...one!, id, submitted_at: MIDNIGHT }))
  expect(await check()).toBeGreaterThan(100)
})

it('a list of many thousands is read to its end', async () => {
  const ids = new IdSpace(keyOf('many'))
  const make = (index: number) => ({ id: ids.idAt(index), index })
  const table = new Table(ids, 9001, make, () => undefined)
  const listing = await filtered(table, ({ index }) => index % 1000 === 0)
  const found = Array.from({ length: 10 }, (_, nth) => make(nth * 1000))
  expect([listing.size, listing.slice(0, 100)]).toEqual([10, found])
  expect((await filtered(table, () => true)).size).toBe(9001)
})

it('a list that is read as a whole finds the same in its order, from either end', async () => {
  const { patients } = world
  const people = patients.slice(0, 100)
  const listing = await filtered(patients, ({ id }) => id !== people[2]!.id)
  const rows = people.filter((_, at) => at !== 2)
  expect([listing.size, listing.slice(0, 100), listing.slice(1, 2, true)]).toEqual([
    ...[rows.length, rows],
    rows.toReversed().slice(1, 3),
  ])
  expect(listing.scan(3, 2)).toEqual({ rows: rows.slice(3), next: null })
  expect(listing.scan(0, 2)).toEqual({ rows: rows.slice(0, 2), next: 2 })
})
