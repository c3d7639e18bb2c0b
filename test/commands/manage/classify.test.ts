/** `classify`: decisions on one question, on many, and errors for questions that cannot be decided on. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import { parse } from 'csv-parse/sync'
import { stringify } from 'csv-stringify/sync'
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest'
import { openWarehouse, query } from '../../e2e/support/scene.ts'
import type { TestDatabase } from '../../support/database.ts'
import { runCommand } from '../../support/run-command.ts'

let warehouse: TestDatabase
let folder: string

const classify = (...words: string[]) => runCommand(['classify', ...words], { DATABASE_URL: warehouse.url })

const shown = async () => {
  const rows = await query<{ key: string; shows: string }>(
    warehouse.url,
    `select t.name || '/' || form_id || '/' || question_id as key, shows from intake.questions join intake.teams t using (team_id)`,
  )
  return Object.fromEntries(rows.map(({ key, shows }) => [key, shows]))
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'intake-sync-classify-'))
  warehouse = await openWarehouse()
  await query(warehouse.url, `insert into intake.teams (name) values ('a'), ('b')`)
  await query(
    warehouse.url,
    `insert into intake.forms (team_id, id, name, _version, _origin)
     select team_id, form, 'Form ' || form, now(), 'test' from intake.teams, unnest(array['f', 'g']) form`,
  )
  await query(
    warehouse.url,
    `insert into intake.form_questions (team_id, form_id, position, question_id, question_type, text)
     select team_id, form, place, 'q' || place, (array['short_text', 'number'])[place], E'What?\\x1b[2J'
     from intake.teams, unnest(array['f', 'g']) form, generate_series(1, 2) place`,
  )
})
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true })
  await warehouse.drop()
})

describe('classify set', () => {
  it('decides on the question in every form and team, or only in the given ones', async () => {
    expect((await classify('set', 'q1', 'visible')).stdout).toBe('visible: 4 questions\n')
    expect(await shown()).toMatchObject({
      'a/f/q1': 'everything',
      'b/g/q1': 'everything',
      'a/f/q2': 'structured',
    })
    expect((await classify('set', 'q1', 'hidden', '--team', 'a', '--form', 'Form f')).stdout).toBe(
      'hidden: one question\n',
    )
    expect(await shown()).toMatchObject({
      'a/f/q1': 'nothing',
      'a/g/q1': 'everything',
      'b/f/q1': 'everything',
    })
    const { stdout } = await classify('set', 'q2', 'hidden', '--form', 'g', '--json')
    expect(JSON.parse(stdout)).toEqual({ question_id: 'q2', visibility: 'hidden', questions: 2 })
    expect(await shown()).toMatchObject({ 'a/f/q2': 'structured', 'a/g/q2': 'nothing' })
  })

  it('restores what the type of a question shows, after a person showed all of it or nothing', async () => {
    for (const before of ['visible', 'hidden']) {
      for (const question of ['q1', 'q2']) await classify('set', question, before, '--form', 'g')
      expect((await classify('set', 'q2', 'structured', '--form', 'g')).stdout).toBe(
        'structured: 2 questions\n',
      )
      await classify('set', 'q1', 'structured', '--form', 'g')
      // A text is hidden by its type.
      expect(await shown()).toMatchObject({ 'a/g/q1': 'nothing', 'a/g/q2': 'structured' })
    }
    const list = JSON.parse((await classify('list', '--form', 'g', '--json')).stdout).questions as object[]
    expect(list).toMatchObject([1, 2, 3, 4].map(() => ({ decided_by: 'person', waits: false })))
    await classify('set', 'q1', 'visible', '--form', 'g')
    await classify('set', 'q2', 'hidden', '--form', 'g')
  })

  it('settles a question that was reworded and waits', async () => {
    const text = (words: string) =>
      query(
        warehouse.url,
        `update intake.form_questions set text = $1 where team_id = 1 and form_id = 'f' and question_id = 'q2'`,
        [words],
      )
    const waiting = async () =>
      (
        JSON.parse((await classify('list', '--waiting', '--json')).stdout).questions as {
          question_id: string
        }[]
      ).map(({ question_id }) => question_id)
    expect(await waiting()).toEqual([])
    await text('What, now?')
    expect(await waiting()).toEqual(['q2'])
    expect((await classify('list', '--waiting')).stdout).toContain('reworded: waits')
    expect((await shown())['a/f/q2']).toBe('nothing')
    await classify('set', 'q2', 'structured', '--team', 'a', '--form', 'f')
    expect(await waiting()).toEqual([])
    expect((await shown())['a/f/q2']).toBe('structured')
    await text('What?\x1b[2J')
  })

  it('sets the concept of a question, and removes it', async () => {
    await classify('set', 'q2', 'visible', '--team', 'a', '--concept', 'weight')
    const concepts = 'select form_id, concept from intake.questions where concept is not null order by 1'
    expect(await query(warehouse.url, concepts)).toEqual(
      ['f', 'g'].map((form_id) => ({ form_id, concept: 'weight' })),
    )
    await classify('set', 'q2', 'visible', '--form', 'f', '--concept', '')
    expect(await query(warehouse.url, concepts)).toEqual([{ form_id: 'g', concept: 'weight' }])
  })

  it('sets the concept of a question without deciding on it', async () => {
    const before = await shown()
    const { stdout } = await classify('set', 'q1', '--team', 'b', '--concept', 'story', '--json')
    expect(JSON.parse(stdout)).toEqual({ question_id: 'q1', visibility: null, questions: 2 })
    const file = join(folder, 'concepts.csv')
    writeFileSync(file, 'question_id,visibility,team,concept\nq1,,a,story\n')
    expect((await classify('import', file)).code).toBe(0)
    expect(await shown()).toEqual(before)
    const named = `select count(*)::int as questions from intake.questions where concept = 'story'`
    expect(await query(warehouse.url, named)).toEqual([{ questions: 4 }])
    expect((await classify('set', 'q1', '--concept', '')).stdout).toBe('visibility unchanged: 4 questions\n')
    expect(await query(warehouse.url, named)).toEqual([{ questions: 0 }])
  })

  it.each([
    [['set', 'nothing', 'visible'], 1, 'code: unknown_question'],
    [
      ['set', 'q1', 'visible', '--form', 'nothing'],
      1,
      'QUESTION names a question that is not in the warehouse',
    ],
    [['set', 'q1', 'perhaps'], 2, 'Use visible or hidden'],
    [['set', 'q1', 'visible', '--team', 'nobody'], 2, 'use one of: a, b'],
    [['set', 'q1'], 2, 'visibility'],
    [['set', 'q1', '--researchers', 'perhaps'], 2, 'Allowed choices are visible, age'],
    [['tag', 'nothing', 'visible'], 1, 'code: unknown_tag'],
    [['tag', 'nothing'], 2, 'a tag needs a visibility'],
    [['import', '/nonexistent.csv'], 2, 'ENOENT'],
    [['import', '/nonexistent.csv'], 2, 'code: file_unreadable'],
  ])('%j exits with %i and gives the reason', async (words, code, said) => {
    const before = await shown()
    const ended = await classify(...words)
    expect(ended).toMatchObject({ code, stdout: '' })
    expect(ended.stderr).toContain(said)
    expect(await shown()).toEqual(before)
  })
})

describe('classify tag', () => {
  it('shows and hides the tag of the given team only', async () => {
    await query(
      warehouse.url,
      `insert into intake.patient_tags (team_id, patient_id, position, name) select team_id, 'p', 1, 'Fall risk' from intake.teams`,
    )
    const tag = async (...words: string[]) => {
      const { tags } = JSON.parse((await classify('tag', ...words, '--json')).stdout) as {
        tags: { team: string }[]
      }
      return tags.map(({ team }) => team)
    }
    expect(await tag('Fall risk', 'visible', '--team', 'b')).toEqual(['b'])
    expect((await classify('tag')).stdout).toMatch(/^shown tag +team +of how many\nFall risk +b +1\n$/)
    expect(await tag('--team', 'a')).toEqual([])
    expect(await tag('Fall risk', 'visible')).toEqual(['a', 'b'])
    expect(await tag('Fall risk', 'hidden', '--team', 'b')).toEqual([])
    expect((await classify('tag')).stdout).toContain('Fall risk')
    await tag('Fall risk', 'hidden')
    expect((await classify('tag')).stdout).toBe('researchers see no tag\n')
  })
})

describe('classify import', () => {
  const file = (text: string) => {
    const path = join(folder, 'decisions.csv')
    writeFileSync(path, text)
    return path
  }

  it('decides on every row', async () => {
    const text =
      '\ufeffquestion_id,visibility,form,team,concept\r\nq1,visible,f,a,story\r\n\r\nq2,hidden,,b,\r\n'
    expect((await classify('import', file(text))).stdout).toBe('decided on 3 question(s)\n')
    expect(await shown()).toMatchObject({ 'a/f/q1': 'everything', 'b/f/q2': 'nothing', 'b/g/q2': 'nothing' })
    // The team of a row counts more than that of the command.
    const before = await shown()
    const rows = file('question_id,visibility,form,team\nq1,hidden,f,a\nq1,hidden,f,\n')
    expect((await classify('import', rows, '--team', 'b')).stdout).toBe('decided on 2 question(s)\n')
    expect(await shown()).toEqual({ ...before, 'a/f/q1': 'nothing', 'b/f/q1': 'nothing' })
    await classify('import', file('question_id,visibility,form,team\nq1,visible,f,a\n'))
  })

  it.each([
    [
      'a row that names no question',
      'question_id,visibility\nq1,hidden\nher-name,visible\n',
      1,
      'row 2 of FILE',
    ],
    ['a visibility that is none', 'question_id,visibility\nq1,hidden\nq1,her-name\n', 2, 'row 2 of FILE'],
    ['other columns', 'her-name,b\n1,2\n', 2, 'question_id,visibility'],
    ['what is no CSV', 'question_id,visibility\n"her-name\n', 2, 'question_id,visibility'],
  ])('of %s changes nothing, and does not quote the file', async (_, text, code, said) => {
    const before = await shown()
    const ended = await classify('import', file(text))
    expect(ended).toMatchObject({ code, stdout: '' })
    expect(ended.stderr).toContain(said)
    expect(ended.stderr).not.toContain('her-name')
    expect(await shown()).toEqual(before)
  })
})

describe('classify list', () => {
  it('lists each question, what is shown of it and who decided, without control characters for a terminal', async () => {
    const { stdout } = await classify('list', '--team', 'a', '--form', 'f')
    expect(stdout).toMatch(/^form +question +text +type +shows +decided by +concept$/m)
    expect(stdout).toMatch(/^Form f +q1 +What\?\\x1b\[2J +short_text +everything +person +story$/m)
    expect(stdout.trim().split('\n')).toHaveLength(3)
    const all = JSON.parse((await classify('list', '--json')).stdout).questions as { shows: string }[]
    const hidden = JSON.parse((await classify('list', '--hidden', '--json')).stdout).questions as unknown[]
    expect(hidden).toHaveLength(all.filter(({ shows }) => shows === 'nothing').length)
    expect(all).toHaveLength(8)
  })
})

describe('a file by form and text', () => {
  const LONG = `Over the last two weeks, how often were you bothered by ${'little interest or pleasure in '.repeat(5)}things?`
  const listed = async (...words: string[]) => (await classify('list', '--csv', ...words)).stdout

  beforeAll(() =>
    query(
      warehouse.url,
      `insert into intake.forms (team_id, id, name, _version, _origin)
         select team_id, 'long', 'A form, "long"', now(), 'test' from intake.teams where name = 'a';
       insert into intake.form_questions (team_id, form_id, position, question_id, question_type, text)
         select team_id, 'long', place, 'uuid-' || place, 'short_text', (array['${LONG}', E'Two\nlines ', 'Same', 'Same', null])[place]
         from intake.teams, generate_series(1, 5) place where name = 'a'`,
    ),
  )

  it('is written by list --csv with whole texts, ids only where form and text name no single question', async () => {
    const rows = parse(await listed('--form', 'long'), { columns: true }) as Record<string, string>[]
    expect(
      rows.map((row) => [row.team, row.form, row.question_text, row.question_id, row.visibility]),
    ).toEqual([
      ['a', 'A form, "long"', LONG, '', ''],
      ['a', 'A form, "long"', 'Two\nlines ', '', ''],
      ['a', 'A form, "long"', 'Same', 'uuid-3', ''],
      ['a', 'A form, "long"', 'Same', 'uuid-4', ''],
      ['a', 'A form, "long"', '', 'uuid-5', ''],
    ])
  })

  it('decides on the rows that were filled in, and nothing else, however often it is imported', async () => {
    const before = await shown()
    const file = join(folder, 'listed.csv')
    const text = await listed('--form', 'long')
    writeFileSync(file, text)
    expect((await classify('import', file)).stdout).toBe('decided on 0 question(s)\n')
    expect(await shown()).toEqual(before)
    const filled = parse(text, { columns: true }) as Record<string, string>[]
    for (const at of [0, 1, 3]) filled[at]!.visibility = 'visible'
    filled[4]!.concept = 'untitled'
    writeFileSync(file, stringify(filled, { header: true }))
    for (let times = 0; times < 2; times++)
      expect((await classify('import', file)).stdout).toBe('decided on 4 question(s)\n')
    expect(await shown()).toEqual({
      ...before,
      'a/long/uuid-1': 'everything',
      'a/long/uuid-2': 'everything',
      'a/long/uuid-4': 'everything',
    })
    const again = parse(await listed('--form', 'long'), { columns: true }) as Record<string, string>[]
    expect(again.map(({ visibility, concept }) => `${visibility}/${concept}`)).toEqual([
      ...['visible/', 'visible/', '/', 'visible/', '/untitled'],
    ])
  })

  it('may be written by hand; a text that no form asks changes nothing', async () => {
    const file = join(folder, 'by-hand.csv')
    writeFileSync(file, 'form,question_text,visibility\n"A form, ""long""",Same,hidden\n')
    expect((await classify('import', file)).stdout).toBe('decided on 2 question(s)\n')
    const before = await shown()
    writeFileSync(file, 'form,question_text,visibility\nlong,Same,visible\nlong,her-name,visible\n')
    const ended = await classify('import', file)
    expect(ended.code).toBe(1)
    expect(ended.stderr).toContain('row 2 of FILE')
    expect(ended.stderr).not.toContain('her-name')
    expect(await shown()).toEqual(before)
    expect((await classify('set', LONG, 'hidden', '--form', 'long')).stdout).toBe('hidden: one question\n')
  })

  it('on a terminal, however narrow, list shows each text as a whole', async () => {
    const env = { DATABASE_URL: warehouse.url }
    const { stdout } = await runCommand(['classify', 'list', '--form', 'long'], env, { columns: 60 })
    const plain = stripVTControlCharacters(stdout)
    expect(plain.replace(/\s+/g, ' ')).toContain(LONG)
    for (const words of ['uuid-1', 'short_text · shows nothing · person', 'A form, "long"'])
      expect(plain).toContain(words)
    expect(Math.max(...plain.split('\n').map((line) => [...line].length))).toBeLessThanOrEqual(60)
  })
})

test('a question that a second form asks too is decided by type there as well, and hidden when reworded', async () => {
  const listed = async () =>
    JSON.parse((await classify('list', '--team', 'a', '--form', 'h', '--json')).stdout).questions as unknown[]
  await query(
    warehouse.url,
    `insert into intake.form_questions (team_id, form_id, position, question_id, question_type, text)
     select team_id, 'h', 1, 'q2', 'number', 'Weight' from intake.teams where name = 'a'`,
  )
  expect(await listed()).toMatchObject([{ question_id: 'q2', decided_by: 'type', shows: 'structured' }])
  await query(warehouse.url, `update intake.form_questions set text = 'Case number' where form_id = 'h'`)
  expect(await listed()).toMatchObject([{ question_id: 'q2', decided_by: null, shows: 'nothing' }])
})
