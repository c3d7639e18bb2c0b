/**
 * The same seed gives the same bytes, on every machine and in every release (decision 4). Who changes what is generated
 * changes a digest here, on purpose.
 */
import { createHash } from 'node:crypto'
import { setImmediate as turn } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { type Clock, ServiceClock, Timeline } from '../../../src/emulator/clock.ts'
import { fire, fireWebhook, parseFaults } from '../../../src/emulator/faults.ts'
import { makeCredentials } from '../../../src/emulator/http/call.ts'
import { NO_FIELDS } from '../../../src/emulator/http/resources/patient-body.ts'
import { shapeNamed } from '../../../src/emulator/shapes/catalogue.ts'
import { changeSomething, startActivity } from '../../../src/emulator/world/clinic-changes.ts'
import { openResponse } from '../../../src/emulator/world/clinic-responses.ts'
import { staffOf } from '../../../src/emulator/world/clinic-staff.ts'
import { Draw, keyOf } from '../../../src/emulator/world/draw.ts'
import { makeForm } from '../../../src/emulator/world/seeded/make-form.ts'
import type { Imported, Sizes } from '../../../src/emulator/world/seeded/seed.ts'
import type { Row, Table } from '../../../src/emulator/world/table.ts'
import { World } from '../../../src/emulator/world/world.ts'
import { stillAt } from '../still-clock.ts'

const NOBODY: Imported = { patients: [], forms: [], surveys: [] }
const SIZES: Sizes = { patients: 400, forms: 13, packets: 9, documents: 9, responses: 400 }

const still = stillAt(1_772_323_200_000_000)

function open(sizes: Partial<Sizes> = {}, imported = NOBODY) {
  const service = new ServiceClock(still, 1)
  const timeline = new Timeline(service, still)
  const world = new World(['1', 'production', 0], { ...SIZES, ...sizes }, imported, service, timeline)
  return { world, service, timeline }
}

const digestOf = (value: unknown) =>
  createHash('sha256').update(JSON.stringify(value)).digest('hex').slice(0, 12)
const rowsOf = <T extends Row>(table: Table<T>) => table.slice(0, 10_000)
const lifeOf = ({ messages, responses, packetResponses }: World) =>
  [messages, responses, packetResponses].map((table) => rowsOf<Row>(table as never))

/** Every event of the world from now on, as text. */
function watched(world: World): string[] {
  const events: string[] = []
  world.subscribe(({ source, type, row }) => events.push(`${source} ${type} ${JSON.stringify(row)}`))
  return events
}

describe('a seeded world', () => {
  it('has the same records of each kind', () => {
    const { world } = open()
    const { patients, forms, packets, documents, messages, responses, packetResponses, seed } = world
    const tables = { patients, forms, packets, documents, messages, responses, packetResponses }
    const digests = Object.entries(tables).map(([name, table]) => [
      name,
      digestOf(rowsOf<Row>(table as never)),
    ])
    expect(Object.fromEntries(digests)).toEqual({
      ...{ patients: '8fb5f0c6ab0f', forms: 'cc09adbf1a14', packets: '7e08c7818b05' },
      ...{ documents: '2ad6494e1898', messages: '5f3e54540488', responses: 'c0d5752bfe9e' },
      packetResponses: 'acfd37810c07',
    })
    expect(digestOf([0, 1, 2].map((index) => seed.exportIds.idAt(index)))).toBe('35ee37c9ff43')
  })

  it.each<[Partial<Sizes>, string]>([
    [{ responses: 1 }, '553b391fd05d'],
    [{ responses: 7 }, '80e08494834a'],
    [{ responses: 31 }, 'f9691c40fce8'],
    [{ responses: 60, packets: 0 }, '75152f771083'],
    [{ responses: 60, packets: 2 }, 'ab6bc8275529'],
    [{ responses: 60, documents: 0 }, 'cd12f08cbc44'],
    [{ responses: 60, forms: 0 }, '173bce46196d'],
    [{ responses: 60, forms: 1, patients: 1 }, '4eb0298d86eb'],
    [{ responses: 90, forms: 70, packets: 70, documents: 70 }, '8d1a3828a174'],
  ])('of %j has the same messages, responses and packets', (sizes, digest) => {
    expect(digestOf(lifeOf(open(sizes).world))).toBe(digest)
  })

  it('has the same people and answers after those that were imported', () => {
    const people = [1, 2, 3].map((n) => ({ ...NO_FIELDS, first_name: `P${n}`, last_name: 'I' }))
    const rows = [['a', '', 'c'], ['d']]
    const surveys = [
      { form: 0, firstPatient: 1, rows },
      { form: 1, firstPatient: 2, rows: rows.slice(1) },
    ]
    const forms = [0, 1, 2].map(
      (nth): Imported['forms'][number] =>
        (ids, key, at) =>
          makeForm(ids, key, at, nth),
    )
    const { world } = open({ responses: 40 }, { patients: people, forms, surveys })
    expect(digestOf([rowsOf(world.patients), rowsOf(world.forms), ...lifeOf(world)])).toBe('9a0fadfbceb1')
  })
})

