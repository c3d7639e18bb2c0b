/** What a table reports of its changes, and that it has no rows but those that were created. */
import { expect, it } from 'vitest'
import { ServiceClock, Timeline } from '../../../src/emulator/clock.ts'
import { IdSpace, keyOf } from '../../../src/emulator/world/draw.ts'
import { type Change, Table } from '../../../src/emulator/world/table.ts'
import { World } from '../../../src/emulator/world/world.ts'
import { stillAt } from '../still-clock.ts'

interface Item {
  readonly id: string
  readonly text: string
}

const ids = new IdSpace(keyOf('table'))

function tableOf(seeded: number) {
  const changes: (Change<Item> & { readonly isRead: boolean })[] = []
  const make = (index: number): Item => ({ id: ids.idAt(index), text: `seeded ${index}` })
  const table = new Table<Item>(ids, seeded, make, (change) => {
    // When it is reported, it can be read.
    changes.push({ ...change, isRead: (table.get(change.id) !== undefined) === (change.type !== 'deleted') })
  })
  return { table, changes }
}

it('an index before the first row, after the last, or of a deleted row has no row, and changes to it do nothing', () => {
  const { table, changes } = tableOf(3)
  table.remove(ids.idAt(1))
  changes.length = 0
  for (const index of [-1, 1, 3, 4]) {
    expect([table.has(index), table.at(index)]).toEqual([false, undefined])
    if (index < 0) continue
    const id = ids.idAt(index)
    expect([table.get(id), table.remove(id), table.update(id, (old) => old)]).toEqual([
      ...[undefined, undefined, undefined],
    ])
  }
  expect([table.get('none'), table.remove('none'), changes, table.size, table.end]).toEqual([
    ...[undefined, undefined, [], 2, 3],
  ])
  expect([0, 1, 2, 3].map((position) => table.indexAt(position))).toEqual([0, 2, 3, 3])
  // The index of a deleted row is not given again.
  expect(table.create((id, index) => ({ id, text: `created ${index}` })).id).toBe(ids.idAt(3))
  expect([table.size, table.end]).toEqual([3, 4])
})

it('each change is reported with its row and index, once it can be read', () => {
  const { table, changes } = tableOf(2)
  const created = table.create((id) => ({ id, text: 'created' }))
  table.update(ids.idAt(1), (old) => ({ ...old, text: `${old.text}, changed` }))
  const changed = { id: ids.idAt(1), text: 'seeded 1, changed' }
  const twice = table.update(ids.idAt(2), (old) => ({ ...old, text: `${old.text}, changed` }))!
  expect([...table.touched()]).toEqual([
    ...[
      [2, twice],
      [1, changed],
    ],
  ])
  expect([table.remove(ids.idAt(1)), table.remove(ids.idAt(0))]).toEqual([
    ...[changed, { id: ids.idAt(0), text: 'seeded 0' }],
  ])
  expect([...table.touched()]).toEqual([[2, { id: ids.idAt(2), text: 'created, changed' }]])
  const of = (type: string, index: number, row: Item) => ({ type, index, row, id: row.id, isRead: true })
  expect(changes).toEqual([
    ...[of('created', 2, created), of('updated', 1, changed), of('updated', 2, twice)],
    ...[of('deleted', 1, changed), of('deleted', 0, { id: ids.idAt(0), text: 'seeded 0' })],
  ])
})

it('a world reports the changes of each table to each listener until that one leaves, with the time of the service', () => {
  const clock = stillAt(1_772_323_200_000_000)
  const service = new ServiceClock(clock, 1)
  service.skew = 5_000_000
  const sizes = { patients: 2, forms: 1, packets: 1, documents: 1, responses: 4 }
  const nobody = { patients: [], forms: [], surveys: [] }
  const world = new World(['table'], sizes, nobody, service, new Timeline(service, clock))
  const heard: Record<'first' | 'second', string[]> = { first: [], second: [] }
  const listen = (name: 'first' | 'second') =>
    world.subscribe(({ source, type, index, at }) => heard[name].push(`${source} ${type} ${index} ${at}`))
  const [leave] = [listen('first'), listen('second')]
  const { patients, forms, packets, documents, messages, responses, packetResponses } = world
  const tables = { patients, forms, packets, documents, messages, responses, packetResponses }
  for (const table of Object.values(tables) as unknown as Table<Item>[])
    table.update(table.at(0)!.id, (old) => ({ ...old }))
  leave()
  service.advance(1_000_000)
  patients.remove(patients.at(1)!.id)
  const sources = ['patient', 'form', 'packet', 'document', 'message', 'response', 'packet_response']
  const updates = sources.map((source) => `${source} updated 0 1772323205000000`)
  expect(heard).toEqual({ first: updates, second: [...updates, 'patient deleted 1 1772323206000000'] })
})

it('a person is shown as the patient is now, and not at all once deleted', () => {
  const clock = stillAt(1_772_323_200_000_000)
  const service = new ServiceClock(clock, 1)
  const sizes = { patients: 3, forms: 1, packets: 0, documents: 0, responses: 0 }
  const nobody = { patients: [], forms: [], surveys: [] }
  const world = new World(['table'], sizes, nobody, service, new Timeline(service, clock))
  const [one, two, three] = world.patients.slice(0, 3)
  const shown = ({ id, external_id, first_name, last_name, email }: typeof one & object) => ({
    ...{ id, external_id, first_name, last_name, email },
  })
  world.patients.update(two!.id, (old) => ({ ...old, first_name: 'New', external_id: 'E', email: null }))
  world.patients.remove(three!.id)
  const next = world.patients.ids.idAt(3)
  expect([one!, two!, three!].map(({ id }) => world.person(id))).toEqual([
    ...[shown(one!), { ...shown(two!), first_name: 'New', external_id: 'E', email: null }, null],
  ])
  expect([world.person(next), world.person('none')]).toEqual([null, null])
  expect(() => world.declared('none')).toThrow(
    new RangeError('no resource is declared with the source "none"'),
  )
})
