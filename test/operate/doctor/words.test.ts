/** Each result of a check as a whole: its name, how bad it is, what was found, and what to do. */
import pino from 'pino'
import { expect, test } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { IntakeError } from '../../../src/core/errors.ts'
import { type Check, failedBy } from '../../../src/operate/doctor/check.ts'
import { runChecks } from '../../../src/operate/doctor/doctor.ts'
import { diskCheck, nodeCheck, portCheck } from '../../../src/operate/doctor/machine.ts'
import { rateLimitCheck } from '../../../src/operate/doctor/service.ts'
import { judgeServer, judgeTransport } from '../../../src/operate/doctor/warehouse.ts'
import { inboxCheck, secretChecks } from '../../../src/operate/doctor/webhooks.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { json, startService } from '../../api/support/service.ts'
import { createTestDatabase } from '../../support/database.ts'
import { ask } from '../../support/sessions.ts'

const NEWER = 'install the newest long-term release of Node (nodejs.org)'
const DISK = 'free space, or move the data to a larger disk'
const TLS = 'set sslmode=verify-full in DATABASE_URL, unless the network is private'
const GB = 1024 ** 3

const port = (host: string, number: number) =>
  portCheck({ name: 'admin port', variable: 'INTAKE_ADMIN_PORT', host, port: number }, false)

const free = (gigabytes: string) => `${gigabytes} GB are free on the disk of the warehouse`

test.each<[Check | Promise<Check>, ...(string | null)[]]>([
  [nodeCheck('v18.2.0', '2026-01-01'), 'node', 'failed', 'Node v18.2.0 is older than 20.19', NEWER],
  [nodeCheck('v20.18.9', '2026-01-01'), 'node', 'failed', 'Node v20.18.9 is older than 20.19', NEWER],
  [
    ...[nodeCheck('v20.19.0', '2026-05-01'), 'node', 'warning'],
    ...['Node v20.19.0 is past its end of life (2026-04-30)', NEWER],
  ] as const,
  [nodeCheck('v25.0.0', '2026-01-01'), 'node', 'warning', 'Node v25.0.0 is not a long-term release', NEWER],
  [nodeCheck('v24.0.0', '2028-04-30'), 'node', 'ok', 'Node v24.0.0', null],
  [
    ...[nodeCheck('v24.0.0', '2028-05-01'), 'node', 'warning'],
    ...['Node v24.0.0 is past its end of life (2028-04-30)', NEWER],
  ] as const,
  [nodeCheck('v26.0.0', '2029-04-30'), 'node', 'ok', 'Node v26.0.0', null],
  [diskCheck(0), 'disk', 'failed', free('0.0'), DISK],
  [diskCheck(GB), 'disk', 'warning', free('1.0'), DISK],
  [diskCheck(3.25 * GB), 'disk', 'ok', free('3.3'), null],
  [diskCheck(null), 'disk', 'ok', 'the warehouse is on another machine; a write to it succeeds', null],
  [judgeServer(14, '14.1'), 'database', 'failed', 'Postgres 14.1 is older than 15', 'use Postgres 15 to 18'],
  [
    ...[judgeServer(19, '19beta1'), 'database', 'warning'],
    ...['Postgres 19beta1 is newer than the tested versions', 'use Postgres 15 to 18'],
  ] as const,
  [judgeServer(17, '17.2'), 'database', 'ok', 'Postgres 17.2', null],
  [
    ...[judgeTransport({ tls: 'TLSv1.3', isLocal: true }, true), 'database transport', 'ok'],
    ...['TLSv1.3, and the server is verified', null],
  ] as const,
  [
    ...[judgeTransport({ tls: 'TLSv1.3', isLocal: true }, false), 'database transport', 'ok'],
    ...['within this machine', null],
  ] as const,
  [
    ...[judgeTransport({ tls: 'TLSv1.2', isLocal: false }, false), 'database transport', 'warning'],
    ...['TLSv1.2, but the server is not verified', TLS],
  ] as const,
  [
    ...[judgeTransport({ tls: null, isLocal: false }, false), 'database transport', 'warning'],
    ...['not encrypted', TLS],
  ] as const,
  [rateLimitCheck({}, ''), 'rate limit', 'ok', 'learned from answers (no INTAKE_RATE_LIMIT)', null],
  [
    ...[
      rateLimitCheck({ rateLimit: { requests: 2, seconds: 30 } }, ' of north'),
      'rate limit of north',
      'ok',
    ],
    ...['at most 2 requests in 30 s, in each process', null],
  ] as const,
  [port('127.0.0.1', 0), 'admin port', 'ok', 'any free port', null],
  [
    ...[port('192.0.2.1', 9), 'admin port', 'failed'],
    ...['192.0.2.1 is not an address of this machine (EADDRNOTAVAIL)', 'correct INTAKE_ADMIN_HOST'],
  ] as const,
  [
    ...[
      failedBy('any', new IntakeError('away', { code: 'schema', verdict: 'retry', hint: 'start it' })),
      ...['any', 'failed', 'away', 'start it'],
    ],
  ] as never,
  [
    ...[
      failedBy('any', new IntakeError('away', { code: 'schema', verdict: 'retry' })),
      ...['any', 'failed', 'away', 'run doctor again; report the error if it persists'],
    ],
  ] as never,
])('%o', async (check, name, status, detail, hint) => {
  expect(await check).toEqual({ name, status, detail, hint })
})

