/** The demo from its first line to its last, in a small world: what it prints was counted, and a wrong count ends it. */
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import type { Emulator } from '../../../src/emulator/server.ts'
import { startEmulator } from '../../../src/emulator/server.ts'
import type { BackfillSummary } from '../../../src/extract/backfill.ts'
import type { BackfillOptions } from '../../../src/extract/backfill-options.ts'
import { openWarehouse, query, SMALL } from '../../e2e/support/scene.ts'
import { makeFolder, removeFolder } from '../../support/folders.ts'
import { ANALYTICS_KEY, stage, start, summaryOf } from './stage.ts'

vi.mock('../../../src/embedded/server.ts', async (original) => ({
  ...(await original<object>()),
  openEmbedded: async (options: object) => {
    stage.asked.push(options)
    const stop = async () => {
      stage.stopped += 1
    }
    return { url: stage.url, directory: '/the data/16', stop, [Symbol.asyncDispose]: stop }
  },
}))
vi.mock('../../../src/commands/demo/service.ts', async (original) => ({
  ...(await original<object>()),
  startDemoService: () => startEmulator({ ...SMALL, seed: 1 }),
  advanceWorld: ({ control }: Emulator) => {
    const { patients, forms } = control.world()
    const [first, second, third, fourth] = patients.slice(10, 4)
    control.createPatient({ first_name: 'New', last_name: 'Beispiel' })
    for (const { id } of [first!, second!]) control.updatePatient(id, { city: 'Elsewhere' })
    for (const { id } of [third!, fourth!]) control.deletePatient(id)
    const form = forms.slice(0, forms.size).find(({ name }) => name === 'Insurance')!
    control.renameQuestion(form.id, form.questions[0]!.id, 'Who pays?')
    return { created: 1, updated: 2, deleted: 2, reworded: 1 }
  },
}))
vi.mock('../../../src/commands/demo/live.ts', () => ({
  openLive: async () => ({
    ...{ ingest: 'http://127.0.0.1:7', admin: 'http://127.0.0.1:8' },
    async [Symbol.asyncDispose]() {
      stage.stopped += 1
    },
  }),
  watchChanges: async () => [{ what: 'a patient moved', seconds: 0.25 }],
}))
vi.mock('../../../src/commands/demo/warehouse.ts', async (original) => {
  const real = await original<typeof import('../../../src/commands/demo/warehouse.ts')>()
  const claimWarehouse: typeof real.claimWarehouse = async (...args) =>
    stage.migrates ? await real.claimWarehouse(...args) : '18.4'
  return { ...real, claimWarehouse }
})
vi.mock('../../../src/extract/backfill.ts', async (original) => {
  const real = await original<typeof import('../../../src/extract/backfill.ts')>()
  const backfill = async (options: BackfillOptions): Promise<BackfillSummary> => {
    const { signal, logger, teams } = options
    stage.backfills.push({ signal, level: logger.level, teams })
    if (stage.fake === null) return await real.backfill(options)
    return (await stage.fake(stage.backfills.length)) as BackfillSummary
  }
  return { ...real, backfill }
})

let warehouse: Awaited<ReturnType<typeof openWarehouse>>
const folder = makeFolder('demo-')

beforeAll(async () => {
  warehouse = await openWarehouse()
  stage.url = warehouse.url
  stage.folder = folder
  // An earlier demo.
  await query(
    warehouse.url,
    `insert into intake.teams (name) values ('demo');
     insert into intake.patients (team_id, id, _version, _origin) values (1, 'left', now(), 'x')`,
  )
})
afterAll(async () => {
  removeFolder(folder)
  await warehouse?.drop()
})
afterEach(() => {
  Object.assign(stage, { asked: [], stopped: 0, migrates: true, fake: null, backfills: [] })
})

