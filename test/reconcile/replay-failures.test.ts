/** A replay that fails in one stream, or is stopped, reports that, and the other streams are rebuilt. */
import { pino } from 'pino'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { IntakeError } from '../../src/core/errors.ts'
import type { Loaders } from '../../src/load/merge/loaders.ts'
import type { Figures } from '../../src/load/run-progress.ts'
import { replay, replayed, statusOf } from '../../src/reconcile/replay.ts'
import { WORKS } from '../../src/reconcile/slices.ts'
import { documents } from '../../src/streams/documents.ts'
import { formExports } from '../../src/streams/exports.ts'
import { forms } from '../../src/streams/forms.ts'
import { openSession } from '../../src/warehouse/connect.ts'
import { littlePatients, startLittleService } from '../e2e/support/little-service.ts'
import { openWarehouse, query } from '../e2e/support/scene.ts'
import type { TestDatabase } from '../support/database.ts'
import { runCommand } from '../support/run-command.ts'

let warehouse: TestDatabase

beforeAll(async () => {
  warehouse = await openWarehouse()
  await using service = await startLittleService(littlePatients(3))
  service.records.forms.push({ id: 'f1', name: 'Intake' }, { id: 'f2', name: 'Other' })
  const env = { ...service.env, DATABASE_URL: warehouse.url }
  const ended = await runCommand(['backfill', '--streams', 'forms,patients'], env)
  expect(ended.code, ended.output).toBe(0)
})
afterAll(() => warehouse.drop())

const rows = (text: string) => query(warehouse.url, text)
const run = (...words: string[]) => runCommand(words, { DATABASE_URL: warehouse.url, LOG_LEVEL: 'silent' })
const silent = pino({ enabled: false })

test('the status of a run is the worst of its streams', () => {
  const all = ['succeeded', 'needs_attention', 'failed', 'interrupted'] as const
  for (let worst = 0; worst < all.length; worst += 1)
    expect(statusOf(all.slice(0, worst + 1).toReversed())).toBe(all[worst])
  expect(statusOf([])).toBe('succeeded')
})

test('a stream that fails says why, and the others are rebuilt; one that differs in nothing is not', async () => {
  await rows(`
    create function fail() returns trigger language plpgsql as $$ begin raise exception using errcode = '53100'; end $$;
    create trigger fail before insert on intake.forms for each row execute function fail();
    update intake.forms set name = 'spoiled' where id = 'f1';
    update intake.patients set last_name = 'spoiled', _loaded_at = '2020-01-01';
    insert into intake.patients (team_id, id, _version, _origin) values (1, 'nobody', now(), 'hand');
    insert into intake_raw.records (team_id, stream, id, version, observed_at, deleted, hash, origin)
      values (1, 'documents', 'nobody', now(), now(), true, '', 'hand')`)
  const failed = await run('replay', '--streams', 'forms,patients', '--json')
  expect(failed.code, failed.output).toBe(1)
  const { run_id, status, streams } = JSON.parse(failed.stdout)
  expect(status).toBe('failed')
  const reason = expect.stringMatching(/the disk of the warehouse is full.* — free space, then run again$/)
  expect(streams.forms).toMatchObject({ records: 0, rewritten: 0, refused: 0, note: reason })
  expect(streams.patients).toMatchObject({ records: 3, rewritten: 3, removed: 1, note: null })
  // A record of another stream with its id keeps no row.
  expect(await rows(`select from intake.patients where id = 'nobody'`)).toEqual([])
  await rows(`delete from intake_raw.records where origin = 'hand'`)
  expect(await rows(`select status, error from intake_ops.runs where run_id = ${run_id}`)).toEqual([
    { status: 'failed', error: expect.stringMatching(/^default\/forms: the disk/) },
  ])
  expect(
    await rows(`select from intake.patients where last_name = 'spoiled' or _loaded_at < '2026-01-01'`),
  ).toEqual([])
  await rows('drop trigger fail on intake.forms')
  expect((await run('replay', '--streams', 'forms')).code).toBe(0)
  expect(await rows('select name from intake.forms order by id')).toEqual([
    { name: 'Intake' },
    { name: 'Other' },
  ])
})

