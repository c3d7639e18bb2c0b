/** Where unknown parameters are refused, each list knows its own filters and no other ones. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type Emulator, startEmulator } from '../../../src/emulator/server.ts'
import { type Caller, callerOf } from '../caller.ts'

let emulator: Emulator
let caller: Caller

beforeAll(async () => {
  const shape = 'unknown-parameter-refused+validation-errors-object'
  emulator = await startEmulator({ port: 0, patients: 2, responses: 5, shape })
  caller = callerOf(emulator)
})
afterAll(() => emulator.close())

const FILTERS: Readonly<Record<string, readonly string[]>> = {
  patients: ['search', 'email', 'first_name', 'last_name', 'phone_number', 'external_id'],
  forms: [],
  packets: [],
  documents: [],
  messages: [
    ...['patient', 'form', 'packet', 'document', 'preferred_delivery_method', 'delivery_method'],
    ...['status', 'message_type', 'target_email', 'target_phone_number'],
  ],
  responses: ['patient', 'form', 'packet', 'submitted_on', 'submitted_after', 'submitted_before'],
  'export-csv': [],
  webhooks: [],
  'webhooks/events': ['webhook_config', 'status', 'source', 'event_type'],
}
const ALL = [...new Set(Object.values(FILTERS).flat())]

it.each(Object.entries(FILTERS))('the list of %s knows %j', async (list, known) => {
  const value = (name: string) => (name.startsWith('submitted') ? '2026-01-02' : 'x')
  const path = (names: readonly string[]) =>
    `/v2/${list}?${names.map((name) => `${name}=${value(name)}`).join('&')}`
  for (const names of [known, ['page'], ['page_size', 'limit', 'offset', 'cursor']]) {
    const { status } = await caller.get(path(names).replace('page=x', 'page=1'))
    expect([names, status]).toEqual([names, 200])
  }
  for (const name of [...ALL, 'type'].filter((one) => !known.includes(one))) {
    const { status, body } = await caller.get(path([...known, name, 'last']))
    expect([name, status, body]).toEqual([name, 400, { [name]: ['Validation error.'] }])
  }
})
