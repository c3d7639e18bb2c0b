/** What raises an alert, and what clears it: failures in the tables of a real warehouse. */
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { describe, expect, it } from 'vitest'
import { CAUSES } from '../../../src/operate/alerts/causes.ts'
import { runRound } from '../../../src/operate/alerts/round.ts'
import { connect } from '../../e2e/support/scene.ts'
import { CANARY, openScene, plantRun } from './scene.ts'

describe('causes', () => {
  it('a run that needs attention or whose process died raises an alert, and a run that was stopped does not', async () => {
    const scene = await openScene()
    await plantRun(scene, { status: 'needs_attention', streams: { patients: 'needs_attention' } })
    await plantRun(scene, {
      status: 'running',
      streams: { forms: 'succeeded' },
      finished: false,
      hoursAgo: 1,
    })
    await scene.query("delete from intake_ops.run_streams where stream = 'forms'")
    await plantRun(scene, { status: 'interrupted', streams: { packets: 'interrupted' } })
    // The next run found that its process had ended.
    await plantRun(scene, { status: 'interrupted', streams: { documents: 'interrupted' }, finished: false })
    await scene.query("delete from intake_ops.run_streams where stream = 'documents'")
    expect(await scene.posted()).toEqual([
      'raised backfill_failed north documents',
      'raised backfill_failed north forms',
      'raised backfill_needs_attention north patients',
    ])
    // Neither another kind of run of the same streams nor a run of another team replaces the outcome.
    await plantRun(scene, { kind: 'verify', streams: { patients: '' } })
    const other = await plantRun(scene, { streams: { patients: 'succeeded' } })
    await scene.query(
      `update intake_ops.runs set options = options || '{"teams": ["south"]}' where run_id = $1`,
      [other],
    )
    await scene.query(
      `update intake_ops.run_streams set team_id = (select team_id from intake.teams where name = 'south')
       where run_id = $1`,
      [other],
    )
    expect(await scene.posted()).toEqual([])
    await plantRun(scene, {
      status: 'interrupted',
      streams: { patients: 'interrupted', forms: 'interrupted' },
    })
    expect(await scene.posted()).toEqual([])
    // Of exactly the streams of a run before.
    await plantRun(scene, { status: 'interrupted', streams: { patients: 'interrupted' } })
    expect(await scene.posted()).toEqual([])
  })

  it('a run that has just begun has not failed, before its process is seen', async () => {
    const scene = await openScene()
    await plantRun(scene, {
      ...{ status: 'running', streams: { patients: 'succeeded' } },
      ...{ finished: false, hoursAgo: -1 },
    })
    await scene.query('delete from intake_ops.run_streams')
    expect(await scene.posted()).toEqual([])
    // Nor has one that workers execute, whenever it began.
    await scene.query(
      `update intake_ops.runs set started_at = now() - interval '1 hour', options = options || '{"is_detached": true}'`,
    )
    await scene.query(
      `insert into intake_ops.slices (run_id, team_id, stream, spec)
       select run_id, team_id, 'patients', '{"version": 1}' from intake_ops.runs, intake.teams where name = 'north'`,
    )
    await scene.query(`update intake_ops.slices set pending_since = now() + interval '1 hour'`)
    expect(await scene.posted()).toEqual([])
    await scene.query(`update intake_ops.slices set state = 'done', settled_at = now()`)
    expect(await scene.posted()).toEqual(['raised backfill_failed north patients'])
  })

  it('a stream without a recent backfill raises an alert', async () => {
    const scene = await openScene()
    await plantRun(scene, { streams: { patients: 'succeeded', forms: 'succeeded' }, hoursAgo: 27 })
    await plantRun(scene, { streams: { forms: 'succeeded' }, hoursAgo: 3 })
    // The time counts from the end of a run, however long it took.
    await plantRun(scene, { streams: { documents: 'succeeded' }, hoursAgo: 30 })
    await scene.query(
      `update intake_ops.runs set finished_at = now() - interval '25 hours' where options -> 'streams' ? 'documents'`,
    )
    expect(await scene.posted()).toEqual(['raised backfill_overdue north patients'])
    expect(scene.receiver.posts[0]!.document.alerts[0]!.text).toBe('no backfill has ended for 27 hours')
    await plantRun(scene, { streams: { patients: 'succeeded' } })
    expect(await scene.posted()).toEqual(['cleared backfill_overdue north patients'])
  })

  it('nothing is overdue if that check is off, and a run in progress hides no finding for longer than 26 hours', async () => {
    const scene = await openScene({ maxAgeHours: null })
    await plantRun(scene, { streams: { patients: 'succeeded' }, hoursAgo: 1_000 })
    expect(await scene.posted()).toEqual([])
    const run = await plantRun(scene, {
      ...{ streams: { patients: '' }, status: 'running' },
      ...{ finished: false, hoursAgo: 25 },
    })
    await scene.query(
      `insert into intake_ops.dead_letters (team_id, stream, fingerprint, origin, reason)
       select team_id, 'patients', 'x', 'page', 'why' from intake.teams where name = 'north'`,
    )
    const process = await connect(scene.url)
    await process.query('select pg_advisory_lock(intake_ops.lock_key(7204312, $1))', [run])
    expect(await scene.posted()).toEqual([])
    await scene.query(
      `update intake_ops.runs set started_at = started_at - interval '2 hours' where run_id = $1`,
      [run],
    )
    expect(await scene.posted()).toEqual(['raised dead_letters north patients'])
    await process.end()
  })

  it('a verification with differences raises an alert, until one is equal or has repaired them', async () => {
    const scene = await openScene()
    const verified = async (missing: number, repaired: number) => {
      const run = await plantRun(scene, {
        kind: 'verify',
        streams: { patients: '' },
        status: 'needs_attention',
      })
      await scene.query(
        `insert into intake_ops.verifications (run_id, team_id, stream, is_equal, source, warehouse, missing, extra,
           different, repaired, missing_ids, extra_ids, different_ids)
         select $1, team_id, 'patients', false, 9, 8, $2, 1, 0, $3, array['${CANARY}'], '{}', '[]'
         from intake.teams where name = 'north'`,
        [run, missing, repaired],
      )
      return run
    }
    const run = await verified(2, 0)
    expect(await scene.posted()).toEqual(['raised verify_differs north patients'])
    const { text } = scene.receiver.posts[0]!.document.alerts[0]!
    expect(text).toBe(`tables differ from the service: 2 missing, 1 extra, 0 different (run ${run})`)
    await verified(2, 3)
    expect(await scene.posted()).toEqual(['cleared verify_differs north patients'])
    await plantRun(scene, { kind: 'verify', streams: { patients: '' }, status: 'failed' })
    expect(await scene.posted()).toEqual(['raised verify_failed north patients'])
  })

  it('a verification whose exports differ from the responses raises an alert, though every table is equal', async () => {
    const scene = await openScene()
    const run = await plantRun(scene, {
      kind: 'verify',
      streams: { exports: '' },
      status: 'needs_attention',
    })
    await scene.query(
      `insert into intake_ops.verifications (run_id, team_id, stream, is_equal, source, warehouse, missing, extra,
         different, repaired, missing_ids, extra_ids, different_ids, deep)
       select $1, team_id, 'exports', true, 9, 9, 0, 0, 0, 0, '{}', '{}', '[]', $2
       from intake.teams where name = 'north'`,
      [run, JSON.stringify({ differences: [{ export_id: CANARY }] })],
    )
    expect(await scene.posted()).toEqual(['raised verify_differs north exports'])
  })

  it('a failed replay raises an alert for the whole team', async () => {
    const scene = await openScene()
    const failed = await plantRun(scene, {
      ...{ kind: 'replay', streams: { patients: '', forms: '' }, status: 'failed' },
    })
    expect(await scene.posted()).toEqual(['raised replay_failed north'])
    expect(scene.receiver.posts[0]!.document.text).toBe(
      `raised: north: the last replay failed or needs attention (run ${failed}) — intake-sync runs shows the reason`,
    )
    await plantRun(scene, { kind: 'replay', streams: { patients: '', forms: '' } })
    expect(await scene.posted()).toEqual(['cleared replay_failed north'])
  })

  it('an inbox older than the limit raises an alert, until it is well below the limit', async () => {
    const scene = await openScene()
    await scene.query(
      `insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, source, record_id, body)
       select team_id, 'e-1', '\\x00', current_date, now() - interval '4 minutes', 'patient', '${CANARY}', '${CANARY}'
       from intake.teams where name = 'north'`,
    )
    const age = (minutes: number) =>
      scene.query('update intake_raw.inbox set received_at = now() - make_interval(mins => $1)', [minutes])
    expect(await scene.posted()).toEqual([])
    await age(6)
    expect(await scene.posted()).toEqual(['raised inbox_old north'])
    expect(scene.receiver.posts[0]!.document.alerts[0]!.text).toBe(
      '1 event in the inbox, the oldest for 6 minutes',
    )
    await age(4)
    expect(await scene.posted()).toEqual([])
    await age(2)
    expect(await scene.posted()).toEqual(['cleared inbox_old north'])
  })

  it('silent webhooks raise an alert in a thorough round', async () => {
    const scene = await openScene()
    await scene.query(
      `insert into intake_ops.events_received (team_id, hour, events, last_at)
       select team_id, date_trunc('hour', now()) - make_interval(hours => ago), 30, now() - make_interval(hours => ago)
       from intake.teams, generate_series(30, 300) as ago where name = 'north'`,
    )
    expect(await runRound(scene.options, { thorough: false, insist: false })).toBe('quiet')
    expect(await scene.posted()).toEqual(['raised webhooks_silent north'])
    await scene.query(
      `insert into intake_ops.events_received (team_id, hour, events, last_at)
       select team_id, date_trunc('hour', now()) - make_interval(hours => ago), 30, now() - make_interval(hours => ago)
       from intake.teams, generate_series(0, 29) as ago where name = 'north'`,
    )
    // A round that does not check clears nothing.
    expect(await runRound(scene.options, { thorough: false, insist: false })).toBe('quiet')
    expect(await scene.posted()).toEqual(['cleared webhooks_silent north'])
  })

  it('questions that wait for a decision raise an alert, again for more of them, and clear it once all are decided on', async () => {
    const scene = await openScene()
    const reword = (id: string) =>
      scene.query(
        `insert into intake_raw.question_terms (team_id, form_id, question_id, position, kind, shows, waits)
         select team_id, 'f', $1, 1, 'text', 'nothing', true from intake.teams where name = 'north'`,
        [id],
      )
    await reword(CANARY)
    expect(await scene.posted()).toEqual(['raised questions_waiting north'])
    expect(await scene.posted()).toEqual([])
    await reword(`${CANARY}-2`)
    expect(await scene.posted()).toEqual(['raised questions_waiting north'])
    expect(scene.receiver.posts[1]!.document.alerts[0]!.figures).toEqual({ questions: 2 })
    await scene.query('update intake_raw.question_terms set waits = false')
    expect(await scene.posted()).toEqual(['cleared questions_waiting north'])
    // Fewer than before, but waiting again.
    await scene.query(`update intake_raw.question_terms set waits = true where question_id = '${CANARY}'`)
    expect(await scene.posted()).toEqual(['raised questions_waiting north'])
  })

  it('a defect raises an alert, again at a new place, and whenever one occurs after a week without', async () => {
    const scene = await openScene()
    const defect = (place: string) =>
      scene.query(
        `insert into intake_ops.defects (team_id, kind, place, count)
         select team_id, 'TypeError', $1, 3 from intake.teams where name = 'north'`,
        [place],
      )
    await defect('a.ts:1')
    expect(await scene.posted()).toEqual(['raised defect north'])
    await scene.query("update intake_ops.defects set count = 4, last_seen = now() - interval '6 days'")
    expect(await scene.posted()).toEqual([])
    await defect('b.ts:2')
    expect(await scene.posted()).toEqual(['raised defect north'])
    expect(scene.receiver.posts.at(-1)!.document.alerts[0]!.figures).toEqual({ kinds: 2, count: 7 })
    await scene.query("update intake_ops.defects set last_seen = now() - interval '8 days'")
    expect(await scene.posted()).toEqual(['cleared defect north'])
    await scene.query("update intake_ops.defects set last_seen = now() where place = 'a.ts:1'")
    expect(await scene.posted()).toEqual(['raised defect north'])
  })

  it('drift raises an alert, again for new drift, and clears it a week after it was last seen', async () => {
    const scene = await openScene()
    const drift = (path: string) =>
      scene.query(
        `insert into intake_ops.drift (team_id, stream, path, type, count)
         select team_id, 'patients', $1, 'string', 1 from intake.teams where name = 'north'`,
        [path],
      )
    await drift(CANARY)
    expect(await scene.posted()).toEqual(['raised drift north patients'])
    await scene.query('update intake_ops.drift set count = 2, last_seen = now()')
    expect(await scene.posted()).toEqual([])
    await drift(`${CANARY}-2`)
    expect(await scene.posted()).toEqual(['raised drift north patients'])
    expect(scene.receiver.posts[1]!.document.alerts[0]!.figures).toEqual({ fields: 2 })
    await scene.query("update intake_ops.drift set last_seen = now() - interval '6 days'")
    expect(await scene.posted()).toEqual([])
    await scene.query("update intake_ops.drift set last_seen = now() - interval '8 days'")
    expect(await scene.posted()).toEqual(['cleared drift north patients'])
    await scene.query('update intake_ops.drift set last_seen = now()')
    expect(await scene.posted()).toEqual([])
    await drift(`${CANARY}-3`)
    expect(await scene.posted()).toEqual(['raised drift north patients'])
  })

  it('drift raises an alert although the stream has other drift that was last seen long ago', async () => {
    const scene = await openScene()
    await scene.query(
      `insert into intake_ops.drift (team_id, stream, path, type, count, last_seen)
       select team_id, 'patients', path, 'string', 1, at from intake.teams
       cross join (values ('old', now() - interval '90 days'), ('new', now())) as drift (path, at)
       where name = 'north'`,
    )
    expect(await scene.posted()).toEqual(['raised drift north patients'])
  })

  it('findings that a running run may still change are posted when it has ended', async () => {
    const scene = await openScene()
    await plantRun(scene, { streams: { patients: 'succeeded' }, hoursAgo: 27 })
    const run = await plantRun(scene, {
      streams: { patients: '' },
      status: 'running',
      finished: false,
      hoursAgo: 1,
    })
    await scene.query('delete from intake_ops.run_streams where run_id = $1', [run])
    await scene.query(
      `insert into intake_ops.dead_letters (team_id, stream, record_id, fingerprint, origin, reason)
       select team_id, stream, '${CANARY}', 'x', 'page', '${CANARY}' from intake.teams, unnest(array['patients', 'forms']) stream
       where name = 'north'`,
    )
    const process = await connect(scene.url)
    await process.query('select pg_advisory_lock(intake_ops.lock_key(7204312, $1))', [run])
    expect(await scene.posted()).toEqual(['raised dead_letters north forms'])
    // A run that goes on for longer than a stream may be without a backfill hides nothing.
    await scene.query('update intake_ops.runs set started_at = $2 where run_id = $1', [
      run,
      new Date(Date.now() - 26.5 * 3_600_000),
    ])
    expect(await scene.posted()).toEqual([
      'raised backfill_overdue north patients',
      'raised dead_letters north patients',
    ])
    await process.end()
    await expect
      .poll(() => scene.query('select intake_ops.lock_holders(7204312, $1) as holders', [run]))
      .toEqual([{ holders: null }])
    expect(await scene.posted()).toEqual(['raised backfill_failed north patients'])
  })

  it('no id, path, reason or note of a record is in a post or in the log', async () => {
    const scene = await openScene()
    await plantRun(scene, { status: 'failed', streams: { patients: 'failed' } })
    await scene.query(
      `insert into intake_ops.dead_letters (team_id, stream, record_id, fingerprint, origin, reason)
       select team_id, 'forms', '${CANARY}', '${CANARY}', '${CANARY}', '${CANARY}' from intake.teams where name = 'north'`,
    )
    await scene.query(
      `insert into intake_ops.drift (team_id, stream, path, type, count)
       select team_id, 'packets', '${CANARY}', 'string', 1 from intake.teams where name = 'north'`,
    )
    expect(await scene.posted()).toHaveLength(3)
    expect(scene.receiver.posts.map(({ body }) => body.toString()).join('')).not.toContain(CANARY)
    expect(scene.said.join('')).not.toContain(CANARY)
    expect(JSON.stringify(await scene.query('select * from intake_ops.alerts'))).not.toContain(CANARY)
  })
})

it('docs/operations.md names every cause', () => {
  const text = readFileSync(resolve(import.meta.dirname, '../../../docs/operations.md'), 'utf8')
  const section = text.split('## Alerts')[1]!.split('\n## ')[0]!
  expect(CAUSES.filter((cause) => !section.includes(`\`${cause}\``))).toEqual([])
})