describe('the demo', () => {
  it('shows every step, and stays with what it says until a signal', async () => {
    const { said, stop, ended, staying } = start('--stay')
    await staying
    const { stdout } = said
    expect(stdout.match(/^\d\. .+$/gm)).toEqual([
      '1. First backfill: everything',
      '2. A day passes at the service: the second backfill writes only the changes',
      '3. Nothing changed: the third backfill writes nothing',
      '4. Live: the service reports changes by webhook',
      '5. Questions, in SQL',
      '6. As an analyst: the role intake_analyst, and views that name nobody',
    ])
    expect(stdout.match(/^patients .+$/gm)?.map((line) => line.split(/ +/).slice(1, 5).join(' '))).toEqual([
      ...['45 45 0 0', '44 3 41 2', '44 0 44 0'],
    ])
    expect(stdout).toMatch(
      /^warehouse {2}an embedded Postgres \d+[\d.]*.*, emptied for this demo, in\n.*\/data-demo\n/m,
    )
    expect(stdout).toMatch(/an emulator at http:\S+ with\n +45 patients, 7 forms, 5 packets, 5 documents\n/)
    expect(stdout).toContain('1 patients created, 2 updated, 2 deleted; 1 question reworded.\n')
    expect(stdout).toContain('a patient moved  row visible after 0.250 s\n')
    expect(stdout).toContain('found patients and forms unchanged')
    expect(stdout.match(/^-- .+$/gm)).toHaveLength(10)
    expect(stdout).toMatch(/refused: permission denied[\s\S]*All results are as expected, after \d+\.\d s\./)
    const value = (name: string) => new RegExp(`export ${name}='?([^'\\s]+)`).exec(stdout)?.[1] ?? ''
    expect([value('INTAKE_TEAM'), value('INTAKE_DATA_DIR')]).toEqual(['demo', join(folder, 'data-demo')])
    expect(stdout).toContain(
      'received at http://127.0.0.1:7/webhooks, health and metrics are at http://127.0.0.1:8.',
    )
    expect(stdout).toContain(
      `"$(cat '/the data/16/password')" psql -h 127.0.0.1 -p ${new URL(warehouse.url).port || 5432} `,
    )
    const headers = { 'x-api-key': value('INTAKE_API_KEY'), 'x-api-secret': value('INTAKE_API_SECRET') }
    const patients = `${value('INTAKE_BASE_URL')}/v2/patients`
    expect(await (await fetch(patients, { headers })).json()).toMatchObject({ count: 44 })
    const link = /^ {2}(http:\S+\?\S+)$/m.exec(stdout)![1]!
    expect((await fetch(link, { redirect: 'manual' })).status).toBeLessThan(400)
    expect(stage.stopped).toBe(0)
    const state = `select (select count(*)::int from intake.patients where id = 'left') as left,
      (select inner_pad = intake_ops.hmac_pad(convert_to($1, 'UTF8'), 54) from intake_ops.analytics_key) as has_key,
      (select count(*)::int from pg_locks where locktype = 'advisory' and (classid, objsubid) = (7204312, 2)
        and objid = hashtext('demo')::bigint & 4294967295
        and database = (select oid from pg_database where datname = current_database())) as locks`
    expect(await query(warehouse.url, state, [ANALYTICS_KEY])).toEqual([{ left: 0, has_key: true, locks: 1 }])
    stop.abort('SIGINT')
    expect([await ended, said.stderr, stage.stopped]).toEqual([0, '', 2])
    for (const url of [patients, link]) await expect(fetch(url)).rejects.toThrow()
    expect(stage.asked).toEqual([{ dataDir: join(folder, 'data-demo'), onNotice: expect.any(Function) }])
    expect(
      stage.backfills.map(({ signal, level, teams }) => [signal, level, teams.map(({ name }) => name)]),
    ).toEqual(Array.from({ length: 4 }, () => [stop.signal, 'error', ['demo']]))
  })
})

interface Step {
  readonly name: string
  readonly seconds: number
  readonly row_versions: number
  readonly backfill: { readonly streams: Readonly<Record<string, Readonly<Record<string, number>>>> }
}

