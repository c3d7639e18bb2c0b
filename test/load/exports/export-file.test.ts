/** The stored state of an export and its files, problems and questions, with another team's export of the same id. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  dropFiles,
  type ExportFile,
  isUnchanged,
  storedExports,
  storeFile,
} from '../../../src/load/exports/export-file.ts'
import { joinProblems, matchQuestions } from '../../../src/load/exports/file-problems.ts'
import { ago, openRig, type Rig } from '../../extract/support/reading.ts'

let rig: Rig
beforeEach(async () => {
  rig = await openRig()
})
afterEach(() => rig[Symbol.asyncDispose]())

const file = (over: Partial<ExportFile> = {}): ExportFile => ({
  ...{ exportId: 'e', hash: 'ab'.repeat(32), bytes: 7, chunks: 0, first: [], isJsonString: false },
  ...{ apiVersion: 'v2.1', timezone: 'UTC', observedAt: ago(0), origin: 'run:1 file' },
  ...over,
})
const entry = (id: string, more: object = {}) => ({ id, name: id, ...more })
const keep = (teamId: number, isLoaded: boolean, over: Partial<ExportFile> = {}, problems: object[] = []) =>
  storeFile(rig.session.db, teamId, file(over), { isLoaded, problems: problems as never })

describe('the stored state of an export', () => {
  test('is the live entry of its team, with the loaded file and whether a later one is broken', async () => {
    await rig.hold(
      'exports',
      ['e', 'f', 'gone'].map((id) => entry(id)),
      ago(60),
    )
    await rig.hold(
      'exports',
      ['e', 'g'].map((id) => entry(id)),
      ago(60),
      rig.otherId,
    )
    await rig.rows(`update intake.exports set _deleted_at = now() where id = 'gone'`)
    await keep(rig.teamId, true)
    await keep(rig.otherId, true, { hash: 'cd'.repeat(32), timezone: 'Asia/Tokyo' })
    await keep(rig.otherId, false, { hash: 'ef'.repeat(32) })
    const storedStates = await storedExports(rig.session.db, rig.teamId, ['e', 'f', 'g', 'gone', 'none'])
    expect([...storedStates]).toEqual([
      [
        'e',
        {
          origin: 'run:0 page:1',
          hash: 'ab'.repeat(32),
          apiVersion: 'v2.1',
          timezone: 'UTC',
          hasRejected: false,
        },
      ],
      ['f', { origin: 'run:0 page:1', hash: null, apiVersion: null, timezone: null, hasRejected: false }],
    ])
    const other = await storedExports(rig.session.db, rig.otherId, ['e'])
    expect(other.get('e')).toMatchObject({ hash: 'cd'.repeat(32), timezone: 'Asia/Tokyo', hasRejected: true })
    expect((await storedExports(rig.session.db, rig.teamId, [])).size).toBe(0)
  })

  test.each<[string, Partial<ExportFile>, boolean]>([
    ['the same bytes, version and zone', {}, true],
    ['asked for at another time', { observedAt: ago(99), origin: 'run:9 file' }, true],
    ['other bytes', { hash: 'cd'.repeat(32) }, false],
    ['another version', { apiVersion: '' }, false],
    ['another zone', { timezone: 'Europe/Paris' }, false],
  ])('is unchanged only when no relevant part differs: %s', (_, over, unchanged) => {
    const { hash, apiVersion, timezone, origin } = file()
    expect(isUnchanged({ hash, apiVersion, timezone, origin, hasRejected: false }, file(over))).toBe(
      unchanged,
    )
    expect(isUnchanged(undefined, file(over))).toBe(false)
  })
})

test('files are removed for one export of one team: the given one, or both', async () => {
  const left = () =>
    rig.rows(
      'select team_id as team, export_id as id, is_loaded as loaded from intake_raw.export_files order by 1, 2, 3',
    )
  for (const [team, id] of [
    [rig.teamId, 'e'],
    [rig.teamId, 'f'],
    [rig.otherId, 'e'],
  ] as const)
    for (const isLoaded of [true, false]) await keep(team, isLoaded, { exportId: id })
  await dropFiles(rig.session.db, { teamId: rig.teamId, exportId: 'e' }, false)
  expect(await left()).toHaveLength(5)
  expect(await left()).toContainEqual({ team: rig.teamId, id: 'e', loaded: true })
  await dropFiles(rig.session.db, { teamId: rig.teamId, exportId: 'f' })
  expect(await left()).toEqual([
    { team: rig.teamId, id: 'e', loaded: true },
    { team: rig.otherId, id: 'e', loaded: false },
    { team: rig.otherId, id: 'e', loaded: true },
  ])
})

describe('problems of an export', () => {
  const problem = (path: string) => ({ path, reason: 'r', original: 1 })
  const pathsOf = async (id: string, teamId = rig.teamId) => {
    const [row] = await rig.rows<{ problems: { path: string }[] | null; xmin: string }>(
      'select _problems as problems, xmin::text from intake.exports where team_id = $1 and id = $2',
      [teamId, id],
    )
    return { paths: row!.problems?.map(({ path }) => path) ?? null, xmin: row!.xmin }
  }
  const inEntry = (id: string, ...paths: readonly string[]) =>
    rig.rows('update intake.exports set _problems = $3 where team_id = $1 and id = $2', [
      rig.teamId,
      id,
      JSON.stringify(paths.map(problem)),
    ])

  test('are those of its entry, then those of the loaded file, whichever was stored first', async () => {
    await rig.hold(
      'exports',
      ['e', 'f', 'g', 'h'].map((id) => entry(id)),
      ago(60),
    )
    await rig.hold('exports', [entry('e')], ago(60), rig.otherId)
    await inEntry('e', 'name', 'raw_text.rows[9]', 'created_at')
    await inEntry('f', 'raw_text')
    await keep(rig.teamId, true, {}, [problem('raw_text.header'), problem('raw_text.rows[1]')])
    await keep(rig.teamId, false, {}, [problem('raw_text.broken')])
    await keep(rig.teamId, true, { exportId: 'h' }, [problem('raw_text.h')])
    await keep(rig.otherId, true, {}, [problem('raw_text.of-others')])
    await rig.rows(`update intake.exports set _loaded_at = '2020-01-01'`)
    const untouched = await pathsOf('g')
    await joinProblems(rig.session.db, rig.teamId)
    expect((await pathsOf('e')).paths).toEqual(['name', 'created_at', 'raw_text.header', 'raw_text.rows[1]'])
    expect((await pathsOf('f')).paths).toBeNull()
    expect((await pathsOf('h')).paths).toEqual(['raw_text.h'])
    expect(await pathsOf('g')).toEqual(untouched)
    expect((await pathsOf('e', rig.otherId)).paths).toBeNull()
    // The rows say that they changed.
    expect(
      await rig.rows(
        `select team_id as team, id from intake.exports where _loaded_at > '2020-01-02' order by id`,
      ),
    ).toEqual(['e', 'f', 'h'].map((id) => ({ team: rig.teamId, id })))
    const before = await pathsOf('e')
    await joinProblems(rig.session.db, rig.teamId)
    expect(await pathsOf('e')).toEqual(before)
  })

  test('are joined for the given export only, and for no deleted one', async () => {
    await rig.hold(
      'exports',
      ['e', 'f'].map((id) => entry(id)),
      ago(60),
    )
    for (const exportId of ['e', 'f']) await keep(rig.teamId, true, { exportId }, [problem('raw_text.x')])
    await joinProblems(rig.session.db, rig.teamId, 'e')
    expect((await pathsOf('f')).paths).toBeNull()
    expect((await pathsOf('e')).paths).toEqual(['raw_text.x'])
    await rig.rows(`update intake.exports set _deleted_at = now() where id = 'f'`)
    await joinProblems(rig.session.db, rig.teamId)
    expect((await pathsOf('f')).paths).toBeNull()
  })
})

describe('the question of a column', () => {
  const question = (id: string | null, text: string, type = 'text') => ({
    ...(id === null ? {} : { id }),
    text,
    question_type: type,
  })
  async function columns(exportId: string, titles: readonly (string | null)[], teamId = rig.teamId) {
    for (const [at, title] of titles.entries())
      await rig.rows(
        'insert into intake.export_columns (team_id, export_id, position, title) values ($1, $2, $3, $4)',
        [...[teamId, exportId, at + 8, title]],
      )
  }
  const matched = async (exportId = 'e', teamId = rig.teamId) =>
    (
      await rig.rows<{ question: string | null }>(
        `select question_id as question from intake.export_columns where team_id = $1 and export_id = $2 order by position`,
        [teamId, exportId],
      )
    ).map((row) => row.question)

  test('is the only question of its form with that text, or the matrix to which the titled cell belongs', async () => {
    const questions = [
      question('q1', 'Age?'),
      question('q2', 'Twice?'),
      question('q3', 'Twice?'),
      question('q4', 'Same'),
      question('q4', 'Same'),
      question('m1', 'Pain', 'matrix'),
      question('q5', 'Pain - back'),
      question(null, 'Nameless'),
      question('e1', '', 'matrix'),
    ]
    await rig.hold(
      'forms',
      [
        { id: 'f', questions },
        { id: 'g', questions: [question('other', 'Elsewhere')] },
      ],
      ago(60),
    )
    await rig.hold(
      'forms',
      [{ id: 'f', questions: [question('of-others', 'Age?'), question('x', 'Elsewhere')] }],
      ago(60),
      rig.otherId,
    )
    await rig.hold('exports', [entry('e', { form: { id: 'f' } }), entry('formless')], ago(60))
    await rig.hold('exports', [entry('e', { form: { id: 'f' } })], ago(60), rig.otherId)
    const titles = [
      'Age?',
      'age?',
      'Twice?',
      'Same',
      'Pain - back - often',
      'Pain - back',
      'Pain - x',
      'Nameless',
      'Elsewhere',
      null,
    ]
    await columns('e', titles)
    await columns('formless', ['Age?'])
    await columns('e', ['Age?'], rig.otherId)
    const changed = await matchQuestions(rig.session.db, rig.teamId)
    expect(await matched()).toEqual(['q1', null, null, 'q4', 'm1', 'q5', null, null, null, null])
    expect(changed).toBe(4)
    expect(await matched('formless')).toEqual([null])
    expect(await matched('e', rig.otherId)).toEqual([null])
    expect(await matchQuestions(rig.session.db, rig.teamId)).toBe(0)
    // Expected columns follow from the expected exports, whatever is stored.
    await rig.session.client.query(`
      create temporary table expected_exports as table intake.exports;
      update expected_exports set form_id = 'another';
      create temporary table expected_columns as table intake.export_columns`)
    const expected = { columns: 'expected_columns', entries: 'expected_exports' }
    await matchQuestions(rig.session.db, rig.teamId, null, expected)
    const left = `select count(*)::int as left from expected_columns
      where export_id = 'e' and team_id = ${rig.teamId} and question_id is not null`
    expect((await rig.session.client.query(left)).rows).toEqual([{ left: 0 }])
    expect(await matchQuestions(rig.session.db, rig.otherId)).toBe(1)
    expect(await matched('e', rig.otherId)).toEqual(['of-others'])
  })

  test('is made for the given export only, and removed when its form no longer has the question', async () => {
    await rig.hold('forms', [{ id: 'f', questions: [question('q1', 'Age?')] }], ago(60))
    await rig.hold('exports', [entry('e', { form: { id: 'f' } }), entry('d', { form: { id: 'f' } })], ago(60))
    await columns('e', ['Age?'])
    await columns('d', ['Age?'])
    expect(await matchQuestions(rig.session.db, rig.teamId, 'e')).toBe(1)
    expect([await matched('e'), await matched('d')]).toEqual([['q1'], [null]])
    expect(await matchQuestions(rig.session.db, rig.teamId)).toBe(1)
    await rig.hold('forms', [{ id: 'f', questions: [question('q1', 'How old?')] }], ago(30))
    expect([await matched('e'), await matched('d')]).toEqual([[null], [null]])
    expect(await matchQuestions(rig.session.db, rig.teamId)).toBe(0)
  })
})
