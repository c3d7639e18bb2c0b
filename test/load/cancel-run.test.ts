/** A run is shown while it runs, and canceled from another process: it stops like one that a signal stops. */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { openScene, type Scene } from '../e2e/support/scene.ts'
import { runCommand } from '../support/run-command.ts'

let scene: Scene

beforeAll(async () => {
  scene = await openScene()
})
afterAll(async () => {
  await scene?.[Symbol.asyncDispose]()
})
afterEach(() => scene.emulator.control.setFaults(''))

const runs = (...words: string[]) => runCommand(['runs', ...words], scene.env)

/** Starts a command whose requests are not answered for a long time; returns its run once it is listed. */
async function begin(...words: string[]) {
  scene.emulator.control.setFaults('slow=1:60000')
  const [before] = await scene.query<{ id: number }>(
    'select coalesce(max(run_id), 0)::int as id from intake_ops.runs',
  )
  const ended = runCommand(words, scene.env)
  let id = 0
  await expect
    .poll(async () => {
      const [run] = await scene.query<{ id: number }>(
        `select max(run_id)::int as id from intake_ops.runs where run_id > ${before!.id} and status = 'running'`,
      )
      id = run?.id ?? 0
      return id
    })
    .toBeGreaterThan(0)
  return { id, ended }
}

describe('runs cancel', () => {
  it('ends a backfill, which says who canceled it; the next one loads everything', async () => {
    const { id, ended } = await begin('backfill')
    const canceled = await runs('cancel', String(id), '--json')
    expect(JSON.parse(canceled.stdout)).toEqual({ run_id: id, status: 'interrupted', canceled: true })
    const run = await ended
    expect(run.code).toBe(130)
    const [stored] = await scene.query<{ login: string; me: string; error: string }>(
      `select canceled_by as login, session_user as me, error from intake_ops.runs where run_id = ${id}`,
    )
    expect(stored!.login).toBe(stored!.me)
    expect(stored!.error).toContain(
      `canceled by database user ${stored!.me}, with intake-sync runs cancel; the next run continues`,
    )
    // The line may be wrapped.
    const listed = (await runs()).stdout.replace(/\s+/g, ' ')
    expect(listed).toContain(`canceled by database user ${stored!.me}, with intake-sync runs cancel`)

    scene.emulator.control.setFaults('')
    expect((await runCommand(['backfill'], scene.env)).code).toBe(0)
    expect(await scene.query('select from intake.patients')).toHaveLength(45)

    const again = await runs('cancel', String(id))
    expect(again.stdout).toBe(`run ${id} has already ended (interrupted)\n`)
    expect(again.code).toBe(0)
  })

  it('ends a verification too', async () => {
    const { id, ended } = await begin('verify')
    expect((await runs('cancel', String(id))).stdout).toBe(
      `run ${id} is canceled; what it loaded stays, and the next run continues\n`,
    )
    expect((await ended).code).toBe(130)
  })

  it('names the login that canceled first, whoever does so again', async () => {
    const [run] = await scene.query<{ id: number }>(
      `insert into intake_ops.runs (kind, status, options, canceled_by) values ('backfill', 'running', '{}', 'first')
       returning run_id::int as id`,
    )
    await runs('cancel', String(run!.id))
    const where = `where run_id = ${run!.id}`
    expect(await scene.query(`select canceled_by from intake_ops.runs ${where}`)).toEqual([
      { canceled_by: 'first' },
    ])
    await scene.query(`delete from intake_ops.runs ${where}`)
  })

  it('is not done by a notification alone, which every login can send', async () => {
    const { id, ended } = await begin('backfill', '--streams', 'forms')
    await scene.query(`select pg_notify('intake_canceled_runs', '${id}')`)
    // The notification of another run is later on the same channel: the first one has arrived when this one ends it.
    await scene.query(`select pg_notify('intake_canceled_runs', '0')`)
    const { status } = JSON.parse((await runs('show', String(id), '--json')).stdout)
    expect(status).toBe('running')
    await runs('cancel', String(id))
    expect((await ended).code).toBe(130)
  })

  it('ends a run that could not read at once who canceled it', async () => {
    const { id, ended } = await begin('backfill', '--streams', 'forms')
    await expect
      .poll(() =>
        scene.query("select from pg_stat_activity where application_name like 'intake-sync scan forms%'"),
      )
      .toHaveLength(1)
    await scene.query(`update intake_ops.runs set canceled_by = 'somebody' where run_id = ${id}`)
    await scene.query('alter table intake_ops.runs rename canceled_by to away')
    await scene.query(`select pg_notify('intake_canceled_runs', '${id}')`)
    // Longer than a look takes on any machine that is not busy; on a busy one the first look may find the table.
    await sleep(500)
    await scene.query('alter table intake_ops.runs rename away to canceled_by')
    const run = await ended
    expect([run.code, run.output]).toEqual([
      130,
      expect.stringContaining('canceled by database user somebody,'),
    ])
  })

  it('says of a run whose process is gone that it was interrupted', async () => {
    const [run] = await scene.query<{ id: number }>(
      `insert into intake_ops.runs (kind, status, options) values ('backfill', 'running', '{}') returning run_id::int as id`,
    )
    // It is stored as running until the next run begins, so that canceling it again is the same.
    for (const _ of ['once', 'again']) {
      const { stdout } = await runs('cancel', String(run!.id), '--json')
      expect(JSON.parse(stdout)).toEqual({ run_id: run!.id, status: 'interrupted', canceled: true })
    }
  })

  it('knows only runs that exist', async () => {
    for (const word of ['cancel', 'show']) {
      const { code, stderr } = await runs(word, '999999')
      expect(code).toBe(1)
      expect(stderr).toContain('there is no run 999999')
      expect(stderr).toContain('code: unknown_run')
    }
    expect((await runs('cancel', 'x')).code).toBe(2)
  })
})

describe('runs show', () => {
  it('shows the phases, the process and the log of a running run, and the outcome of one that ended', async () => {
    const { id, ended } = await begin('backfill', '--streams', 'patients')
    const shown = async () => (await runs('show', String(id))).stdout
    await expect.poll(shown).toMatch(/default\/patients +(plan|fetch)/)
    expect(await shown()).toMatch(new RegExp(`^run ${id}, backfill: running \\(`))
    expect(await shown()).toMatch(/executed by .*\d/)
    expect(await shown()).toMatch(/log \(UTC\):\n +\d\d:\d\d:\d\d info default\/patients: began/)
    const document = JSON.parse((await runs('show', String(id), '--json')).stdout)
    expect(document).toMatchObject({ run_id: id, status: 'running', canceled_by: null })
    expect(document.progress).toMatchObject([{ team: 'default', stream: 'patients', fetched: 0 }])

    await runs('cancel', String(id))
    await ended
    expect(await shown()).toMatch(/default\/patients +interrupted/)
    expect(await shown()).toMatch(new RegExp(`^run ${id}, backfill: interrupted`))
  })
})
