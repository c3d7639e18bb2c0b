/** What a configuration gets after it was changed, and what is sent again and what is not. */
import { describe, expect, it } from 'vitest'
import { type Clock, wallClock } from '../../../src/emulator/clock.ts'
import { AttemptLog, type AttemptRecord, Work } from '../../../src/emulator/webhooks/attempt.ts'
import type { Loose } from '../caller.ts'
import { answering } from '../receiver.ts'
import { webhookScene } from './scene.ts'

const { attempts, here, idle, newPatient, start, subscribe, delivered } = webhookScene()
const configure = (id: string, fields: object) => here.caller.send('PATCH', `/v2/webhooks/${id}`, fields)

/** Sends the retries that are due after `seconds`, and waits for their answers. */
async function passed(seconds: number, deliveries: number): Promise<void> {
  here.emulator.control.advance(seconds * 1000)
  await expect.poll(() => here.receiver.deliveries.length).toBeGreaterThanOrEqual(deliveries)
  await idle()
}

describe('a fault of the first attempt', () => {
  it('is none of its retries: they are neither delayed, forged nor doubled', async () => {
    const waits: number[] = []
    const sleep: Clock['sleep'] = (milliseconds, signal) => {
      if (milliseconds !== 7777) return wallClock.sleep(milliseconds, signal)
      waits.push(milliseconds)
      return Promise.resolve()
    }
    await start({
      clock: { ...wallClock, sleep },
      faults: 'webhook-delay=7777,webhook-forge,webhook-duplicate',
    })
    here.receiver.answer = answering(500)
    await subscribe()
    newPatient()
    await idle()
    expect([here.receiver.deliveries.length, waits]).toEqual([3, [7777]])
    await passed(5, 4)
    await passed(30, 5)
    expect([here.receiver.deliveries.length, waits]).toEqual([5, [7777]])
    expect((await attempts()).map((one) => one.attempts).toSorted()).toEqual([1, 2, 3, 4])
  })
})

it('a forged record keeps its ids and its times, and no other text', async () => {
  await start({ faults: 'webhook-forge', responses: 40 })
  await subscribe({ sources: ['response'] })
  const { responses } = here.emulator.control.world()
  const { id } = responses.slice(0, 40).find((one) => one.form !== null && !one.is_archived)!
  here.emulator.control.staff().archive(id)
  await idle()
  const [forged, genuine] = here.receiver.deliveries.map(({ event }) => event.data) as [Loose, Loose]
  const { form_id, created_at, updated_at, submitted_at } = genuine
  expect(typeof form_id).toBe('string')
  expect(forged).toEqual({
    ...{ ...genuine, form_name: 'forged' },
    ...{ id, form_id, created_at, updated_at, submitted_at },
  })
})

describe('a configuration', () => {
  it('that a fault disabled counts its events anew after it was written', async () => {
    await start({ faults: 'webhook-off=2' })
    const { id } = await subscribe()
    for (const total of [2, 4]) {
      for (let nth = 0; nth < 4; nth += 1) newPatient()
      await idle()
      expect(here.receiver.deliveries).toHaveLength(total)
      await configure(id, {})
    }
  })

  it('that a fault disables while its events are on their way tries none of them again', async () => {
    await start({ faults: 'webhook-off=2' })
    await subscribe()
    const open: (() => void)[] = []
    here.receiver.answer = (reply) => void open.push(() => reply.writeHead(500).end())
    for (let nth = 0; nth < 2; nth += 1) newPatient()
    await expect.poll(() => open.length).toBe(2)
    newPatient()
    for (const finish of open) finish()
    await idle()
    expect(here.emulator.control.webhooks().retrying).toBe(0)
    expect((await attempts()).map(({ next_retry_at }) => next_retry_at)).toEqual([null, null])
  })

  it('that was disabled gets the next change of a packet, although one before it was never sent', async () => {
    await start()
    const { id } = await subscribe()
    const open: (() => void)[] = []
    here.receiver.answer = (reply) => void open.push(() => reply.writeHead(200).end())
    for (let nth = 0; nth < 8; nth += 1) newPatient()
    await expect.poll(() => open.length).toBe(8)
    const { packetResponses } = here.emulator.control.world()
    const step = (form_index: number) =>
      packetResponses.update(packetResponses.at(0)!.id, (old) => ({ ...old, form_index }))
    step(1)
    await configure(id, { is_active: false })
    await configure(id, { is_active: true })
    step(2)
    here.receiver.answer = answering(200)
    for (const finish of open) finish()
    await idle()
    expect(delivered().slice(8)).toEqual(['packet_response updated'])
    expect(here.receiver.deliveries[8]!.event.data.form_index).toBe(2)
  })

  it('gets an event of its own for each step of a packet, where the one before waits for a retry', async () => {
    await start()
    await subscribe({ sources: ['packet_response'] })
    here.receiver.answer = answering(500)
    const { packetResponses } = here.emulator.control.world()
    const { id } = packetResponses.at(0)!
    for (const form_index of [1, 2]) {
      packetResponses.update(id, (old) => ({ ...old, form_index }))
      await idle()
    }
    const events = here.receiver.deliveries.map(({ event }) => event)
    expect(events.map(({ data }) => data.form_index)).toEqual([1, 2])
    expect(new Set(events.map((event) => event.id)).size).toBe(2)
    expect(here.emulator.control.webhooks().retrying).toBe(2)
  })

  it('loses other events than the next one to the same fault', async () => {
    await start({ faults: 'webhook-drop=0.5' })
    for (const path of ['one', 'other']) await subscribe({ target_url: `${here.receiver.url}/${path}` })
    for (let nth = 0; nth < 30; nth += 1) newPatient()
    await idle()
    const sent = (path: string) =>
      here.receiver.deliveries.filter((one) => one.path.endsWith(path)).map(({ event }) => event.data.id)
    expect(sent('one').length).toBeGreaterThan(3)
    expect(sent('one').toSorted()).not.toEqual(sent('other').toSorted())
  })

  it('is tested with an update where its source is the progress of a packet', async () => {
    await start()
    const { id } = await subscribe({ sources: ['packet_response'] })
    await here.caller.send('POST', '/v2/webhooks/events/test', { id })
    const [{ event }] = here.receiver.deliveries as [Loose]
    expect([event.source, event.event_type]).toEqual(['packet_response', 'updated'])
    expect(event.data.packet.forms[0].questions.length).toBeGreaterThan(0)
  })
})

it('work is over when nothing is pending, also where more begins at the moment when the last ends', async () => {
  const work = new Work()
  let over = 0
  work.begin()
  const all = [work.idle(), work.idle()].map((idle) => idle.then(() => (over += 1)))
  work.end()
  work.begin()
  await new Promise(setImmediate)
  expect([over, work.pending]).toEqual([0, 1])
  work.end()
  await Promise.all(all)
  await work.idle()
  expect([over, work.pending]).toEqual([2, 0])
})

it('the log of attempts is read from either end', () => {
  const log = new AttemptLog()
  for (let attempts = 1; attempts <= 5; attempts += 1) log.add({ attempts } as AttemptRecord)
  const read = (position: number, newestFirst: boolean) =>
    log
      .listing(({ attempts }) => attempts !== 2)
      .slice(position, 2, newestFirst)
      .map((one) => one.attempts)
  expect([read(0, false), read(1, false), read(0, true), read(1, true)]).toEqual([
    [1, 3],
    [3, 4],
    [5, 4],
    [4, 3],
  ])
})
