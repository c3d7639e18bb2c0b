/** An error in our own code while fetched records are read or stored is reported without values, and stops no other record. */
import pino from 'pino'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import type { JsonObject } from '../../../src/core/json.ts'
import { openRefetcher, type RefetchWatch } from '../../../src/extract/conflicts/refetcher.ts'
import { fetchDue } from '../../../src/extract/conflicts/round.ts'
import { requestRefetches } from '../../../src/load/refetches.ts'
import { patients } from '../../../src/streams/patients.ts'
import type { Child, Stream } from '../../../src/streams/stream.ts'
import { takeDefects } from '../../support/defects.ts'
import { openRig, type Rig } from '../support/reading.ts'

type Writable<Type> = { -readonly [Field in keyof Type]: Type[Field] }
const stream: Writable<Stream> = patients
const child: Writable<Child> = patients.children[0]!
const { rows } = child

function failOn({ id }: JsonObject): void {
  if (id === 'bad') throw new TypeError(`cannot read Kanarienvogel of ${id}`)
}

/** Makes the record with the id `bad` fail to be read, or to be mapped to rows. */
const FAIL = {
  read() {
    stream.isOrdered = (record) => {
      failOn(record)
      return false
    }
  },
  stored() {
    child.rows = (record, problems) => {
      failOn(record)
      return rows(record, problems)
    }
  },
}

let rig: Rig
beforeEach(async () => {
  rig = await openRig()
  const ids = ['p1', 'bad', 'p2', 'p3']
  rig.service.records.patients = ids.map((id) => ({ id, first_name: id })) as never
  const request = {
    teamId: rig.teamId,
    stream: 'patients',
    reason: 'contested',
    origin: 'event:e',
    since: null,
  }
  await requestRefetches(rig.session.db, ids.map((id) => ({ ...request, id })) as never)
  await rig.rows('update intake_ops.refetches set due_at = now()')
})
afterEach(async () => {
  child.rows = rows
  delete stream.isOrdered
  await rig[Symbol.asyncDispose]()
})

async function expectReported(logged: readonly string[]): Promise<void> {
  const met = takeDefects()
  expect(met).toMatchObject([{ kind: 'TypeError', place: expect.stringMatching(/^defects\.test\.ts:\d+$/) }])
  expect(await rig.rows('select team_id, kind, count::int from intake_ops.defects')).toEqual([
    { team_id: rig.teamId, kind: 'TypeError', count: 1 },
  ])
  const lines = logged.filter((line) => line.includes('a defect of intake-sync'))
  expect(lines.map((line) => JSON.parse(line))).toMatchObject([
    {
      level: 50,
      kind: 'TypeError',
      frames: expect.arrayContaining([expect.stringMatching(/read-record|lines\.ts/)]),
    },
  ])
  expect(logged.join('')).not.toContain('Kanarienvogel')
  expect(await rig.rows('select id from intake.patients order by 1')).toEqual(
    ['p1', 'p2', 'p3'].map((id) => ({ id })),
  )
  expect(await rig.rows('select id from intake_ops.refetches where due_at is not null')).toEqual([])
  expect(await rig.rows('select record_id, reason, status from intake_ops.dead_letters')).toEqual([
    {
      ...{ record_id: 'bad', status: 'waiting' },
      reason: expect.stringMatching(/^the record could not be loaded: unexpected TypeError at defects/),
    },
  ])
}

/** Its log, and the kinds of the defects that it counted. */
async function refetch(over: Partial<RefetchWatch> = {}) {
  const logged: string[] = []
  const kinds: string[] = []
  const access = { baseUrl: rig.service.url, apiKey: 'k', apiSecret: 's' }
  await using refetcher = openRefetcher({
    ...{ url: rig.url, clock: systemClock, random: Math.random, pollMs: 20 },
    logger: pino({}, { write: (line: string) => logged.push(line) }),
    watch: { refetched: () => {}, defect: (kind) => kinds.push(kind), ...over },
    teams: [{ name: 'default', teamId: rig.teamId, ...access, apiVersion: 'v2.1', concurrency: 4 }],
  })
  await refetcher.idle()
  return { logged, kinds, trouble: refetcher.trouble() }
}

describe.each(['read', 'stored'] as const)('a record that cannot be %s', (where) => {
  beforeEach(() => FAIL[where]())

  test('by the refetcher becomes a dead letter, and the others are loaded', async () => {
    const { logged, kinds, trouble } = await refetch()
    expect([kinds, trouble]).toEqual([['TypeError'], null])
    await expectReported(logged)
  })

  test('by a run becomes a dead letter, and the others are loaded', async () => {
    const logged: string[] = []
    const logger = pino({}, { write: (line: string) => logged.push(line) })
    await fetchDue(await rig.source('patients', { clock: systemClock, logger }))
    await expectReported(logged)
  })
})

test('a defect that no record causes is reported, and the next round goes on', async () => {
  let rounds = 0
  const refetched = () => {
    rounds += 1
    if (rounds === 1) throw new RangeError('Kanarienvogel')
  }
  await rig.rows(`update intake_ops.refetches set due_at = now() + interval '1 second' where id = 'p3'`)
  const { logged, kinds } = await refetch({ refetched })
  expect([rounds, kinds]).toEqual([2, ['RangeError']])
  expect(takeDefects()).toMatchObject([{ kind: 'RangeError' }])
  expect(logged.filter((line) => line.includes('no record is fetched for a second'))).toHaveLength(1)
  expect(logged.join('')).not.toContain('Kanarienvogel')
  expect(await rig.rows('select id from intake.patients order by 1')).toHaveLength(4)
})
