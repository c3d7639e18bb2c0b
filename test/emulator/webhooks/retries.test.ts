import { describe, expect, it } from 'vitest'
import { startOwnTime } from '../../support/own-time.ts'
import type { Loose } from '../caller.ts'
import { answering, startReceiver } from '../receiver.ts'
import { stillClock } from '../still-clock.ts'
import { webhookScene } from './scene.ts'

const { attempts, here, idle, newPatient, start, subscribe, delivered } = webhookScene()

describe('a failed event', () => {
  const WAITS = [5, 30, 120, 600, 3600]

  it('is tried again after 5 s, 30 s, 2 min, 10 min and 1 h, and then given up', async () => {
    await start({ clock: stillClock })
    here.receiver.answer = answering(500)
    await subscribe()
    newPatient()
    await idle()
    for (const [at, wait] of WAITS.entries()) {
      here.emulator.control.advance((wait - 1) * 1000)
      await new Promise((resolve) => setTimeout(resolve, 20))
      await idle()
      expect(here.receiver.deliveries).toHaveLength(at + 1)
      expect(here.emulator.control.webhooks()).toMatchObject({ pending: 0, retrying: 1 })
      here.emulator.control.advance(1000)
      await expect.poll(() => here.receiver.deliveries.length).toBe(at + 2)
      await idle()
    }
    expect(here.emulator.control.webhooks()).toMatchObject({ pending: 0, retrying: 0 })
    here.emulator.control.advance(100 * 3_600_000)
    await new Promise((resolve) => setTimeout(resolve, 30))
    expect(here.receiver.deliveries).toHaveLength(6)
    expect(new Set(here.receiver.deliveries.map(({ event }) => event.id + event.timestamp)).size).toBe(1)
    const records = await attempts()
    expect(records.map((one) => one.attempts)).toEqual([1, 2, 3, 4, 5, 6])
    for (const [at, wait] of WAITS.entries()) {
      const { created_at, next_retry_at } = records[at]
      expect((Date.parse(next_retry_at) - Date.parse(created_at)) / 1000).toBeCloseTo(wait, 1)
    }
    expect(records[5]).toMatchObject({ next_retry_at: null, response_status_code: 500, status: 'failed' })
  })

  it('is counted with those of all configurations of its team, over HTTP too', async () => {
    await start({ clock: stillClock })
    here.receiver.answer = answering(500)
    const other = here.emulator.environments[1]!.teams[1]!.name
    for (const path of ['one', 'two', 'three'])
      await subscribe({
        target_url: `${here.receiver.url}/${path}`,
        ...(path === 'two' ? { sources: ['form'] } : {}),
      })
    for (let nth = 0; nth < 2; nth += 1) newPatient()
    here.emulator.control.addForm({ name: 'F' })
    await idle()
    const counts = async (query = '') => (await here.caller.get(`/_control/webhooks${query}`, {})).body
    expect(here.emulator.control.webhooks()).toMatchObject({ pending: 0, retrying: 7 })
    expect([await counts(), await counts(`?team=${encodeURIComponent(other)}`)]).toEqual([
      { pending: 0, retrying: 7 },
      { pending: 0, retrying: 0 },
    ])
  })

  it('comes sooner when the clock runs faster', async () => {
    await start({ timeScale: 100 })
    here.receiver.answer = answering(503)
    await subscribe()
    newPatient()
    await expect.poll(() => here.receiver.deliveries.length).toBeGreaterThanOrEqual(3)
    const [first, second, third] = here.receiver.deliveries as [Loose, Loose, Loose]
    expect(second.at - first.at).toBeGreaterThan(45)
    expect(third.at - second.at).toBeGreaterThan(295)
  })

  it('contains the state at its next attempt, or the last one before the record was deleted', async () => {
    await start({ clock: stillClock })
    here.receiver.answer = answering(500)
    await subscribe({ event_types: ['updated', 'deleted'] })
    const { control } = here.emulator
    const { id } = newPatient()
    control.updatePatient(id, { city: 'Ulm' })
    await idle()
    control.updatePatient(id, { city: 'Bonn' })
    control.advance(5000)
    await expect.poll(() => here.receiver.deliveries.length).toBe(3)
    await idle()
    const seen = () => here.receiver.deliveries.map(({ event }) => event.data.city)
    expect(seen()).toEqual(['Ulm', 'Bonn', 'Bonn'])
    control.deletePatient(id)
    await idle()
    here.receiver.answer = answering(200)
    control.advance(30_000)
    await expect.poll(() => here.receiver.deliveries.length).toBe(7)
    await idle()
    expect(seen()).toEqual(['Ulm', 'Bonn', 'Bonn', 'Bonn', 'Bonn', 'Bonn', 'Bonn'])
    expect(delivered().filter((what) => what === 'patient deleted')).toHaveLength(2)
  })

  it.each([
    [404, 'answered 404'],
    [300, 'answered 300'],
    [302, 'answered 302'],
    [500, 'answered 500'],
  ])('includes one that was answered %i; no redirect is followed', async (status, error) => {
    await start()
    here.receiver.answer = (reply) =>
      reply.writeHead(status, { location: `${here.receiver.url}/elsewhere` }).end()
    const { id } = await subscribe()
    newPatient()
    await idle()
    expect(here.receiver.deliveries).toHaveLength(1)
    expect(await attempts()).toMatchObject([
      { webhook_config: id, status: 'failed', response_status_code: status, error },
    ])
  })

  it.each([200, 201, 202, 204, 299])('does not include one that was answered %i', async (status) => {
    await start()
    here.receiver.answer = answering(status)
    await subscribe()
    newPatient()
    await idle()
    expect(await attempts()).toMatchObject([
      { status: 'succeeded', response_status_code: status, error: null, next_retry_at: null },
    ])
    expect(here.emulator.control.webhooks().retrying).toBe(0)
  })

  it('includes one whose receiver takes too long', async () => {
    await start({ webhookTimeoutMs: 100 })
    here.receiver.answer = () => undefined
    await subscribe()
    newPatient()
    using time = startOwnTime()
    await idle()
    expect(time.milliseconds).toBeLessThan(5000)
    expect(await attempts()).toMatchObject([{ error: 'timeout', response_status_code: null }])
  })

  it('includes one whose receiver hangs up or is gone', async () => {
    await start()
    here.receiver.answer = (reply) => reply.destroy()
    await subscribe()
    newPatient()
    await idle()
    await here.receiver.close()
    newPatient()
    await idle()
    here.receiver = await startReceiver()
    expect(await attempts()).toMatchObject([
      { error: 'connection reset', response_status_code: null },
      { error: 'connection refused', response_status_code: null },
    ])
  })

  it('does not include one whose receiver acknowledged and then never ended its answer', async () => {
    await start({ webhookTimeoutMs: 2500 })
    here.receiver.answer = (reply) => reply.writeHead(200).write('…')
    await subscribe()
    newPatient()
    await idle()
    expect(await attempts()).toMatchObject([{ status: 'succeeded', response_status_code: 200 }])
  })
})