test('files are rebuilt from the bytes that were loaded last; bytes that cannot be read leave the rows as they are', async () => {
  await using service = await startLittleService()
  // The first has a problem of its entry, besides that of its file.
  for (const [id, created_at] of [
    ['e1', 'long ago'],
    ['e2', null],
  ] as const)
    service.records.exports.push({ id, name: id, form: { id: 'f', name: 'F' }, created_at })
  const head = 'Client ID,First Name,Last Name,Email,Sent at,Completed at,Archived,Smokes'
  let file = `${head}\np,A,B,a@b.example,,,False,No,beyond\n`
  service.interfere = ({ method, body }, response) => {
    // Only the first export has problems.
    const own = body.includes('e2') ? `${head}\n` : file
    if (method === 'POST') response.writeHead(200, { 'content-type': 'text/plain' }).end(own)
    return method === 'POST'
  }
  const backfill = async () => {
    const env = { ...service.env, DATABASE_URL: warehouse.url, LOG_LEVEL: 'silent' }
    return (await runCommand(['backfill', '--streams', 'exports'], env)).code
  }
  expect(await backfill()).toBe(0)
  file = `${head}\np,"without end\n`
  expect(await backfill()).toBe(4)
  const files = () => rows('select export_id, is_loaded, problems from intake_raw.export_files order by 1, 2')
  const cells = () => rows('select row_number, position, value from intake.export_cells order by 1, 2')
  const [before, loaded] = [await files(), await cells()]
  expect([before.length, loaded.length]).toEqual([3, 2])
  expect(await rows('select from intake.exports where _problems is not null')).toHaveLength(1)
  await rows(`update intake.export_cells set value = 'spoiled'`)
  await rows(`update intake_raw.export_files set problems = '[{"path": "x"}]' where export_id = 'e2'`)
  await rows('update intake_raw.export_files set is_json_string = true where not is_loaded')
  const rebuilt = await run('replay', '--streams', 'exports', '--json')
  expect(JSON.parse(rebuilt.stdout).streams.exports).toMatchObject({ rewritten: 1, refused: 0 })
  expect([await files(), await cells()]).toEqual([before, loaded])

  await rows(`update intake_raw.export_chunks set body = '"without end' where is_loaded and export_id = 'e1'`)
  const refused = await run('replay', '--streams', 'exports', '--json')
  expect(refused.code, refused.output).toBe(4)
  expect(JSON.parse(refused.stdout).streams.exports).toMatchObject({
    ...{ rewritten: 0, refused: 1, note: '1 of its records could not be rebuilt; their rows are unchanged' },
  })
  expect(await cells()).toEqual(loaded)

  // A warehouse that cannot write is no fault of the bytes.
  await rows(`insert into intake.export_rows (team_id, export_id, row_number) values (1, 'e1', 99)`)
  await rows(
    `update intake_raw.export_chunks set body = convert_to('${head}\np,A,B,a@b.example,,,False,No', 'UTF8') where is_loaded and export_id = 'e1'`,
  )
  await rows('create trigger fail before insert on intake.export_cells for each row execute function fail()')
  const full = await run('replay', '--streams', 'exports', '--json')
  expect([full.code, JSON.parse(full.stdout).streams.exports]).toMatchObject([
    1,
    { rewritten: 0, refused: 0, note: expect.stringContaining('the disk of the warehouse is full') },
  ])
  await rows('drop trigger fail on intake.export_cells')
  await rows(`delete from intake.export_rows where row_number = 99`)
  await rows(`update intake_raw.export_chunks set body = '"without end' where is_loaded and export_id = 'e1'`)

  // Rows of a file that is not there, in one of its tables or another, are removed.
  await rows(`
    insert into intake.export_columns (team_id, export_id, position, title) values (1, 'of columns', 7, 'x');
    insert into intake.export_rows (team_id, export_id, row_number) values (1, 'of rows', 1);
    insert into intake.export_cells (team_id, export_id, row_number, position, value) values (1, 'of cells', 1, 7, 'x')`)
  const strays = JSON.parse((await run('replay', '--streams', 'exports', '--json')).stdout)
  expect(strays.streams.exports).toMatchObject({ rewritten: 3, refused: 1 })
  for (const table of ['export_columns', 'export_rows', 'export_cells'])
    expect(await rows(`select from intake.${table} where export_id like 'of %'`)).toEqual([])

  // A deleted export has no problems, though its file has some.
  await rows(`update intake_raw.records set deleted = true, hash = '', payload = null, as_it_came = null, problems = null
    where stream = 'exports'`)
  await run('replay', '--streams', 'exports')
  const gone = { gone: true, name: null, _problems: null }
  expect(await rows('select _deleted_at is not null as gone, name, _problems from intake.exports')).toEqual([
    gone,
    gone,
  ])
})

