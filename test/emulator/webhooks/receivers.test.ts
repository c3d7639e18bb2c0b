import { describe, expect, it, vi } from 'vitest'
import { Subjects } from '../../../src/emulator/webhooks/envelope.ts'
import { startOwnTime } from '../../support/own-time.ts'
import { callerOf } from '../caller.ts'
import { answering, startReceiver } from '../receiver.ts'
import { webhookScene } from './scene.ts'

const { attempts, here, idle, newPatient, start, subscribe } = webhookScene()

describe('a receiver', () => {
  it('that is slow delays no other configuration, and gets at most eight at once', async () => {
    await start({ webhookTimeoutMs: 600_000 })
    await using slow = await startReceiver()
    slow.answer = () => undefined
    await subscribe({ target_url: slow.url })
    await subscribe()
    for (let at = 0; at < 30; at += 1) newPatient()
    await expect.poll(() => here.receiver.deliveries.length).toBe(30)
    await expect.poll(() => slow.deliveries.length).toBe(8)
    // Thirty of the slow one: a delivery is pending until its answer was read.
    await expect.poll(() => here.emulator.control.webhooks().pending).toBe(30)
    expect(slow.deliveries).toHaveLength(8)
    expect(slow.connections).toBe(8)
  })

  it('gets 2,000 events in the order of the changes, over a few connections, and none is lost', async () => {
    await start()
    await subscribe()
    const ids = Array.from({ length: 2000 }, () => newPatient().id)
    await idle()
    const came = here.receiver.deliveries.map(({ event }) => event.data.id)
    expect(new Set(came)).toEqual(new Set(ids))
    expect(came).toHaveLength(2000)
    // Eight are sent at once, and one of them may be overtaken by any number: whenever one arrives, all before it but
    // the seven others in flight have arrived.
    const missing = new Set(ids.keys())
    for (const id of came) {
      const number = ids.indexOf(id)
      missing.delete(number)
      expect([...missing].slice(0, 8).filter((other) => other < number).length).toBeLessThan(8)
    }
    expect(here.receiver.connections).toBeLessThanOrEqual(8)
  })

  it('that never ends its answer is judged by its status', async () => {
    await start()
    here.receiver.answer = (reply) => {
      reply.writeHead(200)
      const more = () => {
        while (!reply.destroyed && reply.write(Buffer.alloc(65_536)));
      }
      reply.on('drain', more)
      more()
    }
    await subscribe()
    newPatient()
    using time = startOwnTime()
    await idle()
    expect(time.milliseconds).toBeLessThan(5000)
    expect(await attempts()).toMatchObject([{ status: 'succeeded' }])
  })

  it('gets nothing once the emulator has ended, even with events of several teams in flight', async () => {
    await start({ webhookTimeoutMs: 600_000 })
    here.receiver.answer = () => undefined
    await subscribe()
    const { name } = here.emulator.environments[1]!.teams[1]!
    const target_url = here.receiver.url
    await callerOf(here.emulator, 1, 1).send('POST', '/v2/webhooks', { target_url, sources: ['form'] })
    here.emulator.control.addForm({ name: 'F' }, name)
    await expect.poll(() => here.receiver.deliveries.length).toBe(1)
    for (let at = 0; at < 20; at += 1) newPatient()
    await expect.poll(() => here.receiver.deliveries.length).toBe(9)
    using time = startOwnTime()
    await here.emulator.close()
    expect(time.milliseconds).toBeLessThan(1000)
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect(here.receiver.deliveries).toHaveLength(9)
    const pending = [here.emulator.control.webhooks(), here.emulator.control.webhooks(name)]
    await Promise.all(pending.map((each) => each.idle()))
  })
})

describe('a configuration', () => {
  it('that is deleted gets no more events, retries or queued events', async () => {
    await start()
    here.receiver.answer = answering(500)
    const { id } = await subscribe()
    newPatient()
    await idle()
    const open: (() => void)[] = []
    here.receiver.answer = (reply) => void open.push(() => reply.writeHead(500).end())
    for (let at = 0; at < 12; at += 1) newPatient()
    await expect.poll(() => open.length).toBe(8)
    expect((await here.caller.send('DELETE', `/v2/webhooks/${id}`)).status).toBe(204)
    for (const finish of open) finish()
    newPatient()
    await idle()
    here.emulator.control.advance(10_000_000)
    await new Promise((resolve) => setTimeout(resolve, 30))
    expect(here.receiver.deliveries).toHaveLength(9)
    expect(here.emulator.control.webhooks()).toMatchObject({ pending: 0, retrying: 0 })
    expect((await attempts()).map(({ next_retry_at }) => next_retry_at === null)).toEqual([
      false,
      ...Array(8).fill(true),
    ])
  })

  it('that is disabled loses events of that time, and those that waited for a retry', async () => {
    await start()
    here.receiver.answer = answering(500)
    const { id } = await subscribe()
    newPatient()
    await idle()
    await here.caller.send('PATCH', `/v2/webhooks/${id}`, { is_active: false })
    newPatient()
    here.receiver.answer = answering(200)
    await here.caller.send('PATCH', `/v2/webhooks/${id}`, { is_active: true })
    here.emulator.control.advance(10_000)
    const last = newPatient()
    await idle()
    expect(here.receiver.deliveries.map(({ event }) => event.data.id).slice(1)).toEqual([last.id])
  })

  it('gets events although another one was deleted before', async () => {
    await start()
    const { id } = await subscribe()
    await here.caller.send('DELETE', `/v2/webhooks/${id}`)
    await subscribe()
    newPatient()
    await idle()
    expect(here.receiver.deliveries).toHaveLength(1)
  })

  it('retains no record without an unsent event', async () => {
    const [retained, released] = [
      vi.spyOn(Subjects.prototype, 'retain'),
      vi.spyOn(Subjects.prototype, 'release'),
    ]
    await start({ faults: 'webhook-duplicate=0.5,webhook-rerender=0.5:1' })
    here.receiver.answer = (reply) =>
      void reply.writeHead(here.receiver.deliveries.length % 2 === 0 ? 200 : 500).end()
    const { id } = await subscribe()
    for (let at = 0; at < 20; at += 1) newPatient()
    await idle()
    here.emulator.control.advance(5000)
    await expect.poll(() => here.emulator.control.webhooks().pending).toBe(0)
    await here.caller.send('POST', '/v2/webhooks/events/test', { id })
    for (let at = 0; at < 20; at += 1) newPatient()
    await here.caller.send('DELETE', `/v2/webhooks/${id}`)
    await idle()
    expect(retained.mock.calls.length).toBeGreaterThan(40)
    expect(released).toHaveBeenCalledTimes(retained.mock.calls.length)
    vi.restoreAllMocks()
  })

  it('whose address changes gets its retries at the new address', async () => {
    await start()
    here.receiver.answer = answering(500)
    const { id } = await subscribe()
    newPatient()
    await idle()
    await here.caller.send('PATCH', `/v2/webhooks/${id}`, { target_url: `${here.receiver.url}/new` })
    here.emulator.control.advance(5000)
    await expect
      .poll(() => here.receiver.deliveries.map(({ path }) => path))
      .toEqual(['/hooks', '/hooks/new'])
  })
})
