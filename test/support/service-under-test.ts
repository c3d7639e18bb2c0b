/**
 * The service under test of the conformance suite: an emulator of its own or, only under `npm run conformance` and if
 * the environment names one, a real sandbox.
 *
 * Invariant: `npm test` sends requests to the emulator only, whatever the environment contains. A real service receives
 * no request that may change it unless CONFORMANCE_WRITE=1. Every answer of the emulator is compared with
 * docs/openapi.yaml; differences of a real service are printed, without values, and do not fail the suite.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, inject } from 'vitest'
import { type EmulatorEnvironment, type EmulatorOptions, startEmulator } from '../../src/emulator/server.ts'
import { problemsOf, templateOf } from './openapi.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** True only under `npm run conformance`. */
    readonly mayAskRealService: boolean
  }
}

// biome-ignore lint/suspicious/noExplicitAny: a test reads bodies of any shape
export type Loose = any

export interface Reply {
  readonly method: string
  readonly url: string
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** The body as JSON; undefined if it is not JSON. */
  readonly body: Loose
}

export interface CallOptions {
  readonly body?: unknown
  /** Used instead of the credentials. */
  readonly credentials?: Readonly<Record<string, string>>
  readonly headers?: Readonly<Record<string, string>>
}

export interface ServiceUnderTest {
  readonly isEmulator: boolean
  readonly mayWrite: boolean
  readonly baseUrl: string
  readonly credentials: Readonly<Record<string, string>>
  /** The environments of the emulator with all teams; none for a real service. */
  readonly environments: readonly EmulatorEnvironment[]
  /** `path` may be a full URL, also of the emulator's other environment. */
  call(method: string, path: string, options?: CallOptions): Promise<Reply>
}

export interface RealService {
  readonly baseUrl: string
  readonly credentials: Readonly<Record<string, string>>
  readonly mayWrite: boolean
}

const NAMES = ['INTAKE_BASE_URL', 'INTAKE_API_KEY', 'INTAKE_API_SECRET'] as const

/** The real service that the environment names; undefined if it names none or requests are not allowed. */
export function realService(allowed: boolean, env: NodeJS.ProcessEnv): RealService | undefined {
  const given = NAMES.filter((name) => (env[name] ?? '') !== '')
  if (!allowed || given.length === 0) return undefined
  const missing = NAMES.filter((name) => !given.includes(name))
  if (missing.length > 0) throw new Error(`set ${missing.join(' and ')} too, or none of ${NAMES.join(', ')}`)
  const { protocol, hostname, origin } = new URL(env.INTAKE_BASE_URL!)
  const isLoopback = ['127.0.0.1', 'localhost', '[::1]'].includes(hostname)
  if (protocol !== 'https:' && !isLoopback) throw new Error('INTAKE_BASE_URL must begin with https://')
  return {
    baseUrl: origin,
    credentials: { 'X-API-KEY': env.INTAKE_API_KEY!, 'X-API-SECRET': env.INTAKE_API_SECRET! },
    mayWrite: env.CONFORMANCE_WRITE === '1',
  }
}

export const real = realService(inject('mayAskRealService') === true, process.env)

/** The service for the tests of one file; usable inside the tests, not before. */
export function serviceUnderTest(options: EmulatorOptions = {}): () => ServiceUnderTest {
  let service: ServiceUnderTest | undefined
  let close = async () => {}
  const differences = new Set<string>()
  beforeAll(async () => {
    if (real !== undefined) {
      service = { ...real, isEmulator: false, environments: [], call: callReal(real, differences) }
      return
    }
    const emulator = await startEmulator({ port: 0, patients: 60, ...options })
    close = () => emulator.close()
    const { base_url, teams } = emulator.environments[0]!
    const credentials = { 'X-API-KEY': teams[0]!.api_key, 'X-API-SECRET': teams[0]!.api_secret }
    const { environments } = emulator
    const call = callChecked(base_url, credentials)
    service = { isEmulator: true, mayWrite: true, baseUrl: base_url, credentials, environments, call }
  })
  afterAll(async () => {
    await close()
    for (const line of differences) process.stderr.write(`differs from docs/openapi.yaml: ${line}\n`)
  })
  return () => {
    if (service === undefined) throw new Error('the service is known inside tests only')
    return service
  }
}

function callChecked(baseUrl: string, credentials: Readonly<Record<string, string>>) {
  return async (method: string, path: string, options: CallOptions = {}): Promise<Reply> => {
    const reply = await request(baseUrl, method, path, { credentials, ...options })
    const problems = problemsOf(reply)
    if (problems.length > 0) throw new Error(`${method} ${path} is not as described:\n${problems.join('\n')}`)
    return reply
  }
}

const ATTEMPTS = 5
const MAX_WAIT_SECONDS = 60

/** True if a call can change nothing: it reads, exports, or has no valid credentials. */
export function isHarmless(
  { credentials }: RealService,
  method: string,
  path: string,
  options: CallOptions = {},
): boolean {
  const given = options.credentials ?? credentials
  const known = Object.entries(credentials).every(([name, value]) => given[name] === value)
  return !known || method === 'GET' || (method === 'POST' && path.split('?')[0] === '/v2/export-csv')
}

function callReal(service: RealService, differences: Set<string>) {
  const { baseUrl, credentials, mayWrite } = service
  return async (method: string, path: string, options: CallOptions = {}): Promise<Reply> => {
    if (!mayWrite && !isHarmless(service, method, path, options)) {
      throw new Error(`${method} may change data, and CONFORMANCE_WRITE is not 1`)
    }
    for (let attempt = 1; ; attempt += 1) {
      const reply = await request(baseUrl, method, path, { credentials, ...options })
      if (reply.status !== 429 || attempt === ATTEMPTS) {
        const name = `${method} ${templateOf(new URL(reply.url).pathname) ?? 'elsewhere'}`
        for (const problem of problemsOf(reply)) {
          differences.add(`${name} ${reply.status} ${problem.replaceAll(/\/\d+\b/g, '/*')}`)
        }
        return reply
      }
      const seconds = Number(reply.headers.get('retry-after') ?? 2 ** attempt)
      await sleep(Math.min(Number.isFinite(seconds) ? seconds : MAX_WAIT_SECONDS, MAX_WAIT_SECONDS) * 1000)
    }
  }
}

async function request(
  baseUrl: string,
  method: string,
  path: string,
  { credentials = {}, headers = {}, body }: CallOptions,
): Promise<Reply> {
  const url = path.startsWith('http') ? path : baseUrl + path
  const asItIs = body === undefined || typeof body === 'string' || body instanceof FormData
  const type: Record<string, string> =
    body === undefined || body instanceof FormData ? {} : { 'content-type': 'application/json' }
  const response = await fetch(url, {
    method,
    headers: { ...type, ...credentials, ...headers },
    redirect: 'manual',
    ...(body === undefined ? {} : { body: asItIs ? (body as string | FormData) : JSON.stringify(body) }),
  })
  const text = await response.text()
  return { method, url, status: response.status, headers: response.headers, text, body: parsed(text) }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
