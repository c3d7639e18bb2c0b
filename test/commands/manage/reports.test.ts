/** What erasures, removals and migrations print, in their rare states too. */
import { describe, expect, it } from 'vitest'
import { textOf as tierText } from '../../../src/commands/analysts/privacy.ts'
import * as erasing from '../../../src/commands/manage/erase.ts'
import { notesText, planText, statusText } from '../../../src/commands/manage/migrate.ts'
import { isConfigured, textOf as removedText } from '../../../src/commands/manage/teams.ts'
import type { Erased } from '../../../src/operate/erase/erase.ts'

const output = { write: () => true }
const context = {
  ...{ env: {}, stdout: output, stderr: output, signal: new AbortController().signal, version: '' },
}

const ERASED: Erased = {
  ...{
    records: 1,
    history: 2,
    events: 3,
    deadLetters: 4,
    exportRows: 5,
    statisticsRefreshed: true,
    unnamedLeft: 0,
  },
  ...{ rewritten: null, patientHash: 'hash', login: 'ada' },
  searched: { identifiers: 6, leftOut: 0, columns: 7, unreadable: [], left: [] },
}
const whole = { tables: ['a', 'b'], notOwned: [], keepers: [], isComplete: true }
const [place, other] = [
  { table: 't', column: 'c', rows: 8 },
  { table: 'u', column: 'd', rows: 1 },
] as const

describe('an erasure', () => {
  it('needs a person where something is left, or could not be rewritten', () => {
    expect(erasing.needsPerson(ERASED)).toBe(false)
    expect(erasing.needsPerson({ ...ERASED, rewritten: whole })).toBe(false)
    expect(erasing.needsPerson({ ...ERASED, unnamedLeft: 1 })).toBe(true)
    expect(erasing.needsPerson({ ...ERASED, searched: { ...ERASED.searched, left: [place] } })).toBe(true)
    expect(erasing.needsPerson({ ...ERASED, rewritten: { ...whole, isComplete: false } })).toBe(true)
  })

  it('asks with what was found in each stream, and says that the patient was erased before', () => {
    const found = new Map([
      ['patients', ['p']],
      ['responses', ['r1', 'r2', 'r3']],
    ])
    const asked = (erasedBefore: boolean) => erasing.question('p\u001b1', 'north', { found, erasedBefore })
    const rest = '1 of patients, 3 of responses, their history, events and rows of exports?'
    expect(asked(false)).toBe(`Erase patient p\\x1b1 of team north: ${rest}`)
    expect(asked(true)).toBe(`Erase patient p\\x1b1 of team north (erased before): ${rest}`)
  })

  it('says what was removed, what is kept of the id, and where it searched', () => {
    const text = erasing.textOf(context, ERASED, {}).split('\n')
    expect(text).toEqual([
      'erased: 1 records, 2 earlier states, 3 events, 4 dead letters, 5 rows of exports',
      'A keyed hash of the id is kept: later records of the patient are skipped.',
      'searched 7 columns for 6 identifiers: nothing left',
      'The files of the tables contain the deleted rows until Postgres uses their space again; --vacuum rewrites the files now.',
      'Backups and logs of Postgres are not changed: let them expire (docs/operations.md).',
      '',
    ])
    expect(erasing.textOf(context, ERASED, { forget: true })).toContain('\nNo hash of the id is kept: ')
  })

  it('names each place where something is left, and what could not be done', () => {
    const text = erasing.textOf(
      context,
      {
        ...{ ...ERASED, statisticsRefreshed: false, unnamedLeft: 9 },
        searched: { identifiers: 6, leftOut: 2, columns: 7, unreadable: ['u', 'v'], left: [place, other] },
        rewritten: { tables: ['a'], notOwned: ['x', 'y'], keepers: ['somebody'], isComplete: false },
      },
      {},
    )
    for (const line of [
      'searched 7 columns for 6 identifiers (not for 2 that are short, or another patient’s too): left in 2 place(s)',
      'left: t.c, 8 row(s)\nleft: u.d, 1 row(s)',
      'left: 9 row(s) of exports without a Client ID have the patient’s name and e-mail address; look at them, and add --unnamed-rows to erase them',
      'not searched, because the login may not read: u, v',
      'Planner statistics of Postgres may still contain some values: see docs/security.md.',
      'not rewritten, because the login does not own them: x, y',
      'the files still contain deleted rows, because other sessions could still read them: somebody; end these, and run this again',
    ])
      expect(text).toContain(`\n${line}\n`)
    expect(text).not.toContain('rewrote')
    expect(erasing.textOf(context, { ...ERASED, rewritten: whole }, {})).toContain('\nrewrote 2 tables\n')
  })

  it('is a document of counts, with what is left', () => {
    const searched = { identifiers: 6, leftOut: 2, columns: 7, unreadable: ['u', 'v'], left: [place, other] }
    const rewritten = { ...whole, notOwned: ['x'], keepers: ['k'], isComplete: false }
    const erased = { ...ERASED, unnamedLeft: 9, searched, rewritten }
    expect(erasing.documentOf('north', erased, { forget: true })).toEqual({
      ...{
        team: 'north',
        hash_kept: false,
        statistics_refreshed: true,
        unnamed_rows_left: 9,
        left: [place, other],
      },
      erased: { records: 1, history: 2, events: 3, dead_letters: 4, export_rows: 5 },
      rewritten: { complete: false, tables: ['a', 'b'], not_owned: ['x'], kept_for: ['k'] },
      search: { identifiers: 6, left_out: 2, columns: 7, unreadable_tables: ['u', 'v'] },
    })
    expect(erasing.documentOf('north', ERASED, {})).toMatchObject({ hash_kept: true, rewritten: null })
  })
})