test('what fails in passing is tried again, with a warning that names the team, and is no failure', async () => {
  await rows(`
    insert into intake.teams (name) values ('another');
    insert into intake_raw.records (team_id, stream, id, version, observed_at, deleted, hash, payload, origin)
      select team_id + 1, stream, id, version, observed_at, deleted, hash, payload, origin from intake_raw.records
      where stream = 'forms'`)
  await rows(`
    create sequence tries;
    create function fail_once() returns trigger language plpgsql as $$ begin
      if new.team_id > 1 and nextval('tries') = 1 then raise exception using errcode = '40001'; end if;
      return new;
    end $$;
    create trigger fail_once before insert on intake.forms for each row execute function fail_once();
    update intake.forms set name = 'spoiled'`)
  const lines: string[] = []
  const { status, teams } = await replay({
    ...{ url: warehouse.url, streams: [forms], clock: systemClock, onProgress: () => {} },
    ...{ logger: pino({ base: null, timestamp: false }, { write: (line: string) => void lines.push(line) }) },
    signal: new AbortController().signal,
  })
  await rows('drop trigger fail_once on intake.forms')
  expect([status, teams[1]!.streams[0]!.report]).toMatchObject(['succeeded', { rewritten: 2, note: null }])
  await rows('delete from intake_raw.records where team_id > 1; delete from intake.forms where team_id > 1')
  expect(lines.map((line) => JSON.parse(line))).toEqual([
    {
      ...{ level: 40, team: 'another', code: 'serialization', attempt: 1 },
      msg: 'rewriting again after a temporary failure',
    },
  ])
})

test('one that is stopped says so, with what to do, and is no failure', async () => {
  // Each look at the clock is a second and a half after the one before.
  let micros = 0
  const clock = {
    ...systemClock,
    now: () => {
      micros += 1_500_000
      return micros
    },
  }
  const options = {
    ...{ url: warehouse.url, streams: [forms], clock, logger: silent },
    ...{ signal: AbortSignal.abort(), onProgress: () => {} },
  }
  const { runId, status, teams } = await replay(options)
  expect(status).toBe('interrupted')
  expect(teams[0]!.streams[0]!.report).toMatchObject({
    ...{ status: 'interrupted', records: 0, note: 'stopped by a signal; run it again to complete it' },
    seconds: 1.5,
  })
  expect(await rows(`select status from intake_ops.runs where run_id = ${runId}`)).toEqual([{ status }])
})

describe('five portions, where the second cannot be written', () => {
  const progress: number[] = []
  let [runs, isEnded] = [0, false]
  const loaders: Loaders = {
    async run() {
      runs += 1
      if (runs === 2) throw new IntakeError('no', { code: 'disk_full', verdict: 'stop', hint: 'free space' })
      await systemClock.sleep(50)
      isEnded = true
      return { rewritten: 0, removed: 0, refused: 0 } as never
    },
    ready: async () => {},
  }
  const options = { clock: systemClock, logger: silent, signal: new AbortController().signal }
  const team = { teamId: 1, name: 'default' }
  const failed = { status: 'failed', note: 'no — free space', records: 0 }

  beforeAll(async () => {
    await rows(`
      insert into intake_raw.records (team_id, stream, id, version, observed_at, deleted, hash, origin)
      select 1, 'documents', lpad(n::text, 5, '0'), now(), now(), true, '\\x00', 'test'
      from generate_series(1, 10001) n`)
  })
  beforeEach(() => {
    progress.length = 0
    runs = 0
    isEnded = false
  })
  afterAll(() => rows(`delete from intake_raw.records where stream = 'documents'`))

  test('the failure ends the stream at once: what was begun is waited for, and no further portion', async () => {
    await using session = await openSession({ url: warehouse.url, purpose: 'test' })
    const onProgress = (...[, , records]: readonly unknown[]) => void progress.push(records as number)
    const report = await replayed({ ...options, onProgress }, { session, loaders }, team, documents)
    expect(report).toMatchObject(failed)
    // The second failed while the third was read.
    expect([progress, runs, isEnded]).toEqual([[2_500, 5_000], 2, true])
  })

  test('a worker shows how many records it has replayed so far, and what it ended with', async () => {
    const watched: [unknown, unknown, unknown][] = []
    let figures: () => Figures = () => expect.unreachable()
    const part = {
      ...{ team, stream: documents, worker: '1', options: { ...options, url: warehouse.url } },
      claimed: { taken: undefined },
      progress: {
        watch(teamId: number, stream: string, now: () => Figures) {
          figures = now
          watched.push([teamId, stream, now()])
        },
      },
      loaders: {
        ...loaders,
        run(work: never) {
          progress.push(figures().fetched)
          return loaders.run(work)
        },
      },
    }
    const { report } = await WORKS.replay!.execute(part as never)
    expect(report).toMatchObject(failed)
    const nothing = { pages: 0, requests: 0, throttled: 0, counts: {} }
    const begun = {
      ...{ phase: 'compare', fetched: 0, ...nothing },
      ...{ expected: null, pages_left: null, permitted_rate: null },
    }
    expect(watched).toEqual([[1, 'documents', begun]])
    expect(progress).toEqual([0, 2_500])
    expect(figures()).toEqual({ ...begun, phase: 'ended', fetched: 5_000 })
  })
})

