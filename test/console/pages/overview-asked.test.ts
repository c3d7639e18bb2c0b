/** The overview without a warehouse: what it asks for, and what it makes of each team's answers. */
import { expect, it, vi } from 'vitest'
import { readOverview } from '../../../src/console/pages/overview.ts'
import { STREAMS } from '../../../src/streams/catalogue.ts'
import { scripted } from '../../support/scripted.ts'

const asked: unknown[] = []
const ago = (hours: number) => new Date(Date.now() - hours * 3_600_000)

vi.mock('../../../src/operate/alerts/conditions.ts', () => ({
  findConditions: async (_db: unknown, options: object) => {
    asked.push(options)
    const condition = (team: string, cause: string, stream: string) => ({ team, cause, stream, figures: {} })
    return {
      conditions: [
        condition('north', 'odd', 'forms'),
        condition('south', 'drift', 'forms'),
        condition('north', 'odd', 'packets'),
        condition('north', 'drift', ''),
      ],
    }
  },
}))
vi.mock('../../../src/operate/alerts/causes.ts', () => ({
  textsOf: (cause: string) => ({ raised: () => `${cause} was raised`, hint: `hint of ${cause}` }),
}))
vi.mock('../../../src/operate/health/team-status.ts', () => ({
  readInbox: async () => [
    { team: 'north', pending: 3 },
    { team: 'south', pending: 0 },
    { team: 'west', pending: 7 },
  ],
  readTrouble: async () =>
    STREAMS.flatMap(({ name }) => [
      { team: 'north', stream: name, last_success_at: ago(30) },
      { team: 'south', stream: name, last_success_at: ago(1) },
    ]),
}))

it('each team is judged by its own answers; a suggested first step does not count as something that has to be done', async () => {
  const day = (team: string, events: number, rows: number) => ({ team, events, rows })
  const db = scripted((statement) =>
    statement.includes('from intake_ops.verifications')
      ? [
          { team: 'south', stream: 'forms', differences: 0, verified_at: ago(2) },
          { team: 'north', stream: 'forms', differences: 2, verified_at: ago(3) },
        ]
      : [day('north', 1, 2), day('north', 3, 4), day('south', 5, 6), day('west', 7, 8)],
  )
  const webhookChecks = { checks: 'of webhooks' } as never
  const found = await readOverview(db, { maxAgeHours: 26, webhookChecks })
  expect(asked).toEqual([
    {
      ...{ teams: ['north', 'south', 'west'], webhookChecks, thorough: true, raised: new Set() },
      ...{ inboxSeconds: 300, maxAgeHours: 26 },
    },
  ])
  const doing = (text: string, cause: string, href: string) => ({ text, hint: `hint of ${cause}`, href })
  expect(found).toEqual([
    {
      ...{ team: 'north', pending: 3, events: [1, 3], rows: [2, 4] },
      fresh: { mark: 'bad', text: 'stale: every stream was read 30 h ago or later' },
      equal: { mark: 'bad', text: '2 differences in 1 stream' },
      needs: { mark: 'bad', text: 'needs somebody: 2 things to do' },
      todo: [
        doing('forms, packets: odd was raised', 'odd', '/health'),
        doing('drift was raised', 'drift', '/streams'),
      ],
    },
    {
      ...{ team: 'south', pending: 0, events: [5], rows: [6] },
      fresh: { mark: 'good', text: 'fresh: every stream was read 60 min ago or later' },
      equal: { mark: 'good', text: 'proved equal to the service 2 h ago, 1 stream' },
      needs: { mark: 'bad', text: 'needs somebody: 1 thing to do' },
      todo: [doing('forms: drift was raised', 'drift', '/streams')],
    },
    {
      ...{ team: 'west', pending: 7, events: [7], rows: [8] },
      fresh: { mark: 'unknown', text: 'no backfill has succeeded yet' },
      equal: { mark: 'unknown', text: 'not verified yet' },
      needs: { mark: 'good', text: 'needs nobody' },
      todo: [{ text: 'load the data for the first time', hint: 'intake-sync backfill', href: '/runs' }],
    },
  ])
})
