/** What doctor says of the secrets of webhooks, and of the inbox. */
import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { inboxCheck, secretChecks } from '../../../src/operate/doctor/webhooks.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { placeOf, seal, storeSecret } from '../../../src/warehouse/webhook-secrets.ts'
import { createTestDatabase } from '../../support/database.ts'

const KEY = randomBytes(32).toString('base64')
const shortOf = (
  checks: readonly { readonly name: string; readonly status: string; readonly detail: string }[],
) => checks.map(({ name, status, detail }) => `${name}: ${status}, ${detail}`)

test('without a warehouse the configured secrets count, of each team its own', async () => {
  const teams = [
    { name: 'north', teamId: null, configured: 2 },
    { name: 'south', teamId: 1, configured: 0 },
  ]
  const none = 'none: the response to every webhook is 503'
  expect(shortOf(await secretChecks(null, teams, KEY))).toEqual([
    'webhook secret of north: ok, 2 configured, 0 stored',
    `webhook secret of south: warning, ${none}`,
    'encryption key: ok, set',
  ])
  expect(shortOf(await secretChecks(null, teams.slice(1), null))).toEqual([
    `webhook secret: warning, ${none}`,
    'encryption key: warning, INTAKE_ENCRYPTION_KEY is not set; webhooks create needs it',
  ])
})

test('stored secrets count for their team if the key opens them', async () => {
  await using warehouse = await createTestDatabase()
  await using session = await openSession({ url: warehouse.url, purpose: 'test' })
  const other = randomBytes(32)
  for (const [teamId, configId, key] of [
    [1, 'a', Buffer.from(KEY, 'base64')],
    [1, 'b', other],
    [2, 'a', other],
  ] as const) {
    const place = { teamId, configId }
    await storeSecret(session.db, place, seal('whsec', key, placeOf(place)))
  }
  const teams = [1, 2, 3].map((teamId) => ({ name: `t${teamId}`, teamId, configured: 0 }))
  expect(shortOf(await secretChecks(session, teams, KEY))).toEqual([
    'webhook secret of t1: ok, 0 configured, 1 stored',
    'webhook secret of t2: failed, none is usable: the stored ones cannot be decrypted',
    'webhook secret of t3: warning, none: the response to every webhook is 503',
    'encryption key: failed, 2 of 3 stored webhook secret(s) were encrypted with another key, or changed',
  ])
  expect(shortOf(await secretChecks(session, teams, null)).at(-1)).toMatch(
    /^encryption key: failed, 3 webhook secret\(s\) are stored encrypted/,
  )
  await session.client.query(`delete from intake_ops.webhook_secrets where config_id = 'b' or team_id = 2`)
  expect(shortOf(await secretChecks(session, teams, KEY)).at(-1)).toBe(
    'encryption key: ok, set, and decrypts 1 stored secret(s)',
  )
})

test('the inbox needs a process that drains it and creates its days, which are those of UTC', async () => {
  await using warehouse = await createTestDatabase()
  await using session = await openSession({ url: warehouse.url, purpose: 'test' })
  const run = (text: string) => session.client.query(text)
  const check = async () => shortOf([await inboxCheck(session)])[0]
  const store = (minutes: number, status: string) =>
    run(
      `insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, body, status)
       values (1, '${status}', '\\x00', (now() at time zone 'UTC')::date, now() - interval '${minutes} minutes', '{}', '${status}')`,
    )
  expect(await check()).toBe('inbox: ok, no event yet; serve creates the partitions')
  await store(60, 'dead')
  await store(16, 'pending')
  expect(await check()).toMatch(/^inbox: failed, 1 event\(s\) pending, the oldest for 16 minutes/)
  await run(
    `update intake_raw.inbox set received_at = now() - interval '13 minutes' where status = 'pending'`,
  )
  expect(await check()).toBe('inbox: warning, events are in the default partition')
  await run('delete from intake_raw.inbox')
  await run(`select intake_raw.add_inbox_day((now() at time zone 'UTC')::date - 9, 0)`)
  expect(await check()).toBe('inbox: warning, there is no partition for today')
  await run(`select intake_raw.add_inbox_day((now() at time zone 'UTC')::date, 0)`)
  await store(1, 'pending')
  // Of a day without a partition, while other days have theirs.
  await run(
    `insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, body, status)
     values (1, 'early', '\\x00', '2020-01-01', now(), '{}', 'done')`,
  )
  expect(await check()).toBe('inbox: warning, events are in the default partition')
  await run(`delete from intake_raw.inbox where event_id = 'early'`)
  // At any moment one of these has another date than UTC.
  for (const zone of ['Pacific/Kiritimati', 'Etc/GMT+12']) {
    await run(`set time zone '${zone}'`)
    expect(await check()).toBe('inbox: ok, 1 event(s) pending; 2 day(s) have a partition')
  }
})
