/** The teams of a run: numbered, locked and opened, whether a person or a schedule starts it. */
import { pino } from 'pino'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import {
  type BackfillOptions,
  fingerprintOf,
  lockTeams,
  type NumberedTeam,
  numberTeams,
  openTeam,
  placeHashOf,
  sourcesOf,
} from '../../src/extract/backfill-options.ts'
import { EVERYTHING } from '../../src/extract/reading/window.ts'
import { lockStreams, unlockStreams } from '../../src/load/runs.ts'
import { teamIdOf } from '../../src/load/teams.ts'
import { streamNamed } from '../../src/streams/catalogue.ts'
import { openSession, type Session } from '../../src/warehouse/connect.ts'
import { silent } from '../ingest/drain/scene.ts'
import { rowsOf } from '../load/loading.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'

const source = (name: string, more: object = {}) => ({
  ...{ name, baseUrl: 'http://127.0.0.1:1', apiKey: 'k', apiSecret: 's', apiVersion: 'v2.1', concurrency: 2 },
  ...more,
})
const streams = (['patients', 'forms'] as const).map((name) => streamNamed(name)!)

describe('two processes execute slices of one team together', () => {
  const same = fingerprintOf(source('a'))

  test.each([
    { concurrency: 9 },
    { pageSize: 5 },
    { giveUpAfterMs: 5 },
    { rateLimit: { requests: 1, seconds: 1 } },
  ])('also with another %j', (more) => {
    expect(fingerprintOf(source('a', more))).toBe(same)
  })

  test.each([
    { name: 'b' },
    { baseUrl: 'http://127.0.0.1:2' },
    { apiKey: 'other' },
    { apiSecret: 'other' },
    { apiVersion: '' },
    { paths: { patients: '/v3/patients' } },
    { bodyKeys: { exportId: 'export' } },
    { timezone: 'Asia/Tokyo' },
  ])('but not with another %j', (more) => {
    expect(fingerprintOf(source('a', more))).not.toBe(same)
  })

  test('and its mark shows nothing of them', () => {
    expect(same).toMatch(/^[0-9a-f]{16}$/)
  })
})

describe('a name means the same team of the same service', () => {
  const same = placeHashOf(source('a'))

  test.each([
    { baseUrl: 'http://127.0.0.1:1/' },
    { baseUrl: 'http://127.0.0.1:1//' },
    { apiSecret: 'other' },
    { apiVersion: '' },
    { timezone: 'Asia/Tokyo' },
    { paths: { patients: '/v3/patients' } },
  ])('also with another %j', (more) => {
    const team = source('a', more)
    expect(placeHashOf(team)).toBe(same)
    expect(sourcesOf(team)).toEqual([fingerprintOf(team), same])
  })

  test.each([{ name: 'b' }, { baseUrl: 'http://127.0.0.1:1/v2' }, { apiKey: 'other' }])(
    'but not with another %j',
    (more) => {
      expect(placeHashOf(source('a', more))).not.toBe(same)
    },
  )
})