test('a rewritten export has the questions of its columns at once, also where the replay stops before the next one', async () => {
  await using service = await startLittleService()
  const asked = (id: string, text: string) => ({
    ...{ id, text, help_text: '', order: 1, choices: [] },
    question_type: { question_type: 'short_text', question_subtype: null },
  })
  service.records.forms.push({
    id: 'f',
    name: 'F',
    questions: [asked('q1', 'Smokes'), asked('q2', 'Drinks')],
  })
  for (const id of ['e1', 'e2', 'e3'])
    service.records.exports.push({ id, name: id, form: { id: 'f', name: 'F' } })
  const head = 'Client ID,First Name,Last Name,Email,Sent at,Completed at,Archived'
  const file = `${head},Smokes,Drinks,Other\np,A,B,a@b.example,,,False,No,Yes,x\n`
  service.interfere = ({ method }, response) => {
    if (method === 'POST') response.writeHead(200, { 'content-type': 'text/plain' }).end(file)
    return method === 'POST'
  }
  const own = await openWarehouse()
  try {
    const env = { ...service.env, DATABASE_URL: own.url, LOG_LEVEL: 'silent' }
    expect((await runCommand(['backfill', '--streams', 'forms,exports'], env)).code).toBe(0)
    const questions = async () =>
      Object.fromEntries(
        (
          await query<{ id: string; questions: unknown }>(
            own.url,
            `select export_id as id, jsonb_agg(question_id order by position) as questions
             from intake.export_columns where title in ('Smokes', 'Drinks', 'Other') group by 1`,
          )
        ).map((each) => [each.id, each.questions]),
      )
    const matched = ['q1', 'q2', null]
    expect(await questions()).toEqual({ e1: matched, e2: matched, e3: matched })
    const former = ['former', 'former', 'former']
    await query(own.url, `update intake.export_columns set question_id = 'former'`)
    await query(own.url, `update intake.export_cells set value = 'spoiled' where export_id <> 'e1'`)

    await using session = await openSession({ url: own.url, purpose: 'test' })
    const stop = new AbortController()
    let runs = 0
    const loaders: Loaders = {
      async run(work) {
        runs += 1
        const result = await work(session)
        if (runs === 2) stop.abort(new Error('SIGTERM'))
        return result
      },
      ready: async () => {},
    }
    const options = { clock: systemClock, logger: silent, signal: stop.signal, onProgress: () => {} }
    const team = { teamId: 1, name: 'default' }
    const report = await replayed(options, { session, loaders }, team, formExports)
    expect([report.status, runs]).toEqual(['interrupted', 2])
    // The first file differs in nothing, and is left to the end of a replay; the third was not reached.
    expect(await questions()).toEqual({ e1: former, e2: matched, e3: former })
    expect(
      await query(
        own.url,
        `select distinct export_id as id from intake.export_cells where value = 'spoiled'`,
      ),
    ).toEqual([{ id: 'e3' }])
    expect((await runCommand(['replay', '--streams', 'exports'], env)).code).toBe(0)
    expect(await questions()).toEqual({ e1: matched, e2: matched, e3: matched })
  } finally {
    await own.drop()
  }
})
