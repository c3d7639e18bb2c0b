/** `/metrics` as Prometheus reads it, and the dashboard of docs/grafana.json, which asks for nothing that is not there. */
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import pino from 'pino'
import { beforeAll, describe, expect, it, vi } from 'vitest'
import { parse } from 'yaml'
import { systemClock } from '../../src/core/clock.ts'
import { sign } from '../../src/core/signature.ts'
import { openServe } from '../../src/operate/serve/serve.ts'
import { openWarehouse, query } from '../e2e/support/scene.ts'
import { lintMetrics, seriesNames } from './promlint.ts'

const SECRET = 'a secret of the webhook'
let page: string
let contentType: string | null

/** A `serve` that has had events, good and bad ones, over a warehouse in which something of everything is wrong. */
beforeAll(async () => {
  await using warehouse = await openWarehouse()
  const nowhere = { host: '127.0.0.1', port: 0 }
  await using serving = await openServe({
    ...{ url: warehouse.url, ingestTeams: [{ name: 'north', webhookSecrets: [SECRET] }], teams: [] },
    ...{ ingest: nowhere, drain: true, cron: null, admin: nowhere, inboxDays: 30, encryptionKey: null },
    ...{
      backfill: async () => {},
      clock: systemClock,
      random: Math.random,
      logger: pino({ level: 'silent' }),
    },
  })
  await query(
    warehouse.url,
    `with run as (insert into intake_ops.runs (kind, status, finished_at) values ('backfill', 'succeeded', now()) returning run_id)
     insert into intake_ops.run_streams (run_id, team_id, stream, status)
     select run_id, team_id, stream, 'succeeded' from run, intake.teams, unnest(array['patients', 'forms']) stream`,
  )
  await query(
    warehouse.url,
    `with inserted as (
       insert into intake_ops.dead_letters (team_id, stream, fingerprint, origin, reason)
       select team_id, stream, 'x', 'page', 'why' from intake.teams, unnest(array['patients', 'forms']) stream
     )
     insert into intake_ops.alerts (team_id, cause, stream)
     select team_id, cause, 'patients' from intake.teams, unnest(array['drift', 'dead_letters']) cause`,
  )
  const send = async (body: string, signature: string) => {
    const headers = { 'x-service-signature': signature, 'content-type': 'application/json' }
    return (await fetch(`${serving.ingest}/webhooks`, { method: 'POST', headers, body })).status
  }
  const event = JSON.stringify({
    ...{ id: 'event-1', event_type: 'created', source: 'patient', timestamp: '2026-01-05T10:00:00Z' },
    data: { id: 'patient-1', created_at: '2026-01-05T10:00:00Z', updated_at: '2026-01-05T10:00:00Z' },
  })
  expect(await send(event, sign(Buffer.from(event), SECRET))).toBe(200)
  expect(await send(event, '0'.repeat(64))).toBe(400)
  const ask = async (awaited: RegExp) => {
    const response = await fetch(`${serving.admin}/metrics`)
    contentType = response.headers.get('content-type')
    page = await response.text()
    expect(page).toMatch(awaited)
  }
  const patience = { timeout: 100_000, interval: 100 }
  await vi.waitFor(() => ask(/^intake_events_drained_total\{.*\} [1-9]/m), patience)
  await vi.waitFor(() => ask(/^intake_webhook_events_last_day/m), patience)
})