it('as JSON it is one document with every figure', async () => {
  Object.assign(stage, { migrates: false })
  stage.fake = async (run) => {
    if (run === 1) await query(warehouse.url, 'update intake.forms set name = name')
    return summaryOf(run, {})
  }
  const { said, ended } = start('--json')
  expect([await ended, said.stderr, stage.stopped]).toEqual([0, '', 2])
  const { steps, live, queries, analyst, seconds, ...rest } = JSON.parse(said.stdout)
  expect(
    steps.map(({ name, row_versions, backfill }: Step) => {
      const { changed, deleted } = backfill.streams.patients!
      return [name, row_versions, changed, deleted]
    }),
  ).toEqual([
    ['first', 7, 45, 0],
    ['changed', 0, 3, 2],
    ['unchanged', 0, 0, 0],
    ['last', 0, 0, 0],
  ])
  expect(live).toEqual([{ what: 'a patient moved', seconds: 0.25 }])
  expect([queries.length, analyst.queries.length]).toEqual([5, 4])
  expect(analyst.refused).toEqual({
    sql: 'select first_name, last_name from intake.patients',
    reason: expect.stringContaining('permission denied'),
  })
  expect(seconds).toBeGreaterThanOrEqual(Math.max(...steps.map((step: Step) => step.seconds)))
  expect(rest).toEqual({
    warehouse: {
      ...{ data_dir: join(folder, 'data-demo'), password_file: '/the data/16/password', port: null },
    },
    service: null,
  })
})

describe('a figure that is not that of the service ends the demo with exit code 1, and names it:', () => {
  it.each([
    [1, { documents: [4, 0] }, 'first backfill of the demo: 4 changed documents, 5 expected'],
    [1, { patients: [45, 1] }, 'first backfill of the demo: 1 deleted patients, 0 expected'],
    [2, { patients: [4, 2] }, 'changed backfill of the demo: 4 changed patients, 3 expected'],
    [2, { patients: [3, 1] }, 'changed backfill of the demo: 1 deleted patients, 2 expected'],
    [2, { forms: [0, 0] }, 'changed backfill of the demo: 0 changed forms, 1 expected'],
    [3, { responses: [1, 0] }, 'unchanged backfill of the demo: 1 changed responses, 0 expected'],
    [4, { forms: [1, 0] }, 'last backfill of the demo: 1 changed forms, 0 expected'],
  ] as const)('of backfill %i: %o', async (wrong, change, message) => {
    Object.assign(stage, { migrates: false })
    stage.fake = async (run) => summaryOf(run, run === wrong ? (change as never) : {})
    const { said, ended } = start()
    expect([await ended, said.stderr]).toEqual([1, expect.stringContaining(`error: the ${message}\n`)])
    expect(said.stdout).not.toContain('All results are as expected')
  })

  it('a row that is written although nothing changed', async () => {
    Object.assign(stage, { migrates: false })
    stage.fake = async (run) => {
      if (run === 3) await query(warehouse.url, 'update intake.forms set name = name')
      return summaryOf(run, {})
    }
    const { said, ended } = start()
    expect([await ended, said.stderr]).toEqual([
      ...[
        1,
        expect.stringMatching(/error: the unchanged backfill of the demo: 7 row versions, 0 expected\n/),
      ],
    ])
  })

  it.each([
    ['failed', null, 1, 'error: the first backfill of the demo ended as failed\n'],
    ['needs_attention', null, 1, 'error: the first backfill of the demo ended as needs_attention\n'],
    ['interrupted', 'SIGINT', 130, ''],
    ['interrupted', 'SIGTERM', 143, ''],
  ] as const)('a backfill that %s, after %s: exit code %i', async (status, signal, code, says) => {
    Object.assign(stage, { migrates: false })
    const { said, ended, stop } = start()
    stage.fake = async (run) => {
      if (signal !== null) stop.abort(signal)
      return { ...summaryOf(run, {}), status }
    }
    expect([await ended, said.stderr.startsWith(says), said.stderr === '']).toEqual([code, true, says === ''])
    expect(stage.stopped).toBe(1)
  })
})
