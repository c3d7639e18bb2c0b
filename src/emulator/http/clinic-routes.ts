/**
 * `/_control`: actions of clients and staff that the service has no API for, and the clock. Not part of the service:
 * it requires no credentials; the emulator listens on loopback only.
 *
 * Invariant: a refused action changes nothing and is answered 400 with the reason. `?team=` selects a team; the
 * default is the first of production.
 */
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Control } from '../control.ts'
import type { Staff } from '../world/clinic-staff.ts'
import { readObject } from './resources/messages.ts'
import { showPacketResponse, showResponse } from './resources/show.ts'

type StaffAction = (
  staff: Staff,
  id: string,
  body: Readonly<Record<string, unknown>>,
  control: Control,
) => unknown

const RESPONSE_ACTS: Readonly<Record<string, StaffAction>> = {
  answers: (staff, id, { answers }) => staff.answer(id, objectOrNothing(answers, 'answers')),
  submit: (staff, id) => staff.submit(id),
  archive: (staff, id) => staff.archive(id),
}

const PACKET_ACTS: Readonly<Record<string, StaffAction>> = {
  advance: (staff, id) => staff.advancePacket(id),
  submit: (staff, id, { skip = [] }) => {
    if (!Array.isArray(skip)) throw new RangeError('skip must be a list of positions, counted from 1')
    return staff.submitPacket(id, skip as number[])
  },
  archive: (staff, id) => staff.archivePacket(id),
}

export function addClinicRoutes(app: FastifyInstance, control: Control): void {
  const showing = (team: string | undefined) => ({
    world: control.world(team),
    version: 'v2.1',
    nestedForms: false,
  })
  const route = (
    method: 'GET' | 'POST' | 'DELETE',
    url: string,
    run: (request: FastifyRequest, team: string | undefined) => unknown,
  ) =>
    app.route({
      method,
      url: `/_control/${url}`,
      handler: async (request, reply) => {
        try {
          return run(request, (request.query as { team?: string }).team) ?? {}
        } catch (error) {
          if (!(error instanceof RangeError)) throw error
          return reply.code(400).send({ detail: error.message })
        }
      },
    })
  for (const [name, act] of Object.entries(RESPONSE_ACTS)) {
    route('POST', `responses/:id/${name}`, (request, team) => {
      act(control.staff(team), idOf(request), bodyOf(request), control)
      return showResponse(control.world(team).responses.get(idOf(request))!, showing(team))
    })
  }
  route('DELETE', 'responses/:id', (request, team) => control.staff(team).remove(idOf(request)))
  for (const [name, act] of Object.entries(PACKET_ACTS)) {
    route('POST', `packet-responses/:id/${name}`, (request, team) => {
      act(control.staff(team), idOf(request), bodyOf(request), control)
      return showPacketResponse(control.world(team).packetResponses.get(idOf(request))!, showing(team))
    })
  }
  route('GET', 'packet-responses', (_request, team) => {
    const { packetResponses } = control.world(team)
    const newest = packetResponses.slice(0, 1000, true)
    return {
      count: packetResponses.size,
      results: newest.map((one) => showPacketResponse(one, showing(team))),
    }
  })
  route('POST', 'clock', (request) => {
    const { advance_seconds: seconds } = bodyOf(request)
    if (typeof seconds !== 'number' || !(seconds >= 0))
      throw new RangeError('advance_seconds must be a number of 0 or more')
    control.advance(seconds * 1000)
    return { now: control.world().now() }
  })
}

function idOf(request: FastifyRequest): string {
  return (request.params as { id: string }).id
}

/** The object of a request's body; an empty body is an empty object. */
function bodyOf({ body }: FastifyRequest): Readonly<Record<string, unknown>> {
  if (!Buffer.isBuffer(body) || body.length === 0) return {}
  const read = readObject(body)
  if (read === undefined) throw new RangeError('the body must be a JSON object')
  return read
}

function objectOrNothing(value: unknown, name: string): Readonly<Record<string, unknown>> | undefined {
  if (value === undefined) return undefined
  if (typeof value === 'object' && value !== null && !Array.isArray(value))
    return value as Record<string, unknown>
  throw new RangeError(`${name} must be an object with question ids as keys`)
}