describe('a team that is opened', () => {
  const options = {
    clock: systemClock,
    random: () => 0,
    logger: silent,
    signal: new AbortController().signal,
  }
  const requests: { headers: Record<string, string> }[] = []
  const wire = {
    async send(request: (typeof requests)[number]) {
      requests.push(request)
      return { status: 200, headers: {}, body: Buffer.from('{}') }
    },
    open: () => Promise.reject(new Error('not asked')),
    close: async () => {},
  }
  const store = (closed: string[]) => ({
    ofTeam: (teamId: number) => ({
      ...{ name: 'p', update: async () => {}, listen: () => {} },
      close: async () => void closed.push(`store of ${teamId}`),
    }),
  })

  test('gives back its share of the budget when it is closed; a limiter of others stays open', async () => {
    const closed: string[] = []
    const budgets = store(closed) as unknown as BackfillOptions['budgets']
    const network = { ...wire, close: async () => void closed.push('network') }
    const team = { ...source('a', { wire: network }), teamId: 7 }
    await openTeam(team, { ...options, ...(budgets && { budgets }) })[Symbol.asyncDispose]()
    expect(closed).toEqual(['network', 'store of 7'])
    const limiter = {
      ...{ giveUpAfterMs: 1, permittedRate: () => 4, acquire: () => Promise.reject(new Error('no')) },
      close: async () => void closed.push('limiter'),
    }
    const opened = openTeam({ ...source('a', { limiter }), teamId: 7 }, options)
    expect(opened.client.permittedRate).toBe(4)
    await opened[Symbol.asyncDispose]()
    expect(closed).toEqual(['network', 'store of 7'])
  })

  test('keeps to the limit that is configured for it', async () => {
    const rateLimit = { requests: 10, seconds: 2 }
    await using limited = openTeam({ ...source('a', { rateLimit }), teamId: 7 }, options)
    expect(limited.client.permittedRate).toBe(5)
  })

  test('reads exports in its zone, UTC by default, and names the version of the program', async () => {
    await using usual = openTeam({ ...source('a', { wire }), teamId: 7 }, options)
    await using other = openTeam(
      { ...source('b', { wire, timezone: 'Asia/Tokyo' }), teamId: 8 },
      { ...options, version: '1.2.3' },
    )
    expect([usual, other].map(({ name, teamId, timezone }) => [name, teamId, timezone])).toEqual([
      ['a', 7, 'UTC'],
      ['b', 8, 'Asia/Tokyo'],
    ])
    for (const { client } of [usual, other]) await client.get('/v2/patients')
    expect(requests.map(({ headers }) => headers['user-agent'])).toEqual([
      'intake-sync/0',
      'intake-sync/1.2.3',
    ])
  })

  test('is named where the service throttles it', async () => {
    const lines: string[] = []
    const logger = pino({ base: null }, { write: (line: string) => void lines.push(line) })
    let times = 0
    const send = async () => {
      times += 1
      return { status: times === 1 ? 429 : 200, headers: { 'retry-after': '0' }, body: Buffer.from('{}') }
    }
    await using team = openTeam(
      { ...source('b', { wire: { ...wire, send } }), teamId: 8 },
      { ...options, logger },
    )
    await team.client.get('/v2/patients')
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([
      { msg: 'throttled', team: 'b', throttled: 1 },
    ])
  })

  test('ends alone when it is given up, and with the run when that ends', () => {
    const stop = new AbortController()
    const [one, two] = ['a', 'b'].map((name) =>
      openTeam({ ...source(name), teamId: 7 }, { ...options, signal: stop.signal }),
    )
    one!.giveUp(new Error('refused'))
    expect([one!.signal.reason, two!.signal.aborted]).toEqual([new Error('refused'), false])
    stop.abort(new Error('stopped'))
    expect(two!.signal.reason).toEqual(new Error('stopped'))
  })
})

