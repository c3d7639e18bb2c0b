/**
 * The emulator's world and handlers, without sockets: each answer is rendered at one time of the scheduler.
 *
 * Invariant: answers are those of the emulator's handlers; nothing changes in this service on its own except by its
 * timeline.
 */
import { ServiceClock, Timeline } from '../../src/emulator/clock.ts'
import type { Call, Handler, Route, Team } from '../../src/emulator/http/call.ts'
import { render } from '../../src/emulator/http/render.ts'
import { FORM_ROUTES } from '../../src/emulator/http/resources/forms.ts'
import { MESSAGE_ROUTES } from '../../src/emulator/http/resources/messages.ts'
import { PATIENT_ROUTES } from '../../src/emulator/http/resources/patients.ts'
import { RESPONSE_ROUTES } from '../../src/emulator/http/resources/responses.ts'
import { shapeNamed } from '../../src/emulator/shapes/catalogue.ts'
import type { Shape } from '../../src/emulator/shapes/shape.ts'
import type { Sizes } from '../../src/emulator/world/seeded/seed.ts'
import type { Row, Table } from '../../src/emulator/world/table.ts'
import { World } from '../../src/emulator/world/world.ts'
import type { Scheduler } from './scheduler.ts'

export const ORIGIN = 'http://service.simulated'
export const VERSION = 'v2.1'

const ROUTES: readonly Route[] = [...PATIENT_ROUTES, ...FORM_ROUTES, ...RESPONSE_ROUTES, ...MESSAGE_ROUTES]

export interface ServiceAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

export interface Service {
  readonly world: World
  readonly shape: Shape
  /** GET of a path and query, now. */
  answer(target: string): Promise<ServiceAnswer>
}

export function openService(
  scheduler: Scheduler,
  options: { seed: number; place: number; sizes: Sizes; pageSize: number; skewMicros: number },
): Service {
  // The emulator keeps waiting for a withdrawn call, where ours rejects.
  const ours = scheduler.clockOf(null)
  const real = {
    now: ours.now,
    sleep: (ms: number, signal?: AbortSignal) => ours.sleep(ms, signal).catch(() => {}),
  }
  const clock = new ServiceClock(real, 1)
  clock.skew = options.skewMicros
  const world = new World(
    [options.seed, 'simulated', 0],
    options.sizes,
    { patients: [], forms: [], surveys: [] },
    clock,
    new Timeline(clock, real),
  )
  differ(world, options.place)
  const shape = shapeNamed('default', String(options.seed))

  async function answer(target: string): Promise<ServiceAnswer> {
    const [path = '', query = ''] = target.split('?')
    const { handler, params } = handlerOf(path)
    const call: Call = {
      team: { world } as Team,
      world,
      method: 'GET',
      origin: ORIGIN,
      elsewhere: 'http://127.0.0.1:9',
      path,
      query: new URLSearchParams(query),
      params,
      headers: {},
      body: Buffer.alloc(0),
      version: VERSION,
      defaultPageSize: options.pageSize,
      shape,
      faults: new Map(),
    }
    const given = await handler(call)
    if (given.type === 'export') throw new Error('exports are not simulated')
    const { status, headers, body } = render(given, shape)
    return { status, body, headers: { ...headers, date: new Date(clock.now() / 1000).toUTCString() } }
  }
  return { world, shape, answer }
}

/** Worlds of one seed have the same ids; from the second team on, every record and its children have different contents. */
function differ(world: World, place: number): void {
  if (place === 0) return
  const renamed = (name: string) => `${name} of ${place}`
  for (const { id } of rowsOf(world.patients))
    world.patients.update(id, (old) => ({
      ...old,
      last_name: renamed(old.last_name),
      emergency_contact: { first_name: renamed('Contact'), relationship: 'parent' },
      patient_tags: [...old.patient_tags, { name: renamed('tag'), color: '#000000' }].slice(-1 - place),
      custom_fields: { ...old.custom_fields, place: renamed('here') },
    }))
  for (const { id } of rowsOf(world.responses))
    world.responses.update(id, (old) => ({
      ...old,
      form_name: renamed(old.form_name ?? ''),
      answers: old.answers.slice(0, -place),
    }))
  for (const { id } of rowsOf(world.forms))
    world.forms.update(id, (old) => ({
      ...old,
      name: renamed(old.name),
      questions: old.questions.slice(0, -place),
    }))
  for (const { id } of rowsOf(world.packets))
    world.packets.update(id, (old) => ({ ...old, name: renamed(old.name) }))
  for (const { id } of rowsOf(world.documents))
    world.documents.update(id, (old) => ({ ...old, name: renamed(old.name) }))
}

function rowsOf<T extends Row>(table: Table<T>): readonly T[] {
  return table.slice(0, table.size)
}

function handlerOf(path: string): { handler: Handler; params: Record<string, string> } {
  for (const route of ROUTES) {
    const [start, rest] = route.path.split(':id')
    const handler = route.methods.GET
    if (handler === undefined) continue
    if (rest === undefined && path === start) return { handler, params: {} }
    if (rest === '' && path.startsWith(start!) && path.length > start!.length)
      return { handler, params: { id: decodeURIComponent(path.slice(start!.length)) } }
  }
  throw new Error('a path that is not simulated')
}
