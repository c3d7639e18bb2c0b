/**
 * Where a record came from: the states, events, dead letters and refetches that `explain` finds.
 *
 * Invariant: names of fields, hashes, times and origins; the payloads and changed values that `explain` returns stay here.
 */
import type { FastifyInstance } from 'fastify'
import { type Explained, explain } from '../../operate/explain/explain.ts'
import { ALL_STREAMS } from '../../streams/catalogue.ts'
import { readTeams } from '../../warehouse/teams.ts'
import { Refusal } from '../access.ts'
import type { Shared } from '../shared.ts'

export function serveRecords(app: FastifyInstance, { options, readings, show }: Shared): void {
  app.get('/records', { config: { role: 'viewer' } }, async (request, reply) => {
    const { team = '', stream = '', id = '' } = request.query as Readonly<Record<string, string>>
    const teams = (await readings.look(readTeams)).filter(({ isRemoved }) => !isRemoved)
    const asked = { team, stream, id: String(id) }
    const data = { asked, teams, streams: ALL_STREAMS.map(({ name }) => name), found: null, why: null }
    const page = { view: 'record', title: 'Record' }
    if (asked.id === '') return show(request, reply, { ...page, data })
    const known = teams.find(({ name }) => name === team)
    const declared = ALL_STREAMS.find(({ name }) => name === stream)
    if (known === undefined || declared === undefined)
      throw new Refusal(404, 'there is no such team or stream')
    const version = options.teams.find(({ name }) => name === team)?.apiVersion ?? 'v2.1'
    try {
      const key = { teamId: known.teamId, stream: declared, id: asked.id }
      const found = withoutValues(await explain(options.url, key, version))
      return show(request, reply, { ...page, data: { ...data, found } })
    } catch (error) {
      const { code, message } = error as { code?: string; message?: string }
      if (code !== 'unknown_record' && code !== 'erased') throw error
      return show(request, reply, { ...page, status: 404, data: { ...data, why: message } })
    }
  })
}

function withoutValues({ states, events, deadLetters, refetch, runs }: Explained) {
  return {
    states: states
      .toReversed()
      .map(({ version, observedAt, deleted, hash, origin, supersededAt, wonBy, changes }) => {
        const run = runs.get(Number(/^run:(\d+)\b/.exec(origin)?.[1] ?? 0)) ?? null
        const fields = changes.map(({ field, kind }) => (kind === 'changed' ? field : `${field} (${kind})`))
        return { version, observedAt, deleted, hash, origin, supersededAt, wonBy, fields, run }
      }),
    events: events.map(({ eventId, eventType, receivedAt, status, version, outcome }) => {
      return { eventId, eventType, receivedAt, status, version, outcome }
    }),
    deadLetters: deadLetters.map(({ id, status, seen, last_seen_at, reason }) => {
      return { id, status, seen, last_seen_at, reason }
    }),
    refetch:
      refetch === null
        ? null
        : { reason: refetch.reason, due_at: refetch.due_at, attempts: refetch.attempts },
  }
}