describe('/metrics', () => {
  it('is accepted by promtool', () => {
    expect(contentType).toBe('text/plain; version=0.0.4; charset=utf-8')
    expect(lintMetrics(page)).toEqual([])
    const samples = page.split('\n').filter((line) => /^intake_(?!nodejs|process)/.test(line))
    expect(samples.length).toBeGreaterThan(40)
  })

  it.each([
    ['no help text', '# TYPE a_total counter\na_total 1\n'],
    ['counters end in _total', '# HELP a b\n# TYPE a counter\na 1\n'],
    ['only counters end in _total', '# HELP a_total b\n# TYPE a_total gauge\na_total 1\n'],
    ['ends as parts', '# HELP a_count b\n# TYPE a_count gauge\na_count 1\n'],
    [
      'milliseconds in the place of seconds',
      '# HELP a_milliseconds b\n# TYPE a_milliseconds gauge\na_milliseconds 1\n',
    ],
    ['hours in the place of seconds', '# HELP a_hours b\n# TYPE a_hours gauge\na_hours 1\n'],
    ['an abbreviated unit', '# HELP a_ms b\n# TYPE a_ms gauge\na_ms 1\n'],
    ['names its type', '# HELP a_gauge b\n# TYPE a_gauge gauge\na_gauge 1\n'],
    ['camelCase', '# HELP aB b\n# TYPE aB gauge\naB 1\n'],
    ['label le', '# HELP a b\n# TYPE a gauge\na{le="1"} 1\n'],
    ['a series twice', '# HELP a b\n# TYPE a gauge\na{x="1",y="2"} 1\na{y="2",x="1"} 1\n'],
    ['comes twice', '# HELP a b\n# TYPE a gauge\na 1\n# HELP a b\n# TYPE a gauge\na 1\n'],
    ['is not of it', '# HELP a b\n# TYPE a gauge\nb 1\n'],
    ['no bucket for all', '# HELP a b\n# TYPE a histogram\na_bucket{le="1"} 1\na_sum 1\na_count 1\n'],
    ['not readable', '# HELP a b\n# TYPE a gauge\na one\n'],
    ['the last line', '# HELP a b\n# TYPE a gauge\na 1'],
  ])('the rules find %s', (what, text) => {
    expect(lintMetrics(text)).toContainEqual(expect.stringContaining(what))
  })
})

describe('docs/deploy/prometheus-rules.yaml', () => {
  interface Rule {
    readonly alert: string
    readonly expr: string
    readonly for?: string
    readonly labels: { readonly severity: string }
    readonly annotations: { readonly summary: string; readonly hint: string }
  }
  const file = readFileSync(resolve(import.meta.dirname, '../../docs/deploy/prometheus-rules.yaml'), 'utf8')
  const { groups } = parse(file) as { groups: readonly { name: string; rules: readonly Rule[] }[] }
  const rules = groups.flatMap((group) => group.rules)

  it.each(rules.map((rule) => [rule.alert, rule] as const))(
    '%s asks for what there is, and says what to do',
    (_, rule) => {
      expect(Object.keys(rule)).toEqual(expect.arrayContaining(['alert', 'expr', 'labels', 'annotations']))
      const names = [...rule.expr.matchAll(/\bintake_\w+/g)].map(([name]) => name)
      expect(names).toHaveLength(1)
      expect([...seriesNames(page)]).toContain(names[0])
      expect(rule.for ?? '1m').toMatch(/^\d+m$/)
      expect(['critical', 'warning']).toContain(rule.labels.severity)
      expect(rule.annotations.hint).toMatch(/\S/)
      // A label that the words name is one that the expression keeps.
      const kept = /by \(([\w, ]+)\)/.exec(rule.expr)?.[1]?.split(', ') ?? []
      for (const [, label] of rule.annotations.summary.matchAll(/\$labels\.(\w+)/g))
        expect(kept).toContain(label)
    },
  )
})

interface Panel {
  readonly id: number
  readonly type: string
  readonly title: string
  readonly description?: string
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number }
  readonly datasource?: { readonly uid: string }
  readonly targets?: readonly {
    readonly refId: string
    readonly expr: string
    readonly datasource: { readonly uid: string }
  }[]
}

