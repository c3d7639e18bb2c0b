/** One configuration without a network: what it sends at once, what it loses, and what it keeps of a record. */
import { getEventListeners, setMaxListeners } from 'node:events'
import { describe, expect, it } from 'vitest'
import { ServiceClock, Timeline } from '../../../src/emulator/clock.ts'
import { parseFaults } from '../../../src/emulator/faults.ts'
import type { Settings } from '../../../src/emulator/options.ts'
import { shapeNamed } from '../../../src/emulator/shapes/catalogue.ts'
import { AttemptLog, Work } from '../../../src/emulator/webhooks/attempt.ts'
import { Channel } from '../../../src/emulator/webhooks/channel.ts'
import { Subjects } from '../../../src/emulator/webhooks/envelope.ts'
import type { AttemptOutcome } from '../../../src/emulator/webhooks/sender.ts'
import { DEFAULTS, type WebhookConfig } from '../../../src/emulator/webhooks/webhook-configs.ts'
import { World } from '../../../src/emulator/world/world.ts'
import { makeTime } from '../passing-clock.ts'

const NOON = Date.parse('2026-03-01T12:00:00Z') * 1000
const OK: AttemptOutcome = { acknowledged: true, status: 200, error: null, final: false }
const FAILED: AttemptOutcome = { acknowledged: false, status: 500, error: 'answered 500', final: false }

function open({ faults = '', seed = '1' } = {}) {
  const time = makeTime(NOON)
  const service = new ServiceClock(time.clock, 1)
  const timeline = new Timeline(service, time.clock)
  const sizes = { patients: 3, forms: 3, packets: 1, documents: 1, responses: 12 }
  const world = new World(['steps'], sizes, { patients: [], forms: [], surveys: [] }, service, timeline)
  const subjects = new Subjects(world)
  const [log, work, stop] = [new AttemptLog(), new Work(), new AbortController()]
  setMaxListeners(0, stop.signal)
  const here = {
    ...{ time, world, subjects, stop, work },
    outcome: OK,
    /** Ends the answers of requests that hang. */
    hanging: undefined as (() => void)[] | undefined,
    /** A field of each record that was sent, with the number of its event. */
    sent: [] as string[],
    inFlight: 0,
    most: 0,
  }
  const events: string[] = []
  const sender = {
    close: async () => {},
    async post(_url: string, body: Buffer): Promise<AttemptOutcome> {
      const { id, source, data } = JSON.parse(body.toString())
      if (!events.includes(id)) events.push(id)
      here.sent.push(`${events.indexOf(id) + 1} ${source} ${data.city ?? data.form_index ?? data.name}`)
      here.inFlight += 1
      here.most = Math.max(here.most, here.inFlight)
      await new Promise<void>((resolve) =>
        here.hanging === undefined ? setImmediate(resolve) : here.hanging.push(resolve),
      )
      here.inFlight -= 1
      return here.outcome
    },
  }
  const settings = {
    faults: parseFaults(faults),
    seed,
    shape: shapeNamed('default', '1'),
  } as unknown as Settings
  const config = {
    id: 'c',
    target_url: '/',
    signature_secret: 's',
    version: '',
    ...DEFAULTS,
  } as WebhookConfig
  const context = {
    ...{ world, settings, sender, subjects, log, work },
    ...{ clock: time.clock, closing: stop.signal },
  }
  const channel = new Channel(context, config)
  world.subscribe((event) => {
    subjects.note(event)
    if (event.source !== 'message') channel.offer(event)
  })
  const patient = world.patients.at(1)!
  return Object.assign(here, {
    ...{ channel, config },
    move: (city: string) => world.patients.update(patient.id, (old) => ({ ...old, city })),
    create: (city: string) => world.patients.create((id) => ({ ...patient, id, city })),
    step: (form_index: number) =>
      world.packetResponses.update(world.packetResponses.at(0)!.id, (old) => ({ ...old, form_index })),
    answerAll: () => here.hanging?.splice(0).forEach((end) => void end()),
    /** True if the patient is stored for an event that is still to be sent. */
    isRetained() {
      const own = { ...patient, city: 'asked' }
      const subject = subjects.retain('patient', own)
      const known = subject.last !== own
      subjects.release(subject)
      return known
    },
  })
}

