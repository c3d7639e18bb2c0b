/** Alerts as the receiver sees them: over real HTTP, from a real warehouse with failures in its tables. */
import { describe, expect, it } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { openAlerts, runRound } from '../../../src/operate/alerts/round.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { tryLock, unlock } from '../../../src/warehouse/locks.ts'
import { query } from '../../e2e/support/scene.ts'
import { openWatchedClock } from '../../support/sleeps.ts'
import { shortOf } from './receiver.ts'
import { openScene, plantRun, type Scene } from './scene.ts'

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
    expect(cleared).toEqual({
      ...{ ...raised, status: 'cleared', text: 'the last backfill did not fail', hint: null, mend: null },
      cleared_at: expect.stringMatching(/^\d{4}-/),
    })
    expect(scene.receiver.posts[1]!.document.text).toBe(
      'cleared: north (patients): the last backfill did not fail',
    )
    // A new occurrence is a new alert, and does not wait for a pause that was announced before.
    await scene.query(`update intake_ops.alerts set due_at = now() + interval '20 minutes'`)
    const run = await plantRun(scene, { status: 'failed', streams: { patients: 'failed' } })
    expect(await scene.posted()).toEqual(['raised backfill_failed north patients'])
    const again = scene.receiver.posts.at(-1)!.document.alerts[0]!
    expect(again).toMatchObject({ cleared_at: null, figures: { run_id: Number(run) } })
    expect(again.id).not.toBe(raised!.id)
    expect(Date.parse(again.raised_at)).toBeGreaterThanOrEqual(Date.parse(cleared!.cleared_at!))
    // The log counts what was posted, not what is raised.
    const counts = scene.said.map((line) => JSON.parse(line) as { msg: string; alerts: number })
    expect(counts.map(({ msg, alerts }) => [msg, alerts])).toEqual(Array(3).fill(['alerts posted', 1]))
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
    expect(Math.abs(Date.parse(document.sent_at) - Date.now())).toBeLessThan(600_000)
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

  it('is posted unsigned if there is no secret, and dated by the clock of the process', async () => {
    const scene = await openScene({ secret: null })
    await plantRun(scene, { status: 'failed', streams: { patients: 'failed' } })
    const clock = { ...systemClock, now: () => Date.UTC(2031, 1, 2, 3, 4, 5, 6) * 1000 }
    const options = { ...scene.options, clock }
    expect(await runRound(options, { thorough: true, insist: false })).toBe('posted')
    const { headers, document } = scene.receiver.posts[0]!
    expect(headers).not.toHaveProperty('x-service-signature')
    expect(document.sent_at).toBe('2031-02-02T03:04:05.006Z')
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
    // Further dead letters are not posted.
    await scene.query(
      `insert into intake_ops.dead_letters (team_id, stream, fingerprint, origin, reason)
       select team_id, 'patients', 'y', 'page', 'why' from intake.teams where name = 'south'`,
    )
    expect(await scene.posted()).toEqual([])
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
    const lines = scene.said.map((line) => {
      const { time: _, ...said } = JSON.parse(line) as { time: number }
      return said
    })
    const delayed = (why: string) => ({
      ...{
        level: 40,
        code: 'alerts_refused',
        hint: 'check INTAKE_ALERT_URL, and that its receiver is running',
      },
      msg: `alerts are delayed: INTAKE_ALERT_URL did not accept the alerts: ${why}`,
    })
    expect(lines).toEqual([
      ...['it responded 500', 'it responded 307', 'ECONNREFUSED'].map(delayed),
      { level: 30, alerts: 1, msg: 'alerts posted' },
    ])
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
    const failsFor = async (attempts: number) => {
      await scene.query('update intake_ops.alerts set due_at = now(), attempts = $1', [attempts])
      expect(await scene.round()).toBe('failed')
      return await pause()
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
    // At most half an hour, however often it failed.
    for (const attempts of [8, 20, 5_000]) expect(await failsFor(attempts)).toBeLessThanOrEqual(1_800)
    expect(await failsFor(30)).toBeGreaterThan(900)
    await scene.query("update intake_ops.drift set last_seen = now() - interval '8 days'")
    await failsForHalfAMinute()
    // An end that was not posted is not found again.
    expect(await scene.round()).toBe('quiet')
  })

  it('gets all pending alerts as soon as one of them is due, the oldest first', async () => {
    const scene = await openScene()
    scene.receiver.answer(503)
    await scene.query(
      `insert into intake_ops.drift (team_id, stream, path, type, count)
       select team_id, 'forms', 'a', 'string', 1 from intake.teams where name = 'south'`,
    )
    await plantRun(scene, { status: 'failed', streams: { patients: 'failed' } })
    expect(await scene.round()).toBe('failed')
    scene.receiver.taken()
    scene.receiver.answer(200)
    expect(await scene.round()).toBe('quiet')
    await plantRun(scene, { status: 'failed', streams: { forms: 'failed' } })
    expect(await scene.posted()).toEqual([
      'raised backfill_failed north patients',
      'raised drift south forms',
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
    // Nothing waits for a post then, so doctor has nothing to warn of.
    expect(await scene.query('select attempts from intake_ops.alerts')).toEqual([{ attempts: 0 }])
    scene.receiver.answer(200)
    await plantRun(scene, { streams: { patients: 'succeeded' } })
    scene.receiver.taken()
    expect(await scene.posted()).toEqual(['cleared backfill_failed north patients'])
  })

  it('gets a cause again that returns before its end could be posted, if it is more than before', async () => {
    const scene = await openScene()
    const reword = (id: string) =>
      scene.query(
        `insert into intake_raw.question_terms (team_id, form_id, question_id, position, kind, shows, waits)
         select team_id, 'f', $1, 1, 'text', 'nothing', true from intake.teams where name = 'north'`,
        [id],
      )
    await reword('q1')
    expect(await scene.posted()).toEqual(['raised questions_waiting north'])
    scene.receiver.answer(503)
    await scene.query('update intake_raw.question_terms set waits = false')
    expect(await scene.round()).toBe('failed')
    await reword('q2')
    await scene.query('update intake_raw.question_terms set waits = true')
    scene.receiver.answer(200)
    scene.receiver.taken()
    expect(await scene.posted()).toEqual(['raised questions_waiting north'])
    expect(scene.receiver.posts.at(-1)!.document.alerts[0]!.figures).toEqual({ questions: 2 })
  })
})

it('a run that ends is evaluated at once, whenever the next round is; each post is counted by its outcome', async () => {
  const scene = await openScene()
  const delivered: boolean[] = []
  const { signal: _, webhookChecks: __, ...options } = scene.options
  const onPosted = (isDelivered: boolean) => void delivered.push(isDelivered)
  await using alerts = openAlerts({ ...options, inboxDays: 30, everyMs: 3_600_000, onPosted })
  await plantRun(scene, { status: 'failed', streams: { patients: 'failed' } })
  alerts.wake()
  await expect.poll(() => delivered).toEqual([true])
  scene.receiver.answer(500)
  await plantRun(scene, { streams: { patients: 'succeeded' } })
  alerts.wake()
  await expect.poll(() => delivered).toEqual([true, false])
  expect(scene.receiver.posts.flatMap(shortOf)).toEqual([
    'raised backfill_failed north patients',
    'cleared backfill_failed north patients',
  ])
})

/** Rounds that begin when the test says so, and have ended when `round` resolves to what they posted. */
function openRounds(scene: Scene) {
  const resting: (() => void)[] = []
  const sleep = (_: number, signal?: AbortSignal) =>
    new Promise<void>((resolve) => {
      resting.push(resolve)
      signal?.addEventListener('abort', () => resolve())
    })
  const { signal: _, webhookChecks: __, ...options } = { ...scene.options, clock: { ...systemClock, sleep } }
  const delivered: boolean[] = []
  const alerts = openAlerts({ ...options, inboxDays: 30, onPosted: (isIt) => void delivered.push(isIt) })
  const round = async () => {
    resting.pop()!()
    await expect.poll(() => resting.length).toBe(1)
    return scene.receiver.taken().flatMap(shortOf)
  }
  return { delivered, round, [Symbol.asyncDispose]: () => alerts[Symbol.asyncDispose]() }
}

it('the first round evaluates everything, and of the following each fourth', async () => {
  const scene = await openScene()
  await using rounds = openRounds(scene)
  const { round } = rounds
  await plantRun(scene, { status: 'failed', streams: { patients: 'failed' } })
  expect(await round()).toEqual(['raised backfill_failed north patients'])
  await plantRun(scene, { streams: { patients: 'succeeded' } })
  for (let time = 1; time < 4; time += 1) expect(await round()).toEqual([])
  expect(await round()).toEqual(['cleared backfill_failed north patients'])
})

it('a round that another process has, or that has nothing to post, counts as no post', async () => {
  const scene = await openScene()
  await using rounds = openRounds(scene)
  const { round, delivered } = rounds
  await plantRun(scene, { status: 'failed', streams: { patients: 'failed' } })
  {
    await using other = await openSession({ url: scene.url, purpose: 'other' })
    expect(await tryLock(other, 'alerts', 'alerts')).toBe(true)
    expect(await round()).toEqual([])
    await unlock(other, 'alerts', 'alerts')
  }
  for (let time = 0; time < 4; time += 1) await round()
  expect(delivered).toEqual([true])
  expect(scene.said).toHaveLength(1)
})

it('closed, it leaves no timer', async () => {
  const scene = await openScene()
  const { clock, sleeping } = openWatchedClock()
  const { signal: _, webhookChecks: __, ...options } = { ...scene.options, clock }
  const delivered: boolean[] = []
  {
    const onPosted = (isDelivered: boolean) => void delivered.push(isDelivered)
    await using alerts = openAlerts({ ...options, inboxDays: 30, onPosted })
    await plantRun(scene, { status: 'failed', streams: { patients: 'failed' } })
    alerts.wake()
    await expect.poll(() => delivered).toEqual([true])
  }
  expect(await sleeping()).toEqual([])
})

it('an alert whose cause only a later version knows is left alone, and stops no other', async () => {
  const scene = await openScene()
  await scene.query(
    `insert into intake_ops.alerts (team_id, cause) select team_id, 'of_a_later_version' from intake.teams where name = 'north'`,
  )
  const stored = () => scene.query(`select * from intake_ops.alerts where cause = 'of_a_later_version'`)
  const before = await stored()
  await plantRun(scene, { status: 'failed', streams: { patients: 'failed' } })
  expect(await scene.posted()).toEqual(['raised backfill_failed north patients'])
  expect(await stored()).toEqual(before)
})

it('a round that is stopped while its receiver hangs has not failed: the next one posts at once, and nothing is reported', async () => {
  const scene = await openScene()
  await plantRun(scene, { status: 'failed', streams: { patients: 'failed' } })
  scene.receiver.answer('hang')
  const stop = new AbortController()
  const stopped = runRound({ ...scene.options, signal: stop.signal }, { thorough: true, insist: false })
  await expect.poll(() => scene.receiver.taken().length).toBe(1)
  const stored = () => scene.query('select id, attempts, due_at from intake_ops.alerts')
  stop.abort()
  expect(await stopped).toBe('failed')
  expect(scene.said).toEqual([])
  expect(await stored()).toMatchObject([{ attempts: 0 }])
  scene.receiver.answer(200)
  expect(await scene.posted()).toEqual(['raised backfill_failed north patients'])
})
