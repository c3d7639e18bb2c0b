/**
 * Emulates the service for rehearsals, the demo and tests: two environments at two loopback addresses, each with two
 * teams with separate data.
 *
 * Invariant: the same options give the same world; after `close` there are no listeners, timers or tasks.
 */

import { ServiceClock, Timeline } from './clock.ts'
import { addControlRoutes, addOpenApiRoute, type Control, makeControl } from './control.ts'
import { Bursts } from './faults.ts'
import type { Route } from './http/call.ts'
import { makeCredentials, type Team } from './http/call.ts'
import { addClinicRoutes } from './http/clinic-routes.ts'
import { openEnvironment } from './http/environment.ts'
import type { Environment } from './http/exchange.ts'
import { RequestLog } from './http/exchange.ts'
import { DECLARED_ROUTES, FORM_ROUTES } from './http/resources/forms.ts'
import { MESSAGE_ROUTES } from './http/resources/messages.ts'
import { PATIENT_ROUTES, UPLOAD_ROUTES } from './http/resources/patients.ts'
import { EXPORT_ROUTES, RESPONSE_ROUTES } from './http/resources/responses.ts'
import { Uploads } from './http/resources/upload-work.ts'
import { WEBHOOK_ROUTES } from './http/resources/webhooks.ts'
import { type ImportReport, readImports } from './imports/read-imports.ts'
import type { Settings } from './options.ts'
import {
  type CompleteOptions,
  completeOptions,
  EmulatorOptionError,
  type EmulatorOptions,
  SlidingWindow,
} from './options.ts'
import { Webhooks } from './webhooks/engine.ts'
import { startActivity } from './world/clinic-changes.ts'
import { keyOf } from './world/draw.ts'
import type { Imported } from './world/seeded/seed.ts'
import { World } from './world/world.ts'

export type { EmulatorOptions } from './options.ts'
export { EmulatorOptionError } from './options.ts'

export interface EmulatorTeam {
  readonly name: string
  readonly api_key: string
  readonly api_secret: string
}

export interface EmulatorEnvironment {
  readonly name: 'production' | 'sandbox'
  readonly base_url: string
  readonly teams: readonly EmulatorTeam[]
}

export interface Emulator extends AsyncDisposable {
  readonly environments: readonly EmulatorEnvironment[]
  /** Counts of imported records, and the files that could not be imported. */
  readonly imported: ImportReport
  /** Changes the service's data and behaviour in this process. */
  readonly control: Control
  close(): Promise<void>
}

const ENVIRONMENTS = ['production', 'sandbox'] as const
const TEAM_NAMES = ['Riverside Clinic', 'Harbour Practice'] as const
const ROUTES: readonly Route[] = [
  ...PATIENT_ROUTES,
  ...UPLOAD_ROUTES,
  ...FORM_ROUTES,
  ...RESPONSE_ROUTES,
  ...MESSAGE_ROUTES,
  ...EXPORT_ROUTES,
  ...WEBHOOK_ROUTES,
  ...DECLARED_ROUTES,
]

/** Starts the emulator. Throws `EmulatorOptionError` for an invalid option. */
export async function startEmulator(options: EmulatorOptions = {}): Promise<Emulator> {
  const complete = completeOptions(options)
  const { imported, report } = await readImports(complete)
  const { seed, shape, pageSize, rateLimit, faults, clock } = complete
  const settings: Settings = {
    seed,
    shape,
    defaultPageSize: pageSize,
    rateLimit,
    faults,
    next: [],
    bursts: new Bursts(),
    requests: 0,
  }
  const serviceClock = new ServiceClock(clock, complete.timeScale)
  const timeline = new Timeline(serviceClock, clock)
  const log = new RequestLog()
  const teams = ENVIRONMENTS.map((name) =>
    makeTeams(name, complete, imported, settings, serviceClock, timeline),
  )
  refuseUnanswerable(options, teams[0]![0]!.world)
  const opened = ENVIRONMENTS.map((name, index) =>
    openEnvironment(name, teams[index]!, ROUTES, settings, log, clock, serviceClock),
  )
  const control = makeControl(teams.flat(), settings, log, serviceClock)
  if (options.faults !== undefined) control.setFaults(options.faults)
  for (const { app } of opened) {
    addControlRoutes(app, control)
    addClinicRoutes(app, control)
  }
  for (const { app } of opened) addOpenApiRoute(app)
  const stop = new AbortController()
  const close = async () => {
    stop.abort()
    timeline.close()
    await Promise.all(teams.flat().map(({ webhooks }) => webhooks.close()))
    await Promise.all(opened.map(({ app }) => app.close()))
  }
  const urls = await listenAll(opened, complete.port).catch(async (error: unknown) => {
    await close()
    throw error
  })
  opened[0]!.elsewhere = urls[1]!
  opened[1]!.elsewhere = urls[0]!
  if (complete.activity > 0) startActivity(teams[0]![0]!.world, complete.activity, seed, clock, stop.signal)
  return {
    environments: ENVIRONMENTS.map((name, index) => ({
      name,
      base_url: urls[index]!,
      teams: teams[index]!.map((team) => ({
        name: team.name,
        api_key: team.apiKey,
        api_secret: team.apiSecret,
      })),
    })),
    imported: report,
    control,
    close,
    [Symbol.asyncDispose]: close,
  }
}

const NOTHING: Imported = { patients: [], forms: [], surveys: [] }

/** Imports go to the first team of production, whose credentials are those of the command line. */
function makeTeams(
  environment: (typeof ENVIRONMENTS)[number],
  complete: CompleteOptions,
  imported: Imported,
  settings: Settings,
  clock: ServiceClock,
  timeline: Timeline,
): Team[] {
  const { seed, sizes, apiKey, apiSecret } = complete
  const sending = { allowRemote: complete.allowRemoteWebhooks, timeoutMs: complete.webhookTimeoutMs }
  return TEAM_NAMES.map((base, index) => {
    const first = environment === 'production' && index === 0
    const { key, secret } = makeCredentials(seed, environment, index)
    const world = new World([seed, environment, index], sizes, first ? imported : NOTHING, clock, timeline)
    return {
      name: environment === 'production' ? base : `${base} (${environment})`,
      environment,
      apiKey: first ? (apiKey ?? key) : key,
      apiSecret: first ? (apiSecret ?? secret) : secret,
      world,
      window: new SlidingWindow(),
      uploads: new Uploads(keyOf(seed, environment, index, 'upload')),
      webhooks: new Webhooks(world, settings, complete.clock, sending),
    }
  })
}

/** Generated responses need patients and a form or document. */
function refuseUnanswerable({ responses }: EmulatorOptions, world: World): void {
  if (responses === undefined || world.seed.visits.responses >= responses) return
  throw new EmulatorOptionError('responses', 'needs patients, and a form or a document')
}

async function listenAll(environments: readonly Environment[], port: number): Promise<string[]> {
  const urls: string[] = []
  for (const [index, { app }] of environments.entries()) {
    const wanted = port === 0 ? 0 : port + index
    try {
      urls.push(await app.listen({ host: '127.0.0.1', port: wanted }))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error
      throw new EmulatorOptionError('port', `port ${wanted} is in use; 0 takes any two that are free`)
    }
  }
  return urls
}
