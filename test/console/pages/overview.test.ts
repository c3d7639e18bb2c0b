/** What there is to do for a team, and where it leads. */
import { expect, it } from 'vitest'
import { readOverview } from '../../../src/console/pages/overview.ts'
import { openWebhookChecks } from '../../../src/operate/health/webhook-checks.ts'
import { STREAMS } from '../../../src/streams/catalogue.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { openScene, plantRun } from '../../operate/alerts/scene.ts'

it('each thing to do leads to the page that shows it; a team without any has a first step', async () => {
  const scene = await openScene()
  await plantRun(scene, { streams: { packets: 'succeeded' }, hoursAgo: 40 })
  await plantRun(scene, { status: 'failed', streams: { patients: 'failed' } })
  await plantRun(scene, { status: 'needs_attention', streams: { forms: 'needs_attention' } })
  await plantRun(scene, { kind: 'replay', status: 'failed', streams: { patients: '' } })
  await plantRun(scene, { kind: 'verify', status: 'failed', streams: { documents: '' } })
  const verify = await plantRun(scene, {
    kind: 'verify',
    status: 'needs_attention',
    streams: { packets: '' },
  })
  await scene.query(
    `insert into intake_ops.verifications (run_id, team_id, stream, is_equal, source, warehouse, missing, extra, different, repaired,
       missing_ids, extra_ids, different_ids) values (${verify}, 1, 'packets', false, 1, 1, 4, 2, 1, 0, '{}', '{}', '[]');
     insert into intake_ops.drift (team_id, stream, path, type, count) values (1, 'patients', 'nick', 'string', 1);
     insert into intake_ops.dead_letters (team_id, stream, fingerprint, origin, reason) values
       (1, 'messages', 'x', 'x', 'x'), (1, 'forms', 'y', 'x', 'x'), (1, 'packets', 'z', 'x', 'x'), (1, 'forms', 'w', 'x', 'x');
     insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, source, body)
       values (1, 'e', '', current_date, now() - interval '6 minutes', 'patient', '{}')`,
  )
  // The first of the thirty days that are shown begins at midnight.
  await scene.query(
    `with loaded as (
       insert into intake_ops.runs (kind, status, options, started_at, finished_at)
       select 'backfill', 'succeeded', '{"teams": ["south"]}', at, at from unnest(array[
         date_trunc('day', now()) - interval '29 days', date_trunc('day', now()) - interval '29 days 1 second']) at
       returning run_id
     ) insert into intake_ops.run_streams (run_id, team_id, stream, status, changed, deleted)
       select run_id, 2, stream, 'succeeded', 5, 1 from loaded, unnest(array['forms', 'packets']) stream`,
  )
  await scene.query(
    `with loaded as (
       insert into intake_ops.runs (kind, status, options, finished_at)
       values ('backfill', 'succeeded', '{"teams": ["south"]}', now()) returning run_id
     ) insert into intake_ops.run_streams (run_id, team_id, stream, status)
       select run_id, 2, stream, 'succeeded' from loaded, unnest($1::text[]) stream`,
    [STREAMS.map(({ name }) => name)],
  )
  await using session = await openSession({ url: scene.url, purpose: 'overview' })
  const webhookChecks = openWebhookChecks({ inboxDays: 30 })
  const teams = await readOverview(session.db, { maxAgeHours: 26, webhookChecks })
  const of = (name: string) => teams.find(({ team }) => team === name)!
  const places = of('north').todo.map(({ text, href }) => `${text.replace(/\d+/g, 'N')} → ${href}`)
  expect(places.toSorted()).toEqual([
    'N event in the inbox, the oldest for N minutes → /inbox',
    'documents: the last verification failed (run N) → /runs',
    'forms: N dead letters waiting → /dead-letters',
    'forms: the last backfill needs attention (run N) → /runs',
    'messages, packets: N dead letter waiting → /dead-letters',
    'packets: no backfill has ended for N hours → /streams',
    'packets: tables differ from the service: N missing, N extra, N different (run N) → /verify',
    'patients: the last backfill failed (run N) → /runs',
    'patients: the service sent N unknown field or type → /streams',
    'the last replay failed or needs attention (run N) → /runs',
  ])
  expect(of('north').needs).toEqual({ mark: 'bad', text: `needs somebody: ${places.length} things to do` })
  expect(of('north').equal).toEqual({ mark: 'bad', text: '7 differences in 1 stream' })
  for (const { hint } of of('north').todo) expect(hint).not.toBe('')
  expect([of('south').todo, of('south').needs.mark]).toEqual([
    [{ text: 'prove that the tables equal the service', hint: 'start a verification', href: '/verify' }],
    'good',
  ])
  expect(of('south').rows).toEqual([12, ...Array(29).fill(0)])
  expect([of('elsewhere').todo, of('elsewhere').fresh.mark]).toEqual([
    [{ text: 'load the data for the first time', hint: 'intake-sync backfill', href: '/runs' }],
    'unknown',
  ])
})
