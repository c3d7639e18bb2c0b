/** The dashboards for analysts in docs/dashboards: every query runs as intake_analyst, and every chart has its columns. */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Login, makeLogin } from '../analytics/logins.ts'
import { connect, openScene, type Scene } from '../e2e/support/scene.ts'

const folder = new URL('../../docs/dashboards/', import.meta.url)
const read = (name: string) => JSON.parse(readFileSync(new URL(name, folder), 'utf8'))

interface Panel {
  readonly id: number
  readonly type: string
  readonly title: string
  readonly datasource: { readonly uid: string }
  readonly targets: readonly { readonly rawSql: string; readonly format: string }[]
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number }
  readonly options: { readonly xField?: string }
}
interface Card {
  readonly name: string
  readonly display: string
  readonly query: string
  readonly visualization_settings: { readonly [key: string]: readonly string[] }
  readonly position: {
    readonly row: number
    readonly col: number
    readonly size_x: number
    readonly size_y: number
  }
}
const { panels } = read('grafana-analysts.json') as { readonly panels: readonly Panel[] }
const { cards } = read('metabase.json') as { readonly cards: readonly Card[] }

let scene: Scene
let analyst: Login

beforeAll(async () => {
  scene = await openScene({ patients: 40, responses: 150, forms: 5, packets: 2 })
  expect((await scene.backfill()).code).toBe(0)
  analyst = await makeLogin(scene.url, 'intake_analyst')
})
afterAll(() => scene[Symbol.asyncDispose]())

/** The columns of a query with their types, and its rows, as Grafana and Metabase read them. */
async function result(text: string) {
  const client = await connect(analyst.url)
  try {
    const { fields, rows } = await client.query<Record<string, unknown>>(text)
    return { rows, types: new Map(fields.map(({ name, dataTypeID }) => [name, dataTypeID])) }
  } finally {
    await client.end()
  }
}

/** Of a request to Metabase. */
interface Body {
  readonly name?: string
  readonly dataset_query?: unknown
  readonly dashcards?: readonly { readonly card_id: number }[]
}

/** Of Postgres: timestamp, timestamptz; int4, float8. */
const TIMES = [1114, 1184]
const NUMBERS = [23, 701]

/** In this world no form is an instrument. */
const EMPTY = 'Scores by month'

describe('the dashboard of Grafana', () => {
  it.each(panels.map((panel) => [panel.title, panel] as const))('%s', async (title, panel) => {
    const [{ rawSql, format }] = panel.targets as [Panel['targets'][number]]
    const { rows, types } = await result(rawSql)
    if (title !== EMPTY) expect(rows.length).toBeGreaterThan(0)
    expect(panel.datasource.uid).toMatch(/^\$\{datasource\}$/)
    expect(format).toBe(panel.type === 'timeseries' ? 'time_series' : 'table')
    if (panel.type === 'timeseries') expect(TIMES).toContain(types.get('time'))
    if (panel.type === 'barchart') expect([...types.keys()]).toContain(panel.options.xField)
  })

  it('has panels that do not overlap', () => {
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length)
    const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, place) => `${x + (place % w)} ${y + Math.floor(place / w)}`),
    )
    expect(new Set(cells).size).toBe(cells.length)
    expect(panels.every(({ gridPos: { x, w } }) => x + w <= 24)).toBe(true)
  })
})

describe('the dashboard of Metabase', () => {
  it.each(cards.map((card) => [card.name, card] as const))('%s', async (_, card) => {
    const { types } = await result(card.query)
    const { 'graph.dimensions': dimensions = [], 'graph.metrics': metrics = [] } = card.visualization_settings
    if (card.display !== 'table') expect(dimensions.length * metrics.length).toBeGreaterThan(0)
    for (const column of dimensions) expect([...types.keys()]).toContain(column)
    for (const column of metrics) expect(NUMBERS, column).toContain(types.get(column))
  })

  it('asks the same questions as that of Grafana', () => {
    expect(cards.map(({ name, query }) => [name, query])).toEqual(
      panels.map(({ title, targets }) => [title, targets[0]!.rawSql]),
    )
  })

  it('is created with its questions, in the database that is named, and not where several would do', async () => {
    const seen: { readonly line: string; readonly key: unknown; readonly body: Body | null }[] = []
    const server = http.createServer((request, response) => {
      let text = ''
      request.on('data', (piece) => (text += piece))
      request.on('end', () => {
        const line = `${request.method} ${request.url}`
        seen.push({ line, key: request.headers['x-api-key'], body: text === '' ? null : JSON.parse(text) })
        const databases = ['Warehouse', 'Other'].map((name, place) => ({
          id: place + 7,
          name,
          engine: 'postgres',
        }))
        const answer = line === 'GET /api/database' ? { data: databases } : { id: seen.length }
        response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer))
      })
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    try {
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
      const run = (...words: string[]) =>
        promisify(execFile)(process.execPath, [fileURLToPath(new URL('metabase.mjs', folder)), ...words], {
          env: { ...process.env, METABASE_URL: url, METABASE_API_KEY: 'a key' },
        })
      await expect(run()).rejects.toMatchObject({
        code: 1,
        stderr: expect.stringContaining('2 Postgres connections'),
      })
      seen.splice(0)
      const { stdout } = await run('Warehouse')
      const lines = [
        'GET /api/database',
        'POST /api/dashboard',
        ...cards.map(() => 'POST /api/card'),
        'PUT /api/dashboard/2',
      ]
      expect(seen.map(({ line }) => line)).toEqual(lines)
      expect(stdout).toBe(`${url}/dashboard/2\n`)
      expect(seen.every(({ key }) => key === 'a key')).toBe(true)
      expect(seen[2]!.body).toMatchObject({
        name: cards[0]!.name,
        dataset_query: { type: 'native', database: 7, native: { query: cards[0]!.query } },
      })
      const { dashcards = [] } = seen.at(-1)!.body!
      expect(dashcards.map(({ card_id }) => card_id)).toEqual(cards.map((_, place) => place + 3))
      expect(dashcards[0]).toMatchObject(cards[0]!.position)
    } finally {
      server.close()
    }
  })
})
