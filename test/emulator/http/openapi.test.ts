import { readdirSync, readFileSync } from 'node:fs'
import { createConfig, lintFromString } from '@redocly/openapi-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Route } from '../../../src/emulator/http/call.ts'
import { type Emulator, startEmulator } from '../../../src/emulator/server.ts'
import { DECLARED } from '../../../src/emulator/world/declared-catalogue.ts'
import {
  DESCRIPTION,
  description,
  eventProblems,
  METHODS,
  type Operation,
  problemsOf,
  templateOf,
} from '../../support/openapi.ts'
import { type Caller, callerOf, type Reply } from '../caller.ts'

const SOURCES = [
  ...['patient', 'form', 'packet', 'document', 'response', 'packet_response'],
  ...DECLARED.map(({ source }) => source),
]

interface Named {
  readonly name: string
  readonly operation: Operation
}

const operations: readonly Named[] = Object.entries(description.paths).flatMap(([path, item]) =>
  METHODS.flatMap((method) => {
    const operation = item[method]
    return operation === undefined ? [] : [{ name: `${method.toUpperCase()} ${path}`, operation }]
  }),
)

/** `GET /v2/…/{id}` for every method of every route table of the emulator. */
async function routesOfEmulator(): Promise<string[]> {
  const folder = new URL('../../../src/emulator/http/resources/', import.meta.url)
  const names: string[] = []
  for (const file of readdirSync(folder).filter((name) => name.endsWith('.ts'))) {
    const module = (await import(new URL(file, folder).href)) as Record<string, unknown>
    for (const [name, table] of Object.entries(module)) {
      if (!name.endsWith('_ROUTES')) continue
      for (const { path, methods } of table as readonly Route[]) {
        const template = path.replaceAll(/:(\w+)/g, '{$1}')
        names.push(...Object.keys(methods).map((method) => `${method} ${template}`))
      }
    }
  }
  return names
}

describe('the description of the service', () => {
  it('passes every rule of an OpenAPI 3.1 linter without a warning', async () => {
    const config = await createConfig({ extends: ['recommended'] })
    const problems = await lintFromString({
      source: DECLARED.length === 0 ? readFileSync(DESCRIPTION, 'utf8') : JSON.stringify(description),
      absoluteRef: 'openapi.yaml',
      config,
    })
    expect(problems.map(({ ruleId, message, location }) => [ruleId, message, location[0]?.pointer])).toEqual(
      [],
    )
  })

  it('has exactly the routes of the emulator', async () => {
    const routes = await routesOfEmulator()
    const described = operations.map(({ name }) => name)
    expect(described.toSorted()).toEqual(routes.toSorted())
  })

  const events = Object.entries(description.webhooks).map(([name, { post }]) => ({ name, operation: post }))
  it.each([...operations, ...events])(
    'says of $name what it does, in which group, and on what that rests',
    ({ operation }) => {
      expect(operation.summary).toMatch(/^[A-Z].{5,}/)
      expect(operation.operationId).toMatch(/^[a-z][A-Za-z]+$/)
      expect(operation.tags).toHaveLength(1)
      expect(operation.description).toMatch(/\b(Shown|Assumed)\b/)
    },
  )

  it.each(Object.entries(description.components.schemas))(
    'says of schema %s on what it rests',
    (_name, schema) => {
      expect(schema.description).toMatch(/\b(Shown|Assumed)\b/)
    },
  )

  it('has all sources of events', () => {
    expect(Object.keys(description.webhooks)).toHaveLength(SOURCES.length)
    for (const source of SOURCES) expect(eventProblems(source, '{}')).not.toEqual([])
    expect(eventProblems('invoice', '{}')).toEqual(['source invoice is not described'])
  })
})

describe('the emulator', () => {
  let emulator: Emulator
  let caller: Caller

  beforeAll(async () => {
    emulator = await startEmulator({ port: 0, patients: 40, pageSize: 20 })
    caller = callerOf(emulator)
  })
  afterAll(() => emulator.close())

  it('serves it in both environments without credentials, also while every other call is throttled or fails', async () => {
    await using broken = await startEmulator({ port: 0, patients: 0, faults: 'http-500=1', rateLimit: 1 })
    for (const [service, environment] of [
      [emulator, 0],
      [emulator, 1],
      [broken, 0],
    ] as const) {
      const { status, headers, body } = await callerOf(service, environment).get('/openapi.json', {})
      expect(status).toBe(200)
      expect(headers.get('content-type')).toMatch(/^application\/json\b/)
      expect(body).toEqual(description)
    }
  })

  const lists = Object.entries(description.paths).filter(
    ([path, { get }]) => get !== undefined && !path.includes('{'),
  )
  it.each(lists.map(([path]) => path))(
    'lists at %s only what is described, and the same by id',
    async (path) => {
      const check = (url: string, reply: Reply) =>
        expect(problemsOf({ method: 'GET', url, ...reply })).toEqual([])
      for (const version of ['', 'v2.1']) {
        const headers = { ...caller.credentials, ...(version === '' ? {} : { 'X-API-VERSION': version }) }
        for (let next: string | null = path; next !== null; ) {
          const page: Reply = await caller.get(next, headers)
          check(next, page)
          for (const { id } of page.body.results.slice(0, 5)) {
            const one = `${path}/${id}`
            if (templateOf(one)?.includes('{') === true) check(one, await caller.get(one, headers))
          }
          next = page.body.next
        }
      }
    },
  )
})

describe('the check of answers', () => {
  const headers = new Headers({ 'X-Service-Environment': 'sandbox', 'content-type': 'application/json' })
  const form = {
    id: 'a',
    name: 'Intake',
    text: '',
    enabled: true,
    created_at: '2026-01-01T00:00:00.000001Z',
    updated_at: '2026-01-01T00:00:00Z',
    questions: [],
  }
  const reply = { method: 'GET', url: '/v2/forms/a', status: 200, headers, text: JSON.stringify(form) }
  const throttled = { ...reply, status: 429, text: '{"detail":"Request was throttled."}' }

  it('accepts an answer that matches the description, also with additional fields', () => {
    expect(problemsOf(reply)).toEqual([])
    expect(problemsOf({ ...reply, text: JSON.stringify({ ...form, color: 'red' }) })).toEqual([])
  })

  it.each([
    ['a field that is missing', { text: JSON.stringify({ ...form, name: undefined }) }],
    ['a field of another type', { text: JSON.stringify({ ...form, enabled: 'yes' }) }],
    ['a time of another format', { text: JSON.stringify({ ...form, created_at: 'yesterday' }) }],
    ['no JSON', { text: '{' }],
    [
      'another content type',
      { headers: new Headers({ ...Object.fromEntries(headers), 'content-type': 'text/html' }) },
    ],
    ['no environment', { headers: new Headers({ 'content-type': 'application/json' }) }],
    ['a status that is not described', { status: 418 }],
    ['an operation that is not described', { method: 'POST' }],
    ['a path that is not described', { url: '/v2/doctors' }],
    ['a 429 without Retry-After', throttled],
  ])('reports %s', (_title, change) => {
    expect(problemsOf({ ...reply, ...change })).not.toEqual([])
  })

  it('shows no value of an answer', () => {
    const text = JSON.stringify({ ...form, name: 7, enabled: 'Ann Example', questions: 'Ann Example' })
    expect(problemsOf({ ...reply, text }).join()).not.toMatch(/Ann|7/)
  })
})