it('the same activity changes the same records in the same way', async () => {
  const { world, service, timeline } = open({ patients: 40, responses: 120 })
  const events = watched(world)
  for (let nth = 0; nth < 700; nth += 1) {
    changeSomething(world, new Draw(keyOf('1', 'activity'), nth))
    service.advance(700_000)
    await turn()
    await turn()
  }
  timeline.close()
  expect(digestOf(events)).toBe('2f79fdb085aa')
})

it('activity makes as many changes as its rate says, no more and no less', async () => {
  let now = 0
  const stop = new AbortController()
  const waits: number[] = []
  const clock: Clock = {
    now: () => now,
    sleep: async (milliseconds) => {
      waits.push(milliseconds)
      // A timer is a little late.
      now += (milliseconds + 3) * 1000
      if (now >= 5_000_000) stop.abort()
      await turn()
    },
  }
  const [busy, expected] = [open({ responses: 60 }).world, open({ responses: 60 }).world]
  const [events, others] = [watched(busy), watched(expected)]
  startActivity(busy, 8, 'x', clock, stop.signal)
  await expect.poll(() => now).toBeGreaterThanOrEqual(5_000_000)
  await turn()
  // The moment of the end changes nothing more.
  for (let nth = 0; nth < 39; nth += 1) changeSomething(expected, new Draw(keyOf('x', 'activity'), nth))
  expect(new Set(waits)).toEqual(new Set([125]))
  expect(events).toEqual(others)
})

it('staff give the same invented answers', () => {
  const { world } = open({ responses: 0 })
  const staff = staffOf(world)
  const nothing = { packet: null, document: null, message: null, packet_response: null }
  const patient = world.patients.at(0)!.id
  const answered = rowsOf(world.forms).map(({ id: form }) =>
    staff.answer(openResponse(world, { ...nothing, patient, form }).id),
  )
  expect(digestOf(answered)).toBe('6797568ecd01')
})

it('the same seed gives the same credentials, shapes and faults', () => {
  const keys = ['production', 'sandbox'].flatMap((name) =>
    [0, 1].map((team) => makeCredentials('1', name, team)),
  )
  expect(digestOf(keys)).toBe('63746ed782d0')
  expect(digestOf(Array.from({ length: 50 }, (_, seed) => shapeNamed('random', String(seed)).names))).toBe(
    'ba8bcf0109a5',
  )
  const rules = parseFaults('http-500=0.1,throttle=0.1:3,webhook-drop=0.1,webhook-delay=0.1')
  const fired = (draw: (nth: number) => ReadonlyMap<string, unknown>) =>
    Array.from({ length: 60 }, (_, nth) => [nth, ...draw(nth).keys()]).filter((all) => all.length > 1)
  expect(digestOf(fired((nth) => fire(rules, '1', nth, '/v2/patients')))).toBe('5f0b8ddd4ccd')
  expect(digestOf(fired((nth) => fireWebhook(rules, '1', nth, 'patient')))).toBe('96f2bbfed902')
})
