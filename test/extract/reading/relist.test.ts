/** Reading a list once more for a few of its entries. */
import { afterEach, beforeEach, expect, test } from 'vitest'
import { refetchFromList, relist } from '../../../src/extract/reading/read-exports.ts'
import { json } from '../../api/support/service.ts'
import { openRig, type Rig } from '../support/reading.ts'

let rig: Rig
beforeEach(async () => {
  rig = await openRig()
})
afterEach(() => rig[Symbol.asyncDispose]())

const entry = (id: string, more: object = {}) => ({ id, name: id, ...more })
const wanted = async (...ids: string[]) => {
  const found = await relist(await rig.source('exports', { runId: '5' }), ids, 'repair')
  return found.map(({ id, origin, teamId, content }) => ({ id, origin, teamId, name: content?.payload.name }))
}

test('the wanted entries are found on whatever page they are, and no others', async () => {
  rig.service.records.exports = Array.from({ length: 21 }, (_, at) => entry(`e${at}`))
  const rest = { origin: 'run:5 repair', teamId: rig.teamId }
  // The first and last of full pages of ten, and the one that is alone on the third.
  expect(await wanted('e0', 'e9', 'e10', 'e20')).toEqual(
    ['e0', 'e9', 'e10', 'e20'].map((id) => ({ ...rest, id, name: id })),
  )
  expect(rig.service.received).toHaveLength(3)
})

test('one that is not listed any more is not found', async () => {
  rig.service.records.exports = [entry('a')]
  expect((await wanted('a', 'gone')).map(({ id }) => id)).toEqual(['a'])
  expect(await wanted()).toEqual([])
})

test('the greater state of an entry that is listed twice is taken, in whatever order they are', async () => {
  const older = entry('a', { name: 'older', updated_at: '2026-01-01T00:00:00Z' })
  const newer = entry('a', { name: 'newer', updated_at: '2999-01-01T00:00:00Z' })
  const names: unknown[] = []
  for (const results of [
    [older, newer],
    [newer, older],
  ]) {
    rig.service.interfere = (_, response) => {
      json(response, { count: 2, next: null, previous: null, results })
      return true
    }
    names.push((await wanted('a')).map(({ name }) => name))
  }
  expect(names[0]).toEqual(names[1])
  expect(names[0]).toHaveLength(1)
})

test('what cannot be read as an entry is passed over', async () => {
  rig.service.interfere = (_, response) => {
    json(response, { count: 3, next: null, previous: null, results: [7, { name: 'no id' }, entry('a')] })
    return true
  }
  expect((await wanted('a')).map(({ id }) => id)).toEqual(['a'])
})

test('a list that is read again for a conflict has no dead letters and deletes nothing', async () => {
  rig.service.records.exports = [entry('a')]
  const { envelopes, ...rest } = await refetchFromList(await rig.source('exports', { runId: '5' }), [
    'a',
    'gone',
  ])
  expect(envelopes.map(({ id, origin }) => [id, origin])).toEqual([['a', 'run:5 refetch']])
  expect(rest).toEqual({ deadLetters: [] })
})

test('a page that fails is thrown: half a list is no list', async () => {
  rig.service.records.exports = Array.from({ length: 11 }, (_, at) => entry(`e${at}`))
  rig.service.interfere = ({ url }, response) => {
    if (!url.includes('page=2')) return false
    json(response, {}, 403)
    return true
  }
  await expect(wanted('e0')).rejects.toMatchObject({ status: 403 })
})

test('the later state of an entry that moved to a later page during the reading is taken', async () => {
  const { records } = rig.service
  records.exports = Array.from({ length: 15 }, (_, at) => entry(`e${at}`))
  rig.service.interfere = ({ url }) => {
    if (url.includes('page=2')) records.exports[12] = entry('e3', { name: 'renamed' })
    return false
  }
  expect((await wanted('e3', 'e4')).map(({ id, name }) => [id, name])).toEqual([
    ['e3', 'renamed'],
    ['e4', 'e4'],
  ])
})