describe('the teams of a run', () => {
  let database: TestDatabase
  let session: Session
  let other: Session
  let logged: string[]
  beforeAll(async () => {
    database = await createTestDatabase()
    session = await openSession({ url: database.url, purpose: 'plan' })
    other = await openSession({ url: database.url, purpose: 'other' })
    for (const name of ['a', 'b', 'removed']) await teamIdOf(session.db, name)
    await rowsOf(
      session,
      `insert into intake_ops.removed_teams (team_id, name, data)
       select team_id, name, 'kept' from intake.teams where name = 'removed'`,
    )
  })
  afterAll(async () => {
    await other.close()
    await session.close()
    await database.drop()
  })
  beforeEach(() => {
    logged = []
  })

  const options = (names: readonly string[], over: Partial<BackfillOptions> = {}): BackfillOptions => ({
    ...{ url: database.url, teams: names.map((name) => source(name)), streams, window: EVERYTHING },
    ...{ allowMassDelete: false, dry: false, migrated: true, clock: systemClock, random: () => 0 },
    logger: pino({ base: null }, { write: (line: string) => void logged.push(line) }),
    ...{ signal: new AbortController().signal, onProgress: () => {} },
    ...over,
  })
  const named = (teams: readonly NumberedTeam[]) => teams.map(({ name }) => name)
  const known = () =>
    rowsOf<{ name: string; timezone: string; id: number }>(
      session,
      'select name, timezone, team_id as id from intake.teams order by name',
    )
  const removed = () => rowsOf(session, 'select name from intake_ops.removed_teams')

  test('of a dry run are not added; one that the warehouse does not know has no rows there', async () => {
    const before = await known()
    const [a] = before
    const dry = { dry: true, teams: [source('a', { timezone: 'Asia/Tokyo' }), source('new'), source('b')] }
    const numbers = (await numberTeams(options([], dry), session)).map(({ teamId }) => teamId)
    expect(numbers).toEqual([a!.id, -1, before[1]!.id])
    const empty = await numberTeams(options([], { ...dry, migrated: false }), session)
    expect(empty.map(({ teamId }) => teamId)).toEqual([-1, -1, -1])
    expect(await known()).toEqual(before)
  })

  test('get their time zones; one that was removed is left out by a schedule, and restored by a person', async () => {
    const isScheduled = true
    const teams = [source('removed'), source('a', { timezone: 'Asia/Tokyo' })]
    const numbered = await numberTeams(options([], { isScheduled, teams }), session)
    expect(named(numbered)).toEqual(['a'])
    expect(await removed()).toEqual([{ name: 'removed' }])
    const msg = 'left out: the team was removed; restart with a configuration without it'
    expect(logged.map((line) => JSON.parse(line))).toMatchObject([{ level: 40, team: 'removed', msg }])
    expect((await known())[0]).toEqual({ name: 'a', timezone: 'Asia/Tokyo', id: numbered[0]!.teamId })
    expect(named(await numberTeams(options(['a', 'removed']), session))).toEqual(['a', 'removed'])
    expect(await removed()).toEqual([])
    expect((await known())[0]).toMatchObject({ timezone: 'UTC' })
  })

  test('are locked all or none by a person; a schedule leaves out those that another run has', async () => {
    const isScheduled = true
    const teams = await numberTeams(options(['a', 'b']), session)
    const [a, b] = teams
    await lockStreams(other, [streams[1]!], [b!])
    const refused = { code: 'held_by_another_run', message: expect.stringContaining('forms of b;') }
    await expect(lockTeams(options(['a', 'b']), session, teams)).rejects.toMatchObject(refused)
    await expect(lockTeams(options(['b'], { isScheduled }), session, [b!])).rejects.toMatchObject(refused)
    // Nothing of the first team stays locked.
    await lockStreams(other, streams, [a!])
    await unlockStreams(other, streams, a!)
    expect(named(await lockTeams(options(['a', 'b'], { isScheduled }), session, teams))).toEqual(['a'])
    const msg = expect.stringMatching(/^left out: another run holds forms of b;/)
    expect(logged.map((line) => JSON.parse(line))).toMatchObject([{ level: 40, team: 'b', msg }])
    await expect(lockStreams(other, streams, [a!])).rejects.toMatchObject({ code: 'held_by_another_run' })
    await unlockStreams(session, streams, a!)
    await unlockStreams(other, [streams[1]!], b!)
    expect(named(await lockTeams(options(['a', 'b']), session, teams))).toEqual(['a', 'b'])
  })

  test('are not left out for another failure', async () => {
    const gone = { ...session, db: null } as unknown as Session
    const teams = ['a', 'b'].map((name) => ({ ...source(name), teamId: 1 }))
    await expect(lockTeams(options(['a', 'b'], { isScheduled: true }), gone, teams)).rejects.toBeInstanceOf(
      TypeError,
    )
    await expect(numberTeams(options(['a'], { isScheduled: true }), gone)).rejects.toBeInstanceOf(TypeError)
  })
})