const KEY = Buffer.alloc(32, 7).toString('base64')
const WRONG = 'set INTAKE_ENCRYPTION_KEY to the key that encrypted them'

test('what is wrong with webhooks comes with what to do', async () => {
  const secrets = await secretChecks(null, [{ name: 'north', teamId: null, configured: 0 }], null)
  expect(secrets.map(({ hint }) => hint)).toEqual([
    'run intake-sync webhooks create, or set INTAKE_WEBHOOK_SECRETS',
    'set it to 32 random bytes: openssl rand -base64 32',
  ])
  await using database = await createTestDatabase()
  await using session = await openSession({ url: database.url, purpose: 'test' })
  await ask(
    database.url,
    `insert into intake_ops.webhook_secrets (team_id, config_id, secret) values (1, 'c', '\\x00'), (2, 'c', '\\x00')`,
  )
  const stored = (key: string | null) =>
    secretChecks(
      session,
      [1, 2].map((teamId) => ({ name: `t${teamId}`, teamId, configured: teamId - 1 })),
      key,
    )
  const [first, second] = [
    {
      ...{ name: 'webhook secret of t1', status: 'failed', hint: 'see encryption key' },
      detail: 'none is usable: the stored ones cannot be decrypted',
    },
    { name: 'webhook secret of t2', status: 'ok', detail: '1 configured, 0 stored', hint: null },
  ]
  const key = (detail: string, hint: string) => ({ name: 'encryption key', status: 'failed', detail, hint })
  const of = 'webhook secret(s) are stored encrypted, and INTAKE_ENCRYPTION_KEY is not set'
  expect(await stored(null)).toEqual([first, second, key(`2 ${of}`, WRONG)])
  expect(await stored(KEY)).toEqual([
    ...[first, second],
    key(
      '2 of 2 stored webhook secret(s) were encrypted with another key, or changed',
      `${WRONG}; if it is lost, create the webhooks again`,
    ),
  ])
  const store = (day: string, minutes: number, id = '') =>
    ask(
      database.url,
      `insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, body)
       values (1, 'e${id}', '\\x00', ${day}, now() - interval '${minutes} minutes', '{}')`,
    )
  const inbox = (status: string, detail: string, hint: string | null) => {
    return { name: 'inbox', status, detail, hint }
  }
  await store(`'2020-01-01'`, 14)
  expect(await inboxCheck(session)).toEqual(
    inbox(
      ...(['warning', 'events are in the default partition'] as const),
      'run intake-sync serve: it moves them to the partitions of their days',
    ),
  )
  await store(`'2020-01-01'`, 17, '2')
  expect(await inboxCheck(session)).toEqual(
    inbox(
      ...(['failed', '2 event(s) pending, the oldest for 17 minutes: nothing drains them'] as const),
      'run intake-sync serve, and read its log',
    ),
  )
})

