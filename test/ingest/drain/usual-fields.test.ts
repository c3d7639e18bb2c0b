/** What records of a stream usually hold is judged by whole ones: what an event told in part says nothing about others. */
import { afterEach, beforeEach, expect, test } from 'vitest'
import { noonPlus, openScene, patientEvent, type Scene } from './scene.ts'

let scene: Scene

beforeEach(async () => {
  scene = await openScene()
})

afterEach(() => scene[Symbol.asyncDispose]())

/** An event that tells some fields of a patient. */
function inPart(id: string, seconds: number) {
  const data = { id, last_name: 'In part', updated_at: noonPlus(seconds) }
  return { ...patientEvent(id, seconds), data }
}

test('each new record that an event tells in part is asked for, however many were stored in part before', async () => {
  await scene.store([patientEvent('whole', 1)])
  await scene.drain()
  await scene.store([inPart('a', 2)])
  await scene.drain()
  expect(await scene.asked()).toEqual(['patients a partial'])
  // Another process, which knows nothing yet of what records usually hold.
  await scene.store([inPart('b', 3)])
  await scene.drain()
  expect(await scene.asked()).toEqual(['patients a partial', 'patients b partial'])
})

test('where all that is stored is to be fetched, a record of which most is missing is asked for', async () => {
  for (const [at, id] of ['a', 'b', 'c'].entries()) {
    await scene.store([inPart(id, at)])
    await scene.drain()
  }
  expect(await scene.asked()).toEqual(['patients a partial', 'patients b partial', 'patients c partial'])
})
