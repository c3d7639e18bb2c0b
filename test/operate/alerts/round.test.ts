/** Alerts as the receiver sees them: over real HTTP, from a real warehouse with failures in its tables. */

import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import pino from 'pino'
import { describe, expect, it, onTestFinished } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { CAUSES } from '../../../src/operate/alerts/causes.ts'
import { type AlertSettings, runRound } from '../../../src/operate/alerts/round.ts'
import { openWebhookChecks } from '../../../src/operate/health/webhook-checks.ts'
import { connect, openWarehouse, query } from '../../e2e/support/scene.ts'
import { openReceiver, SECRET, shortOf } from './receiver.ts'

const CANARY = 'canary-5c1f'

async function openScene(settings: Partial<AlertSettings> = {}) {
  const warehouse = await openWarehouse()
  const receiver = await openReceiver()
  onTestFinished(async () => {
    await receiver[Symbol.asyncDispose]()
    await warehouse.drop()
  })
  const { url } = warehouse
  await query(url, "insert into intake.teams (name) values ('north'), ('south'), ('elsewhere')")
  const said: string[] = []
  const logger = pino({ base: null }, { write: (line: string) => void said.push(line) })
  const options = {
    ...{ url, logger, clock: systemClock, signal: new AbortController().signal, version: '1.2.3' },
    ...{ teams: ['north', 'south'], webhookChecks: openWebhookChecks({ inboxDays: 30 }) },
    settings: { url: receiver.url, secret: SECRET, inboxSeconds: 300, maxAgeHours: 26, ...settings },
  }
  const round = () => runRound(options, { thorough: true, insist: false })
  /** The alerts that one round posts, in short form. */
  const posted = async () => {
    const outcome = await round()
    const posts = receiver.taken().map(shortOf)
    expect([outcome, posts.length]).toEqual(posts.length === 0 ? ['quiet', 0] : ['posted', 1])
    return posts.flat()
  }
  return { url, receiver, options, round, posted, said, query: query.bind(null, url) }
}

type Scene = Awaited<ReturnType<typeof openScene>>

interface RunOptions {
  readonly kind?: string
  readonly status?: string
  readonly streams?: Readonly<Record<string, string>>
  readonly hoursAgo?: number
  readonly finished?: boolean
}

/** A run of team north over streams with these statuses. Returns its id. */
async function plantRun(scene: Scene, options: RunOptions = {}): Promise<string> {
  const { kind = 'backfill', status = 'succeeded', streams = {}, hoursAgo = 0, finished = true } = options
  const asked = JSON.stringify({ teams: ['north'], streams: Object.keys(streams) })
  const [run] = await query<{ run_id: string }>(
    scene.url,
    `insert into intake_ops.runs (kind, status, options, started_at, finished_at, error)
     values ($1, $2, $3, now() - make_interval(hours => $4), case when $5 then now() - make_interval(hours => $4) end, $6)
     returning run_id`,
    [kind, status, asked, hoursAgo, finished, CANARY],
  )
  if (kind !== 'backfill') return run!.run_id
  for (const [stream, how] of Object.entries(streams)) {
    await scene.query(
      `insert into intake_ops.run_streams (run_id, team_id, stream, status, note)
       select $1, team_id, $2, $3, $4 from intake.teams where name = 'north'`,
      [run!.run_id, stream, how, CANARY],
    )
  }
  return run!.run_id
}

