/** Alerts at the end of a command: tried three times, and never after an interruption. */
import pino from 'pino'
import { afterAll, afterEach, beforeAll, beforeEach, expect, it, vi } from 'vitest'
import { alertsAtEnd } from '../../../src/commands/run/progress.ts'
import { systemClock } from '../../../src/core/clock.ts'
import { connect, openWarehouse, query } from '../../e2e/support/scene.ts'
import { type AlertReceiver, openReceiver, SECRET, shortOf } from '../../operate/alerts/receiver.ts'

let warehouse: Awaited<ReturnType<typeof openWarehouse>>
let receiver: AlertReceiver
/** Called in each pause. */
let inPause = async () => {}
const pauses: number[] = []

beforeAll(async () => {
  warehouse = await openWarehouse()
  receiver = await openReceiver()
  await query(
    warehouse.url,
    `insert into intake.teams (name) values ('north'), ('elsewhere'), ('south');
     insert into intake_ops.dead_letters (team_id, stream, fingerprint, origin, reason)
       select team_id, 'forms', 'x', 'x', 'x' from intake.teams`,
  )
})
beforeEach(() => {
  pauses.length = 0
  inPause = async () => {}
  vi.spyOn(systemClock, 'sleep').mockImplementation(async (milliseconds) => {
    pauses.push(milliseconds)
    await inPause()
  })
})
afterEach(async () => {
  vi.restoreAllMocks()
  receiver.answer(204)
  receiver.taken()
  await query(warehouse.url, 'delete from intake_ops.alerts')
})
afterAll(async () => {
  await receiver?.[Symbol.asyncDispose]()
  await warehouse?.drop()
})

const end = async (signal = new AbortController().signal, isOn = true) => {
  const alerts = { url: receiver.url, secret: SECRET, inboxSeconds: 300, maxAgeHours: null }
  const config = {
    alerts: isOn ? alerts : null,
    ingestTeams: ['north', 'south'].map((name) => ({ name, webhookSecrets: [] })),
    inboxDays: 30,
  }
  const place = { url: warehouse.url, logger: pino({ level: 'silent' }) }
  await alertsAtEnd({ signal, version: '1' }, config, place)[Symbol.asyncDispose]()
}

it('an alert of each team of the configuration is posted once, and nothing where there is nothing new', async () => {
  await end()
  expect(receiver.taken().flatMap(shortOf).toSorted()).toEqual([
    'raised dead_letters north forms',
    'raised dead_letters south forms',
  ])
  await end()
  expect([receiver.taken(), pauses]).toEqual([[], []])
})

it('a post that fails is tried again after a second and after three, and then left to the next round', async () => {
  receiver.answer(500)
  await end()
  expect([receiver.taken().length, pauses]).toEqual([3, [1_000, 3_000]])
  inPause = async () => receiver.answer(204)
  receiver.answer(500)
  pauses.length = 0
  await end()
  expect([receiver.taken().length, pauses]).toEqual([2, [1_000]])
})

it('while another process posts it waits, and posts what that one did not', async () => {
  const other = await connect(warehouse.url)
  await other.query(`select pg_advisory_lock(intake_ops.lock_key(7204314, 'alerts'))`)
  inPause = async () => {
    await other.query('select pg_advisory_unlock_all()')
  }
  await end()
  await other.end()
  expect(receiver.taken()).toHaveLength(1)
})

it('without a receiver, or after an interruption, nothing is posted', async () => {
  await end(undefined, false)
  await end(AbortSignal.abort('SIGINT'))
  expect(receiver.taken()).toEqual([])
  const stop = new AbortController()
  receiver.answer(500)
  inPause = async () => stop.abort('SIGINT')
  await end(stop.signal)
  expect(receiver.taken()).toHaveLength(1)
})