it('the removal of a team says what became of its events and rows, and what is left to do, with all notes', () => {
  const removed = { teamId: 1, events: 3, rows: 40, tables: ['a', 'b'], notes: ['a note'] }
  const text = (data: 'kept' | 'deleted', more: object = {}, name = 'north') =>
    removedText(context, { inboxDays: 30 } as never, name, data, { ...removed, ...more })
  expect(text('kept').split('\n')).toEqual([
    'removed: north; its rows are kept',
    '3 pending event(s) are dead; their bytes stay for 30 days, and they are pending again if the team is created again by then.',
    'The next backfill with the team in its configuration creates it again and reads everything.',
    ...['a note', 'Delete its webhook at the service: further events are answered 404.', ''],
  ])
  const deleted = [
    'removed: north; 40 rows of 2 tables were deleted, including 3 pending event(s)',
    'Backups and logs of Postgres are not changed: let them expire (docs/operations.md).',
  ]
  const last = ['Delete its webhook at the service: further events are answered 404.', '']
  expect(text('deleted').split('\n')).toEqual([...deleted, 'a note', ...last])
  const notes = ['views stay', 'statistics stay']
  expect(text('deleted', { notes }).split('\n')).toEqual([...deleted, ...notes, ...last])
  for (const data of ['kept', 'deleted'] as const)
    expect(text(data, { notes: [] }, 'no\u001brth')).toMatch(/^removed: no\\x1brth; (?!.*note)/s)
})

it('a team counts as configured where the configuration names it; the team of an unnamed one does not', () => {
  const config = (namesTeams: boolean) =>
    ({ namesTeams, ingestTeams: [{ name: 'a' }, { name: 'default' }] }) as never
  expect(isConfigured(config(true), 'default')).toBe(true)
  expect(isConfigured(config(true), 'b')).toBe(false)
  expect(isConfigured(config(false), 'default')).toBe(false)
})

describe('migrations', () => {
  const statement = (more: object) => ({
    ...{
      migration: '0002_more',
      statement: 's'.repeat(80),
      table: 't',
      lock: 'share',
      rows: 10,
      is_long: false,
    },
    ...{ in_batches: false, seconds: 0, ...more },
  })

  it('are listed as applied and pending, and it says how far the warehouse is behind', () => {
    expect(statusText({ applied: ['a'], pending: ['b', 'c'] })).toBe(
      'applied  a\npending  b\npending  c\nbehind by 2: run intake-sync migrate\n',
    )
    expect(statusText({ applied: ['a', 'b'], pending: [] })).toBe('applied  a\napplied  b\nup to date\n')
  })

  it('have every note on a line of its own, that about the roles first', () => {
    expect(notesText({ rolesNote: 'the roles', notes: ['one', 'two'] })).toBe(
      'note: the roles\nnote: one\nnote: two\n',
    )
    expect(notesText({ rolesNote: null, notes: [] })).toBe('')
  })

  it('that are planned show the locks of tables that are there, and how long these are locked', () => {
    expect(planText(context, [])).toBe('up to date\n')
    const plan = [
      statement({ migration: '0001_first', lock: 'none', table: null, rows: null }),
      statement({ rows: null, table: null, lock: 'unknown' }),
      statement({ is_long: true, rows: 100, seconds: 2, statement: 's'.repeat(81) }),
      statement({ is_long: true, in_batches: true, rows: 900, seconds: 40 }),
      statement({ seconds: 3 }),
    ] as unknown as Parameters<typeof planText>[1]
    const text = planText(context, plan)
    expect(text).toContain(
      '2 migration(s), one transaction before and after each migration that runs in batches (0002_more): 0001_first, 0002_more\n',
    )
    expect(
      text
        .split('\n')
        .filter((line) => line.startsWith('0002'))
        .map((line) => line.replace(/ {2,}/g, '  ')),
    ).toEqual([
      `0002  unknown  -  -  ${'s'.repeat(80)}`,
      `0002  share  t  100, all read or written: 2 s  ${'s'.repeat(79)}…`,
      `0002  share  t  900, all read or written in batches  ${'s'.repeat(80)}`,
      `0002  share  t  10  ${'s'.repeat(80)}`,
    ])
    expect(text).toContain(
      '\n1 statement(s) lock no existing table.\nEstimate: the locks are held for about 5 s.\n',
    )
    expect(planText(context, plan.slice(0, 1))).toContain(
      '1 migration(s), all in one transaction: 0001_first\n',
    )
  })
})

it('a tier says which rules are broken by how many values, and how small its groups of people are', () => {
  const column = (name: string, broken: number, values_under: number | null) => ({
    column: name,
    rule: 'a rule',
    broken,
    values_under,
  })
  const tier = {
    ...{ schema: 's', tier: 'safe harbor', role: 'r', broken: 3 },
    views: [{ view: 'v', rows: 9, columns: [column('a', 3, 2), column('b', 0, null), column('c', 0, 4)] }],
    k_anonymity: { columns: ['x', 'y'], k: null, groups: 5, people_in_groups_under: 6 },
  } as unknown as Parameters<typeof tierText>[0]
  expect(tierText(tier)).toBe(
    [
      's (r): safe harbor',
      'view  rows  columns  values of under 11  broken',
      'v        9        3                   6       3',
      'x, y: 5 groups, the smallest of 0; 6 patients in groups of under 11',
      'broken: v.a: a rule (3)\n\n',
    ].join('\n'),
  )
  expect(tierText({ ...tier, broken: 0, k_anonymity: { ...tier.k_anonymity, columns: [] } })).toMatch(
    /\nv .*\nno rule is broken\n\n$/,
  )
})
