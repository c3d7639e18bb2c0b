/**
 * Control of a running emulator, for tests and rehearsals: in the process, and over HTTP at `/_control`.
 *
 * Invariant: each call has the same effects, stamps and events as the same action over HTTP or by staff; it is never
 * throttled, and no fault applies.
 */
import { readFile } from 'node:fs/promises'
import type { FastifyInstance } from 'fastify'
import { parse } from 'yaml'
import { isStampable, type ServiceClock } from './clock.ts'
import { type FaultRule, parseFaults } from './faults.ts'
import type { Team } from './http/call.ts'
import { withDeclared } from './http/describe-declared.ts'
import type { Counters, RequestLog, RequestRecord } from './http/exchange.ts'
import { NO_FIELDS, type PatientFields } from './http/resources/patient-body.ts'
import type { RateLimit, Settings } from './options.ts'
import { rateLimitOf } from './options.ts'
import type { Webhooks } from './webhooks/engine.ts'
import { type Staff, staffOf } from './world/clinic-staff.ts'
import type { Form, Patient } from './world/records.ts'
import type { QuestionPlan } from './world/seeded/form-library.ts'
import { placeQuestions } from './world/seeded/make-form.ts'
import type { World } from './world/world.ts'

/** `team` is a team's name; the default is the first team of production. */
export interface Control {
  /** All data of a team, to compare with the loaded data. */
  world(team?: string): World
  createPatient(fields: Partial<PatientFields>, team?: string): Patient
  updatePatient(id: string, fields: Partial<PatientFields>, team?: string): Patient
  deletePatient(id: string, team?: string): void
  addForm(form: { name: string; text?: string; questions?: readonly QuestionPlan[] }, team?: string): Form
  /** Gives a form another name. */
  renameForm(id: string, name: string, team?: string): Form
  /** Rewords one question; it keeps its id. */
  renameQuestion(formId: string, questionId: string, text: string, team?: string): Form
  deleteForm(id: string, team?: string): void
  /** Actions of clients and staff that the API does not offer: fill in, submit, archive. */
  staff(team?: string): Staff
  /** Advances the service's time. */
  advance(milliseconds: number): void
  /** Number of pending deliveries, number of scheduled retries, and a promise for when nothing is pending. */
  webhooks(team?: string): Pick<Webhooks, 'pending' | 'retrying' | 'idle'>
  /** Replaces all faults. `spec` has the syntax of `--faults`; empty for none. */
  setFaults(spec: string): void
  faults(): readonly FaultRule[]
  /** Applies a fault to each of the next `times` requests whose path begins with `path`. */
  failNext(path: string, fault: string, times?: number): void
  setRateLimit(limit: number | RateLimit | null): void
  /** The newest requests of both environments, oldest first. */
  requests(): readonly RequestRecord[]
  counters(team?: string): Counters
  resetCounters(): void
}

