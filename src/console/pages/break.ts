/**
 * Break it: damage on purpose, the time until it was seen, and the time until it healed. Only where breakages are given, in `demo --stay`.
 *
 * Invariant: each damage is watched until it has healed, or for ten minutes; one of a kind at a time.
 */
import type { FastifyInstance } from 'fastify'
import { warehouseError } from '../../warehouse/sqlstate.ts'
import { Refusal } from '../access.ts'
import type { Breakage, Shared } from '../shared.ts'
import { audit } from './visits.ts'

interface Watched {
  readonly name: string
  readonly title: string
  readonly startedAt: number
  text: string
  state: 'broken' | 'healed' | 'failed'
  /** Until the tables were first seen to differ from the service; null if they were not. */
  seen: number | null
  seconds: number | null
}

const EVERY_MS = 250
const LIMIT_SECONDS = 600
const MAX_WATCHED = 50

export function serveBreaking(app: FastifyInstance, shared: Shared): void {
  const { options, signal, show, readings } = shared
  const { breakages = [], clock } = options
  if (breakages.length === 0) return
  const watched: Watched[] = []
  const secondsOf = ({ startedAt }: Watched) => (clock.now() - startedAt) / 1e6

  app.get('/break', { config: { role: 'viewer' } }, async (request, reply) => {
    const rows = watched.map((each) => ({ ...each, seconds: each.seconds ?? secondsOf(each) }))
    const waits = watched.some(({ state }) => state === 'broken')
    return show(request, reply, {
      view: 'break',
      title: 'Break it',
      waits,
      data: { breakages, watched: rows },
    })
  })

  app.post('/break/:name', { config: { role: 'operator' } }, async (request, reply) => {
    const { name } = request.params as { name: string }
    const breakage = breakages.find((each) => each.name === name)
    if (breakage === undefined) throw new Refusal(404, 'there is nothing of that name to break')
    if (watched.some((each) => each.name === name && each.state === 'broken'))
      throw new Refusal(409, 'it is broken already, and has not healed yet')
    const started: Watched = {
      ...{ name, title: breakage.title, startedAt: clock.now(), text: '', state: 'broken' },
      ...{ seen: null, seconds: null },
    }
    watched.unshift(started)
    watched.splice(MAX_WATCHED)
    try {
      await audit(shared, request.visitor!, { action: 'break', object: name })
    } catch (error) {
      watched.splice(watched.indexOf(started), 1)
      throw error
    }
    void watch(started, breakage)
    return reply.redirect('/break', 303)
  })

  /** Never throws. */
  async function watch(started: Watched, { run }: Breakage): Promise<void> {
    let failure: unknown = null
    try {
      const { text, heal, isHealed } = await run()
      started.text = text
      // A warehouse that is away is part of the damage.
      const isWhole = async () => {
        const healed = await isHealed().catch(() => false)
        if (!healed) started.seen ??= secondsOf(started)
        return healed
      }
      let healed = await isWhole()
      heal().catch((error: unknown) => {
        failure = error
      })
      while (failure === null && !healed) {
        if (secondsOf(started) > LIMIT_SECONDS) throw new Error('late')
        await clock.sleep(EVERY_MS, signal)
        healed = await isWhole()
      }
      if (failure !== null) throw failure
      started.state = 'healed'
    } catch (error) {
      started.state = 'failed'
      started.text ||= warehouseError(error).message
    }
    started.seconds = secondsOf(started)
    readings.forget()
  }
}