describe('docs/grafana.json', () => {
  const text = readFileSync(resolve(import.meta.dirname, '../../docs/grafana.json'), 'utf8')
  const dashboard = JSON.parse(text) as {
    readonly title: string
    readonly uid: string
    readonly panels: readonly Panel[]
    readonly templating: {
      readonly list: readonly { readonly name: string; readonly type: string; readonly definition?: string }[]
    }
  }
  const { panels } = dashboard
  const shown = panels.filter(({ type }) => type !== 'row')
  const targets = shown.flatMap((panel) => panel.targets ?? [])
  const variables = dashboard.templating.list
  const expressions = [
    ...targets.map(({ expr }) => expr),
    ...variables.flatMap(({ definition = [] }) => definition),
  ]
  const namesIn = (texts: readonly string[]) =>
    new Set(texts.flatMap((each) => [...each.matchAll(/\bintake_\w+/g)].map(([name]) => name)))

  it('uses only metrics that exist', () => {
    const known = seriesNames(page)
    expect(known.size).toBeGreaterThan(40)
    expect([...namesIn(expressions)].filter((name) => !known.has(name))).toEqual([])
  })

  it('as the autoscaler of docs/deploy does', () => {
    const scale = readFileSync(
      resolve(import.meta.dirname, '../../docs/deploy/kubernetes-scale.yaml'),
      'utf8',
    )
    const names = namesIn([scale])
    expect(names.size).toBeGreaterThan(0)
    expect([...names].filter((name) => !seriesNames(page).has(name))).toEqual([])
  })

  it('shows every metric of ours', () => {
    const asked = [...namesIn(expressions)].map((name) => name.replace(/_(?:bucket|sum|count)$/, ''))
    const ours = [...seriesNames(page)].filter((name) => !/^intake_(?:nodejs|process)_/.test(name))
    const missing = ours
      .map((name) => name.replace(/_(?:bucket|sum|count)$/, ''))
      .filter((name) => !asked.includes(name))
    expect([...new Set(missing)]).toEqual([])
  })

  it('uses only labels that the metric has', () => {
    for (const expression of expressions) {
      for (const [, name, label] of expression.matchAll(/(intake_\w+)\{(\w+)=/g)) {
        const lines = page.split('\n').filter((line) => line.startsWith(`${name}{`))
        // Events that never occurred have no series yet.
        if (lines.length > 0) expect([name, lines[0]]).toEqual([name, expect.stringContaining(`${label}="`)])
      }
      for (const [, labels, name] of expression.matchAll(
        /by \(([\w, ]+)\) \((?:rate\(|increase\()?(intake_\w+)/g,
      )) {
        const line = page.split('\n').find((each) => each.startsWith(`${name}{`))
        for (const label of labels!.split(', '))
          if (line !== undefined) expect([name, line]).toEqual([name, expect.stringContaining(`${label}="`)])
      }
    }
  })

  it('takes counters by their rate, and brackets come in pairs', () => {
    for (const expression of expressions) {
      for (const [name] of expression.matchAll(/\bintake_\w+_total\b/g))
        expect(expression).toMatch(new RegExp(`(?:rate|increase)\\(${name}`))
      for (const [open, close] of ['()', '{}', '[]']) {
        expect([expression, expression.split(open!).length]).toEqual([
          expression,
          expression.split(close!).length,
        ])
      }
    }
  })

  it('has panels with their own titles and descriptions that do not overlap', () => {
    expect(dashboard.uid).toBe('intake-sync')
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length)
    expect(shown.length).toBeGreaterThan(20)
    const taken = new Set<string>()
    for (const { title, description, type, gridPos, datasource, targets: own = [] } of panels) {
      expect(title).not.toBe('')
      expect(gridPos.x + gridPos.w).toBeLessThanOrEqual(24)
      for (let x = gridPos.x; x < gridPos.x + gridPos.w; x += 1)
        for (let y = gridPos.y; y < gridPos.y + gridPos.h; y += 1) {
          expect([title, taken.has(`${x} ${y}`)]).toEqual([title, false])
          taken.add(`${x} ${y}`)
        }
      if (type === 'row') continue
      expect([title, (description ?? '').length > 5, own.length > 0]).toEqual([title, true, true])
      expect(new Set(own.map(({ refId }) => refId)).size).toBe(own.length)
      for (const each of [datasource, ...own.map((target) => target.datasource)])
        expect(each?.uid).toMatch(/^\$\{datasource\}$/)
    }
  })

  it('names no variable that it has not', () => {
    const known = [...variables.map(({ name }) => name), '__rate_interval']
    for (const [, name] of text.matchAll(/\$\{?(\w+)\}?/g)) expect(known).toContain(name)
  })
})
