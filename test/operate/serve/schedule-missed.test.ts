/** Scheduled times that no process took: skipped, or run once, by one process that starts or comes back. */
import pino from 'pino'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import type { Clock } from '../../../src/core/clock.ts'
import { type MissedTimes, openSchedule } from '../../../src/operate/serve/schedule.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { openWarehouse, query } from '../../e2e/support/scene.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
/** The timers of the library use the real time: it comes to this minute in half an hour. */
const MINUTE_OF_HOUR = (new Date().getMinutes() + 30) % 60
const EXPRESSION = `${MINUTE_OF_HOUR} * * * *`
/** A time of the schedule, and those before and after it. */
const at = (hours: number) => new Date(2026, 5, 10, 12 + hours, MINUTE_OF_HOUR)

/** A clock that stands still until it is set. */
function openClock(start: Date) {
  let now = start.getTime()
  const sleeping = new Set<{ readonly until: number; wake(): void }>()
  const clock: Clock = {
    now: () => now * 1000,
    sleep: (milliseconds, signal) =>
      new Promise((resolve, reject) => {
        const sleeper = { until: now + milliseconds, wake: resolve }
        sleeping.add(sleeper)
        signal?.addEventListener('abort', () => {
          sleeping.delete(sleeper)
          reject(signal.reason)
        })
      }),
  }
  return {
    clock,
    /** Processes that wait for their next look. */
    sleepers: () => sleeping.size,
    set(time: Date) {
      now = time.getTime()
      for (const sleeper of sleeping) {
        if (sleeper.until > now) continue
        sleeping.delete(sleeper)
        sleeper.wake()
      }
    },
  }
}

/** A warehouse with three teams. Each, but `new`, last took the time at(0). */
async function openScene(start: Date) {
  const warehouse = await openWarehouse()
  const { url } = warehouse
  await query(url, "insert into intake.teams (name) values ('north'), ('south'), ('new')")
  await query(
    url,
    `insert into intake_ops.schedule_ticks (team_id, job, due_at, taken_by)
     select team_id, job, due_at, gen_random_uuid() from intake.teams,
       (values ('backfill', $1::timestamptz), ('another', $2)) as tick (job, due_at) where name <> 'new'`,
    [at(0), at(9)],
  )
  const time = openClock(start)
  const runs: string[] = []
  const said: { readonly msg: string }[] = []
  const logger = pino({ base: null }, { write: (line: string) => void said.push(JSON.parse(line)) })
  const inProgress = new Set<() => void>()
  const open = (missed: MissedTimes, { isLong = false, teams = ['north', 'south', 'new'] } = {}) =>
    openSchedule({
      ...{ url, expression: EXPRESSION, job: 'backfill', teams, missed, clock: time.clock, logger },
      async run(names, signal) {
        runs.push(...names.map((name) => `${missed} ${name}`))
        if (!isLong || signal.aborted) return
        await new Promise<void>((resolve) => {
          inProgress.add(resolve)
          signal.addEventListener('abort', () => resolve())
        })
      },
    })
  const resting = (count: number) => expect.poll(time.sleepers).toBe(count)
  const taken = async (team: string) => {
    const rows = await query<{ due_at: Date }>(
      url,
      `select due_at from intake_ops.schedule_ticks join intake.teams using (team_id)
       where name = $1 and due_at > $2 and job = 'backfill' order by due_at`,
      [team, at(0)],
    )
    return rows.map(({ due_at }) => due_at)
  }
  const close = () => warehouse[Symbol.asyncDispose]()
  const finish = () => {
    for (const end of inProgress) end()
  }
  return { url, open, time, runs, said, resting, taken, finish, [Symbol.asyncDispose]: close }
}

