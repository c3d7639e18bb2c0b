/** A file in its tables: complete or not at all, replacing the one before, next to another team's with the same id. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { hashesOf, noteErased } from '../../../src/load/erasures.ts'
import type { ExportFile } from '../../../src/load/exports/export-file.ts'
import { loadFile, rejectFile } from '../../../src/load/exports/load-file.ts'
import { spool } from '../../../src/load/exports/spool.ts'
import { type TakenSlice, takeSlice } from '../../../src/load/slice.ts'
import { ago, openRig, type Rig } from '../../extract/support/reading.ts'

let rig: Rig
let taken: TakenSlice
beforeEach(async () => {
  rig = await openRig()
  for (const team of [rig.teamId, rig.otherId])
    await rig.hold('exports', [{ id: 'e', name: 'E' }], ago(60), team)
  taken = await take(rig.teamId)
})
afterEach(() => rig[Symbol.asyncDispose]())

const take = (teamId: number, runId = '1') =>
  takeSlice(rig.session.db, { teamId, stream: 'exports', slice: '' }, runId)

const HEADER = 'Client ID,First Name,Last Name,Email,Sent at,Completed at,Archived,Mood,Pain\r\n'
const row = (id: string, mood: string, pain = '3') =>
  `${id},A,B,a@example.com,2026-01-02 03:04:05,2026-01-02 04:00:00,false,${mood},${pain}\r\n`
const MALFORMED = `${HEADER}"c1,A,B\r\n`

async function spooled(text: string, over: Partial<ExportFile> = {}): Promise<ExportFile> {
  const { last: _, ...measures } = await spool(
    rig.session,
    (async function* () {
      yield Buffer.from(text)
    })(),
  )
  return {
    ...measures,
    ...{ exportId: 'e', isJsonString: false, apiVersion: 'v2.1', timezone: 'UTC', observedAt: ago(0) },
    origin: 'run:1 file',
    ...over,
  }
}
const load = async (text: string, by: TakenSlice = taken) => loadFile(rig.session, by, await spooled(text))
const reject = async (text: string, reason = 'broken', by: TakenSlice = taken) =>
  rejectFile(rig.session, by, await spooled(text), reason)

const cells = async (teamId = rig.teamId) =>
  (
    await rig.rows<{ cell: string }>(
      `select row_number || ':' || position || '=' || value as cell from intake.export_cells
       where team_id = $1 and export_id = 'e' order by row_number, position`,
      [teamId],
    )
  ).map(({ cell }) => cell)
const count = async (table: string, teamId = rig.teamId) => {
  const [found] = await rig.rows<{ count: number }>(`select count(*)::int from ${table} where team_id = $1`, [
    teamId,
  ])
  return found!.count
}
const files = (teamId = rig.teamId) =>
  rig.rows(
    `select is_loaded as loaded, encode(hash, 'hex') as hash, bytes::int,
       (select coalesce(sum(octet_length(body)), 0)::int from intake_raw.export_chunks chunk
        where (chunk.team_id, chunk.export_id, chunk.is_loaded) = (file.team_id, file.export_id, file.is_loaded)) as kept
     from intake_raw.export_files file where team_id = $1 order by is_loaded desc`,
    [teamId],
  )
const deadLetters = () =>
  rig.rows(
    `select record_id as id, reason, seen::int, convert_from(body, 'UTF8')::jsonb as body
     from intake_ops.dead_letters deadLetter join intake_raw.set_aside kept on kept.dead_letter_id = deadLetter.id
     order by deadLetter.id`,
  )

describe('loading', () => {
  test('fills columns, rows and cells, and keeps the bytes', async () => {
    const text = HEADER + row('c1', 'good') + row('c2', '', '5')
    expect(await load(text)).toEqual({ rows: 2, cells: 3, problems: 0 })
    expect(await cells()).toEqual(['1:8=good', '1:9=3', '2:9=5'])
    expect(await rig.rows('select position, title from intake.export_columns order by position')).toEqual([
      { position: 8, title: 'Mood' },
      { position: 9, title: 'Pain' },
    ])
    expect(await files()).toMatchObject([{ loaded: true, bytes: text.length, kept: text.length }])
  })

  test('whether a row is archived is read in any case, with blanks around it; anything else is a problem', async () => {
    const written = [' False', 'TRUE ', 'false', '0', ' ']
    const text = HEADER + written.map((archived) => row('c', 'good').replace('false', archived)).join('')
    expect(await load(text)).toMatchObject({ rows: 5, problems: 2 })
    const read = await rig.rows<{ archived: boolean | null }>(
      'select archived from intake.export_rows order by row_number',
    )
    expect(read.map(({ archived }) => archived)).toEqual([false, true, false, null, null])
  })

  test('a second file replaces the first, shorter or longer; the second time the same is the same', async () => {
    await load(HEADER + row('c1', 'good') + row('c2', 'bad'))
    for (let times = 0; times < 2; times++) {
      await load(HEADER + row('c3', 'fair'))
      expect(await cells()).toEqual(['1:8=fair', '1:9=3'])
      expect([await count('intake.export_rows'), (await files()).length]).toEqual([1, 1])
    }
    await load(HEADER)
    expect([await cells(), await count('intake.export_rows'), await count('intake.export_columns')]).toEqual([
      [],
      0,
      2,
    ])
  })

  test('the same export of another team does not change', async () => {
    const other = await take(rig.otherId)
    await load(HEADER + row('c1', 'other'), other)
    await load(HEADER + row('c1', 'own'))
    await load(HEADER)
    expect(await cells(rig.otherId)).toEqual(['1:8=other', '1:9=3'])
    expect(await files(rig.otherId)).toHaveLength(1)
  })

  test('times are read in the zone of the file, in this transaction alone', async () => {
    await loadFile(rig.session, taken, await spooled(HEADER + row('c1', 'good'), { timezone: 'Asia/Tokyo' }))
    expect(
      await rig.rows(
        `select sent_at at time zone 'UTC' = '2026-01-01 18:04:05' as sent from intake.export_rows`,
      ),
    ).toEqual([{ sent: true }])
    const [zone] = await rig.rows<{ TimeZone: string }>('show timezone')
    expect(zone!.TimeZone).not.toBe('Asia/Tokyo')
  })

  test('is a change of its own export in the change feed, although its entry stays the same', async () => {
    await rig.hold('exports', [{ id: 'f', name: 'F' }], ago(60))
    await rig.hold('forms', [{ id: 'e', questions: [] }], ago(60))
    const changed = async () =>
      rig.rows<{ place: string; seq: string; at: Date }>(
        `select team_id || '/' || stream || '/' || id as place, change_seq as seq, changed_at as at from intake_raw.records
         where team_id in ($1, $2) order by 1`,
        [rig.teamId, rig.otherId],
      )
    const before = await changed()
    await load(HEADER + row('c1', 'good'), await take(rig.teamId))
    const after = await changed()
    const moved = after.filter(
      ({ seq, at }, place) => BigInt(seq) > BigInt(before[place]!.seq) && at > before[place]!.at,
    )
    expect(before).toHaveLength(4)
    expect(moved.map(({ place }) => place)).toEqual([`${rig.teamId}/exports/e`])
    expect(after.filter((each) => !moved.includes(each))).toEqual(
      before.filter(({ place }) => place !== moved[0]!.place),
    )
  })

  test('a malformed file is thrown, and changes nothing', async () => {
    await load(HEADER + row('c1', 'good'))
    const before = [await cells(), await files(), await count('intake.export_rows')]
    await expect(load(MALFORMED)).rejects.toMatchObject({ code: 'malformed_file' })
    expect([await cells(), await files(), await count('intake.export_rows')]).toEqual(before)
  })

  test('a file of several chunks without its erased rows keeps all other bytes, and nothing else', async () => {
    const erasures = await hashesOf(rig.session.db, rig.teamId)
    await noteErased(rig.session.db, erasures, 'gone', [{ stream: 'patients', id: 'gone' }])
    const long = 'x'.repeat(700_000)
    const rows = ['a', 'gone', 'b', 'c', 'gone', 'd'].map((id) => [id, `${long} ${id}`] as const)
    await load(HEADER + rows.map(([id, mood]) => row(id, mood)).join(''))
    const quoted = (line: string) => `${line.trimEnd().replaceAll(/[^,]+/g, '"$&"')}\n`
    const kept = rows.map(([id, mood]) => (id === 'gone' ? '"\u007ferased\u007f"\n' : quoted(row(id, mood))))
    const chunks = await rig.rows<{ number: number; body: Buffer }>(
      `select number, body from intake_raw.export_chunks where team_id = $1 order by number`,
      [rig.teamId],
    )
    expect(chunks.length).toBeGreaterThan(1)
    expect(chunks.map(({ number }) => number)).toEqual(chunks.map((_, at) => at + 1))
    const bytes = Buffer.concat(chunks.map(({ body }) => body))
    // Compared as a whole, without a difference of megabytes in the message.
    expect(bytes.equals(Buffer.from(quoted(HEADER) + kept.join('')))).toBe(true)
    // Each of the patient's rows counts once.
    expect(await rig.rows('select team_id as team, skipped::int from intake_ops.erasures')).toEqual([
      { team: rig.teamId, skipped: 2 },
    ])
  })

  test('of a team with erasures keeps its bytes as received, where no row of it is erased', async () => {
    const erasures = await hashesOf(rig.session.db, rig.teamId)
    await noteErased(rig.session.db, erasures, 'gone', [{ stream: 'patients', id: 'gone' }])
    const text = `${HEADER}"c1",A,"B",,,,\n`
    expect(await load(text)).toMatchObject({ rows: 1 })
    const bytes = await rig.rows<{ text: string }>(
      `select convert_from(body, 'UTF8') as text from intake_raw.export_chunks order by number`,
    )
    expect(bytes).toEqual([{ text }])
    expect(await rig.rows('select skipped::int from intake_ops.erasures')).toEqual([{ skipped: 0 }])
  })

  test('finds the questions of its columns at once, in the form of the export', async () => {
    const question = (id: string) => ({ id, text: 'Mood', question_type: 'text' })
    await rig.hold(
      'forms',
      ['f', 'g'].map((id) => ({ id, questions: [question(`mood of ${id}`)] })),
      ago(60),
    )
    await rig.hold('exports', [{ id: 'e', name: 'E', form: { id: 'f' } }], ago(50))
    await load(HEADER + row('c1', 'good'), await take(rig.teamId))
    expect(await rig.rows('select title, question_id from intake.export_columns order by position')).toEqual([
      { title: 'Mood', question_id: 'mood of f' },
      { title: 'Pain', question_id: null },
    ])
  })

  test('by a worker whose slice another has taken it changes nothing', async () => {
    await load(HEADER + row('c1', 'good'))
    await take(rig.teamId, '2')
    await expect(load(HEADER + row('c1', 'late'))).rejects.toMatchObject({ code: 'slice_lost' })
    await expect(reject(MALFORMED)).rejects.toMatchObject({ code: 'slice_lost' })
    expect(await cells()).toEqual(['1:8=good', '1:9=3'])
    expect([await deadLetters(), await files()]).toMatchObject([[], [{ loaded: true }]])
  })

  test('cells that cannot be read as a time are problems of the export, and the rest is loaded', async () => {
    const text = HEADER + row('c1', 'good').replace('2026-01-02 03:04:05', 'yesterday')
    expect(await load(text)).toEqual({ rows: 1, cells: 2, problems: 1 })
    const [entry] = await rig.rows<{ problems: { original: unknown }[] }>(
      'select _problems as problems from intake.exports where team_id = $1',
      [rig.teamId],
    )
    expect(entry!.problems).toMatchObject([{ original: 'yesterday' }])
    const noted = await rig.rows('select stream, path, count::int from intake_ops.problems')
    expect(noted).toMatchObject([{ stream: 'exports', count: 1 }])
    await load(HEADER + row('c1', 'good'))
    expect(await rig.rows('select _problems from intake.exports where team_id = $1', [rig.teamId])).toEqual([
      { _problems: null },
    ])
  })
})

describe('rejecting', () => {
  test('keeps the bytes and a dead letter that names them, in addition to the loaded file', async () => {
    await load(HEADER + row('c1', 'good'))
    await reject(MALFORMED)
    const { hash } = await spooled(MALFORMED)
    expect(await files()).toMatchObject([
      { loaded: true },
      { loaded: false, hash, bytes: MALFORMED.length, kept: MALFORMED.length },
    ])
    expect(await deadLetters()).toEqual([
      { id: 'e', reason: 'broken', seen: 1, body: { export_id: 'e', sha256: hash, bytes: MALFORMED.length } },
    ])
    expect(await cells()).toEqual(['1:8=good', '1:9=3'])
  })

  test('of a loaded and of a rejected file each column says which one it is, and where it came from', async () => {
    const observedAt = ago(9)
    const loaded = JSON.stringify(HEADER + row('c1', 'good').replace('2026-01-02 03:04:05', 'never'))
    const over = { isJsonString: true, timezone: 'Asia/Tokyo', observedAt }
    const first = await spooled(loaded, { ...over, origin: 'run:7 file' })
    expect(await loadFile(rig.session, taken, first)).toEqual({ rows: 1, cells: 2, problems: 1 })
    const second = await spooled(MALFORMED, { apiVersion: '', origin: 'run:8 file', observedAt })
    const by = await take(rig.teamId, '8')
    await rejectFile(rig.session, by, second, 'broken')
    const same = { team_id: rig.teamId, export_id: 'e', at: observedAt }
    const { problems } = (
      await rig.rows<{ problems: object[] }>(
        'select _problems as problems from intake.exports where team_id = $1',
        [rig.teamId],
      )
    )[0]!
    expect(problems).toEqual([
      { path: 'raw_text.rows[1].sent_at', reason: expect.any(String), original: 'never' },
    ])
    expect(
      await rig.rows(
        `select file.*, bytes::int, encode(hash, 'hex') as hash, null as observed_at,
           to_char(observed_at, 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at
         from intake_raw.export_files file order by is_loaded desc`,
      ),
    ).toEqual([
      {
        ...{ ...same, is_loaded: true, hash: first.hash, bytes: loaded.length, is_json_string: true },
        ...{ api_version: 'v2.1', timezone: 'Asia/Tokyo', origin: 'run:7 file', problems, observed_at: null },
      },
      {
        ...{ ...same, is_loaded: false, hash: second.hash, bytes: MALFORMED.length, is_json_string: false },
        ...{ api_version: '', timezone: 'UTC', origin: 'run:8 file', problems: null, observed_at: null },
      },
    ])
    expect(
      await rig.rows(
        'select team_id, stream, record_id, origin, reason, status, last_run_id from intake_ops.dead_letters',
      ),
    ).toEqual([
      {
        ...{ team_id: rig.teamId, stream: 'exports', record_id: 'e', origin: 'run:8 file', reason: 'broken' },
        ...{ status: 'waiting', last_run_id: '8' },
      },
    ])
  })

  test('the same file again is counted and not written, another replaces it', async () => {
    await load(HEADER + row('c1', 'good'))
    await reject(MALFORMED)
    const versions = () => rig.rows('select is_loaded, xmin::text from intake_raw.export_files order by 1')
    const before = await versions()
    await reject(MALFORMED)
    expect(await versions()).toEqual(before)
    await load(HEADER)
    await reject(MALFORMED)
    expect([(await files()).length, (await deadLetters()).map(({ seen }) => seen)]).toEqual([2, [3]])
    await reject(`${MALFORMED}more`)
    expect(await files()).toMatchObject([
      { loaded: true },
      { loaded: false, bytes: MALFORMED.length + 4, kept: MALFORMED.length + 4 },
    ])
    expect((await deadLetters()).map(({ seen }) => seen)).toEqual([3, 1])
  })

  test('a file that loads afterwards ends it; that of another team stays', async () => {
    const other = await take(rig.otherId)
    await reject(MALFORMED)
    await reject(MALFORMED, 'broken', other)
    await load(HEADER + row('c1', 'good'))
    expect(await files()).toMatchObject([{ loaded: true }])
    expect(await files(rig.otherId)).toMatchObject([{ loaded: false, kept: MALFORMED.length }])
  })

  test('where a patient of the team was erased, only the hash is kept: the bytes cannot be searched', async () => {
    const erasures = await hashesOf(rig.session.db, rig.teamId)
    await noteErased(rig.session.db, erasures, 'p', [{ stream: 'patients', id: 'p' }])
    await reject(MALFORMED)
    await reject(MALFORMED, 'broken', await take(rig.otherId))
    expect(await files()).toMatchObject([{ loaded: false, bytes: MALFORMED.length, kept: 0 }])
    expect(await files(rig.otherId)).toMatchObject([{ kept: MALFORMED.length }])
  })
})
