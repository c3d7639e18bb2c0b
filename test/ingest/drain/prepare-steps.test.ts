/** How a batch is taken: staging tables are made outside its transaction, once for each connection, and the rows taken anew. */
import { beforeEach, expect, test, vi } from 'vitest'
import type { InboxRow } from '../../../src/ingest/drain/inbox-rows.ts'
import { prepare } from '../../../src/ingest/drain/load-events.ts'
import { prepareStaging } from '../../../src/load/merge/write-batch.ts'
import { noonPlus, patient } from './scene.ts'

vi.mock('../../../src/load/merge/write-batch.ts')

let steps: string[]

function connection(name: string) {
  return { client: { query: async (text: string) => void steps.push(`${name}: ${text}`) } } as never
}
beforeEach(() => {
  steps = []
  vi.mocked(prepareStaging).mockImplementation(async (_, { name }) => void steps.push(`stage ${name}`))
})

const row = (source: string, type = 'updated') => {
  const body = { id: 'e1', timestamp: noonPlus(1), event_type: type, source, data: patient('a') }
  return {
    ...{ teamId: 1, seq: '1', eventId: 'e1', receivedAt: noonPlus(2) },
    body: Buffer.from(JSON.stringify(body)),
  } as InboxRow
}
const loading = { teamIds: [1], apiVersionOf: () => 'v2.1', usual: {} as never }

async function take(session: never, ...rounds: readonly (readonly InboxRow[])[]) {
  let taken = 0
  const prepared = await prepare(session, loading, async () => rounds[taken++] ?? [])
  return [prepared?.rows ?? null, taken]
}

test('staging is made between two transactions, once for each stream and connection', async () => {
  const one = connection('one')
  const rows = [row('patient')]
  const fewer = [row('patient')]
  expect(await take(one, rows, fewer)).toEqual([fewer, 2])
  const made = ['one: begin', 'one: rollback', 'stage patients', 'one: begin']
  expect(steps.splice(0)).toEqual(made)
  // The transaction stays open; the next batch of the stream needs nothing more.
  expect(await take(one, rows)).toEqual([rows, 1])
  expect(steps.splice(0)).toEqual(['one: begin'])
  const both = [row('patient'), row('form', 'deleted')]
  await take(one, both, both)
  expect(steps.splice(0)).toEqual(['one: begin', 'one: rollback', 'stage forms', 'one: begin'])
  await take(connection('two'), rows, rows)
  expect(steps).toEqual(made.map((step) => step.replace('one', 'two')))
})

test('a batch without states needs no staging; where nothing is left to take, no transaction stays open', async () => {
  const one = connection('one')
  const unknown = [row('invoice')]
  expect(await take(one, unknown)).toEqual([unknown, 1])
  expect(steps.splice(0)).toEqual(['one: begin'])
  expect(await take(one, [])).toEqual([null, 1])
  expect(steps.splice(0)).toEqual(['one: begin', 'one: rollback'])
  // Another process took them while staging was made.
  expect(await take(one, [row('patient')], [])).toEqual([null, 2])
  expect(steps).toEqual(['one: begin', 'one: rollback', 'stage patients', 'one: begin', 'one: rollback'])
})
