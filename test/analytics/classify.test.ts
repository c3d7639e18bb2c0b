/** Decisions on questions and tags reach the chosen team, form and question, and nothing else. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import {
  countQuestions,
  decide,
  decideForResearchers,
  decideOnTag,
  type ForResearchers,
  listQuestions,
  nameConcept,
  noteQuestions,
  questionsOfText,
  shownTags,
  waitingQuestions,
  waitingText,
} from '../../src/analytics/classify.ts'
import { openSession, type Session } from '../../src/warehouse/connect.ts'
import { openWarehouse } from '../e2e/support/scene.ts'
import type { TestDatabase } from '../support/database.ts'

let warehouse: TestDatabase
let session: Session

beforeAll(async () => {
  warehouse = await openWarehouse()
  session = await openSession({ url: warehouse.url, purpose: 'classify' })
  await rows(
    `insert into intake.teams (name) values ('south'), ('north');
     insert into intake.forms (team_id, id, name, _version, _origin)
       select team_id, form, title, now(), 'test' from intake.teams, unnest('{f,g}'::text[], '{Zeta,Alpha}'::text[]) own (form, title);
     insert into intake.patient_tags (team_id, patient_id, position, name)
       values (1, 'p', 1, 'both'), (1, 'p', 2, 'both'), (1, 'q', 1, 'both'), (1, 'q', 2, 'mine'), (2, 'p', 1, 'both'), (2, 'p', 2, 'zest')`,
  )
})
afterAll(async () => {
  await session.close()
  await warehouse.drop()
})
beforeEach(() =>
  rows(
    `truncate intake.form_questions, intake_raw.question_terms, intake_ops.classifications, intake_ops.research_questions,
       intake_raw.question_concepts, intake_ops.research_tags, intake_ops.removed_teams;
     insert into intake.form_questions (team_id, form_id, position, question_id, question_type, text)
       select team_id, form, place, 'q' || 4 - place, type, ' Text ' || place || E'\\n' from intake.teams, unnest('{f,g}'::text[]) form,
         unnest('{number,short_text,dropdown}'::text[]) with ordinality own (type, place)`,
  ),
)

const rows = async (text: string): Promise<Record<string, unknown>[]> =>
  (await session.client.query(text)).rows
const decisions = async (table: string, columns: string) =>
  (
    await rows(
      `select concat_ws(' ', team_id, form_id, question_id, ${columns}) as line from ${table} order by 1`,
    )
  ).map(({ line }) => line)

describe('a decision', () => {
  it('is made for a team, a form by its id or name, and a question; without them for all', async () => {
    const { db } = session
    for (const [scope, count] of [
      [{ teamId: 1, form: 'f' }, 1],
      [{ teamId: 2, form: 'Alpha' }, 1],
      [{ form: 'f' }, 2],
      [{ teamId: 1 }, 2],
      [{}, 4],
    ] as const) {
      expect([scope, await countQuestions(db, scope, 'q1')]).toEqual([scope, count])
      expect([scope, await decideForResearchers(db, scope, 'q1', 'hidden')]).toEqual([scope, count])
      expect([scope, await decide(db, scope, 'q1', 'hidden')]).toEqual([scope, count])
    }
    expect(await countQuestions(db, {}, 'nothing')).toBe(0)
    // Each is bound to the type and to the whole text, with its blanks.
    for (const table of ['research_questions', 'classifications']) {
      const bound = await rows(
        `select from intake_ops.${table} made join intake.questions q using (team_id, form_id, question_id)
         where made.wording = intake_ops.wording(q.question_type, q.question_text)`,
      )
      expect([table, bound.length]).toEqual([table, 4])
    }
    await rows('truncate intake_ops.research_questions')
    await decideForResearchers(db, { teamId: 1, form: 'Zeta' }, 'q1', 'visible')
    await decideForResearchers(db, { teamId: 1 }, 'q2', 'age')
    await decideForResearchers(db, { teamId: 1, form: 'g' }, 'q2', 'hidden')
    expect(await decisions('intake_ops.research_questions', 'shows')).toEqual([
      '1 f q1 visible',
      '1 f q2 age',
      '1 g q2 hidden',
    ])
    expect(await decideForResearchers(db, { teamId: 1, form: 'f' }, 'q2', 'structured')).toBe(1)
    expect(await decisions('intake_ops.research_questions', 'shows')).toEqual([
      '1 f q1 visible',
      '1 g q2 hidden',
    ])
  })

  it('names a concept of the chosen question, another in its place, or none', async () => {
    const { db } = session
    await nameConcept(db, { teamId: 1 }, 'q1', 'first')
    await nameConcept(db, { teamId: 2, form: 'f' }, 'q1', 'theirs')
    await nameConcept(db, { teamId: 1, form: 'g' }, 'q1', 'second')
    await nameConcept(db, { teamId: 1, form: 'g' }, 'q2', 'another')
    expect(await decisions('intake_raw.question_concepts', 'concept')).toEqual([
      '1 f q1 first',
      '1 g q1 second',
      '1 g q2 another',
      '2 f q1 theirs',
    ])
    await nameConcept(db, { teamId: 1, form: 'g' }, 'q1', '')
    expect(await decisions('intake_raw.question_concepts', 'concept')).toEqual([
      '1 f q1 first',
      '1 g q2 another',
      '2 f q1 theirs',
    ])
  })

  it('that was made last counts for a later wording, also if it was made on an earlier one', async () => {
    const { db } = session
    const choice = { teamId: 1, form: 'f' }
    const reword = (text: string) =>
      rows(
        `update intake.form_questions set text = '${text}' where team_id = 1 and form_id = 'f' and question_id = 'q1'`,
      )
    const shown = async () =>
      (
        await rows(
          `select shows, waits from intake.questions where team_id = 1 and form_id = 'f' and question_id = 'q1'`,
        )
      )[0]
    await decide(db, choice, 'q1', 'hidden')
    await reword('Second')
    expect(await shown()).toEqual({ shows: 'nothing', waits: true })
    await decide(db, choice, 'q1', 'structured')
    await reword('Third')
    expect(await shown()).toEqual({ shows: 'structured', waits: true })
    await reword('Second')
    await decide(db, choice, 'q1', 'hidden')
    await reword('Third')
    expect(await shown()).toEqual({ shows: 'nothing', waits: true })
    await reword(' Text 3\n')
    await decide(db, choice, 'q1', 'structured')
    await reword('Third')
    expect(await shown()).toEqual({ shows: 'structured', waits: true })
  })

  it('for researchers that was made last counts for a later wording, also if it was made on an earlier one', async () => {
    const { db } = session
    const reword = (text: string) =>
      rows(
        `update intake.form_questions set text = '${text}' where team_id = 1 and form_id = 'f' and question_id = 'q1'`,
      )
    const decideOn = async (text: string, shows: ForResearchers) => {
      await reword(text)
      await decideForResearchers(db, { teamId: 1, form: 'f' }, 'q1', shows)
    }
    const shown = async () =>
      (
        await rows(
          `select shows, is_age from intake_raw.safe_terms where team_id = 1 and form_id = 'f' and question_id = 'q1'`,
        )
      )[0]
    await decideOn('First', 'age')
    await decideOn('Second', 'visible')
    await decideOn('First', 'hidden')
    expect(await shown()).toEqual({ shows: 'hidden', is_age: false })
    await reword('Third')
    expect(await shown()).toEqual({ shows: 'hidden', is_age: false })
    await decideOn('Second', 'age')
    await reword('Third')
    expect(await shown()).toEqual({ shows: 'type', is_age: true })
    // Of the other team nobody decided anything.
    expect(await rows(`select from intake_raw.safe_terms where team_id = 2 and shows <> 'type'`)).toEqual([])
  })

  it('by type is noted once for each new question, also for one that was asked before and never decided on', async () => {
    const { db } = session
    await rows(
      `delete from intake.form_questions where team_id = 1 and form_id = 'f' and question_id in ('q1', 'q2')`,
    )
    await decide(db, { teamId: 1, form: 'g' }, 'q3', 'hidden')
    await decide(db, { teamId: 1, form: 'f' }, 'q2', 'visible')
    await rows(
      `update intake_raw.question_terms set question_text = 'before' where team_id = 1 and form_id = 'f' and question_id = 'q2'`,
    )
    await rows(
      `update intake.form_questions set text = 'now' where team_id = 1 and form_id = 'g' and question_id = 'q3'`,
    )
    await noteQuestions(db)
    await noteQuestions(db)
    const made = (await decisions('intake_ops.classifications', 'is_visible, decided_by')).filter((line) =>
      String(line).startsWith('1'),
    )
    expect(made).toEqual([
      '1 f q1 t type',
      '1 f q2 t person',
      '1 f q3 t type',
      '1 g q1 t type',
      '1 g q2 f type',
      '1 g q3 f person',
    ])
  })
})

describe('questions', () => {
  it('are listed by team, form and place', async () => {
    const listed = await listQuestions(session.db, {})
    expect(listed.map(({ team, form, question_id }) => `${team} ${form} ${question_id}`)).toEqual(
      ['north', 'south'].flatMap((team) =>
        ['Alpha', 'Zeta'].flatMap((form) => ['q3', 'q2', 'q1'].map((id) => `${team} ${form} ${id}`)),
      ),
    )
    expect(await listQuestions(session.db, { teamId: 1, form: 'f' })).toHaveLength(3)
    // Forms of one name one after the other.
    await rows(`begin; update intake.forms set name = 'Same'`)
    const alike = await listQuestions(session.db, { teamId: 1 })
    await rows('rollback')
    expect(alike.map(({ form_id, question_id }) => `${form_id} ${question_id}`)).toEqual(
      ['f', 'g'].flatMap((form) => ['q3', 'q2', 'q1'].map((id) => `${form} ${id}`)),
    )
  })

  it('are found by their text, blanks around it aside, in the order of teams, forms and places', async () => {
    await rows(
      `update intake.form_questions set text = E'\\r\\n\\t Text 2\\t \\r\\n' where form_id = 'g' and question_id = 'q2'`,
    )
    const found = await questionsOfText(session.db, {}, '\t Text 2 \r\n')
    expect(found.map(({ teamId, form, questionId }) => `${teamId} ${form} ${questionId}`)).toEqual([
      '1 f q2',
      '1 g q2',
      '2 f q2',
      '2 g q2',
    ])
    expect(await questionsOfText(session.db, { teamId: 2, form: 'g' }, 'Text 2')).toHaveLength(1)
    expect(await questionsOfText(session.db, {}, 'Text')).toEqual([])
  })

  it('wait for a decision unless their team was removed, by team, form and place', async () => {
    const { db } = session
    await noteQuestions(db)
    expect(await waitingQuestions(db)).toEqual([])
    await rows(`update intake.form_questions set text = 'other' where question_id <> 'q2'`)
    const waiting = async () =>
      (await waitingQuestions(db)).map(
        ({ team, form_id, question_id }) => `${team} ${form_id} ${question_id}`,
      )
    const of = (team: string) => [`${team} f q3`, `${team} f q1`, `${team} g q3`, `${team} g q1`]
    expect(await waiting()).toEqual([...of('north'), ...of('south')])
    await rows(`insert into intake_ops.removed_teams (team_id, name, data) values (1, 'south', 'kept')`)
    expect(await waiting()).toEqual(of('north'))
  })

  it('that wait are named up to five, and then counted', () => {
    const waiting = (count: number) =>
      waitingText(Array.from({ length: count }, (_, at) => ({ form_id: 'f', question_id: `q${at}` })))
    expect(waiting(1)).toBe(
      '1 reworded question(s) wait for a decision: q0 of form f; see intake-sync classify list --waiting',
    )
    expect(waiting(5)).toMatch(/^5 .*q0 of form f, .*q4 of form f; see/)
    expect(waiting(6)).toMatch(/^6 .*q4 of form f, and 1 more; see/)
  })
})

describe('a tag', () => {
  it('is shown to researchers and hidden again in the chosen team, if some patient has it', async () => {
    const { db } = session
    const shown = async (scope: { teamId?: number } = {}) =>
      (await shownTags(db, scope)).map(({ team, name, patients }) => `${team} ${name} ${patients}`)
    const decisionTimes = async () =>
      (
        await rows(
          `select concat_ws(' ', team_id, name, case when decided_at > now() - interval '1 hour' then 'true' else 'false' end) as line
           from intake_ops.research_tags order by 1`,
        )
      ).map(({ line }) => line)
    expect(await decideOnTag(db, { teamId: 2 }, 'mine', true)).toBe(false)
    expect(await decideOnTag(db, {}, 'nobody has it', true)).toBe(false)
    expect(await decideOnTag(db, { teamId: 1 }, 'both', true)).toBe(true)
    expect(await shown()).toEqual(['south both 2'])
    expect(await decideOnTag(db, {}, 'both', true)).toBe(true)
    expect(await decideOnTag(db, {}, 'mine', true)).toBe(true)
    expect(await shown()).toEqual(['north both 1', 'south both 2', 'south mine 1'])
    expect(await shown({ teamId: 2 })).toEqual(['north both 1'])
    expect(await decideOnTag(db, { teamId: 1 }, 'both', false)).toBe(true)
    expect(await decideOnTag(db, { teamId: 1 }, 'both', false)).toBe(false)
    expect(await shown()).toEqual(['north both 1', 'south mine 1'])
    await rows(`insert into intake_ops.research_tags (team_id, name) values (1, 'nobody has it any more')`)
    expect(await shown({ teamId: 1 })).toEqual(['south mine 1', 'south nobody has it any more 0'])
    expect(await decideOnTag(db, {}, 'nobody has it any more', false)).toBe(true)
    // Once more: it is shown, since then.
    await rows(`update intake_ops.research_tags set decided_at = '2026-01-01Z'`)
    expect(await decideOnTag(db, { teamId: 1 }, 'mine', true)).toBe(true)
    expect(await decisionTimes()).toEqual(['1 mine true', '2 both false'])
    // By team, then by name.
    expect(await decideOnTag(db, { teamId: 2 }, 'zest', true)).toBe(true)
    expect(await shown()).toEqual(['north both 1', 'north zest 1', 'south mine 1'])
  })
})
