/** An erasure during loads; and stored files without the rows of erased patients. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { storeDeadLetters } from '../../src/load/dead-letters.ts'
import { exportClient, exportPerson, hashesOf, noteErased, openErasures } from '../../src/load/erasures.ts'
import { openErasedRows, withoutErasedRows } from '../../src/load/exports/erased-rows.ts'
import { openExportText } from '../../src/load/exports/export-text.ts'
import { openFileLines } from '../../src/load/exports/file-lines.ts'
import { openFileProblems } from '../../src/load/exports/file-problems.ts'
import { compareBatch, countBatch } from '../../src/load/merge/load.ts'
import { type BatchSource, prepareStaging, writeBatch } from '../../src/load/merge/write-batch.ts'
import { untakenSlice } from '../../src/load/slice.ts'
import { linesOf } from '../../src/normalize/lines.ts'
import { packetResponses } from '../../src/streams/packet-responses.ts'
import { patients } from '../../src/streams/patients.ts'
import { responses } from '../../src/streams/responses.ts'
import { openSession, type Session } from '../../src/warehouse/connect.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { at, recordEnvelope, tombstoneEnvelope } from '../support/envelopes.ts'
import { ask } from '../support/sessions.ts'

const READS: BatchSource = { kind: 'pages', requestedAt: '2026-01-01T00:00:00Z' }

describe('an erasure during loads', () => {
  let database: TestDatabase
  let loader: Session
  let eraser: Session

  beforeEach(async () => {
    database = await createTestDatabase()
    loader = await openSession({ url: database.url, purpose: 'loader' })
    eraser = await openSession({ url: database.url, purpose: 'eraser' })
    for (const stream of [patients, responses]) await prepareStaging(loader, stream)
  })
  afterEach(async () => {
    await loader.close()
    await eraser.close()
    await database.drop()
  })

  const linesFor = (...ids: string[]) =>
    linesOf(
      patients,
      ids.map((id) =>
        recordEnvelope({ id, first_name: id }, { teamId: 1, stream: 'patients', observedAt: at(1) }),
      ),
    )
  const note = (...ids: string[]) => noteIn(1, ...ids)
  const noteIn = async (teamId: number, ...ids: string[]) => {
    const erasures = await hashesOf(eraser.db, teamId)
    for (const id of ids) await noteErased(eraser.db, erasures, id, [{ stream: 'patients', id }])
  }
  const write = (stream: typeof patients, lines: ReturnType<typeof linesFor>, from: BatchSource = READS) =>
    writeBatch(loader, { stream, lines, from })
  const idsOf = async (stream: string) =>
    (
      await eraser.client.query<{ id: string }>(
        'select id from intake_raw.records where stream = $1 order by 1',
        [stream],
      )
    ).rows.map(({ id }) => id)

  test('is recorded only after loads that do not know of it have committed', async () => {
    await loader.client.query('begin')
    await write(patients, linesFor('p-1', 'p-2'))
    let noted = false
    const noting = note('p-1').then(() => {
      noted = true
    })
    const waiting = `select from pg_stat_activity where datname = current_database()
      and wait_event_type = 'Lock' and application_name = 'intake-sync eraser'`
    await expect.poll(() => ask(database.url, waiting)).toHaveLength(1)
    expect(noted).toBe(false)
    await loader.client.query('commit')
    await noting
    // Their rows are visible to the sweep of the erasure.
    expect(await idsOf('patients')).toEqual(['p-1', 'p-2'])
  })

  test('by an older version waits for loads too, whatever other locks it has', async () => {
    await loader.client.query('begin')
    await write(patients, linesFor('p-1'))
    await eraser.client.query(`set lock_timeout = '200ms'; begin; select pg_advisory_xact_lock(1)`)
    const noted = eraser.client.query(
      `insert into intake_ops.erasures (team_id, hash, patient_hash) values (1, sha256('a'), sha256('a'))`,
    )
    await expect(noted).rejects.toMatchObject({ code: '55P03' })
    await eraser.client.query('rollback')
    await loader.client.query('rollback')
  })

  test.each<[string, BatchSource]>([
    ['merged', READS],
    ['straight', { kind: 'empty' }],
  ])('lines made before it, and written after (%s), lose the rows of the patient', async (_, from) => {
    const lines = linesFor('p-1', 'p-2', 'p-3')
    await note('p-2')
    const skipped = async () => {
      const { rows } = await eraser.client.query(
        'select skipped::int, last_skipped_at as at from intake_ops.erasures',
      )
      return rows
    }
    // A dry run counts it, and stores nothing.
    const batch = {
      stream: patients,
      lines,
      deadLetters: [],
      taken: untakenSlice({ teamId: 1, stream: 'patients', slice: '' }, '1'),
    }
    expect(await compareBatch(loader, batch)).toMatchObject({ changed: 2, deleted: 0, erased: 1 })
    expect(await skipped()).toEqual([{ skipped: 0, at: null }])
    await loader.client.query('begin')
    const result = await write(patients, lines, from)
    await loader.client.query('commit')
    expect(result).toMatchObject({ changed: 2, deleted: 0, erased: 1 })
    const gone = ['p-2', 'p-4'].map((id) =>
      tombstoneEnvelope(id, { teamId: 1, stream: 'patients', observedAt: at(2) }),
    )
    await loader.client.query('begin')
    expect(await write(patients, linesOf(patients, gone))).toMatchObject({
      changed: 0,
      deleted: 1,
      erased: 1,
    })
    await loader.client.query('rollback')
    expect(await skipped()).toEqual([{ skipped: 1, at: expect.any(Date) }])
    expect(await idsOf('patients')).toEqual(['p-1', 'p-3'])
    const { rows } = await eraser.client.query('select id from intake.patients order by 1')
    expect(rows).toEqual([{ id: 'p-1' }, { id: 'p-3' }])
  })

  test.each([
    ['an id', { patient: 'p-1' }],
    ['an object', { patient: { id: 'p-1' } }],
    ['an object with uid', { patient: { uid: 'p-1' } }],
    ['a sibling', { patient_id: 'p-1' }],
  ])(
    'a response that names the patient as %s is skipped, and is known by its own id from then on',
    async (_, named) => {
      await note('p-1')
      const reading = { teamId: 1, stream: 'responses' as const, observedAt: at(1) }
      const records = [
        { id: 'r-1', answers: [], ...named },
        { id: 'r-2', answers: [], patient: 'p-2' },
      ]
      const lines = linesOf(
        responses,
        records.map((record) => recordEnvelope(record, reading)),
      )
      await loader.client.query('begin')
      await write(responses, lines)
      await loader.client.query('commit')
      expect(await idsOf('responses')).toEqual(['r-2'])
      await loader.client.query('begin')
      const bare = linesOf(responses, [
        recordEnvelope({ id: 'r-1', answers: [] }, { ...reading, observedAt: at(9) }),
      ])
      expect(await write(responses, bare)).toMatchObject({ changed: 0 })
      await loader.client.query('commit')
      const { rows } = await eraser.client.query('select skipped::int from intake_ops.erasures order by 1')
      expect(rows).toEqual([{ skipped: 0 }, { skipped: 2 }])
    },
  )

  test('a record whose rows of a further table name a record of the patient is skipped too', async () => {
    const erasures = await hashesOf(eraser.db, 1)
    await noteErased(eraser.db, erasures, 'p-1', [{ stream: 'responses', id: 'r-1' }])
    await prepareStaging(loader, packetResponses)
    const reading = { teamId: 1, stream: packetResponses.name, observedAt: at(1) }
    const records = [
      { id: 'k-1', is_submitted: true, responses: [{ id: 'r-2' }, { id: 'r-1' }] },
      { id: 'k-2', is_submitted: true, responses: ['r-2', null, 'r-3'] },
    ]
    const lines = linesOf(
      packetResponses,
      records.map((record) => recordEnvelope(record, reading)),
    )
    await loader.client.query('begin')
    expect(await write(packetResponses, lines, { kind: 'events' })).toMatchObject({ changed: 1, erased: 1 })
    await loader.client.query('commit')
    expect(await idsOf(packetResponses.name)).toEqual(['k-2'])
    const { rows } = await eraser.client.query(
      'select response_id as id from intake.packet_response_members order by 1',
    )
    expect(rows).toEqual([{ id: 'r-2' }, { id: 'r-3' }])
    // Whatever it was known by, it counts as one of the patient's.
    const patient = erasures.hashOf({ stream: 'patients', id: 'p-1' })
    const { rows: known } = await eraser.client.query(
      `select encode(patient_hash, 'hex') as patient, skipped::int from intake_ops.erasures order by skipped`,
    )
    expect(known).toEqual([
      { patient, skipped: 0 },
      { patient, skipped: 1 },
    ])
  })

  test('a dry run counts records, deletions, dead letters and problems, without those of the patient where it can', async () => {
    await note('p-2')
    const made = { teamId: 1, stream: 'patients', observedAt: at(1) }
    const states = [
      recordEnvelope({ id: 'p-1', date_birth: 'never' }, made),
      recordEnvelope({ id: 'p-2' }, made),
      ...['p-3', 'p-4'].map((id) => tombstoneEnvelope(id, made)),
    ]
    const batch = {
      stream: patients,
      lines: linesOf(patients, states),
      deadLetters: [{ recordId: null, origin: 'test', reason: 'odd', body: '{}' }],
      taken: untakenSlice({ teamId: 1, stream: 'patients', slice: '' }, '1'),
    }
    const counted = { deleted: 2, deadLetters: 1, problems: 1, conflicts: [] }
    expect(await compareBatch(loader, batch)).toEqual({ ...counted, changed: 1, erased: 1 })
    // A warehouse of an earlier version has no erasures.
    expect(await countBatch(loader, batch)).toEqual({ ...counted, changed: 2, erased: 0 })
    expect(await idsOf('patients')).toEqual([])
  })

  test('a team whose number begins with that of another keeps its records, and ids may have any characters', async () => {
    const id = 'p\t1\\n'
    await note(id)
    const erasures = await hashesOf(eraser.db, 1)
    await noteErased(eraser.db, erasures, id, [{ stream: 'responses', id: 'r\\1' }])
    await noteIn(12, 'p-2')
    const person = (teamId: number, own: string) =>
      recordEnvelope({ id: own }, { teamId, stream: 'patients', observedAt: at(1) })
    const people = [1, 11, 12].flatMap((teamId) => [id, 'p-2'].map((own) => person(teamId, own)))
    const response = (own: string, patient: string) =>
      recordEnvelope({ id: own, answers: [], patient }, { teamId: 1, stream: 'responses', observedAt: at(1) })
    const answers = [response('r-1', id), response('r\\1', 'p-2'), response('r-2', 'p\\t1\\n')]
    await loader.client.query('begin')
    expect(await write(patients, linesOf(patients, people))).toMatchObject({ changed: 4, erased: 2 })
    expect(await write(responses, linesOf(responses, answers))).toMatchObject({ changed: 1, erased: 2 })
    await loader.client.query('commit')
    const { rows } = await eraser.client.query(
      `select team_id as team, string_agg(id, ' ' order by id collate "C" desc) as ids from intake.patients group by 1 order by 1`,
    )
    expect(rows).toEqual([
      { team: 1, ids: 'p-2' },
      { team: 11, ids: `p-2 ${id}` },
      { team: 12, ids: id },
    ])
    expect(await idsOf('responses')).toEqual(['r-2'])
  })

  test('teams that the caller has found to have no erasures are not checked, and the others are', async () => {
    for (const teamId of [1, 2]) await noteIn(teamId, 'p-1')
    const states = [1, 2].map((teamId) =>
      recordEnvelope({ id: 'p-1' }, { teamId, stream: 'patients', observedAt: at(1) }),
    )
    const batch = { stream: patients, lines: linesOf(patients, states), from: READS }
    for (const [withoutErasures, erased] of [
      [[], 2],
      [[2], 1],
      [[1, 2], 0],
    ] as const) {
      await loader.client.query('begin')
      const result = await writeBatch(loader, { ...batch, withoutErasures: new Set(withoutErasures) })
      await loader.client.query('rollback')
      expect(result).toMatchObject({ changed: 2 - erased, erased })
    }
  })

  test('a dead letter of the patient is not kept, readable or not; one of another patient is', async () => {
    await note('patient-1')
    const event = (data: unknown) =>
      JSON.stringify({ id: 'e', event_type: 'updated', source: 'response', timestamp: 'never', data })
    const deadLetter = (recordId: string | null, body: string) => ({
      recordId,
      body,
      origin: 'test',
      reason: 'odd',
    })
    await loader.client.query('begin')
    const place = { teamId: 1, runId: null }
    const ofPatients = [
      deadLetter('patient-1', 'null'),
      deadLetter(null, '{"id": "patient-1", cut'),
      deadLetter('patient-2', 'null'),
    ]
    const ofResponses = [
      deadLetter('r-1', '{"id": "r-1", "patient": {"id": "patient-1"}}'),
      deadLetter('r-2', event({ id: 'r-2', patient: 'patient-1' })),
      deadLetter('r-3', event({ id: 'r-3', patient: 'patient-2' })),
    ]
    expect(await storeDeadLetters(loader.db, { ...place, stream: 'patients' }, ofPatients)).toBe(1)
    expect(await storeDeadLetters(loader.db, { ...place, stream: 'responses' }, ofResponses)).toBe(1)
    const unread = [deadLetter(null, 'patient-1 wrote'), deadLetter(null, 'nobody wrote')]
    expect(await storeDeadLetters(loader.db, { ...place, stream: 'inbox' }, unread)).toBe(1)
    await loader.client.query('commit')
    const { rows } = await eraser.client.query(
      `select convert_from(body, 'UTF8') as body from intake_raw.set_aside order by 1`,
    )
    expect(rows.map(({ body }) => body)).toEqual([
      'nobody wrote',
      'null',
      expect.stringContaining('patient-2'),
    ])
  })

  test('waits for no load of another team, and blocks none', async () => {
    await loader.client.query('begin')
    await write(patients, linesFor('p-1'))
    await noteIn(2, 'p-1')
    await loader.client.query('commit')
    await eraser.client.query('begin')
    await eraser.client.query("select pg_advisory_xact_lock(intake_ops.lock_key(7204315, '2'))")
    await loader.client.query('begin')
    expect(await write(patients, linesFor('p-2'))).toMatchObject({ changed: 1 })
    await loader.client.query('commit')
    await eraser.client.query('commit')
  })

  test('records of a team are not checked because of an erasure in another team', async () => {
    await noteIn(2, 'p-1')
    expect(await openErasures(loader.db, 1)).toBeNull()
    expect(await openErasures(loader.db, 2)).toMatchObject({ teamId: 2 })
  })

  test('a patient with the same id in another team is another patient', async () => {
    await note('p-1')
    await loader.client.query('begin')
    const envelope = recordEnvelope({ id: 'p-1' }, { teamId: 2, stream: 'patients', observedAt: at(1) })
    await writeBatch(loader, { stream: patients, lines: linesOf(patients, [envelope]), from: READS })
    await loader.client.query('commit')
    expect(await idsOf('patients')).toEqual(['p-1'])
  })

  test('of several teams in one batch, each loses the rows of its own erased patients', async () => {
    await note('p-9')
    await noteIn(2, 'p-1')
    await noteIn(3, 'p-2')
    const states = [1, 2, 3].flatMap((teamId) =>
      ['p-1', 'p-2'].map((id) => recordEnvelope({ id }, { teamId, stream: 'patients', observedAt: at(1) })),
    )
    await loader.client.query('begin')
    const from = { kind: 'events' } as const
    expect(await write(patients, linesOf(patients, states), from)).toMatchObject({ changed: 4, erased: 2 })
    await loader.client.query('commit')
    const { rows } = await eraser.client.query(
      `select team_id as team, string_agg(id, ' ' order by id) as ids from intake.patients group by 1 order by 1`,
    )
    expect(rows).toEqual([
      { team: 1, ids: 'p-1 p-2' },
      { team: 2, ids: 'p-2' },
      { team: 3, ids: 'p-1' },
    ])
    const { rows: counted } = await eraser.client.query(
      'select team_id as team, skipped::int from intake_ops.erasures order by 1',
    )
    expect(counted.map(({ skipped }) => skipped)).toEqual([0, 1, 1])
  })
})

test('a row of a file without a client id is that of a person with the same e-mail and names, in any case', async () => {
  await using database = await createTestDatabase()
  await using session = await openSession({ url: database.url, purpose: 'files' })
  const subjects = [
    { stream: 'patients', id: 'p-1' },
    exportClient('c-1'),
    ...[exportPerson(['ann@x', 'Ann', 'Lee']), exportPerson(['bo@x', 'Bo', 'Ba'])],
  ]
  await noteErased(session.db, await hashesOf(session.db, 1), 'p-1', subjects)
  await noteErased(session.db, await hashesOf(session.db, 2), 'p-9', [{ stream: 'patients', id: 'p-9' }])
  const erased = (await openErasedRows(session.db, 1))!
  const rows: readonly (readonly [isErased: boolean, ...cells: string[]])[] = [
    ...[[true, 'p-1', '', '', ''] as const, [true, 'c-1'] as const, [false, 'client c-1'] as const],
    ...[[false, 'p-9', '', '', ''] as const, [false, 'P-1'] as const],
    // Client id, first name, last name, e-mail.
    ...[[true, '', 'Ann', 'Lee', 'ann@x'] as const, [true, '', 'ANN', 'lee', 'Ann@X'] as const],
    ...[[false, '', 'AnnL', 'ee', 'ann@x'] as const, [false, '', 'Ann', '', 'ann@x'] as const],
    ...[[false, '', 'Lee', 'Ann', 'ann@x'] as const, [false, ''] as const],
    [false, 'p-2', 'Ann', 'Lee', 'ann@x'],
  ]
  for (const [isErased, ...cells] of rows) expect([cells, erased.isErased(cells)]).toEqual([cells, isErased])
  expect(erased.met).toBe(4)
  await erased.count()
  const counted = await ask(
    database.url,
    'select skipped::int from intake_ops.erasures where skipped > 0 order by 1',
  )
  expect(counted).toEqual([{ skipped: 1 }, { skipped: 1 }, { skipped: 2 }])
  expect(await openErasedRows(session.db, 3)).toBeNull()
})

describe('an erasure in files', () => {
  const HEAD = 'Client ID,First Name,Last Name,Email,Sent at,Completed at,Archived,q,q\n'
  const CSV = [
    HEAD,
    'p-1,Ann,"A ""quoted"" name",a@x,,,False,"one\ntwo",2\r\n',
    'p-2,Bo,B,b@x,,,True,,\r',
    '"p-2","Bo, again",B\\,b@x,,,True,x\n\n',
    '""\n',
    'p-3,Ünï,\u{1f600},c@x,2026-01-01 00:00:00.000001,,False,last',
  ].join('')

  async function piecesOf(bytes: Buffer, isJsonString: boolean, erased: string): Promise<Buffer> {
    const half = Math.max(20, bytes.length >> 1)
    const chunks = [bytes.subarray(0, half), bytes.subarray(half)]
    const file = { isJsonString, chunks: 2, chunk: async (number: number) => chunks[number - 1]! }
    const pieces: Buffer[] = []
    for await (const piece of withoutErasedRows(file, ([id]) => id === erased)) pieces.push(piece)
    return Buffer.concat(pieces)
  }

  function linesIn(bytes: Buffer, isJsonString: boolean, erased: string | null): readonly string[] {
    const problems = openFileProblems(1)
    const isErased = erased === null ? {} : { isErased: ([id]: readonly string[]) => id === erased }
    const lines = openFileLines({ teamId: 1, exportId: 'e', fromJson: isJsonString, ...isErased }, problems)
    const text = openExportText({ isJsonString }, (cells) => lines.add(cells, text.allStorable))
    text.write(bytes)
    text.end()
    const found = [lines.rowLines.take(), lines.cellLines.take(), lines.columnLines()]
    return [...found.map((part) => part.toString('utf8')), JSON.stringify(problems.listed())]
  }

  const asJson = (csv: string) => Buffer.from(JSON.stringify(csv))
  test.each([
    ['plain', Buffer.from(CSV), false],
    [
      'plain, with a byte order mark and a byte that is no text',
      Buffer.concat([Buffer.from(`\ufeff${CSV}`), Buffer.from([0x96])]),
      false,
    ],
    ['a JSON string', asJson(CSV), true],
    ['a JSON string with a lone surrogate', asJson(`${CSV}\ud83d`), true],
    ['a JSON string with characters that it must escape', asJson(`${CSV}\0\t\u001f`), true],
  ])(
    'the kept part of a file (%s) gives the rows of the whole file without the erased ones',
    async (_, bytes, isJson) => {
      const kept = await piecesOf(bytes, isJson, 'p-2')
      if (isJson) expect(typeof JSON.parse(kept.toString())).toBe('string')
      expect(kept.includes('p-2') || kept.includes('Bo')).toBe(false)
      // The header is no row, whatever the id of a patient is.
      expect(linesIn(await piecesOf(bytes, isJson, 'Client ID'), isJson, null)).toEqual(
        linesIn(bytes, isJson, null),
      )
      expect(linesIn(kept, isJson, null)).toEqual(linesIn(bytes, isJson, 'p-2'))
      expect(linesIn(kept, isJson, null)[0]).toMatch(/\t1\tp-1\t[\s\S]*\t5\tp-3\t/)
      // Again for another patient: nothing of the first returns.
      const twice = await piecesOf(kept, isJson, 'p-3')
      expect(linesIn(twice, isJson, null)[0]).not.toMatch(/p-[23]/)
    },
  )
})