describe('an alert', () => {
  it('is posted once, however long it lasts, and once when it is cleared', async () => {
    const scene = await openScene()
    await plantRun(scene, { status: 'failed', streams: { patients: 'failed', forms: 'succeeded' } })
    expect(await scene.posted()).toEqual(['raised backfill_failed north patients'])
    expect(await scene.posted()).toEqual([])
    await plantRun(scene, { status: 'failed', streams: { patients: 'failed', forms: 'succeeded' } })
    expect(await scene.posted()).toEqual([])
    await plantRun(scene, { streams: { patients: 'succeeded', forms: 'succeeded' } })
    expect(await scene.posted()).toEqual(['cleared backfill_failed north patients'])
    expect(await scene.posted()).toEqual([])
    const [raised, cleared] = scene.receiver.posts.map(({ document }) => document.alerts[0]!)
    expect(cleared!.id).toBe(raised!.id)
    expect(cleared!.cleared_at).not.toBeNull()
    // A new occurrence is a new alert.
    await plantRun(scene, { status: 'failed', streams: { patients: 'failed' } })
    expect(await scene.posted()).toEqual(['raised backfill_failed north patients'])
    expect(scene.receiver.posts.at(-1)!.document.alerts[0]!.id).not.toBe(raised!.id)
  })

  it('is posted as JSON with a hint, signed over its bytes, in one post per round', async () => {
    const scene = await openScene()
    const run = await plantRun(scene, { status: 'failed', streams: { patients: 'failed', forms: 'failed' } })
    await scene.posted()
    const { headers, path, document, isSigned } = scene.receiver.posts[0]!
    expect(isSigned).toBe(true)
    expect(path).toBe('/hooks/a-token?of=ours')
    expect(headers['content-type']).toBe('application/json')
    expect(headers['user-agent']).toBe('intake-sync/1.2.3')
    expect(document.version).toBe(1)
    expect(document.text).toBe(
      `raised: north (forms, patients): the last backfill failed (run ${run}) — intake-sync runs shows the reason`,
    )
    expect(document.alerts[0]).toEqual({
      ...{ id: expect.stringMatching(/^[0-9a-f-]{36}$/), status: 'raised', cause: 'backfill_failed' },
      ...{ team: 'north', stream: 'forms', raised_at: expect.stringMatching(/^\d{4}-/), cleared_at: null },
      ...{ figures: { run_id: Number(run) }, text: `the last backfill failed (run ${run})` },
      hint: 'intake-sync runs shows the reason',
      mend: 'intake-sync runs shows the reason',
    })
  })

  it('is posted unsigned if there is no secret', async () => {
    const scene = await openScene({ secret: null })
    await plantRun(scene, { status: 'failed', streams: { patients: 'failed' } })
    expect(await scene.posted()).toHaveLength(1)
    expect(scene.receiver.posts[0]!.headers).not.toHaveProperty('x-service-signature')
  })

  it('that several processes find at once is posted by one of them', async () => {
    const scene = await openScene()
    await plantRun(scene, { status: 'failed', streams: { patients: 'failed' } })
    const outcomes = await Promise.all(Array.from({ length: 5 }, scene.round))
    expect(outcomes.filter((outcome) => outcome === 'posted')).toHaveLength(1)
    expect(scene.receiver.posts).toHaveLength(1)
  })

  it('of a team that another process checks is left to that process', async () => {
    const scene = await openScene()
    await scene.query(
      `insert into intake_ops.dead_letters (team_id, stream, fingerprint, origin, reason)
       select team_id, 'patients', 'x', 'page', 'why' from intake.teams where name <> 'north'`,
    )
    expect(await scene.posted()).toEqual(['raised dead_letters south patients'])
  })
})

