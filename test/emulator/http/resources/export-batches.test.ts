/** An export of many clients: written in batches, each row once and in order, in every format; without a service. */
import { beforeAll, describe, expect, it } from 'vitest'
import { ServiceClock, Timeline } from '../../../../src/emulator/clock.ts'
import type { ExportAnswer } from '../../../../src/emulator/http/answer.ts'
import { render, whole } from '../../../../src/emulator/http/render.ts'
import { exportOf } from '../../../../src/emulator/http/resources/export-rows.ts'
import { shapeNamed } from '../../../../src/emulator/shapes/catalogue.ts'
import type { Response } from '../../../../src/emulator/world/records.ts'
import { World } from '../../../../src/emulator/world/world.ts'
import { readCsv } from './exporting.ts'

let world: World
/** Ids of the clients in the order of the responses that show them. */
let expected: string[]

beforeAll(() => {
  const clock = { now: () => 1_772_323_200_000_000, sleep: () => new Promise<void>(() => {}) }
  const service = new ServiceClock(clock, 1)
  const sizes = { patients: 900, forms: 1, packets: 0, documents: 0, responses: 2400 }
  const nobody = { patients: [], forms: [], surveys: [] }
  world = new World(['batches'], sizes, nobody, service, new Timeline(service, clock))
  const { responses, patients } = world
  const all = responses.slice(0, 10_000)
  // Deleted since, in several batches.
  for (const at of [0, 700, 1500]) patients.remove(all[at]!.patient)
  const latest = new Map<string, Response>()
  for (const one of all) {
    const before = latest.get(one.patient)
    if (before === undefined || (one.submitted_at ?? '') >= (before.submitted_at ?? ''))
      latest.set(one.patient, one)
  }
  const chosen = new Set([...latest.values()].map(({ id }) => id))
  expected = all.flatMap(({ id, patient }) => (chosen.has(id) && patients.get(patient) ? [patient] : []))
})

async function written(format: ExportAnswer['format'], shape = 'default'): Promise<string> {
  const table = exportOf(world, world.forms.at(0)!, 'flat', (id) => id)
  const answer: ExportAnswer = { type: 'export', format, name: 'x', table }
  return await whole(render(answer, shapeNamed(shape, '1')).body)
}

describe('an export of hundreds of clients', () => {
  it('is read in more than two batches, none of them empty', async () => {
    const batches: number[] = []
    const { titles, rows } = exportOf(world, world.forms.at(0)!, 'flat', (id) => id)
    for await (const batch of rows) batches.push(batch.length)
    expect(batches.length).toBeGreaterThan(2)
    expect(Math.min(...batches)).toBeGreaterThan(0)
    // A batch is a few milliseconds of work.
    expect(Math.max(...batches) * titles.length).toBeLessThanOrEqual(4000)
  })

  it('has a row of each client, whatever the format', async () => {
    const { titles, rows } = readCsv(await written('raw_text'))
    expect(expected.length).toBeGreaterThan(600)
    expect(rows.map(([id]) => id)).toEqual(expected)
    const objects = JSON.parse(await written('json')) as Record<string, string | null>[]
    expect(objects.map((one) => one['Client ID'])).toEqual(expected)
    const { headers, rows: lists } = JSON.parse(await written('json', 'export-json-rows'))
    expect([headers, lists.map(([id]: string[]) => id)]).toEqual([titles, expected])
    const { data } = JSON.parse(await written('json', 'export-json-data'))
    expect(data).toEqual(objects)
    expect(JSON.parse(await written('raw_text', 'raw-text-quoted'))).toBe(await written('raw_text'))
  })

  // The last test: nobody is left after it.
  it('ends without an empty batch when its clients are deleted while it is written', async () => {
    const batches: number[] = []
    for await (const batch of exportOf(world, world.forms.at(0)!, 'flat', (id) => id).rows) {
      batches.push(batch.length)
      for (const { id } of [...world.patients.slice(0, 10_000)]) world.patients.remove(id)
    }
    expect(batches).toEqual([expect.any(Number)])
  })
})
