/**
 * A team with a receiver of webhooks, for tests of delivery. Each test has its own, closed after it.
 */
import { afterEach, beforeEach, expect } from 'vitest'
import { type Emulator, type EmulatorOptions, startEmulator } from '../../../src/emulator/server.ts'
import { type Caller, callerOf, type Loose } from '../caller.ts'
import { type Receiver, startReceiver } from '../receiver.ts'

export interface Here {
  emulator: Emulator
  caller: Caller
  receiver: Receiver
}

export function webhookScene() {
  const here = {} as Here
  beforeEach(async () => {
    here.receiver = await startReceiver()
  })
  afterEach(async () => {
    await here.emulator.close()
    await here.receiver.close()
  })
  return {
    here,
    async start(options: EmulatorOptions = {}) {
      here.emulator = await startEmulator({ port: 0, patients: 20, responses: 40, ...options })
      here.caller = callerOf(here.emulator)
    },
    /** Creates a configuration that selects everything unless `fields` differ. */
    async subscribe(fields: object = {}, headers: Record<string, string> = {}): Promise<Loose> {
      const { caller, receiver } = here
      const body = { target_url: receiver.url, ...fields }
      const reply = await caller.send('POST', '/v2/webhooks', body, { ...caller.credentials, ...headers })
      expect(reply.status).toBe(201)
      return reply.body
    },
    idle: () => here.emulator.control.webhooks().idle(),
    delivered: () => here.receiver.deliveries.map(({ event }) => `${event.source} ${event.event_type}`),
    attempts: () => here.caller.rows('/v2/webhooks/events'),
    newPatient: () => here.emulator.control.createPatient({ first_name: 'Ann', last_name: 'Lee' }),
  }
}