test('of two teams, one has no credentials and one has all that the service gives: every check of both, in order', async () => {
  const headers = { date: new Date().toUTCString(), 'x-service-environment': 'production' }
  await using service = await startService((_, response) =>
    json(response, { count: 0, next: null, results: [] }, 200, headers),
  )
  await using database = await createTestDatabase()
  await ask(
    database.url,
    `insert into intake.teams (name) values ('north'), ('south');
     insert into intake_ops.alerts (team_id, cause, attempts) values (1, 'drift', 2), (2, 'drift', 3), (1, 'defect', 0)`,
  )
  const access = { baseUrl: service.url, apiKey: 'k', apiSecret: 's', apiVersion: '', concurrency: 1 }
  const options = {
    ...{ url: database.url, dataDir: '/of/it', encryptionKey: KEY, cron: null, clock: systemClock },
    ingestTeams: [
      { name: 'north', webhookSecrets: ['one', 'two'] },
      { name: 'south', webhookSecrets: [] },
    ],
    teams: [{ ...access, name: 'south', timezone: 'Europe/Paris' }],
    webhook: { name: 'webhook port', variable: 'W', host: '127.0.0.1', port: 0 },
    admin: { name: 'admin port', variable: 'A', host: '127.0.0.1', port: 0 },
    ...{ logger: pino({ level: 'silent' }), signal: new AbortController().signal },
    freeBytes: async () => 5 * GB,
  }
  const linesOf = (checks: readonly Check[]) =>
    checks.map(({ name, status, detail, hint }) =>
      [name, status, detail, hint].filter((each) => each !== null),
    )
  const shown = linesOf(await runChecks({ ...options, alerts: { secret: 'a' } }))
  const alerts = ['alerts', 'warning', '2 could not be posted, tried 3 time(s)']
  const at = shown.findIndex(([name]) => name === 'schema')
  expect(shown[at]).toEqual(['schema', 'ok', expect.stringMatching(/^\d+ migrations, up to date$/)])
  expect(shown.slice(0, at).map(([name, status]) => [name, status])).toEqual(
    ['database', 'database transport', 'database sessions', 'database encoding', 'database writes'].map(
      (name) => [name, 'ok'],
    ),
  )
  const rest = (own: readonly string[]) => [
    ['database privileges', 'ok', 'this login may write every table'],
    ['roles', 'ok', 'intake_loader, intake_analyst, intake_clinical, intake_researcher'],
    ['questions', 'ok', 'no reworded question waits for a decision'],
    ['slices', 'ok', 'no planned run waits for a worker'],
    ['disk', 'ok', '5.0 GB are free on the disk of the warehouse'],
    ['time zones', 'ok', 'Europe/Paris'],
    [
      ...['credentials of north', 'failed'],
      'INTAKE_BASE_URL, INTAKE_API_KEY and INTAKE_API_SECRET are not set',
      'set all three, or the values of the team in INTAKE_CONFIG',
    ],
    ['credentials of south', 'ok', 'the service accepts them'],
    ['environment of south', 'ok', 'production'],
    ['clock of south', 'ok', expect.any(String)],
    ['rate limit of south', 'ok', 'learned from answers (no INTAKE_RATE_LIMIT)'],
    ['webhook secret of north', 'ok', '2 configured, 0 stored'],
    [
      ...['webhook secret of south', 'warning', 'none: the response to every webhook is 503'],
      'run intake-sync webhooks create, or set INTAKE_WEBHOOK_SECRETS',
    ],
    ['encryption key', 'ok', 'set'],
    ['inbox', 'ok', 'no event yet; serve creates the partitions'],
    ['schedule', 'ok', 'off'],
    own,
    ['webhook port', 'ok', 'any free port'],
    ['admin port', 'ok', 'any free port'],
  ]
  const hint = 'check INTAKE_ALERT_URL, and that its receiver is running'
  expect(shown.slice(at + 1)).toEqual(rest([...alerts, hint]))
  // Without waiting posts, or without a warehouse that could tell, the secret decides.
  await ask(database.url, 'update intake_ops.alerts set attempts = 0')
  for (const [secret, ...own] of [
    ['a', 'ok', 'posted to INTAKE_ALERT_URL, signed'],
    [
      ...[null, 'warning', 'posted to INTAKE_ALERT_URL without a signature'],
      'set INTAKE_ALERT_SECRET, so that the receiver can verify the sender',
    ],
  ] as const) {
    const again = linesOf(await runChecks({ ...options, alerts: { secret } }))
    expect(again.slice(at + 1)).toEqual(rest(['alerts', ...own]))
    const without = linesOf(await runChecks({ ...options, url: null, alerts: { secret } }))
    const known = rest(['alerts', ...own]).filter(([name]) => name !== 'inbox')
    expect(without).toEqual([
      [
        ...['database', 'warning', 'there is no warehouse yet; the first command that needs it creates it'],
        'run intake-sync migrate, or set DATABASE_URL',
      ],
      ...known.slice(6),
    ])
  }
})