describe('a receiver', () => {
  it('that is unreachable, rejects or redirects gets the alert again later; the log does not show its URL', async () => {
    const scene = await openScene()
    await plantRun(scene, { status: 'failed', streams: { patients: 'failed' } })
    scene.receiver.answer(500)
    expect(await scene.round()).toBe('failed')
    expect(await scene.round()).toBe('quiet')
    const due = () => scene.query('update intake_ops.alerts set due_at = now()')
    await due()
    scene.receiver.answer(307, { location: scene.receiver.url })
    expect(await scene.round()).toBe('failed')
    await due()
    const away = {
      ...scene.options,
      settings: { ...scene.options.settings, url: 'http://127.0.0.1:1/hooks/a-token' },
    }
    expect(await runRound(away, { thorough: true, insist: false })).toBe('failed')
    expect(scene.receiver.taken()).toHaveLength(2)
    const [{ attempts, seconds }] = (await query<{ attempts: number; seconds: number }>(
      scene.url,
      'select attempts, extract(epoch from due_at - now())::float8 as seconds from intake_ops.alerts',
    )) as [{ attempts: number; seconds: number }]
    expect(attempts).toBe(3)
    // The pause doubles: 30 seconds, one minute, two.
    expect(seconds).toBeGreaterThan(60)
    expect(seconds).toBeLessThan(130)
    await due()
    scene.receiver.answer(200)
    expect(await scene.posted()).toEqual(['raised backfill_failed north patients'])
    const lines = scene.said.map((line) => JSON.parse(line) as { msg: string; code?: string })
    expect(lines.map(({ code }) => code)).toEqual([...Array<string>(3).fill('alerts_refused'), undefined])
    expect(lines[0]!.msg).toContain('it responded 500')
    expect(scene.said.join('')).not.toMatch(/a-token|hooks|127\.0\.0\.1/)
  })

  it('that was away for long gets the next post half a minute after something changed: a new finding, or the end of one', async () => {
    const scene = await openScene()
    const drift = (path: string) =>
      scene.query(
        `insert into intake_ops.drift (team_id, stream, path, type, count)
         select team_id, 'patients', $1, 'string', 1 from intake.teams where name = 'north'`,
        [path],
      )
    /** Seconds until the next post, which grow fewer while the test runs. */
    const pause = async () => {
      const [row] = await query<{ seconds: number }>(
        scene.url,
        'select extract(epoch from due_at - now())::float8 as seconds from intake_ops.alerts',
      )
      return row!.seconds
    }
    const failsForHalfAMinute = async () => {
      expect(await scene.round()).toBe('failed')
      expect(await pause()).toBeLessThanOrEqual(30)
    }
    const fails = async (times: number) => {
      scene.receiver.answer(503)
      for (let time = 0; time < times; time += 1) {
        await scene.query('update intake_ops.alerts set due_at = now()')
        expect(await scene.round()).toBe('failed')
      }
      expect(await pause()).toBeGreaterThan(60)
    }
    await drift('a')
    await fails(3)
    await drift('b')
    await failsForHalfAMinute()
    await fails(2)
    scene.receiver.answer(200)
    await scene.query('update intake_ops.alerts set due_at = now()')
    expect(await scene.round()).toBe('posted')
    // For doctor, which warns of alerts that cannot be posted.
    expect(await scene.query('select attempts from intake_ops.alerts')).toEqual([{ attempts: 0 }])
    await drift('c')
    await fails(3)
    await scene.query("update intake_ops.drift set last_seen = now() - interval '8 days'")
    await failsForHalfAMinute()
  })

  it('gets all pending alerts as soon as one of them is due', async () => {
    const scene = await openScene()
    scene.receiver.answer(503)
    await plantRun(scene, { status: 'failed', streams: { patients: 'failed' } })
    expect(await scene.round()).toBe('failed')
    scene.receiver.taken()
    scene.receiver.answer(200)
    expect(await scene.round()).toBe('quiet')
    await plantRun(scene, { status: 'failed', streams: { forms: 'failed' } })
    expect(await scene.posted()).toEqual([
      'raised backfill_failed north patients',
      'raised backfill_failed north forms',
    ])
  })

  it('does not get alerts that were raised and cleared while it was unreachable', async () => {
    const scene = await openScene()
    scene.receiver.answer(503)
    await plantRun(scene, { status: 'failed', streams: { patients: 'failed' } })
    expect(await scene.round()).toBe('failed')
    await plantRun(scene, { streams: { patients: 'succeeded' } })
    expect(await scene.round()).toBe('quiet')
  })

  it('gets no second raise when a cause returns before its end could be posted', async () => {
    const scene = await openScene()
    await plantRun(scene, { status: 'failed', streams: { patients: 'failed' } })
    expect(await scene.posted()).toHaveLength(1)
    scene.receiver.answer(503)
    await plantRun(scene, { streams: { patients: 'succeeded' } })
    expect(await scene.round()).toBe('failed')
    await plantRun(scene, { status: 'failed', streams: { patients: 'failed' } })
    expect(await scene.round()).toBe('quiet')
    scene.receiver.answer(200)
    await plantRun(scene, { streams: { patients: 'succeeded' } })
    scene.receiver.taken()
    expect(await scene.posted()).toEqual(['cleared backfill_failed north patients'])
  })
})

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
    expect(await scene.posted()).toEqual([
      'raised backfill_failed north forms',
      'raised backfill_needs_attention north patients',
    ])
    await plantRun(scene, {
      status: 'interrupted',
      streams: { patients: 'interrupted', forms: 'interrupted' },
    })
    expect(await scene.posted()).toEqual([])
    // Of exactly the streams of a run before.
    await plantRun(scene, { status: 'interrupted', streams: { patients: 'interrupted' } })
    expect(await scene.posted()).toEqual([])
  })

  it('a stream without a recent backfill raises an alert', async () => {
    const scene = await openScene()
    await plantRun(scene, { streams: { patients: 'succeeded', forms: 'succeeded' }, hoursAgo: 27 })
    await plantRun(scene, { streams: { forms: 'succeeded' }, hoursAgo: 3 })
    expect(await scene.posted()).toEqual(['raised backfill_overdue north patients'])
    expect(scene.receiver.posts[0]!.document.alerts[0]!.text).toBe('no backfill has ended for 27 hours')
    await plantRun(scene, { streams: { patients: 'succeeded' } })
    expect(await scene.posted()).toEqual(['cleared backfill_overdue north patients'])
  })

  it('nothing is overdue if that check is off', async () => {
    const scene = await openScene({ maxAgeHours: null })
    await plantRun(scene, { streams: { patients: 'succeeded' }, hoursAgo: 1_000 })
    expect(await scene.posted()).toEqual([])
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
    await plantRun(scene, { kind: 'replay', streams: { patients: '', forms: '' }, status: 'failed' })
    expect(await scene.posted()).toEqual(['raised replay_failed north'])
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
    const run = await plantRun(scene, {
      streams: { patients: '' },
      status: 'running',
      finished: false,
      hoursAgo: 1,
    })
    await scene.query('delete from intake_ops.run_streams')
    await scene.query(
      `insert into intake_ops.dead_letters (team_id, stream, record_id, fingerprint, origin, reason)
       select team_id, stream, '${CANARY}', 'x', 'page', '${CANARY}' from intake.teams, unnest(array['patients', 'forms']) stream
       where name = 'north'`,
    )
    const process = await connect(scene.url)
    await process.query('select pg_advisory_lock(intake_ops.lock_key(7204312, $1))', [run])
    expect(await scene.posted()).toEqual(['raised dead_letters north forms'])
    await process.end()
    await expect
      .poll(() => scene.query('select intake_ops.lock_holders(7204312, $1) as holders', [run]))
      .toEqual([{ holders: null }])
    expect(await scene.posted()).toEqual([
      'raised backfill_failed north patients',
      'raised dead_letters north patients',
    ])
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
