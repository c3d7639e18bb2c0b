/** The page of health: sizes, and what is kept for how long. */
import { expect, it } from 'vitest'
import { servePages } from '../../../src/console/pages/state.ts'
import { plain, tableIn } from '../support/console.ts'
import { html } from '../support/views.ts'

const at = (day: number) => `2026-01-0${day}T03:04:00Z`

it('health has each table with its size and rows, and how long each kind of data is kept, since when, by which setting', async () => {
  type Handler = (request: unknown, reply: unknown) => Promise<{ data: object }>
  const shown = async (inboxDays: number, historyDays: number | null, runDays: number | null) => {
    const routes = new Map<string, Handler>()
    const app = { get: (path: string, _: unknown, handler: Handler) => routes.set(path, handler) }
    const oldest = { events: at(1), history: at(2), runs: at(3), deadLetters: at(4), audit: null }
    const tables = [
      { name: 'intake.responses', bytes: 2_640_000, rows: 12_345.4 },
      { name: 'intake.forms', bytes: 49_000, rows: 7 },
    ]
    const first = { bytes: 1_000_000, at: at(1) }
    const server = {
      postgres: '18.4',
      migration: '0042_x',
      bytes: 1_234e6,
      first,
      inbox_days: 31,
      tables,
      oldest,
    }
    const reading = (value: object | null) => ({ within: async () => value })
    const settings = [{ name: 'INTAKE_CRON', value: 'off', from: 'environment' }]
    const options = { settings, version: '1.2.3', inboxDays, retention: { historyDays, runDays } }
    servePages(
      app as never,
      {
        ...{ options, readings: { checks: reading(null), server: reading(server) } },
        show: async (_request: unknown, _reply: unknown, page: object) => page,
      } as never,
    )
    return html('health', (await routes.get('/health')!({}, {})).data)
  }
  const text = await shown(1, 14, 400)
  const runs = '400 days INTAKE_RUN_DAYS 2026-01-0'
  expect(tableIn(text, 'Retention')).toEqual([
    'events of the inbox, once they are done 1 day INTAKE_INBOX_DAYS 2026-01-01 03:04 UTC',
    'superseded payloads 14 days INTAKE_HISTORY_DAYS 2026-01-02 03:04 UTC',
    `runs and verifications, but the newest of each stream ${runs}3 03:04 UTC`,
    `settled dead letters ${runs}4 03:04 UTC`,
    'audited actions 6 years – –',
  ])
  expect(tableIn(text, 'Largest tables')).toEqual(['intake.responses 2.6 12,345', 'intake.forms 0.0 7'])
  expect(tableIn(text, 'Settings')).toEqual(['INTAKE_CRON off environment'])
  for (const part of [
    'intake-sync 1.2.3',
    `Node ${process.version}`,
    'Postgres 18.4',
    'newest migration 0042_x',
  ])
    expect(plain(text)).toContain(part)
  expect(plain(text)).toContain('1,234 MB grown since 2026-01-01 03:04 UTC 1,233 MB days in the inbox 31')
  const forEver = tableIn(await shown(30, null, null), 'Retention').map((row) => / for ever /.test(row))
  expect(forEver).toEqual([false, true, true, true, false])
})