export function makeControl(
  teams: readonly Team[],
  settings: Settings,
  log: RequestLog,
  clock: ServiceClock,
): Control {
  const teamOf = (name?: string): Team => {
    const team = name === undefined ? teams[0] : teams.find((one) => one.name === name)
    if (team === undefined) throw new RangeError(`no team is named "${name}"`)
    return team
  }
  const world = (name?: string) => teamOf(name).world
  const staffs = new Map<Team, Staff>()
  const changeForm = (id: string, change: (form: Form) => Form, team?: string) =>
    must(world(team).forms.update(id, (form) => ({ ...change(form), updated_at: world(team).now() })))
  return {
    world,
    createPatient(fields, team) {
      const now = world(team).now()
      const build = (id: string) => ({ id, ...NO_FIELDS, ...fields, created_at: now, updated_at: now })
      return world(team).patients.create(build)
    },
    updatePatient(id, fields, team) {
      const change = (old: Patient) => ({ ...old, ...fields, updated_at: world(team).now() })
      return must(world(team).patients.update(id, change))
    },
    deletePatient: (id, team) => void must(world(team).patients.remove(id)),
    addForm({ name, text = '', questions = [] }, team) {
      const { key, forms } = world(team)
      const now = world(team).now()
      return forms.create((id, index) => ({
        id,
        name,
        text,
        enabled: true,
        created_at: now,
        updated_at: now,
        questions: placeQuestions({ questions }, key, index),
      }))
    },
    renameForm: (id, name, team) => changeForm(id, (form) => ({ ...form, name }), team),
    renameQuestion(formId, questionId, text, team) {
      const reword = (form: Form): Form => {
        if (!form.questions.some(({ id }) => id === questionId)) throw new RangeError('no such question')
        const questions = form.questions.map((one) => (one.id === questionId ? { ...one, text } : one))
        return { ...form, questions }
      }
      return changeForm(formId, reword, team)
    },
    deleteForm: (id, team) => void must(world(team).forms.remove(id)),
    staff(name) {
      const team = teamOf(name)
      let staff = staffs.get(team)
      if (staff === undefined) {
        staff = staffOf(team.world)
        staffs.set(team, staff)
      }
      return staff
    },
    advance(milliseconds) {
      const microseconds = Math.round(milliseconds * 1000)
      if (!(microseconds >= 0) || !isStampable(clock.now() + microseconds)) {
        throw new RangeError('the clock cannot be moved so far')
      }
      clock.advance(microseconds)
    },
    webhooks: (team) => teamOf(team).webhooks,
    setFaults(spec) {
      const rules = parseFaults(spec)
      const skew = rules.find(({ name }) => name === 'clock-skew')
      settings.faults = rules
      clock.skew = Math.round(Number(skew?.argument ?? 0) * 1_000_000)
    },
    faults: () => settings.faults,
    failNext(path, fault, times = 1) {
      const [rule] = parseFaults(fault)
      if (rule === undefined) throw new RangeError('no fault is named')
      for (let index = 0; index < times; index += 1) settings.next.push({ path, rule })
    },
    setRateLimit(limit) {
      settings.rateLimit = rateLimitOf(limit)
    },
    requests: () => log.records(),
    counters: (team) => log.counters(teamOf(team).name),
    resetCounters: () => log.reset(),
  }
}

function must<T>(found: T | undefined): T {
  if (found === undefined) throw new RangeError('no such record')
  return found
}

/**
 * `/_control`: webhook counts and faults. Not part of the service: it requires no credentials; the emulator listens on
 * loopback only. An invalid specification changes nothing and is answered 400 with the reason.
 */
export function addControlRoutes(app: FastifyInstance, control: Control): void {
  app.get('/_control/webhooks', async (request, reply) => {
    try {
      const { pending, retrying } = control.webhooks((request.query as { team?: string }).team)
      return { pending, retrying }
    } catch (error) {
      if (!(error instanceof RangeError)) throw error
      return reply.code(400).send({ detail: error.message })
    }
  })
  app.get('/_control/faults', async () => ({ faults: control.faults().map(written) }))
  app.post('/_control/faults', async (request, reply) => {
    try {
      const body: unknown = JSON.parse(String(request.body ?? ''))
      const spec = typeof body === 'object' && body !== null && 'faults' in body ? body.faults : body
      if (typeof spec !== 'string')
        return reply.code(400).send({ detail: 'Send {"faults": "name=probability,…"}.' })
      control.setFaults(spec)
      return { faults: control.faults().map(written) }
    } catch (error) {
      if (!(error instanceof SyntaxError) && !(error instanceof RangeError)) throw error
      return reply.code(400).send({ detail: error.message })
    }
  })
}

function written({ name, resource, probability, argument }: FaultRule): string {
  const target = resource === null ? '' : `@${resource}`
  return `${name}${target}=${probability}${argument === null ? '' : `:${argument}`}`
}

/** The same distance from src/ and from dist/. */
const SOURCE = new URL('../../docs/openapi.yaml', import.meta.url)

let described: string | undefined

/**
 * `GET /openapi.json`: docs/openapi.yaml of this package as JSON, with the declared resources, read once. The route
 * requires no credentials, and neither the rate limit nor faults apply.
 */
export function addOpenApiRoute(app: FastifyInstance): void {
  app.get('/openapi.json', async (_request, reply) => {
    described ??= JSON.stringify(withDeclared(parse(await readFile(SOURCE, 'utf8'))))
    return reply.type('application/json').send(described)
  })
}