describe('scheduled times that no process took', () => {
  it('are run once for each team by one of the processes that start after an outage, the last of them', async () => {
    await using scene = await openScene(new Date(at(5).getTime() + MINUTE))
    const { open, runs, resting, taken } = scene
    const all = [open('skip'), open('run'), open('run'), open('run')]
    await resting(3)
    await Promise.all(all.map((schedule) => schedule.close()))
    // A team that never had a scheduled time has missed none.
    expect(runs.toSorted()).toEqual(['run north', 'run south'])
    expect([await taken('north'), await taken('south'), await taken('new')]).toEqual([[at(5)], [at(5)], []])
    // Another that starts finds them taken.
    const later = open('run')
    await resting(1)
    await later.close()
    expect(runs).toHaveLength(2)
  })

  it('are run once by processes that come back, as soon as no run of the team is in progress', async () => {
    await using scene = await openScene(new Date(at(0).getTime() + MINUTE))
    const { open, time, runs, resting, taken, finish } = scene
    const both = [open('run', { isLong: true }), open('run', { isLong: true, teams: ['south'] })]
    await resting(2)
    expect(runs).toEqual([])
    // Less than ten minutes late: the timers may still start it.
    time.set(new Date(at(1).getTime() + 9 * MINUTE))
    await resting(2)
    expect(runs).toEqual([])
    time.set(new Date(at(7).getTime() + 20 * MINUTE))
    await expect.poll(() => runs.length).toBe(3)
    await resting(2)
    expect(runs.toSorted()).toEqual(['run new', 'run north', 'run south'])
    // Others are missed while they run.
    time.set(new Date(at(9).getTime() + 20 * MINUTE))
    await resting(2)
    expect(await taken('north')).toEqual([at(7)])
    await both[1]!.close()
    finish()
    // A run that has ended is in progress until its promises are settled.
    await new Promise(setImmediate)
    time.set(new Date(time.clock.now() / 1000 + MINUTE))
    await expect.poll(() => taken('north')).toEqual([at(7), at(9)])
    await both[0]!.close()
    expect(runs.filter((run) => run === 'run north')).toHaveLength(2)
  })

  it('are not those that a team skipped because its run was in progress', async () => {
    await using scene = await openScene(new Date(at(0).getTime() + MINUTE))
    const { open, time, runs, said, resting, finish, taken } = scene
    // The timers of the library; those of the connections are set and cleared, and never run out.
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'], now: at(1).getTime() - MINUTE })
    onTestFinished(() => void vi.useRealTimers())
    const schedule = open('run', { isLong: true, teams: ['north'] })
    await resting(1)
    await vi.advanceTimersByTimeAsync(MINUTE)
    await expect.poll(() => taken('north')).toEqual([at(1)])
    await expect.poll(() => runs).toEqual(['run north'])
    await vi.advanceTimersByTimeAsync(HOUR)
    expect(said).toMatchObject([{ msg: expect.stringMatching(/^skipped: /), teams: ['north'] }])
    finish()
    await new Promise(setImmediate)
    time.set(new Date(at(2).getTime() + 30 * MINUTE))
    await resting(1)
    expect([runs.length, said.length]).toEqual([1, 1])
    await schedule.close()
  })

  it('are not those that a team skipped while the one before waited for the warehouse', async () => {
    await using scene = await openScene(new Date(at(0).getTime() + MINUTE))
    const { url, open, time, runs, said, resting, finish, taken } = scene
    await query(
      url,
      `create function refuse() returns trigger language plpgsql
       as $$ begin raise exception 'try again' using errcode = '40001'; end $$`,
    )
    const refusal =
      'create trigger refuse before insert on intake_ops.schedule_ticks execute function refuse()'
    await query(url, refusal)
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'], now: at(1).getTime() - MINUTE })
    onTestFinished(() => void vi.useRealTimers())
    const schedule = open('run', { isLong: true, teams: ['north'] })
    await resting(1)
    await vi.advanceTimersByTimeAsync(MINUTE)
    // The look, and the pause before the next attempt.
    await resting(2)
    await vi.advanceTimersByTimeAsync(HOUR)
    expect(said).toMatchObject([{ msg: expect.stringMatching(/^skipped: /), teams: ['north'] }])
    await query(url, 'drop trigger refuse on intake_ops.schedule_ticks')
    time.set(new Date(at(2).getTime() + 30 * MINUTE))
    await expect.poll(() => runs).toEqual(['run north'])
    await resting(1)
    finish()
    await new Promise(setImmediate)
    time.set(new Date(at(2).getTime() + 40 * MINUTE))
    await resting(1)
    expect([runs.length, said.length, await taken('north')]).toEqual([1, 1, [at(1)]])
    await schedule.close()
  })

  it('are reported by the timers that notice them late, as after the sleep of a machine, and then run', async () => {
    await using scene = await openScene(new Date(at(0).getTime() + MINUTE))
    const { open, runs, said, resting, taken } = scene
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'], now: at(1).getTime() - MINUTE })
    onTestFinished(() => void vi.useRealTimers())
    const schedule = open('run', { teams: ['north'] })
    await resting(1)
    // The clock of the process has stood still, and does so.
    vi.setSystemTime(at(1).getTime() + 20 * MINUTE)
    await vi.advanceTimersByTimeAsync(MINUTE)
    await expect.poll(() => taken('north')).toEqual([at(1)])
    await expect.poll(() => runs).toEqual(['run north'])
    const due = at(1).toISOString()
    expect(said).toMatchObject([
      { due, msg: expect.stringMatching(/^missed: /) },
      { due, teams: ['north'], msg: expect.stringMatching(/^no process ran this time/) },
    ])
    await schedule.close()
  })

  it('are not run by a process that is closed while it looks for them, and closing waits for the look', async () => {
    await using scene = await openScene(new Date(at(5).getTime() + MINUTE))
    const { url, open, runs, said } = scene
    await using holder = await openSession({ url, purpose: 'holder' })
    await holder.client.query('begin; lock table intake_ops.schedule_ticks in access exclusive mode')
    const schedule = open('run')
    const waiting = `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
    await expect.poll(() => query(url, waiting)).toHaveLength(1)
    let isClosed = false
    const closing = schedule.close().then(() => {
      isClosed = true
    })
    expect(await query(url, waiting)).toHaveLength(1)
    expect(isClosed).toBe(false)
    await holder.client.query('rollback')
    await closing
    expect([runs, said]).toEqual([[], []])
  })

  it('are run once the warehouse accepts them again, and a failure is reported only once', async () => {
    await using scene = await openScene(new Date(at(2).getTime() + HOUR / 2))
    const { url, open, time, runs, said, resting, taken } = scene
    const count = (text: string) => said.filter(({ msg }) => msg.startsWith(text)).length
    await query(url, 'alter table intake_ops.schedule_ticks rename to away')
    const schedule = open('run')
    await resting(1)
    time.set(new Date(time.clock.now() / 1000 + MINUTE))
    await resting(1)
    expect(count('missed times are not known')).toBe(1)
    await query(url, 'alter table intake_ops.away rename to schedule_ticks')
    await query(
      url,
      `create function pg_temp_refuse() returns trigger language plpgsql
       as $$ begin raise exception 'refused' using errcode = '42501'; end $$`,
    )
    await query(
      url,
      'create trigger refuse before insert on intake_ops.schedule_ticks execute function pg_temp_refuse()',
    )
    time.set(new Date(time.clock.now() / 1000 + MINUTE))
    await expect.poll(() => count('the scheduled run did not start')).toBe(1)
    await query(url, 'drop trigger refuse on intake_ops.schedule_ticks')
    await resting(1)
    time.set(new Date(time.clock.now() / 1000 + MINUTE))
    await expect.poll(() => runs).toEqual(['run north', 'run south'])
    // The next failure is another.
    await query(url, 'alter table intake_ops.schedule_ticks rename to away')
    await resting(1)
    time.set(new Date(time.clock.now() / 1000 + HOUR))
    await expect.poll(() => count('missed times are not known')).toBe(2)
    await query(url, 'alter table intake_ops.away rename to schedule_ticks')
    await schedule.close()
    expect(await taken('south')).toEqual([at(2)])
  })
})