describe('the record of an event', () => {
  it('is kept while the event waits for a retry, so that its last state is sent even after it is deleted', async () => {
    const here = open()
    here.outcome = FAILED
    here.move('Ulm')
    await here.time.pass(0)
    await here.time.pass(5000)
    expect(here.isRetained()).toBe(true)
    here.move('Bonn')
    here.outcome = OK
    await here.time.pass(0)
    here.world.patients.remove(here.world.patients.at(1)!.id)
    await here.time.pass(0)
    await here.time.pass(30_000)
    expect(here.sent).toEqual(
      ['Ulm', 'Ulm', 'Bonn', 'Bonn', 'Bonn'].map((city, at) => `${[1, 1, 2, 3, 1][at]} patient ${city}`),
    )
    expect([here.isRetained(), here.channel.retrying, here.work.pending]).toEqual([false, 0, 0])
  })

  it.each([
    ['that was sent', 'ok', []],
    ['whose retries were given up', 'failed', [5000, 30_000, 120_000, 600_000, 3_600_000]],
    ['whose retries were dropped', 'failed', ['drop']],
    ['whose retries were dropped after one of them', 'failed', [5000, 'drop']],
    ['of a disabled configuration', 'failed', ['off']],
  ] as const)('is not kept after an event %s', async (_title, outcome, steps) => {
    const here = open()
    here.outcome = outcome === 'ok' ? OK : FAILED
    for (const city of ['Ulm', 'Bonn', 'Kiel']) {
      here.move(city)
      await here.time.pass(0)
    }
    expect([here.isRetained(), here.channel.retrying]).toEqual(outcome === 'ok' ? [false, 0] : [true, 3])
    for (const step of steps) {
      if (step === 'drop') here.channel.drop()
      else if (step === 'off') here.channel.reconfigure({ ...here.config, is_active: false })
      else await here.time.pass(step)
    }
    expect([here.isRetained(), here.channel.retrying, here.work.pending]).toEqual([false, 0, 0])
  })
})

it('at most eight requests are in flight, including those that resend an acknowledged event', async () => {
  const here = open({ faults: 'webhook-rerender=100' })
  for (let nth = 0; nth < 12; nth += 1) here.create(`${nth}`)
  await here.time.pass(0)
  here.hanging = []
  await here.time.pass(100)
  expect([here.sent.length, here.inFlight]).toEqual([20, 8])
  here.answerAll()
  await here.time.settled()
  here.answerAll()
  await here.time.settled()
  expect([here.sent.length, here.inFlight, here.most, here.work.pending]).toEqual([24, 0, 8, 0])
})

it('a waiting event of a packet absorbs the next one, even if an event from before a drop waited first', async () => {
  const here = open()
  here.hanging = []
  for (let nth = 0; nth < 8; nth += 1) here.create(`${nth}`)
  await here.time.settled()
  here.step(1)
  here.channel.drop()
  for (let nth = 8; nth < 16; nth += 1) here.create(`${nth}`)
  here.step(2)
  here.answerAll()
  await here.time.settled()
  here.step(3)
  for (let left = 3; left > 0; left -= 1) {
    here.answerAll()
    await here.time.settled()
  }
  expect(here.sent.filter((text) => text.includes('packet'))).toEqual(['17 packet_response 3'])
})

it('with the same configuration id, the seed decides which events a fault loses', async () => {
  const survivors = async (seed: string) => {
    const here = open({ faults: 'webhook-drop=0.5', seed })
    for (let nth = 0; nth < 40; nth += 1) here.create(`${nth}`)
    await here.time.settled()
    return here.sent.map((text) => text.split(' ')[2])
  }
  const first = await survivors('1')
  expect(await survivors('1')).toEqual(first)
  expect(await survivors('2')).not.toEqual(first)
})

it('an event that was delayed until the next one leaves no listener behind', async () => {
  const here = open({ faults: 'webhook-reorder' })
  const waiting = () => getEventListeners(here.stop.signal, 'abort').length
  for (let nth = 0; nth < 3; nth += 1) {
    here.create('a')
    await here.time.settled()
    expect(waiting()).toBeGreaterThan(0)
    here.create('b')
    await here.time.settled()
    here.create('alone')
    await here.time.pass(1000)
    expect([waiting(), here.work.pending]).toEqual([0, 0])
  }
})
